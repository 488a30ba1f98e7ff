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
from evenhand.fairlib.proxies.proxy_evaluation import (
    MEASURES,
    NO_CHANCE,
    ProxyMeasures,
    possible_reduction,
)
from evenhand.fairlib.proxies.proxy_evaluation import measure_proxy as measures_of
from evenhand.fairlib.proxies.proxy_groups import indicators_of
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.step import StepContext, StepResult

# Below these a run warns; starter jobs have gates at the same values.
LEAST_REDUCTION = 0.1
LEAST_SUPPORT = 0.6
LEAST_KEPT = 0.01
LEAST_OF_POSSIBLE = 0.5
MOST_EXCESS = 0.1


def measure_proxy(context: StepContext) -> StepResult:
    """Write `metrics.json`, in the form of all models, and `balance.json`: group shares per proxy
    group.
    """
    settings = context.parameters["evaluate"]
    seed = derive_seed(context.parameters["seed"], "bootstrap")
    proxy = load_proxy(context.inputs["proxy"])
    train, test = (read_dataset(context.inputs[name]) for name in ("train", "test"))
    min_cell = settings["min_cell"]
    held_out = measures_of(
        proxy,
        test.X,
        test.sensitive,
        draws=settings["draws"],
        level=settings["level"],
        min_rows=min_cell,
        rng=generator(seed, "bootstrap", "proxy"),
        callback=lambda done, total: context.progress(done, total, {}),
    )
    trained = measures_of(proxy, train.X, train.sensitive, draws=0)
    metrics = _metrics(proxy, held_out, trained, min_cell)
    chosen = {name: metrics[name] for name in names_of("proxy")}
    measured = {**settings, "seed": seed, "intersections": False}
    evaluation = Evaluation(chosen, {}, len(test.X), measured)
    content = _balance(proxy, held_out, trained, train, test, min_cell)
    outputs = context.write_json("metrics", evaluation.to_json())
    outputs |= context.write_json("balance", content)
    return StepResult(outputs, {"test_rows": len(test.X), "warnings": _warnings(proxy, chosen)})


def _warnings(proxy: BalancingProxy, metrics: Mapping[str, MetricValue]) -> list[str]:
    """Say what makes a sample useless: no balance, one proxy group, or few people with a chance."""
    supported = metrics["support"].value
    share = metrics["kept"].value
    kept_groups = int((proxy.acceptance_ > NO_CHANCE).sum())
    warnings = _balance_warnings(proxy, metrics)
    if share is not None and share < LEAST_KEPT:
        warnings.append(
            f"the proxy keeps only {share:.2%} of the rows (the gate kept: {{min: {LEAST_KEPT}}} "
            "refuses such a proxy); a larger method.support keeps more"
        )
    if kept_groups == 1 and len(proxy.acceptance_) > 1:
        warnings.append(
            f"only one of {len(proxy.acceptance_)} proxy groups is kept: a model learns nothing "
            "about the others from this sample; a larger method.support gives more people a chance"
        )
    if supported is not None and supported < LEAST_SUPPORT:
        warnings.append(
            f"only {supported:.3f} of the people have a chance above a tenth of the mean (the gate "
            "support: "
            f"{{min: {LEAST_SUPPORT}}} refuses such a proxy)"
        )
    return warnings


def _balance_warnings(proxy: BalancingProxy, metrics: Mapping[str, MetricValue]) -> list[str]:
    """Say that a sample is hardly more balanced, and how balanced the proxy could make it."""
    before = metrics["imbalance_before"].value or 0.0
    removed = metrics["imbalance_reduction"].value
    if before <= getattr(proxy, "tolerance", 0.0) or removed is None:
        return []
    warnings = []
    if removed < LEAST_REDUCTION:
        warnings.append(
            f"the proxy balances hardly anything: it removes {removed:.3f} of the imbalance on "
            "held-out rows "
            f"(the gate imbalance_reduction: {{min: {LEAST_REDUCTION}}} refuses such a proxy)"
        )
    share = metrics["imbalance_reduction.of_possible"].value
    if share is not None and share < LEAST_OF_POSSIBLE:
        possible = metrics["imbalance_reduction.possible"].value
        at_alpha = ""
        if hasattr(proxy, "alpha"):
            at_alpha = f" at alpha = {proxy.alpha:g}"
        warnings.append(
            f"{possible:.3f} of the imbalance of the training rows could be removed{at_alpha} "
            f"without support, and the proxy removes {removed:.3f} on held-out rows (the gate "
            f"imbalance_reduction.of_possible: {{min: {LEAST_OF_POSSIBLE}}} refuses such a proxy): "
            "give more rows, a larger method.min_leaf, or a smaller method.support"
        )
    excess = metrics["imbalance.excess"].value
    if excess is not None and excess > MOST_EXCESS:
        warnings.append(
            f"the imbalance is {excess:.3f} larger on held-out rows than on the training rows (the "
            f"gate imbalance.excess: {{max: {MOST_EXCESS}}} refuses such a proxy): the proxy "
            "groups fit the training rows only; give more rows, or a larger method.min_leaf"
        )
    return warnings


