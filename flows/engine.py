"""Parts of every run: engines for single steps, :class:`Steps` in order, the verdict and the run's
folder.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from evenhand.fairlib.datasets.generated import GENERATED
from evenhand.flows import logs, telemetry
from evenhand.flows.run_verdict import FinishedStep, Verdict
from evenhand.tasks.errors import EvenhandError, NotCarriedOut, disk_is_full, internal_fault
from evenhand.tasks.execution.fingerprint import environment, now
from evenhand.tasks.execution.step import (
    IN_THIS_PROCESS,
    STEPS,
    ExecutionContext,
    report_progress,
    run_step,
    step_key,
    working,
)
from evenhand.tasks.execution.store import Artifact, StepRecord, Store
from evenhand.tasks.sources.fetching import FETCH, fetch_source, needs_network

EXIT_OF_VERDICT = {"passed": 0, "refused": 1, "insufficient_evidence": 3}
# JSON outputs that pages do not show.
NOT_ON_PAGES = ("encoder", "reference")
Json = Mapping[str, Any]
Inputs = Mapping[str, Artifact]


StepOutcome = tuple[StepRecord, bool]
"""A step's record, and whether it was found in the cache."""


# Steps whose end does not follow from their counts: a training stops where it no longer improves,
# and the parts of a measurement take unequal times. Estimates by their counts were several times
# too long.
WITHOUT_ESTIMATE = frozenset(
    ("fair_metric", "controls", "train", "decide", "membership", "evaluate", "learn_proxy")
)


class CacheMiss(Exception):
    """A step would have to run."""


class Engine(Protocol):
    """Interface of the engines, which run single steps."""

    execution: ExecutionContext  # where the steps run

    def fetch(self, source: Json) -> dict[str, Artifact]:
        """Copy the table's files into the store."""

    def run(
        self, name: str, key: str, parameters: Json, inputs: Inputs, *, refresh: bool
    ) -> StepOutcome:
        """Run a step or find its record."""

    def executing_in(self, execution: ExecutionContext) -> Self:
        """Return an engine like this one, which passes this context to the steps that it runs."""


@dataclass
class DirectEngine:
    """Runs the steps in this process; with `cached_only` it only finds their records."""

    store: Store
    cached_only: bool = False
    execution: ExecutionContext = IN_THIS_PROCESS

    def fetch(self, source: Mapping[str, Any]) -> dict[str, Artifact]:
        """Fetch the table; CacheMiss if that needs the network and only the cache may be used."""
        if self.cached_only and needs_network(source):
            raise CacheMiss
        is_named = not (source.get("path") or source.get("sql"))
        if is_named and source["name"] in GENERATED:
            return {}  # nothing to copy
        with working(FETCH):
            report = report_progress(FETCH)
            return fetch_source(
                self.store, source, progress=lambda done, total: report(done, total, {})
            )

    def run(
        self, name: str, key: str, parameters: Json, inputs: Inputs, *, refresh: bool
    ) -> StepOutcome:
        """Run the step in this process."""
        if refresh:
            if self.cached_only:
                raise CacheMiss
            self.store.forget(name, key)
        elif self.cached_only:
            record = self.store.find(name, key)
            if record is None:
                raise CacheMiss
            return record, True
        report = report_progress(name)
        return run_step(self.store, STEPS[name], key, parameters, inputs, report, self.execution)

    def executing_in(self, execution: ExecutionContext) -> Self:
        """Return an engine like this one, which passes this context to the steps that it runs."""
        return replace(self, execution=execution)


@dataclass(frozen=True)
class Measured:
    """Results of the steps up to the metrics."""

    metrics: Artifact  # the gates decide by them
    refusal: str | None = None  # why nothing is published even if the gates pass
    # content digest of the published proxy that selected the training rows
    proxy: str | None = None
    notes: list[str] = field(default_factory=list)  # sentences for the reader


