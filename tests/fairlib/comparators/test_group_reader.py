from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from comparator_samples import INPUTS, READ_GROUPS, draw_people, fit_comparator
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.fairlib.methods.groups import GroupReader


def test_a_column_of_two_values_is_read() -> None:
    X = np.float32([[5, 0], [6, 1], [7, 0]])
    reader = GroupReader.fit(X, np.array([0, 1, 0]), ["sex"], {"amount": [0], "sex": [1]}, "m")
    assert reader.columns.tolist() == [1]
    # a root and two leaves; the threshold lies between the values
    assert reader.column.tolist() == [1, -1, -1]
    assert reader.threshold[0] == 0.5
    np.testing.assert_array_equal(reader.read(np.float32([[9, 1], [9, 0], [9, 0.4]])), [1, 0, 0])
    assert reader.read(X[:0]).shape == (0,)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 7))
def test_one_hot_columns_and_intervals_are_read(seed: int, kinds: int) -> None:
    rng = np.random.default_rng(seed)
    race = np.concatenate([np.arange(kinds), rng.integers(0, kinds, 60)])
    age = rng.uniform(18, 90, len(race)).astype(np.float32)
    bins = np.digitize(age, np.sort(rng.uniform(20, 88, 3)))
    X = np.column_stack([np.eye(kinds)[race], age]).astype(np.float32)
    groups = {"race": list(range(kinds)), "age": [kinds]}
    for attributes, wanted in (
        (["race"], race),
        (["age"], np.unique(bins, return_inverse=True)[1]),
        (["race", "age"], np.unique(race * 10 + bins, return_inverse=True)[1]),
        (["race"], (race == race[-1]).astype(np.int64)),
    ):
        if len(np.unique(wanted)) < 2:
            continue
        reader = GroupReader.fit(X, wanted, attributes, groups, "m")
        np.testing.assert_array_equal(reader.read(X), wanted)
        again = GroupReader.restore(reader.arrays())
        np.testing.assert_array_equal(again.read(X), wanted)


@pytest.mark.parametrize("name", READ_GROUPS)
@pytest.mark.parametrize("groups", [{"amount": [4]}, None, {"sex": []}, {"sex": [4]}])
def test_an_attribute_that_is_no_input(name: str, groups: Any) -> None:
    X, y, sensitive = draw_people()
    with pytest.raises(
        ValueError, match="reads each person's group from the model inputs, and sex is not among"
    ):
        fit_comparator(name, X, y, sensitive, groups=groups)


def test_single_columns_have_names() -> None:
    X, y, sensitive = draw_people()
    named = fit_comparator("threshold-optimizer", X, y, {"x0": sensitive["sex"]}, attribute="x0", groups=None)
    listed = fit_comparator("threshold-optimizer", X, y, sensitive, groups=INPUTS)
    np.testing.assert_array_equal(named.predict_proba(X), listed.predict_proba(X))


def test_columns_beyond_the_table() -> None:
    with pytest.raises(ValueError, match=r"gives sex the columns \[2\], and X has 2"):
        GroupReader.fit(np.zeros((3, 2), np.float32), np.array([0, 1, 0]), ["sex"], {"sex": [2]}, "m")


def test_rows_are_not_learned_by_heart() -> None:
    # a column that has nothing to do with the group but tells every row apart
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1)).astype(np.float32)
    with pytest.raises(ValueError, match="not exactly"):
        GroupReader.fit(X, rng.integers(0, 2, 2000), ["sex"], {"sex": [0]}, "m")
