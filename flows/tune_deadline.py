"""The end of `tune` at its time, whatever runs then, with the answer that was prepared last."""

from __future__ import annotations

import contextlib
import errno
import json
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# Seconds after the end of the time at which a command that still runs is ended.
GRACE_S = 1.0
# CPU seconds after the end of the CPU time at which it is.
CPU_GRACE_S = 2.0
CPU_GRACE_OF_WORKER_S = 0.5
# On a busy machine it is ended earlier: by so many times as long as its thread waits for the
# processor, and by the time in which the machine gives it so many CPU seconds, as it takes to write
# the job and to end the processes; but by no more than that. The thread looks at the clock every so
# many seconds.
EARLIER = 10.0
ENDING_CPU_S = 0.5
MOST_EARLIER_S = 5.0
PAUSE_S = 0.25
# What ends a command before its time.
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


KEPT = "{} of an earlier search was kept"
PAGELESS = "the time ended before the page was written; the job is in {}."


@dataclass(frozen=True)
class PreparedAnswer:
    """What is left when the time is up before the command has ended by itself."""

    target: Path  # file of the tuned job
    text: str | None  # its content; None if the file has been written
    exit_code: int
    message: str  # one line for the reader
    overwrites: bool = True  # whether it may take the place of a file


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
        self._cpu_end = float("inf")
        self._cpu_clock: Callable[[], float] = lambda: 0.0
        self._is_waiting = False
        self._is_disarmed = threading.Event()

    def arm(self, end: float) -> None:
        """Let the process end at a time of ``time.monotonic``, unless it has ended before."""
        self._end = min(self._end, end + GRACE_S)
        self._begin()

    def arm_cpu(self, clock: Callable[[], float], end: float, workers: int = 1) -> None:
        """Let the process end at so many CPU seconds of its `clock`, unless it has ended before.

        Each of its workers may take a little more before it is stopped.
        """
        self._cpu_clock = clock
        self._cpu_end = end + CPU_GRACE_S + workers * CPU_GRACE_OF_WORKER_S
        self._begin()

    def _begin(self) -> None:
        """Start the thread that waits for the end, once."""
        if not self._is_waiting:
            self._is_waiting = True
            threading.Thread(target=self._wait, name="deadline", daemon=True).start()

    def prepare(self, answer: PreparedAnswer | None) -> None:
        """Keep what is written if the time is up."""
        with self._guard:
            self._answer = answer

    def written(self, exit_code: int) -> None:
        """Keep that the job has been written, and with which exit code the command then ends: only
        its page is missing.
        """
        with self._guard:
            if self._answer is None:
                return
            message = PAGELESS.format(self._answer.target)
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
            if left_s <= 0.0 or self._cpu_clock() >= self._cpu_end:
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
                exit_code, message = _written(answer)
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


def _written(answer: PreparedAnswer) -> tuple[int, str]:
    """Write the job of an answer; return the exit code and the line for the reader."""
    try:
        write_whole(answer)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return 4, f"the time ended, and {answer.target} cannot be written: {reason}."
    return answer.exit_code, answer.message


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


TOO_SHORT = "the time ended before the search began: give more --minutes."


def unplanned_answer(
    job: str,
    limits: Sequence[str],
    *,
    force: bool,
    is_changed: bool = False,
    is_alternative: bool = False,
) -> PreparedAnswer | None:
    """Return the job that is left where the time ends before the job was checked: its own, with the
    limits as gates; None where there is no such job, or its target may not be overwritten.

    Limits are those of the command, or else the job's own; a gate of the job that is at least as
    strict stays. A file of an earlier search stays too, as it may have been judged; and there is no
    job in a search for alternatives, or where a command `is_changed` by overrides of the job's
    keys, which it would not have. Nothing of ours is imported for it, as imports take long on a
    busy machine.
    """
    path = Path(job)
    target = Path(f"{job}.tuned.yaml")
    base = job
    file = JOBS / f"{job}.yaml"
    if path.suffix in (".yaml", ".yml"):
        target = path.with_name(f"{path.stem}.tuned.yaml")
        base = path.name
        file = path
    keys = _keys_of_job(file)
    if not file.is_file() or keys is None or (target.exists() and not force):
        return None
    if target.exists():
        return PreparedAnswer(target, None, 4, f"{TOO_SHORT[:-1]}; {KEPT.format(target)}.")
    if is_alternative or keys.is_alternative or is_changed:
        return PreparedAnswer(target, None, 4, TOO_SHORT)
    gates: dict[str, dict[str, float]] = {}
    for metric, sign, value in map(_parts_of_limit, limits or keys.where):
        if metric:
            gate = gates.setdefault(metric, _numbers_of(keys.gates.get(metric)))
            # of two limits on one side the narrower one
            if sign == ">=":
                gate["min"] = max(value, gate.get("min", value))
            else:
                gate["max"] = min(value, gate.get("max", value))
    content = {"name": keys.name, "base": base, "description": UNPLANNED, "gates": gates}
    if any("&" in metric for metric in gates):
        # else a run would not measure them
        content["evaluate"] = {"intersections": True}
    # JSON is YAML
    text = json.dumps(content, indent=1) + "\n"
    message = (
        f"the time ended before the search began: {target} is the job as it is, with the limits as "
        "gates; give more --minutes."
    )
    return PreparedAnswer(target, text, 4, message, overwrites=force)