def _metrics(
    proxy: BalancingProxy, held_out: ProxyMeasures, trained: ProxyMeasures, min_cell: int
) -> dict[str, MetricValue]:
    reasons = dict.fromkeys(MEASURES, "no row is expected to be kept") | {
        "disclosivity": f"no proxy group has {min_cell} expected rows",
        "disclosivity_of_probability": "no acceptance probability is that of enough rows",
        "imbalance_reduction": "no row is expected to be kept, or all rows have the target shares",
    }
    metrics = {name: _value(held_out, name, reason) for name, reason in reasons.items()}
    for name in ("disclosivity", "imbalance"):
        metrics[f"{name}.train"] = _value(trained, name, "undefined on the training rows")
    metrics["imbalance.excess"] = _excess(metrics["imbalance"], metrics["imbalance.train"])
    possible = possible_reduction(proxy)
    if possible is None:
        return metrics | dict.fromkeys(
            ("imbalance_reduction.possible", "imbalance_reduction.of_possible"),
            MetricValue.insufficient("no imbalance of the training rows can be removed"),
        )
    metrics["imbalance_reduction.possible"] = MetricValue(possible)
    metrics["imbalance_reduction.of_possible"] = _divided(metrics["imbalance_reduction"], possible)
    return metrics


def _excess(held_out: MetricValue, trained: MetricValue) -> MetricValue:
    """Difference of a measure from its value on the training rows, which is a constant here."""
    if held_out.value is None:
        return held_out
    if trained.value is None:
        return trained
    value = held_out.value - trained.value
    if held_out.low is None or held_out.high is None:
        return MetricValue(value)
    return MetricValue(value, held_out.low - trained.value, held_out.high - trained.value)


def _divided(metric: MetricValue, divisor: float) -> MetricValue:
    """A measure and its interval as a share of a positive number."""
    if metric.value is None:
        return metric
    if metric.low is None or metric.high is None:
        return MetricValue(metric.value / divisor)
    return MetricValue(metric.value / divisor, metric.low / divisor, metric.high / divisor)


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
    trained: ProxyMeasures,
    train: Dataset,
    test: Dataset,
    min_cell: int,
) -> dict[str, Any]:
    """Content of `balance.json`: shares only; shares of fewer than `min_cell` rows are null."""
    names = proxy.group_names_
    few = indicators_of(test.sensitive, names).sum(axis=0) < min_cell
    few_train = indicators_of(train.sensitive, names).sum(axis=0) < min_cell

    def rows_of(compositions: Float, measures: ProxyMeasures, hidden: Bool) -> list[Any]:
        # The rows of a proxy group are an expectation: rounding can hide a group of just min_cell
        # rows.
        too_few = measures.rows < min_cell
        rows: list[Any] = []
        for shares, is_hidden in zip(compositions, too_few, strict=True):
            if is_hidden:
                rows.append(None)
            else:
                rows.append(_shown(shares, hidden))
        return rows

    labels = []
    for attribute, groups in names.items():
        labels += [f"{attribute}={group}" for group in groups]
    return {
        "attributes": names,
        "groups": labels,
        "target": proxy.target_.tolist(),
        "base_rates": _shown(held_out.base_rates, few),
        "base_rates_train": _shown(proxy.base_rates_, few_train),
        "compositions": rows_of(held_out.compositions, held_out, few),
        "compositions_train": rows_of(proxy.compositions_, trained, few_train),
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
    public_shares: list[float | None] = [float(share) for share in shares]
    for place in np.flatnonzero(null):
        public_shares[place] = None
    return public_shares
