"""Intervals in closed form: published examples, edges, and that they contain the truth often
enough.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from evenhand.fairlib.evaluation.closed_intervals import (
    Estimates,
    auc_interval,
    bounded_mean_interval,
    corrected_level,
    exact_interval,
    largest_difference,
    mean_interval,
    pairs_of,
    pairwise_differences,
    pairwise_ratios,
    rate_interval,
    smallest_ratio,
)


def rates(hits: list[int], n: list[int], level: float = 0.95) -> Estimates:
    return exact_interval(hits, n, level)


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (5, 5), (1, 20), (37, 300), (2500, 5000)])
def test_the_exact_interval_is_that_of_scipy(hits: int, n: int) -> None:
    expected = binomtest(hits, n).proportion_ci(0.9, method="exact")
    assert rate_interval(hits, n, 0.9) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_an_interval_needs_a_part_of_some_rows() -> None:
    for hits, n in ((3, 2), (-1, 4), (0, 0)):
        with pytest.raises(ValueError, match=f"got {hits} of {n}"):
            rate_interval(hits, n, 0.95)
    nobody = exact_interval([0.0], [0.0], 0.95)
    assert np.isnan(nobody.value[0])
    assert (nobody.low[0], nobody.high[0]) == (0.0, 1.0)


def test_differences_are_newcombes() -> None:
    # Newcombe 1998, table II, method 10: 56/70 and 48/80 with Wilson's intervals
    wilson = [binomtest(*counts).proportion_ci(0.95, "wilson") for counts in ((56, 70), (48, 80))]
    parts = Estimates(
        np.array([0.8, 0.6]),
        np.array([one.low for one in wilson]),
        np.array([one.high for one in wilson]),
    )
    found = pairwise_differences(parts)
    assert (found.value[0, 1], found.low[0, 1], found.high[0, 1]) == pytest.approx(
        (0.2, 0.0524, 0.3339), abs=5e-5
    )
    # the other way round it is the same with its sign turned
    assert (found.low[1, 0], found.high[1, 0]) == pytest.approx((-0.3339, -0.0524), abs=5e-5)


def test_a_ratio_without_a_selection_has_an_interval() -> None:
    # the fault: 0 of 20 gave the ratio 0 with the interval [0, 0]
    parts = rates([0, 50], [20, 100])
    found = smallest_ratio(parts, parts)
    assert (float(found.value), float(found.low)) == (0.0, 0.0)
    # the rate's own end is .168, and the other rate about one half
    assert 0.168 / 0.5 < float(found.high) < 0.5
    nobody = smallest_ratio(rates([0, 0], [20, 100]), rates([0, 0], [20, 100]))
    assert np.isnan(nobody.value)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=2, max_size=4),
    st.floats(0.5, 0.99),
)
def test_intervals_hold_their_estimate_and_are_never_of_width_0(
    drawn: list[tuple[int, int]], level: float
) -> None:
    n = [max(counts) for counts in drawn]
    hits = [min(counts) for counts in drawn]
    narrow = rates(hits, n, level)
    wide = rates(hits, n, corrected_level(level, pairs_of(len(n))))
    for found in (largest_difference(narrow, wide), mean_interval(narrow)):
        assert found.low <= found.value + 1e-12
        assert found.value <= found.high + 1e-12
        assert found.high - found.low > 1e-3
    ratio = smallest_ratio(narrow, wide)
    if not np.isnan(ratio.value):
        assert 0.0 <= ratio.low <= ratio.value + 1e-12
        assert ratio.value <= ratio.high + 1e-12 <= 1.0 + 1e-12
        assert ratio.high - ratio.low > 1e-3


def test_ratios_turned_round_are_reciprocal() -> None:
    found = pairwise_ratios(rates([30, 60], [100, 120]))
    assert found.low[0, 1] == pytest.approx(1.0 / found.high[1, 0])
    assert found.high[0, 1] == pytest.approx(1.0 / found.low[1, 0])


def test_the_interval_of_equal_groups_holds_0() -> None:
    narrow = rates([50, 50, 50], [100, 100, 100])
    wide = rates([50, 50, 50], [100, 100, 100], corrected_level(0.95, 3))
    found = largest_difference(narrow, wide)
    assert (float(found.value), float(found.low)) == (0.0, 0.0)
    assert 0.13 < float(found.high) < 0.15


def test_a_perfect_auc_is_not_certain() -> None:
    low, high = auc_interval(1.0, 10, 10, 0.95)
    assert high == 1.0
    assert 0.75 < low < 0.85
    assert auc_interval(0.0, 10, 10, 0.95) == pytest.approx((0.0, 1.0 - low))
    # of many rows it is that of a normal distribution
    near = auc_interval(0.8, 5000, 5000, 0.95)
    assert near == pytest.approx((0.791, 0.809), abs=2e-3)


def test_a_mean_of_equal_numbers_has_the_interval_of_a_share() -> None:
    assert bounded_mean_interval(0.0, 20, 0.95) == pytest.approx((0.0, 0.168), abs=1e-3)
    assert bounded_mean_interval(3.0, 20, 0.95, most=3.0) == pytest.approx(
        (3 * 0.832, 3.0), abs=1e-2
    )
    assert bounded_mean_interval(1.0, 20, 0.95, least=1.0, most=1.0) == (1.0, 1.0)
