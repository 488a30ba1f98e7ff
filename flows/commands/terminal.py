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

from evenhand.fairlib.escaping import one_line, terminal_text
from evenhand.flows import engine, runtime
from evenhand.tasks.credentials import holds_credential
from evenhand.tasks.errors import EvenhandError, GateRefused, NotCarriedOut
from evenhand.tasks.execution.step import Listener, listen, working
from evenhand.tasks.execution.store import Store

STEPS_KEPT = "interrupted: run again, the finished steps are kept."
# What progress calls the time before the first step.
READ = "reading the job"
SERVER = "starting Prefect"
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
    arguments: Mapping[str, Any]  # of the flow, without the store and the run's id
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
    with working(SERVER):
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
        if self.store is None or not run_id:
            return None
        text = self.store.read_text("runs", run_id, file)
        if not text:
            return None
        return json.loads(text)

    def finish(
        self, show: Callable[[engine.Verdict, float], None], document: engine.Json | None = None
    ) -> int:
        """Call `show`, or print the document (default: the verdict) as JSON; print the error."""
        if self.as_json:
            print(json.dumps(document or self.verdict.to_dict()))
        else:
            show(self.verdict, self.seconds)
        if self.verdict.error:
            print_note(f"evenhand: {self.verdict.error}")
        return self.verdict.exit_code


def run_verb(
    plan: Callable[[], Verb],
    *,
    as_json: bool,
    store_url: str | None,
    direct: bool,
    interrupted: str = STEPS_KEPT,
    skip: Callable[[Store, str], bool] | None = None,
    reads_registry: bool = False,
) -> Ended:
    """Plan a verb and execute it.

    - `plan`: checks the options and builds the verb; its errors end the command
    - `as_json`, `store_url`, `direct`: options of the command
    - `interrupted`: message after Ctrl-C
    - `skip`: ``(store, run_id) -> bool``, whether there is nothing to do
    - `reads_registry`: whether the verb writes nothing to the registry, so that a store that
      cannot be written will do
    """
    started = time.perf_counter()
    run_id = ""
    store: Store | None = None
    with one_line_errors(interrupted=interrupted) as caught:
        if reads_registry:
            store_url = runtime.store_for_reading(store_url)
        home = runtime.prepare_environment(store_url)
        with show_progress(quiet=as_json) as listener, listen(listener):
            with working(READ):
                verb = plan()
                store = Store(store_url)
            run_id = engine.new_run_id(verb.name)
            if skip is None or not skip(store, run_id):
                execute_verb(verb, store, run_id, home, direct=direct)
    seconds = time.perf_counter() - started
    return Ended(verdict_of(store, run_id, caught.error), store, seconds, as_json)


def verdict_of(store: Store | None, run_id: str, error: EvenhandError | None) -> engine.Verdict:
    """Read the verdict of a run; a run without one has failed."""
    if store is not None and run_id:
        verdict = engine.read_verdict(store, run_id)
        if verdict is not None:
            return verdict
    if error is not None:
        return engine.Verdict(run_id, "failed", error.exit_code, str(error))
    return engine.Verdict(
        run_id, "failed", 4, "the run ended without a verdict: see the log above."
    )


@contextlib.contextmanager
def one_line_errors(*, interrupted: str = STEPS_KEPT) -> Iterator[SimpleNamespace]:
    """Catch an error or Ctrl-C (with the message `interrupted`) as `error`, one line with an exit
    code.
    """
    caught = SimpleNamespace(error=None)
    try:
        yield caught
    except BaseException as error:
        if not (isinstance(error, Exception) or engine.is_interrupt(error)):
            raise
        caught.error = _in_one_line(error, interrupted)


def print_note(text: str) -> None:
    """Print a line for a person on stderr, without what a terminal would obey."""
    print(terminal_text(one_line(text)), file=sys.stderr)


def report_error(error: BaseException, *, as_json: bool = False) -> int:
    """Print an error as one line, and with `as_json` as an object; return its exit code."""
    described = _in_one_line(error, "interrupted: run again.")
    if as_json:
        print(json.dumps({"error": str(described)}))
    print_note(f"evenhand: {described}")
    return described.exit_code


