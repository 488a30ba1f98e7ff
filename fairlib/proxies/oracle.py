"""Regressions of the sensitive groups on the features: the oracle behind every split of the proxy tree."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq
from sklearn.base import clone, is_classifier

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
CHUNK_ROWS = 65_536


class LinearScores:
    """Weighted least-squares predictions of group membership; `values` are those of the fitted rows."""

    def __init__(self, coefficients: Float, intercepts: Float, X: Float32) -> None:
        self.coefficients, self.intercepts = coefficients, intercepts
        self.values = self.of(X)

    def of(self, X: Float32) -> Float:
        """Scores of any rows, shape (n, K), in float64 so that a cut separates the same rows again."""
        found = np.empty((len(X), len(self.intercepts)))
        for start in range(0, len(X), CHUNK_ROWS):
            part = X[start : start + CHUNK_ROWS].astype(np.float64)
            found[start : start + CHUNK_ROWS] = part @ self.coefficients + self.intercepts
        return found

    def halfspace(self, direction: Float, cut: float) -> tuple[Float, float]:
        """Normal and intercept of the halfspace of rows whose score along a direction is above a cut."""
        return self.coefficients @ direction, float(self.intercepts @ direction - cut)


class LinearOracle:
    r"""Weighted least squares of all group indicators at once.

    The paired-regression classifier (Deng et al. 2023, definition 14) fits one regression to the costs of
    each answer and gives the answer of the smaller prediction. A row's cost depends only on its group and
    the duals, and least squares is linear in its target. With one factorisation per vertex, the K fits

    .. math:: \beta = (X^\top W X + \lambda I)^{-1} X^\top W Z

    give the regression of any such costs :math:`Z \kappa` as :math:`X \beta \kappa`. The penalty
    :math:`\lambda` is `ridge`, in rows of unit variance; the intercept has none. It must be above 0, because
    one-hot columns are collinear with the intercept.
    """

    def __init__(self, ridge: float = 1.0) -> None:
        self.ridge = ridge

    def fit(self, X: Float32, indicators: Float, weights: Float) -> LinearScores:
        """Fit on rows of shape (m, d), indicators of shape (m, K) and weights of shape (m,)."""
        total = weights.sum()
        centre = (weights @ X) / total
        shares = (weights @ indicators) / total
        apart = (weights[:, None] * (indicators - shares)).astype(np.float32)
        # centred before the products: in float32 a large mean would cancel the variation around it
        centred = X - centre.astype(np.float32)
        gram = ((centred * weights.astype(np.float32)[:, None]).T @ centred).astype(np.float64)
        cross = (centred.T @ apart).astype(np.float64)
        gram[np.diag_indices_from(gram)] += self.ridge
        try:
            coefficients = np.asarray(cho_solve(cho_factor(gram), cross))
        except LinAlgError:  # columns of very different scale that are nearly collinear
            coefficients = np.asarray(lstsq(gram, cross)[0])
        return LinearScores(coefficients, shares - centre @ coefficients, X)


class EstimatorScores:
    """Predictions of a fitted scikit-learn estimator; a class that a classifier lacks has the score 0."""

    def __init__(self, model: Any, groups: int, X: Float32) -> None:
        self.model, self.groups = model, groups
        self.values = self.of(X)

    def of(self, X: Float32) -> Float:
        """Probabilities of a classifier or predictions of a regressor, shape (n, K)."""
        rows = X.astype(np.float64)  # in float32 a prediction depends on how many rows are predicted
        if not is_classifier(self.model):
            return np.asarray(self.model.predict(rows), dtype=np.float64).reshape(len(X), self.groups)
        found = np.zeros((len(X), self.groups))
        found[:, self.model.classes_] = self.model.predict_proba(rows)
        return found


Scores: TypeAlias = LinearScores | EstimatorScores


class EstimatorOracle:
    """Any scikit-learn regressor of several outputs, or classifier, that takes ``sample_weight``.

    It is fitted once per vertex. The expected cost of a row is linear in its group probabilities, so these
    replace the regression of every cost.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Float32, indicators: Float, weights: Float) -> EstimatorScores:
        """Fit a clone; a ValueError for a classifier and several attributes."""
        from sklearn.dummy import DummyClassifier

        model, target = clone(self.estimator), indicators
        if is_classifier(model):
            if (indicators.sum(axis=1) > 1).any():
                raise ValueError("a classifier as oracle predicts one attribute's groups: give a regressor.")
            target = indicators.argmax(axis=1)
            if (target == target[0]).all():  # many classifiers refuse a single class
                model = DummyClassifier()
        model.fit(X.astype(np.float64), target, sample_weight=weights)
        return EstimatorScores(model, indicators.shape[1], X)
