"""The output of a run over files in tables of a database, each unit complete or absent."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from evenhand.tasks.errors import InputError, NotCarriedOut, without_secrets
from evenhand.tasks.filtering.output import UNIT_FILE, OutputFolder, UnitRecord, read_records
from evenhand.tasks.sources.databases import open_database
from evenhand.tasks.written_input import nearest, refuse_credentials

if TYPE_CHECKING:
    from evenhand.tasks.filtering.in_database import Pushed

UNIT = "evenhand_unit"
NOTE = "input"  # key of the note in the table of records
BATCH_ROWS = 5000
IS_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)
KINDS: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (pa.types.is_boolean, sa.Boolean()),
    (pa.types.is_integer, sa.BigInteger()),
    (pa.types.is_floating, sa.Double()),
    (pa.types.is_date, sa.Date()),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, sa.DateTime()),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz == "UTC", sa.TIMESTAMP(timezone=True)),
    (lambda kind: any(holds(kind) for holds in IS_TEXT), sa.UnicodeText()),
)
_CREATING = threading.Lock()


def columns_of(schema: pa.Schema) -> list[sa.Column]:
    """Columns of a table for a file's; an `InputError` for a type that not every database has."""
    columns = []
    for item in schema:
        kind = next((sql for holds, sql in KINDS if holds(item.type)), None)
        if kind is None:
            raise InputError(
                f"the column {item.name!r} is {item.type}, which a table cannot take: write files."
            )
        columns.append(sa.Column(item.name, kind))
    return columns


def _table_row(row: Mapping[str, Any], unit: str) -> dict[str, Any]:
    """A row with the name of its unit; NaN becomes NULL, as few databases have it."""
    values = dict(row)
    for name, value in row.items():
        if value != value:
            values[name] = None
    values[UNIT] = unit
    return values