@dataclass
class Steps:
    """Runs the steps of one run in order; `finished` has the finished ones by name."""

    store: Store
    engine: Engine
    finished: dict[str, FinishedStep] = field(default_factory=dict)
    clock: Callable[[], float] = time.perf_counter

    def __call__(
        self,
        name: str,
        parameters: Json,
        inputs: Inputs,
        *,
        modules: Sequence[str] = (),
        is_valid: Callable[[StepRecord], bool] | None = None,
        started: float | None = None,
    ) -> StepRecord:
        """Run one step.

        - `modules`: modules whose code is part of the step's key because of these parameters
        - `is_valid`: a cached record for which it returns False is computed again
        - `started`: clock time at which the step started (default: now)
        """
        if started is None:
            started = self.clock()
        key = step_key(STEPS[name], parameters, inputs, modules)
        refresh = False
        if is_valid is not None:
            cached_record = self.store.find(name, key)
            refresh = cached_record is not None and not is_valid(cached_record)
        record, cached = self.engine.run(name, key, parameters, inputs, refresh=refresh)
        self.finished[name] = FinishedStep(
            record, self.clock() - started, cached, modules=tuple(modules)
        )
        seconds = round(self.clock() - started, 3)
        if cached:
            logs.event("cached", name, seconds=seconds)
        else:
            logs.event("done", name, seconds=seconds)
        return record

    def output(self, step: str, name: str) -> Artifact:
        """Return an output of a finished step."""
        return self.finished[step].record.outputs[name]

    def has_output(self, step: str, name: str) -> bool:
        """Return whether a step has finished and has this output."""
        return step in self.finished and name in self.finished[step].record.outputs

    def facts(self, step: str) -> dict[str, Any]:
        """Return the facts of a finished step; empty if it did not run."""
        if step not in self.finished:
            return {}
        return self.finished[step].record.facts

    def read(self, step: str, name: str) -> Any:
        """Read a JSON output of a step."""
        return json.loads(self.store.fetch(self.output(step, name)).read_text())

    def documents(self) -> dict[str, Any]:
        """Read every JSON output that pages are built from, by the output's name.

        Raises ValueError if two steps have an output of one name: pages could show only one.
        """
        documents = {}
        for step, finished in self.finished.items():
            for name, artifact in finished.record.outputs.items():
                if not artifact.uri.endswith(".json") or name in NOT_ON_PAGES:
                    continue
                if name in documents:
                    raise ValueError(f"the output {name!r} of {step!r} is one of another step too")
                documents[name] = self.read(step, name)
        return documents

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each step."""
        return {name: step.seconds for name, step in self.finished.items()}

    @property
    def cached(self) -> list[str]:
        """Steps that came from the cache."""
        return [name for name, step in self.finished.items() if step.cached]

    def timeline(self) -> list[dict[str, Any]]:
        """Return name, seconds and `cached` of each step, for pages."""
        return [
            {"name": name, "seconds": step.seconds, "cached": step.cached}
            for name, step in self.finished.items()
        ]


class RunFolder:
    """Writes the files of a run; their addresses go to the verdict, their titles to the
    run's page.
    """

    def __init__(self, store: Store, verdict: Verdict) -> None:
        self.store = store
        self.verdict = verdict
        self._files: list[dict[str, str]] = []

    def write(self, name: str, file: str, text: str, title: str | None = None) -> None:
        """Write a file under a name in the verdict; the page links to it if it has a title."""
        self.verdict.artifacts[name] = self.store.write_text(
            text, "runs", self.verdict.run_id, file
        )
        if title is not None:
            self.add(file, title)

    def add(self, file: str, title: str) -> None:
        """Have the page link to a file of the folder."""
        self._files.append({"name": title, "href": file})

    def write_json(self, name: str, file: str, content: Any, title: str | None = None) -> None:
        """Write a JSON file."""
        self.write(name, file, json.dumps(content, indent=1), title)

    def write_check(self, name: str, file: str, result: Any, subject: str, title: str) -> None:
        """Write the page of a contract check of a table, which `subject` names."""
        # imported lazily, here and below: a run that finds nothing new writes no page
        from evenhand.tasks.pages.build import write_page

        documents = {"result": result, "run": {"title": subject}}
        self.write(name, file, write_page("contract", documents, self.store), title)

    def write_report(self, kind: str, documents: Mapping[str, Any], run: Mapping[str, Any]) -> None:
        """Write the run's page of a kind; `run` has what the page shows in addition to its
        documents.
        """
        from evenhand.tasks.pages.build import write_page

        common = {"id": self.verdict.run_id, "created": now(), "environment": environment()}
        content = {**documents, "run": {**common, **run, "files": self._files}}
        self.write("report", "report.html", write_page(kind, content, self.store))


def new_run_id(name: str) -> str:
    """Return a new run's id: time, name, and six digits, of which four are the second's fraction.

    So ids of a name sort by time, and the two random digits keep simultaneous runs apart.
    """
    moment = datetime.datetime.now(datetime.UTC)
    fraction = moment.microsecond * 0x10000 // 1_000_000
    return f"{moment:%Y%m%d-%H%M%S}-{name}-{fraction:04x}{secrets.token_hex(1)}"


def write_verdict(store: Store, verdict: Verdict) -> str:
    """Write ``runs/<run>/verdict.json`` atomically."""
    return store.write_text(
        json.dumps(verdict.to_dict(), indent=1), "runs", verdict.run_id, "verdict.json"
    )


def read_verdict(store: Store, run_id: str) -> Verdict | None:
    """Read the verdict of a run; None if there is none, which means that the run failed."""
    text = store.read_text("runs", run_id, "verdict.json")
    if text is None:
        return None
    return Verdict(**json.loads(text))


def is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C or SIGTERM ended the work; within a flow Prefect raises an exception of its
    own.
    """
    return isinstance(error, KeyboardInterrupt) or type(error).__name__ == "TerminationSignal"


