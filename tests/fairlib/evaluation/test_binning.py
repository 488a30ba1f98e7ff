"""Bins of numbers and categories: their sizes, their edges, and that none holds few rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.fairlib.evaluation.binning import BIN_ROWS, Bins, count_bins, numeric_bins, pool_small

# bins


def test_bins_of_numbers_have_equal_sizes_and_short_edges() -> None:
    values = np.random.default_rng(6).normal(3000, 800, 1000)
    bins = numeric_bins(values)
    # about: a rounder edge near the quantile tells less
    assert len(bins.counts) == 10
    assert all(50 <= count <= 150 for count in bins.counts)
    assert not set(bins.edges) & set(values.tolist())
    assert all(len(f"{edge:g}") <= 4 for edge in bins.edges)
    assert count_bins(values, bins.edges).tolist() == list(bins.counts)
    assert min(bins.edges) > np.sort(values)[19]
    assert max(bins.edges) <= np.sort(values)[-20]


def test_an_edge_lies_above_the_lower_quantile() -> None:
    # the values at positions 75 and 125 of 200 are 100 and 150: an edge of 100 is outside
    assert numeric_bins(np.arange(25, 225), most=2, least=1) == Bins((110.0,), (85, 115))


def test_few_values_are_a_bin_each_and_rare_ones_are_not() -> None:
    values = [1] * 50 + [2] * 40 + [3] * 30
    assert numeric_bins(values).counts == (50, 40, 30)
    assert numeric_bins(values).edges == (2.0, 3.0)
    assert numeric_bins([*values, 900]).edges == (2.0, 3.0)  # nobody's 900


def test_a_mass_at_one_value_stays_a_bin() -> None:
    bins = numeric_bins(np.r_[np.zeros(900), np.arange(1, 101)])
    assert bins.counts == (900, 100)


def test_a_constant_tells_any_other_value() -> None:
    bins = numeric_bins([5.0] * 30)
    assert count_bins([5.0, 4.9, 5.1, math.inf, math.nan], bins.edges).tolist() == [1, 1, 2]
    assert numeric_bins([5.0] * 3).edges == ()


@settings(max_examples=200)
@given(
    st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), max_size=300),
    st.integers(1, 12),
    st.integers(1, 30),
)
def test_bins_always_hold_rows_enough(values: list[float], most: int, least: int) -> None:
    bins = numeric_bins(values, most=most, least=least)
    assert count_bins(values, bins.edges).tolist() == list(bins.counts)
    assert list(bins.edges) == sorted(set(bins.edges))
    if len(set(values)) > 1:
        assert len(bins.counts) <= most
        assert len(bins.counts) == 1 or min(bins.counts) >= least


def test_bins_of_nothing_and_wrong_limits() -> None:
    assert numeric_bins([math.nan, math.inf]).counts == (0,)
    with pytest.raises(ValueError, match="at least 1"):
        numeric_bins([1.0], least=0)


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 40)), st.integers(1, 20))
def test_small_categories_are_pooled(counts: dict[str, int], least: int) -> None:
    named, rest = pool_small(counts, least)
    assert sum(named.values()) + rest == sum(counts.values())
    assert all(count >= least for count in named.values())
    assert rest == 0 or rest >= least or not named


@pytest.mark.parametrize("decimals", [0, 1, 2])
def test_no_edge_is_a_value_that_few_rows_have(decimals: int) -> None:
    values = np.random.default_rng(5).normal(300, 40, 3000).round(decimals)
    edges = numeric_bins(values).edges
    assert len(edges) == 9
    rows = {edge: int((values == edge).sum()) for edge in edges}
    assert all(count == 0 or count >= BIN_ROWS for count in rows.values()), rows