class OutputTable(OutputFolder):
    """An output in a database: TABLE of rows, TABLE_quarantine of rows set aside, TABLE_evenhand of
    records.

    Every row has the name of its unit in the column ``evenhand_unit``. One transaction writes a
    unit's rows and its record, so that a killed run leaves whole units, and a resumed one neither
    loses nor doubles rows. Where a database has no transactions, the resumed run removes rows of
    units without a record.
    """

    is_local = False

    def __init__(self, address: str) -> None:
        self.url = address
        self.shown = without_secrets(address)
        connection, _, name = address.rpartition("#")
        if not connection or not re.fullmatch(r"(\w+\.)*\w+", name):
            raise InputError(
                f"the output {self.shown} names a database and no table: write URL#TABLE."
            )
        refuse_credentials(connection, "--output")
        self.engine = open_database(connection, "--output")
        schema, _, self.table = name.rpartition(".")
        self.schema = schema or None
        self.quarantine = f"{self.table}_quarantine"
        self._records = self._make(
            f"{self.table}_evenhand", [sa.Column("record", sa.UnicodeText())], key=True
        )
        self._files: dict[str, Path] = {}

    def _make(self, name: str, columns: Sequence[sa.Column] = (), *, key: bool = False) -> sa.Table:
        unit = sa.Column(UNIT, sa.String(120), primary_key=key, nullable=False)
        return sa.Table(name, sa.MetaData(), *columns, unit, schema=self.schema)

    @contextmanager
    def _transaction(self, connection: sa.Connection | None = None) -> Iterator[sa.Connection]:
        """Begin a transaction, of a connection of its own if none is given."""
        try:
            if connection is None:
                with self.engine.begin() as opened:
                    yield opened
            else:
                connection.rollback()  # of what it has read
                with connection.begin():
                    yield connection
        except sa.exc.SQLAlchemyError as error:
            # not its text, which may quote a row
            kind = type(getattr(error, "orig", None) or error).__name__
            raise NotCarriedOut(
                f"the table {self.shown} cannot be written ({kind}): is the database there, and "
                "may its user create tables and write to them?"
            ) from None

    def _read(self, opened: sa.Connection, key: str) -> Any:
        """Content of a row of the table of records; None if there is none."""
        query = sa.select(self._records.c.record).where(self._records.c[UNIT] == key)
        content = opened.scalar(query)
        if content is None:
            return None
        return json.loads(content)

    def _add(self, opened: sa.Connection, key: str, content: Mapping[str, Any]) -> None:
        opened.execute(
            self._records.insert(), {UNIT: key, "record": json.dumps(content, sort_keys=True)}
        )

    def _tables(self, opened: sa.Connection) -> dict[str, sa.Table]:
        """Tables of the output that exist, by name."""
        names = (self._records.name, self.table, self.quarantine)
        database = sa.inspect(opened)
        self._check_schema(database)
        return {
            name: self._make(name) for name in names if database.has_table(name, schema=self.schema)
        }

    def _check_schema(self, database: sa.Inspector) -> None:
        """Refuse a schema that the database does not have, and name the nearest."""
        if self.schema is None:
            return
        # DuckDB lists schemas with their databases
        schemas = [name.rpartition(".")[2].strip('"') for name in database.get_schema_names()]
        if self.schema.rpartition(".")[2] in schemas:
            return
        hint = nearest(self.schema, schemas)
        raise InputError(
            f"the output {self.shown}: the database has no schema {self.schema!r}{hint}."
        )

    def note(self) -> dict[str, Any] | None:
        """Input and verb of the output; None if it is not reserved."""
        with self._transaction() as opened:
            if self._records.name not in self._tables(opened):
                return None
            note: dict[str, Any] | None = self._read(opened, NOTE)
            return note

    def claim(self, note: dict[str, Any]) -> None:
        """Create the table of records with the note; an `InputError` if the table of rows
        exists.
        """
        with self._transaction() as opened:
            if self.table in self._tables(opened):
                raise InputError(
                    f"the table {self.shown} exists already: choose another, or drop it."
                )
            self._records.create(opened, checkfirst=True)
            self._add(opened, NOTE, note)

    def move_in(self, source: Path, *parts: str) -> str:
        """Remember a finished file; `write_record` sends its rows."""
        self._files["/".join(parts)] = source
        return str(source)

    def write_record(self, record: UnitRecord, pushed: Pushed | None = None) -> None:
        """Write a unit's rows and its record in one transaction, unless another worker has.

        `pushed` has further rows, which are in the database already.
        """
        parts = {self.table: record.part, self.quarantine: record.set_aside}
        files = {
            name: self._files.pop(part.name) for name, part in parts.items() if part is not None
        }
        tables = {name: self._table_for(name, pq.read_schema(file)) for name, file in files.items()}
        connection = None
        if pushed is not None:
            tables[self.table] = self._table_for(self.table, pushed.schema)
            connection = pushed.connection
        with self._transaction(connection) as opened:
            if self._read(opened, record.unit) is not None:
                return
            self._add(opened, record.unit, asdict(record))
            if pushed is not None:
                opened.execute(pushed.insertion(tables[self.table], record.unit))
            for name, file in files.items():
                with pq.ParquetFile(file) as parquet:
                    for batch in parquet.iter_batches(BATCH_ROWS):
                        rows = [_table_row(row, record.unit) for row in batch.to_pylist()]
                        opened.execute(tables[name].insert(), rows)

    def _table_for(self, name: str, schema: pa.Schema) -> sa.Table:
        """Table for a part's columns; the first part creates it. An `InputError` if the columns
        misfit.
        """
        kinds = {column.name: str(column.type) for column in columns_of(schema)}
        key = f"columns of {name}"
        with _CREATING:
            # another process may create it in this moment: then its columns count
            with suppress(NotCarriedOut), self._transaction() as opened:
                if self._read(opened, key) is None:
                    self._make(name, columns_of(schema)).create(opened)
                    self._add(opened, key, kinds)
            with self._transaction() as opened:
                types = self._read(opened, key)
        if types is None:
            raise NotCarriedOut(
                f"the table {name} of {self.shown} cannot be created: may the user do so?"
            )
        for column, kind in kinds.items():
            if column == UNIT or types.get(column) != kind:
                raise InputError(
                    f"the column {column!r} ({kind}) does not fit the table {name}, where it is "
                    f"{types.get(column, 'absent')}: rename it, or write to another table."
                )
        return self._make(name, columns_of(schema))

    def remove(self, unit: str) -> None:
        """Remove a unit's record and rows."""
        with self._transaction() as opened:
            for table in self._tables(opened).values():
                opened.execute(table.delete().where(table.c[UNIT] == unit))

    def records(self) -> list[UnitRecord]:
        """Every readable record, ordered by file and index."""
        with self._transaction() as opened:
            return read_records(opened.scalars(sa.select(self._records.c.record)).all())

    def is_whole(self, record: UnitRecord) -> bool:
        """Whether a unit is done: a database checks its own rows, and rows removed since stay
        removed.
        """
        return True

    def units(self) -> set[str]:
        """Names of all units that have rows or a record."""
        with self._transaction() as opened:
            tables = self._tables(opened).values()
            units: set[str] = set()
            for table in tables:
                units.update(opened.scalars(sa.select(table.c[UNIT]).distinct()))
        return {unit for unit in units if UNIT_FILE.fullmatch(f"{unit}.json")}
