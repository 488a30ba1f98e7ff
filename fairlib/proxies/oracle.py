"""Regressions of the sensitive groups on the features: the oracle behind every split of the proxy tree."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from evenhand.fairlib.arrays import Float, Float32

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


def fit_scores(X: Float32, indicators: Float, weights: Float, ridge: float = 1.0) -> LinearScores:
    r"""Weighted least squares of all group indicators at once.

    The paired-regression classifier (Deng et al. 2023, definition 14) fits one regression to the costs of
    each answer and gives the answer of the smaller prediction. A row's cost depends only on its group and
    the duals, and least squares is linear in its target. With one factorisation per vertex, the K fits

    .. math:: \beta = (X^\top W X + \lambda I)^{-1} X^\top W Z

    give the regression of any such costs :math:`Z \kappa` as :math:`X \beta \kappa`. The penalty
    :math:`\lambda` is `ridge`, in rows of unit variance; the intercept has none. It must be above 0, because
    one-hot columns are collinear with the intercept.

    Rows have the shape (m, d), indicators (m, K) and weights (m,).
    """
    total = weights.sum()
    centre = (weights @ X) / total
    shares = (weights @ indicators) / total
    apart = (weights[:, None] * (indicators - shares)).astype(np.float32)
    # centred before the products: in float32 a large mean would cancel the variation around it
    centred = X - centre.astype(np.float32)
    gram = ((centred * weights.astype(np.float32)[:, None]).T @ centred).astype(np.float64)
    cross = (centred.T @ apart).astype(np.float64)
    gram[np.diag_indices_from(gram)] += ridge
    try:
        coefficients = np.asarray(cho_solve(cho_factor(gram), cross))
    except LinAlgError:  # columns of very different scale that are nearly collinear
        coefficients = np.asarray(lstsq(gram, cross)[0])
    return LinearScores(coefficients, shares - centre @ coefficients, X)
