"""Summaries of a finished grid: each value over its seeds, Pareto fronts, methods compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from evenhand.fairlib.catalogue import better, direction, names_of
from evenhand.fairlib.evaluation.comparison import PairedTest, corrected_t_test, holm
from evenhand.fairlib.evaluation.tradeoff import Summary, pareto_front, summarise
from evenhand.flows.grid import Grid, PointResult, as_text

PERFORMANCE = "balanced_accuracy"
NOT_FAIRNESS = (
    *("accuracy", "balanced_accuracy", "auc", "features_asked", "probability_spread"),
    *("log_loss", "log_loss_gain", "brier", "ece"),
)
# Proxies trade their balance for what they disclose.
PROXY_PERFORMANCE, PROXY_COST = "imbalance", "disclosivity"


def tradeoffs(grid: Grid, results: Sequence[PointResult]) -> dict[str, Any]:
    """Build the content of ``tradeoff.json``: plain JSON without NaN.

    `values` has one entry per grid value, in order; `front` and `fronts` are indices into it.
    `fronts` has for every fairness metric the Pareto front of balanced accuracy and that metric, `front` the
    one of all metrics together. Proxies have the fronts of imbalance and disclosivity, on held-out and
    training rows. `comparison` compares methods, if they are swept.
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
    measures = [name for name in known if name not in NOT_FAIRNESS and name not in names_of("proxy")]
    pairs = dict.fromkeys(measures, PERFORMANCE)
    if of_proxies:
        ends = ("", ".train")
        pairs = {PROXY_COST + end: PROXY_PERFORMANCE + end for end in ends if PROXY_COST + end in known}
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
        "comparison": None if of_proxies else comparison(grid, results, known),
        "points": [
            {"value": point.value, "settings": point.settings, "seed": point.seed} | asdict(result)
            for point, result in zip(grid.points, results, strict=True)
        ],
    }


def _label(settings: Mapping[str, Any]) -> str:
    """Name a grid value: the value alone if one key is swept, else with the last part of each key."""
    if len(settings) == 1:
        return as_text(next(iter(settings.values())))
    ends = [key.rpartition(".")[2] for key in settings]
    names = ends if len(set(ends)) == len(ends) else list(settings)
    return ", ".join(f"{name}={as_text(value)}" for name, value in zip(names, settings.values(), strict=True))


def _value(
    grid: Grid, index: int, results: Sequence[PointResult], metrics: Sequence[str], level: float
) -> dict[str, Any]:
    """Summarise one grid value over its seeds."""
    own = [result for point, result in zip(grid.points, results, strict=True) if point.value == index]
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
        "over_blind": {name: asdict(summarise(found, level=level)) for name, found in over_blind.items()},
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
SIGNIFICANCE = 0.05
# The metrics that papers on fair classification compare: performance, and fairness by attribute.
OVERALL = ("accuracy", "balanced_accuracy")
GAPS = ("equal_opportunity_difference", "average_odds_difference", "balanced_accuracy_difference")
INEQUALITY = "theil_index"

Number = float | None


def comparison(grid: Grid, results: Sequence[PointResult], known: Sequence[str]) -> dict[str, Any] | None:
    """Build `comparison` of ``tradeoff.json``: plain JSON, or None if the sweep has no two methods.

    The reference is the job's own method, or the first method if the job's is not swept. A grid value that
    sets other keys too is compared with the reference method at the same values of these keys. `values` has
    one entry per grid value, the reference first. `tests` has for each metric the values of both by split,
    the mean difference, t, p, p after Holm's correction over the grid values, and the conclusion: ``better``,
    ``worse``, ``not significant`` or ``no test``.
    """
    attributes = dict.fromkeys(name.partition(".")[2] for name in known if name.partition(".")[0] in GAPS)
    gaps = [f"{gap}.{attribute}" for attribute in attributes for gap in GAPS]
    metrics = [name for name in (*OVERALL, *gaps, INEQUALITY) if name in known]
    if not metrics or KEY not in grid.values[0]:
        return None
    reference = _reference(grid)
    against = [_against(grid, index, reference) for index in range(len(grid.values))]
    if all(other is None for other in against):
        return None
    tests = {name: _tests(grid, results, name, against) for name in metrics}
    # values that differ only in the method together, the reference first
    rests = [as_text({key: item for key, item in value.items() if key != KEY}) for value in grid.values]
    order = sorted(range(len(rests)), key=lambda i: (rests.index(rests[i]), against[i] is not None, i))
    return {
        "reference": as_text(reference),
        "significance": SIGNIFICANCE,
        "splits": len(grid.seeds),
        "metrics": metrics,
        "values": [
            {
                "value": index,
                "method": as_text(grid.values[index][KEY]),
                "against": against[index],
                "tests": {} if against[index] is None else {name: tests[name][index] for name in metrics},
            }
            for index in order
        ],
    }


def _reference(grid: Grid) -> Any:
    """Return the job's method with the job's arguments, else with other arguments, else the first method."""
    own = grid.job.method.get("name")
    methods = next(axis.values for axis in grid.axes if axis.key == KEY)
    named = [method for method in methods if isinstance(method, dict) and method.get("name") == own]
    return own if own in methods else [*named, *methods][0]


def _against(grid: Grid, index: int, reference: Any) -> int | None:
    """Return the grid value with the reference method and all else equal; None for that value itself."""
    wanted = grid.values[index] | {KEY: reference}
    found = next(i for i, settings in enumerate(grid.values) if as_text(settings) == as_text(wanted))
    return None if found == index else found


def _tests(
    grid: Grid, results: Sequence[PointResult], name: str, against: Sequence[int | None]
) -> dict[int, dict[str, Any]]:
    """Return a metric's tests by grid value, with Holm's correction."""
    # share of test rows by grid value
    shares = {point.value: point.resolved.job.split.test for point in grid.points}
    found = {}
    for index, other in enumerate(against):
        if other is not None:
            own, reference = (_by_split(grid, results, one, name) for one in (index, other))
            found[index] = corrected_t_test(own, reference, ratio=shares[index] / (1 - shares[index]))
    corrected = holm([test.p for test in found.values()])
    return {
        index: asdict(test) | {"p_holm": p, "verdict": _verdict(name, test, p)}
        for (index, test), p in zip(found.items(), corrected, strict=True)
    }


def _by_split(grid: Grid, results: Sequence[PointResult], index: int, name: str) -> list[Number]:
    """Return a metric of a grid value by seed; each seed is a split."""
    own = {p.seed: found for p, found in zip(grid.points, results, strict=True) if p.value == index}
    done = {seed: found.metrics.get(name, {}) for seed, found in own.items() if found.status == "done"}
    return [done.get(seed, {}).get("value") for seed in grid.seeds]


def _verdict(name: str, test: PairedTest, p: Number) -> str:
    if p is None or test.difference is None:
        return "no test"
    if p >= SIGNIFICANCE:
        return "not significant"
    return "better" if (test.difference > 0) == (better(name) == "higher") else "worse"
