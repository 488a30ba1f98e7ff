"""Terms of sentences: how far answers move when one replaces another, and how well scores rank
mentions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.bootstrap import percentile_interval
from evenhand.fairlib.evaluation.closed_intervals import (
    auc_interval,
    bounded_mean_interval,
    rate_interval,
)
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

    (Garg et al. 2019). `probability`, shape (m,), is that of the sentences, `copies`, shape (m, k),
    that of their copies by term, and `own`, shape (m,), the position of each sentence's own term
    :math:`t_i`. The bootstrap resamples sentences and terms, as both are samples; the intervals by
    term resample sentences.

    Metrics are ``token_gap`` and ``token_gap_p95``. Each term has ``term``, ``sentences``, ``gap``
    (mean absolute difference) with ``low`` and ``high``, and ``shift`` (mean difference), or None
    for fewer sentences than `min_cell`. ValueError: settings of the bootstrap out of their range.
    """
    check_settings(draws, level, min_cell)
    count, k = copies.shape
    others = own[:, None] != np.arange(k)
    moved = np.where(others, copies - probability[:, None], 0.0)
    if count < min_cell:
        short = MetricValue.insufficient(
            f"only {count} sentences have a term, fewer than {min_cell}"
        )
        return {"token_gap": short, "token_gap_p95": short}, []
    size = np.abs(moved)
    rng = generator(seed, "bootstrap", "tokens")
    people = rng.multinomial(count, np.full(count, 1 / count), draws)
    chosen = rng.multinomial(k, np.full(k, 1 / k), draws)
    sums = people @ size
    pairs = people @ others
    with np.errstate(divide="ignore", invalid="ignore"):
        by_term = sums / pairs
        means = (sums * chosen).sum(axis=1) / (pairs * chosen).sum(axis=1)
    order = np.argsort(size[others], kind="stable")
    ranked = size[others][order]
    tails = [
        _quantile(ranked, np.outer(w, v)[others][order])
        for w, v in zip(people, chosen, strict=True)
    ]
    metrics = {
        "token_gap": _gap(float(size.sum() / others.sum()), means, count, level),
        "token_gap_p95": _tail(
            _quantile(ranked, np.ones(len(ranked))), np.array(tails), count, level
        ),
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
        return {
            "term": name,
            "sentences": rows,
            "gap": None,
            "low": None,
            "high": None,
            "shift": None,
        }
    gap = _gap(float(size.sum() / rows), drawn, rows, level)
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


def _gap(value: float, drawn: Float, sentences: int, level: float) -> MetricValue:
    """Mean of the moves of sentences; where all move alike, some share of further ones may not."""
    found = _with_interval(value, drawn, level)
    if found.low is None or found.low != found.high:
        return found
    return MetricValue(value, *bounded_mean_interval(value, sentences, level))


def _tail(value: float, drawn: Float, sentences: int, level: float) -> MetricValue:
    """Percentile of the moves; of few sentences that move alike a tail of 5 % may be hidden: up to
    1.
    """
    found = _with_interval(value, drawn, level)
    if found.low is None or found.low != found.high:
        return found
    _, hidden = rate_interval(0, sentences, level)
    high = 1.0 if hidden > 1.0 - SHARE else value + hidden * (1.0 - value)
    return MetricValue(value, value * (1.0 - hidden), high)


def _with_interval(value: float, drawn: Float, level: float) -> MetricValue:
    return MetricValue(value, *percentile_interval(drawn, level, value))


KINDS = ("subgroup_auc", "bpsn_auc", "bnsp_auc")
# Bootstrap draws that are weighed at once.
BLOCK = 50


def mention_aucs(
    label: Int,
    score: Float,
    term: Int,
    *,
    names: Sequence[str],
    draws: int = 1000,
    level: float = 0.95,
    min_cell: int = 5,
    seed: int = 0,
) -> tuple[dict[str, MetricValue], dict[str, dict[str, float]]]:
    """Smallest AUC over terms within the term's sentences, and across them and all other sentences.

    ``subgroup_auc`` is that of a term's sentences; ``bpsn_auc`` that of its negative and the
    others' positive ones, ``bnsp_auc`` that of its positive and the others' negative ones (Borkan
    et al. 2019, section 4.1). A small second one says that harmless sentences with the term have
    high scores. `label`, `score` and `term` have the shape (n,); `term` is the position of a
    sentence's term among `names`, or -1. A term needs `min_cell` sentences of each label, and so do
    the others.

    Returns the metrics ``KIND_min``, with bootstrap intervals over sentences, and the AUCs by term
    and kind. ValueError: settings of the bootstrap out of their range.
    """
    check_settings(draws, level, min_cell)
    order = np.argsort(score, kind="stable")
    label = label[order]
    term = term[order]
    ranked = score[order]
    sizes = np.stack(
        [np.bincount(term[label == k] + 1, minlength=len(names) + 1)[1:] for k in (0, 1)]
    )
    rest = np.bincount(label, minlength=2)[:, None] - sizes
    measured = np.flatnonzero((np.minimum(sizes, rest) >= min_cell).all(axis=0))
    if not measured.size:
        lack = MetricValue.insufficient(f"no term has {min_cell} sentences of each label")
        return {f"{kind}_min": lack for kind in KINDS}, {}
    n = len(label)
    exact = _aucs(np.ones((1, n)), label, term, ranked, measured)[0]
    rng = generator(seed, "bootstrap", "mentions")
    drawn = []
    for start in range(0, draws, BLOCK):
        weights = rng.multinomial(n, np.full(n, 1 / n), min(BLOCK, draws - start)).astype(
            np.float64
        )
        drawn.append(_aucs(weights, label, term, ranked, measured))
    # in a draw without one of the labels a term counts for nothing
    smallest = np.fmin.reduce(np.concatenate(drawn), axis=2) if drawn else np.empty((0, len(KINDS)))
    metrics = {}
    for position, kind in enumerate(KINDS):
        spread = smallest[:, position]
        value = float(exact[position].min())
        found = _with_interval(value, spread[np.isfinite(spread)], level)
        if found.low is not None and found.high is not None and found.low == found.high:
            fewest = float(np.minimum(sizes, rest)[:, measured].min())
            ends = auc_interval(value, fewest, fewest, level)
            found = MetricValue(value, min(ends[0], value), max(ends[1], value))
        metrics[f"{kind}_min"] = found
    by_term = {
        names[int(t)]: {kind: float(exact[k, column]) for k, kind in enumerate(KINDS)}
        for column, t in enumerate(measured)
    }
    return metrics, by_term


def _aucs(weights: Float, label: Int, term: Int, ranked: Float, measured: Int) -> Float:
    """AUCs of weighted sentences in the order of their scores, shape (draws, kinds, terms)."""
    positive = weights * label
    negative = weights * (1 - label)
    found = np.empty((len(weights), len(KINDS), measured.size))
    all_positive = positive.sum(axis=1)
    all_negative = negative.sum(axis=1)
    for column, t in enumerate(measured):
        rows = np.flatnonzero(term == t)
        own_positive = positive[:, rows]
        own_negative = negative[:, rows]
        inside = _below(own_negative, ranked[rows], ranked[rows])
        # of all sentences less the term's own: what is left are the others
        others_negative = _below(negative, ranked, ranked[rows]) - inside
        others_positive = _below(positive, ranked, ranked[rows])
        others_positive -= _below(own_positive, ranked[rows], ranked[rows])
        p = own_positive.sum(axis=1)
        q = own_negative.sum(axis=1)
        above = (all_positive - p)[:, None] - others_positive
        with np.errstate(divide="ignore", invalid="ignore"):
            found[:, 0, column] = (own_positive * inside).sum(axis=1) / (p * q)
            found[:, 1, column] = (own_negative * above).sum(axis=1) / (q * (all_positive - p))
            found[:, 2, column] = (own_positive * others_negative).sum(axis=1) / (
                p * (all_negative - q)
            )
    return found


def _below(weights: Float, ranked: Float, at: Float) -> Float:
    """Weight of what has a smaller score, and half of the ties, shape (draws, len(at))."""
    total = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    left, right = (np.searchsorted(ranked, at, side) for side in ("left", "right"))
    return np.asarray((total[:, left] + total[:, right]) / 2.0)
