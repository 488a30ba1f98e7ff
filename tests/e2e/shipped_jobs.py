"""Run all shipped jobs, each with one command, and compare how they end with what is announced.

`make jobs` runs this file; ``tests/e2e/test_run_shipped_jobs.py`` calls it too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenhand.flows.job_file import load_job, shipped_jobs

COMMAND = [sys.executable, "-c", "from evenhand.flows.cli import main; main()"]
# Jobs that do not end with 0: their exit code, and the reason, which their description announces.
ANNOUNCED: dict[str, tuple[int, str]] = {}
# What a machine may lack: without it a job cannot be run there, which is no fault of the job.
LACKING = {
    "cannot be reached": "its table cannot be downloaded here",
    "needs an optional extra": "its optional extra is not installed here",
}


@dataclass(frozen=True)
class Ending:
    """How a job ended."""

    name: str
    code: int
    seconds: float
    text: str  # the last line of the error output, or the verdict's reason
    lacking: str | None = None  # what this machine lacks to run it

    @property
    def expected(self) -> int:
        """The exit code that is announced."""
        return ANNOUNCED.get(self.name, (0, ""))[0]

    @property
    def is_announced(self) -> bool:
        """Whether the job ended as announced, or cannot be run here."""
        return self.lacking is not None or self.code == self.expected

    def line(self) -> str:
        """The ending as one line of a table."""
        state = "ok" if self.is_announced else "NOT AS ANNOUNCED"
        if self.lacking is not None:
            state = f"not run: {self.lacking}"
        text = "" if self.code == 0 or self.lacking else f"  {self.text}"
        return (
            f"{self.name:<22}{self.code:>4}{self.expected:>10}{self.seconds:>9.1f} s  {state}{text}"
        )


def ordered_jobs() -> list[str]:
    """Names of the shipped jobs; a job whose training rows a proxy filters comes after that
    proxy.
    """
    return sorted(shipped_jobs(), key=lambda name: (load_job(name)[0].balance is not None, name))


def proxy_of(name: str) -> str | None:
    """Name of the job whose published proxy a job needs; None if it needs none."""
    balance = load_job(name)[0].balance
    return None if balance is None else balance.proxy


def run_job(name: str, store: Path) -> Ending:
    """Run one job into a store, in a process of its own."""
    foreign = ("PREFECT_", "MLFLOW_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    started = time.monotonic()
    done = subprocess.run(
        [*COMMAND, "run", name, "--direct", "--json"],
        env={**kept, "EVENHAND_STORE": str(store)},
        cwd=store.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - started
    text = _reason(done.stdout, done.stderr)
    lacking = None
    if done.returncode == 2:
        reasons = [reason for sign, reason in LACKING.items() if sign in text]
        lacking = reasons[0] if reasons else None
    return Ending(name, done.returncode, seconds, text, lacking)


def _reason(output: str, errors: str) -> str:
    """Why a run did not publish: the verdict's error or first gate that did not pass, or the last
    line.
    """
    lines = errors.strip().splitlines()
    last = lines[-1] if lines else ""
    try:
        verdict = json.loads(output)
    except json.JSONDecodeError:
        return last
    if verdict.get("error"):
        return str(verdict["error"])
    decision = verdict.get("gates") or {}
    for gate in decision.get("gates", []):
        if gate.get("status") != "passed":
            return f"{gate.get('metric')}: {gate.get('reason') or gate.get('status')}"
    return str(decision.get("note") or last)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs that are named, or all, and print how each ended; 1 if one did not end as
    announced.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="jobs to run; default: all")
    parser.add_argument("--store", help="folder of the store; default: a fresh one that is removed")
    given = parser.parse_args(arguments)
    unknown = sorted({*given.names} - {*shipped_jobs()})
    if unknown:
        parser.error(f"there is no shipped job {unknown[0]!r}")
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(given.store).resolve() if given.store else Path(scratch) / "store"
        sys.stdout.write(f"{'job':<22}{'exit':>4}{'expected':>10}{'time':>11}\n")
        for name in given.names or ordered_jobs():
            ending = run_job(name, store)
            wrong += not ending.is_announced
            sys.stdout.write(f"{ending.line()}\n")
            sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
