"""Intervals in closed form: published examples, edges, and that they contain the truth often
enough.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binomtest, skew, ttest_1samp

from evenhand.fairlib.evaluation.closed_intervals import (
    MOST_PAIRED,
    Estimates,
    _without_skewness,
    auc_interval,
    bounded_mean_interval,
    corrected_level,
    drawn_interval,
    exact_interval,
    largest_difference,
    mean_interval,
    paired_correlation,
    paired_difference,
    pairs_of,
    pairwise_differences,
    pairwise_ratios,
    rate_interval,
    smallest_ratio,
    student_interval,
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


def test_student_interval_is_scipys_and_wider_on_the_skewed_side() -> None:
    numbers = np.random.default_rng(0).exponential(2.0, 12)
    mean, variance, n = (np.array([x]) for x in (numbers.mean(), numbers.var(ddof=1) / 12, 12.0))
    plain = student_interval(mean, variance, n, 0.9)
    expected = ttest_1samp(numbers, 0.0).confidence_interval(0.9)
    assert (plain.low[0], plain.high[0]) == (
        pytest.approx(expected.low),
        pytest.approx(expected.high),
    )
    skewed = student_interval(mean, variance, n, 0.9, np.array([skew(numbers)]))
    assert skewed.low[0] == plain.low[0]
    assert skewed.high[0] > plain.high[0]
    # without skewness the transformation changes nothing, and it is continuous there
    hardly = student_interval(mean, variance, n, 0.9, np.array([1e-5]))
    assert hardly.high[0] == pytest.approx(plain.high[0], rel=1e-6)
    nothing = student_interval(mean, np.array([0.0]), n, 0.9)
    assert np.isnan(nothing.low[0])


def test_paired_difference_by_hand() -> None:
    first = Estimates(np.array([0.6]), np.array([0.5]), np.array([0.7]))
    second = Estimates(np.array([0.4]), np.array([0.32]), np.array([0.5]))
    found = paired_difference(first, second, np.array([0.5]))
    below = np.sqrt(0.1**2 - 2 * 0.5 * 0.1 * 0.1 + 0.1**2)
    above = np.sqrt(0.1**2 - 2 * 0.5 * 0.1 * 0.08 + 0.08**2)
    assert found.low[0] == pytest.approx(0.2 - below)
    assert found.high[0] == pytest.approx(0.2 + above)
    # without a correlation it is the difference of independent estimates
    independent = paired_difference(first, second, np.array([np.nan]))
    both = Estimates(*(np.concatenate(ends) for ends in zip(first, second, strict=True)))
    pairs = pairwise_differences(both)
    assert independent.low[0] == pytest.approx(pairs.low[0, 1])
    assert independent.high[0] == pytest.approx(pairs.high[0, 1])


def test_paired_correlation_is_newcombes() -> None:
    # of 50 rows 20 have both properties, 6 the first alone, 4 the second, 20 none
    found = paired_correlation(
        np.array(20 / 50), np.array(26 / 50), np.array(24 / 50), np.array(50)
    )
    expected = (20 * 20 - 6 * 4 - 50 / 2) / np.sqrt(26 * 24 * 24 * 26)
    assert float(found) == pytest.approx(expected)
    # a positive covariance below the correction leaves no correlation, not a negative one
    tiny = paired_correlation(np.array(0.26), np.array(0.5), np.array(0.5), np.array(10))
    assert float(tiny) == 0.0
    assert np.isnan(paired_correlation(np.array(0.0), np.array(0.0), np.array(0.5), np.array(9)))


def test_very_many_groups_have_longer_intervals() -> None:
    rng = np.random.default_rng(1)
    hits = rng.binomial(40, 0.4, 401)
    narrow = exact_interval(hits, 40, 0.95)
    wide = exact_interval(hits, 40, corrected_level(0.95, pairs_of(401)))
    for compare in (largest_difference, smallest_ratio):
        many = compare(narrow, wide)
        few = compare(*(Estimates(*(end[:400] for end in parts)) for parts in (narrow, wide)))
        assert many.low <= few.low + 1e-9
        assert many.high >= few.high - 1e-9


def test_the_largest_difference_of_very_many_by_its_formula() -> None:
    value = np.linspace(0.1, 0.9, MOST_PAIRED + 1)
    narrow = Estimates(value, value - 0.02, value + 0.03)
    wide = Estimates(value, value - 0.05, value + 0.06)
    found = largest_difference(narrow, wide)
    assert float(found.value) == pytest.approx(0.8)
    assert float(found.high) == pytest.approx(0.93 - 0.08)
    # Newcombe's lower end of the last estimate less the first
    assert float(found.low) == pytest.approx(0.8 - np.hypot(0.05, 0.06))


@pytest.mark.parametrize("skewness", [-0.8, -0.1, 0.3, 1.0])
def test_removing_skewness_inverts_halls_polynomial(skewness: float) -> None:
    # Hall 1992: x = t + a t^2 / 3 + a^2 t^3 / 27 + a / 6, solved for t
    statistic = np.linspace(-2.0, 2.0, 9)
    t = _without_skewness(statistic, np.array(skewness))
    restored = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    assert restored == pytest.approx(statistic)


def test_ratios_and_differences_of_several_tables() -> None:
    # three groups in each of two tables: each table has the ends that it has alone
    hits = np.array([[3.0, 8.0, 12.0], [20.0, 10.0, 30.0]])
    sizes = np.array([[20.0, 20.0, 20.0], [60.0, 40.0, 50.0]])
    narrow = exact_interval(hits, sizes, 0.95)
    wide = exact_interval(hits, sizes, corrected_level(0.95, pairs_of(3)))
    for reckoned in (smallest_ratio, largest_difference):
        together = reckoned(narrow, wide)
        for table in range(2):
            alone = reckoned(
                Estimates(*(column[table] for column in narrow)),
                Estimates(*(column[table] for column in wide)),
            )
            for ends, end in zip(together, alone, strict=True):
                assert ends[table] == pytest.approx(float(end))


@pytest.mark.parametrize(("count", "rows"), [(0.3, 6.0), (5.8, 6.0), (0.5, 1.0)])
def test_the_exact_interval_of_parts_of_rows(count: float, rows: float) -> None:
    # effective rows are no whole numbers
    ends = exact_interval(np.array(count), np.array(rows), 0.9)
    low = beta.ppf(0.05, count, rows - count + 1)
    high = beta.ppf(0.95, count + 1, rows - count)
    assert (float(ends.low), float(ends.high)) == pytest.approx((low, high))


# a part of a finite population


@pytest.mark.parametrize(("population", "n"), [(10, 4), (25, 20), (7, 1)])
def test_the_interval_of_a_drawn_share_covers_by_enumeration(population: int, n: int) -> None:
    from scipy.stats import hypergeom

    for total in range(population + 1):
        covered = 0.0
        for hits in range(max(0, n - population + total), min(n, total) + 1):
            low, high = drawn_interval(hits, n, population, 0.95)
            if low <= total / population <= high:
                covered += hypergeom.pmf(hits, population, total, n)
        assert covered >= 0.95


def test_a_drawn_share_of_all_or_of_very_many() -> None:
    assert drawn_interval(3, 9, 9, 0.95) == (3 / 9, 3 / 9)
    # of very many it is that of Clopper and Pearson
    of_many = drawn_interval(3, 20, 10**6, 0.95)
    np.testing.assert_allclose(of_many, rate_interval(3, 20, 0.95), atol=1e-5)
    narrower = drawn_interval(3, 20, 40, 0.95)
    assert of_many[0] < narrower[0] < 0.15 < narrower[1] < of_many[1]


@pytest.mark.parametrize(("hits", "n", "population"), [(2, 1, 5), (1, 6, 5), (0, 0, 5), (-1, 2, 5)])
def test_a_drawn_share_of_no_part_is_refused(hits: int, n: int, population: int) -> None:
    with pytest.raises(ValueError, match="hits: got"):
        drawn_interval(hits, n, population, 0.95)
