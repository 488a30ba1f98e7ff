"""Exponentiated gradient: a weighted vote of logistic regressions that meets a constraint on groups."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.methods.base import Callback, Float32, Float64
from evenhand.fairlib.methods.comparators._checks import check_count
from evenhand.fairlib.methods.comparators._libraries import optional_import
from evenhand.fairlib.methods.comparators._stored import Arrays, ArraysMethod
from evenhand.fairlib.methods.comparators.groups import check_labels, read_groups
from evenhand.fairlib.methods.comparators.linear import Linear, logistic_regression

__all__ = ["ExponentiatedGradientClassifier"]

METHOD = "exponentiated-gradient"
# the constraints, and Fairlearn's classes for them
MOMENTS = {
    "demographic_parity": "DemographicParity",
    "equalized_odds": "EqualizedOdds",
    "true_positive_rate_parity": "TruePositiveRateParity",
    "false_positive_rate_parity": "FalsePositiveRateParity",
    "error_rate_parity": "ErrorRateParity",
}
BY_LABEL = ("equalized_odds", "true_positive_rate_parity", "false_positive_rate_parity")
SOLVER_STEPS = 1000


class ExponentiatedGradientClassifier(ArraysMethod):
    """
    Fairlearn's ExponentiatedGradient (Agarwal et al. 2018, algorithm 1) over logistic regressions.

    The result is a randomised classifier: a few regressions and how often each decides. ``predict_proba`` is
    the expected value of its label, the weighted vote. ``predict`` takes the likelier label: nobody's answer
    is a matter of chance, and the constraint then holds only nearly. The group is not needed to predict.

    Parameters
    ----------
    constraint : str
        ``demographic_parity``, ``equalized_odds``, ``true_positive_rate_parity``,
        ``false_positive_rate_parity`` or ``error_rate_parity``.
    eps : float
        How far a group's rate may lie from that of everybody, also the inverse of the multipliers' bound.
    max_iter : int
        Iterations of the reduction, each of several regressions.
    attribute : str or None
        The sensitive feature that forms the groups. None: all, crossed.
    C : float
        Inverse of the penalty's strength.
    random_state : int or None
        Without effect: nothing is drawn.

    Attributes
    ----------
    weights_ : ndarray of float64, shape (m,)
        How often each regression decides; those that never do are dropped.
    votes_ : list of Linear
    n_iter_ : int
        Iterations of the reduction.
    """

    weights_: Float64
    votes_: list[Linear]
    n_iter_: int

    def __init__(
        self,
        *,
        constraint: Literal[
            "demographic_parity",
            "equalized_odds",
            "true_positive_rate_parity",
            "false_positive_rate_parity",
            "error_rate_parity",
        ] = "demographic_parity",
        eps: float = 0.01,
        max_iter: int = 50,
        attribute: str | None = None,
        C: float = 1.0,
        random_state: int | None = None,
    ) -> None:
        self.constraint = constraint
        self.eps = eps
        self.max_iter = max_iter
        self.attribute = attribute
        self.C = C
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """
        Train.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
            Two distinct values.
        sensitive_features : mapping of str to array-like, shape (n,)
            Group of every row, per attribute. Not needed to predict.
        callback : callable or None
            Called once, with (1, 1, {}).

        Raises
        ------
        ValueError
            No sensitive features, an unknown attribute or one of a single group, a group without one of the
            labels where the constraint compares by label, or a parameter out of its range.
        ImportError
            The optional extra is not installed.
        """
        data, codes = self._check_training(X, y)
        if self.constraint not in MOMENTS:
            raise ValueError(f"constraint must be one of {', '.join(MOMENTS)}, got {self.constraint!r}.")
        if not 0 < self.eps <= 1:
            raise ValueError(f"eps must lie in (0, 1], got {self.eps!r}.")
        check_count("max_iter", self.max_iter)
        groups = read_groups(sensitive_features, self.attribute, len(codes), crossed=True)
        if self.constraint in BY_LABEL:
            check_labels(groups.codes, codes, groups.names, groups.subject, "training")
        fitted = reduce(
            data.astype(np.float64),
            codes,
            groups.codes,
            estimator=logistic_regression(data.shape[1], C=self.C, max_iter=SOLVER_STEPS),
            constraint=self.constraint,
            eps=self.eps,
            max_iter=self.max_iter,
        )
        weights = fitted.weights_.sort_index()
        kept = weights.index[weights > 0]
        self.weights_ = weights[kept].to_numpy(np.float64)
        self.votes_ = [_linear(fitted.predictors_[index], data.shape[1]) for index in kept]
        self.n_iter_ = fitted.last_iter_ + 1
        if callback is not None:
            callback(1, 1, {})
        return self

    def _positive_probability(self, X: Float32) -> Float64:
        votes = np.stack([vote.logits(X) > 0 for vote in self.votes_], axis=1)
        # the weights of a linear program may add up to a little more than 1
        return np.clip((votes * self.weights_).sum(axis=1), 0.0, 1.0)

    def _arrays(self) -> Arrays:
        return {
            "weights": self.weights_,
            "coefficients": np.stack([vote.coefficients for vote in self.votes_]),
            "intercepts": np.array([vote.intercept for vote in self.votes_]),
            "n_iter": np.array([self.n_iter_]),
        }

    def _restore(self, arrays: Arrays) -> None:
        self.weights_, self.n_iter_ = arrays["weights"], int(arrays["n_iter"][0])
        self.votes_ = [
            Linear(coefficients, float(intercept))
            for coefficients, intercept in zip(arrays["coefficients"], arrays["intercepts"], strict=True)
        ]


def reduce(
    X: Float64,
    codes: NDArray[np.int64],
    groups: NDArray[np.int64],
    *,
    estimator: Any,
    constraint: str,
    eps: float,
    max_iter: int,
) -> Any:
    """
    Fairlearn's fitted reduction.

    Parameters
    ----------
    X : ndarray of float64, shape (n, d)
    codes, groups : ndarray of int, shape (n,)
    estimator : LogisticRegression
        Not fitted.
    constraint : str
    eps : float
    max_iter : int

    Raises
    ------
    ImportError
        The optional extra is not installed.
    """
    with optional_import(METHOD):
        from fairlearn import reductions
    moment = getattr(reductions, MOMENTS[constraint])(difference_bound=eps)
    reduction = reductions.ExponentiatedGradient(estimator, moment, eps=eps, max_iter=max_iter)
    with warnings.catch_warnings():
        # of how the library writes to pandas tables
        warnings.simplefilter("ignore", DeprecationWarning)
        return reduction.fit(X, codes, sensitive_features=groups)


def _linear(predictor: Any, n_columns: int) -> Linear:
    """A predictor's decision as a linear one; where the weighted labels were all alike it is constant."""
    if hasattr(predictor, "coef_"):
        return Linear(predictor.coef_[0], float(predictor.intercept_[0]))
    return Linear(np.zeros(n_columns), 1.0 if predictor.constant == 1 else -1.0)
