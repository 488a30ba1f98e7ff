"""The interval of a mean difference by hand and against the corrected t-test; Holm's correction by
hand.
"""

from __future__ import annotations

import math

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evenhand.fairlib.evaluation.comparison import Summary, holm, mean_difference
from tests.oracles.resampled_comparison import corrected_t_test

NUMBERS = st.lists(st.floats(-1, 1).map(lambda x: round(x, 6)), min_size=2, max_size=12)


def test_by_hand() -> None:
    # differences 1, 2, 3: mean 2, variance 1; (1/3 + 1/4) * 1 = 7/12, and t of 2 degrees of freedom
    found = mean_difference([1.0, None, 2.0, 3.0], ratio=0.25)
    half = 4.302652729911275 * math.sqrt(7 / 12)
    assert (found.n, found.mean, found.sd) == (3, 2.0, 1.0)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))


@given(NUMBERS)
def test_without_shared_rows_it_is_the_ordinary_interval(differences: list[float]) -> None:
    found = mean_difference(differences, ratio=0.0, level=0.9)
    if found.low is None or found.low == found.high:
        return
    interval = scipy.stats.ttest_1samp(differences, 0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx(tuple(interval), abs=1e-9)


@given(NUMBERS, st.floats(0.01, 4))
def test_it_contains_zero_where_the_corrected_test_finds_nothing(
    differences: list[float], ratio: float
) -> None:
    test = corrected_t_test(differences, [0.0] * len(differences), ratio=ratio)
    found = mean_difference(differences, ratio=ratio)
    if found.low is None or found.high is None or test.p is None or abs(test.p - 0.05) < 1e-6:
        return
    assert (found.low <= 0 <= found.high) == (test.p > 0.05)


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([None], Summary(None, None, 0)),
        ([0.25, None], Summary(0.25, None, 1)),
        # the same everywhere: surely no difference
        ([0.0, 0.0, 0.0], Summary(0.0, 0.0, 3, 0.0, 0.0)),
        # the same difference everywhere: no variance to judge it by
        ([0.25, 0.25], Summary(0.25, 0.0, 2)),
    ],
)
def test_without_variance_or_splits_there_is_no_interval(
    differences: list[float | None], expected: Summary
) -> None:
    assert mean_difference(differences, ratio=0.25) == expected


def test_rounding_is_no_variance() -> None:
    found = mean_difference([0.3 - 0.2, 0.8 - 0.7, 0.9 - 0.8], ratio=0.25)
    assert found.sd
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize("ratio", [-0.1, math.nan, math.inf])
def test_a_ratio_out_of_range_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match=r"ratio: got"):
        mean_difference([0.5], ratio=ratio)


def test_holm_by_hand() -> None:
    # 4 * 0.01; 3 * 0.02; 2 * 0.025 is below 0.06 before it; 0.5
    assert holm([0.025, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.4, None, 0.9]) == [0.8, None, 0.9]
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([None]) == [None]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8), st.randoms())
def test_holm_lies_between_the_p_value_and_bonferronis(
    p_values: list[float], random: object
) -> None:
    """The order of the p-values does not matter."""
    corrected = holm(p_values)
    for p, found in zip(p_values, corrected, strict=True):
        assert found is not None
        assert p <= found <= min(1.0, len(p_values) * p)
    order = list(range(len(p_values)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert holm([p_values[i] for i in order]) == [corrected[i] for i in order]


def test_holm_refuses_what_is_no_p_value() -> None:
    with pytest.raises(ValueError, match=r"p_values: got 1\.5"):
        holm([0.5, 1.5])
