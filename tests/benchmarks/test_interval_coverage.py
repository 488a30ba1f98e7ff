"""Coverage of the intervals, on a part of the cells that `benchmarks.studies.interval_coverage` has."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies.interval_coverage import (
    pairs_of_groups,
    random_groups,
    single_rates,
    summary,
)


def test_rates_are_covered_exactly() -> None:
    found = summary(single_rates([5, 11, 20, 54, 300, 1000, 5000]))["rate"]
    assert found["mean"] >= 0.95
    assert found["smallest"] >= 0.95


@pytest.mark.parametrize("metric", ["demographic_parity_difference", "impact_ratio"])
def test_differences_and_ratios_of_two_groups_are_covered(metric: str) -> None:
    found = summary(pairs_of_groups([5, 50, 5000], 300, np.random.default_rng(1), [metric]))[metric]
    assert found["mean"] >= 0.95
    # .93 less three standard errors of 300 draws
    assert found["smallest"] >= 0.89


def test_gaps_of_several_groups_are_covered() -> None:
    found = summary(random_groups(9, [5, 50, 1000], 300, np.random.default_rng(2)))
    assert set(found) >= {"gap_max", "gap_rms", "balanced_accuracy_difference", "impact_ratio"}
    for kind, row in found.items():
        assert row["mean"] >= 0.95, kind
        assert row["smallest"] >= 0.89, kind
