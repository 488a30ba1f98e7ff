"""A sweep: a job is run over a grid of its keys and seeds, and the trade-offs are reported."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from evenhand.data_contracts.yaml_loader import load_strictly
from evenhand.fairlib.catalogue import better, direction, names_of
from evenhand.fairlib.evaluation.comparison import Summary, mean_difference, pareto_front, summarise
from evenhand.flows.engine import (
    CacheMiss,
    DirectEngine,
    RunFolder,
    Steps,
    Verdict,
    describe_fault,
    write_verdict,
)
from evenhand.flows.job import Job
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.run import run_to_gate
from evenhand.flows.workers import Pool, check_engine, make_pool
from evenhand.tasks.errors import EvenhandError, InputError, NotCarriedOut
from evenhand.tasks.execution.step import report_progress
from evenhand.tasks.execution.store import Store
from evenhand.tasks.written_input import YAML_ERRORS, as_number

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
    metrics: dict[str, dict[str, float | None]] = field(
        default_factory=dict
    )  # `value`, `low` and `high`
    seconds: dict[str, float] = field(default_factory=dict)
    cached: list[str] = field(default_factory=list)
    error: str | None = None
    over_blind: dict[str, float | None] = field(
        default_factory=dict
    )  # differences from the blind control


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
            f"--over {key}: the values are not a YAML list; quote a value that has a bracket or "
            "colon."
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


def make_grid(
    job: str, over: Sequence[str], *, seeds: int = 1, overrides: Sequence[str] = ()
) -> Grid:
    """Resolve every point of the grid.

    Successive points have different seeds, so that workers that start together do not wait for one
    split.

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
        dict(zip(keys, chosen, strict=True))
        for chosen in itertools.product(*(axis.values for axis in axes))
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
        result.status = "done"
        result.verdict = str(judged.decision["verdict"])
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


def execute(
    grid: Grid, store: Store, run_id: str, run: Callable[[Grid, str], list[PointResult]]
) -> Verdict:
    """Run every point and write the sweep's table, trade-offs and page, and last its verdict.

    `run` is ``(grid, store_url) -> results`` of all points.
    """
    started = time.perf_counter()
    results = run(grid, store.url if "://" in store.url else str(store.local.resolve()))
    seconds = round(time.perf_counter() - started, 3)
    document: dict[str, Any] = {"run_id": run_id, "seconds": seconds} | tradeoffs(grid, results)
    verdict = Verdict(run_id, "evaluated", 0, seconds={"sweep": seconds})
    folder = RunFolder(store, verdict)
    text = json.dumps(document, indent=1, allow_nan=False, default=str)
    folder.write("tradeoff", "tradeoff.json", text, "the trade-offs as JSON")
    with store.workdir() as scratch:
        pq.write_table(sweep_table(grid, results), scratch / "sweep.parquet")
        store.move_in(scratch / "sweep.parquet", "runs", run_id, "sweep.parquet")
    verdict.artifacts["sweep"] = store.uri("runs", run_id, "sweep.parquet")
    folder.add("sweep.parquet", "all runs as a table")
    failed = [result for result in results if result.status == "failed"]
    if failed:
        verdict.status = "failed" if len(failed) == len(results) else "evaluated"
        verdict.exit_code = 4
        verdict.error = f"{len(failed)} of {len(results)} runs failed; the first: {failed[0].error}"
    folder.write_report(
        "sweep", {"tradeoff": document}, {"made": [["The sweep", _facts(grid, seconds)]]}
    )
    write_verdict(store, verdict)
    return verdict


def cached_points(grid: Grid, store_url: str) -> list[PointResult]:
    """Return the results of all points from the cache.

    Raises `CacheMiss` if a step is not in the cache.
    """
    return [run_point(point.resolved, store_url, cached_only=True) for point in grid.points]


def run_points(grid: Grid, store_url: str) -> list[PointResult]:
    """Run every point in a worker of the job's section `sweep`, without Prefect."""
    pool = make_pool(grid.job.sweep, len(grid.points))
    # a failure ends the pool first: the executor waits for its threads, which wait for the workers
    with ThreadPoolExecutor(pool.size) as threads, pool:
        futures = [threads.submit(in_worker, pool, point, store_url) for point in grid.points]
        report_done(as_completed(futures), len(futures))
        return [future.result() for future in futures]


