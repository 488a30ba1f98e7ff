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

    .. math:: \frac{1}{|P|} \sum_{(i, t) \in P} |p(x_i^t) - p(x_i)|, \qquad
              P = \{(i, t): t \ne t_i\}

    (Garg et al. 2019). `probability`, shape (m,), is that of the sentences, `copies`, shape (m, k),
    that of their copies by term, and `own`, shape (m,), the position of each sentence's own term
    :math:`t_i`. The bootstrap resamples sentences and terms, as both are samples; the intervals by
    term resample sentences.

    Parameters
    ----------
    probability : ndarray of float64, shape (m,)
        Probability of each sentence.
    copies : ndarray of float64, shape (m, k)
        Probability of its copies by term.
    own : ndarray of int64, shape (m,)
        Position of each sentence's own term.
    names : sequence of str
        Terms, by position.
    draws : int, default 1000
        Bootstrap draws; 0 for no interval.
    level : float, default 0.95
        Coverage of the intervals, in (0, 1).
    min_cell : int, default 5
        Fewest sentences of a number.
    seed : int, default 0
        Seed of the bootstrap.

    Returns
    -------
    tuple of dict and list of dict
        The metrics ``token_gap`` and ``token_gap_p95``, and per term ``term``, ``sentences``,
        ``gap`` (mean absolute difference) with ``low`` and ``high``, and ``shift`` (mean
        difference), or None for fewer sentences than `min_cell`.

    Raises
    ------
    ValueError
        For settings of the bootstrap out of their range.

    References
    ----------
    .. [1] S. Garg et al., "Counterfactual Fairness in Text Classification through Robustness", AIES
       2019.
    """
    check_settings(draws, level, min_cell)
    count, k = copies.shape
    is_other_term = own[:, None] != np.arange(k)
    moved = np.where(is_other_term, copies - probability[:, None], 0.0)
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
    pairs = people @ is_other_term
    with np.errstate(divide="ignore", invalid="ignore"):
        by_term = sums / pairs
        means = (sums * chosen).sum(axis=1) / (pairs * chosen).sum(axis=1)
    order = np.argsort(size[is_other_term], kind="stable")
    ranked = size[is_other_term][order]
    tails = []
    for of_sentences, of_terms in zip(people, chosen, strict=True):
        tails.append(_quantile(ranked, np.outer(of_sentences, of_terms)[is_other_term][order]))
    metrics = {
        "token_gap": _gap(float(size.sum() / is_other_term.sum()), means, count, level),
        "token_gap_p95": _tail(
            _quantile(ranked, np.ones(len(ranked))), np.array(tails), count, level
        ),
    }
    return metrics, [
        _of_term(
            names[t], size[:, t], moved[:, t], is_other_term[:, t], by_term[:, t], level, min_cell
        )
        for t in range(k)
    ]


def _of_term(
    name: str, size: Float, moved: Float, others: Bool, drawn: Float, level: float, least: int
) -> dict[str, Any]:
    """Moves of the sentences of other terms when they get this term."""
    rows = int(others.sum())
    if rows < least:
        return {"term": name, "sentences": rows, **dict.fromkeys(("gap", "low", "high", "shift"))}
    gap = _gap(float(size.sum() / rows), drawn, rows, level)
    shift = float(moved.sum() / rows)
    return {
        "term": name,
        "sentences": rows,
        "gap": gap.value,
        "low": gap.low,
        "high": gap.high,
        "shift": shift,
    }


def _quantile(ranked: Float, weights: Float | Int) -> float:
    """Least value that a share of .95 of the weight does not exceed; NaN without weight."""
    total = np.cumsum(weights)
    if not total[-1]:
        return float("nan")
    # a margin for rounding, which must not skip a value
    return float(ranked[np.searchsorted(total, SHARE * total[-1] - 1e-9)])


def _gap(value: float, drawn: Float, sentences: int, level: float) -> MetricValue:
    """Mean of the moves of sentences; where all move alike, some share of further ones may not."""
    gap = _with_interval(value, drawn, level)
    if gap.low is None or gap.low != gap.high:
        return gap
    return MetricValue(value, *bounded_mean_interval(value, sentences, level))


def _tail(value: float, drawn: Float, sentences: int, level: float) -> MetricValue:
    """Percentile of the moves; of few sentences that move alike a tail of 5 % may be hidden: up to
    1.
    """
    tail = _with_interval(value, drawn, level)
    if tail.low is None or tail.low != tail.high:
        return tail
    _, hidden = rate_interval(0, sentences, level)
    high = 1.0 if hidden > 1.0 - SHARE else value + hidden * (1.0 - value)
    return MetricValue(value, value * (1.0 - hidden), high)


def _with_interval(value: float, drawn: Float, level: float) -> MetricValue:
    """A metric with the percentile interval of its draws."""
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
    et al. 2019). A small second one says that harmless sentences with the term have
    high scores. `label`, `score` and `term` have the shape (n,); `term` is the position of a
    sentence's term among `names`, or -1. A term needs `min_cell` sentences of each label, and so do
    the others.

    Parameters
    ----------
    label : ndarray of int64, shape (n,)
        True labels, 0 or 1.
    score : ndarray of float64, shape (n,)
        Scores.
    term : ndarray of int64, shape (n,)
        Position of each sentence's term among `names`, or -1.
    names : sequence of str
        Terms, by position.
    draws : int, default 1000
        Bootstrap draws; 0 for no interval.
    level : float, default 0.95
        Coverage of the intervals, in (0, 1).
    min_cell : int, default 5
        Sentences of each label that a term needs, and so do the others.
    seed : int, default 0
        Seed of the bootstrap.

    Returns
    -------
    tuple of dict and dict
        The metrics ``KIND_min``, with bootstrap intervals over sentences, and the AUCs by term and
        kind.

    Raises
    ------
    ValueError
        For settings of the bootstrap out of their range.

    References
    ----------
    .. [1] D. Borkan et al., "Nuanced Metrics for Measuring Unintended Bias with Real Data for Text
       Classification", companion of WWW 2019.
    """
    check_settings(draws, level, min_cell)
    order = np.argsort(score, kind="stable")
    label = label[order]
    term = term[order]
    ranked = score[order]
    # sentences with each term, and without it, by label: shape (2, terms)
    by_label = [np.bincount(term[label == k] + 1, minlength=len(names) + 1)[1:] for k in (0, 1)]
    with_term = np.stack(by_label)
    without_term = np.bincount(label, minlength=2)[:, None] - with_term
    sizes = np.minimum(with_term, without_term)
    measured = np.flatnonzero((sizes >= min_cell).all(axis=0))
    if not measured.size:
        short = MetricValue.insufficient(f"no term has {min_cell} sentences of each label")
        return {f"{kind}_min": short for kind in KINDS}, {}
    n = len(label)
    exact = _aucs(np.ones((1, n)), label, term, ranked, measured)[0]
    rng = generator(seed, "bootstrap", "mentions")
    drawn = [np.empty((0, *exact.shape))]
    for start in range(0, draws, BLOCK):
        weights = rng.multinomial(n, np.full(n, 1 / n), min(BLOCK, draws - start))
        drawn.append(_aucs(weights.astype(np.float64), label, term, ranked, measured))
    # in a draw without one of the labels a term counts for nothing
    smallest = np.fmin.reduce(np.concatenate(drawn), axis=2)
    metrics = {}
    for position, kind in enumerate(KINDS):
        spread = smallest[:, position]
        value = float(exact[position].min())
        metric = _with_interval(value, spread[np.isfinite(spread)], level)
        if metric.low is not None and metric.low == metric.high:
            fewest = float(sizes[:, measured].min())
            ends = auc_interval(value, fewest, fewest, level)
            metric = MetricValue(value, min(ends[0], value), max(ends[1], value))
        metrics[f"{kind}_min"] = metric
    by_term = {}
    for column, t in enumerate(measured):
        areas = exact[:, column].tolist()
        by_term[names[int(t)]] = dict(zip(KINDS, areas, strict=True))
    return metrics, by_term


def _aucs(weights: Float, label: Int, term: Int, ranked: Float, measured: Int) -> Float:
    """AUCs of weighted sentences in the order of their scores, shape (draws, kinds, terms)."""
    positive = weights * label
    negative = weights * (1 - label)
    areas = np.empty((len(weights), len(KINDS), measured.size))
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
            areas[:, 0, column] = (own_positive * inside).sum(axis=1) / (p * q)
            areas[:, 1, column] = (own_negative * above).sum(axis=1) / (q * (all_positive - p))
            concordant = (own_positive * others_negative).sum(axis=1)
            areas[:, 2, column] = concordant / (p * (all_negative - q))
    return areas


def _below(weights: Float, ranked: Float, at: Float) -> Float:
    """Weight of what has a smaller score, and half of the ties, shape (draws, len(at))."""
    total = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    first = np.searchsorted(ranked, at, "left")
    last = np.searchsorted(ranked, at, "right")
    return np.asarray((total[:, first] + total[:, last]) / 2.0)
