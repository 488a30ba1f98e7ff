"""A table of a database as input of a run over files: each partition is treated as a file.

A partition is the rows with one value of a column, such as a day. Its size is its number of rows,
and its version the largest value of a watermark column, such as the time of loading: a partition
that has either changed is done again, and one that has not is skipped. Rows are read in chunks by a
cursor of the server, and written with the partition's record in one transaction.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.filtering.filter_inputs import InputFile, Inputs
from evenhand.tasks.filtering.query_inputs import queried, query_of
from evenhand.tasks.sources.databases import open_database
from evenhand.tasks.written_input import nearest

if TYPE_CHECKING:
    import sqlalchemy as sa

    from evenhand.tasks.filtering.filter_bundle import FileSettings

TABLE = "table"  # format of an input file that is a partition
CHUNK_ROWS = 1 << 16
# More partitions than this are no partitions, but nearly rows.
MOST_PARTITIONS = 20_000
NULL_NAME = "(null)"
ARROW_TYPES: tuple[tuple[type, pa.DataType], ...] = (
    (bool, pa.bool_()),
    (int, pa.int64()),
    (float, pa.float64()),
    (decimal.Decimal, pa.float64()),
    (datetime.datetime, pa.timestamp("us")),
    (datetime.date, pa.date32()),
    (str, pa.string()),
)
TODAY = re.compile(r"today(?:-(\d+))?")


def read_date(text: str) -> datetime.date:
    """Read ``2026-11-01``, ``today`` or ``today-7``, seven days ago, both of UTC.

    Raises `ValueError` for another text.
    """
    match = TODAY.fullmatch(text)
    if match is None:
        return datetime.date.fromisoformat(text)
    today = datetime.datetime.now(datetime.UTC).date()
    return today - datetime.timedelta(days=int(match[1] or 0))


READERS: dict[type, Callable[[str], Any]] = {
    int: int,
    str: str,
    datetime.date: read_date,
    datetime.datetime: datetime.datetime.fromisoformat,
}


def list_partitions(
    location: str, settings: FileSettings, output: str | None, section: str
) -> Inputs:
    """Find the partitions of the table ``URL#TABLE``, or of the query ``URL#SELECT …``, that the
    settings choose.

    Without ``partition_by`` the table is one partition. Raises `InputError` if there is no such
    table or column, it is the output, or a value of ``partitions`` cannot be compared.
    """
    import sqlalchemy as sa

    if output == location:
        raise InputError(
            f"the output {without_secrets(location)} is the input: choose another table."
        )
    table, engine = reflected(location)
    name = str(table.name)
    column = _column(table, settings.partition_by, section, "partition_by")
    watermark = _column(table, settings.watermark, section, "watermark")
    if column is None and settings.partitions is not None:
        raise InputError(
            f"--partition and --since choose values of a column: name it by "
            f"--set {section}.partition_by, such as {section}.partition_by=day."
        )
    measures: list[Any] = [sa.func.count()]
    if watermark is not None:
        measures.append(sa.func.max(watermark))
    query = sa.select(sa.null(), *measures).select_from(table)
    if column is not None:
        query = sa.select(column, *measures).group_by(column)
        query = _within(query, column, settings.partitions)
    try:
        with engine.connect() as opened:
            rows = opened.execute(query.limit(MOST_PARTITIONS + 1)).fetchall()
    except (sa.exc.SQLAlchemyError, OverflowError) as error:
        kind = type(getattr(error, "orig", None) or error).__name__
        chosen = ""
        if settings.partitions:
            chosen = f" within {settings.partitions[:80]}"
        raise InputError(
            f"the partitions of {name}{chosen} cannot be listed ({kind}): check "
            "--partition or --since, and that the user may read the table."
        ) from None
    if len(rows) > MOST_PARTITIONS:
        raise InputError(
            f"the column {settings.partition_by!r} of {name} has more than {MOST_PARTITIONS:,} "
            f"values: set {section}.partition_by to one with fewer, such as a date."
        )
    if not rows and settings.settle_seconds is None:
        if settings.partitions is None:
            raise InputError(f"the table {name} has no rows: check --input.")
        raise InputError(
            f"the table {name} has no rows within {settings.partitions}: check --partition or "
            "--since."
        )
    files = [_partition(location, name, column, tuple(row), section) for row in rows]
    files.sort(key=lambda file: file.name)
    written = query_of(location)
    address = location if written is None else f"{written[0]}#{name}"
    return Inputs(without_secrets(address), tuple(files), ())


def _partition(
    location: str, table: str, column: Any, row: tuple[Any, ...], section: str
) -> InputFile:
    """Return a partition as a file; `row` has its value, its number of rows and its watermark."""
    value, rows, *newest = row
    name = table
    partition = None
    if column is not None:
        text = NULL_NAME
        if value is not None:
            text = _shown(str(value))
        name = f"{table}/{column.name}={text}"
        partition = (column.name, value)
    version = ""
    if newest:
        version = str(newest[0])
    return InputFile(
        url=location,
        name=name,
        size=int(rows),
        version=version,
        format=TABLE,
        section=section,
        partition=partition,
    )


def _shown(text: str) -> str:
    """A value as the name of its partition has it.

    A text that is the name of no value gets one more pair of brackets: two partitions of one name
    would be taken for one.
    """
    if text.strip("()") == NULL_NAME.strip("()") and text.startswith("("):
        return f"({text})"
    return text


def read_partition(file: InputFile, columns: list[str], files: ExitStack) -> Any:
    """Give the schema of some columns of a partition, and its rows in batches."""
    import sqlalchemy as sa

    table, engine = reflected(file.url)
    schema = pa.schema([(name, arrow_type(table.c[name])) for name in columns])
    query = sa.select(*(table.c[name] for name in columns))
    if file.partition is not None:
        name, value = file.partition
        query = query.where(
            table.c[name] == value if value is not None else table.c[name].is_(None)
        )

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            with engine.connect() as opened:
                yield from streamed(opened, query, schema, file)
        except sa.exc.SQLAlchemyError as error:
            kind = type(getattr(error, "orig", None) or error).__name__
            raise InputError(
                f"{file.name} cannot be read ({kind}): is the database there?"
            ) from None

    return schema, batches()


def streamed(
    opened: sa.Connection, query: sa.Select[Any], schema: pa.Schema, file: InputFile
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a query in batches, which a cursor of the server reads."""
    # the driver would fetch all rows at once
    options = {"stream_results": True, "max_row_buffer": CHUNK_ROWS}
    for rows in opened.execute(query, execution_options=options).partitions(CHUNK_ROWS):
        yield _batch(rows, schema, file)


