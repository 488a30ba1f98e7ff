"""Tests of numbers that stand for a missing value, by how far they lie from the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evenhand.data_contracts.values import read_values

RANDOM = np.random.default_rng(5)
CHILDREN = RANDOM.integers(0, 4, 600).tolist()
AGES = RANDOM.integers(18, 90, 600).tolist()
SCORES = RANDOM.uniform(0, 1000, 600).round(1).tolist()
BALANCES = RANDOM.normal(0, 100, 600).round(2).tolist()


def missing(values: list[Any]) -> tuple[Any, ...]:
    """Spellings of missing values that are found among numbers."""
    return read_values(pa.chunked_array([values]), "x").missing


@pytest.mark.parametrize(
    ("values", "sentinels"),
    [
        (CHILDREN + [777] * 20, (777,)),
        (SCORES + [99999.9] * 20, (99999.9,)),
        (BALANCES + [99999.99] * 20, (99999.99,)),
        (BALANCES + [-9999] * 20, (-9999,)),
        # refused, not known, not asked: several numbers at one end
        (CHILDREN + [77] * 9 + [88] * 9 + [99] * 9, (77, 88, 99)),
        (AGES + [-9] * 9 + [-8] * 9 + [-1] * 9, (-9, -8, -1)),
        (AGES + [-1] * 9 + [999] * 9, (999, -1)),
        (SCORES + [-99.9] * 9, (-99.9,)),
    ],
)
def test_special_numbers_far_away_stand_for_missing(
    values: list[Any], sentinels: tuple[Any, ...]
) -> None:
    assert missing(values) == sentinels


@pytest.mark.parametrize(
    "values",
    [
        AGES + [77] * 20,  # an age
        CHILDREN + [22] * 20,
        SCORES + [1111.0] * 20,  # not far away
        CHILDREN + [777] * 2,  # rare
        BALANCES + [-999] * 20,  # not far from numbers of which some are negative
        RANDOM.choice([-1, 0, 1], 600).tolist(),
        [*range(600), 9999],
        RANDOM.lognormal(8, 1.5, 600).round().tolist(),
    ],
)
def test_numbers_among_the_others_are_kept(values: list[Any]) -> None:
    assert missing(values) == ()


def test_another_number_far_away_is_pointed_out_and_kept() -> None:
    values = read_values(pa.chunked_array([SCORES + [50000.0] * 20]), "x")
    assert values.missing == ()
    assert values.isolated.startswith("50000 in 20 rows lies far from all others")
    assert read_values(pa.chunked_array([SCORES]), "x").isolated == ""
