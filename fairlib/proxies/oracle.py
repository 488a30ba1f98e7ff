"""What a vertex's rows tell of their groups: the regressions behind the paired-regression oracle."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
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
        weighted = X * weights.astype(np.float32)[:, None]
        # float32 products, summed in blocks by the library; the centring is done on the small result
        gram = (weighted.T @ X).astype(np.float64) - total * np.outer(centre, centre)
        shares = (weights @ indicators) / total
        cross = (X.T @ (weights[:, None] * indicators).astype(np.float32)).astype(np.float64)
        cross -= total * np.outer(centre, shares)
        gram[np.diag_indices_from(gram)] += self.ridge
        coefficients = np.asarray(cho_solve(cho_factor(gram), cross))
        return LinearScores(coefficients, shares - centre @ coefficients, X)


class EstimatorScores:
    """Predictions of a fitted scikit-learn estimator."""

    def __init__(self, model: Any, X: Float32) -> None:
        self.model = model
        self.values = self.of(X)

    def of(self, X: Float32) -> Float:
        """Probabilities of a classifier, predictions of a regressor."""
        found = self.model.predict_proba(X) if is_classifier(self.model) else self.model.predict(X)
        return np.asarray(found, dtype=np.float64)


class EstimatorOracle:
    """
    Any scikit-learn regressor of several outputs, or classifier, that takes ``sample_weight``.

    Fitted once a vertex. The expected cost of a row is linear in its probabilities of the groups, so these
    stand for the regression of every cost.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Float32, indicators: Float, weights: Float) -> EstimatorScores:
        """Fit a clone; a classifier sees one attribute's groups."""
        model = clone(self.estimator)
        if not is_classifier(model):
            return EstimatorScores(model.fit(X, indicators, sample_weight=weights), X)
        codes = indicators.argmax(axis=1)
        fitted = EstimatorScores(model.fit(X, codes, sample_weight=weights), X)
        whole = np.zeros((len(X), indicators.shape[1]))
        whole[:, model.classes_] = fitted.values
        fitted.values = whole
        return fitted
