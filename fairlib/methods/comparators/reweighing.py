"""Kamiran-Calders weights, then logistic regression and a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.methods.base import Callback, Float32, Float64
from evenhand.fairlib.methods.comparators._checks import check_share
from evenhand.fairlib.methods.comparators._stored import Arrays, ThresholdMethod
from evenhand.fairlib.methods.comparators.groups import read_groups
from evenhand.fairlib.methods.comparators.linear import Linear, fit_logistic
from evenhand.fairlib.methods.comparators.validation import best_threshold, set_aside
from evenhand.fairlib.methods.reweighing import kamiran_calders_weights

__all__ = ["ReweighedLogisticClassifier"]


class ReweighedLogisticClassifier(ThresholdMethod):
    """
    Logistic regression on rows weighted so that group and label are independent.

    The weights are those of :func:`fairlib.methods.reweighing.kamiran_calders_weights` (Kamiran and Calders
    2011), of the rows that train.

    Parameters
    ----------
    attribute : str or None
        The sensitive feature that forms the groups. None: all, crossed.
    threshold : float or None
        From which probability on the second label is predicted. None: the one of 0, 0.1, ..., 1 with the
        best balanced accuracy on rows set aside; if given, all rows train.
    validation_share : float
        Share of the rows set aside to choose the threshold.
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
    threshold_ : float
    """

    def __init__(
        self,
        *,
        attribute: str | None = None,
        threshold: float | None = None,
        validation_share: float = 0.25,
        C: float = 1.0,
        max_iter: int = 1000,
        random_state: int | None = None,
    ) -> None:
        self.attribute = attribute
        self.threshold = threshold
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
        callback: Callback | None = None,
    ) -> Self:
        """
        Train on weighted rows, and choose the threshold.

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
            No sensitive features, an unknown attribute or one of a single group, a parameter out of its
            range, or too few rows to set some aside.
        """
        data, codes = self._check_training(X, y)
        groups = read_groups(sensitive_features, self.attribute, len(codes), crossed=True)
        train = held = np.arange(len(codes))
        if self.threshold is None:
            train, held = set_aside(codes, self.validation_share, self.random_state)
        weights = kamiran_calders_weights(groups.codes[train], codes[train])
        self.linear_ = fit_logistic(
            data[train], codes[train], C=self.C, max_iter=self.max_iter, weights=weights
        )
        if self.threshold is None:
            self.threshold_ = best_threshold(codes[held], self.linear_.probability(data[held]))
        else:
            self.threshold_ = check_share("threshold", self.threshold)
        if callback is not None:
            callback(1, 1, {})
        return self

    def _positive_probability(self, X: Float32) -> Float64:
        return self.linear_.probability(X)

    def _arrays(self) -> Arrays:
        return {**self.linear_.arrays(), "threshold": np.array([self.threshold_])}

    def _restore(self, arrays: Arrays) -> None:
        self.linear_ = Linear.restore(arrays)
        self.threshold_ = float(arrays["threshold"][0])
