"""Thresholds per group, so that groups are treated alike by the chosen rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from evenhand.fairlib.methods.base import Callback, Float32, Float64
from evenhand.fairlib.methods.comparators._checks import check_count
from evenhand.fairlib.methods.comparators._libraries import optional_import
from evenhand.fairlib.methods.comparators._stored import Arrays, LinearMethod
from evenhand.fairlib.methods.comparators.groups import check_labels, read_groups
from evenhand.fairlib.methods.comparators.linear import Linear, fit_logistic
from evenhand.fairlib.methods.comparators.validation import set_aside
from evenhand.fairlib.methods.group_reader import GroupReader

__all__ = ["GroupThresholdsClassifier", "Interpolation"]

METHOD = "threshold-optimizer"
CONSTRAINTS = (
    "demographic_parity",
    "equalized_odds",
    "true_positive_rate_parity",
    "true_negative_rate_parity",
    "false_positive_rate_parity",
    "false_negative_rate_parity",
)
# ours to Fairlearn's; the rates do not go with equalized odds
OBJECTIVES = {
    "accuracy": "accuracy_score",
    "balanced_accuracy": "balanced_accuracy_score",
    "selection_rate": "selection_rate",
    "true_positive_rate": "true_positive_rate",
    "true_negative_rate": "true_negative_rate",
}


@dataclass(frozen=True)
class Interpolation:
    r"""
    Randomised thresholds of G groups: the probability of label 1 given score :math:`s` and group.

    .. math:: p(s) = q \, c + (1 - q) \sum_{k=0,1} w_k [s > t_k]

    Attributes
    ----------
    weights, thresholds : ndarray of float64, shape (G, 2)
        :math:`w_k` and :math:`t_k`.
    ignored, constant : ndarray of float64, shape (G,)
        :math:`q`, how likely the score is ignored, and :math:`c`, what then counts.
    """

    weights: Float64
    thresholds: Float64
    ignored: Float64
    constant: Float64

    def expected(self, scores: Float64, groups: NDArray[np.int64]) -> Float64:
        """
        Expected label.

        Parameters
        ----------
        scores : ndarray of float64, shape (n,)
        groups : ndarray of int, shape (n,)

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        above = scores[:, None] > self.thresholds[groups]
        drawn = (self.weights[groups] * above).sum(axis=1)
        ignored = self.ignored[groups]
        return ignored * self.constant[groups] + (1 - ignored) * drawn


