"""Tables that steps exchange: Parquet files, read in parts, and the dataset folder of X, y and S."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.mapped import new_matrix, release
from evenhand.tasks.step import StepContext

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
    with matrix_writer(folder, data.names, data.groups, kinds) as write:
        write(data.X)
    write_targets(folder, data.y, data.rows, data.sensitive, data.numbers)


@contextmanager
def matrix_writer(
    folder: Path, names: Sequence[str], groups: Mapping[str, Sequence[int]], kinds: Mapping[str, str]
) -> Iterator[Callable[[Float32], pa.Table]]:
    """Open ``X.parquet``; the function writes some rows of the matrix, and returns them as a table."""
    description = json.dumps({"groups": groups, "kinds": kinds}, sort_keys=True)
    schema = pa.schema([(name, pa.float32()) for name in names], {METADATA: description.encode()})
    with pq.ParquetWriter(folder / PARTS[0], schema) as writer:

        def write(matrix: Float32) -> pa.Table:
            table = pa.table([pa.array(column) for column in matrix.T], schema=schema)
            writer.write_table(table)
            return table

        yield write


def write_targets(
    folder: Path, y: Int, rows: Int, sensitive: Mapping[str, NDArray[Any]], numbers: Mapping[str, Float]
) -> None:
    """Write ``y.parquet`` and ``S.parquet``, see :class:`Dataset`."""
    pq.write_table(pa.table({"row": rows, "label": y.astype(np.int8)}), folder / "y.parquet")
    columns = {f"group:{name}": pa.array(group, pa.string()) for name, group in sensitive.items()}
    columns |= {f"value:{name}": pa.array(values) for name, values in numbers.items()}
    pq.write_table(pa.table(columns or {"row": rows}), folder / "S.parquet")


def dataset_of(context: StepContext, name: str) -> Dataset:
    """Read a step's input; with the parameter ``on_disk`` its matrix is a file (``rows``, or ``pages``)."""
    disk = context.parameters.get("on_disk")
    return read_dataset(context.inputs[name], None if disk is None else context.workdir, disk == "pages")


def read_dataset(folder: Path, disk: Path | None = None, paged: bool = False) -> Dataset:
    """Read the files of :func:`write_dataset`.

    With `disk`, a folder for temporary files, the matrix is one, see
    :func:`evenhand.fairlib.mapped.new_matrix`.
    """
    # in blocks: a table and its matrix at once would take twice the memory
    features = pq.ParquetFile(folder / "X.parquet")
    schema = features.schema_arrow
    matrix = new_matrix((features.metadata.num_rows, len(schema)), disk, paged)
    start = 0
    for block in features.iter_batches():
        for position, column in enumerate(block.columns):
            matrix[start : start + len(block), position] = column.to_numpy()
        start += len(block)
        release(matrix)
    description = json.loads(schema.metadata[METADATA])
    target = pq.read_table(folder / "y.parquet")
    attributes = pq.read_table(folder / "S.parquet")

    def columns(prefix: str, values: Callable[[pa.ChunkedArray], NDArray[Any]]) -> dict[str, NDArray[Any]]:
        names = [name for name in attributes.column_names if name.startswith(prefix)]
        return {name.removeprefix(prefix): values(attributes[name]) for name in names}

    return Dataset(
        X=matrix,
        y=target["label"].to_numpy().astype(np.int64),
        rows=target["row"].to_numpy(),
        names=schema.names,
        groups=description["groups"],
        sensitive=columns("group:", _labels),
        numbers=columns("value:", lambda values: values.to_numpy().astype(np.float64)),
    )


def _labels(values: pa.ChunkedArray) -> NDArray[Any]:
    """Texts, of which equal ones are one object: millions of strings would take several times the memory."""
    codes = values.dictionary_encode().combine_chunks()
    return np.array(codes.dictionary.to_pylist(), dtype=object)[codes.indices.to_numpy()]


@dataclass(frozen=True)
class StoredTable:
    """A table in a Parquet file, of which one column, or one block of rows, is in memory at a time."""

    path: Path

    @property
    def column_names(self) -> list[str]:
        """Names of all columns."""
        names: list[str] = pq.read_schema(self.path).names
        return names

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(pq.read_metadata(self.path).num_rows)

    def column(self, name: str) -> pa.ChunkedArray:
        """One column."""
        return pq.read_table(self.path, columns=[name])[name]

    __getitem__ = column

    def blocks(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The row groups, with all columns or some, in their order; of a table without rows one."""
        file = pq.ParquetFile(self.path)
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, columns=None if names is None else list(names))
            yield table if names is None else table.select(names)
        if not file.num_row_groups:
            empty = file.schema_arrow.empty_table()
            yield empty if names is None else empty.select(names)


def filter_dataset(source: Path, target: Path, keep: Bool) -> None:
    """Write the rows of a dataset for which `keep` is true as another dataset."""
    target.mkdir(parents=True)
    for name in PARTS:
        table = pq.read_table(source / name)
        pq.write_table(table.filter(pa.array(keep)), target / name)
