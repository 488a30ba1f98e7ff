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
    _refuse_repeated_value(key, values)
    return Axis(key, tuple(values))


def _refuse_repeated_value(key: str, values: Sequence[Any]) -> None:
    """Raise `InputError` for a value that is listed twice; a boolean does not equal a number."""
    earlier: list[tuple[bool, Any]] = []
    for value in values:
        typed_value = (type(value) is bool, value)
        if typed_value in earlier:
            raise InputError(f"--over {key} lists {as_text(value)} twice: list every value once.")
        earlier.append(typed_value)


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
    axes = _parse_axes(over)
    base, _ = load_job(job, overrides)
    check_engine(base.sweep, "sweep")
    keys = [axis.key for axis in axes]
    combinations = itertools.product(*[axis.values for axis in axes])
    values = tuple(dict(zip(keys, chosen, strict=True)) for chosen in combinations)
    numbers = tuple(range(base.seed, base.seed + seeds))
    points = []
    for index, settings in enumerate(values):
        for seed in numbers:
            resolved = _resolve(job, base, overrides, settings, seed)
            points.append(Point(index, settings, resolved))
    return Grid(base, axes, values, numbers, tuple(points))


def _parse_axes(over: Sequence[str]) -> tuple[Axis, ...]:
    """Parse the axes of a grid; `InputError` for a key that is given twice."""
    axes = tuple(parse_axis(text) for text in over)
    keys = [axis.key for axis in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"--over {key} is given twice: list all its values in one.")
    return axes


def _resolve(
    job: str, base: Job, overrides: Sequence[str], settings: Mapping[str, Any], seed: int
) -> ResolvedJob:
    """Resolve one point, as `--set` of each of its keys would; a section is set before its keys."""
    point_overrides = []
    for key, value in sorted(settings.items(), key=lambda item: item[0].count(".")):
        if key == "method" and value == base.method.get("name"):
            continue  # the job's own method keeps its arguments
        point_overrides.append(f"{key}={as_text(value)}")
    return resolve(*load_job(job, [*overrides, *point_overrides, f"seed={seed}"]))


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
        for name, metric in evaluation["metrics"].items():
            result.metrics[name] = {key: metric[key] for key in ("value", "low", "high")}
        if steps.has_output("evaluate", "controls"):
            blind = steps.read("evaluate", "controls")["controls"]["blind"]
            for name, difference in blind["differences"].items():
                result.over_blind[name] = difference["value"]
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
    store_url = store.url
    if "://" not in store_url:
        store_url = str(store.local.resolve())
    results = run(grid, store_url)
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
        if len(failed) == len(results):
            verdict.status = "failed"
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
    """Return what the page shows of this sweep next to its trade-offs, as names and values."""
    facts = [["Job", grid.job.name]]
    for axis in grid.axes:
        facts.append([f"Values of {axis.key}", ", ".join(map(as_text, axis.values))])
    facts.append(["Seeds", ", ".join(map(str, grid.seeds))])
    facts.append(["Seconds", f"{seconds:.1f}"])
    engine = "worker processes"
    if grid.job.sweep.engine == "dask":
        engine = "Dask"
    facts.append(["Engine", engine])
    return facts


def sweep_table(grid: Grid, results: Sequence[PointResult]) -> pa.Table:
    """Build the table of all runs, one row per point."""
    columns: dict[str, pa.Array] = {}
    for axis in grid.axes:
        columns[axis.key] = pa.array(_column([point.settings[axis.key] for point in grid.points]))
    columns["seed"] = pa.array([point.seed for point in grid.points])
    columns["status"] = _texts([result.status for result in results])
    columns["verdict"] = _texts([result.verdict for result in results])
    columns |= _metric_columns(results)
    columns["seconds"] = _numbers([sum(result.seconds.values()) for result in results])
    for step in _keys_of(result.seconds for result in results):
        columns[f"seconds.{step}"] = _numbers([result.seconds.get(step) for result in results])
    columns["cached"] = _texts([", ".join(result.cached) for result in results])
    columns["error"] = _texts([result.error for result in results])
    return pa.table(columns)


def _metric_columns(results: Sequence[PointResult]) -> dict[str, pa.Array]:
    """Build a column for each metric, and for both ends of its interval."""
    columns = {}
    for name in _keys_of(result.metrics for result in results):
        metrics = [result.metrics.get(name, {}) for result in results]
        columns[name] = _numbers([metric.get("value") for metric in metrics])
        columns[f"{name}.low"] = _numbers([metric.get("low") for metric in metrics])
        columns[f"{name}.high"] = _numbers([metric.get("high") for metric in metrics])
    return columns


