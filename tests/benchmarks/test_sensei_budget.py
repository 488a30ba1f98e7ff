"""The choice of SenSeI's budget: its gaps by hand, and the rule."""

from __future__ import annotations

import pytest

from benchmarks.common import read_result
from benchmarks.reproductions.paper_rows import row_of
from benchmarks.reproductions.sensei_budget import (
    INDEPENDENT_SPLIT,
    PRINTED,
    chosen,
    class_gaps,
    mean_gap,
)


def test_gaps_by_hand() -> None:
    # label 1: a 2/2, b 1/2 right; label 0: a 1/1, b 3/4 right
    label = [1, 1, 1, 1, 0, 0, 0, 0, 0]
    decision = [1, 1, 1, 0, 0, 0, 0, 0, 1]
    group = ["a", "a", "b", "b", "a", "b", "b", "b", "b"]
    largest, mean = class_gaps(label, decision, group)
    assert largest == pytest.approx(0.5)
    assert mean == pytest.approx(((0.5**2 + 0.25**2) / 2) ** 0.5)


def test_the_smallest_mean_of_four_gaps_is_chosen() -> None:
    names = ("gap_max.sex", "gap_rms.sex", "gap_max.race", "gap_rms.race")
    wide = {"balanced_accuracy": 0.9, **dict.fromkeys(names, 0.2)}
    narrow = {"balanced_accuracy": 0.1, **dict.fromkeys(names, 0.1)}
    assert mean_gap(wide) == pytest.approx(0.2)
    assert chosen([wide, narrow]) is narrow


def test_the_row_of_the_page_has_what_was_chosen() -> None:
    row = row_of("sensei", "adult sensei")
    best = chosen(read_result("papers_sensei_budget")["rows"])
    changes = dict(change.split("=") for change in row.changes)
    for name in ("perturbation_budget", "n_steps"):
        assert float(changes[f"method.{name}"]) == best[name]
    for name in ("class_balance", "full_steps"):
        assert float(changes[f"method.{name}"]) == PRINTED[name]
    # the rows are measured on splits 0 to 9
    assert row.splits <= INDEPENDENT_SPLIT
