"""The output of a run over files in a database: a table of rows, one of rows set aside, one of records."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from evenhand.tasks.databases import is_database, open_database
from evenhand.tasks.errors import InputError, NotCarriedOut, without_secrets
from evenhand.tasks.filtering.output import UNIT_FILE, OutputFolder, UnitRecord, read_records
from evenhand.tasks.inputs import refuse_credentials

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


def open_output(address: str) -> OutputFolder:
    """Open a folder or URL of files, or the table of ``URL#TABLE``."""
    return OutputTable(address) if is_database(address) else OutputFolder(address)


def columns_of(schema: pa.Schema) -> list[sa.Column]:
    """Columns of a table for a file's; an `InputError` for a type that not every database has."""
    found = []
    for field in schema:
        kind = next((sql for holds, sql in KINDS if holds(field.type)), None)
        if kind is None:
            raise InputError(
                f"the column {field.name!r} is {field.type}, which a table cannot take: write files."
            )
        found.append(sa.Column(field.name, kind))
    return found


class OutputTable(OutputFolder):
    """An output in a database: TABLE of rows, TABLE_quarantine of rows set aside, TABLE_evenhand of records.

    Every row has the name of its unit in the column ``evenhand_unit``. One transaction writes a unit's rows
    and its record, so that a killed run leaves whole units, and a resumed one neither loses nor doubles rows.
    Where a database has no transactions, the resumed run removes rows of units without a record.
    """

    is_local = False

    def __init__(self, address: str) -> None:
        self.url, self.shown = address, without_secrets(address)
        connection, _, name = address.rpartition("#")
        if not connection or not re.fullmatch(r"(\w+\.)*\w+", name):
            raise InputError(f"the output {self.shown} names a database and no table: write URL#TABLE.")
        refuse_credentials(connection, "--output")
        self.engine = open_database(connection, "--output")
        schema, _, self.table = name.rpartition(".")
        self.schema, self.quarantine = schema or None, f"{self.table}_quarantine"
        self._records = self._make(
            f"{self.table}_evenhand", [sa.Column("record", sa.UnicodeText())], key=True
        )
        self._files: dict[str, Path] = {}

    def _make(self, name: str, columns: Sequence[sa.Column] = (), *, key: bool = False) -> sa.Table:
        unit = sa.Column(UNIT, sa.String(120), primary_key=key, nullable=False)
        return sa.Table(name, sa.MetaData(), *columns, unit, schema=self.schema)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        try:
            with self.engine.begin() as opened:
                yield opened
        except sa.exc.SQLAlchemyError as error:
            # not its text, which may quote a row
            kind = type(getattr(error, "orig", None) or error).__name__
            raise NotCarriedOut(
                f"the table {self.shown} cannot be written ({kind}): is the database there, and may its user "
                "create tables and write to them?"
            ) from None

    def _read(self, opened: sa.Connection, key: str) -> Any:
        """Content of a row of the table of records; None if there is none."""
        found = opened.scalar(sa.select(self._records.c.record).where(self._records.c[UNIT] == key))
        return None if found is None else json.loads(found)

    def _add(self, opened: sa.Connection, key: str, content: Mapping[str, Any]) -> None:
        opened.execute(self._records.insert(), {UNIT: key, "record": json.dumps(content, sort_keys=True)})

    def _tables(self, opened: sa.Connection) -> dict[str, sa.Table]:
        """Tables of the output that exist, by name."""
        names, known = (self._records.name, self.table, self.quarantine), sa.inspect(opened)
        return {name: self._make(name) for name in names if known.has_table(name, schema=self.schema)}

    def note(self) -> dict[str, Any] | None:
        """Input and verb of the output; None if it is not reserved."""
        with self._transaction() as opened:
            return self._read(opened, NOTE) if self._records.name in self._tables(opened) else None

    def claim(self, note: dict[str, Any]) -> None:
        """Create the table of records with the note; an `InputError` if the table of rows exists."""
        with self._transaction() as opened:
            if self.table in self._tables(opened):
                raise InputError(f"the table {self.shown} exists already: choose another, or drop it.")
            self._records.create(opened, checkfirst=True)
            self._add(opened, NOTE, note)

    def move_in(self, source: Path, *parts: str) -> str:
        """Remember a finished file; `write_record` sends its rows."""
        self._files["/".join(parts)] = source
        return str(source)

    def write_record(self, record: UnitRecord) -> None:
        """Write a unit's rows and its record in one transaction, unless another worker has."""
        parts = {self.table: record.part, self.quarantine: record.set_aside}
        files = {name: self._files.pop(part.name) for name, part in parts.items() if part is not None}
        tables = {name: self._table_for(name, pq.read_schema(file)) for name, file in files.items()}
        with self._transaction() as opened:
            if self._read(opened, record.unit) is not None:
                return
            self._add(opened, record.unit, asdict(record))
            for name, file in files.items():
                with pq.ParquetFile(file) as parquet:
                    for batch in parquet.iter_batches(BATCH_ROWS):
                        # few databases have NaN
                        rows = [
                            {k: v if v == v else None for k, v in row.items()} for row in batch.to_pylist()
                        ]
                        opened.execute(tables[name].insert(), [{**row, UNIT: record.unit} for row in rows])

    def _table_for(self, name: str, schema: pa.Schema) -> sa.Table:
        """Table for a part's columns; the first part creates it. An `InputError` if the columns misfit."""
        kinds, key = {column.name: str(column.type) for column in columns_of(schema)}, f"columns of {name}"
        with _CREATING:
            # another process may create it in this moment: then its columns count
            with suppress(NotCarriedOut), self._transaction() as opened:
                if self._read(opened, key) is None:
                    self._make(name, columns_of(schema)).create(opened)
                    self._add(opened, key, kinds)
            with self._transaction() as opened:
                known = self._read(opened, key)
        if known is None:
            raise NotCarriedOut(f"the table {name} of {self.shown} cannot be created: may the user do so?")
        for column, kind in kinds.items():
            if column == UNIT or known.get(column) != kind:
                raise InputError(
                    f"the column {column!r} ({kind}) does not fit the table {name}, where it is "
                    f"{known.get(column, 'absent')}: rename it, or write to another table."
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
        """Whether a unit is done: a database checks its own rows, and rows removed since stay removed."""
        return True

    def units(self) -> set[str]:
        """Names of all units that have rows or a record."""
        with self._transaction() as opened:
            tables = self._tables(opened).values()
            keys = [key for t in tables for key in opened.scalars(sa.select(t.c[UNIT]).distinct())]
        return {key for key in keys if UNIT_FILE.fullmatch(f"{key}.json")}
