"""Tables of Delta Lake and Apache Iceberg: their current rows, in one run and in bad states."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from evenhand.flows import memory
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.filtering.filter_inputs import list_inputs
from evenhand.tasks.sources.fetching import fetch_source
from evenhand.tasks.sources.lakes import lake_of
from evenhand.tasks.sources.table_reader import read_source

FIRST = pa.table({"age": [30, 41, 52, 63], "name": ["ä", "b", "a", None], "year": [1, 1, 2, 2]})
MORE = pa.table({"age": [74], "name": ["z"], "year": [3]})
# without the row that is deleted
ROWS = sorted(zip([30, 52, 63, 74], ["ä", "a", None, "z"], [1, 2, 2, 3], strict=True))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


def delta(folder: Path) -> Path:
    """A table of two partitions, without one of its rows, and with one of a third partition."""
    path = folder / "people"
    write_deltalake(path, FIRST, partition_by=["year"])
    DeltaTable(path).delete("age = 41")
    write_deltalake(path, MORE, mode="append")
    return path


def iceberg(folder: Path) -> Path:
    """The same rows in a table of a catalog."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.people", schema=FIRST.schema)
    table.append(FIRST)
    table.delete("age = 41")
    table.append(MORE)
    return folder / "n" / "people"


def rows_of(store: Store, path: Path | str) -> list[tuple[Any, ...]]:
    """Rows of the current version, as a run reads them."""
    source = {"name": "t", "path": str(path)}
    inputs = {name: Path(item.uri) for name, item in fetch_source(store, source).items()}
    table = read_source(source, inputs, 0).read_all()
    assert [str(field.type) for field in table.schema] == ["int64", "string", "int64"]
    assert not any(field.metadata for field in table.schema)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("make", [delta, iceberg])
def test_only_rows_of_the_current_version_are_read(make: Any, tmp_path: Path, store: Store) -> None:
    path = make(tmp_path)
    assert lake_of(path) == make.__name__
    assert rows_of(store, path) == ROWS


def test_a_file_of_metadata_is_the_version_of_its_name(tmp_path: Path) -> None:
    files = sorted((iceberg(tmp_path) / "metadata").glob("*.metadata.json"))
    counts = []
    for file in files:
        inputs = {file.name: file}
        counts.append(read_source({"name": "t", "path": str(file)}, inputs, 0).read_all().num_rows)
    # created, appended to, deleted from, appended to
    assert counts == [0, 4, 3, 4]


def test_two_last_versions_are_refused(tmp_path: Path, store: Store) -> None:
    path = iceberg(tmp_path)
    last = max((path / "metadata").glob("*.metadata.json"))
    (last.parent / f"{last.name[:5]}-z.metadata.json").write_text(last.read_text())
    with pytest.raises(InputError, match="two last versions, 00003-.*only its catalog knows"):
        rows_of(store, path)


@pytest.mark.parametrize("make", [delta, iceberg])
def test_a_missing_file_is_one_line(make: Any, tmp_path: Path, store: Store) -> None:
    path = make(tmp_path)
    for file in path.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(InputError, match="a file of its current version is missing") as caught:
        rows_of(store, path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_damaged_metadata_is_one_line(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "v1.metadata.json"
    file.write_text('{"name": "somebody"}')
    with pytest.raises(InputError, match="ValidationError: it is damaged, or newer") as caught:
        rows_of(store, file)
    assert "somebody" not in str(caught.value)


def test_deleted_rows_that_would_be_read_are_refused(tmp_path: Path, store: Store) -> None:
    path = delta(tmp_path)
    DeltaTable(path).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    with pytest.raises(
        InputError, match="it uses deletionVectors, which the package deltalake does not"
    ):
        rows_of(store, path)


@pytest.mark.parametrize(("make", "package"), [(delta, "deltalake"), (iceberg, "pyiceberg")])
def test_a_missing_extra_is_named(
    make: Any, package: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"pip install 'evenhand\[{make.__name__}\]'"):
        rows_of(store, path)


def test_a_file_of_metadata_may_be_remote(tmp_path: Path, store: Store) -> None:
    last = max((iceberg(tmp_path) / "metadata").glob("*.metadata.json"))
    fsspec.filesystem("memory").pipe_file(f"/people/{last.name}", last.read_bytes())
    assert rows_of(store, f"memory://people/{last.name}") == ROWS


def test_files_of_old_versions_are_not_counted_before_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LARGE_FILES", 0)
    path = delta(tmp_path)
    assert memory._rows_before({"path": str(path)}) == (None, 0.0)
    shutil.rmtree(path / "_delta_log")
    # 2, 2 and 1 rows, and the file of the first partition without its deleted row
    assert memory._rows_before({"path": str(path)})[0] == 6


def test_a_folder_with_a_similar_name_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "my_delta_log"
    folder.mkdir()
    (folder / "people.csv").write_text("age\n1\n")
    assert lake_of(folder) is None
    assert [file.name for file in list_inputs(str(folder), None).files] == ["people.csv"]


@pytest.mark.parametrize("make", [delta, iceberg])
def test_many_files_of_a_lake_are_refused(make: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="with files of old versions too"):
        list_inputs(str(make(tmp_path)), None)