@dataclass
class _JobKeys:
    """The keys of a job, with those of its bases, that an unplanned answer needs."""

    name: str = ""
    gates: dict[str, Any] = field(default_factory=dict)
    where: list[str] = field(default_factory=list)
    is_alternative: bool = False  # whether an alternative to a model is searched


def _keys_of_job(file: Path, above: Sequence[Path] = ()) -> _JobKeys | None:
    """Read the keys of a job's file over those of its bases; None where its text is no job, or the
    job itself, which is below nothing, has no name.
    """
    # imported lazily: most commands of this module's readers end in time
    import yaml

    if file in above:
        return None
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    if not isinstance(content, dict):
        return None
    keys = _JobKeys()
    bases = content.get("base") or []
    for base in bases if isinstance(bases, list) else [bases]:
        if Path(str(base)).name != base:
            return None
        base_file = JOBS / f"{base}.yaml"
        if base.endswith((".yaml", ".yml")):
            base_file = file.with_name(base)
        inherited = _keys_of_job(base_file, (file, *above))
        if inherited is None:
            return None
        keys.gates |= inherited.gates
        keys.where = inherited.where or keys.where
        keys.is_alternative = inherited.is_alternative or keys.is_alternative
    keys.name = str(content.get("name") or (file.stem if file.parent == JOBS else ""))
    gates = content.get("gates") or {}
    tune = content.get("tune") or {}
    is_named = bool(keys.name) or bool(above)
    if not is_named or not isinstance(gates, dict) or not isinstance(tune, dict):
        return None
    for metric, gate in gates.items():
        keys.gates[metric] = {**_numbers_of(keys.gates.get(metric)), **_numbers_of(gate)}
    keys.where = [str(text) for text in tune.get("where") or keys.where]
    keys.is_alternative = bool(tune.get("alternative_to") or keys.is_alternative)
    return keys


def _numbers_of(gate: Any) -> dict[str, float]:
    """The ends of a gate that are numbers."""
    if not isinstance(gate, dict):
        return {}
    return {
        key: float(value)
        for key, value in gate.items()
        if key in ("min", "max") and isinstance(value, int | float)
    }


def _parts_of_limit(limit: str) -> tuple[str, str, float]:
    """The metric, the sign and the number of a limit; an empty metric for what is no limit, which
    is refused in one line once the search is planned.
    """
    match = LIMIT.fullmatch(limit)
    if match is None:
        return "", "", 0.0
    try:
        return match[1], match[2], float(match[3])
    except ValueError:
        return "", "", 0.0


def write_whole(answer: PreparedAnswer) -> None:
    """Write the job of an answer under another name, and rename it.

    Raises `FileExistsError` where there is another file by now that it may not overwrite.
    """
    if answer.text is None:
        return
    if not answer.overwrites and answer.target.exists():
        if answer.target.read_text(encoding="utf-8", errors="replace") == answer.text:
            # written by this command, which was interrupted then
            return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(answer.target))
    unfinished = answer.target.with_name(f".{answer.target.name}.{os.getpid()}")
    try:
        unfinished.write_text(answer.text, encoding="utf-8")
        unfinished.replace(answer.target)
    except OSError:
        # as on a full disk: nothing half-written is left
        unfinished.unlink(missing_ok=True)
        raise


def _say(stream: int, line: str) -> None:
    """Write a line to stdout (1) or stderr (2), whatever stands in Python's buffers."""
    try:
        os.write(stream, f"\n{line}\n".encode())
    except OSError:
        # the reader of our output has closed it
        return