def report_done(finished: Iterable[Any], total: int) -> None:
    """Report how many of the runs have finished, as they finish."""
    report = report_progress("runs")
    report(0, total, {})
    for done, _ in enumerate(finished, start=1):
        report(done, total, {})


def in_worker(pool: Pool, point: Point, store_url: str) -> PointResult:
    """Run a point in a free worker; the point has failed if the worker dies."""
    try:
        result: PointResult = pool.run(run_point, point.resolved, store_url)
    except NotCarriedOut as error:
        return PointResult(error=str(error))
    return result


def _facts(grid: Grid, seconds: float) -> list[list[str]]:
    """Return what the page shows of this sweep beside its trade-offs, as names and values."""
    swept = [[f"Values of {axis.key}", ", ".join(map(as_text, axis.values))] for axis in grid.axes]
    engine = "Dask" if grid.job.sweep.engine == "dask" else "worker processes"
    made = [["Job", grid.job.name], *swept, ["Seeds", ", ".join(map(str, grid.seeds))]]
    return [*made, ["Seconds", f"{seconds:.1f}"], ["Engine", engine]]


def sweep_table(grid: Grid, results: Sequence[PointResult]) -> pa.Table:
    """Build the table of all runs, one row per point."""
    columns: dict[str, list[Any]] = {
        axis.key: _column([point.settings[axis.key] for point in grid.points]) for axis in grid.axes
    }
    columns["seed"] = [point.seed for point in grid.points]
    for name in ("status", "verdict"):
        columns[name] = [getattr(result, name) for result in results]
    for name in dict.fromkeys(name for result in results for name in result.metrics):
        for key, suffix in (("value", ""), ("low", ".low"), ("high", ".high")):
            columns[f"{name}{suffix}"] = [
                result.metrics.get(name, {}).get(key) for result in results
            ]
    columns["seconds"] = [sum(result.seconds.values()) for result in results]
    for step in dict.fromkeys(step for result in results for step in result.seconds):
        columns[f"seconds.{step}"] = [result.seconds.get(step) for result in results]
    columns["cached"] = [", ".join(result.cached) for result in results]
    columns["error"] = [result.error for result in results]
    texts = {"status", "verdict", "cached", "error"}
    swept = {"seed", *(axis.key for axis in grid.axes)}
    return pa.table(
        {
            name: pa.array(
                values, None if name in swept else pa.string() if name in texts else pa.float64()
            )
            for name, values in columns.items()
        }
    )


def _column(values: Sequence[Any]) -> list[Any]:
    """Return values of one type unchanged, integers and floats as floats, and other mixtures as
    text.
    """
    kinds = {type(value) for value in values}
    if kinds <= {int, float} or kinds in ({str}, {bool}):
        return [float(value) for value in values] if kinds == {int, float} else list(values)
    return [as_text(value) for value in values]


PERFORMANCE = "balanced_accuracy"
NOT_FAIRNESS = (
    *("accuracy", "balanced_accuracy", "auc", "features_asked", "probability_spread"),
    *("log_loss", "log_loss_gain", "brier", "ece"),
)
# Proxies trade their balance for what they disclose.
PROXY_PERFORMANCE = "imbalance"
PROXY_COST = "disclosivity"


