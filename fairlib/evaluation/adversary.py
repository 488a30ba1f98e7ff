"""How well an adversary tells sensitive groups from what was asked of people."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.evaluation.bootstrap import auc_draws, percentile_interval, score_table
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.metrics import auc
from evenhand.fairlib.execution import derive_seed, generator

FOLDS = 5


def answers_matrix(X: Float32, known: Bool, columns: list[list[int]]) -> Float32:
    """What an adversary sees: the answers, 0 where none was given, and which groups were asked.

    X has the shape (n, d), `known`, bool, the shape (n, G), and `columns` are those of each group.
    """
    answered = np.zeros(X.shape, dtype=np.bool_)
    for group, places in enumerate(columns):
        answered[:, places] = known[:, group, None]
    return np.hstack([np.where(answered, X, 0), known]).astype(np.float32)


def adversary_auc(
    answers: Float32, groups: NDArray[Any], *, draws: int, level: float, min_cell: int, seed: int
) -> MetricValue:
    """AUC of the strongest adversary: logistic regression, a network of one layer, or boosted trees.

    `answers`, shape (n, k), are those of :func:`answers_matrix`, and `groups`, shape (n,), those to predict.
    Each adversary learns on four fifths of the rows and is measured on the last, five times; its AUC is the
    mean over the fifths and, of more than two groups, over each group against the rest. Groups of fewer than
    `min_cell` rows count among the rest only. The interval resamples the rows of each fifth and does not
    train again. The largest of three AUCs is too high rather than too low.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    names, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    least = max(min_cell, FOLDS)
    large = np.flatnonzero(np.minimum(counts, len(codes) - counts) >= least)
    if large.size == 0:
        return MetricValue.insufficient(f"fewer than two groups of {least} rows to tell apart")
    # the other groups are one class, or part of a large one where they are too few for all folds
    small = ~np.isin(codes, large)
    classes = np.where(small, len(names) if small.sum() >= FOLDS else large[0], codes)
    listed, target = np.unique(classes, return_inverse=True)
    shuffled = StratifiedKFold(FOLDS, shuffle=True, random_state=seed % 2**32)
    folds = list(shuffled.split(answers, target))
    # by adversary: AUC, and truth and score of every group and fifth
    found: list[tuple[float, list[tuple[Int, Float]]]] = []
    for learner in _learners(derive_seed(seed, "adversary")):
        # of so small operations, threads that wait for each other take many times as long
        with threadpool_limits(1, "blas"), warnings.catch_warnings():
            # the network has a fixed number of epochs
            warnings.simplefilter("ignore", ConvergenceWarning)
            given = cross_val_predict(learner, answers, target, cv=folds, method="predict_proba")
        # of two groups, either against the rest is the same
        scores = [
            ((codes[rows] == group).astype(np.int64), given[rows, place].astype(np.float64))
            for place, group in list(enumerate(listed))[len(listed) == 2 :]
            if group in large
            for _, rows in folds
        ]
        found.append((float(np.mean([auc(*score_table(*fold)) for fold in scores])), scores))
    value, scores = max(found, key=lambda one: one[0])
    if not draws:
        return MetricValue(value)
    rng = generator(seed, "bootstrap", "adversary")
    drawn = np.mean([auc_draws(truth, [score], draws, rng)[0] for truth, score in scores], axis=0)
    interval = percentile_interval(drawn, level, value) or (None, None)
    return MetricValue(value, *interval)


def _learners(seed: int) -> list[Any]:
    """Untrained adversaries."""
    import xgboost as xgb
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    seed %= 2**31
    network = MLPClassifier((32,), max_iter=30, tol=0.0, n_iter_no_change=30, random_state=seed)
    trees = xgb.XGBClassifier(n_estimators=100, max_depth=3, learning_rate=0.1, n_jobs=1, random_state=seed)
    linear = LogisticRegression(max_iter=1000)
    return [make_pipeline(StandardScaler(), linear), make_pipeline(StandardScaler(), network), trees]
