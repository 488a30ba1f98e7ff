"""The end of `tune` at its time, whatever runs then, with the answer that was prepared last."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

# Seconds after the end of the time at which a command that still runs is ended.
GRACE_S = 1.0
# On a busy machine it is ended earlier: by so many times as long as its thread waits for the
# processor, and by the time in which the machine gives it so many CPU seconds, as it takes to write
# the job and to end the processes; but by no more than that. The thread looks at the clock every so
# many seconds.
EARLIER = 10.0
ENDING_CPU_S = 0.5
MOST_EARLIER_S = 5.0
PAUSE_S = 0.25


@dataclass(frozen=True)
class PreparedAnswer:
    """What is left when the time is up before the command has ended by itself."""

    target: Path  # file of the tuned job
    text: str | None  # its content; None if the file has been written
    exit_code: int
    message: str  # one line for the reader


class Deadline:
    """Ends this process a little after its time, with the answer that was prepared last.

    Everything else of `tune` looks at the clock itself. On a busy machine it may still be late: in
    an import, or while a page is drawn. So a thread waits for the end from the beginning on. It
    writes the prepared job, ends the workers, and ends the process without cleaning up: steps and
    trials are kept as after a kill.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._guard = threading.Lock()
        self._answer: PreparedAnswer | None = None
        self._end = float("inf")
        self._is_disarmed = threading.Event()

    def arm(self, end: float) -> None:
        """Let the process end at a time of ``time.monotonic``, unless it has ended before."""
        is_first = self._end == float("inf")
        self._end = min(self._end, end + GRACE_S)
        if is_first:
            threading.Thread(target=self._wait, name="deadline", daemon=True).start()

    def prepare(self, answer: PreparedAnswer | None) -> None:
        """Keep what is written if the time is up."""
        with self._guard:
            self._answer = answer

    def written(self, exit_code: int) -> None:
        """Keep that the job has been written: only its page is missing."""
        with self._guard:
            if self._answer is None:
                return
            message = (
                f"the time ended before the page was written; the job is in {self._answer.target}."
            )
            self._answer = replace(self._answer, text=None, exit_code=exit_code, message=message)

    def disarm(self) -> None:
        """Let the process go on: the command has ended by itself."""
        self._is_disarmed.set()

    def _wait(self) -> None:
        lateness_s = 0.0
        while True:
            began = time.monotonic()
            earlier_s = max(EARLIER * lateness_s, ENDING_CPU_S * slowness_of_process())
            left_s = self._end - min(earlier_s, MOST_EARLIER_S) - began
            if left_s <= 0.0:
                break
            pause_s = min(PAUSE_S, left_s)
            if self._is_disarmed.wait(pause_s):
                return
            # how long this thread waits for the processor: so do the lines that end the process
            late_s = time.monotonic() - began - pause_s
            lateness_s += (late_s - lateness_s) / 4
        with self._guard:
            if not self._is_disarmed.is_set():
                self._end_process()

    def _end_process(self) -> None:
        """Write the prepared job, and end this process and its workers."""
        exit_code = 4
        message = "the time ended before the job was read: give more --minutes."
        answer = self._answer
        try:
            if answer is not None:
                exit_code = answer.exit_code
                message = answer.message
                write_whole(answer)
            if self._as_json:
                document = {"status": "out_of_time", "exit_code": exit_code, "error": message}
                _say(1, json.dumps(document))
            _say(2, f"evenhand: {message}")
            for process in multiprocessing.active_children():
                # by number: workers of joblib have no method `kill`
                if process.pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL)
        finally:
            os._exit(exit_code)


def slowness_of_process() -> float:
    """Return how many seconds one CPU second of this process took so far, while it wanted to
    compute; 1 where that is not known.
    """
    computed_ns = 0
    waited_ns = 0
    try:
        for thread in os.listdir("/proc/self/task"):
            content = Path(f"/proc/self/task/{thread}/schedstat").read_text()
            computed, waited, _ = map(int, content.split())
            computed_ns += computed
            waited_ns += waited
    except (OSError, ValueError):
        # not on Linux, or a thread has just ended
        return 1.0
    if computed_ns == 0:
        return 1.0
    return 1.0 + waited_ns / computed_ns


UNPLANNED = (
    "Not judged: the time ended before the search began. This is the job as it is, with the limits "
    "of the command as gates."
)
JOBS = Path(__file__).parent / "jobs"
LIMIT = re.compile(r"\s*([^<>=]+?)\s*(>=|<=)\s*([0-9.eE+-]+)\s*")


def unplanned_answer(job: str, limits: Sequence[str], *, force: bool) -> PreparedAnswer | None:
    """Return the job that is left where the time ends before the job was checked: its own, with the
    limits as gates; None where there is no such job, or its target may not be overwritten.

    Nothing is imported for it but the standard library, as imports take long on a busy machine.
    """
    path = Path(job)
    target = Path(f"{job}.tuned.yaml")
    base = job
    exists = (JOBS / f"{job}.yaml").is_file()
    name = job
    if path.suffix in (".yaml", ".yml"):
        target = path.with_name(f"{path.stem}.tuned.yaml")
        base = path.name
        exists = path.is_file()
        name = _name_in(path)
    if not exists or not name or (target.exists() and not force):
        return None
    gates: dict[str, dict[str, float]] = {}
    for limit in limits:
        match = LIMIT.fullmatch(limit)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            # refused in one line once the search is planned
            continue
        gate = gates.setdefault(match[1], {})
        # of two limits on one side the narrower one
        if match[2] == ">=":
            gate["min"] = max(value, gate.get("min", value))
        else:
            gate["max"] = min(value, gate.get("max", value))
    content = {"name": name, "base": base, "description": UNPLANNED, "gates": gates}
    # JSON is YAML
    text = json.dumps(content, indent=1) + "\n"
    message = (
        f"the time ended before the search began: {target} is the job as it is, with the limits as "
        "gates; give more --minutes."
    )
    return PreparedAnswer(target, text, 4, message)


def _name_in(path: Path) -> str:
    """The key `name` of a job's file, which stands at the beginning of a line; empty if it does
    not.
    """
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("name:"):
            return line.removeprefix("name:").partition("#")[0].strip().strip("\"'")
    return ""


def write_whole(answer: PreparedAnswer) -> None:
    """Write the job of an answer under another name, and rename it."""
    if answer.text is None:
        return
    unfinished = answer.target.with_name(f".{answer.target.name}.{os.getpid()}")
    unfinished.write_text(answer.text, encoding="utf-8")
    unfinished.replace(answer.target)


def _say(stream: int, line: str) -> None:
    """Write a line to stdout (1) or stderr (2), whatever stands in Python's buffers."""
    try:
        os.write(stream, f"\n{line}\n".encode())
    except OSError:
        # the reader of our output has closed it
        return
