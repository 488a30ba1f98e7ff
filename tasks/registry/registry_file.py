"""The registry's SQLite file: MLflow migrates a copy, which replaces the file when it is whole.

MLflow itself migrates in place, partly outside of a transaction: a kill would leave a file that
nothing can use or migrate.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from filelock import FileLock, Timeout

from evenhand.tasks.errors import NotCarriedOut, disk_is_full
from evenhand.tasks.execution.store import cache_folder

SQLITE = "sqlite:///"
WAIT_S = 300.0
BUSY_S = 20.0
# Alembic copies a table's rows into a table of this name, which then takes the table's place.
UNFINISHED = "_alembic_tmp_"
# Rows that MLflow itself inserts into an empty database.
INITIAL_ROWS = {
    "workspaces": "name = 'default'",
    "experiments": "experiment_id = 0 and name = 'Default'",
}
# Tables from which no migration removes rows.
KEPT = (
    "registered_models",
    "model_versions",
    "model_version_tags",
    "registered_model_tags",
    "runs",
    "params",
)


def prepare_registry_file(uri: str, *, mend: bool = False) -> None:
    """Create, migrate or mend the registry's SQLite file if it is not of the installed MLflow's
    schema.

    Nothing is done for a server, another database, a file of a newer MLflow, or a file that is up
    to date. A file that holds rows of a user is kept next to the migrated one, under a name with
    ``.bak``. With `mend`, tables that a killed migration left are looked for in any case.

    Raises `NotCarriedOut` if another process migrates it for too long, or the migration fails: the
    file is then as it was.
    """
    path = sqlite_file(uri)
    if path is None or (_revision(path) == _latest_revision() and not mend):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # filelock sets this mode whatever the umask is
        with FileLock(f"{path}.lock", timeout=WAIT_S, mode=0o600):
            _bring_up_to_date(path, mend=mend)
    except Timeout:
        raise NotCarriedOut(
            f"another process migrates the model registry at {path} for more than {WAIT_S:.0f} s: "
            "end it, then run again."
        ) from None


def sqlite_file(uri: str) -> Path | None:
    """Path of the database of a SQLite address; None for any other address, and for one in
    memory.
    """
    if not uri.startswith("sqlite"):
        return None
    from sqlalchemy.engine import make_url

    database = make_url(uri).database
    if not database or database.startswith((":memory:", "file:")):
        return None
    return Path(database).resolve()


def registry_state(path: Path) -> str:
    """Name a SQLite file's state: ``current``, ``older``, ``newer``, ``missing``, ``unfinished``.

    ``unfinished`` is a file that a killed migration left. Raises `sqlite3.Error` if it is damaged.
    """
    if not path.exists():
        return "missing"
    with closing(_connect(path)) as database:
        broken = [name for name in _tables(database) if name.startswith(UNFINISHED)]
        if database.execute("pragma quick_check").fetchone() != ("ok",):
            raise sqlite3.DatabaseError
    revision = _revision(path)
    if broken or revision is None:
        return "unfinished"
    if revision == _latest_revision():
        return "current"
    return "older" if _can_migrate(revision) else "newer"


def _bring_up_to_date(path: Path, *, mend: bool) -> None:
    for leftover in path.parent.glob(f".{path.name}.*.part*"):  # of a process that was killed
        leftover.unlink()
    revision = _revision(path)
    is_current = revision == _latest_revision() and not mend
    if is_current or not _can_migrate(revision):
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if not path.exists():
            _write_empty(part)
            _replace(part, path)
            return
        with _locked(path) as database:
            if _has_rows_of_users(database):
                _migrate_copy(path, part, revision)
                backup = _keep(path, revision)
            else:
                _write_empty(part)
                backup = None
            part.chmod(path.stat().st_mode & 0o777)
            _replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    if backup is not None:
        sys.stderr.write(
            f"evenhand: the registry {path} now has the schema of MLflow {_mlflow_version()}; the "
            f"file as it was is {backup.name}.\n"
        )


def _mlflow_version() -> str:
    """Version of MLflow, whether the distribution mlflow or mlflow-skinny is installed."""
    from mlflow.version import VERSION

    return str(VERSION)


def _revision(path: Path) -> str | None:
    """Revision of a database's schema; None if there is none, or no database."""
    if not path.exists():
        return None
    with closing(_connect(path)) as database:
        if "alembic_version" not in _tables(database):
            return None
        row = database.execute("select version_num from alembic_version").fetchone()
    return None if row is None else str(row[0])


