"""Steps: pure functions from artifacts and parameters to artifacts, each run once per key."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.tasks.fingerprint import code_digest, library_versions
from evenhand.tasks.progress import working
from evenhand.tasks.store import Artifact, StepRecord, Store

__all__ = ["STEPS", "Step", "StepContext", "StepResult", "run_step", "step_key"]

CACHE_FORMAT = 1

Outputs = dict[str, tuple[Path, str]]
"""Finished local paths by output name, each with its kind."""


@dataclass(frozen=True)
class StepResult:
    """Result of a step's function: its outputs, and facts for the record."""

    outputs: Outputs
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StepContext:
    """
    Arguments of a step's function.

    `inputs` are verified local paths, and the function writes into `workdir`; `progress` reports ``(done,
    total, values)``; a killed run leaves the folder `checkpoint` behind for the next run of the same key.
    """

    parameters: Mapping[str, Any]
    inputs: Mapping[str, Path]
    workdir: Path
    progress: Callable[[int, int, Mapping[str, float]], None]
    checkpoint: Path | None = None

    def write_json(
        self, name: str, content: Any, kind: str | None = None, *, sort_keys: bool = False
    ) -> Outputs:
        """Write ``NAME.json``, without NaN, and return it as an output of `kind` (default: its name)."""
        path = self.workdir / f"{name}.json"
        path.write_text(json.dumps(content, indent=1, sort_keys=sort_keys, allow_nan=False))
        return {name: (path, kind or name)}


@dataclass(frozen=True)
class Step:
    """
    One step of a run: a function that depends on nothing but its context.

    `function` is by default the one of the step's name in the module of that name, which is imported only
    when the step runs. `modules` are roots of the source files that the step depends on beside its own.
    """

    name: str
    function: Callable[[StepContext], StepResult] | None = None
    modules: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The function's module."""
        return f"evenhand.tasks.{self.name}" if self.function is None else self.function.__module__

    def run(self, context: StepContext) -> StepResult:
        """Run the step."""
        function = self.function or getattr(importlib.import_module(self.module), self.name)
        result: StepResult = function(context)
        return result


# Code that a step reaches by name: the model's code is copied, the classes of proxies are imported.
BY_NAME = {"publish": ("evenhand.tasks.serving.model_code",), "balance": ("evenhand.fairlib.proxies.base",)}
STEPS = {
    name: Step(name, modules=BY_NAME.get(name, ()))
    for name in (
        "ingest",
        "contract",
        "preprocess",
        "profile",
        "balance",
        "fair_metric",
        "train",
        "evaluate",
        "learn_proxy",
        "measure_proxy",
        "measure_model",
        "measure_drift",
        "gate",
        "publish",
    )
}
"""All steps, in the order in which a run may have them."""


def step_key(
    step: Step, parameters: Mapping[str, Any], inputs: Mapping[str, Artifact], extra: Sequence[str] = ()
) -> str:
    """
    Cache key: name, parameters, inputs' digests, digest of the code used, versions of numeric libraries.

    The parameters include the seed. `extra` names further modules that these parameters need, such as those
    of a method.
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


def run_step(
    store: Store,
    step: Step,
    key: str,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
    progress: Callable[[int, int, Mapping[str, float]], None] | None = None,
) -> tuple[StepRecord, bool]:
    """
    Run a step unless its record exists, and say whether it did.

    Simultaneous runs of one key compute once: the others wait for the lock and find the record.

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
        # The folder is among the store's temporary files, which are removed once they are old.
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
                result = step.run(context)
            outputs = {name: store.put(path, kind) for name, (path, kind) in result.outputs.items()}
        record = StepRecord(step.name, key, outputs, result.facts, time.perf_counter() - started)
        store.save(record)
        shutil.rmtree(checkpoint, ignore_errors=True)
    return record, False
