"""A table of Delta Lake or Iceberg as input: each partition is treated as a file.

A partition is the rows with one value of a column by which the table is partitioned. Its version is
a digest of the names of its current data files: it is done again when these change. Its rows are
read from these files alone.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering.filter_inputs import LAKE, InputFile, Inputs
from evenhand.tasks.filtering.table_inputs import NULL_NAME, in_range, range_of
from evenhand.tasks.sources.lakes import (
    Kind,
    LakePlace,
    lake_errors,
    lake_of,
    name_of,
    open_delta,
    open_iceberg,
    place_of,
    plain_schema,
)
from evenhand.tasks.written_input import nearest

if TYPE_CHECKING:
    from evenhand.tasks.filtering.filter_bundle import FileSettings

EPOCH = datetime.date(1970, 1, 1)


class DataFile(NamedTuple):
    """A data file of the current version of a table."""

    path: str
    rows: int
    value: Any  # of the column of partitions; None without one


def list_lake_partitions(
    location: str, settings: FileSettings, output: str, section: str
) -> Inputs:
    """Find the partitions of a lake's table that the settings choose.

    Without ``partition_by`` the table is one partition. Raises `InputError` for a missing extra, a
    table that cannot be read, a column that is no partition, or a range that cannot be compared.
    """
    path = place_of(location)
    kind = lake_of(path)
    assert kind is not None
    if _is_within(output, path):
        raise InputError(f"the output {output} is within the input: choose a folder outside.")
    if settings.partition_by is None and settings.partitions is not None:
        raise InputError(
            "--partition and --since choose values of a column: name it by --set "
            f"{section}.partition_by, such as {section}.partition_by=day."
        )
    name = name_of(path)
    with lake_errors(name, kind):
        files = _data_files(path, kind, settings.partition_by)
    by_value = defaultdict(list)
    for file in files:
        by_value[file.value].append(file)
    values = list(by_value)
    if settings.partitions is not None:
        ends = range_of(settings.partitions, settings.partition_by, _type_of(values))
        values = [value for value in values if in_range(value, ends)]
    if not values and settings.settle_seconds is None:
        raise InputError(
            f"{name} has no rows within {settings.partitions or 'it'}: check --input, "
            "--partition or --since."
        )
    partitions = []
    for value in values:
        partitions.append(_partition(path, settings.partition_by, value, by_value[value], section))
    partitions.sort(key=lambda partition: partition.name)
    root = path if isinstance(path, str) else str(path.resolve())
    return Inputs(root, tuple(partitions), ())


def _is_within(output: str, path: LakePlace) -> bool:
    """Whether the output's folder is that of the input, or below it."""
    if isinstance(path, str):
        return f"{output.rstrip('/')}/".startswith(f"{path}/")
    return "://" not in output and Path(output).resolve().is_relative_to(path.resolve())


def _partition(
    path: LakePlace, column: str | None, value: Any, files: list[DataFile], section: str
) -> InputFile:
    """Return a partition as a file."""
    name = name_of(path)
    partition = None
    if column is not None:
        text = NULL_NAME
        if value is not None:
            text = str(value)
        name = f"{name}/{column}={text}"
        partition = (column, value)
    paths = "\n".join(sorted(file.path for file in files))
    return InputFile(
        url=str(path),
        name=name,
        size=sum(file.rows for file in files),
        version=hashlib.sha256(paths.encode()).hexdigest(),
        format=LAKE,
        section=section,
        partition=partition,
    )


def _type_of(values: list[Any]) -> type:
    """Type of a column's values; text for one without any."""
    for value in values:
        if value is not None:
            return type(value)
    return str


def _data_files(path: LakePlace, kind: Kind, column: str | None) -> list[DataFile]:
    """Data files of a table's current version, with their value of a column of partitions."""
    if kind == "delta":
        return _delta_files(path, column)
    return _iceberg_files(path, column)


def _refuse_column(path: LakePlace, column: str, partitioned: Iterable[str]) -> InputError:
    names = list(partitioned)
    listed = ", ".join(names) or "none"
    return InputError(
        f"partition_by is {column!r}, by which {name_of(path)} is not partitioned"
        f"{nearest(column, names)}: its columns of partitions are {listed}."
    )


