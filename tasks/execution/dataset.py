"""Tables that steps exchange: folders of Parquet files, read in parts, and datasets of X, y
and S.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Float32, Int, Int8
from evenhand.fairlib.file_digests import sha256_of_file
from evenhand.fairlib.mapped import new_like, new_matrix, release, row_blocks
from evenhand.tasks.execution.step import StepContext

METADATA = b"evenhand"
PARTS = ("X", "y.parquet", "S.parquet")


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
    # numbers of the people that rows are of, where `split.by` keeps the rows of a person together
    people: Int | None = None
    # whether a number is a person's, whom `min_cell` counts, and not that of a group of several
    # people
    counts_people: bool = True

    def take(self, rows: Int) -> Dataset:
        """The rows at some positions, in their order."""
        return self._mapped(lambda values: values[rows])

    def with_rows_of(self, other: Dataset) -> Dataset:
        """The rows of both parts of one table, in the table's order."""
        whole = self._mapped(lambda *parts: np.concatenate(parts), other)
        return whole.take(np.argsort(whole.rows))

    def sensitive_positions(self) -> list[int]:
        """Positions of the matrix columns of all sensitive attributes that are model inputs."""
        return self.positions_of(self.sensitive)

    def positions_of(self, names: Iterable[str]) -> list[int]:
        """Positions of the matrix columns of those table columns that are model inputs."""
        positions: list[int] = []
        for name in names:
            positions.extend(self.groups.get(name, ()))
        return positions

    def with_zeros_in(self, positions: list[int]) -> Dataset:
        """The same rows with 0 in some columns, which no learner can then use."""
        X = new_like(self.X)
        for block in row_blocks(self.X):
            X[block] = self.X[block]
            X[block, positions] = np.float32(0.0)
            release(X)
        return replace(self, X=X)

    def _mapped(self, function: Callable[..., NDArray[Any]], *others: Dataset) -> Dataset:
        """A dataset of what a function makes of each array of rows, here and in the others."""
        parts = (self, *others)
        changed = dict[str, Any]()
        keys = ["X", "y", "rows"]
        if self.people is not None:
            keys.append("people")
        for key in keys:
            changed[key] = function(*(getattr(part, key) for part in parts))
        for key in ("sensitive", "numbers"):
            by_attribute = [getattr(part, key) for part in parts]
            arrays = {}
            for name in by_attribute[0]:
                arrays[name] = function(*(values[name] for values in by_attribute))
            changed[key] = arrays
        return replace(self, **changed)


def matrix_table(
    matrix: Float32,
    names: Sequence[str],
    groups: Mapping[str, Sequence[int]],
    kinds: Mapping[str, str],
) -> pa.Table:
    """Rows of the matrix as the folder ``X`` holds them: float32, groups and kinds in its
    metadata.
    """
    description = json.dumps({"groups": groups, "kinds": kinds}, sort_keys=True)
    schema = pa.schema([(name, pa.float32()) for name in names], {METADATA: description.encode()})
    return pa.table([pa.array(column) for column in matrix.T], schema=schema)


def write_block(
    table: pa.Table, folder: Path, number: int, repeated: Sequence[str] | bool = True
) -> None:
    """Write one block of a table as one file of its folder; `repeated` names the columns of few
    values.
    """
    with block_file(folder, f"{number:06d}.parquet") as path:
        pq.write_table(table, path, row_group_size=max(len(table), 1), use_dictionary=repeated)


