"""Two hundred secrets are refused at every door, and a thousand harmless values are taken."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from evenhand.tasks.credentials import holds_credential, without_credentials
from tests.chaos.attempts import attempt, make_folder
from tests.flows.people import CONTRACT, JOB, clean_environment
from tests.tasks.credential_corpus import harmless, secrets


def test_two_hundred_secrets_of_thirty_kinds_are_recognised() -> None:
    pairs = secrets()
    assert len({text for text, _ in pairs}) >= 200
    assert [text for text, _ in pairs if not holds_credential(text)] == []
    for text, secret in pairs:
        shown = without_credentials(f"cannot read {text} now")
        assert "***" in shown
        assert (secret or text) not in shown, shown


def test_at_most_one_harmless_value_of_a_hundred_is_refused() -> None:
    values = harmless()
    assert len(values) == 1000
    refused = [value for value in values if holds_credential(value)]
    assert len(refused) <= 10, refused


def stored_texts(folder: Path) -> list[bytes]:
    """All bytes below a folder, with what Parquet and SQLite files hold when they are read."""
    contents = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        contents.append(path.read_bytes())
        if path.suffix == ".parquet":
            contents.append(str(pq.read_table(path).to_pydict()).encode())
        if contents[-1].startswith(b"SQLite format 3"):
            with contextlib.closing(sqlite3.connect(path)) as database:
                contents.append("\n".join(database.iterdump()).encode())
    return contents


@pytest.mark.long
def test_no_secret_is_stored_or_shown_at_any_door(tmp_path: Path) -> None:
    """Six doors for each; 210 secrets take a minute."""
    folder = tmp_path / "w"
    make_folder(folder)
    assert attempt(folder, {"command": ["run", "people.yaml", "--direct"]})[0] == 0
    contract = yaml.safe_load(yaml.safe_dump(CONTRACT))
    for number, (text, secret) in enumerate(secrets()):
        job = (
            {**JOB, "description": text}
            if number % 2
            else {**JOB, "table": {"name": "people", "path": text}}
        )
        contract["schema"][0]["properties"][1]["description"] = text.replace("\n", " ")
        serve = {"deployments": [{"name": "x", "entrypoint": "a.b", "parameters": {"x": text}}]}
        doors = [
            {
                "command": ["run", "bad.yaml", "--direct"],
                "files": {"bad.yaml": yaml.safe_dump(job)},
            },
            {"command": ["evaluate", JOB["name"], "--direct", "--data", text]},
            {"command": ["predict", JOB["name"], "--direct", "--input", text, "--output", "out"]},
            {"command": ["run", "people.yaml", "--direct", "--set", f"table.path={text}"]},
            {
                "command": [
                    "run",
                    "people.yaml",
                    "--direct",
                    "--set",
                    "contract=bad.contract.yaml",
                ],
                "files": {"bad.contract.yaml": yaml.safe_dump(contract, width=10_000)},
            },
            {"command": ["serve", "bad.yaml"], "files": {"bad.yaml": yaml.safe_dump(serve)}},
        ]
        case = doors[number % len(doors)]
        code, out, err = attempt(folder, case)
        assert code == 2, (case, out, err)
        assert (secret or text) not in out + err, (case, out, err)
    stored = b"\n".join(stored_texts(folder / "store"))
    for text, secret in secrets():
        assert (secret or text).encode() not in stored


@pytest.mark.long
def test_a_password_in_the_environment_is_never_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run reads a database whose address has a password, with Prefect's server and its logs."""
    import subprocess

    folder = tmp_path / "w"
    make_folder(folder)
    with contextlib.closing(sqlite3.connect(folder / "people.db")) as database:
        import pandas

        pandas.read_csv(folder / "people.csv").to_sql("people", database, index=False)
    secret = "Zq7hunter2hunter2"
    monkeypatch.setenv("WAREHOUSE", f"sqlite:///{folder}/people.db?password={secret}")
    job = {
        **JOB,
        "table": {"name": "people", "sql": "select * from people", "connection": "$WAREHOUSE"},
    }
    (folder / "db.yaml").write_text(yaml.safe_dump(job))
    with clean_environment():
        environment = {**os.environ, "EVENHAND_STORE": str(folder / "store"), "EVENHAND_LOG": "1"}
        environment["WAREHOUSE"] = f"sqlite:///{folder}/people.db?password={secret}"
        done = subprocess.run(
            [sys.executable, "-m", "evenhand.flows.cli", "run", "db.yaml"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert secret not in done.stdout + done.stderr
    assert secret.encode() not in b"\n".join(stored_texts(folder / "store"))
