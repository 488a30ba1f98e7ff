"""Counterfactual token gaps: by hand, with few sentences, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.fairlib.evaluation.tokens import token_gaps

OWN = np.array([0, 2])
PROBABILITY = np.array([0.5, 0.2])
# of the own term, which does not count, the copies differ all the same
COPIES = np.array([[0.9, 0.6, 0.3], [0.2, 0.0, 0.7]])
NAMES = ["a", "b", "c"]


def test_gaps_by_hand() -> None:
    metrics, terms = token_gaps(PROBABILITY, COPIES, OWN, names=NAMES, draws=0, min_cell=1)
    # |.6 - .5|, |.3 - .5|, |.2 - .2|, |0 - .2|
    assert metrics["token_gap"].value == pytest.approx((0.1 + 0.2 + 0.0 + 0.2) / 4)
    assert metrics["token_gap_p95"].value == pytest.approx(0.2)
    assert metrics["token_gap"].low is None
    assert [term["sentences"] for term in terms] == [1, 2, 1]
    assert [term["gap"] for term in terms] == pytest.approx([0.0, 0.15, 0.2])
    assert [term["shift"] for term in terms] == pytest.approx([0.0, -0.05, -0.2])


def test_the_95th_percentile_is_the_least_value_not_exceeded() -> None:
    """95 percent of the values do not exceed it."""
    moved = np.arange(1, 41) / 100
    copies = np.stack([np.zeros(40), moved], axis=1)
    metrics, _ = token_gaps(
        np.zeros(40), copies, np.zeros(40, dtype=int), names=["a", "b"], draws=0
    )
    assert metrics["token_gap_p95"].value == pytest.approx(0.38)  # 38 of 40


def test_too_few_sentences_are_no_evidence() -> None:
    metrics, terms = token_gaps(PROBABILITY, COPIES, OWN, names=NAMES, draws=0, min_cell=3)
    assert {metric.status for metric in metrics.values()} == {"insufficient_evidence"}
    assert terms == []
    _, terms = token_gaps(PROBABILITY, COPIES, OWN, names=NAMES, draws=0, min_cell=2)
    assert [term["gap"] is None for term in terms] == [True, False, True]


def test_intervals_come_from_both_sentences_and_terms() -> None:
    rng = np.random.default_rng(0)
    base, own = rng.uniform(size=300), np.zeros(300, dtype=int)
    by_term = np.linspace(0.0, 0.5, 6)
    metrics, terms = token_gaps(
        base, base[:, None] + by_term, own, names=list("abcdef"), draws=400, min_cell=5
    )
    gap = metrics["token_gap"]
    assert gap.value == pytest.approx(0.3)
    # the sentences move alike, so all chance is that of the terms
    assert gap.low < 0.25 < 0.35 < gap.high  # type: ignore[operator]
    assert terms[3]["low"] == pytest.approx(terms[3]["high"])
    again, _ = token_gaps(
        base, base[:, None] + by_term, own, names=list("abcdef"), draws=400, min_cell=5
    )
    assert again == metrics
