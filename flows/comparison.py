"""Comparison of a sweep's methods: each one with the reference method, on the same splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evenhand.fairlib.catalogue import better
from evenhand.fairlib.evaluation.comparison import PairedTest, corrected_t_test, holm
from evenhand.flows.grid import Grid, PointResult, as_text

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
    metrics = _metrics(known)
    if not metrics or KEY not in grid.values[0]:
        return None
    reference = _reference(grid)
    against = [_against(grid, index, reference) for index in range(len(grid.values))]
    if all(other is None for other in against):
        return None
    tests = {name: _tests(grid, results, name, against) for name in metrics}
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
            for index in _order(grid, reference)
        ],
    }


def _metrics(known: Sequence[str]) -> list[str]:
    """Return the compared metrics, attribute by attribute."""
    attributes = dict.fromkeys(name.partition(".")[2] for name in known if name.partition(".")[0] in GAPS)
    wanted = [*OVERALL, *(f"{gap}.{attribute}" for attribute in attributes for gap in GAPS), INEQUALITY]
    return [name for name in wanted if name in known]


def _reference(grid: Grid) -> Any:
    """Return the job's method with the job's arguments, else with other arguments, else the first method."""
    own = grid.job.method.get("name")
    methods = next(axis.values for axis in grid.axes if axis.key == KEY)
    named = [method for method in methods if isinstance(method, dict) and method.get("name") == own]
    return own if own in methods else [*named, *methods][0]


def _rest(grid: Grid, index: int) -> dict[str, Any]:
    return {key: value for key, value in grid.values[index].items() if key != KEY}


def _against(grid: Grid, index: int, reference: Any) -> int | None:
    """Return the grid value with the reference method and all else equal; None for that value itself."""
    wanted = grid.values[index] | {KEY: reference}
    found = next(i for i, settings in enumerate(grid.values) if as_text(settings) == as_text(wanted))
    return None if found == index else found


def _order(grid: Grid, reference: Any) -> list[int]:
    """Order the grid values: those that differ only in the method together, the reference first."""
    rests = [as_text(_rest(grid, index)) for index in range(len(grid.values))]
    first = {rest: place for place, rest in reversed(list(enumerate(rests)))}
    return sorted(
        range(len(rests)),
        key=lambda index: (first[rests[index]], _against(grid, index, reference) is not None, index),
    )


def _tests(
    grid: Grid, results: Sequence[PointResult], name: str, against: Sequence[int | None]
) -> dict[int, dict[str, Any]]:
    """Return a metric's tests by grid value, with Holm's correction."""
    found = {
        index: corrected_t_test(
            _by_split(grid, results, index, name),
            _by_split(grid, results, other, name),
            ratio=_test_over_train(grid, index),
        )
        for index, other in enumerate(against)
        if other is not None
    }
    corrected = holm([test.p for test in found.values()])
    return {
        index: asdict(test) | {"p_holm": p, "verdict": _verdict(name, test, p)}
        for (index, test), p in zip(found.items(), corrected, strict=True)
    }


def _by_split(grid: Grid, results: Sequence[PointResult], index: int, name: str) -> list[Number]:
    """Return a metric of a grid value by seed; each seed is a split."""
    numbers: dict[int, Number] = {
        point.seed: result.metrics.get(name, {}).get("value")
        for point, result in zip(grid.points, results, strict=True)
        if point.value == index and result.status == "done"
    }
    return [numbers.get(seed) for seed in grid.seeds]


def _test_over_train(grid: Grid, index: int) -> float:
    test = next(point.resolved.job.split.test for point in grid.points if point.value == index)
    return test / (1 - test)


def _verdict(name: str, test: PairedTest, p: Number) -> str:
    if p is None or test.difference is None:
        return "no test"
    if p >= SIGNIFICANCE:
        return "not significant"
    return "better" if (test.difference > 0) == (better(name) == "higher") else "worse"
