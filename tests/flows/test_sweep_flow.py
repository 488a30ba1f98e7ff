"""A sweep through Prefect, and one stopped by hand, as a user starts them."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app
from evenhand.flows.grid import make_grid, run_point

pytestmark = pytest.mark.flow

ROOT = Path(__file__).resolve().parents[2]
JOB = ("loans-gbdt", "--set", "table.rows=600", "--set", "method.n_steps=4", "--set", "evaluate.draws=20")


# as from a terminal: background jobs of scripts inherit that SIGINT is ignored, and Python leaves it so
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


def start(*arguments: str, store: Path, **more: str) -> subprocess.Popen[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "sweep", *arguments],
        env={**kept, "EVENHAND_STORE": str(store), "PYTHONPATH": str(ROOT), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@dataclass
class Server:
    """A Prefect server with its services: the temporary one of a run records no task runs."""

    home: Path
    port: int

    @property
    def environment(self) -> dict[str, str]:
        return {"PREFECT_HOME": str(self.home), "PREFECT_API_URL": f"http://127.0.0.1:{self.port}/api"}

    def task_runs(self, count: int) -> dict[str, str]:
        """Names and final states in the newest flow run; the server records them a moment later."""
        query = (
            "select name, state_type from task_run where state_type in ('COMPLETED', 'FAILED') "
            "and flow_run_id = (select id from flow_run order by created desc limit 1)"
        )
        deadline = time.monotonic() + 60
        while True:
            with closing(sqlite3.connect(self.home / "prefect.db")) as database:
                found = dict(database.execute(query).fetchall())
            if len(found) >= count or time.monotonic() > deadline:
                return found
            time.sleep(0.2)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        running = Server(tmp_path_factory.mktemp("prefect"), int(probe.getsockname()[1]))
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "prefect",
            "server",
            "start",
            "--host",
            "127.0.0.1",
            "--port",
            str(running.port),
        ],
        env={**os.environ, "PREFECT_HOME": str(running.home), "PREFECT_SERVER_UI_ENABLED": "false"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while True:
        with suppress(OSError), urllib.request.urlopen(f"{running.environment['PREFECT_API_URL']}/health"):
            break
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield running
    process.terminate()
    process.wait(timeout=30)


def directly(*arguments: str, store: Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["sweep", *arguments, "--direct", "--json", "--store", str(store)])
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def test_prefect_observes_every_point_and_gives_their_numbers(tmp_path: Path, server: Server) -> None:
    grid = ("--over", "method.eta=0.3,-1", "--seeds", "2", "--workers", "2", "--json")
    process = start(*JOB, *grid, store=tmp_path / "store", **server.environment)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 4, err
    assert len(err.splitlines()) == 1, err
    assert "2 of 4 runs failed" in err
    assert server.task_runs(4) == {
        "method.eta=0.3, seed=0": "COMPLETED",
        "method.eta=0.3, seed=1": "COMPLETED",
        "method.eta=-1, seed=0": "FAILED",
        "method.eta=-1, seed=1": "FAILED",
    }
    points = make_grid(JOB[0], ["method.eta=0.3,-1"], overrides=JOB[2::2], seeds=2).points
    expected = [run_point(point.resolved, str(tmp_path / "other")) for point in points]
    for point, found in zip(expected, json.loads(out)["points"], strict=True):
        assert (found["status"], found["error"]) == (point.status, point.error)
        assert found["metrics"] == point.metrics


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C: the terminal sends it to the command and its workers alike."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def test_ctrl_c_ends_in_one_line_and_keeps_what_is_finished(tmp_path: Path) -> None:
    # the second point would take minutes
    slow = ("--set", "table.rows=20000", "--over", "method.n_steps=2,40000", "--workers", "1")
    process = start(*JOB, *slow, "--direct", store=tmp_path / "store")
    deadline = time.monotonic() + 120
    trained = tmp_path / "store" / "steps" / "gate"
    while not (trained.exists() and list(trained.iterdir())):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    out, err = interrupt(process)
    assert process.returncode == 4
    assert out == ""
    assert err == "evenhand: interrupted: run again, the finished steps are kept.\n"
    again = directly(
        *JOB,
        "--set",
        "table.rows=20000",
        "--over",
        "method.n_steps=2",
        "--workers",
        "1",
        store=tmp_path / "store",
    )
    assert set(again["cached"]) == {
        "ingest",
        "contract",
        "preprocess",
        "profile",
        "train",
        "evaluate",
        "gate",
    }
