"""Measure a proxy: what it tells about the groups and how it balances them, on rows that it has not seen."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.catalogue import names_of
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.methods.registry import load_proxy, proxy_class
from evenhand.fairlib.proxies.base import BalancingProxy
from evenhand.fairlib.proxies.evaluation import (
    MEASURES,
    ProxyMeasures,
    generalisation_bound,
    measure_proxy,
)
from evenhand.fairlib.proxies.groups import indicators_of
from evenhand.fairlib.proxies.tree import ProxyTree
from evenhand.fairlib.randomness import derive_seed, generator
from evenhand.tasks.dataset import Dataset, read_dataset
from evenhand.tasks.step import Step, StepContext, StepResult

__all__ = ["STEP", "metric_names"]

Float = NDArray[np.float64]


def metric_names(method: str) -> list[str]:
    """Metrics that a proxy of this method has."""
    bounded = issubclass(proxy_class(method), ProxyTree)
    return [name for name in names_of("proxy") if bounded or not name.endswith(".bound")]


def measure(context: StepContext) -> StepResult:
    """Write ``metrics.json``, as of any model, and ``balance.json``: group shares in each proxy group."""
    settings = context.parameters["evaluate"]
    seed = derive_seed(context.parameters["seed"], "bootstrap")
    proxy = load_proxy(context.inputs["proxy"])
    train, test = (read_dataset(context.inputs[name]) for name in ("train", "test"))
    min_cell = settings["min_cell"]
    held_out = measure_proxy(
        proxy,
        test.X,
        _groups(test),
        draws=settings["draws"],
        level=settings["level"],
        min_rows=min_cell,
        rng=generator(seed, "bootstrap", "proxy"),
        callback=lambda done, total: context.progress(done, total, {}),
    )
    seen = measure_proxy(proxy, train.X, _groups(train), draws=0)
    bound = generalisation_bound(proxy, settings["level"]) if isinstance(proxy, ProxyTree) else None
    metrics = _metrics(held_out, seen, bound, min_cell)
    evaluation = Evaluation(
        {name: metrics[name] for name in metric_names(context.parameters["method"])},
        {},
        len(test.X),
        {**settings, "seed": seed, "intersections": False},
    )
    folder = context.workdir
    (folder / "metrics.json").write_text(json.dumps(evaluation.to_json(), indent=1))
    content = _balance(proxy, held_out, seen, train, test, min_cell) | {"bound": bound}
    (folder / "balance.json").write_text(json.dumps(content, indent=1, allow_nan=False))
    return StepResult(
        {
            "metrics": (folder / "metrics.json", "metrics"),
            "balance": (folder / "balance.json", "balance"),
        },
        {"test_rows": len(test.X)},
    )


def _groups(data: Dataset) -> dict[str, NDArray[np.str_]]:
    return {name: values.astype(str) for name, values in data.sensitive.items()}


def _metrics(
    held_out: ProxyMeasures, seen: ProxyMeasures, bound: dict[str, float] | None, min_cell: int
) -> dict[str, MetricValue]:
    found = {name: _value(held_out, name, min_cell) for name in MEASURES}
    for name in ("disclosivity", "imbalance"):
        value = seen.values[name]
        found[f"{name}.train"] = (
            MetricValue.insufficient("undefined on the training rows")
            if value is None
            else MetricValue(value)
        )
        if bound is not None:
            found[f"{name}.bound"] = MetricValue(bound[name])
    return found


def _value(measures: ProxyMeasures, name: str, min_cell: int) -> MetricValue:
    value, low, high = measures.values[name], measures.lows[name], measures.highs[name]
    if value is None:
        reasons = {
            "disclosivity": f"no proxy group has {min_cell} expected rows",
            "disclosivity_of_probability": "no acceptance probability is that of enough rows",
        }
        return MetricValue.insufficient(reasons.get(name, "no row is expected to be kept"))
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return MetricValue(value)
    return MetricValue(value, low, high)


def _balance(
    proxy: BalancingProxy,
    held_out: ProxyMeasures,
    seen: ProxyMeasures,
    train: Dataset,
    test: Dataset,
    min_cell: int,
) -> dict[str, Any]:
    """Shares only; those that rest on fewer than `min_cell` rows are null."""
    names = proxy.group_names_
    few = indicators_of(_groups(test), names).sum(axis=0) < min_cell
    few_train = indicators_of(_groups(train), names).sum(axis=0) < min_cell
    # also where it is left to rounding: rows of a proxy group are an expectation
    thin, thin_train = held_out.rows < min_cell, seen.rows < min_cell
    return {
        "attributes": names,
        "groups": [f"{attribute}={group}" for attribute, groups in names.items() for group in groups],
        "target": proxy.target_.tolist(),
        "base_rates": _shown(held_out.base_rates, few),
        "base_rates_train": _shown(proxy.base_rates_, few_train),
        "compositions": _shown_rows(held_out.compositions, thin, few),
        "compositions_train": _shown_rows(proxy.compositions_, thin_train, few_train),
        "rows": held_out.rows.tolist(),
        "masses": proxy.masses_.tolist(),
        "acceptance": proxy.acceptance_.tolist(),
        "shares_before": _shown(held_out.base_rates, few),
        "shares_after": _shown(held_out.shares, few),
        "shares_after_train": _shown(proxy.shares_, few_train),
        "distances": getattr(proxy, "distances_", None),
    }


def _shown(shares: Float, hidden: NDArray[np.bool_]) -> list[float | None]:
    """Shares as JSON; null where hidden, or undefined."""
    gone = hidden | ~np.isfinite(shares)
    return [None if lacks else float(share) for share, lacks in zip(shares, gone, strict=True)]


def _shown_rows(
    compositions: Float, thin: NDArray[np.bool_], hidden: NDArray[np.bool_]
) -> list[list[float | None] | None]:
    return [None if lacks else _shown(row, hidden) for row, lacks in zip(compositions, thin, strict=True)]


STEP = Step("measure_proxy", measure)
