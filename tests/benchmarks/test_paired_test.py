"""The corrected resampled t-test by hand and against SciPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.resampled_comparison import PairedTest, corrected_t_test

NUMBERS = st.lists(
    st.tuples(*[st.floats(0, 1).map(lambda x: round(x, 6))] * 2), min_size=2, max_size=12
)


def test_by_hand() -> None:
    # differences 1, 2, 3: mean 2, variance 1; (1/3 + 1/4) * 1 = 7/12
    found = corrected_t_test([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], ratio=0.25)
    assert found.n == 3
    assert found.difference == 2.0
    assert found.t == pytest.approx(2 / math.sqrt(7 / 12))
    # with two degrees of freedom the distribution has a closed form
    assert found.p == pytest.approx(1 - found.t / math.sqrt(2 + found.t**2))


def test_the_sign_is_that_of_the_value_minus_the_reference() -> None:
    more = corrected_t_test([0.5, 0.75, 0.5], [0.25, 0.25, 0.5], ratio=0.25)
    less = corrected_t_test([0.25, 0.25, 0.5], [0.5, 0.75, 0.5], ratio=0.25)
    assert more.t is not None
    assert more.t > 0
    assert less == PairedTest(3, -more.difference, -more.t, more.p)  # type: ignore[operator]


@given(NUMBERS)
def test_without_shared_rows_it_is_the_ordinary_paired_test(
    pairs: list[tuple[float, float]],
) -> None:
    one, other = zip(*pairs, strict=True)
    found = corrected_t_test(one, other, ratio=0.0)
    if found.p is None or found.t == 0:
        return
    expected = scipy.stats.ttest_rel(one, other)
    assert found.t == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue)


@given(NUMBERS, st.floats(0.01, 4))
def test_shared_rows_shrink_the_statistic_by_the_known_factor(
    pairs: list[tuple[float, float]], ratio: float
) -> None:
    one, other = zip(*pairs, strict=True)
    plain, corrected = (corrected_t_test(one, other, ratio=r) for r in (0.0, ratio))
    if plain.t is None or corrected.t is None or plain.p is None or corrected.p is None:
        assert plain == corrected
        return
    assert corrected.t == pytest.approx(plain.t / math.sqrt(1 + len(pairs) * ratio))
    assert corrected.p >= plain.p


def test_splits_that_either_lacks_are_left_out() -> None:
    full = corrected_t_test([0.5, 0.75, 0.25], [0.25, 0.25, 0.5], ratio=0.25)
    gaps = corrected_t_test(
        [0.5, None, 0.75, 0.25, 0.9], [0.25, 0.3, 0.25, 0.5, math.nan], ratio=0.25
    )
    assert gaps == full
    assert full.n == 3


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([], [], PairedTest(0)),
        ([None, 0.5], [0.5, None], PairedTest(0)),
        ([0.75, None], [0.5, 0.5], PairedTest(1, 0.25)),
        # the same everywhere: surely no difference
        ([0.1, 0.7, 0.3], [0.1, 0.7, 0.3], PairedTest(3, 0.0, 0.0, 1.0)),
        # the same difference everywhere: no variance to judge it by
        ([0.75, 1.0], [0.5, 0.75], PairedTest(2, 0.25)),
    ],
)
def test_without_variance_or_splits_there_is_no_division(
    one: list[float | None], other: list[float | None], expected: PairedTest
) -> None:
    assert corrected_t_test(one, other, ratio=0.25) == expected


def test_rounding_is_no_variance() -> None:
    one, other = [0.3, 0.8, 0.9], [0.2, 0.7, 0.8]
    assert np.ptp(np.subtract(one, other)) > 0
    assert corrected_t_test(one, other, ratio=0.25).p is None


@pytest.mark.parametrize(
    ("one", "other", "ratio", "words"),
    [
        ([0.5], [0.5, 0.5], 0.25, "reference: got 2 numbers, expected 1"),
        ([0.5], [0.5], -0.1, "ratio: got -0.1"),
        ([0.5], [0.5], math.nan, "ratio: got nan"),
        ([math.inf], [0.5], 0.25, "values: got an infinite number"),
    ],
)
def test_invalid_input_is_refused(
    one: list[float], other: list[float], ratio: float, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        corrected_t_test(one, other, ratio=ratio)