@contextmanager
def block_file(folder: Path, name: str) -> Iterator[Path]:
    """A path that becomes a file of a folder, also if another process has written that file.

    A process that is killed leaves no part of a file in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        yield Path(scratch) / "part"
        (Path(scratch) / "part").replace(folder / name)


def take_over(earlier: tuple[Path, str] | None, folder: Path, name: str) -> bool:
    """Have a file of an earlier result in a folder, too; False if it is not there as its digest
    says.
    """
    try:
        if earlier is None or sha256_of_file(earlier[0]) != earlier[1]:
            return False
        with block_file(folder, name) as path:
            path.hardlink_to(earlier[0])
    except OSError:  # it was removed, or the disk has no links
        return False
    return True


def write_targets(
    folder: Path,
    y: Int | Int8,
    rows: Int,
    sensitive: Mapping[str, NDArray[Any]],
    numbers: Mapping[str, Float],
    people: Int | None = None,
    unit: str = "person",
) -> None:
    """Write ``y.parquet`` and ``S.parquet``, see :class:`Dataset`.

    The `unit` that `people` numbers is a person or a group.
    """
    target = {"row": rows, "label": y.astype(np.int8)}
    if people is not None:
        target[unit] = people
    pq.write_table(pa.table(target), folder / "y.parquet")
    columns = {f"group:{name}": pa.array(group, pa.string()) for name, group in sensitive.items()}
    columns |= {f"value:{name}": pa.array(values) for name, values in numbers.items()}
    pq.write_table(pa.table(columns or {"row": rows}), folder / "S.parquet")


def dataset_of(context: StepContext, name: str, *, labels_only: bool = False) -> Dataset:
    """Read a step's input; with the parameter ``on_disk`` its matrix is a file (``rows``, or
    ``pages``).
    """
    kind = context.parameters.get("on_disk")
    disk = None
    if kind is not None:
        disk = context.workdir
    return read_dataset(context.inputs[name], disk, kind == "pages", labels_only=labels_only)


def read_dataset(
    folder: Path, disk: Path | None = None, paged: bool = False, *, labels_only: bool = False
) -> Dataset:
    """Read ``X``, ``y.parquet`` and ``S.parquet``; `labels_only` as in :func:`read_targets`.

    With `disk`, a folder for temporary files, the matrix is one, see
    :func:`evenhand.fairlib.mapped.new_matrix`.
    """
    data = read_targets(folder, labels_only=labels_only)
    start = 0
    matrix = new_matrix((len(data.y), len(data.names)), disk, paged)
    for file in StoredTable(folder / "X").files:
        # in blocks: a table and its matrix at once would take twice the memory
        for block in pq.ParquetFile(file).iter_batches():
            end = start + len(block)
            columns = [column.to_numpy() for column in block.columns]
            np.stack(columns, axis=1, out=matrix[start:end])
            start = end
            release(matrix)
    return replace(data, X=matrix)


def read_targets(folder: Path, *, labels_only: bool = False) -> Dataset:
    """Read a dataset without its matrix, which has no columns here.

    With `labels_only` also without positions and sensitive columns, which take two thirds of its
    memory.
    """
    schema = StoredTable(folder / "X").schema
    target = pq.read_table(folder / "y.parquet")
    description = json.loads(schema.metadata[METADATA])
    attributes = pq.read_table(folder / "S.parquet", columns=[] if labels_only else None)

    def columns(
        prefix: str, values: Callable[[pa.ChunkedArray], NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        names = [name for name in attributes.column_names if name.startswith(prefix)]
        return {name.removeprefix(prefix): values(attributes[name]) for name in names}

    units = [name for name in ("person", "group") if name in target.column_names]
    return Dataset(
        X=np.empty((len(target), 0), dtype=np.float32),
        y=target["label"].to_numpy().astype(np.int64),
        rows=np.empty(0, dtype=np.int64) if labels_only else target["row"].to_numpy(),
        names=schema.names,
        groups=description["groups"],
        sensitive=columns("group:", _labels),
        numbers=columns("value:", lambda values: values.to_numpy().astype(np.float64)),
        people=target[units[0]].to_numpy() if units else None,
        counts_people="group" not in units,
    )


def _labels(values: pa.ChunkedArray) -> NDArray[Any]:
    """Texts, of which equal ones are one object: millions of strings would take several times the
    memory.
    """
    codes = values.dictionary_encode().combine_chunks()
    return np.array(codes.dictionary.to_pylist(), dtype=object)[codes.indices.to_numpy()]


@dataclass(frozen=True)
class Block:
    """A row group of a table; of a table without row groups its empty block."""

    path: Path
    groups: tuple[int, ...]
    number: int  # among the blocks of the table
    rows: slice  # its place in the table

    def read(self, names: Sequence[str] | None = None) -> pa.Table:
        """The rows, with all columns or some."""
        pa.default_memory_pool().release_unused()  # of the block before
        groups = list(self.groups)
        file = pq.ParquetFile(self.path)
        if names is None:
            return file.read_row_groups(groups)
        return file.read_row_groups(groups, columns=list(names)).select(names)

    def digest(self) -> str:
        """Digest of the columns as they are stored, with their names and types."""
        footer = pq.read_metadata(self.path)
        content_digest = hashlib.sha256(str(footer.schema.to_arrow_schema()).encode())
        with self.path.open("rb") as stream:
            for group, number in itertools.product(self.groups, range(footer.num_columns)):
                column = footer.row_group(group).column(number)
                starts = [
                    column.data_page_offset,
                    column.dictionary_page_offset or column.data_page_offset,
                ]
                stream.seek(min(starts))
                content_digest.update(stream.read(column.total_compressed_size))
        return content_digest.hexdigest()


@dataclass(frozen=True)
class StoredTable:
    """A table in Parquet, of which one column, or one block of rows, is in memory at a time."""

    path: Path  # a file, or a folder of files, which are in the order of their names

    @property
    def files(self) -> list[Path]:
        """Its files."""
        if self.path.is_dir():
            return sorted(self.path.iterdir())
        return [self.path]

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return pq.read_schema(self.files[0])

    @property
    def column_names(self) -> list[str]:
        """Names of all columns."""
        return list(self.schema.names)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return sum(pq.read_metadata(file).num_rows for file in self.files)

    def column(self, name: str) -> pa.ChunkedArray:
        """One column."""
        pa.default_memory_pool().release_unused()  # of the column before
        return pq.read_table(self.files, columns=[name])[name]

    __getitem__ = column

    def places(self) -> list[Block]:
        """The row groups in their order; of a table without any one block."""
        blocks: list[Block] = []
        start = 0
        for file in self.files:
            footer = pq.read_metadata(file)
            for group in range(footer.num_row_groups):
                end = start + footer.row_group(group).num_rows
                blocks.append(Block(file, (group,), len(blocks), slice(start, end)))
                start = end
        return blocks or [Block(self.files[0], (), 0, slice(0, 0))]

    def blocks(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The blocks, with all columns or some, in their order."""
        return (place.read(names) for place in self.places())


def filter_dataset(source: Path, target: Path, keep: Bool) -> None:
    """Write the rows of a dataset for which `keep` is true as another dataset."""
    target.mkdir(parents=True)
    for name in PARTS:
        table = pq.read_table(source / name).filter(pa.array(keep))
        if name == "X":
            write_block(table, target / name, 0)
        else:
            pq.write_table(table, target / name)
