"""Honest holdouts, copied rows and an attacker who has all versions: small simulations."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies.training_overlap import attacked_versions, copies


@pytest.mark.parametrize(
    ("coincidence", "rows", "tables"),
    # the last takes three seconds
    [(0.0, 800, 12), (0.25, 20_000, 2), pytest.param(0.55, 20_000, 12, marks=pytest.mark.long)],
)
def test_honest_holdouts_pass_and_a_tenth_is_found(
    coincidence: float, rows: int, tables: int
) -> None:
    """A part of the tables of `benchmarks.studies.training_overlap`."""
    cell = copies(coincidence, rows, rows // 4, tables, np.random.default_rng(3))
    assert cell["false_refusals"] == 0.0
    assert cell["tenth_found"] == 1.0
    assert cell["mean_estimate_of_tenth"] == pytest.approx(0.1, abs=0.02)


def test_all_versions_tell_an_attacker_nothing() -> None:
    """Twelve versions of a growing table; without the key a stranger looks like a member."""
    cell = attacked_versions(400, 100, np.random.default_rng(0))
    assert cell["strangers_left_by_bits"] < 0.03
    assert cell["strangers_left_without_key"] >= 0.4
    assert cell["auc_without_key"] == pytest.approx(0.5, abs=0.08)
