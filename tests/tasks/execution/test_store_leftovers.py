"""Killed commands leave nothing behind for long, and a store that cannot be written can be read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from evenhand.tasks.execution.store import Store, _is_of_ended_process, _machine

KILLED = """
import os, signal, sys
from evenhand.tasks.execution.store import Store
store = Store(sys.argv[1])
with store.lease(), store.workdir() as folder:
    (folder / "half").write_text("x")
    (store.scratch() / "checkpoint-train-abc").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    done = subprocess.run([sys.executable, "-c", KILLED, place], check=False)
    assert done.returncode == -signal.SIGKILL
    store = Store(place)
    assert len(list((store.local / "leases").iterdir())) == 1
    with store.workdir() as used, store.lease():
        assert used.exists()
        # a checkpoint is gone on from, and this process's own folder is used
        names = {path.name for path in store.scratch().iterdir()}
        assert names == {"checkpoint-train-abc", used.name}
        assert len(list((store.local / "leases").iterdir())) == 1
    assert list((store.local / "leases").iterdir()) == []


def test_only_folders_of_this_machines_ended_processes_are_left() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], check=True, capture_output=True
    )
    number = int(ended.stdout)
    assert _is_of_ended_process(f"{_machine()}-{number}-abc")
    assert not _is_of_ended_process(f"{_machine()}-{os.getpid()}-abc")
    assert not _is_of_ended_process(f"{_machine()}-1-abc")
    assert not _is_of_ended_process(f"00000000-{number}-abc")
    assert not _is_of_ended_process(f"checkpoint-{number}-abc")
    assert not _is_of_ended_process(f"{_machine()}-{10**30}-abc")
