"""Folds that keep the share of every cell of label and group."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.fairlib.methods.row_groups import fold_of_rows, joint_cells, read_groups

# groups


def test_a_number_of_many_values_is_no_group() -> None:
    ages = np.arange(18, 60)
    with pytest.raises(ValueError, match="'age' has 42 different numbers.* pd.cut"):
        read_groups({"age": ages}, None, len(ages))
    assert len(read_groups({"age": ages.astype(str)}, None, len(ages)).names) == 42
    assert len(read_groups({"decade": ages // 10}, None, len(ages)).names) == 5


# folds


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.sampled_from("xy")),
        min_size=1,
        max_size=80,
    ),
    st.integers(2, 7),
    st.integers(0, 99),
)
def test_every_fold_has_its_part_of_every_cell(
    rows: list[tuple[int, str, str]], folds: int, seed: int
) -> None:
    y, first, second = (np.array(column) for column in zip(*rows, strict=True))
    cells = joint_cells(y, [first, second])
    assert len(set(cells.tolist())) == len(set(rows))
    for row, other in itertools.combinations(range(len(rows)), 2):
        assert (cells[row] == cells[other]) == (rows[row] == rows[other])
    fold = fold_of_rows(cells, folds, seed)
    assert np.array_equal(fold, fold_of_rows(cells, folds, seed))
    sizes = np.bincount(fold, minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    for cell in set(cells.tolist()):
        counts = np.bincount(fold[cells == cell], minlength=folds)
        assert counts.max() - counts.min() <= 1


def test_another_seed_gives_other_folds() -> None:
    cells = joint_cells(np.arange(200) % 2)
    assert not np.array_equal(fold_of_rows(cells, 5, 0), fold_of_rows(cells, 5, 1))
