"""Whether a query only reads, as a parser of its database's dialect understands it.

`queries` reads the text as any database might; this module builds the tree of the one statement
and refuses every part that changes something. A function that neither the parser nor the list of
its database knows may have effects: the database itself is asked where it can answer.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.function_names import (
    EFFECTS,
    EFFECTS_IN_CLICKHOUSE,
    EFFECTS_IN_DUCKDB,
    EFFECTS_IN_TRINO,
    FILES_IN_DUCKDB,
    HARMLESS_VOLATILE,
    MSSQL_STATEMENTS,
    READING,
)

if TYPE_CHECKING:
    import sqlalchemy
    from sqlglot import exp

# The parser's dialect of a SQLAlchemy backend; any other backend is read as standard SQL.
DIALECTS = {
    "sqlite": "sqlite",
    "postgresql": "postgres",
    "cockroachdb": "postgres",
    "redshift": "redshift",
    "mysql": "mysql",
    "mariadb": "mysql",
    "mssql": "tsql",
    "oracle": "oracle",
    "snowflake": "snowflake",
    "bigquery": "bigquery",
    "databricks": "databricks",
    "trino": "trino",
    "duckdb": "duckdb",
    "clickhouse": "clickhouse",
}
# Databases whose functions may write or reach other machines within a SELECT.
OPEN_TO_FUNCTIONS = ("postgresql", "cockroachdb", "mysql", "mariadb", "mssql", "oracle", "duckdb")
MSSQL_LOCKS = ("UPDLOCK", "XLOCK", "TABLOCK", "TABLOCKX", "HOLDLOCK", "SERIALIZABLE", "PAGLOCK")
_EFFECTS = re.compile(rf"(?:{'|'.join(EFFECTS)})", re.IGNORECASE)
_EFFECTS_OF = {
    "duckdb": re.compile(rf"(?:{'|'.join(EFFECTS_IN_DUCKDB)})", re.IGNORECASE),
    "trino": re.compile(rf"(?:{'|'.join(EFFECTS_IN_TRINO)})", re.IGNORECASE),
    "clickhouse": re.compile(rf"(?:{'|'.join(EFFECTS_IN_CLICKHOUSE)})", re.IGNORECASE),
}
_FILES_IN_DUCKDB = re.compile(rf"(?:{'|'.join(FILES_IN_DUCKDB)})", re.IGNORECASE)
# DuckDB reads a file in place of a table of such a name.
_FILE_NAME = re.compile(
    r"[/\\*?:]|\.(?:csv|tsv|txt|parquet|pq|json|jsonl|ndjson|arrow|feather|xlsx|xls|db|duckdb)"
    r"(?:\.\w{1,4})?$",
    re.IGNORECASE,
)
# The key of a DuckDB connection that lets its queries read files.
FILES_KEY = "enable_external_access"
FILES_REFUSED = (
    "table.sql reads {name}, and a query reads the tables of its connection: add "
    f"?{FILES_KEY}=true to table.connection if it may read files, or name the file in table.path."
)


def may_read_files(url: sqlalchemy.URL) -> bool:
    """Whether a DuckDB connection says that its queries read files: it has no tables of its own, or
    names the key for it.
    """
    stated = str(url.query.get(FILES_KEY, "")).lower()
    if stated:
        return stated in ("true", "1")
    return url.database in (None, "", ":memory:")


def close_files(url: sqlalchemy.URL, opened: sqlalchemy.Connection) -> None:
    """Have DuckDB itself refuse files, addresses and variables of Python to a query."""
    opened.exec_driver_sql("SET python_enable_replacements = false")
    opened.exec_driver_sql("SET autoinstall_known_extensions = false")
    if not may_read_files(url):
        opened.exec_driver_sql(f"SET {FILES_KEY} = false")


OUTSIDE = (
    "table.sql reads {outside}, and a query reads the tables of its connection: make a view in the "
    "database, and select from the view."
)


def check_parsed_query(sql: str, backend: str, *, files: bool = False) -> list[str]:
    """Parse a query as its database does, and check each part of the tree.

    With `files` a query of DuckDB may read files.

    Returns the names of the functions that are not known to only read, such as those of the
    database's owner: `check_functions` asks the database about them.

    Raises `InputError` unless the query is one SELECT, or VALUES, without a part that writes.
    """
    dialect = DIALECTS.get(backend, "")
    statement = _only_statement(sql.replace("\\:", ":"), dialect)
    names = set()
    for node in statement.walk():
        effect = _effect_of(node, dialect)
        if effect:
            raise InputError(
                f"table.sql must be one SELECT that changes nothing, and {effect} may change "
                "something: leave it out."
            )
        name = _function_name(node)
        if dialect == "duckdb" and not files:
            _refuse_files(node, name)
        outside = _outside(node, dialect)
        if outside:
            raise InputError(OUTSIDE.format(outside=outside))
        if _has_effect(name.rpartition(".")[2], dialect):
            raise InputError(
                f"table.sql calls {name}, which writes, waits or runs other text: leave it out."
            )
        if name:
            names.add(name)
    return _unknown_functions(names, backend)


def check_functions(names: list[str], backend: str, opened: sqlalchemy.Connection) -> None:
    """Raise `InputError` for a function of which the database does not say that it only reads."""
    if not names:
        return
    plain_names = {name.rpartition(".")[2] for name in names}
    reading: set[str] = set()
    cure = "make a view in the database that calls it, and select from the view"
    if backend in ("postgresql", "cockroachdb"):
        reading = _reading_in_postgresql(opened)
        cure = "declare it STABLE if it only reads"
    elif backend in ("mysql", "mariadb"):
        reading = _stored_in_mysql(opened)
    elif backend == "duckdb":
        reading = _reading_in_duckdb(opened)
    for name in sorted(plain_names - reading):
        raise InputError(f"table.sql calls the function {name}, which may have effects: {cure}.")


def _has_effect(name: str, dialect: str) -> bool:
    """Whether a function of this name writes, waits or runs another text."""
    if _EFFECTS.fullmatch(name):
        return True
    of_dialect = _EFFECTS_OF.get(dialect)
    return of_dialect is not None and of_dialect.fullmatch(name) is not None


def _outside(node: exp.Expr, dialect: str) -> str:
    """What a part of a query reads that is no table of its database; empty if it is one."""
    from sqlglot import exp

    if not isinstance(node, exp.Table):
        return ""
    names = [str(part.name) for part in node.parts]
    if dialect == "tsql" and isinstance(node.this, exp.Dot):
        return "a table of another server"
    if dialect == "oracle" and any("@" in name for name in names):
        return "a table behind a database link"
    if dialect == "snowflake" and str(node.name or node.this).startswith("@"):
        return "a stage"
    if dialect == "databricks" and any("/" in name or ":" in name for name in names):
        return "a file"
    return ""


def _refuse_files(node: exp.Expr, function: str) -> None:
    file = _file_of(node, function)
    if file:
        raise InputError(FILES_REFUSED.format(name=file))


def _file_of(node: exp.Expr, function: str) -> str:
    """What a part of a query of DuckDB reads besides tables; empty if nothing."""
    from sqlglot import exp

    if isinstance(node, exp.ReadCSV | exp.ReadParquet):
        return "a file"
    if function and _FILES_IN_DUCKDB.fullmatch(function.rpartition(".")[2]):
        return f"files by {function}"
    if isinstance(node, exp.Table) and _FILE_NAME.search(str(node.name)):
        return f"the file {node.name}"
    return ""


def _only_statement(sql: str, dialect: str) -> exp.Expr:
    """The tree of the only statement. Raises `InputError` for none, for several or for another."""
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it warns of what is refused below
    try:
        statements = parse(sql, read=dialect or None)
    except (SqlglotError, RecursionError, ValueError, IndexError, TypeError) as error:
        place = re.search(r"Line (\d+), Col: (\d+)", str(error))
        where = f" at line {place[1]}, column {place[2]}" if place else ""
        raise InputError(
            f"table.sql cannot be read as {dialect or 'standard'} SQL{where}: correct it, or make "
            "a view in the database and select from it."
        ) from None
    written = []
    for statement in statements:
        if statement is not None and not isinstance(statement, exp.Semicolon):
            written.append(statement)
    if len(written) != 1 or not isinstance(written[0], exp.Query | exp.Values):
        raise InputError(
            "table.sql must be one SELECT that changes nothing: write a single query, without "
            "statements that write."
        )
    return written[0]


def _effect_of(node: exp.Expr, dialect: str) -> str:
    """What a part of the tree does besides reading, in words; empty if it only reads."""
    from sqlglot import exp

    statements = (
        exp.DML,
        exp.DDL,
        exp.Alter,
        exp.Analyze,
        exp.Attach,
        exp.Cache,
        exp.Command,
        exp.Detach,
        exp.Drop,
        exp.Execute,
        exp.Export,
        exp.Grant,
        exp.Install,
        exp.Into,
        exp.Kill,
        exp.LoadData,
        exp.Lock,
        exp.NextValueFor,
        exp.Pragma,
        exp.Returning,
        exp.Revoke,
        exp.Set,
        exp.Transaction,
        exp.TruncateTable,
        exp.Use,
    )
    if isinstance(node, statements):
        return type(node).__name__.upper()
    if dialect == "mysql" and isinstance(node, exp.PropertyEQ):
        return "the assignment of a variable"
    if dialect == "tsql":
        return _effect_in_mssql(node)
    return ""


def _effect_in_mssql(node: exp.Expr) -> str:
    """SQL Server ends a statement without a semicolon where a word begins another one."""
    from sqlglot import exp

    if isinstance(node, exp.WithTableHint):
        hints = node.sql(dialect="tsql").upper()
        for lock in MSSQL_LOCKS:
            if re.search(rf"\b{lock}\b", hints):
                return f"the lock {lock}"
    alone = isinstance(node.parent, exp.Alias | exp.TableAlias | exp.Column | exp.Table)
    qualified = node.parent is not None and bool(node.parent.args.get("table"))
    if isinstance(node, exp.Identifier) and alone and not qualified and not node.args.get("quoted"):
        word = str(node.this).upper()
        if word in MSSQL_STATEMENTS:
            return f"the word {word}, which begins a statement,"
    return ""


def _function_name(node: exp.Expr) -> str:
    """The name of a function that the parser does not know, with its schema; empty for others."""
    from sqlglot import exp

    if not isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return ""
    if isinstance(node.parent, exp.Hint):  # of an optimiser
        return ""
    name = str(node.name or node.this).strip('"`[]').lower()
    schema = ""
    if isinstance(node.parent, exp.Dot):
        schema = node.parent.this.sql().strip('"`[]').lower()
    elif isinstance(node.parent, exp.Table):
        schema = str(node.parent.db).lower()
    return f"{schema}.{name}" if schema else name


def _unknown_functions(names: set[str], backend: str) -> list[str]:
    if backend not in OPEN_TO_FUNCTIONS:
        return []
    unknown = []
    for name in sorted(names):
        schema, _, plain = name.rpartition(".")
        # a function of SQL Server's users has a schema, and cannot change anything
        of_mssql_user = backend == "mssql" and schema not in ("", "sys")
        if plain not in READING and not of_mssql_user:
            unknown.append(name)
    return unknown


def _reading_in_postgresql(opened: sqlalchemy.Connection) -> set[str]:
    """Functions of which no form is volatile: PostgreSQL runs them without writing."""
    rows = opened.exec_driver_sql(
        "select lower(proname) from pg_catalog.pg_proc group by 1 "
        "having not pg_catalog.bool_or(provolatile = 'v')"
    )
    return {str(name) for (name,) in rows} | set(HARMLESS_VOLATILE)


def _stored_in_mysql(opened: sqlalchemy.Connection) -> set[str]:
    """Functions written in SQL, which the read-only transaction keeps from writing."""
    rows = opened.exec_driver_sql(
        "select lower(routine_name) from information_schema.routines "
        "where routine_type = 'FUNCTION'"
    )
    return {str(name) for (name,) in rows}


def _reading_in_duckdb(opened: sqlalchemy.Connection) -> set[str]:
    rows = opened.exec_driver_sql(
        "select lower(function_name) from duckdb_functions() group by 1 "
        "having not bool_or(coalesce(has_side_effects, false))"
    )
    return {str(name) for (name,) in rows}
