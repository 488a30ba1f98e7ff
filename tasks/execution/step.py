"""Steps: pure functions from artifacts and parameters to artifacts, run once per key; and their
progress.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import logging
import pkgutil
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.tasks import steps
from evenhand.tasks.execution.fingerprint import code_digest, library_versions
from evenhand.tasks.execution.store import Artifact, StepRecord, Store

logger = logging.getLogger(__name__)

Listener = Callable[[str, int, int, Mapping[str, float]], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
ARTIFACT_EVERY_S = 3.0
CACHE_FORMAT = 1
# Paragraphs end with an empty line.
DOCSTRING = re.compile(r'r?"""(.+?)(?:"""|\n\s*\n)', re.DOTALL)

Outputs = dict[str, tuple[Path, str]]
"""Local path and kind of each output, by name."""


Parts = dict[str, tuple[str, str]]
"""Output and name of a file in it, by a digest of what the file was made of."""


Report = Callable[[int, int, Mapping[str, float]], None]
"""``progress(done, total, values)``."""

Carrier = Callable[[str, str, Mapping[str, Any], Mapping[str, Artifact]], bool]
"""``carry(name, key, parameters, inputs)``: runs a step in another process, or returns False."""

Divider = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]
"""``divide(function, units)``: calls a function with each unit; gives the results in order."""

Runner = Callable[["Step", "StepContext"], "StepResult"]
"""``run(step, context)``: calls a step's function."""


@dataclass(frozen=True)
class ExecutionContext:
    """Where a step, and the units of its work, run; by default in this process.

    An engine has one, and passes it to :func:`run_step` and thus to the step's
    :class:`StepContext`.

    Attributes
    ----------
    carry : callable, optional
        Has another process run a step and write its record, and returns True; or returns False,
        and then the step runs here. Default: every step runs here.
    divide : callable
        Calls a function with each unit of a step's work, such as a block of a table, here or in
        other processes. Default: here, one after the other.
    run : callable, optional
        Calls a step's function, here or in several processes at the same time. Default: here.
    workers_free : sequence of float
        Bytes of memory that each worker of a cluster may still take; empty without a cluster, or
        until it is asked.
    """

    carry: Carrier | None = None
    divide: Divider = map
    run: Runner | None = None
    workers_free: Sequence[float] = field(default=(), compare=False)


IN_THIS_PROCESS = ExecutionContext()
"""Everything runs in this process."""


@dataclass(frozen=True)
class StepResult:
    """Result of a step's function: its outputs, and facts for the record."""

    outputs: Outputs
    facts: dict[str, Any] = field(default_factory=dict)
    parts: Parts = field(default_factory=dict)  # of a step `in_parts`


@dataclass(frozen=True)
class StepContext:
    """Arguments of a step's function."""

    parameters: Mapping[str, Any]
    inputs: Mapping[str, Path]  # local paths whose digests were verified
    workdir: Path  # where the function writes
    progress: Report
    # a folder that survives a killed run: the next run of the same key continues from it
    checkpoint: Path | None = None
    # files of the step's results with the same parameters, and their digests, by what they were
    # made of
    earlier: Mapping[str, tuple[Path, str]] = field(default_factory=dict)
    execution: ExecutionContext = IN_THIS_PROCESS  # where the units of the step's work run

    def write_json(
        self, name: str, content: Any, kind: str | None = None, *, sort_keys: bool = False
    ) -> Outputs:
        """Write ``NAME.json``, without NaN, and return it as an output of `kind` (default: its
        name).
        """
        path = self.workdir / f"{name}.json"
        path.write_text(json.dumps(content, indent=1, sort_keys=sort_keys, allow_nan=False))
        return {name: (path, kind or name)}


@dataclass(frozen=True)
class Step:
    """One step of a run: a function that depends on its context only."""

    name: str
    # default: the function of the step's name in `evenhand.tasks.HOME`, imported when the step runs
    function: Callable[[StepContext], StepResult] | None = None
    home: str = ""  # default: `steps.NAME_step`
    modules: tuple[
        str, ...
    ] = ()  # imported by name, or copied: the step depends on their source files too
    in_parts: bool = False  # takes over files of earlier results with the same parameters

    @property
    def module(self) -> str:
        """The function's module."""
        if self.function is not None:
            return self.function.__module__
        home = self.home or f"steps.{self.name}_step"
        return f"evenhand.tasks.{home}"

    @property
    def summary(self) -> str:
        """First paragraph of the module's docstring, which Prefect shows; the module is not
        imported.
        """
        specification = importlib.util.find_spec(self.module)
        assert specification is not None, self.module
        assert specification.origin is not None, self.module
        docstring = DOCSTRING.match(Path(specification.origin).read_text(encoding="utf-8"))
        return " ".join(docstring[1].split()) if docstring else ""

    def run(self, context: StepContext) -> StepResult:
        """Run the step."""
        function = self.function or getattr(importlib.import_module(self.module), self.name)
        result: StepResult = function(context)
        # imported lazily: a run of cached steps needs neither Arrow nor NumPy
        import pyarrow as pa

        from evenhand.fairlib.mapped import give_back

        # what Arrow and the C library keep for later: half a gigabyte with ten million rows
        pa.default_memory_pool().release_unused()
        give_back()
        return result


SPECIAL = (
    Step("ingest", in_parts=True),
    Step("contract", in_parts=True),
    Step("balance", modules=("evenhand.fairlib.proxies.proxy_base",)),
    Step("publish", modules=("evenhand.tasks.serving.model_code",)),
)
"""Steps with properties that are not the usual ones."""


def _steps_of_folder() -> Iterator[Step]:
    """Every module of `tasks.steps` as a step; none is imported."""
    special = {step.name: step for step in SPECIAL}
    for module in pkgutil.iter_modules(steps.__path__):
        name = module.name.removesuffix("_step")
        yield special.get(name, Step(name))


STEPS = {step.name: step for step in _steps_of_folder()}
"""All steps, by name."""


def step_key(
    step: Step,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
    extra: Sequence[str] = (),
) -> str:
    """Cache key: digest of name, parameters, inputs' digests, code and versions of the numeric
    libraries.

    The parameters include the seed. `extra` names further modules that these parameters need, such
    as the module of a method.
    """
    content = {
        "format": CACHE_FORMAT,
        "step": step.name,
        "parameters": parameters,
        "inputs": {name: artifact.sha256 for name, artifact in inputs.items()},
        "code": code_digest([step.module, *step.modules, *extra]),
        "libraries": library_versions(),
    }
    canonical = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def step_codes(modules: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """Return the code that was part of the keys of a run's steps, for a later comparison.

    `modules` has the further modules of each step by its name. Each entry has these and the first
    12 digits of the digest; a step that this version does not have is left out.
    """
    codes = {}
    for name, extra in modules.items():
        if name in STEPS:
            step = STEPS[name]
            digest = code_digest([step.module, *step.modules, *extra])
            codes[name] = {"code": digest[:12], "modules": list(extra)}
    return codes


def run_step(
    store: Store,
    step: Step,
    key: str,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
    progress: Report | None = None,
    execution: ExecutionContext = IN_THIS_PROCESS,
) -> tuple[StepRecord, bool]:
    """Run a step unless its record exists; return its record, and whether that existed.

    Simultaneous runs of one key compute once: the other runs wait for the lock and find the record.
    `execution` may have other processes run the step, or the units of its work.
    """
    record = store.find(step.name, key)
    if record is not None:
        logger.info("%s: taken from the cache (key %s)", step.name, key[:12])
        return record, True
    logger.debug("%s: no result of the key %s yet", step.name, key[:12])
    if execution.carry is not None:
        with working(step.name):
            carried = execution.carry(step.name, key, parameters, inputs)
        if carried:
            record = store.find(step.name, key)
        if record is not None:
            return record, False
    with store.lock(f"{step.name}-{key}"):
        record = store.find(step.name, key)
        if record is not None:
            return record, True
        started = time.perf_counter()
        alike = ""
        earlier: Mapping[str, tuple[Path, str]] = {}
        if step.in_parts:
            alike = step_key(step, parameters, {})
            earlier = store.parts(step.name, alike)
        # The store removes its temporary files, and thus this folder, once they are old.
        checkpoint = store.scratch() / f"checkpoint-{step.name}-{key[:32]}"
        with store.workdir() as workdir:
            context = StepContext(
                parameters,
                {name: store.fetch(artifact) for name, artifact in inputs.items()},
                workdir,
                progress or (lambda done, total, values: None),
                checkpoint,
                earlier,
                execution,
            )
            run = execution.run or Step.run
            with working(step.name):
                result = run(step, context)
            outputs = {name: store.put(path, kind) for name, (path, kind) in result.outputs.items()}
        facts = result.facts
        if result.parts:
            facts = facts | {"parts": result.parts, "alike": alike}
        record = StepRecord(step.name, key, outputs, facts, time.perf_counter() - started)
        store.save(record)
        logger.info("%s: computed in %.1f s (key %s)", step.name, record.seconds, key[:12])
        shutil.rmtree(checkpoint, ignore_errors=True)
    return record, False


@contextmanager
def listen(listener: Listener | None) -> Iterator[None]:
    """Send progress as (step, done, total, values) to `listener` within the block.

    If the listener has a method `working`, a context manager, it is entered with the step's name
    while a step runs, also for steps that report no progress.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def in_units(
    function: Callable[[Any], Any],
    units: Sequence[Any],
    execution: ExecutionContext = IN_THIS_PROCESS,
) -> Iterator[Any]:
    """Results of a function for each unit of a step's work, such as a block of a table, in their
    order.

    They are computed here one after the other, or by workers, as `execution` has it. So the
    function and the units can be pickled and hold paths instead of tables. A unit that is lost is
    repeated: it writes its files under a temporary name. The units depend on the inputs only, and
    the results on no other unit.
    """
    return execution.divide(function, units)


@contextmanager
def working(step: str) -> Iterator[None]:
    """Enter the listener's context `working`, if it has one, while the step runs."""
    entered = getattr(_listener.get(), "working", None)
    if entered is None:
        yield
        return
    with entered(step):
        yield


@contextmanager
def described(text: Callable[[], str]) -> Iterator[None]:
    """Enter the listener's context `described`, if it has one: it shows this text in place of the
    steps that run.
    """
    entered = getattr(_listener.get(), "described", None)
    if entered is None:
        yield
        return
    with entered(text):
        yield


class ProgressReport:
    """The progress callback of a step."""

    def __init__(
        self, step: str, listener: Listener | None, artifact: _PrefectProgress | None
    ) -> None:
        self.step = step
        self.listener = listener
        self.artifact = artifact

    def __call__(self, done: int, total: int, values: Mapping[str, float]) -> None:
        """Report how much of the step's work is done."""
        if self.listener is not None:
            self.listener(self.step, done, total, values)
        if self.artifact is not None:
            self.artifact(done, total, values)

    def finish(self) -> None:
        """Set the progress artifact, if there is one, to 100 %: a step that ends early, or counts
        only a part of its work, would leave it below.
        """
        if self.artifact is not None:
            self.artifact.finish()


def report_progress(step: str, *, prefect: bool = False) -> ProgressReport:
    """Build the progress callback of a step; with `prefect` it also updates a progress artifact."""
    artifact = None
    if prefect:
        artifact = _PrefectProgress(step)
    return ProgressReport(step, _listener.get(), artifact)


class Stages:
    """One progress count over `count` stages of a step: each stage counts as a hundred.

    `report` is the callback of :class:`StepContext`; each stage begins with a call of :meth:`next`.
    """

    def __init__(self, report: Report, count: int) -> None:
        self.report = report
        self.count = count
        self.begun = 0

    def next(self) -> Callable[..., None]:
        """Count the previous stage as done, and return the callback of the next one, which ignores
        values.
        """
        before = 100 * self.begun
        self.begun += 1
        self.report(before, 100 * self.count, {})
        return lambda done, total, *_: self.report(
            before + 100 * done // total, 100 * self.count, {}
        )

    def counted(self, results: Iterable[Any], count: int) -> Iterator[Any]:
        """Give results, which are counted as the next stage."""
        report = self.next()
        for done, result in enumerate(results, 1):
            yield result
            report(done, count)

    def finish(self) -> None:
        """Count all stages as done."""
        self.report(100 * self.count, 100 * self.count, {})


class _PrefectProgress:
    """A progress artifact of Prefect; it is created after some seconds, so that quick steps make no
    call.
    """

    def __init__(self, step: str) -> None:
        self.step = step
        self.last = time.monotonic()
        self.identifier: Any = None
        self.share = 0.0

    def finish(self) -> None:
        """Set an artifact that was created to 100 %."""
        if self.identifier is None or self.share >= 100.0:
            return
        from prefect.artifacts import update_progress_artifact

        update_progress_artifact(
            artifact_id=self.identifier, progress=100.0, description=f"{self.step}: finished"
        )

    def __call__(self, done: int, total: int, values: Mapping[str, float]) -> None:
        now = time.monotonic()
        if now - self.last < ARTIFACT_EVERY_S and not (done == total and self.identifier):
            return
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        self.last = now
        share = 100.0 * done / total
        self.share = share
        description = f"{self.step}: {done} of {total}"
        if values:
            texts = [f"{name} {value:.4g}" for name, value in values.items()]
            description += f" ({', '.join(texts)})"
        if self.identifier is None:
            self.identifier = create_progress_artifact(
                progress=share,
                key=f"{re.sub('[^a-z0-9]+', '-', self.step.lower())}-progress",
                description=description,
            )
        else:
            update_progress_artifact(
                artifact_id=self.identifier, progress=share, description=description
            )