def names_of(file: InputFile) -> list[str]:
    """Return the names of the columns of a partition's table."""
    table, _ = reflected(file.url)
    return [column.name for column in table.columns]


def _batch(rows: Any, schema: pa.Schema, file: InputFile) -> pa.RecordBatch:
    columns = []
    for place, field in enumerate(schema):
        values = [row[place] for row in rows]
        if field.type == pa.float64():
            values = [None if value is None else float(value) for value in values]
        try:
            columns.append(pa.array(values, field.type))
        except (pa.ArrowException, TypeError):  # the message may quote a value
            raise InputError(
                f"the column {field.name!r} of {file.name} mixes types of values: CAST it to "
                "one in a view."
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def partition_query(
    location: str, partition_by: str | None, partitions: str | None, option: str
) -> str:
    """Write the query of the rows of the table ``URL#TABLE`` that a range of a column chooses.

    - **partitions**: ``A..B``, or None for all rows
    - **option**: with which the table was given, for messages

    Raises `InputError` if there is no such table or column, or a value cannot be compared.
    """
    import sqlalchemy as sa

    table, engine = reflected(location, option)
    column = _column(table, partition_by, "table", "partition_by")
    if column is None and partitions is not None:
        raise InputError(
            "--partition and --since choose values of a column: name it by --set "
            "table.partition_by, such as table.partition_by=day."
        )
    query = sa.select(*table.columns)
    if column is not None:
        query = _within(query, column, partitions)
    compiled = str(query.compile(engine, compile_kwargs={"literal_binds": True}))
    if engine.dialect.paramstyle in ("format", "pyformat"):
        compiled = compiled.replace("%%", "%")
    # a colon before a word would be a parameter
    return re.sub(r"(?<![:\w\\]):(?=\w)", r"\\:", compiled)


def reflected(location: str, option: str = "--input") -> tuple[sa.Table | sa.Subquery, sa.Engine]:
    """Return a table with the columns that the database says, or a query, and the database's
    engine.
    """
    import sqlalchemy as sa

    query = query_of(location)
    if query is not None:
        return queried(*query, option)
    connection, _, name = location.rpartition("#")
    address = without_secrets(location)
    if not connection or not name:
        raise InputError(f"{option} {address} names a database and no table: write URL#TABLE.")
    engine = open_database(connection, option, reads=True)
    schema, _, table = name.rpartition(".")
    try:
        database = sa.inspect(engine)
        if schema and schema not in database.get_schema_names():
            raise _no_table(database, schema, table, address)
        # not by reflection: DuckDB's driver cannot give a table's keys
        columns = database.get_columns(table, schema=schema or None)
    except sa.exc.NoSuchTableError:
        columns = []
    except sa.exc.SQLAlchemyError as error:
        kind = type(getattr(error, "orig", None) or error).__name__
        raise InputError(
            f"the database of {address} gives no answer ({kind}): check its address, and that its "
            "user may read."
        ) from None
    if not columns:
        raise _no_table(database, schema, table, address)
    declared = [sa.Column(column["name"], column["type"]) for column in columns]
    return sa.Table(table, sa.MetaData(), *declared, schema=schema or None), engine


def _no_table(database: sa.Inspector, schema: str, table: str, shown: str) -> InputError:
    """Say which schema or table is missing, and the nearest name."""
    schemas = database.get_schema_names()
    if schema and schema not in schemas:
        return InputError(
            f"the input {shown}: the database has no schema {schema!r}{nearest(schema, schemas)}."
        )
    tables = [*database.get_table_names(schema or None), *database.get_view_names(schema or None)]
    return InputError(
        f"the input {shown}: the database has no table {table!r}{nearest(table, tables)}; write "
        "URL#SCHEMA.TABLE if it is in another schema."
    )


def _column(table: sa.Table | sa.Subquery, name: str | None, section: str, key: str) -> Any:
    """Return a column of the table by its name; None without a name."""
    if name is None:
        return None
    if name not in table.c:
        names = [column.name for column in table.columns]
        raise InputError(
            f"{section}.{key} is {name!r}, which the table {table.name} lacks"
            f"{nearest(name, names)}."
        )
    return table.c[name]


def _within(query: Any, column: Any, wanted: str | None) -> Any:
    """Limit a query to the values ``A..B``, both included; an end may be left out."""
    if wanted is None:
        return query
    first, last = range_of(wanted, column.name, column.type.python_type)
    if first is not None:
        query = query.where(column >= first)
    if last is not None:
        query = query.where(column <= last)
    return query


def range_of(wanted: str, column: str | None, kind: type) -> tuple[Any, Any]:
    """Read ``A..B``, or one value, as values of a column; None for an end that is left out.

    Raises `InputError` for a type without an order, a text that is no value, or a reversed range.
    """
    first, dots, last = wanted.partition("..")
    if not dots:
        last = first
    reader = READERS.get(kind)
    if reader is None:
        raise InputError(
            f"--partition and --since: values of the column {column!r} have no order that can be "
            "written: use a date, a number or a text."
        )
    ends = []
    for text in (first, last):
        try:
            ends.append(reader(text) if text else None)
        except ValueError:
            raise InputError(
                f"--partition {wanted}: {text!r} is no value of the column {column!r}, such as "
                "2026-11-01 or today-7 of a date."
            ) from None
    begins, stops = ends
    if begins is not None and stops is not None and begins > stops:
        raise InputError(
            f"--partition {wanted} ends before it begins: write the smaller value first, "
            f"{last}..{first}."
        )
    return begins, stops


def in_range(value: Any, ends: tuple[Any, Any]) -> bool:
    """Whether a value is within the ends of `range_of`; a missing one is not."""
    if value is None:
        return False
    first, last = ends
    return (first is None or value >= first) and (last is None or value <= last)


def arrow_type(column: Any) -> pa.DataType:
    """Return the type that a column is read as; an `InputError` for others."""
    try:
        python_type = column.type.python_type
    except NotImplementedError:
        python_type = object
    for kind, arrow in ARROW_TYPES:
        if issubclass(python_type, kind):
            if kind is datetime.datetime and getattr(column.type, "timezone", False):
                return pa.timestamp("us", "UTC")
            return arrow
    raise InputError(
        f"the column {column.name!r} is {column.type}, which cannot be read: CAST it to text or a "
        "number in a view."
    )
