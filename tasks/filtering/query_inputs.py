"""A query of a database in place of a table: ``URL#SELECT …``."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.databases import open_database
from evenhand.tasks.sources.queries import check_query

if TYPE_CHECKING:
    import sqlalchemy as sa

# Rows that show the types of a query's columns: a database names no types that all drivers give.
TYPED_ROWS = 1000
_QUERY = re.compile(r"(?P<connection>[^#]+)#\s*(?P<sql>(?:SELECT|WITH)\s.+)", re.DOTALL | re.I)
# A colon before a word would be a parameter.
_COLON = re.compile(r"(?<![:\w\\]):(?=\w)")


def query_of(location: str) -> tuple[str, str] | None:
    """The address of the database and the query of ``URL#SELECT …``; None for a table."""
    match = _QUERY.fullmatch(location.strip())
    if match is None:
        return None
    return match["connection"], match["sql"].rstrip("; \n")


def queried(connection: str, sql: str, option: str) -> tuple[sa.Subquery, sa.Engine]:
    """Return a query as something to select from, and the database's engine.

    Its name has a digest of its text, so that partitions of two queries are not taken for one.
    Raises `InputError` for a query that may write, or that the database refuses.
    """
    import sqlalchemy as sa

    check_query(sql)
    engine = open_database(connection, option, reads=True)
    text = _COLON.sub(r"\\:", sql)
    sample = sa.select(sa.text("*")).select_from(sa.text(f"({text}) q")).limit(TYPED_ROWS)
    try:
        with engine.connect() as opened:
            answer = opened.execute(sample)
            names = list(answer.keys())
            rows = answer.fetchall()
    except sa.exc.SQLAlchemyError as error:
        # not its text, which may quote a value
        kind = type(getattr(error, "orig", None) or error).__name__
        raise InputError(
            f"the query of {option} gets no answer ({kind}): try it in the database, each column "
            "with a name of its own."
        ) from None
    columns = _columns(names, rows)
    digest = hashlib.sha256(sql.encode()).hexdigest()[:8]
    return sa.text(text).columns(*columns).subquery(f"query_{digest}"), engine


def _columns(names: Sequence[str], rows: Sequence[Any]) -> list[Any]:
    """Columns with the types that their first values have."""
    import sqlalchemy as sa

    columns: list[Any] = []
    for place, name in enumerate(names):
        columns.append(sa.column(name, _type_of(row[place] for row in rows)))
    return columns


def _type_of(values: Iterable[Any]) -> Any:
    """The type of a column by its values: text where it has none, or others."""
    import sqlalchemy as sa

    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return sa.Boolean()
    if types == {int}:
        return sa.BigInteger()
    if types and types <= {int, float, decimal.Decimal}:
        return sa.Float()
    if types == {datetime.date}:
        return sa.Date()
    if types == {datetime.datetime}:
        return sa.DateTime()
    return sa.Text()
