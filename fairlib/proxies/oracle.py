"""What a vertex's rows tell of their groups: the regressions behind the paired-regression oracle."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq
from sklearn.base import clone, is_classifier

__all__ = ["EstimatorOracle", "LinearOracle", "Scores"]

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
CHUNK_ROWS = 65_536


class Scores(Protocol):
    """Scores of a vertex's rows, one column a group, and how to give them to other rows."""

    values: Float

    def of(self, X: Float32) -> Float:
        """Scores of any rows, shape (n, K)."""


class LinearScores:
    """Weighted least-squares predictions of group membership."""

    def __init__(self, coefficients: Float, intercepts: Float, X: Float32) -> None:
        self.coefficients, self.intercepts = coefficients, intercepts
        self.values = self.of(X)

    def of(self, X: Float32) -> Float:
        """``X @ coefficients + intercepts``, in float64: a cut between two rows must fall there again."""
        found = np.empty((len(X), len(self.intercepts)))
        for start in range(0, len(X), CHUNK_ROWS):
            part = X[start : start + CHUNK_ROWS].astype(np.float64)
            found[start : start + CHUNK_ROWS] = part @ self.coefficients + self.intercepts
        return found

    def halfspace(self, direction: Float, cut: float) -> tuple[Float, float]:
        """Normal and intercept of the rows whose score along a direction is above a cut."""
        return self.coefficients @ direction, float(self.intercepts @ direction - cut)


class LinearOracle:
    r"""
    Weighted least squares of all group indicators at once.

    The paired-regression classifier (Deng et al. 2023, definition 14) fits one regression to the costs of
    each answer and gives the answer of the smaller prediction. A row's cost depends on its group and the
    duals only, and least squares is linear in its target: with one factorisation a vertex, the K fits

    .. math:: \beta = (X^\top W X + \lambda I)^{-1} X^\top W Z

    give the regression of any such costs :math:`Z \kappa` as :math:`X \beta \kappa`.

    Parameters
    ----------
    ridge : float
        :math:`\lambda`, in rows of unit variance; the intercept is free of it. Above 0, for one-hot columns
        are collinear with the intercept.
    """

    def __init__(self, ridge: float = 1.0) -> None:
        self.ridge = ridge

    def fit(self, X: Float32, indicators: Float, weights: Float) -> LinearScores:
        """
        Fit on weighted rows.

        Parameters
        ----------
        X : ndarray of float32, shape (m, d)
        indicators : ndarray, shape (m, K)
        weights : ndarray, shape (m,)
        """
        total = weights.sum()
        centre = (weights @ X) / total
        shares = (weights @ indicators) / total
        apart = (weights[:, None] * (indicators - shares)).astype(np.float32)
        # centred before the products: in float32 a large mean would drown what varies about it
        centred = X - centre.astype(np.float32)
        gram = ((centred * weights.astype(np.float32)[:, None]).T @ centred).astype(np.float64)
        cross = (centred.T @ apart).astype(np.float64)
        gram[np.diag_indices_from(gram)] += self.ridge
        try:
            coefficients = np.asarray(cho_solve(cho_factor(gram), cross))
        except LinAlgError:  # columns of very unlike scale, and nearly collinear
            coefficients = np.asarray(lstsq(gram, cross)[0])
        return LinearScores(coefficients, shares - centre @ coefficients, X)


class EstimatorScores:
    """Predictions of a fitted scikit-learn estimator; of a classifier with no score for classes it lacks."""

    def __init__(self, model: Any, groups: int, X: Float32) -> None:
        self.model, self.groups = model, groups
        self.values = self.of(X)

    def of(self, X: Float32) -> Float:
        """Probabilities of a classifier, predictions of a regressor, shape (n, K)."""
        rows = X.astype(np.float64)  # in float32 a prediction depends on how many rows are predicted
        if not is_classifier(self.model):
            return np.asarray(self.model.predict(rows), dtype=np.float64).reshape(len(X), self.groups)
        found = np.zeros((len(X), self.groups))
        found[:, self.model.classes_] = self.model.predict_proba(rows)
        return found


class ConstantScores:
    """Scores of a vertex that has one group only: nothing can be told apart."""

    def __init__(self, shares: Float, X: Float32) -> None:
        self.shares = shares
        self.values = self.of(X)

    def of(self, X: Float32) -> Float:
        """The same for all rows."""
        return np.tile(self.shares, (len(X), 1))


class EstimatorOracle:
    """
    Any scikit-learn regressor of several outputs, or classifier, that takes ``sample_weight``.

    Fitted once a vertex. The expected cost of a row is linear in its probabilities of the groups, so these
    stand for the regression of every cost.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Float32, indicators: Float, weights: Float) -> EstimatorScores | ConstantScores:
        """
        Fit a clone.

        Raises
        ------
        ValueError
            A classifier and several attributes: it can predict the groups of one.
        """
        model = clone(self.estimator)
        if not is_classifier(model):
            model.fit(X.astype(np.float64), indicators, sample_weight=weights)
            return EstimatorScores(model, indicators.shape[1], X)
        if (indicators.sum(axis=1) > 1).any():
            raise ValueError("a classifier as oracle predicts one attribute's groups: give a regressor.")
        codes = indicators.argmax(axis=1)
        if (codes == codes[0]).all():
            return ConstantScores(indicators[0], X)
        model.fit(X.astype(np.float64), codes, sample_weight=weights)
        return EstimatorScores(model, indicators.shape[1], X)
