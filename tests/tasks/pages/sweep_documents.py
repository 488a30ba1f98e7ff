"""Documents of sweeps, as the flow computes them from made-up results of their runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec

from page_examples import ENVIRONMENT

from evenhand.flows.sweep import PointResult, make_grid, tradeoffs

P = ParamSpec("P")
Metrics = dict[str, dict[str, float | None]]

METRICS = {
    "accuracy": 0.9,
    "balanced_accuracy": 0.8,
    "auc": 0.85,
    "consistency.spouse": 0.9,
    "gap_max.sex": 0.2,
    "gap_max.sex&race": 0.3,
    "theil_index": 0.07,
}
LACKING: dict[str, float | None] = {"value": None, "low": None, "high": None}


def _fresh(function: Callable[P, dict[str, Any]]) -> Callable[P, dict[str, Any]]:
    """Compute documents once, and give each caller a copy that it may change."""
    once = cache(function)
    return wraps(function)(lambda *args, **kwargs: copy.deepcopy(once(*args, **kwargs)))


def documents_of(tradeoff: dict[str, Any]) -> dict[str, Any]:
    """Documents of a sweep's page."""
    run = {
        "id": "sweep-1",
        "created": "2026-05-03T14:05:00+00:00",
        "made": [["The sweep", [["Job", tradeoff["job"]]]]],
        "environment": ENVIRONMENT,
        "files": [{"name": "all runs as a table", "href": "sweep.parquet"}],
    }
    return {"tradeoff": tradeoff, "run": run}


def trained(eta: float, seed: int) -> PointResult:
    """Accuracy rises with eta and consistency falls; every number is another."""
    shift = eta / 10 + seed / 1000
    metrics: Metrics = {}
    for place, (name, base) in enumerate(METRICS.items()):
        value = base + (-shift if name.startswith("consistency") else shift) + place / 10_000
        metrics[name] = {"value": value, "low": value - 0.0123, "high": value + 0.0234}
    metrics["gap_rms.sex"] = dict(LACKING)
    return PointResult(
        "done", "passed" if eta < 0.3 else "refused", metrics, {"train": 1.5}, ["ingest"]
    )


@_fresh
def sweep_documents(
    over: str = "method.eta=0.4,0.1,0.2", seeds: int = 3, error: str | None = None
) -> dict[str, Any]:
    """Documents of a sweep over one key; with an `error`, the second run failed."""
    grid = make_grid("adult-gbdt", [over], seeds=seeds)
    results = [
        trained(point.resolved.arguments.get("eta", 0.3), point.seed) for point in grid.points
    ]
    if error:
        results[1] = PointResult(error=error)
    return documents_of(tradeoffs(grid, results))


# methods

EOD = "equal_opportunity_difference.sex"
BASE = {
    "accuracy": 0.7,
    "balanced_accuracy": 0.6,
    EOD: 0.2,
    "average_odds_difference.sex": 0.1,
    "average_odds_difference.race": 0.3,
    "average_odds_difference.sex&race": 0.9,
    "theil_index": 0.15,
    "gap_max.sex": 0.2,
}
# what each method adds to the base, beside the noise of the splits
SHIFTS = {
    "gbdt": {},
    "reweigh": {"accuracy": -0.1, EOD: -0.15},
    "nn": {"balanced_accuracy": 0.001},
    "budro": {"theil_index": 0.1, "accuracy": 0.1},
}
NOISE = [0.0, 0.004, -0.004, 0.002, -0.002]


def _of_method(method: str, split: int) -> PointResult:
    """Splits differ for all methods alike, and a little for each."""
    own = NOISE[(split + list(SHIFTS).index(method)) % len(NOISE)]
    metrics: Metrics = {}
    for name, base in BASE.items():
        value = base + SHIFTS[method].get(name, 0.0) + 0.02 * (split % 3) + own
        metrics[name] = {"value": value, "low": value - 0.01, "high": value + 0.01}
    return PointResult("done", "passed", metrics, {"train": 1.0})


@_fresh
def method_documents(
    *over: str, seeds: int = 5, lacking: tuple[int, ...] = (), failing: tuple[int, ...] = ()
) -> dict[str, Any]:
    """Documents of a sweep over methods; points by their place have no difference, or failed."""
    grid = make_grid("adult-gbdt", over or ("method=nn,gbdt,reweigh",), seeds=seeds)
    results = [
        _of_method(point.resolved.method, point.seed - grid.seeds[0]) for point in grid.points
    ]
    for index in lacking:
        results[index].metrics[EOD] = dict(LACKING)
    for index in failing:
        results[index] = PointResult(error="disk full")
    return documents_of(tradeoffs(grid, results))


# acquisition


@_fresh
def asked_documents() -> dict[str, Any]:
    """Documents of a sweep of models that ask for features."""
    grid = make_grid("loans-dadi", ["method.gamma=0.9,0.1,0.5"])
    results = []
    for point in grid.points:
        asked = 4 * point.resolved.arguments["gamma"]
        metrics: Metrics = {
            "features_asked": {"value": asked, "low": asked - 0.25, "high": asked + 0.25}
        }
        results.append(PointResult("done", "passed", metrics, {"train": 1.0}))
    return documents_of(tradeoffs(grid, results))


# proxies


def _proxy(alpha: float, seed: int, shift: float) -> PointResult:
    found = {
        "disclosivity": alpha + 0.02,
        "imbalance": 0.5 - alpha + shift,
        "imbalance_before": 0.5,
        "kept": 0.3,
        "disclosivity.train": alpha,
        "imbalance.train": 0.4 - alpha + shift,
    }
    metrics: Metrics = {
        name: {"value": value + seed / 1000, "low": None, "high": None}
        for name, value in found.items()
    }
    return PointResult("done", "passed", metrics, {"learn_proxy": 1.0})


@_fresh
def proxy_documents(*over: str, seeds: int = 2, lacking: tuple[str, ...] = ()) -> dict[str, Any]:
    """Documents of a sweep of proxies; metrics that no run could measure are `lacking`."""
    grid = make_grid("bank-proxy", over or ["method.alpha=0,0.1,0.2"], seeds=seeds)
    results = [
        _proxy(
            point.resolved.arguments.get("alpha", 0.3),
            point.seed,
            0.01 * point.resolved.method.startswith("relaxed"),
        )
        for point in grid.points
    ]
    for result in results:
        result.metrics.update({name: dict(LACKING) for name in lacking})
    return documents_of(tradeoffs(grid, results))
