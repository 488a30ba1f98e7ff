"""Runs that the app starts: which jobs there are, and a process of `evenhand run` for each run.

A job is chosen from a list, never by a path: the shipped ones, and the files of one folder.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

import yaml

from evenhand.flows.job_file import shipped_jobs
from evenhand.tasks.errors import InputError, NotCarriedOut

MOST_RUNNING = 2
MOST_KEPT = 50
MOST_LINES = 100
LONGEST_LINE = 500
# Largest job file that is looked at.
LARGEST_JOB = 256 * 1024
STOP_S = 10.0
SHIPPED = "shipped"
OF_FOLDER = "own"
RUN_LINE = re.compile(r"^run +(\S+), ")
PERCENT = re.compile(r"(\d{1,3}) %")
# Lines of progress, which say nothing once a run has ended.
PROGRESS = re.compile(r" running for | \d{1,3} %, .* left")
COMMAND = (sys.executable, "-m", "evenhand.flows.app.run_process")


class Busy(NotCarriedOut):
    """A run cannot begin while others are in progress."""


@dataclass(frozen=True)
class ListedJob:
    """A job that can be started: shipped, or a file of the folder of jobs."""

    kind: str
    name: str
    description: str
    target: str  # what `evenhand run` gets


def listed_jobs(folder: Path | None) -> list[ListedJob]:
    """The jobs of the folder, then the shipped ones, each by name."""
    jobs = []
    if folder is not None:
        jobs += _jobs_of(folder)
    return [*jobs, *_shipped()]


@cache
def _shipped() -> tuple[ListedJob, ...]:
    listed = shipped_jobs().items()
    return tuple(ListedJob(SHIPPED, name, description, name) for name, description in listed)


def _jobs_of(folder: Path) -> list[ListedJob]:
    jobs = []
    place = folder.resolve()
    for path in sorted([*folder.glob("[!_.]*.yaml"), *folder.glob("[!_.]*.yml")]):
        # a link out of the folder is no file of it
        if path.resolve().parent != place or not path.is_file():
            continue
        content = _content(path)
        if isinstance(content, dict) and ("base" in content or {"table", "method"} <= set(content)):
            description = str(content.get("description", ""))
            jobs.append(ListedJob(OF_FOLDER, path.name, description, str(path.resolve())))
    return jobs


def _content(path: Path) -> Any:
    if path.stat().st_size > LARGEST_JOB:
        return None
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None


@dataclass
class JobRun:
    """A run that was started here.

    - `token`: names it in addresses
    - `lines`: what it wrote about its progress, and its warnings, the last ones
    - `run_id`: once it has ended with a verdict
    """

    token: str
    job: ListedJob
    who: str
    begun: float  # by time.time
    process: subprocess.Popen[str]
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    run_id: str = ""
    exit_code: int | None = None
    is_stopped: bool = False
    follower: threading.Thread = field(default_factory=threading.Thread, repr=False)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.exit_code is None

    @property
    def messages(self) -> list[str]:
        """What it wrote besides its progress."""
        return [line for line in self.lines if not PROGRESS.search(line)]

    def state(self) -> dict[str, Any]:
        """What a page shows while it runs."""
        line = self.lines[-1] if self.lines else "starting"
        percents = PERCENT.findall(line)
        return {
            "line": line,
            "percent": int(percents[-1]) if percents else None,
            "seconds": int(time.time() - self.begun),
            "ended": not self.is_running,
        }


class JobRunner:
    """Starts runs and follows them; one at a time of a job, and a few at once.

    - `store_url`: the store of the runs
    """

    def __init__(self, store_url: str, command: Sequence[str] = COMMAND) -> None:
        self.store_url = store_url
        self._command = tuple(command)
        self._runs: dict[str, JobRun] = {}
        self._lock = threading.Lock()

    def start(self, job: ListedJob, who: str, environment: Mapping[str, str]) -> JobRun:
        """Start a run of a job in a process of its own.

        Raises `Busy` while the job, or the most runs at once, are running.
        """
        arguments = [*self._command, "run", job.target, "--store", self.store_url]
        if not environment.get("PREFECT_API_URL"):
            arguments.append("--direct")
        with self._lock:
            running = [run for run in self._runs.values() if run.is_running]
            if any((run.job.kind, run.job.name) == (job.kind, job.name) for run in running):
                raise Busy(f"{job.name} is running already: wait until it has ended.")
            if len(running) >= MOST_RUNNING:
                raise Busy(
                    f"{MOST_RUNNING} runs are in progress: wait until one of them has ended."
                )
            run = JobRun(
                secrets.token_hex(8), job, who, time.time(), _begin(arguments, environment)
            )
            self._runs[run.token] = run
            self._forget()
        run.follower = threading.Thread(target=self._follow, args=(run,), daemon=True)
        run.follower.start()
        return run

    def _forget(self) -> None:
        for token, run in list(self._runs.items()):
            if len(self._runs) <= MOST_KEPT:
                return
            if not run.is_running:
                del self._runs[token]

    def _follow(self, run: JobRun) -> None:
        """Read what a run writes until it ends."""
        reader = threading.Thread(target=_keep_lines, args=(run.process.stderr, run), daemon=True)
        reader.start()
        with run.process:
            for line in run.process.stdout or ():
                match = RUN_LINE.match(line)
                if match:
                    run.run_id = match.group(1)
            reader.join()
        run.exit_code = run.process.returncode

    def run(self, token: str) -> JobRun:
        """A run by its token; an `InputError` if none was started here."""
        run = self._runs.get(token)
        if run is None:
            raise InputError(
                "no such run was started here; the list of runs has the finished ones."
            )
        return run

    def running(self) -> list[JobRun]:
        """The runs in progress, oldest first."""
        return [run for run in list(self._runs.values()) if run.is_running]

    def stop(self, run: JobRun) -> None:
        """Ask a run to end; its finished steps are kept."""
        run.is_stopped = True
        if run.is_running:
            # SIGTERM has the effect of Ctrl-C, which processes of a background job ignore
            run.process.terminate()

    def close(self) -> None:
        """End all runs: the server ends."""
        running = self.running()
        for run in running:
            self.stop(run)
        until = time.monotonic() + STOP_S
        for run in running:
            try:
                run.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                run.process.kill()
        for run in running:
            run.follower.join(STOP_S)


def _begin(arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**environment, "PYTHONUNBUFFERED": "1"},
            # Ctrl-C ends the server, which ends its runs
            start_new_session=os.name == "posix",
        )
    except OSError as error:
        raise NotCarriedOut(f"no process could be started ({error.strerror}).") from None


def _keep_lines(stream: IO[str] | None, run: JobRun) -> None:
    for line in stream or ():
        text = line.strip()
        if text:
            run.lines.append(text[:LONGEST_LINE])