def _connect(path: Path) -> sqlite3.Connection:
    """Open a file that exists; SQLite undoes what a killed process began to write."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, timeout=BUSY_S, isolation_level=None
    )


def _tables(database: sqlite3.Connection) -> list[str]:
    rows = database.execute("select name from sqlite_master where type = 'table'").fetchall()
    return [str(name) for (name,) in rows if not name.startswith("sqlite_")]


@cache
def _latest_revision() -> str:
    from mlflow.store.db.utils import _get_latest_schema_revision

    return str(_get_latest_schema_revision())


def _can_migrate(revision: str | None) -> bool:
    """Whether the installed MLflow knows the revision: it does not know one of a newer MLflow."""
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError
    from mlflow.store.db.utils import _get_alembic_config

    if revision is None:
        return True
    try:
        ScriptDirectory.from_config(_get_alembic_config("")).get_revision(revision)
    except CommandError:
        return False
    return True


@contextmanager
def _locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database that no other process writes within the block, and that has no journal of its
    own.

    A journal next to the file that replaces it would be taken for the journal of that file.
    """
    with closing(_connect(path)) as database:
        database.execute("pragma journal_mode = delete")
        database.execute("begin immediate")
        try:
            yield database
        finally:
            database.execute("rollback")


def _has_rows_of_users(database: sqlite3.Connection) -> bool:
    for table in _tables(database):
        if table == "alembic_version":
            continue
        initial = INITIAL_ROWS.get(table.removeprefix(UNFINISHED), "0")
        rows_of_users = f'select 1 from "{table}" where not ({initial}) limit 1'
        if database.execute(rows_of_users).fetchone() is not None:
            return True
    return False


def _migrate_copy(path: Path, part: Path, revision: str | None) -> None:
    """Copy a database, which this process has locked, and migrate the copy.

    If that fails, an earlier migration may have been killed within a step: a second copy is first
    returned to the schema of its revision.
    """
    try:
        try:
            _copy_and_migrate(path, part, revision, undo=False)
        except Exception as error:
            if revision is None or disk_is_full(error):
                raise
            _copy_and_migrate(path, part, revision, undo=True)
    except Exception as error:
        if disk_is_full(error):
            raise
        reason = (str(error).splitlines() or [""])[0][:200]
        raise NotCarriedOut(
            f"the model registry's file could not be migrated ({type(error).__name__}: {reason}), "
            "and is as it was: restore a copy of it, or use the evenhand that wrote it."
        ) from error


def _copy_and_migrate(path: Path, part: Path, revision: str | None, *, undo: bool) -> None:
    from mlflow.store.db.utils import _initialize_tables, _upgrade_db

    part.unlink(missing_ok=True)
    with (
        closing(_connect(path)) as database,  # SQLite copies no connection that has itself the lock
        closing(sqlite3.connect(part, isolation_level=None)) as copy,
    ):
        database.backup(copy)
        _finish_tables(copy)
        if undo and revision is not None:
            _undo_step(copy, part.with_name(f"{part.name}2"), revision)
    _with_engine(part, _initialize_tables if revision is None else _upgrade_db)
    with closing(_connect(path)) as database, closing(_connect(part)) as copy:
        if copy.execute("pragma quick_check").fetchone() != ("ok",):
            raise ValueError("the copy is damaged")
        fewer = _tables_with_fewer_rows(database, copy)
    if fewer:
        raise ValueError(f"rows of {', '.join(fewer)} are missing")


