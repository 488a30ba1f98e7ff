"""The registry's SQLite file: whole after a kill at any moment, and mended if it was left
broken.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.registry import registry_file
from evenhand.tasks.registry.client import registry_client

# before the tables of aliases and of logged models
OLDER = "c48cb773bb87"
ROWS = """
insert into experiments (experiment_id, name, artifact_location, lifecycle_stage)
    values (0, 'Default', 'mlruns/0', 'active'), (1, 'evenhand', 'files', 'active');
insert into registered_models (name, creation_time, last_updated_time) values ('people', 1, 1);
insert into model_versions (name, version, creation_time, last_updated_time, current_stage, source, status)
    values ('people', 1, 1, 1, 'None', 'files/1', 'READY'), ('people', 2, 1, 1, 'None', 'files/2', 'READY');
insert into model_version_tags (name, version, key, value) values ('people', 1, 'evenhand.content', 'abc');
"""


@contextmanager
def after_each_statement(visit: Callable[[str], None]) -> Iterator[None]:
    def executed(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        visit(statement)

    event.listen(Engine, "after_cursor_execute", executed)
    try:
        yield
    finally:
        event.remove(Engine, "after_cursor_execute", executed)


@contextmanager
def snapshots(folder: Path, kept: Path, every: int) -> Iterator[list[Path]]:
    """What a kill would leave in a folder after every so many SQL statements: copies of its
    files.
    """
    copies: list[Path] = []
    count = [0]

    def visit(statement: str) -> None:
        count[0] += 1
        unfinished = statement.lstrip().startswith("CREATE TABLE _alembic_tmp")
        if count[0] % every == 0 or (unfinished and len(copies) < 1):
            copies.append(kept / f"{count[0]:05d}")
            shutil.copytree(folder, copies[-1])

    with after_each_statement(visit):
        yield copies


def made_older(path: Path) -> Path:
    """A file of MLflow 1 with two versions of a model."""
    registry_file._create(path, OLDER)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(ROWS)
    return path


def models(path: Path) -> dict[str, list[str]]:
    with registry_client(f"sqlite:///{path}") as client:
        found = client.search_model_versions("name = 'people'")
        assert [item.name for item in client.search_registered_models()] == (
            ["people"] if found else []
        )
        for item in found:
            if str(item.version) == "1":
                assert item.tags == {"evenhand.content": "abc"}
        return {"versions": sorted(str(item.version) for item in found)}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


# statements between two kills; the longer distance keeps the first unfinished migration too
DISTANCES = [600, pytest.param(70, marks=pytest.mark.long)]


# a second: a migration, and the files that kills would leave of it
@pytest.mark.parametrize("every", DISTANCES)
def test_a_file_that_an_older_version_left_broken_is_mended(every: int, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with snapshots(tmp_path / "store", tmp_path, every) as broken:
        registry_file._create(tmp_path / "store" / "mlflow.db")  # as evenhand did
    assert len(broken) > 1400 / every
    for folder in broken:
        assert models(folder / "mlflow.db") == {"versions": []}
        assert names(folder) == ["mlflow.db", "mlflow.db.lock"]


# a second: the same, for the cache and for a store
@pytest.mark.parametrize("every", DISTANCES)
def test_a_kill_at_any_moment_leaves_what_the_next_command_uses(every: int, tmp_path: Path) -> None:
    path = tmp_path / "work" / "store" / "mlflow.db"
    path.parent.mkdir(parents=True)
    with snapshots(path.parent, tmp_path, every) as left:
        registry_file._create(path.with_name(".mlflow.db.1.part"))
    for folder in left:
        assert models(folder / "mlflow.db") == {"versions": []}
        assert names(folder) == ["mlflow.db", "mlflow.db.lock"]


def test_an_empty_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    path.touch(mode=0o600)
    assert models(path) == {"versions": []}
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_lock_of_a_new_file_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    assert models(path) == {"versions": []}
    assert (tmp_path / "mlflow.db.lock").stat().st_mode & 0o777 == 0o600


def test_an_older_file_is_migrated_in_a_copy_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made_older(tmp_path / "mlflow.db")
    before = path.read_bytes()
    assert models(path) == {"versions": ["1", "2"]}
    assert (tmp_path / f"mlflow.db.{OLDER}.bak").read_bytes() == before
    assert capsys.readouterr().err.startswith(
        f"evenhand: the registry {path} now has the schema of MLflow 3."
    )
    assert models(path) == {"versions": ["1", "2"]}
    assert capsys.readouterr().err == ""


def killed_upgrades(tmp_path: Path, every: int) -> list[Path]:
    (tmp_path / "store").mkdir()
    path = made_older(tmp_path / "store" / "mlflow.db")
    from mlflow.store.db.utils import _upgrade_db

    with snapshots(path.parent, tmp_path, every) as broken:
        registry_file._with_engine(path, _upgrade_db)
    return broken


# two seconds: an upgrade, and one of those that a kill in its middle would leave
def test_an_upgrade_that_was_killed_loses_no_model(tmp_path: Path) -> None:
    broken = killed_upgrades(tmp_path, 500)
    assert len(broken) > 2
    assert models(broken[1] / "mlflow.db") == {"versions": ["1", "2"]}


@pytest.mark.long
def test_forty_upgrades_that_were_killed_lose_no_model(tmp_path: Path) -> None:
    broken = killed_upgrades(tmp_path, 30)
    assert len(broken) > 40
    for folder in broken:
        assert models(folder / "mlflow.db") == {"versions": ["1", "2"]}


def test_a_copy_whose_table_is_gone_takes_its_place(tmp_path: Path) -> None:
    path = made_older(tmp_path / "mlflow.db")
    with closing(sqlite3.connect(path)) as database:
        database.execute("alter table model_version_tags rename to _alembic_tmp_model_version_tags")
        database.execute("create table _alembic_tmp_model_versions (name text)")
        database.commit()
    assert models(path) == {"versions": ["1", "2"]}


def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made_older(tmp_path / "mlflow.db")
    before = path.read_bytes()
    monkeypatch.setattr(registry_file, "KEPT", ("no_such_table", "model_versions"))

    def lose(engine: Engine) -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql("delete from model_versions where version = 1")

    monkeypatch.setattr("mlflow.store.db.utils._upgrade_db", lose)
    with pytest.raises(NotCarriedOut, match="rows of model_versions are missing.*is as it was"):
        models(path)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["mlflow.db", "mlflow.db.lock"]


def test_a_file_of_a_newer_mlflow_is_left_alone(tmp_path: Path) -> None:
    path = made_older(tmp_path / "mlflow.db")
    with closing(sqlite3.connect(path)) as database:
        database.execute("update alembic_version set version_num = 'ffffffffffff'")
        database.commit()
    before = path.read_bytes()
    registry_file.prepare_registry_file(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    path.write_text("no database\n" * 100)
    with pytest.raises(NotCarriedOut, match="file is not a database"):
        models(path)
    assert path.read_text() == "no database\n" * 100


def test_a_cache_that_cannot_be_written_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert models(tmp_path / "mlflow.db") == {"versions": []}


def test_commands_that_start_together_find_one_registry(tmp_path: Path) -> None:
    path = made_older(tmp_path / "mlflow.db")
    faults: list[BaseException] = []

    def prepare() -> None:
        try:
            registry_file.prepare_registry_file(f"sqlite:///{path}")
        except BaseException as error:  # noqa: BLE001 - of any kind
            faults.append(error)

    together = [threading.Thread(target=prepare) for _ in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert faults == []
    assert models(path) == {"versions": ["1", "2"]}
    assert names(tmp_path) == ["mlflow.db", f"mlflow.db.{OLDER}.bak", "mlflow.db.lock"]


@pytest.mark.parametrize(
    "uri", ["http://127.0.0.1:9", "sqlite://", "sqlite:///:memory:", "postgresql://x/y"]
)
def test_only_files_of_sqlite_are_prepared(uri: str) -> None:
    assert registry_file.sqlite_file(uri) is None


def test_the_core_has_mlflow_by_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only mlflow-skinny is installed with the core: there is no distribution called mlflow."""
    found = metadata.version

    def version(name: str) -> str:
        if name == "mlflow":
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "mlflow.db"
    registry_file.prepare_registry_file(f"sqlite:///{path}")
    assert path.stat().st_size > 0
    assert len(list((tmp_path / "cache").rglob("mlflow-*.db"))) == 1
