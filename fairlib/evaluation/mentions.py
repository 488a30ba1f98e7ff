"""How well scores rank sentences that mention a term, among themselves and against all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation.bootstrap import percentile_interval
from evenhand.fairlib.evaluation.evaluate import MetricValue, check_settings
from evenhand.fairlib.execution import generator

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

    ``subgroup_auc`` is that of a term's sentences; ``bpsn_auc`` that of its negative and the others' positive
    ones, ``bnsp_auc`` that of its positive and the others' negative ones (Borkan et al. 2019, section 4.1). A
    small second one says that harmless sentences with the term have high scores. `label`, `score` and `term`
    have the shape (n,); `term` is the position of a sentence's term among `names`, or -1. A term needs
    `min_cell` sentences of each label, and so do the others.

    Returns the metrics ``KIND_min``, with bootstrap intervals over sentences, and the AUCs by term and kind.
    ValueError: settings of the bootstrap out of their range.
    """
    check_settings(draws, level, min_cell)
    order = np.argsort(score, kind="stable")
    label, term, ranked = label[order], term[order], score[order]
    sizes = np.stack([np.bincount(term[label == k] + 1, minlength=len(names) + 1)[1:] for k in (0, 1)])
    rest = np.bincount(label, minlength=2)[:, None] - sizes
    measured = np.flatnonzero((np.minimum(sizes, rest) >= min_cell).all(axis=0))
    if not measured.size:
        lack = MetricValue.insufficient(f"no term has {min_cell} sentences of each label")
        return {f"{kind}_min": lack for kind in KINDS}, {}
    n = len(label)
    exact = _aucs(np.ones((1, n)), label, term, ranked, measured)[0]
    rng, drawn = generator(seed, "bootstrap", "mentions"), []
    for start in range(0, draws, BLOCK):
        weights = rng.multinomial(n, np.full(n, 1 / n), min(BLOCK, draws - start)).astype(np.float64)
        drawn.append(_aucs(weights, label, term, ranked, measured))
    # in a draw without one of the labels a term counts for nothing
    smallest = np.fmin.reduce(np.concatenate(drawn), axis=2) if drawn else np.empty((0, len(KINDS)))
    metrics = {}
    for position, kind in enumerate(KINDS):
        value, spread = float(exact[position].min()), smallest[:, position]
        interval = percentile_interval(spread[np.isfinite(spread)], level, value) if draws else None
        metrics[f"{kind}_min"] = MetricValue(value, *(interval or (None, None)))
    by_term = {
        names[int(t)]: {kind: float(exact[k, column]) for k, kind in enumerate(KINDS)}
        for column, t in enumerate(measured)
    }
    return metrics, by_term


def _aucs(weights: Float, label: Int, term: Int, ranked: Float, measured: Int) -> Float:
    """AUCs of weighted sentences in the order of their scores, shape (draws, kinds, terms)."""
    positive, negative = weights * label, weights * (1 - label)
    found = np.empty((len(weights), len(KINDS), measured.size))
    all_positive, all_negative = positive.sum(axis=1), negative.sum(axis=1)
    for column, t in enumerate(measured):
        rows = np.flatnonzero(term == t)
        own_positive, own_negative = positive[:, rows], negative[:, rows]
        inside = _below(own_negative, ranked[rows], ranked[rows])
        # of all sentences less the term's own: what is left are the others
        others_negative = _below(negative, ranked, ranked[rows]) - inside
        others_positive = _below(positive, ranked, ranked[rows])
        others_positive -= _below(own_positive, ranked[rows], ranked[rows])
        p, q = own_positive.sum(axis=1), own_negative.sum(axis=1)
        above = (all_positive - p)[:, None] - others_positive
        with np.errstate(divide="ignore", invalid="ignore"):
            found[:, 0, column] = (own_positive * inside).sum(axis=1) / (p * q)
            found[:, 1, column] = (own_negative * above).sum(axis=1) / (q * (all_positive - p))
            found[:, 2, column] = (own_positive * others_negative).sum(axis=1) / (p * (all_negative - q))
    return found


def _below(weights: Float, ranked: Float, at: Float) -> Float:
    """Weight of what has a smaller score, and half of the ties, shape (draws, len(at))."""
    total = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    left, right = (np.searchsorted(ranked, at, side) for side in ("left", "right"))
    return np.asarray((total[:, left] + total[:, right]) / 2.0)
