"""Runs and searches open sockets of this machine only."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.people import JOB, Bench

# Python imports this module at the start of every process, also of servers and workers.
AUDIT = """
import json, os, sys

def audit(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"):
        address = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
        with open(os.environ["SOCKETS"], "a") as file:
            file.write(json.dumps([event, repr(address), sys.argv[:3]]) + "\\n")

sys.addaudithook(audit)
"""
TUNE = ("tune", "job.yaml", "--direct", "--trials", "8", "--minutes", "15", "--workers", "2")


def is_local(address: str) -> bool:
    """Whether the printed address is of this machine or a file."""
    host = ast.literal_eval(address)
    host = host[0] if isinstance(host, tuple) else host
    return host in ("127.0.0.1", "::1", "localhost", None) or str(host).startswith("/")


@pytest.mark.long
@pytest.mark.parametrize("command", [("run", "job.yaml"), TUNE], ids=["run", "tune"])
def test_only_sockets_of_this_machine(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(AUDIT)
    bench = Bench(tmp_path, job=JOB | {"calibration": "none"})
    bench.write()
    foreign = ("PREFECT_", "MLFLOW_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    path = [str(tmp_path / "hook"), *filter(None, [os.environ.get("PYTHONPATH")])]
    log = tmp_path / "sockets.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", "from evenhand.flows.cli import main; main()", *command],
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": os.pathsep.join(path), "SOCKETS": str(log)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    if command[0] == "run":  # Prefect's temporary server
        assert any(event == "socket.connect" for event, _, _ in found)
    assert [item for item in found if not is_local(item[1])] == []


def test_addresses_of_other_machines_are_recognised() -> None:
    for address in (
        "('127.0.0.1', 80)",
        "('::1', 80, 0, 0)",
        "'localhost'",
        "None",
        "'/tmp/socket'",
    ):
        assert is_local(address), address
    for address in ("('10.0.0.1', 80)", "('0.0.0.0', 80)", "'example.org'", "('::', 80, 0, 0)"):
        assert not is_local(address), address
