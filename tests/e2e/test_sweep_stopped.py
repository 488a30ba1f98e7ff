"""A sweep that is stopped by hand, as a user starts it; tests/e2e has one through Prefect."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app

pytestmark = pytest.mark.flow

ROOT = Path(__file__).resolve().parents[2]
JOB = (
    "loans-gbdt",
    "--set",
    "table.rows=600",
    "--set",
    "method.n_steps=4",
    "--set",
    "evaluate.draws=20",
)


# as from a terminal: background jobs of scripts inherit that SIGINT is ignored, and Python leaves
# it so
COMMAND = """
import signal
from evenhand.flows.cli import main
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


def directly(*arguments: str, store: Path) -> dict[str, Any]:
    done = CliRunner().invoke(
        app, ["sweep", *arguments, "--direct", "--json", "--store", str(store)]
    )
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C: the terminal sends it to the command and its workers alike."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


@pytest.mark.long
def test_ctrl_c_ends_in_one_line_and_keeps_what_is_finished(tmp_path: Path) -> None:
    # the second point would take minutes
    slow = ("--over", "method.n_steps=2,200000", "--workers", "1")
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
    again = directly(*JOB, "--over", "method.n_steps=2", "--workers", "1", store=tmp_path / "store")
    assert set(again["cached"]) == {
        "ingest",
        "contract",
        "preprocess",
        "profile",
        "controls",
        "train",
        "evaluate",
        "gate",
    }