def tradeoffs(grid: Grid, results: Sequence[PointResult]) -> dict[str, Any]:
    """Build the content of ``tradeoff.json``: plain JSON without NaN.

    `values` has one entry per grid value, in order; `front` and `fronts` are indices into it.
    `fronts` has for every fairness metric the Pareto front of balanced accuracy and that metric,
    `front` the one of all metrics together. Proxies have the fronts of imbalance and disclosivity,
    on held-out and training rows. `comparison` compares methods, if they are swept.
    """
    of_proxies = all(point.resolved.is_proxy for point in grid.points)
    performance = PROXY_PERFORMANCE if of_proxies else PERFORMANCE
    level = grid.job.evaluate.level
    found = [item for result in results for item in result.metrics.items()]
    # their mean is the balanced accuracy; of many classes each would have a chart
    found = [(name, metric) for name, metric in found if not name.startswith("recall.")]
    names = list(dict.fromkeys(name for name, _ in found))
    measured = {name for name, metric in found if metric["value"] is not None}
    known = [name for name in names if name in measured]
    values = [_value(grid, index, results, known, level) for index in range(len(grid.values))]
    rows = [_means(value) for value in values]
    # for each measure of fairness, or of disclosure, the performance metric that it is traded for
    measures = [
        name for name in known if name not in NOT_FAIRNESS and name not in names_of("proxy")
    ]
    pairs = dict.fromkeys(measures, PERFORMANCE)
    if of_proxies:
        ends = ("", ".train")
        pairs = {
            PROXY_COST + end: PROXY_PERFORMANCE + end for end in ends if PROXY_COST + end in known
        }
    fairness = [name for name, other in pairs.items() if other == performance]
    return {
        "job": grid.job.name,
        "keys": [axis.key for axis in grid.axes],
        "seeds": list(grid.seeds),
        "level": level,
        "performance": performance,
        "metrics": {name: direction(name) for name in known},
        "without_evidence": [name for name in names if name not in known],
        "values": values,
        "front": _front(rows, [performance, *fairness]) if fairness else [],
        "fronts": {name: _front(rows, [other, name]) for name, other in pairs.items()},
        "comparison": None if of_proxies else comparison(grid, results, known, level),
        "points": [
            {"value": point.value, "settings": point.settings, "seed": point.seed} | asdict(result)
            for point, result in zip(grid.points, results, strict=True)
        ],
    }


def _label(settings: Mapping[str, Any]) -> str:
    """Name a grid value: the value alone if one key is swept, else with the last part of
    each key.
    """
    if len(settings) == 1:
        return as_text(next(iter(settings.values())))
    ends = [key.rpartition(".")[2] for key in settings]
    names = ends if len(set(ends)) == len(ends) else list(settings)
    return ", ".join(
        f"{name}={as_text(value)}" for name, value in zip(names, settings.values(), strict=True)
    )


def _value(
    grid: Grid, index: int, results: Sequence[PointResult], metrics: Sequence[str], level: float
) -> dict[str, Any]:
    """Summarise one grid value over its seeds."""
    own = [
        result for point, result in zip(grid.points, results, strict=True) if point.value == index
    ]
    done = [result for result in own if result.status == "done"]
    label = _label(grid.values[index])
    # by how much it differs from its blind control, metric by metric
    over_blind: dict[str, list[float]] = {}
    for name, value in (item for result in done for item in result.over_blind.items()):
        if value is not None:
            over_blind.setdefault(name, []).append(value)
    return {
        "settings": grid.values[index],
        "label": label,
        "mark": ", ".join(as_text(value) for value in grid.values[index].values()),
        "name": f"{grid.axes[0].key} {label}" if len(grid.axes) == 1 else label,
        "runs": len(own),
        "failed": len(own) - len(done),
        "passed": sum(result.verdict == "passed" for result in done),
        "metrics": {name: asdict(_summary(name, done, level)) for name in metrics},
        "over_blind": {
            name: asdict(mean_difference(found, ratio=_ratio(grid, index), level=level))
            for name, found in over_blind.items()
        },
    }


def _summary(name: str, done: Sequence[PointResult], level: float) -> Summary:
    """Summarise a metric over the seeds; with a single value the interval is that run's own."""
    found = [result.metrics[name] for result in done if name in result.metrics]
    known = [metric for metric in found if metric["value"] is not None]
    single = (known[0]["low"], known[0]["high"]) if len(known) == 1 else (None, None)
    return summarise([metric["value"] for metric in known], level=level, single=single)


def _means(value: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: summary["mean"] for name, summary in value["metrics"].items()}


