"""`evenhand repair` mends a registry that a kill left broken, and says what it cannot mend."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.flows.runtime import store_for_reading
from tests.flows.people import clean_environment


def call(place: Path, *options: str) -> tuple[int, str, str]:
    from evenhand.flows.cli import app

    with clean_environment():
        os.environ["EVENHAND_STORE"] = str(place)
        done = CliRunner().invoke(app, ["repair", *options])
    return done.exit_code, done.stdout, done.stderr


def change(place: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(place / "mlflow.db")) as database:
        database.execute(statement)
        database.commit()


def test_a_registry_is_made_and_mended(tmp_path: Path) -> None:
    place = tmp_path / "store"
    assert "was missing, and is whole now" in call(place)[1]
    assert "is whole" in call(place)[1]
    unfinished = "create table _alembic_tmp_experiments as select * from experiments where 0"
    change(place, unfinished)
    (place / "steps" / "train").mkdir(parents=True)
    (place / "steps" / "train" / "x.json").write_text("half")
    code, out, _ = call(place, "--json")
    assert (code, json.loads(out)) == (
        0,
        {
            "registry": "was unfinished, and is whole now",
            "leftovers_removed": 0,
            "records_removed": 1,
        },
    )
    assert json.loads(call(place, "--json")[1])["registry"] == "is whole"


@pytest.mark.parametrize("damage", ["newer", "damaged"])
def test_what_cannot_be_mended_is_said(tmp_path: Path, damage: str) -> None:
    place = tmp_path / "store"
    call(place)
    if damage == "newer":
        change(place, "update alembic_version set version_num = 'ffffffff'")
    else:
        (place / "mlflow.db").write_text("no database")
    before = (place / "mlflow.db").read_bytes()
    code, out, err = call(place)
    assert (code, out, len(err.splitlines())) == (4, "", 1)
    assert f"{damage}" in err
    assert (place / "mlflow.db").read_bytes() == before


def test_a_store_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "store"
    place.mkdir()
    (place / "mlflow.db").touch()
    assert store_for_reading(str(place)) == str(place)
    assert store_for_reading(None) is None
    assert store_for_reading("s3://bucket/x") == "s3://bucket/x"
    monkeypatch.setattr(os, "access", lambda *_: False)
    private = store_for_reading(str(place))
    assert private is not None
    assert private.startswith(str(tmp_path / "cache"))
    assert os.environ["MLFLOW_TRACKING_URI"] == f"sqlite:///{place}/mlflow.db"
    assert "cannot be written: what this command keeps is in" in capsys.readouterr().err