def _in_one_line(error: BaseException, interrupted: str) -> EvenhandError:
    """Convert any error into one of ours.

    With EVENHAND_LOG set, the traceback of an internal fault, and of an error with a cause, goes to
    stderr.
    """
    if engine.is_interrupt(error):
        return NotCarriedOut(interrupted)
    is_ours = isinstance(error, EvenhandError)
    if os.environ.get("EVENHAND_LOG") and not (is_ours and error.__cause__ is None):
        traceback.print_exception(error)
    if isinstance(error, EvenhandError):
        return error
    return engine.describe_fault(error)


def _prefect_failed(error: Exception) -> str:
    """Describe in one line that Prefect could not run a flow, and what to check."""
    reason = (str(error).splitlines() or [""])[0][:300]
    where = os.environ.get("PREFECT_API_URL")
    cure = "`--direct` runs without Prefect."
    if where:
        cure = f"is the Prefect server at {where} up?"
    return f"the flow could not be carried out ({type(error).__name__}: {reason}): {cure}"


@contextlib.contextmanager
def show_progress(*, quiet: bool) -> Iterator[Listener | None]:
    """Show the progress of the steps on stderr within the block.

    At a terminal every slow step has a bar; the bars are removed at the end. Elsewhere a line is
    written every 20 seconds, and for a new step after four.
    """
    if quiet or sys.stderr is None:
        yield None
    elif sys.stderr.isatty():
        # imported lazily: most commands do not use rich
        from evenhand.flows.commands.bars import Bars

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
    """Print rows of text in columns, each on one line."""
    lines = [[one_line(cell) for cell in row] for row in rows]
    widths = []
    for column in range(len(rows[0])):
        widths.append(max(len(row[column]) for row in lines))
    for row in lines:
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
        print(indent + "  ".join(cells).rstrip())


def print_steps(verdict: engine.Verdict) -> None:
    """Print each step's seconds, or that it came from the cache."""
    rows = []
    for step, seconds in verdict.seconds.items():
        duration = f"{seconds:6.1f} s"
        if step in verdict.cached:
            duration = "cached"
        rows.append([step, duration])
    print_table(rows, "  ")
    print()


def estimate(metric: Mapping[str, Any], form: str = ".3f") -> str:
    """Format a metric's value with its interval."""
    if metric["value"] is None:
        return "insufficient evidence"
    value = f"{metric['value']:{form}}"
    low = metric.get("low")
    high = metric.get("high")
    if low is None or high is None:
        return value
    return f"{value}  [{low:{form}}, {high:{form}}]"


def metric_names(verdict: engine.Verdict) -> list[str]:
    """Return the names of a verdict's metrics, without the ends of their intervals."""
    return [name for name in verdict.metrics if not name.endswith((".low", ".high"))]


def print_metrics(verdict: engine.Verdict, names: Sequence[str] | None = None) -> None:
    """Print metrics with intervals; with a baseline also its values and the paired differences."""
    if names is None:
        names = metric_names(verdict)
    left_out = _middle_recalls(verdict, names)
    rows = []
    for name in names:
        if name not in left_out:
            low = verdict.metrics.get(f"{name}.low")
            high = verdict.metrics.get(f"{name}.high")
            metric = {"value": verdict.metrics[name], "low": low, "high": high}
            rows.append([name, estimate(metric)])
    if verdict.baseline:
        for row in rows:
            row += _baseline_cells(verdict.baseline, row[0])
        rows.insert(0, ["", "model", "baseline", "difference"])
    if rows:
        print_table(rows, "  ")
    if left_out:
        print(f"\n  recall of the other {len(left_out)} classes, between these two: see the report")
    if verdict.baseline:
        print("\n  * the interval of the difference does not contain zero")
    print()


def _middle_recalls(verdict: engine.Verdict, names: Sequence[str]) -> list[str]:
    """Return the recalls that are not shown: of many classes all but the lowest and the highest."""
    recalls = [name for name in names if name.startswith("recall.")]
    recalls.sort(key=lambda name: verdict.metrics[name] or 0.0)
    if len(recalls) <= SHOWN_RECALLS:
        return []
    return recalls[1:-1]


def _baseline_cells(baseline: Mapping[str, Any], name: str) -> list[str]:
    """Return the cells of a metric's baseline and difference; empty if it has none.

    A star marks a difference whose interval does not contain zero.
    """
    value = ""
    if name in baseline["metrics"]:
        value = estimate({"value": baseline["metrics"][name]})
    difference = baseline["differences"].get(name)
    if not difference:
        return [value, ""]
    text = estimate(difference, "+.3f")
    low = difference["low"]
    if low is not None and (low > 0 or difference["high"] < 0):
        text += " *"
    return [value, text]


