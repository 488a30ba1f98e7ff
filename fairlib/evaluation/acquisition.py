"""Which questions an agent asked of whom, and how well answers predict sensitive groups."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.evaluation.bootstrap import (
    auc_draws,
    multinomial_chunks,
    percentile_interval,
    score_table,
)
from evenhand.fairlib.evaluation.closed_intervals import auc_interval, rate_interval
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.metrics import auc
from evenhand.fairlib.execution import derive_seed, generator
from evenhand.fairlib.splits import persons


@dataclass(frozen=True, eq=False)
class Questions:
    """What was asked of n people, of G feature groups."""

    names: tuple[str, ...]  # length G: in the order of the actions
    # shape (n, G): positions of the groups in the order in which they were asked, then -1
    order: Int
    allowed: Bool  # shape (G,): which groups may be asked at all

    @property
    def counts(self) -> Int:
        """How many groups each person was asked, shape (n,)."""
        return (self.order >= 0).sum(axis=1)

    def positions(self, group: int) -> Int:
        """When each person was asked a group, from 1; 0 where never. Shape (n,).

        Parameters
        ----------
        group : int
            Position of the group in `names`.

        Returns
        -------
        ndarray of int64, shape (n,)
            1 if it was asked first; 0 if never.
        """
        hits = self.order == group
        return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def mean_of_people(
    counts: Int | Float,
    *,
    draws: int,
    level: float,
    min_cell: int,
    seed: int,
    least: float = 0.0,
    most: float = math.inf,
) -> MetricValue:
    """Mean of a number per person, such as that of the features asked, with a percentile bootstrap
    interval.

    Parameters
    ----------
    counts : ndarray of int64 or ndarray of float64, shape (n,)
        A number per person, with few different values; their order does not matter.
    draws : int
        Bootstrap draws; 0 for no interval.
    level : float
        Coverage of the interval, in (0, 1).
    min_cell : int
        Fewest people of a number.
    seed : int
        Seed of the bootstrap.
    least : float, default 0.0
        Smallest possible number of a person.
    most : float, default math.inf
        Largest possible number of a person.

    Returns
    -------
    MetricValue
        Insufficient with fewer people than `min_cell`. Where all have the same number, the interval
        is widened by the share of further people who may have another one, as far as to a bound, or
        by 1 without one.
    """
    n = len(counts)
    if n < min_cell:
        return MetricValue.insufficient(f"the table: only {n} rows, fewer than {min_cell}")
    numbers, weights = np.unique(np.asarray(counts, dtype=np.float64), return_counts=True)
    mean = float(weights @ numbers / n)
    rng = generator(seed, "bootstrap", "features_asked")
    means = [np.empty(0)]
    for chunk in multinomial_chunks(weights, draws, rng):
        means.append(chunk @ numbers / n)
    low, high = percentile_interval(np.concatenate(means), level, mean)
    if low is not None and low == high:
        _, share = rate_interval(0, n, level)
        low = mean - share * min(mean - least, max(mean, 1.0))
        high = mean + share * min(most - mean, max(mean, 1.0))
    return MetricValue(mean, low, high)


def asked_histogram(questions: Questions) -> list[int]:
    """People who were asked 0, 1, ..., G groups.

    Parameters
    ----------
    questions : Questions
        The groups that were asked of n people.

    Returns
    -------
    list of int
        Length G + 1; the sum is n.
    """
    return np.bincount(questions.counts, minlength=len(questions.names) + 1).tolist()


def question_report(
    questions: Questions,
    label: Int,
    sensitive: Mapping[str, NDArray[np.object_]],
    *,
    level: float,
    min_cell: int,
) -> list[dict[str, Any]]:
    """Who is asked each group, as plain JSON types.

    Parameters
    ----------
    questions : Questions
        The groups that were asked of n people.
    label : ndarray of int64, shape (n,)
        True labels, 0 or 1.
    sensitive : mapping
        By attribute, the group of every person, shape (n,).
    level : float
        Coverage of the interval, in (0, 1).
    min_cell : int
        Fewest people of a group or label with a share; None in place of it for fewer.

    Returns
    -------
    list of dict
        Per group of features, in the order of the actions, ``name``, ``allowed``, ``share`` of
        people asked with ``low`` and ``high``, ``mean_position`` (1 is first; None if never asked),
        ``first_share``, ``by_label`` and ``by_group``.
    """
    report = []
    for group, name in enumerate(questions.names):
        positions = questions.positions(group)
        is_asked = positions > 0
        count = int(is_asked.sum())
        n = len(is_asked)
        low = 0.0
        high = 0.0
        # that nobody is asked a forbidden group is certain
        if questions.allowed[group]:
            low, high = rate_interval(count, n, level)
        mean_position = None
        if count:
            mean_position = float(positions[is_asked].mean())
        by_label = {}
        for value in (0, 1):
            by_label[str(value)] = _share(is_asked, label == value, min_cell)
        by_group = {}
        for attribute, groups in sensitive.items():
            by_group[attribute] = _shares_by_group(is_asked, groups, min_cell)
        report.append(
            {
                "name": name,
                "allowed": bool(questions.allowed[group]),
                "share": count / n,
                "low": low,
                "high": high,
                "mean_position": mean_position,
                "first_share": float((positions == 1).mean()),
                "by_label": by_label,
                "by_group": by_group,
            }
        )
    return report


def _share(asked: Bool, rows: Bool, min_cell: int) -> float | None:
    """Share of some people who were asked; None for too few people."""
    if rows.sum() < min_cell:
        return None
    return float(asked[rows].mean())


def _shares_by_group(
    asked: Bool, groups: NDArray[np.object_], min_cell: int
) -> dict[str, dict[str, Any] | None]:
    """Share of each sensitive group who were asked, and its rows; None for too few rows."""
    shares: dict[str, dict[str, Any] | None] = {}
    for name in sorted(set(groups.tolist())):
        rows = groups == name
        share = _share(asked, rows, min_cell)
        shares[name] = None
        if share is not None:
            shares[name] = {"share": share, "rows": int(rows.sum())}
    return shares


FOLDS = 5


def answers_matrix(X: Float32, known: Bool, columns: list[list[int]]) -> Float32:
    """What an adversary sees: the answers, 0 where none was given, and which groups were asked.

    Parameters
    ----------
    X : ndarray of float32, shape (n, d)
        Encoded rows.
    known : ndarray of bool, shape (n, G)
        Which groups each person was asked.
    columns : sequence
        Columns of X of each group.

    Returns
    -------
    ndarray of float32, shape (n, d + G)
        Answers, then flags.
    """
    answered = np.zeros(X.shape, dtype=np.bool_)
    for group, places in enumerate(columns):
        answered[:, places] = known[:, group, None]
    return np.hstack([np.where(answered, X, 0), known]).astype(np.float32)


def adversary_auc(
    answers: Float32,
    groups: NDArray[Any],
    *,
    draws: int,
    level: float,
    min_cell: int,
    seed: int,
    people: Int | None = None,
) -> MetricValue:
    """AUC of the strongest adversary: logistic regression, a network of one layer, or boosted
    trees.

    `answers`, shape (n, k), are those of :func:`answers_matrix`, and `groups`, shape (n,), those to
    predict. Each adversary learns on four fifths of the rows and is measured on the last, five
    times; its AUC is the mean over the fifths and, of more than two groups, over each group against
    the rest. Groups of fewer than `min_cell` rows count among the rest only. The interval resamples
    the rows of each fifth and does not train again. The largest of three AUCs is too high rather
    than too low. With `people`, numbers of shape (n,), fifths and draws are of people with all
    their rows, and people are counted in place of rows: one that has learned rows of the same
    person would do well without using the answers.

    Parameters
    ----------
    answers : ndarray of float32, shape (n, k)
        Rows of :func:`answers_matrix`.
    groups : ndarray, shape (n,)
        Sensitive groups to predict.
    draws : int
        Bootstrap draws; 0 for no interval.
    level : float
        Coverage of the interval, in (0, 1).
    min_cell : int
        Groups of fewer rows count among the rest only.
    seed : int
        Seed of the bootstrap.
    people : ndarray of int64, shape (n,), optional
        Numbers of people: fifths and draws are of people with all their rows, and people are
        counted in place of rows, because an adversary that has learned rows of the same person
        would do well without using the answers.

    Returns
    -------
    MetricValue
        Insufficient without two groups of enough rows.
    """
    names, codes = np.unique(groups, return_inverse=True)
    first_row = person = np.arange(len(codes))
    unit = "rows"
    if people is not None:
        first_row, person = persons(people)
        unit = "people"
    counts = np.bincount(codes[first_row], minlength=len(names))
    least = max(min_cell, FOLDS)
    large = np.flatnonzero(np.minimum(counts, len(first_row) - counts) >= least)
    if large.size == 0:
        return MetricValue.insufficient(f"fewer than two groups of {least} {unit} to compare")
    target, predicted = _classes(codes, large, first_row)
    folds = _folds(target, first_row, person, seed)
    value, strongest = _strongest(answers, codes, target, predicted, folds, seed)
    rng = generator(seed, "bootstrap", "adversary")
    drawn = []
    for part in strongest:
        people_of_part = None if people is None else people[part.rows]
        drawn += auc_draws(part.truth, [part.score], draws, rng, people=people_of_part)
    low, high = percentile_interval(np.mean(drawn, axis=0), level, value)
    if low is not None and high is not None and low == high:
        smallest = counts[large].min()
        ends = auc_interval(value, float(smallest), float(len(first_row) - smallest), level)
        low = min(ends[0], value)
        high = max(ends[1], value)
    return MetricValue(value, low, high)


def _classes(codes: Int, large: Int, first_row: Int) -> tuple[Int, list[tuple[int, int]]]:
    """Class of each row, and the classes to measure: their places among all, and their groups.

    A `large` group is a class. The other groups are one class together, or part of a large one
    where they are too few for all folds.
    """
    small = ~np.isin(codes, large)
    class_of_small = large[0]
    if small[first_row].sum() >= FOLDS:
        class_of_small = codes.max() + 1
    classes, target = np.unique(np.where(small, class_of_small, codes), return_inverse=True)
    predicted = [(column, group) for column, group in enumerate(classes) if group in large]
    if len(classes) == 2:
        # of two groups, either against the rest is the same
        predicted = predicted[-1:]
    return target, predicted


def _strongest(
    answers: Float32,
    codes: Int,
    target: Int,
    predicted: list[tuple[int, int]],
    folds: list[tuple[Int, Int]],
    seed: int,
) -> tuple[float, list[_Scores]]:
    """AUC of the strongest adversary, and its scores by group and fold."""
    value = -math.inf
    strongest: list[_Scores] = []
    for learner in _learners(derive_seed(seed, "adversary")):
        probability = _cross_fitted(learner, answers, target, folds)
        scores = []
        for column, group in predicted:
            for _, rows in folds:
                truth = (codes[rows] == group).astype(np.int64)
                scores.append(_Scores(truth, probability[rows, column].astype(np.float64), rows))
        area = float(np.mean([auc(*score_table(part.truth, part.score)) for part in scores]))
        if area > value:
            value = area
            strongest = scores
    return value, strongest


class _Scores(NamedTuple):
    """Scores of one group against the rest, on one fifth of the rows."""

    truth: Int  # 1 for rows of the group
    score: Float
    rows: Int  # positions in the table


def _folds(target: Int, first_row: Int, person: Int, seed: int) -> list[tuple[Int, Int]]:
    """Rows to learn and to measure on, by fold; all rows of a person are on one side."""
    from sklearn.model_selection import StratifiedKFold

    shuffled = StratifiedKFold(FOLDS, shuffle=True, random_state=seed % 2**32)
    folds = []
    for learned, measured in shuffled.split(first_row, target[first_row]):
        rows_to_learn = np.flatnonzero(np.isin(person, learned))
        rows_to_measure = np.flatnonzero(np.isin(person, measured))
        folds.append((rows_to_learn, rows_to_measure))
    return folds


def _cross_fitted(
    learner: Any, answers: Float32, target: Int, folds: list[tuple[Int, Int]]
) -> NDArray[Any]:
    """Probability of each class for rows that the adversary did not learn on, shape (n, K)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import cross_val_predict

    # of so small operations, threads that wait for each other take many times as long
    with threadpool_limits(1, "blas"), warnings.catch_warnings():
        # the network has a fixed number of epochs
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(
            cross_val_predict(learner, answers, target, cv=folds, method="predict_proba")
        )


def _learners(seed: int) -> list[Any]:
    """Untrained adversaries."""
    import xgboost as xgb
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    seed %= 2**31
    network = MLPClassifier((32,), max_iter=30, tol=0.0, n_iter_no_change=30, random_state=seed)
    trees = xgb.XGBClassifier(
        n_estimators=100, max_depth=3, learning_rate=0.1, n_jobs=1, random_state=seed
    )
    linear = LogisticRegression(max_iter=1000)
    return [
        make_pipeline(StandardScaler(), linear),
        make_pipeline(StandardScaler(), network),
        trees,
    ]
