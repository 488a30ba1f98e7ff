"""Predictions that the database computes: the rows of a partition do not leave it.

The model is the query that `evenhand export --to sql` writes. It decides about the rows that meet
the contract. All others are read and judged by the model itself, so that every row ends as it does
without this option.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import is_text
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.exporting.score import Score, read_classifier
from evenhand.tasks.exporting.sql import Query, quoted
from evenhand.tasks.filtering.filter_inputs import InputFile
from evenhand.tasks.filtering.output import OutputFolder, unit_name
from evenhand.tasks.filtering.output_table import UNIT, OutputTable
from evenhand.tasks.filtering.prediction_columns import BINS, COLUMNS
from evenhand.tasks.filtering.reading import Stream, select_columns
from evenhand.tasks.filtering.table_inputs import arrow_type, reflected, streamed

if TYPE_CHECKING:
    from evenhand.fairlib.preprocessing.encoder import TableEncoder
    from evenhand.tasks.filtering.predicting import RowPredictor
    from evenhand.tasks.registry.bundle import Bundle

# By dialect of SQLAlchemy that of the query: those in which every decision was compared.
DIALECTS = {"postgresql": "postgres", "duckdb": "duckdb"}
DECIDED = "evenhand_decided"  # whether the query decides about a row
LEAVE_OUT = "leave --in-database out"


@dataclass
class Pushed:
    """A partition that the database has judged, in a temporary table of this connection."""

    connection: sa.Connection
    judged: sa.Table
    stream: Stream  # the rows that the query does not decide about
    schema: pa.Schema  # of the output
    version: str  # of the model
    rows: int  # that the query decides about
    masses: NDArray[np.float64]  # of these rows, as of the judge

    def insertion(self, output: sa.Table, unit: str) -> sa.Insert:
        """Write the rows that the query decided about, with the name of their unit."""
        names = list(self.schema.names)
        values: list[Any] = []
        for name in names:
            if name == COLUMNS[-1]:
                values.append(sa.literal(self.version))
            else:
                values.append(self.judged.c[name])
        rows = sa.select(*values, sa.literal(unit)).where(self.judged.c[DECIDED])
        return output.insert().from_select([*names, UNIT], rows)


def exported(bundle: Bundle) -> tuple[TableEncoder, Score]:
    """Encoder and score of a classifier; an `InputError` if SQL cannot express it."""
    try:
        return read_classifier(bundle, "sql")
    except InputError as error:
        raise InputError(f"{LEAVE_OUT}: {error}") from None


@contextmanager
def judged_partition(file: InputFile, judge: Any, output: OutputFolder) -> Iterator[Pushed]:
    """Let the database judge a partition, and give the result while the temporary table is there.

    `judge` is a `RowPredictor`: only predictions are computed in databases.
    Raises `InputError` if the database, or the type of a column, does not allow it, and
    `NotCarriedOut` if the database fails.
    """
    table, engine = reflected(file.url)
    if not isinstance(table, sa.Table):
        raise InputError(f"--in-database needs a table, and no query: {LEAVE_OUT}.")
    dialect = DIALECTS.get(engine.dialect.name)
    if dialect is None:
        raise InputError(
            f"--in-database takes PostgreSQL and DuckDB, not {engine.dialect.name}: leave it out."
        )
    if not isinstance(output, OutputTable) or output.engine.url != engine.url:
        raise InputError(
            "--in-database needs the output in the database of the input: write --output URL#TABLE "
            "with the same URL, or leave it out."
        )
    names, left_out = select_columns([column.name for column in table.columns], judge, file.name)
    _check_types(table, judge)
    query = _query(table, names, file, judge, dialect)
    name = f"evenhand_{unit_name(file.name, 0).replace('-', '_')}"
    try:
        with engine.connect() as opened:
            _execute(opened, f"CREATE TEMPORARY TABLE {name} AS {query}")
            opened.commit()
            try:
                yield _pushed(opened, name, table, names, left_out, file, judge)
            finally:
                opened.rollback()
                _execute(opened, f"DROP TABLE {name}")
                opened.commit()
    except sa.exc.SQLAlchemyError as error:
        # not its text, which may quote a row
        kind = type(getattr(error, "orig", None) or error).__name__
        raise NotCarriedOut(
            f"the database cannot judge {file.name} ({kind}): may its user create temporary "
            f"tables? Else {LEAVE_OUT}."
        ) from None


def _execute(opened: sa.Connection, statement: str) -> None:
    """Execute a statement as it is: colons and percent signs in it are no parameters."""
    opened.exec_driver_sql(statement, execution_options={"no_parameters": True})


def _pushed(
    opened: sa.Connection,
    name: str,
    table: sa.Table,
    names: list[str],
    left_out: list[str],
    file: InputFile,
    judge: RowPredictor,
) -> Pushed:
    """Count the rows that the query decided about, and stream the others."""
    columns = [sa.Column(column, table.c[column].type) for column in names]
    for column in (*COLUMNS[:2], DECIDED):
        columns.append(sa.Column(column))
    judged = sa.Table(name, sa.MetaData(), *columns)
    rows, masses = _tallies(opened, judged, judge)
    schema = pa.schema([(column, arrow_type(table.c[column])) for column in names])
    unjudged = sa.select(*(judged.c[column] for column in names)).where(sa.not_(judged.c[DECIDED]))
    stream = Stream(streamed(opened, unjudged, schema, file), left_out, schema)
    added = [pa.field(column, kind) for column, kind in judge.added.items()]
    return Pushed(
        connection=opened,
        judged=judged,
        stream=stream,
        schema=pa.schema([*schema, *added]),
        version=judge.model.version,
        rows=rows,
        masses=masses,
    )


def _tallies(
    opened: sa.Connection, judged: sa.Table, judge: RowPredictor
) -> tuple[int, NDArray[np.float64]]:
    """Number of the rows that the query decided about, and these by probability and prediction."""
    positive = judge.labels[1].as_py()
    scaled = sa.func.floor(judged.c[COLUMNS[1]] * sa.literal_column(f"{BINS}"))
    is_positive = judged.c[COLUMNS[0]] == sa.literal(positive)
    counted = sa.select(scaled, is_positive, sa.func.count()).where(judged.c[DECIDED])
    # by number: an expression with parameters is another one for PostgreSQL
    counted = counted.group_by(sa.text("1"), sa.text("2"))
    total = 0
    masses = np.zeros(BINS + 1)
    for place, predicted, count in opened.execute(counted):
        masses[min(int(place), BINS - 1)] += count
        if predicted:
            masses[BINS] += count
        total += count
    return total, masses


def _query(
    table: sa.Table, names: list[str], file: InputFile, judge: RowPredictor, dialect: str
) -> str:
    """Write the query of a partition's columns, the predictions, and whether it decides."""
    encoder, score = judge.exported
    query = Query(encoder, judge.bundle.contract, dialect, "rows")
    place = quoted(table.name, '"')
    if table.schema is not None:
        place = f"{quoted(table.schema, chr(34))}.{place}"
    chosen = ", ".join(quoted(name, '"') for name in names)
    source = f"SELECT {chosen} FROM {place}"
    if file.partition is not None:
        source += f" WHERE {_is_partition(*file.partition)}"
    query.table = f"({query.translate(source)})"
    query.rules(judge.model.features, observed_too=True)
    outputs = query.classify(score, *judge.bundle.inputs["label_values"])
    outputs[DECIDED] = "COALESCE(evenhand_valid, FALSE)"
    return query.select([], outputs).rstrip().rstrip(";")