def duration_text(seconds: float) -> str:
    """Return seconds in the two largest units, such as ``1 min 10 s``."""
    minutes, rest_s = divmod(max(1, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min {rest_s} s"
    return f"{rest_s} s"


@contextlib.contextmanager
def recorded_verdict(
    store: Store, run_id: str, steps: Steps | None = None, *, keep_idle: bool = True
) -> Iterator[Verdict]:
    """Yield a verdict to fill, and write it at the end of the block, also after an exception.

    An exception is recorded as one line. A verdict that is still ``failed`` without an error is not
    written, because the run has not begun; without `keep_idle` neither is one that is
    ``up_to_date``.

    Raises the exception of the block, converted into an `EvenhandError`; or `CacheMiss`, from an
    engine that may only look things up, and then no verdict is written.
    """
    if _has_telemetry():
        telemetry.prepare()
    verdict = Verdict(run_id, "failed", 4)
    started_ns = time.time_ns()
    try:
        with logs.of_run(run_id), store.lease():
            yield verdict
    except CacheMiss:
        raise
    except EvenhandError as error:
        _record_failure(verdict, error)
        raise
    except Exception as error:  # noqa: BLE001 - converted and raised again
        described = describe_fault(error)
        _record_failure(verdict, described)
        # Prefect logs an error's causes, whose text may quote a person's value
        if os.environ.get("EVENHAND_LOG"):
            raise described from error
        raise described from None
    except BaseException:  # an interrupt: what was found so far is no result
        verdict.status = "failed"
        verdict.error = None
        raise
    finally:
        finished: Mapping[str, FinishedStep] = {}
        if steps is not None:
            finished = steps.finished
            _add_steps(verdict, steps)
        is_idle = verdict.status == "up_to_date" and not keep_idle
        has_begun = verdict.status != "failed" or bool(verdict.error)
        if has_begun and not is_idle:
            _write_and_report(store, verdict, finished, started_ns)
        if has_begun and os.environ.get("EVENHAND_METRICS_FOLDER"):
            # imported lazily: other runs write no such file
            from evenhand.flows.metrics_file import write_metrics

            write_metrics(verdict, store)


def _record_failure(verdict: Verdict, error: EvenhandError) -> None:
    verdict.status = "failed"
    verdict.exit_code = error.exit_code
    verdict.error = str(error)


def _add_steps(verdict: Verdict, steps: Steps) -> None:
    """Add the seconds of the steps, those from the cache, and the table's number of rows."""
    for name, seconds in steps.seconds.items():
        verdict.seconds[name] = round(seconds, 3)
    verdict.cached = steps.cached
    drift_rows = steps.facts("measure_drift").get("rows")
    verdict.rows = steps.facts("contract").get("rows", drift_rows)


def _has_telemetry() -> bool:
    """Whether OpenTelemetry's variables name a receiver, and its SDK is not switched off."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return any(os.environ.get(name) for name in telemetry.ENDPOINTS)


def _write_and_report(
    store: Store, verdict: Verdict, finished: Mapping[str, FinishedStep], started_ns: int
) -> None:
    """Write a verdict, record its measurements, and log how the run has ended.

    Raises `EvenhandError` if the verdict cannot be written, as on the full disk that ended the run.
    """
    try:
        write_verdict(store, verdict)
    except OSError as error:
        raise describe_fault(error) from None
    if _has_telemetry() and telemetry.prepare():
        telemetry.record(verdict, finished, started_ns)
    with logs.of_run(verdict.run_id):
        if verdict.error:
            logs.event(verdict.error, level="error")
        else:
            logs.event(verdict.status)


def describe_fault(error: BaseException) -> EvenhandError:
    """Describe in one line an error of input or output, an error of Prefect, or an internal
    fault.
    """
    place = ""
    if isinstance(error, OSError) and error.filename:
        place = f" at {error.filename}"
    if disk_is_full(error):
        return NotCarriedOut(f"the disk is full{place}: free some space, then run again.")
    if isinstance(error, OSError) and error.strerror and error.errno != errno.ELOOP:
        return NotCarriedOut(
            f"input or output failed ({error.strerror}{place}): check the disk, then run again."
        )
    if isinstance(error, MemoryError):
        return NotCarriedOut(
            "the memory does not suffice: give the process more, or leave out rows or columns with "
            "long texts."
        )
    if type(error).__module__.partition(".")[0] in ("prefect", "httpx", "httpcore"):
        return NotCarriedOut(
            f"Prefect could not carry out a step ({type(error).__name__}): is its server up? "
            "`--direct` runs without Prefect."
        )
    return internal_fault(error)
