"""Shared by the commands: carrying a verb out, errors as one line, progress, and tables."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, TextIO

from evenhand.flows import engine, runtime
from evenhand.tasks.credentials import holds_credential
from evenhand.tasks.errors import EvenhandError, GateRefused, NotCarriedOut
from evenhand.tasks.execution.step import Listener, listen
from evenhand.tasks.execution.store import Store

STEPS_KEPT = "interrupted: run again, the finished steps are kept."
# Imported while the temporary server starts.
PRELOADED = ("pandas", "pyarrow.parquet", "sklearn.linear_model", "great_expectations", "mlflow")
# More recalls than this are the lowest and the highest alone.
SHOWN_RECALLS = 5


@dataclass(frozen=True)
class Verb:
    """The work of a command."""

    name: str  # for the run's id
    execute: Callable[[Store, str, engine.Engine], Any]  # gives the verdict, without Prefect
    flow: str  # name of the same work's flow in `flows.prefect_flows`
    arguments: Mapping[str, Any]  # of the flow, beside the store and the run's id
    cacheable: bool = True  # whether the cache alone may give the result; then no server is started
    # whether a temporary server is started without one of the user's; else the work runs in this
    # process
    temporary_server: bool = True


def execute_verb(verb: Verb, store: Store, run_id: str, home: Path, *, direct: bool) -> None:
    """Execute a verb: directly, from the cache, or as a flow on the user's Prefect server or a
    temporary one.

    An error of Prefect's is raised only where the flow left no verdict, which is more precise.
    """
    has_server = bool(os.environ.get("PREFECT_API_URL"))
    if direct or not (has_server or verb.temporary_server):
        verb.execute(store, run_id, engine.DirectEngine(store))
        return
    if verb.cacheable and not has_server:
        # a run that computes nothing would spend most of its time on starting a server
        with contextlib.suppress(engine.CacheMiss):
            verb.execute(store, run_id, engine.DirectEngine(store, cached_only=True))
            return
    runtime.prepare_prefect_home(home)
    runtime.quiet_console()
    wait_for_server = runtime.start_temporary_server(runtime.SERVER_START_S)
    for module in PRELOADED:
        importlib.import_module(module)
    flow = getattr(importlib.import_module("evenhand.flows.prefect_flows"), verb.flow)
    wait_for_server()
    address: str | None = store.url
    if holds_credential(store.url):  # Prefect would keep it as a parameter of the flow run
        os.environ["EVENHAND_STORE"] = store.url
        address = None
    try:
        flow(**verb.arguments, store=address, run_id=run_id)
    except GateRefused:
        return  # the verdict has it
    except EvenhandError:
        raise
    except Exception as error:
        if engine.read_verdict(store, run_id) is None:
            raise NotCarriedOut(_prefect_failed(error)) from error


@dataclass(frozen=True)
class Ended:
    """A verb that has ended: its verdict, the store if it was opened, and the seconds that
    it took.
    """

    verdict: engine.Verdict
    store: Store | None
    seconds: float
    as_json: bool

    def read(self, file: str) -> Any:
        """Read a JSON file of the run's folder; None if there is none."""
        run_id = self.verdict.run_id
        text = (
            self.store.read_text("runs", run_id, file)
            if self.store is not None and run_id
            else None
        )
        return json.loads(text) if text else None

    def finish(
        self, show: Callable[[engine.Verdict, float], None], document: engine.Json | None = None
    ) -> int:
        """Call `show`, or print the document (default: the verdict) as JSON; print the error."""
        if self.as_json:
            print(json.dumps(document or self.verdict.to_dict()))
        else:
            show(self.verdict, self.seconds)
        if self.verdict.error:
            print(f"evenhand: {self.verdict.error}", file=sys.stderr)
        return self.verdict.exit_code


def run_verb(
    plan: Callable[[], Verb],
    *,
    as_json: bool,
    store_url: str | None,
    direct: bool,
    interrupted: str = STEPS_KEPT,
    skip: Callable[[Store, str], bool] | None = None,
) -> Ended:
    """Plan a verb and execute it.

    - `plan`: checks the options and builds the verb; its errors end the command
    - `as_json`, `store_url`, `direct`: options of the command
    - `interrupted`: message after Ctrl-C
    - `skip`: ``(store, run_id) -> bool``, whether there is nothing to do
    """
    started = time.perf_counter()
    run_id = ""  # type: str, Store | None
    store = None  # type: str, Store | None
    with one_line_errors(interrupted=interrupted) as caught:
        home = runtime.prepare_environment(store_url)
        verb = plan()
        store = Store(store_url)
        run_id = engine.new_run_id(verb.name)
        with show_progress(quiet=as_json) as listener, listen(listener):
            if skip is None or not skip(store, run_id):
                execute_verb(verb, store, run_id, home, direct=direct)
    seconds = time.perf_counter() - started
    return Ended(verdict_of(store, run_id, caught.error), store, seconds, as_json)