def _front(rows: Sequence[Mapping[str, float | None]], names: Sequence[str]) -> list[int]:
    table = [[math.nan if row.get(name) is None else row[name] for name in names] for row in rows]
    return pareto_front(np.array(table, dtype=np.float64), [better(name) for name in names])


KEY = "method"
# The metrics that papers on fair classification compare: performance, and fairness by attribute.
OVERALL = ("accuracy", "balanced_accuracy")
GAPS = ("equal_opportunity_difference", "average_odds_difference", "balanced_accuracy_difference")
INEQUALITY = "theil_index"


def comparison(
    grid: Grid, results: Sequence[PointResult], known: Sequence[str], level: float
) -> dict[str, Any] | None:
    """Build `comparison` of ``tradeoff.json``: plain JSON, or None if the sweep has no two methods.

    The reference is the job's own method, or the first method if the job's is not swept. A grid
    value that sets other keys too is compared with the reference method at the same values of these
    keys. `values` has one entry per grid value, the reference first, with the mean of its
    `differences` from the reference on the same splits. Their intervals hold together, in each
    metric, with `level` (Bonferroni).
    """
    attributes = dict.fromkeys(
        name.partition(".")[2] for name in known if name.partition(".")[0] in GAPS
    )
    gaps = [f"{gap}.{attribute}" for attribute in attributes for gap in GAPS]
    metrics = [name for name in (*OVERALL, *gaps, INEQUALITY) if name in known]
    if not metrics or KEY not in grid.values[0]:
        return None
    reference = _reference(grid)
    against = [_against(grid, index, reference) for index in range(len(grid.values))]
    compared = sum(other is not None for other in against)
    if not compared:
        return None
    each = 1.0 - (1.0 - level) / compared
    # values that differ only in the method together, the reference first
    rests = [
        as_text({key: item for key, item in value.items() if key != KEY}) for value in grid.values
    ]
    order = sorted(
        range(len(rests)), key=lambda i: (rests.index(rests[i]), against[i] is not None, i)
    )
    return {
        "reference": as_text(reference),
        "splits": len(grid.seeds),
        "metrics": metrics,
        "values": [
            {
                "value": index,
                "method": as_text(grid.values[index][KEY]),
                "against": against[index],
                "differences": _differences(grid, results, index, against[index], metrics, each),
            }
            for index in order
        ],
    }


def _reference(grid: Grid) -> Any:
    """Return the job's method with the job's arguments, else with other arguments, else the first
    method.
    """
    own = grid.job.method.get("name")
    methods = next(axis.values for axis in grid.axes if axis.key == KEY)
    named = [method for method in methods if isinstance(method, dict) and method.get("name") == own]
    return own if own in methods else [*named, *methods][0]


def _against(grid: Grid, index: int, reference: Any) -> int | None:
    """Return the grid value with the reference method and all else equal; None for that value
    itself.
    """
    wanted = grid.values[index] | {KEY: reference}
    found = next(
        i for i, settings in enumerate(grid.values) if as_text(settings) == as_text(wanted)
    )
    return None if found == index else found


def _differences(
    grid: Grid,
    results: Sequence[PointResult],
    index: int,
    other: int | None,
    metrics: Sequence[str],
    level: float,
) -> dict[str, Any]:
    """Summarise the differences of a grid value from another, metric by metric; each seed is a
    split.
    """
    if other is None:
        return {}
    runs: dict[int, list[dict[str, Any]]] = {index: [], other: []}
    for point, result in zip(grid.points, results, strict=True):
        if point.value in runs:
            runs[point.value].append(result.metrics if result.status == "done" else {})
    found = {}
    for name in metrics:
        pairs = zip(
            *([run.get(name, {}).get("value") for run in runs[i]] for i in (index, other)),
            strict=True,
        )
        apart = [
            own - reference for own, reference in pairs if own is not None and reference is not None
        ]
        found[name] = asdict(mean_difference(apart, ratio=_ratio(grid, index), level=level))
    return found


def _ratio(grid: Grid, index: int) -> float:
    """Test rows over training rows of a grid value's splits."""
    share = next(point.resolved.job.split.test for point in grid.points if point.value == index)
    return share / (1.0 - share)
