"""Parts of datasets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.tasks.execution.dataset import Dataset, StoredTable, filter_dataset, read_dataset
from tests.tasks.steps_of_rows import encoded, write_dataset

ROWS = 400


def dataset(
    folder: Path, *, group: Any = None, names: tuple[str, ...] = ("a", "b"), seed: int = 0
) -> Path:
    """Rows of two features: the first is high in group x, the second in group z."""
    rng = np.random.default_rng(seed)
    member = rng.choice(["x", "y", "z"], ROWS, p=[0.2, 0.65, 0.15]) if group is None else group
    X = rng.normal(size=(ROWS, 2)).astype(np.float32)
    X[:, 0] += 1.2 * (member == "x")
    X[:, 1] += 1.2 * (member == "z")
    data = Dataset(
        X=X,
        y=rng.integers(0, 2, ROWS),
        rows=np.arange(ROWS),
        names=names,
        groups={name: [position] for position, name in enumerate(names)},
        sensitive={"g": member},
        numbers={"v": rng.normal(size=ROWS)},
    )
    write_dataset(folder, data, dict.fromkeys(names, "standard"))
    return folder


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