def _undo_step(database: sqlite3.Connection, empty: Path, revision: str) -> None:
    """Remove empty tables, columns and indexes that the schema of a revision does not have."""
    try:
        _create(empty, revision)
        with closing(_connect(empty)) as reference:
            expected = {table: _columns(reference, table) for table in _tables(reference)}
            expected_indexes = _indexes(reference)
    finally:
        empty.unlink(missing_ok=True)
    for index in _indexes(database) - expected_indexes:
        database.execute(f'drop index "{index}"')
    for table in _tables(database):
        if table not in expected:
            if database.execute(f'select 1 from "{table}" limit 1').fetchone() is None:
                database.execute(f'drop table "{table}"')
            continue
        for column in _columns(database, table) - expected[table]:
            database.execute(f'alter table "{table}" drop column "{column}"')


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in database.execute(f'pragma table_info("{table}")')}


def _indexes(database: sqlite3.Connection) -> set[str]:
    """Names of the indexes that a statement made, and no constraint."""
    rows = database.execute(
        "select name from sqlite_master where type = 'index' and sql is not null"
    )
    return {str(name) for (name,) in rows}


def _finish_tables(database: sqlite3.Connection) -> None:
    """Remove the unfinished copies of tables; a copy whose table was removed already takes its
    place.
    """
    tables = _tables(database)
    for unfinished in tables:
        if not unfinished.startswith(UNFINISHED):
            continue
        table = unfinished.removeprefix(UNFINISHED)
        if table in tables:
            database.execute(f'drop table "{unfinished}"')
        else:
            database.execute(f'alter table "{unfinished}" rename to "{table}"')


def _tables_with_fewer_rows(before: sqlite3.Connection, after: sqlite3.Connection) -> list[str]:
    tables = _tables(before)
    fewer = []
    for table in KEPT:
        if table not in tables:
            continue
        query = f'select count(*) from "{table}"'
        if after.execute(query).fetchone()[0] < before.execute(query).fetchone()[0]:
            fewer.append(table)
    return fewer


def _write_empty(part: Path) -> None:
    """Write a migrated database without rows: from the user's cache, where it can be kept."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        shutil.copyfile(_template(), part)
        usable = _revision(part) == _latest_revision()
    except (
        OSError,
        Timeout,
        SQLAlchemyError,
        sqlite3.Error,
    ):  # a cache that cannot be written, or is full
        usable = False
    if not usable:
        part.unlink(missing_ok=True)
        _create(part)


def _template() -> Path:
    """A migrated database without rows, made once for each user and version of MLflow."""
    template = cache_folder(f"mlflow-{_mlflow_version()}.db")
    template.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{template}.lock", timeout=WAIT_S):
        if _revision(template) != _latest_revision():
            for leftover in template.parent.glob(f".{template.name}.*.part*"):
                leftover.unlink()
            part = template.with_name(f".{template.name}.{os.getpid()}.part")
            try:
                _create(part)
                _replace(part, template)
            finally:
                part.unlink(missing_ok=True)
    return template


def _create(path: Path, revision: str = "heads") -> None:
    """Create a database without rows, with the schema of a revision."""
    from alembic import command
    from mlflow.store.db.utils import InitialBase, _get_alembic_config

    def create(engine: Any) -> None:
        InitialBase.metadata.create_all(engine)
        config = _get_alembic_config(str(engine.url))
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)

    _with_engine(path, create)


def _with_engine(path: Path, work: Callable[[Any], None]) -> None:
    """Call one of MLflow's functions with a connection to a database."""
    from mlflow.store.db.utils import create_sqlalchemy_engine

    engine = create_sqlalchemy_engine(f"{SQLITE}{path}")
    try:
        work(engine)
    finally:
        engine.dispose()


def _keep(path: Path, revision: str | None) -> Path:
    """Keep the file under a second name."""
    backup = path.with_name(f"{path.name}.{revision or 'unfinished'}.bak")
    backup.unlink(missing_ok=True)
    try:
        os.link(path, backup)
    except OSError:  # a file system without hard links
        shutil.copy2(path, backup)
    return backup


def _replace(part: Path, path: Path) -> None:
    """Give a finished file its name; both are on the disk when this returns."""
    _flush(part)
    part.replace(path)
    _flush(path.parent)


def _flush(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