class GroupThresholdsClassifier(LinearMethod):
    """
    Fairlearn's ThresholdOptimizer (Hardt et al. 2016) on logistic scores.

    Each group gets one or two thresholds, between which a coin decides, so that the groups' rates are equal
    and the objective is best, on rows that the regression has not seen. ``predict_proba`` is the expected
    value of that randomised label. ``predict`` takes the likelier one: nobody's answer is a matter of chance,
    and the constraint then holds only nearly.

    Parameters
    ----------
    constraint : str
        ``demographic_parity``, ``equalized_odds``, ``true_positive_rate_parity``,
        ``true_negative_rate_parity``, ``false_positive_rate_parity`` or ``false_negative_rate_parity``.
    objective : str
        ``accuracy``, ``balanced_accuracy`` and, unless the constraint is equalized odds, ``selection_rate``,
        ``true_positive_rate`` or ``true_negative_rate``.
    grid_size : int
        Values of the constrained rate that are tried.
    attribute : str or None
        The sensitive feature that forms the groups. None: all, crossed.
    validation_share : float
        Share of the rows set aside for the thresholds.
    C : float
        Inverse of the penalty's strength.
    max_iter : int
        Of the solver.
    random_state : int or None

    Attributes
    ----------
    linear_ : Linear
    n_iter_ : int
        Steps of its solver.
    interpolation_ : Interpolation
    """

    interpolation_: Interpolation
    _reader: GroupReader

    def __init__(
        self,
        *,
        constraint: Literal[
            "demographic_parity",
            "equalized_odds",
            "true_positive_rate_parity",
            "true_negative_rate_parity",
            "false_positive_rate_parity",
            "false_negative_rate_parity",
        ] = "demographic_parity",
        objective: Literal[
            "accuracy", "balanced_accuracy", "selection_rate", "true_positive_rate", "true_negative_rate"
        ] = "accuracy",
        grid_size: int = 1000,
        attribute: str | None = None,
        validation_share: float = 0.25,
        C: float = 1.0,
        max_iter: int = 1000,
        random_state: int | None = None,
    ) -> None:
        self.constraint = constraint
        self.objective = objective
        self.grid_size = grid_size
        self.attribute = attribute
        self.validation_share = validation_share
        self.C = C
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        feature_groups: Mapping[str, Sequence[int]] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """
        Train, and fit the thresholds on rows set aside.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
            Two distinct values.
        sensitive_features : mapping of str to array-like, shape (n,)
            Group of every row, per attribute. To predict, it is read from X.
        feature_groups : mapping of str to sequence of int, or None
            Columns of X by attribute. None names every column by itself: x0, x1, and so on.
        callback : callable or None
            Called once, with (1, 1, {}).

        Raises
        ------
        ValueError
            No sensitive features, an unknown attribute or one of a single group, a group without one of the
            labels, columns that do not tell the group, or a parameter out of its range.
        ImportError
            The optional extra is not installed.
        """
        data, codes = self._check_training(X, y)
        self._check_parameters()
        groups = read_groups(sensitive_features, self.attribute, len(codes), crossed=True)
        self._reader = GroupReader.fit(data, groups.codes, groups.attributes, feature_groups, METHOD)
        train, held = set_aside(codes, self.validation_share, self.random_state, groups.codes)
        for rows, where in ((train, "training"), (held, "validation")):
            check_labels(groups.codes[rows], codes[rows], groups.names, groups.subject, where)
        self.linear_ = fit_logistic(data[train], codes[train], C=self.C, max_iter=self.max_iter)
        self.interpolation_ = _interpolation(
            self.linear_.probability(data[held]),
            codes[held],
            groups.codes[held],
            constraints=self.constraint,
            objective=OBJECTIVES[self.objective],
            grid_size=self.grid_size,
        )
        if callback is not None:
            callback(1, 1, {})
        return self

    def _check_parameters(self) -> None:
        if self.constraint not in CONSTRAINTS:
            raise ValueError(f"constraint must be one of {', '.join(CONSTRAINTS)}, got {self.constraint!r}.")
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}, got {self.objective!r}.")
        if self.constraint == "equalized_odds" and not self.objective.endswith("accuracy"):
            raise ValueError(
                f"objective is {self.objective!r}: equalized_odds takes accuracy or balanced_accuracy."
            )
        check_count("grid_size", self.grid_size)

    def _positive_probability(self, X: Float32) -> Float64:
        return self.interpolation_.expected(self.linear_.probability(X), self._reader.read(X))

    def _arrays(self) -> Arrays:
        found = self.interpolation_
        return {
            **self.linear_.arrays(),
            **self._reader.arrays(),
            "weights": found.weights,
            "thresholds": found.thresholds,
            "ignored": found.ignored,
            "constant": found.constant,
        }

    def _restore(self, arrays: Arrays) -> None:
        self.linear_ = Linear.restore(arrays)
        self._reader = GroupReader.restore(arrays)
        self.interpolation_ = Interpolation(
            **{name: arrays[name] for name in Interpolation.__dataclass_fields__}
        )


def _interpolation(
    scores: Float64, labels: NDArray[np.int64], groups: NDArray[np.int64], **parameters: Any
) -> Interpolation:
    """Randomised thresholds of each group, by Fairlearn."""
    with optional_import(METHOD):
        from fairlearn.postprocessing import ThresholdOptimizer
    optimizer = ThresholdOptimizer(
        estimator=_Scored(), prefit=True, predict_method="predict", flip=False, **parameters
    )
    optimizer.fit(scores[:, None], labels, sensitive_features=groups)
    found = optimizer.interpolated_thresholder_.interpolation_dict
    ordered = [found[group] for group in sorted(found)]
    operations = [(each.operation0, each.operation1) for each in ordered]
    # without flips every operation is "greater than"
    assert all(operation.operator == ">" for pair in operations for operation in pair)
    return Interpolation(
        np.array([(each.p0, each.p1) for each in ordered], np.float64),
        np.array([[operation.threshold for operation in pair] for pair in operations], np.float64),
        np.array([each.get("p_ignore", 0.0) for each in ordered], np.float64),
        np.array([each.get("prediction_constant", 0.0) for each in ordered], np.float64),
    )


class _Scored(BaseEstimator):  # type: ignore[misc]
    """A fitted estimator for Fairlearn whose only feature is our own score, to the last bit."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> _Scored:
        """Do nothing."""
        return self

    def predict(self, X: Any) -> Float64:
        """Give the scores back."""
        return np.asarray(X, np.float64)[:, 0]
