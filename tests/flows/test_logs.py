"""Lines of the log as JSON."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evenhand.flows import logs
from evenhand.flows.engine import recorded_verdict
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


# the log


def train(store: Store) -> None:
    """A run that fails after a step."""
    with recorded_verdict(store, "20260102-030405-people-0a1b2c"):
        logs.event("done", "train", seconds=1.5)
        sys.stderr.write("a library's wa")
        sys.stderr.write("rning\n\n")
        raise InputError("no such column")


def test_lines_of_the_log_are_objects(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("EVENHAND_LOG_FORMAT", "json")
    logs.start()
    logs.start()  # a second flow in the same process
    child = '{"time": "2026-01-02T03:04:05", "level": "info"}'
    with pytest.raises(InputError):
        train(store)
    sys.stderr.write(f"evenhand: no such column\n{child}\n")
    *lines, last = out.getvalue().splitlines()
    assert last == child
    found = [json.loads(line) for line in lines]
    assert [list(line)[:5] for line in found] == [
        ["time", "level", "run_id", "step", "message"]
    ] * 4
    run = "20260102-030405-people-0a1b2c"
    assert [(line["level"], line["run_id"], line["step"], line["message"]) for line in found] == [
        ("info", run, "train", "done"),
        ("info", run, None, "a library's warning"),
        ("error", run, None, "no such column"),
        ("error", None, None, "no such column"),
    ]
    assert found[0]["seconds"] == 1.5
    assert all(dt.datetime.fromisoformat(line["time"]).tzinfo for line in found)


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "words"), [("json", "there is no job 'nosuch'"), ("xml", "write text or json")]
)
def test_a_command_logs_its_error_in_the_form(tmp_path: Path, form: str, words: str) -> None:
    script = "from evenhand.flows.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "run", "nosuch", "--store", str(tmp_path / "store")],
        env={**os.environ, "EVENHAND_LOG_FORMAT": form},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    if form == "json":
        assert json.loads(line)["level"] == "error"
    assert words in line