def _delta_files(path: LakePlace, column: str | None) -> list[DataFile]:
    table = open_delta(path)
    partitioned = table.metadata().partition_columns
    if column is not None and column not in partitioned:
        raise _refuse_column(path, column, partitioned)
    files = []
    for action in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        value = None
        if column is not None:
            value = action[f"partition.{column}"]
        files.append(DataFile(action["path"], action["num_records"] or 0, value))
    return files


def _iceberg_files(path: LakePlace, column: str | None) -> list[DataFile]:
    table = open_iceberg(path, name_of(path))
    files = []
    for task in table.scan().plan_files():
        value = None
        if column is not None:
            value = _partition_value(table, task.file, path, column)
        files.append(DataFile(task.file.file_path, task.file.record_count, value))
        # files of deletions change the rows too
        for deletion in task.delete_files:
            files.append(DataFile(deletion.file_path, 0, value))
    return files


def _partition_value(table: Any, file: Any, path: LakePlace, column: str) -> Any:
    """Value of a column in a data file; an `InputError` if the file is not of one value."""
    schema = table.schema()
    names = {}
    for place, field in enumerate(table.specs()[file.spec_id].fields):
        if str(field.transform) == "identity":
            names[schema.find_field(field.source_id).name] = place
    if column not in names:
        raise _refuse_column(path, column, names)
    value = file.partition[names[column]]
    kind = str(schema.find_field(column).field_type)
    if kind.startswith("timestamp"):
        raise InputError(f"partition_by is {column!r}, a time: use a date, a number or a text.")
    if kind == "date" and isinstance(value, int):
        return EPOCH + datetime.timedelta(days=value)
    return value


def lake_schema(file: InputFile) -> pa.Schema:
    """Schema of a lake's table, in plain types."""
    path = place_of(file.url)
    kind = lake_of(path)
    if kind is None:
        raise InputError(f"{file.name} is no longer a table of Delta Lake or Iceberg.")
    with lake_errors(file.name, kind):
        if kind == "delta":
            return plain_schema(open_delta(path).to_pyarrow_dataset().schema)
        return plain_schema(open_iceberg(path, file.name).schema().as_arrow())


def read_lake_partition(file: InputFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give the rows of a partition in batches of a schema, which has some of its columns."""
    path = place_of(file.url)
    kind = lake_of(path) or "delta"
    with lake_errors(file.name, kind):
        batches = _delta_rows(path, file) if kind == "delta" else _iceberg_rows(path, file, schema)
        for batch in batches:
            yield batch.select(schema.names).cast(schema)


def _delta_rows(path: LakePlace, file: InputFile) -> Iterator[pa.RecordBatch]:
    """Read the files of a partition; a filter on it leaves the others closed."""
    import pyarrow.compute as pc

    from evenhand.tasks.sources.row_group_blocks import group_blocks

    rows: Any = open_delta(path).to_pyarrow_dataset()
    condition = None
    if file.partition is not None:
        column, value = file.partition
        condition = pc.field(column).is_null() if value is None else pc.field(column) == value
    for fragment in rows.get_fragments(filter=condition):
        for group in fragment.split_by_row_group():
            yield from group_blocks(group, rows.schema)


def _iceberg_rows(path: LakePlace, file: InputFile, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    """Scan a partition; its filter leaves files of others closed."""
    import pyiceberg.expressions

    # its types describe the fields of its classes, not what they are called with
    terms: Any = pyiceberg.expressions
    condition = terms.AlwaysTrue()
    if file.partition is not None:
        column, value = file.partition
        if value is None:
            condition = terms.IsNull(column)
        elif isinstance(value, datetime.date):
            condition = terms.EqualTo(column, value.isoformat())
        else:
            condition = terms.EqualTo(column, value)
    scan = open_iceberg(path, file.name).scan(
        row_filter=condition, selected_fields=tuple(schema.names)
    )
    reader: Iterable[pa.RecordBatch] = scan.to_arrow_batch_reader()
    return reader