def _is_partition(column: str, value: Any) -> str:
    """Condition on a partition's rows, in sqlglot's common dialect."""
    name = quoted(column, '"')
    if value is None:
        return f"{name} IS NULL"
    if isinstance(value, bool) or not isinstance(value, int):
        text = quoted(str(value))
    else:
        text = str(value)
    if isinstance(value, datetime.datetime):
        text = f"CAST({text} AS TIMESTAMP)"
    elif isinstance(value, datetime.date):
        text = f"CAST({text} AS DATE)"
    elif isinstance(value, bool):
        text = f"CAST({text} AS BOOLEAN)"
    return f"{name} = {text}"


def _check_types(table: sa.Table, judge: RowPredictor) -> None:
    """Refuse columns that are converted when rows are read, which the query does not."""
    settings = judge.settings
    if settings.decimal or settings.dates or settings.spellings:
        raise InputError(
            f"the model's table has decimal, dates or spellings, which SQL does not read: "
            f"{LEAVE_OUT}."
        )
    for name in judge.model.features:
        logical_type = judge.bundle.contract.column(name).logical_type
        column = table.c[name]
        is_padded = isinstance(column.type, sa.CHAR)
        if is_padded or not _fits(arrow_type(column), logical_type):
            raise InputError(
                f"the column {name!r} of {table.name} is {column.type}, and the contract has "
                f"{logical_type}: CAST it in a view, or {LEAVE_OUT}."
            )


def _fits(kind: pa.DataType, logical_type: str) -> bool:
    """Whether the query and the model read values of a type as the same values."""
    if logical_type == "string":
        return is_text(kind)
    if logical_type == "integer":
        return pa.types.is_integer(kind)
    if logical_type == "number":
        return pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if logical_type == "boolean":
        return pa.types.is_boolean(kind)
    return pa.types.is_date(kind)
