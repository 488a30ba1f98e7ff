"""A grid of job keys and seeds: its points, checked before anything runs, and running one point."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from evenhand.data_contracts.yaml_loader import load_strictly
from evenhand.flows.engine import CacheMiss, DirectEngine, Steps, describe_fault
from evenhand.flows.job import Job
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.run import run_to_gate
from evenhand.flows.workers import check_engine
from evenhand.tasks.errors import EvenhandError, InputError
from evenhand.tasks.inputs import YAML_ERRORS, as_number
from evenhand.tasks.store import Store

# Keys that cannot be swept, and the option to use instead.
OWN_OPTIONS = {"seed": "use --seeds N", "sweep": "it configures the sweep itself: use --set"}


@dataclass(frozen=True)
class Axis:
    """A key of the job and its values in the grid."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Point:
    """One run of the grid: the index of its grid value, the keys that it sets, and its job."""

    value: int
    settings: dict[str, Any]
    resolved: ResolvedJob

    @property
    def seed(self) -> int:
        """Seed of its split and training."""
        return self.resolved.job.seed

    @property
    def label(self) -> str:
        """Name of the run within the sweep."""
        swept = (f"{key}={as_text(value)}" for key, value in self.settings.items())
        return ", ".join((*swept, f"seed={self.seed}"))


@dataclass(frozen=True)
class Grid:
    """All points in the order of their start; `values` are the settings of each grid value."""

    job: Job
    axes: tuple[Axis, ...]
    values: tuple[dict[str, Any], ...]
    seeds: tuple[int, ...]
    points: tuple[Point, ...]

    @property
    def run_name(self) -> str:
        """Name for the run's id."""
        return f"{self.job.name}-sweep"


@dataclass
class PointResult:
    """Result of a point."""

    status: Literal["done", "failed"] = "failed"
    verdict: str | None = None  # of the gates
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)  # `value`, `low` and `high`
    seconds: dict[str, float] = field(default_factory=dict)
    cached: list[str] = field(default_factory=list)
    error: str | None = None
    over_blind: dict[str, float | None] = field(default_factory=dict)  # differences from the blind control


def parse_axis(text: str) -> Axis:
    """Parse ``KEY=V1,V2``; the values are a YAML flow list, so that lists and maps are possible.

    Raises `InputError` for another form, no value, or a value twice.
    """
    key, equals, listed = text.partition("=")
    key = key.strip()
    if not key or not equals:
        raise InputError(f"--over wants KEY=V1,V2, got {text!r}.")
    for name, cure in OWN_OPTIONS.items():
        if key.partition(".")[0] == name:
            raise InputError(f"--over {key} is not possible: {cure}.")
    try:
        values = load_strictly(f"[{listed}\n]")
    except YAML_ERRORS:
        values = None
    if not isinstance(values, list):
        raise InputError(
            f"--over {key}: the values are not a YAML list; quote a value that has a bracket or colon."
        )
    if not values:
        raise InputError(f"--over {key} lists no value: give at least one, as in {key}=V1,V2.")
    values = as_number(values)
    for i, value in enumerate(values):
        # a boolean does not equal a number
        if (type(value) is bool, value) in [(type(other) is bool, other) for other in values[:i]]:
            raise InputError(f"--over {key} lists {as_text(value)} twice: list every value once.")
    return Axis(key, tuple(values))


def as_text(value: Any) -> str:
    """Format a value as one line of YAML."""
    text: str = yaml.safe_dump(
        value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("\n...")


def make_grid(job: str, over: Sequence[str], *, seeds: int = 1, overrides: Sequence[str] = ()) -> Grid:
    """Resolve every point of the grid.

    Successive points have different seeds, so that workers that start together do not wait for one split.

    Raises `InputError` for an impossible key, value or seed.
    """
    if not over:
        raise InputError("a sweep needs --over KEY=V1,V2: name at least one key and its values.")
    if seeds < 1:
        raise InputError(f"--seeds {seeds}: a sweep needs at least one seed.")
    axes = tuple(parse_axis(text) for text in over)
    keys = [axis.key for axis in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"--over {key} is given twice: list all its values in one.")
    base, _ = load_job(job, overrides)
    check_engine(base.sweep, "sweep")
    values = tuple(
        dict(zip(keys, chosen, strict=True)) for chosen in itertools.product(*(axis.values for axis in axes))
    )
    numbers = tuple(range(base.seed, base.seed + seeds))
    points = tuple(
        Point(index, settings, _resolve(job, base, overrides, settings, seed))
        for index, settings in enumerate(values)
        for seed in numbers
    )
    return Grid(base, axes, values, numbers, points)


def _resolve(
    job: str, base: Job, overrides: Sequence[str], settings: Mapping[str, Any], seed: int
) -> ResolvedJob:
    """Resolve one point, as `--set` of each of its keys would; a section is set before its keys."""
    given = [
        f"{key}={as_text(value)}"
        for key, value in sorted(settings.items(), key=lambda item: item[0].count("."))
        # the job's own method keeps its arguments
        if not (key == "method" and value == base.method.get("name"))
    ]
    return resolve(*load_job(job, [*overrides, *given, f"seed={seed}"]))


def run_point(resolved: ResolvedJob, store_url: str, *, cached_only: bool = False) -> PointResult:
    """Run one point up to its gates, and return its metrics, or its error as one line.

    Raises `CacheMiss` with `cached_only`, if a step is not in the cache.
    """
    result = PointResult()
    steps: Steps | None = None
    try:
        store = Store(store_url)
        steps = Steps(store, DirectEngine(store, cached_only=cached_only))
        with store.lease():
            judged = run_to_gate(resolved, steps)
        evaluation = json.loads(store.fetch(judged.measured.metrics).read_text())
        result.metrics = {
            name: {key: metric[key] for key in ("value", "low", "high")}
            for name, metric in evaluation["metrics"].items()
        }
        if steps.has_output("evaluate", "controls"):
            differences = steps.read("evaluate", "controls")["controls"]["blind"]["differences"]
            result.over_blind = {name: found["value"] for name, found in differences.items()}
        result.status, result.verdict = "done", str(judged.decision["verdict"])
    except CacheMiss:
        raise
    except EvenhandError as error:
        result.error = str(error)
    except Exception as error:  # noqa: BLE001 - the other points go on
        result.error = str(describe_fault(error))
    if steps is not None:
        result.seconds = {name: round(value, 3) for name, value in steps.seconds.items()}
        result.cached = steps.cached
    return result