def _keys_of(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys of all mappings, each once, in the order of their first appearance."""
    keys: dict[str, None] = {}
    for mapping in mappings:
        keys |= dict.fromkeys(mapping)
    return list(keys)


def _texts(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def _numbers(values: Sequence[float | None]) -> pa.Array:
    return pa.array(values, pa.float64())


def _column(values: Sequence[Any]) -> list[Any]:
    """Return values of one type unchanged, integers and floats as floats, and other mixtures as
    text.
    """
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return [float(value) for value in values]
    if kinds in ({int}, {float}, {str}, {bool}):
        return list(values)
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
    level = grid.job.evaluate.level
    names, measured = _metric_names(results)
    values = [_value(grid, index, results, measured, level) for index in range(len(grid.values))]
    rows = [_means(value) for value in values]
    if of_proxies:
        performance = PROXY_PERFORMANCE
        pairs = _proxy_pairs(measured)
        compared = None
    else:
        performance = PERFORMANCE
        pairs = _fairness_pairs(measured)
        compared = comparison(grid, results, measured, level)
    fairness = [name for name, traded_for in pairs.items() if traded_for == performance]
    front: list[int] = []
    if fairness:
        front = _front(rows, [performance, *fairness])
    points = []
    for point, result in zip(grid.points, results, strict=True):
        described = {"value": point.value, "settings": point.settings, "seed": point.seed}
        points.append(described | asdict(result))
    return {
        "job": grid.job.name,
        "keys": [axis.key for axis in grid.axes],
        "seeds": list(grid.seeds),
        "level": level,
        "performance": performance,
        "metrics": {name: direction(name) for name in measured},
        "without_evidence": [name for name in names if name not in measured],
        "values": values,
        "front": front,
        "fronts": {name: _front(rows, [traded_for, name]) for name, traded_for in pairs.items()},
        "comparison": compared,
        "points": points,
    }


def _metric_names(results: Sequence[PointResult]) -> tuple[list[str], list[str]]:
    """Return the names of all metrics, and of those that have a value in at least one run.

    Recalls are left out: their mean is the balanced accuracy, and of many classes each would have a
    chart.
    """
    with_value = set()
    names = []
    for name in _keys_of(result.metrics for result in results):
        if name.startswith("recall."):
            continue
        names.append(name)
        metrics = [result.metrics[name] for result in results if name in result.metrics]
        if any(metric["value"] is not None for metric in metrics):
            with_value.add(name)
    return names, [name for name in names if name in with_value]


def _fairness_pairs(measured: Sequence[str]) -> dict[str, str]:
    """Return, for each measure of fairness, the performance metric that it is traded for."""
    not_fairness = {*NOT_FAIRNESS, *names_of("proxy")}
    return {name: PERFORMANCE for name in measured if name not in not_fairness}


def _proxy_pairs(measured: Sequence[str]) -> dict[str, str]:
    """Return, for disclosivity on held-out and training rows, the imbalance on the same rows."""
    pairs = {}
    for rows in ("", ".train"):
        if PROXY_COST + rows in measured:
            pairs[PROXY_COST + rows] = PROXY_PERFORMANCE + rows
    return pairs


def _label(settings: Mapping[str, Any]) -> str:
    """Name a grid value: the value alone if one key is swept, else with the last part of
    each key.
    """
    if len(settings) == 1:
        return as_text(next(iter(settings.values())))
    names = [key.rpartition(".")[2] for key in settings]
    if len(set(names)) < len(names):
        names = list(settings)
    values = settings.values()
    return ", ".join(f"{name}={as_text(value)}" for name, value in zip(names, values, strict=True))


def _value(
    grid: Grid, index: int, results: Sequence[PointResult], metrics: Sequence[str], level: float
) -> dict[str, Any]:
    """Summarise one grid value over its seeds."""
    runs = []
    for point, result in zip(grid.points, results, strict=True):
        if point.value == index:
            runs.append(result)
    done = [result for result in runs if result.status == "done"]
    label = _label(grid.values[index])
    name = label
    if len(grid.axes) == 1:
        name = f"{grid.axes[0].key} {label}"
    return {
        "settings": grid.values[index],
        "label": label,
        "mark": ", ".join(as_text(value) for value in grid.values[index].values()),
        "name": name,
        "runs": len(runs),
        "failed": len(runs) - len(done),
        "passed": sum(result.verdict == "passed" for result in done),
        "metrics": {name: asdict(_summary(name, done, level)) for name in metrics},
        "over_blind": _over_blind(done, _ratio(grid, index), level),
    }


def _over_blind(done: Sequence[PointResult], ratio: float, level: float) -> dict[str, Any]:
    """Summarise by how much runs differ from their blind controls, metric by metric."""
    differences: dict[str, list[float]] = {}
    for result in done:
        for name, value in result.over_blind.items():
            if value is not None:
                differences.setdefault(name, []).append(value)
    summaries = {}
    for name, values in differences.items():
        summaries[name] = asdict(mean_difference(values, ratio=ratio, level=level))
    return summaries


def _summary(name: str, done: Sequence[PointResult], level: float) -> Summary:
    """Summarise a metric over the seeds; with a single value the interval is that run's own."""
    metrics = [result.metrics[name] for result in done if name in result.metrics]
    measured = [metric for metric in metrics if metric["value"] is not None]
    single: tuple[float | None, float | None] = (None, None)
    if len(measured) == 1:
        single = (measured[0]["low"], measured[0]["high"])
    return summarise([metric["value"] for metric in measured], level=level, single=single)


def _means(value: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: summary["mean"] for name, summary in value["metrics"].items()}


def _front(rows: Sequence[Mapping[str, float | None]], names: Sequence[str]) -> list[int]:
    """Return the indices of the rows that are on the Pareto front of these metrics."""
    table = np.full((len(rows), len(names)), math.nan)
    for i, row in enumerate(rows):
        for j, name in enumerate(names):
            value = row.get(name)
            if value is not None:
                table[i, j] = value
    return pareto_front(table, [better(name) for name in names])


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
    metrics = _compared_metrics(known)
    if not metrics or KEY not in grid.values[0]:
        return None
    reference = _reference(grid)
    against = [_against(grid, index, reference) for index in range(len(grid.values))]
    comparisons = sum(reference_index is not None for reference_index in against)
    if not comparisons:
        return None
    single_level = 1.0 - (1.0 - level) / comparisons
    values = []
    for index in _order(grid, against):
        differences = _differences(grid, results, index, against[index], metrics, single_level)
        values.append(
            {
                "value": index,
                "method": as_text(grid.values[index][KEY]),
                "against": against[index],
                "differences": differences,
            }
        )
    return {
        "reference": as_text(reference),
        "splits": len(grid.seeds),
        "metrics": metrics,
        "values": values,
    }


def _compared_metrics(measured: Sequence[str]) -> list[str]:
    """Return the compared metrics: performance, the gaps of each attribute, and inequality."""
    attributes: dict[str, None] = {}
    for name in measured:
        kind, _, attribute = name.partition(".")
        if kind in GAPS:
            attributes[attribute] = None
    candidates = list(OVERALL)
    for attribute in attributes:
        candidates += [f"{gap}.{attribute}" for gap in GAPS]
    candidates.append(INEQUALITY)
    return [name for name in candidates if name in measured]


def _order(grid: Grid, against: Sequence[int | None]) -> list[int]:
    """Order the grid values: those that differ only in the method together, the reference first."""
    settings_but_method = []
    for settings in grid.values:
        remaining = {key: value for key, value in settings.items() if key != KEY}
        settings_but_method.append(as_text(remaining))

    def rank(index: int) -> tuple[int, bool, int]:
        first = settings_but_method.index(settings_but_method[index])
        return first, against[index] is not None, index

    return sorted(range(len(grid.values)), key=rank)


def _reference(grid: Grid) -> Any:
    """Return the job's method with the job's arguments, else with other arguments, else the first
    method.
    """
    job_method = grid.job.method.get("name")
    methods = next(axis.values for axis in grid.axes if axis.key == KEY)
    if job_method in methods:
        return job_method
    for method in methods:
        if isinstance(method, dict) and method.get("name") == job_method:
            return method
    return methods[0]


def _against(grid: Grid, index: int, reference: Any) -> int | None:
    """Return the grid value with the reference method and all else equal; None for that value
    itself.
    """
    reference_text = as_text(grid.values[index] | {KEY: reference})
    texts = [as_text(settings) for settings in grid.values]
    reference_index = texts.index(reference_text)
    if reference_index == index:
        return None
    return reference_index


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
    ratio = _ratio(grid, index)
    runs = _metrics_by_seed(grid, results, index)
    reference_runs = _metrics_by_seed(grid, results, other)
    summaries = {}
    for name in metrics:
        differences = []
        for run, reference_run in zip(runs, reference_runs, strict=True):
            value = run.get(name, {}).get("value")
            reference_value = reference_run.get(name, {}).get("value")
            if value is not None and reference_value is not None:
                differences.append(value - reference_value)
        summaries[name] = asdict(mean_difference(differences, ratio=ratio, level=level))
    return summaries


def _metrics_by_seed(
    grid: Grid, results: Sequence[PointResult], index: int
) -> list[dict[str, dict[str, float | None]]]:
    """Return the metrics of a grid value's runs, one per seed; empty for a run that failed."""
    runs = []
    for point, result in zip(grid.points, results, strict=True):
        if point.value == index and result.status == "done":
            runs.append(result.metrics)
        elif point.value == index:
            runs.append({})
    return runs


def _ratio(grid: Grid, index: int) -> float:
    """Test rows over training rows of a grid value's splits."""
    share = next(point.resolved.job.split.test for point in grid.points if point.value == index)
    return share / (1.0 - share)
