"""Parts of datasets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from evenhand.tasks.execution.dataset import StoredTable, filter_dataset, read_dataset
from tests.tasks.proxy_steps import ROWS, dataset
from tests.tasks.steps_of_rows import encoded


def test_zeros_in_columns_leave_the_rows_as_they_were() -> None:
    data = encoded()
    before = data.X.copy()
    hidden = data.with_zeros_in([0])
    assert np.array_equal(data.X, before)
    assert (hidden.X[:, 0] == 0).all()
    assert np.array_equal(hidden.X[:, 1:], before[:, 1:])
    assert hidden.X.dtype == np.float32


def test_sensitive_positions_are_of_inputs_only() -> None:
    data = encoded(50)
    assert data.sensitive_positions() == [0]
    # an attribute that is no model input has no column
    assert replace(data, sensitive={"age": data.sensitive["sex"]}).sensitive_positions() == []


def test_a_part_of_a_dataset_is_a_dataset(tmp_path: Path) -> None:
    whole = read_dataset(dataset(tmp_path / "whole"))
    keep = np.arange(ROWS) % 3 == 0
    filter_dataset(tmp_path / "whole", tmp_path / "part", keep)
    part = read_dataset(tmp_path / "part")
    np.testing.assert_array_equal(part.X, whole.X[keep])
    np.testing.assert_array_equal(part.y, whole.y[keep])
    np.testing.assert_array_equal(part.rows, whole.rows[keep])
    np.testing.assert_array_equal(part.numbers["v"], whole.numbers["v"][keep])
    assert part.sensitive["g"].tolist() == whole.sensitive["g"][keep].tolist()
    assert (part.names, part.groups) == (whole.names, whole.groups)
    assert StoredTable(tmp_path / "part" / "X").schema.metadata
