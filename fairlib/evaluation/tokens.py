"""How much a model's answer moves when one term of a sentence is replaced by another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.bootstrap import percentile_interval
from evenhand.fairlib.evaluation.evaluate import MetricValue, check_settings
from evenhand.fairlib.execution import generator

SHARE = 0.95


def token_gaps(
    probability: Float,
    copies: Float,
    own: Int,
    *,
    names: Sequence[str],
    draws: int = 1000,
    level: float = 0.95,
    min_cell: int = 5,
    seed: int = 0,
) -> tuple[dict[str, MetricValue], list[dict[str, Any]]]:
    r"""Counterfactual token gap of m sentences, its 95th percentile, and the moves by term.

    .. math:: \frac{1}{|P|} \sum_{(i, t) \in P} |p(x_i^t) - p(x_i)|, \qquad P = \{(i, t): t \ne t_i\}

    (Garg et al. 2019). `probability`, shape (m,), is that of the sentences, `copies`, shape (m, k), that of
    their copies by term, and `own`, shape (m,), the position of each sentence's own term :math:`t_i`. The
    bootstrap resamples sentences and terms, as both are samples; the intervals by term resample sentences.

    Metrics are ``token_gap`` and ``token_gap_p95``. Each term has ``term``, ``sentences``, ``gap`` (mean
    absolute difference) with ``low`` and ``high``, and ``shift`` (mean difference), or None for fewer
    sentences than `min_cell`. ValueError: settings of the bootstrap out of their range.
    """
    check_settings(draws, level, min_cell)
    count, k = copies.shape
    others = own[:, None] != np.arange(k)
    moved = np.where(others, copies - probability[:, None], 0.0)
    if count < min_cell:
        short = MetricValue.insufficient(f"only {count} sentences have a term, fewer than {min_cell}")
        return {"token_gap": short, "token_gap_p95": short}, []
    size = np.abs(moved)
    rng = generator(seed, "bootstrap", "tokens")
    people = rng.multinomial(count, np.full(count, 1 / count), draws)
    chosen = rng.multinomial(k, np.full(k, 1 / k), draws)
    sums, pairs = people @ size, people @ others
    with np.errstate(divide="ignore", invalid="ignore"):
        by_term = sums / pairs
        means = (sums * chosen).sum(axis=1) / (pairs * chosen).sum(axis=1)
    order = np.argsort(size[others], kind="stable")
    ranked = size[others][order]
    tails = [_quantile(ranked, np.outer(w, v)[others][order]) for w, v in zip(people, chosen, strict=True)]
    metrics = {
        "token_gap": _with_interval(float(size.sum() / others.sum()), means, level),
        "token_gap_p95": _with_interval(_quantile(ranked, np.ones(len(ranked))), np.array(tails), level),
    }
    return metrics, [
        _of_term(names[t], size[:, t], moved[:, t], others[:, t], by_term[:, t], level, min_cell)
        for t in range(k)
    ]


def _of_term(
    name: str, size: Float, moved: Float, others: Bool, drawn: Float, level: float, least: int
) -> dict[str, Any]:
    rows = int(others.sum())
    if rows < least:
        return {"term": name, "sentences": rows, "gap": None, "low": None, "high": None, "shift": None}
    gap = _with_interval(float(size.sum() / rows), drawn, level)
    shift = float(moved.sum() / rows)
    return {
        "term": name, "sentences": rows, "gap": gap.value, "low": gap.low, "high": gap.high, "shift": shift
    }  # fmt: skip


def _quantile(ranked: Float, weights: Float | Int) -> float:
    """Least value that a share of .95 of the weight does not exceed; NaN without weight."""
    total = np.cumsum(weights)
    if not total[-1]:
        return float("nan")
    # a margin for rounding, which must not skip a value
    return float(ranked[np.searchsorted(total, SHARE * total[-1] - 1e-9)])


def _with_interval(value: float, drawn: Float, level: float) -> MetricValue:
    interval = percentile_interval(drawn, level, value) if len(drawn) else None
    return MetricValue(value, *(interval or (None, None)))