def print_gates(results: Sequence[Mapping[str, Any]]) -> None:
    """Print one line per gate."""
    for result in results:
        word = "open"
        if result["passed"]:
            word = "pass"
        elif result["status"] == "ok":
            word = "FAIL"
        print(f"  {word}  {result['text']}")


def print_rates(verdict: engine.Verdict) -> None:
    """Print how many people get the positive label, as predicted and as observed, and how groups
    differ.
    """
    rates = verdict.rates
    if rates:
        _print_overall(rates)
    for sentence in verdict.findings:
        print(f"  {sentence}")
    if rates or verdict.findings:
        print()


def _print_overall(rates: Mapping[str, Any]) -> None:
    text = f"  {rates['positive']}: predicted for {rates['predicted']:.1%} of people"
    if rates.get("predicted_in_test_rows") is not None:
        text += f" (of the test rows for {rates['predicted_in_test_rows']:.1%})"
    if rates.get("observed") is not None:
        text += f", observed for {rates['observed']:.1%}"
    print(text)


def print_model(role: str, model: Mapping[str, Any] | None) -> None:
    """Print a model's name, version and method."""
    if not model:
        return
    name = model["name"]
    if model["version"] is not None:
        name += f" version {model['version']}"
    print(f"{role:9} {name} ({model['method']})")


def print_end(verdict: engine.Verdict, seconds: float) -> None:
    """Print the report's address, the run's id and its duration; a command that was interrupted
    while it wrote the report has none.
    """
    if "report" in verdict.artifacts:
        print(f"report    {verdict.artifacts['report']}")
    print(f"run       {verdict.run_id}, {seconds:.1f} s")


EVERY_S = 20.0
# A line about other steps than those of the last line comes sooner, and so does one that a verb
# writes itself.
NEW_STEPS_S = 4.0


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

    Steps that have no line yet get one within five seconds. A daemon thread writes the lines,
    because a step may report nothing for minutes.

    `out` is a text stream, `clock` gives monotonic time in seconds.
    """

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._run = _Count(clock())
        self._steps: dict[str, _Count] = {}
        self._text: Callable[[], str] | None = None
        self._ended = threading.Event()
        self._writer = threading.Thread(target=self._write, name="evenhand-progress", daemon=True)

    def __enter__(self) -> Self:
        self._writer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        # a reader that has stopped reading must not keep the command from ending
        self._writer.join(1.0)

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

    @contextmanager
    def described(self, text: Callable[[], str]) -> Iterator[None]:
        """Write this text in place of the steps while the block runs, and every five seconds."""
        self._text = text
        try:
            yield
        finally:
            self._text = None

    def line(self) -> str:
        """Return the present line: each running step with its share, and the time left, or spent
        where the step's end does not follow from its share.
        """
        if self._text is not None:
            return self._text()
        counts = list(self._steps.items()) or [("evenhand", self._run)]
        return "; ".join(
            f"{step.removesuffix(' kB')}  {self._progress(step, count)}" for step, count in counts
        )

    def _progress(self, step: str, count: _Count) -> str:
        now = self._clock()
        first, since = count.first
        share = ""
        if count.total:
            share = f"{100 * count.done // count.total} %, "
        values = "".join(f", {name} {value:.4g}" for name, value in count.values.items())
        if first < count.done < count.total and step not in engine.WITHOUT_ESTIMATE:
            seconds_left = (count.total - count.done) * (now - since) / (count.done - first)
            return f"{share}about {engine.duration_text(seconds_left)} left{values}"
        return f"{share}running for {engine.duration_text(now - count.begun)}{values}"

    def _write(self) -> None:
        # a closed stream or pipe ends the lines, not the run
        with contextlib.suppress(OSError, ValueError):
            waited = 0.0
            shown_steps: list[str] | None = None
            while not self._ended.wait(NEW_STEPS_S):
                waited += NEW_STEPS_S
                steps = list(self._steps)
                if self._text is not None:
                    print(self.line(), file=self._out, flush=True)
                    continue
                if steps != shown_steps or waited >= EVERY_S:
                    print(self.line(), file=self._out, flush=True)
                    shown_steps = steps
                    waited = 0.0
