"""Drift against formulas written out, SciPy, and draws from known laws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenhand.fairlib.evaluation.drift import (
    CELL_ROWS,
    CHANGED,
    change_between,
    coarsen,
    column_drift,
    largest,
    largest_change,
    most_bins,
    share,
    share_change,
    stability_index,
)
from evenhand.fairlib.evaluation.evaluate import MetricValue

COUNTS = st.lists(st.integers(0, 400), min_size=2, max_size=9)


def drift(now: Any, then: Any, **options: Any) -> Any:
    given_ = {"draws": 200, "level": 0.95, "random": np.random.default_rng(0), **options}
    return column_drift(now, then, **given_)


# the index


def test_the_index_by_hand() -> None:
    expected = (0.3 - 0.5) * math.log(0.3 / 0.5) + (0.7 - 0.5) * math.log(0.7 / 0.5)
    assert stability_index([0.3, 0.7], [0.5, 0.5]) == pytest.approx(expected)
    assert stability_index([0.3, 0.7], [0.5, 0.5]) == pytest.approx(0.16945957)


def test_the_index_is_the_sum_of_both_divergences() -> None:
    p, r = np.random.default_rng(0).dirichlet(np.ones(6), size=2)
    assert stability_index(p, r) == pytest.approx(stats.entropy(p, r) + stats.entropy(r, p))


def test_an_empty_bin_is_finite_and_large() -> None:
    assert 1.0 < stability_index([1.0, 0.0], [0.5, 0.5]) < 10.0


def test_the_index_of_many_at_once() -> None:
    p = np.random.default_rng(1).dirichlet(np.ones(4), size=5)
    r = np.full(4, 0.25)
    assert stability_index(p, r) == pytest.approx([stability_index(row, r) for row in p])


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 500)), min_size=2, max_size=8))
def test_the_index_is_symmetric_and_zero_only_for_equals(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, dtype=float).T
    p, r = a / a.sum(), b / b.sum()
    assert stability_index(p, r) == pytest.approx(stability_index(r, p))
    assert stability_index(p, p) == 0.0
    assert (stability_index(p, r) > 0) == (np.abs(p - r).max() > 0)


def test_the_bias_without_drift_is_as_stated() -> None:
    rng = np.random.default_rng(2)
    law = np.array([0.1, 0.2, 0.3, 0.4])
    n, m = 300, 700
    drawn = stability_index(rng.multinomial(n, law, 4000) / n, rng.multinomial(m, law, 4000) / m)
    expected = drift((n * law).astype(int), (m * law).astype(int)).expected_psi
    assert np.mean(drawn) == pytest.approx(expected, rel=0.05)
    assert expected == pytest.approx(3 * (1 / 300 + 1 / 700))


# bins that are compared


def test_merging_keeps_the_order_of_numbers() -> None:
    assert coarsen([1, 50, 50, 1], [1, 50, 50, 1], ordered=4) == [[0, 1], [2, 3]]
    # the last bin, of missing values, may join any
    assert coarsen([50, 30, 40, 1], [50, 30, 40, 1], ordered=3) == [[0], [1, 3], [2]]
    # among names the small ones join each other
    assert coarsen([50, 3, 40, 3], [50, 3, 40, 3]) == [[0], [1, 3], [2]]


@given(COUNTS, st.data())
def test_merged_bins_hold_every_row_and_rows_enough(now: list[int], data: st.DataObject) -> None:
    then = data.draw(st.lists(st.integers(0, 400), min_size=len(now), max_size=len(now)))
    a, b = np.array(now), np.array(then)
    if not (a.sum() and b.sum()):
        return
    ordered = data.draw(st.integers(0, len(now)))
    most = data.draw(st.integers(1, 9))
    parts = coarsen(now, then, ordered=ordered, most=most)
    flat = sorted(j for part in parts for j in part)
    assert flat == [j for j in range(len(now)) if a[j] + b[j] > 0]
    assert len(parts) <= most
    if len(parts) > 1:
        smallest = min((a + b)[part].sum() for part in parts)
        assert smallest * min(a.sum(), b.sum()) / (a.sum() + b.sum()) >= CELL_ROWS


def test_no_more_bins_than_chance_allows() -> None:
    assert most_bins(30, 10_000) == 1
    for n, m in ((60, 10_000), (200, 400), (1000, 1000)):
        bins = most_bins(n, m)
        assert stats.chi2.sf(CHANGED / (1 / n + 1 / m), bins - 1) <= 0.001
        assert stats.chi2.sf(CHANGED / (1 / n + 1 / m), bins) > 0.001


# the test


def test_the_test_is_pearsons() -> None:
    now, then = [30, 50, 20], [200, 500, 300]
    expected = stats.chi2_contingency([now, then], correction=False).pvalue
    assert drift(now, then).p_value == pytest.approx(expected)
    assert drift([*now, 0], [*then, 0]).p_value == pytest.approx(expected)
    assert drift([500, 0], [900, 0]).p_value == 1.0


@pytest.mark.long
def test_the_test_keeps_its_level() -> None:
    rng = np.random.default_rng(3)
    law = np.array([0.05, 0.15, 0.3, 0.5])
    found = [
        drift(rng.multinomial(200, law), rng.multinomial(500, law), draws=0).p_value
        for _ in range(2000)
    ]
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.015)


# a column


def test_a_column_by_hand() -> None:
    found = drift([300, 700], [500, 500], draws=0)
    p, r = np.array([300.5, 700.5]) / 1001, np.array([500.5, 500.5]) / 1001
    assert found.psi.value == pytest.approx(float(((p - r) * np.log(p / r)).sum()))
    assert found.psi.low is None
    assert found.expected_psi == pytest.approx(0.002)
    assert found.bins_compared == 2


def test_a_new_category_counts() -> None:
    found = drift([800, 200, 0], [1000, 0, 0], draws=0)
    assert found.psi.value > 1.0
    assert found.p_value < 1e-10


def test_the_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(4)
    then, now = np.array([0.3, 0.3, 0.4]), np.array([0.2, 0.3, 0.5])
    truth = stability_index(now, then)
    covered = above = 0
    for _ in range(150):
        psi = drift(rng.multinomial(800, now), rng.multinomial(3000, then), random=rng).psi
        assert psi.low <= psi.value <= psi.high
        covered += psi.low <= truth <= psi.high
        above += psi.low > 0
    assert covered / 150 > 0.9
    assert above / 150 > 0.5  # an interval of all numbers would cover too


def test_without_drift_the_interval_reaches_zero() -> None:
    """Nothing is refused."""
    rng = np.random.default_rng(5)
    law = rng.dirichlet(np.full(10, 5.0))
    for n in (80, 300, 2000):
        found = [
            drift(rng.multinomial(n, law), rng.multinomial(2000, law), random=rng)
            for _ in range(60)
        ]
        assert np.mean([one.psi.low == 0.0 for one in found]) > 0.9
        assert max(one.psi.value for one in found) < CHANGED


def test_the_same_generator_gives_the_same_interval() -> None:
    one, again = (drift([90, 110], [100, 100], random=np.random.default_rng(7)) for _ in range(2))
    other = drift([90, 110], [100, 100], random=np.random.default_rng(8))
    assert one == again
    assert one.psi.value == other.psi.value
    assert one.psi.high != other.psi.high


def test_too_few_rows_are_no_evidence() -> None:
    for now, then in (([5, 5], [500, 500]), ([0, 0], [500, 500]), ([500, 500], [10, 10]), ([], [])):
        found = drift(now, then)
        assert found.psi.status == "insufficient_evidence"
        assert "too few" in found.psi.reason
        assert found.p_value is None
    # 60 rows and one bin, though a tenth of them are elsewhere
    assert drift([57, 3], [900, 60]).psi.value is None
    # a thousand rows in one bin are like the thousand before
    assert drift([1000, 1], [1000, 2]).psi.value == 0.0
    assert drift([1000], [1000]).psi.value == 0.0


@pytest.mark.parametrize(
    ("now", "then", "message"),
    [
        ([1, 2], [1, 2, 3], "one a bin"),
        ([-1, 200], [100, 100], "negative"),
        ([[1]], [[1]], "one a bin"),
    ],
)
def test_wrong_counts_are_refused(now: Any, then: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drift(now, then)


# shares


def test_the_change_of_a_share_by_newcombes_example() -> None:
    # Newcombe 1998, table II, method 10: 56/70 and 48/80
    wilson = [
        stats.binomtest(*counts).proportion_ci(0.95, "wilson") for counts in ((56, 70), (48, 80))
    ]
    now, then = MetricValue(0.8, *wilson[0]), MetricValue(0.6, *wilson[1])
    change = change_between(now, then)
    assert change.value == pytest.approx(0.2)
    assert (change.low, change.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    # from exact intervals, which are wider
    found = share_change(56, 70, 48, 80, level=0.95)
    assert found.change.value == pytest.approx(0.2)
    assert found.change.low == pytest.approx(0.0439, abs=5e-5)
    back = share_change(48, 80, 56, 70, level=0.95)
    assert back.change.low == pytest.approx(found.change.low)
    assert back.change.high == pytest.approx(found.change.high)
    assert (back.then, back.now) == (found.now, found.then)


@settings(max_examples=200)
@given(st.integers(1, 300), st.integers(1, 300), st.data())
def test_a_change_lies_in_its_interval(n: int, m: int, data: st.DataObject) -> None:
    found = share_change(
        data.draw(st.integers(0, n)), n, data.draw(st.integers(0, m)), m, level=0.9
    )
    low, value, high = found.change.low, found.change.value, found.change.high
    assert low is not None
    assert value is not None
    assert high is not None
    assert 0.0 <= low <= value <= high <= 1.0


def test_the_largest_change_and_its_correction() -> None:
    most = largest_change([(30, 100), (70, 100)], [(50, 200), (150, 200)], level=0.95)
    assert most.value == pytest.approx(0.05)
    alone = share_change(30, 100, 50, 200, level=0.975)
    assert most.high == pytest.approx(alone.change.high)
    assert largest_change([], [], level=0.95).status == "insufficient_evidence"


def test_a_share_with_its_exact_interval() -> None:
    found = share(3, 100, level=0.95)
    expected = stats.binomtest(3, 100).proportion_ci(0.95, "exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert share(1, 19, level=0.95).status == "insufficient_evidence"


def test_the_largest_of_metrics() -> None:
    one, other = MetricValue(0.1, 0.0, 0.3), MetricValue(0.2, 0.1, 0.25)
    assert largest([one, other]) == MetricValue(0.2, 0.1, 0.3)
    assert largest([one, MetricValue(0.5)]) == MetricValue(0.5)
    lacking = MetricValue.insufficient("why")
    assert largest([one, lacking]) == lacking
    assert largest([]).status == "insufficient_evidence"