def verdict_of(store: Store | None, run_id: str, error: EvenhandError | None) -> engine.Verdict:
    """Read the verdict of a run; a run without one has failed."""
    found = engine.read_verdict(store, run_id) if store is not None and run_id else None
    message = str(error) if error else "the run ended without a verdict: see the log above."
    return found or engine.Verdict(run_id, "failed", error.exit_code if error else 4, message)


@contextlib.contextmanager
def one_line_errors(*, interrupted: str = STEPS_KEPT) -> Iterator[SimpleNamespace]:
    """Catch an error or Ctrl-C (with the message `interrupted`) as `error`, one line with an exit
    code.
    """
    caught = SimpleNamespace(error=None)
    try:
        yield caught
    except BaseException as error:
        if not (isinstance(error, Exception) or is_interrupt(error)):
            raise
        caught.error = _in_one_line(error, interrupted)


def is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C or SIGTERM ended the work; within a flow Prefect raises an exception of its
    own.
    """
    return isinstance(error, KeyboardInterrupt) or type(error).__name__ == "TerminationSignal"


def report_error(error: BaseException, *, as_json: bool = False) -> int:
    """Print an error as one line, and with `as_json` as an object; return its exit code."""
    named = _in_one_line(error, "interrupted: run again.")
    if as_json:
        print(json.dumps({"error": str(named)}))
    print(f"evenhand: {named}", file=sys.stderr)
    return named.exit_code


def _in_one_line(error: BaseException, interrupted: str) -> EvenhandError:
    """Convert any error into one of ours.

    With EVENHAND_LOG set, the traceback of an internal fault, and of an error with a cause, goes to
    stderr.
    """
    if is_interrupt(error):
        return NotCarriedOut(interrupted)
    ours = isinstance(error, EvenhandError)
    if os.environ.get("EVENHAND_LOG") and not (ours and error.__cause__ is None):
        traceback.print_exception(error)
    return error if isinstance(error, EvenhandError) else engine.describe_fault(error)


def _prefect_failed(error: Exception) -> str:
    """Describe in one line that Prefect could not run a flow, and what to check."""
    reason = (str(error).splitlines() or [""])[0][:300]
    where = os.environ.get("PREFECT_API_URL")
    cure = f"is the Prefect server at {where} up?" if where else "`--direct` runs without Prefect."
    return f"the flow could not be carried out ({type(error).__name__}: {reason}): {cure}"


@contextlib.contextmanager
def show_progress(*, quiet: bool) -> Iterator[Listener | None]:
    """Show the progress of the steps on stderr within the block.

    At a terminal every slow step has a bar; the bars are removed at the end. Elsewhere a line is
    written every 20 seconds.
    """
    if quiet or sys.stderr is None:
        yield None
    elif sys.stderr.isatty():
        from evenhand.flows.commands.bars import (
            Bars,
        )  # imported lazily: most commands do not use rich

        with Bars() as bars:
            yield bars
    else:
        with ProgressLines(sys.stderr) as lines:
            yield lines


def exact_stdout() -> TextIO:
    """Return the stream of stdout that takes every character as it is, for files and for
    colours.
    """
    return getattr(sys.stdout, "stream", sys.stdout)


def print_table(rows: Sequence[Sequence[str]], indent: str = "") -> None:
    """Print rows of text in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print(
            indent
            + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def print_steps(verdict: engine.Verdict) -> None:
    """Print each step's seconds, or that it came from the cache."""
    rows = [
        [step, "cached" if step in verdict.cached else f"{seconds:6.1f} s"]
        for step, seconds in verdict.seconds.items()
    ]
    print_table(rows, "  ")
    print()


def estimate(metric: Mapping[str, Any], form: str = ".3f") -> str:
    """Format a metric's value with its interval."""
    if metric["value"] is None:
        return "insufficient evidence"
    low = metric.get("low")
    high = metric.get("high")
    shown = f"{metric['value']:{form}}"
    return shown if low is None or high is None else f"{shown}  [{low:{form}}, {high:{form}}]"


def metric_names(verdict: engine.Verdict) -> list[str]:
    """Return the names of a verdict's metrics, without the ends of their intervals."""
    return [name for name in verdict.metrics if not name.endswith((".low", ".high"))]


def print_metrics(verdict: engine.Verdict, names: Sequence[str] | None = None) -> None:
    """Print metrics with intervals; with a baseline also its values and the paired differences."""
    names = metric_names(verdict) if names is None else names
    recalls = [name for name in names if name.startswith("recall.")]
    recalls.sort(key=lambda name: verdict.metrics[name] or 0.0)
    left_out = recalls[1:-1] if len(recalls) > SHOWN_RECALLS else []
    names = [name for name in names if name not in left_out]
    rows = []
    for name in names:
        low, high = (verdict.metrics.get(f"{name}.{end}") for end in ("low", "high"))
        rows.append([name, estimate({"value": verdict.metrics[name], "low": low, "high": high})])
    if verdict.baseline:
        baseline = verdict.baseline["metrics"]
        differences = verdict.baseline["differences"]
        for row in rows:
            found = differences.get(row[0])
            clear = found and found["low"] is not None and (found["low"] > 0 or found["high"] < 0)
            row.append(estimate({"value": baseline.get(row[0])}) if row[0] in baseline else "")
            row.append(estimate(found, "+.3f") + (" *" if clear else "") if found else "")
        rows.insert(0, ["", "model", "baseline", "difference"])
    if rows:
        print_table(rows, "  ")
    if left_out:
        print(f"\n  recall of the other {len(left_out)} classes, between these two: see the report")
    if verdict.baseline:
        print("\n  * the interval of the difference does not contain zero")
    print()


def print_gates(results: Sequence[Mapping[str, Any]]) -> None:
    """Print one line per gate."""
    for result in results:
        word = "pass" if result["passed"] else "FAIL" if result["status"] == "ok" else "????"
        print(f"  {word}  {result['text']}")


def print_model(role: str, model: Mapping[str, Any] | None) -> None:
    """Print a model's name, version and method."""
    if model:
        version = f" version {model['version']}" if model["version"] is not None else ""
        print(f"{role:9} {model['name']}{version} ({model['method']})")


def print_end(verdict: engine.Verdict, seconds: float) -> None:
    """Print the report's address, the run's id and its duration."""
    print(f"report    {verdict.artifacts['report']}")
    print(f"run       {verdict.run_id}, {seconds:.1f} s")


EVERY_S = 20.0


@dataclass
class _Count:
    """Count of a running step: where and when it began, and the last report; the total is 0 without
    one.
    """

    begun: float
    first: tuple[int, float] = (0, 0.0)
    done: int = 0
    total: int = 0
    values: Mapping[str, float] = field(default_factory=dict)


class ProgressLines:
    """Listener that writes the progress of the running steps every 20 seconds, as one line.

    A daemon thread writes the lines, because a step may report nothing for minutes.

    `out` is a text stream, `clock` gives monotonic time in seconds.
    """

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._run = _Count(clock())
        self._steps: dict[str, _Count] = {}
        self._ended = threading.Event()
        self._writer = threading.Thread(target=self._write, name="evenhand-progress", daemon=True)

    def __enter__(self) -> Self:
        self._writer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._writer.join(
            1.0
        )  # a reader that has stopped reading must not keep the command from ending

    def __call__(self, step: str, done: int, total: int, values: Mapping[str, float]) -> None:
        """Keep a step's progress and its latest values."""
        now = self._clock()
        count = self._steps.setdefault(step, _Count(now))
        if not count.total:  # a step that resumes from a checkpoint begins above 0
            count.first = (done, now)
        count.done = done
        count.total = total
        count.values = values

    @contextmanager
    def working(self, step: str) -> Iterator[None]:
        """Name a step in the lines while the block runs."""
        self._steps[step] = _Count(self._clock())
        try:
            yield
        finally:
            self._steps.pop(step, None)

    def line(self) -> str:
        """Return the present line: each running step with its share, and the time left or spent."""
        counts = list(self._steps.items()) or [("evenhand", self._run)]
        return "; ".join(
            f"{step.removesuffix(' kB')}  {self._progress(count)}" for step, count in counts
        )

    def _progress(self, count: _Count) -> str:
        now = self._clock()
        (first, since), share = (
            count.first,
            f"{100 * count.done // count.total} %, " if count.total else "",
        )
        shown = "".join(f", {name} {value:.4g}" for name, value in count.values.items())
        if first < count.done < count.total:
            left = (count.total - count.done) * (now - since) / (count.done - first)
            return f"{share}about {_duration(left)} left{shown}"
        return f"{share}running for {_duration(now - count.begun)}{shown}"

    def _write(self) -> None:
        with contextlib.suppress(
            OSError, ValueError
        ):  # a closed stream or pipe ends the lines, not the run
            while not self._ended.wait(EVERY_S):
                print(self.line(), file=self._out, flush=True)


def _duration(seconds: float) -> str:
    """Return seconds in the two largest units, such as ``1 min 10 s``."""
    minutes, rest = divmod(max(1, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
