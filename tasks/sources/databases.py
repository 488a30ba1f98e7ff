"""Addresses of databases and buckets: the extra that each needs, and SQLAlchemy engines."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsspec.registry import known_implementations, registry

from evenhand.tasks.errors import InputError
from evenhand.tasks.written_input import nearest_file

if TYPE_CHECKING:
    import sqlalchemy

# By extra of this package what addresses that need it start with; first with the extra's own
# driver.
EXTRAS = {
    "s3": ("s3", "s3a"),
    "gcs": ("gs", "gcs"),
    "azure": ("abfs", "abfss", "az", "adl"),
    "postgresql": ("postgresql",),
    "mysql": ("mysql+pymysql", "mysql", "mariadb"),
    "mssql": ("mssql",),
    "oracle": ("oracle+oracledb", "oracle"),
    "snowflake": ("snowflake",),
    "bigquery": ("bigquery",),
    "databricks": ("databricks",),
    "trino": ("trino",),
    "duckdb": ("duckdb",),
}
LOCK_TIMEOUT_S = 600  # how long a thread waits for another that writes to the same SQLite file


def missing_package(address: str) -> str:
    """Say in one line which extra serves an address whose package is not installed."""
    scheme = address.partition(":")[0]
    for extra, starts in EXTRAS.items():
        if scheme.partition("+")[0] in starts:
            written = f", and write {starts[0]}://" if "+" in starts[0] else ""
            return f"{scheme}:// needs an optional extra: pip install 'evenhand[{extra}]'{written}."
    return f"no installed package serves {scheme}://: check the address, or install its package."


def is_database(address: str) -> bool:
    """Whether an output is a table of a database: a URL of no file system, or ``$NAME#TABLE``."""
    scheme, separator, _ = address.partition("://")
    if separator and not scheme.startswith("$"):
        return scheme.rpartition("::")[2] not in {
            *known_implementations,
            *registry,
            *EXTRAS["azure"],
        }
    return re.match(r"(\$\w+|\$\{\w+\}|secret/[^#]+)#", address) is not None


def open_database(connection: str, key: str, *, reads: bool = False) -> sqlalchemy.Engine:
    """Make the engine of a URL, of ``$NAME`` or of ``secret/NAME``.

    With `reads` a database that is a file must be there, since SQLite and DuckDB would make an
    empty one. Raises `InputError`, with the name of the option or key, for a missing file, an unset
    variable, a malformed URL or a missing driver.
    """
    import sqlalchemy

    address = _secret(connection, key)
    variable = re.match(r"\$\{?(\w+)", connection)
    if variable is not None and variable[1] not in os.environ:
        raise InputError(
            f"{key} names the variable {variable[1]}, which is not set: set it to the URL of the "
            "database."
        )
    if not address or address.startswith("$"):
        raise InputError(
            f"a database needs {key}: a SQLAlchemy URL, $NAME of a variable that has one, or "
            "secret/NAME of a Prefect block."
        )
    try:
        engine = _engine(address)
    except (ImportError, sqlalchemy.exc.NoSuchModuleError):
        raise InputError(f"{key} cannot be used: {missing_package(address)}") from None
    except Exception as error:  # noqa: BLE001 - each driver has its own for a malformed URL
        reason = f"{key} cannot be used ({type(error).__name__}): it is no SQLAlchemy URL."
        raise InputError(reason) from None
    if reads:
        _require_file(engine, key)
    return engine


# Databases that are a file, and how the address of one in memory begins.
IN_FILES = ("sqlite", "duckdb")
NOT_IN_FILES = (":memory:", "file:", "md:", "motherduck:")


def _require_file(engine: sqlalchemy.Engine, key: str) -> None:
    """Raise `InputError` for the address of a file that does not exist."""
    path = engine.url.database
    if engine.dialect.name not in IN_FILES or not path or path.startswith(NOT_IN_FILES):
        return
    place = Path(path)
    if not place.is_file():
        raise InputError(
            f"{key} names the database {path}, which does not exist{nearest_file(place)}: correct "
            "the address."
        )


@lru_cache(maxsize=4)
def _engine(address: str) -> sqlalchemy.Engine:
    """One engine of a database in this process: DuckDB opens a file once."""
    import sqlalchemy

    timeout: dict[str, Any] = {"timeout": LOCK_TIMEOUT_S} if address.startswith("sqlite") else {}
    pool: dict[str, Any] = {
        "poolclass": sqlalchemy.QueuePool,
        "max_overflow": -1,
        "pool_pre_ping": True,
    }
    # messages with parameters would quote rows
    return sqlalchemy.create_engine(address, hide_parameters=True, connect_args=timeout, **pool)


def _secret(text: str, key: str) -> str:
    """Replace $NAME by the variable's value, or a whole secret/NAME by that of a Prefect block."""
    if not text.startswith("secret/"):
        return os.path.expandvars(text)
    from prefect.blocks.system import Secret

    try:
        block: Any = Secret
        return str(block.load(text.removeprefix("secret/"), _sync=True).get())
    except Exception as error:  # noqa: BLE001 - Prefect has many
        raise InputError(
            f"{key} names the Prefect block {text}, which cannot be read ({type(error).__name__}): "
            "create it on the Prefect server of this run, or use $NAME."
        ) from None
