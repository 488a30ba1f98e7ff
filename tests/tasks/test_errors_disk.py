"""A full disk is said to be full, and a store that cannot be written can still be read."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from mlflow import MlflowException
from sqlalchemy.exc import OperationalError
from xgboost.core import XGBoostError

from evenhand.flows.engine import describe_fault
from evenhand.tasks.errors import InputError, NotCarriedOut, disk_is_full
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import registry_client, tracking_uri

NOBODY = 65534


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/srv/store/x")


def of_mlflow() -> Exception:
    """As MLflow passes on what SQLite says."""
    inner = OperationalError("insert …", None, sqlite3.OperationalError("database or disk is full"))
    return MlflowException(message=str(inner))


def of_xgboost() -> Exception:
    """As XGBoost says it of a model's file."""
    reason = "Check failed: std::fwrite(ptr, 1, size, fp_) == size: FileStream.Write incomplete"
    return XGBoostError(f"[08:06:02] src/io/local_filesys.cc:37: {reason}\nStack trace:")


def test_a_full_disk_is_recognised_by_what_xgboost_says() -> None:
    assert disk_is_full(of_xgboost())
    assert "the disk is full" in str(describe_fault(of_xgboost()))


@pytest.mark.parametrize("make", [no_space, of_mlflow], ids=["system", "sqlite"])
def test_a_full_disk_is_recognised(make: type, tmp_path: Path) -> None:
    error = make()
    assert disk_is_full(error)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with (
        pytest.raises(NotCarriedOut, match="is full: free some space") as caught,
        registry_client(uri),
    ):
        raise error
    assert "MLFLOW_TRACKING_URI" not in str(caught.value)
    assert "the disk is full" in str(describe_fault(error))
    with pytest.raises(ValueError, match="a step failed") as later:
        raise ValueError("a step failed") from error
    assert disk_is_full(later.value)
    assert not disk_is_full(OSError(errno.EACCES, os.strerror(errno.EACCES)))


def test_a_store_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def touch(self: Path, *rest: object, **options: object) -> None:
        raise no_space()

    monkeypatch.setattr(Path, "touch", touch)
    with pytest.raises(NotCarriedOut, match="disk of the store .* is full: free some space"):
        Store(str(tmp_path / "store"))


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory that has no room for a registry."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=False)
    if done.returncode:
        pytest.skip("a small file system needs root")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_no_room_for_a_registry_leaves_no_part_of_one(full_disk: Path) -> None:
    uri = f"sqlite:///{full_disk}/mlflow.db"
    with (
        pytest.raises(NotCarriedOut, match="is full: free some space"),
        registry_client(uri) as client,
    ):
        client.search_registered_models()
    assert [path.name for path in full_disk.iterdir()] == ["mlflow.db.lock"]


def read_as_nobody(answers: Connection, place: str) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    with registry_client(tracking_uri(Store(place, reading=True))) as client:
        answers.send([model.name for model in client.search_registered_models()])
    try:
        Store(place)
    except InputError as error:
        answers.send(str(error))


@pytest.mark.skipif(
    os.getuid() != 0, reason="root writes everywhere, and only root can become another user"
)
def test_a_store_that_cannot_be_written_can_be_read(tmp_path: Path) -> None:
    place = (
        Path("/tmp") / f"evenhand-read-only-{os.getpid()}"
    )  # pytest's own folder is root's alone
    store = Store(str(place))
    try:
        with registry_client(tracking_uri(store)) as client:
            client.create_registered_model("people")
        subprocess.run(["chmod", "-R", "a+rX,a-w", place], check=True)
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=read_as_nobody, args=(theirs, str(place)))
        process.start()
        theirs.close()
        assert ours.recv() == ["people"]
        assert "cannot be written (Permission denied)" in ours.recv()
        process.join()
    finally:
        subprocess.run(["rm", "-rf", place], check=True)
