"""A step: a pure function from artifacts and parameters to artifacts, run once per key."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.tasks.artifacts import Artifact
from evenhand.tasks.fingerprint import code_digest, library_versions
from evenhand.tasks.progress import working
from evenhand.tasks.store import StepRecord, Store

__all__ = ["Step", "StepContext", "StepResult", "run_step", "step_key"]

CACHE_FORMAT = 1


@dataclass(frozen=True)
class StepResult:
    """What a step's function returns: finished local paths by output name, each with its kind, and facts."""

    outputs: dict[str, tuple[Path, str]]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StepContext:
    """
    What a step's function works with.

    `inputs` are verified local paths; `workdir` is where it writes; `progress` reports (done, total, values);
    `checkpoint` is a folder that outlives a killed run: the next run of the same key finds what was left.
    """

    parameters: Mapping[str, Any]
    inputs: Mapping[str, Path]
    workdir: Path
    progress: Callable[[int, int, Mapping[str, float]], None]
    checkpoint: Path | None = None


@dataclass(frozen=True)
class Step:
    """
    One step of a run.

    Parameters
    ----------
    name : str
    function : callable
        ``StepContext -> StepResult``; it may depend on nothing but the context.
    modules : tuple of str
        Roots of the source files that the step depends on, beside the function's own module.
    """

    name: str
    function: Callable[[StepContext], StepResult]
    modules: tuple[str, ...] = ()


def step_key(
    step: Step, parameters: Mapping[str, Any], inputs: Mapping[str, Artifact], extra: Sequence[str] = ()
) -> str:
    """
    Cache key: name, parameters, inputs' digests, digest of the code used, versions of numeric libraries.

    The seed is among the parameters. `extra` names further modules that these parameters bring in, such as
    a method's own.
    """
    content = {
        "format": CACHE_FORMAT,
        "step": step.name,
        "parameters": parameters,
        "inputs": {name: artifact.sha256 for name, artifact in inputs.items()},
        "code": code_digest([step.function.__module__, *step.modules, *extra]),
        "libraries": library_versions(),
    }
    canonical = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def run_step(
    store: Store,
    step: Step,
    key: str,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
    progress: Callable[[int, int, Mapping[str, float]], None] | None = None,
) -> tuple[StepRecord, bool]:
    """
    Run a step unless its record is there, and say whether it was.

    Runs of the same key at the same moment compute once: the others wait for the lock and find the record.

    Returns
    -------
    record, cached
    """
    record = store.find(step.name, key)
    if record is not None:
        return record, True
    with store.lock(f"{step.name}-{key}"):
        record = store.find(step.name, key)
        if record is not None:
            return record, True
        started = time.perf_counter()
        # among the temporary files: what nobody comes back for is swept away like them
        checkpoint = store.scratch() / f"checkpoint-{step.name}-{key[:32]}"
        with store.workdir() as workdir:
            context = StepContext(
                parameters,
                {name: store.fetch(artifact) for name, artifact in inputs.items()},
                workdir,
                progress or (lambda done, total, values: None),
                checkpoint,
            )
            with working(step.name):
                result = step.function(context)
            outputs = {name: store.put(path, kind) for name, (path, kind) in result.outputs.items()}
        record = StepRecord(step.name, key, outputs, result.facts, time.perf_counter() - started)
        store.save(record)
        shutil.rmtree(checkpoint, ignore_errors=True)
    return record, False
