"""The dataset folder that steps exchange: X, y and S of one part of the table, in one row order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Float32, Int

METADATA = b"evenhand"
PARTS = ("X.parquet", "y.parquet", "S.parquet")


@dataclass(frozen=True)
class Dataset:
    """One part of a table, of n rows."""

    X: Float32  # shape (n, d)
    y: Int  # 1 for the label's positive value
    rows: Int  # positions in the checked table
    names: list[str]  # of the matrix columns
    groups: dict[str, list[int]]  # positions of the matrix columns, by table column
    sensitive: dict[str, NDArray[Any]]  # group of every row, by sensitive attribute
    numbers: dict[str, Float]  # values of numeric sensitive attributes

    def take(self, rows: Int) -> Dataset:
        """The rows at some positions, in their order."""
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            rows=self.rows[rows],
            sensitive={name: values[rows] for name, values in self.sensitive.items()},
            numbers={name: values[rows] for name, values in self.numbers.items()},
        )

    def with_rows_of(self, other: Dataset) -> Dataset:
        """The rows of both parts of one table, in the table's order."""

        def both(one: NDArray[Any], two: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([one, two])

        whole = replace(
            self,
            X=both(self.X, other.X),
            y=both(self.y, other.y),
            rows=both(self.rows, other.rows),
            sensitive={name: both(values, other.sensitive[name]) for name, values in self.sensitive.items()},
            numbers={name: both(values, other.numbers[name]) for name, values in self.numbers.items()},
        )
        return whole.take(np.argsort(whole.rows))


def write_dataset(folder: Path, data: Dataset, kinds: Mapping[str, str]) -> None:
    """Write ``X.parquet`` (float32, groups and kinds in its metadata), ``y.parquet`` and ``S.parquet``."""
    folder.mkdir(parents=True)
    description = json.dumps({"groups": data.groups, "kinds": kinds}, sort_keys=True)
    features = pa.table([pa.array(column) for column in data.X.T], names=data.names)
    pq.write_table(features.replace_schema_metadata({METADATA: description.encode()}), folder / "X.parquet")
    pq.write_table(pa.table({"row": data.rows, "label": data.y.astype(np.int8)}), folder / "y.parquet")
    columns = {f"group:{name}": pa.array(group, pa.string()) for name, group in data.sensitive.items()}
    columns |= {f"value:{name}": pa.array(values) for name, values in data.numbers.items()}
    pq.write_table(pa.table(columns or {"row": data.rows}), folder / "S.parquet")


def read_dataset(folder: Path) -> Dataset:
    """Read the files of :func:`write_dataset`."""
    # in blocks: a table and its matrix at once would take twice the memory
    features = pq.ParquetFile(folder / "X.parquet")
    schema = features.schema_arrow
    matrix = np.empty((features.metadata.num_rows, len(schema)), dtype=np.float32)
    start = 0
    for block in features.iter_batches():
        for position, column in enumerate(block.columns):
            matrix[start : start + len(block), position] = column.to_numpy()
        start += len(block)
    description = json.loads(schema.metadata[METADATA])
    target = pq.read_table(folder / "y.parquet")
    attributes = pq.read_table(folder / "S.parquet").to_pandas()

    def columns(prefix: str, dtype: type) -> dict[str, NDArray[Any]]:
        names = [name for name in map(str, attributes) if name.startswith(prefix)]
        return {name.removeprefix(prefix): attributes[name].to_numpy(dtype=dtype) for name in names}

    return Dataset(
        X=matrix,
        y=target["label"].to_numpy().astype(np.int64),
        rows=target["row"].to_numpy(),
        names=schema.names,
        groups=description["groups"],
        sensitive=columns("group:", object),
        numbers=columns("value:", np.float64),
    )


def filter_dataset(source: Path, target: Path, keep: Bool) -> None:
    """Write the rows of a dataset for which `keep` is true as another dataset."""
    target.mkdir(parents=True)
    for name in PARTS:
        table = pq.read_table(source / name)
        pq.write_table(table.filter(pa.array(keep)), target / name)
