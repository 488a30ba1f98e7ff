"""Logistic regression, no mitigation."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike

from evenhand.fairlib.methods.base import Callback, Float32, Float64
from evenhand.fairlib.methods.comparators._stored import Arrays, LinearMethod
from evenhand.fairlib.methods.comparators.linear import Linear, fit_logistic

__all__ = ["LogisticClassifier"]


class LogisticClassifier(LinearMethod):
    """
    l2-penalised logistic regression on all features, the sensitive ones among them included.

    Parameters
    ----------
    C : float
        Inverse of the penalty's strength.
    max_iter : int
        Of the solver.
    random_state : int or None
        Without effect: nothing is drawn.

    Attributes
    ----------
    linear_ : Linear
    n_iter_ : int
        Steps of its solver.
    """

    def __init__(self, *, C: float = 1.0, max_iter: int = 1000, random_state: int | None = None) -> None:
        self.C = C
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        callback: Callback | None = None,
    ) -> Self:
        """
        Train.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
            Two distinct values.
        sensitive_features : ignored
        callback : callable or None
            Called once, with (1, 1, {}).
        """
        data, codes = self._check_training(X, y)
        self.linear_ = fit_logistic(data, codes, C=self.C, max_iter=self.max_iter)
        if callback is not None:
            callback(1, 1, {})
        return self

    def _positive_probability(self, X: Float32) -> Float64:
        return self.linear_.probability(X)

    def _arrays(self) -> Arrays:
        return self.linear_.arrays()

    def _restore(self, arrays: Arrays) -> None:
        self.linear_ = Linear.restore(arrays)
