"""Measure a proxy on rows that it was not learned from: its disclosivity and the balance of its
sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Bool, Float
from evenhand.fairlib.catalogue import names_of
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.execution import derive_seed, generator
from evenhand.fairlib.methods.registry import load_proxy
from evenhand.fairlib.proxies.proxy_base import BalancingProxy
from evenhand.fairlib.proxies.proxy_evaluation import MEASURES, NO_CHANCE, ProxyMeasures
from evenhand.fairlib.proxies.proxy_evaluation import measure_proxy as measures_of
from evenhand.fairlib.proxies.proxy_groups import indicators_of
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.step import StepContext, StepResult

# Below these a run warns; starter jobs have gates at the same values.
LEAST_REDUCTION = 0.1
LEAST_SUPPORT = 0.6


def measure_proxy(context: StepContext) -> StepResult:
    """Write `metrics.json`, in the form of all models, and `balance.json`: group shares per proxy
    group.
    """
    settings = context.parameters["evaluate"]
    seed = derive_seed(context.parameters["seed"], "bootstrap")
    proxy = load_proxy(context.inputs["proxy"])
    train, test = (read_dataset(context.inputs[name]) for name in ("train", "test"))
    min_cell = settings["min_cell"]
    given = {"draws": settings["draws"], "level": settings["level"], "min_rows": min_cell}
    given["rng"] = generator(seed, "bootstrap", "proxy")
    given["callback"] = lambda done, total: context.progress(done, total, {})
    held_out = measures_of(proxy, test.X, test.sensitive, **given)
    seen = measures_of(proxy, train.X, train.sensitive, draws=0)
    metrics = _metrics(held_out, seen, min_cell)
    chosen = {name: metrics[name] for name in names_of("proxy")}
    measured = {**settings, "seed": seed, "intersections": False}
    evaluation = Evaluation(chosen, {}, len(test.X), measured)
    content = _balance(proxy, held_out, seen, train, test, min_cell)
    outputs = context.write_json("metrics", evaluation.to_json()) | context.write_json(
        "balance", content
    )
    return StepResult(outputs, {"test_rows": len(test.X), "warnings": _warnings(proxy, chosen)})


def _warnings(proxy: BalancingProxy, metrics: Mapping[str, MetricValue]) -> list[str]:
    """Say what makes a sample useless: no balance, one proxy group, or few people with a chance."""
    removed = metrics["imbalance_reduction"].value
    supported = metrics["support"].value
    before = metrics["imbalance_before"].value or 0.0
    enough = getattr(proxy, "tolerance", 0.0)
    kept = int((proxy.acceptance_ > NO_CHANCE).sum())
    found = []
    if before > enough and removed is not None and removed < LEAST_REDUCTION:
        found.append(
            f"the proxy balances hardly anything: it removes {removed:.3f} of the imbalance on "
            "held-out rows "
            f"(the gate imbalance_reduction: {{min: {LEAST_REDUCTION}}} refuses such a proxy)"
        )
    if kept == 1 and len(proxy.acceptance_) > 1:
        found.append(
            f"only one of {len(proxy.acceptance_)} proxy groups is kept: a model learns nothing "
            "about the "
            "others from this sample; a larger method.support gives more people a chance"
        )
    if supported is not None and supported < LEAST_SUPPORT:
        found.append(
            f"only {supported:.3f} of the people have a chance above a tenth of the mean (the gate "
            "support: "
            f"{{min: {LEAST_SUPPORT}}} refuses such a proxy)"
        )
    return found


def _metrics(held_out: ProxyMeasures, seen: ProxyMeasures, min_cell: int) -> dict[str, MetricValue]:
    reasons = dict.fromkeys(MEASURES, "no row is expected to be kept") | {
        "disclosivity": f"no proxy group has {min_cell} expected rows",
        "disclosivity_of_probability": "no acceptance probability is that of enough rows",
        "imbalance_reduction": "no row is expected to be kept, or all rows have the target shares",
    }
    found = {name: _value(held_out, name, reason) for name, reason in reasons.items()}
    for name in ("disclosivity", "imbalance"):
        found[f"{name}.train"] = _value(seen, name, "undefined on the training rows")
    return found


def _value(measures: ProxyMeasures, name: str, reason: str) -> MetricValue:
    """A measure with its interval, or the reason why it is undefined."""
    value = measures.values[name]
    low = measures.lows[name]
    high = measures.highs[name]
    if value is None:
        return MetricValue.insufficient(reason)
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
    """Content of `balance.json`: shares only; shares of fewer than `min_cell` rows are null."""
    names = proxy.group_names_
    few, few_train = (
        indicators_of(data.sensitive, names).sum(axis=0) < min_cell for data in (test, train)
    )

    def rows_of(compositions: Float, measures: ProxyMeasures, hidden: Bool) -> list[Any]:
        # The rows of a proxy group are an expectation: rounding can hide a group of just min_cell
        # rows.
        too_few = measures.rows < min_cell
        return [
            None if few else _shown(row, hidden)
            for row, few in zip(compositions, too_few, strict=True)
        ]

    return {
        "attributes": names,
        "groups": [
            f"{attribute}={group}" for attribute, groups in names.items() for group in groups
        ],
        "target": proxy.target_.tolist(),
        "base_rates": _shown(held_out.base_rates, few),
        "base_rates_train": _shown(proxy.base_rates_, few_train),
        "compositions": rows_of(held_out.compositions, held_out, few),
        "compositions_train": rows_of(proxy.compositions_, seen, few_train),
        "rows": held_out.rows.tolist(),
        "masses": proxy.masses_.tolist(),
        "acceptance": proxy.acceptance_.tolist(),
        "shares_before": _shown(held_out.base_rates, few),
        "shares_after": _shown(held_out.shares, few),
        "shares_after_train": _shown(proxy.shares_, few_train),
        "distances": getattr(proxy, "distances_", None),
    }


def _shown(shares: Float, hidden: Bool) -> list[float | None]:
    """Shares as JSON; null if hidden or undefined."""
    null = hidden | ~np.isfinite(shares)
    return [None if hide else float(share) for share, hide in zip(shares, null, strict=True)]
