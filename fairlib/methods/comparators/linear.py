"""Logistic regression as two numbers of a saved file: coefficients and intercept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from evenhand.fairlib.methods.base import Float64
from evenhand.fairlib.methods.comparators._checks import check_count

__all__ = ["Arrays", "Linear", "fit_logistic", "logistic_regression"]

Arrays = Mapping[str, NDArray[Any]]

CHUNK_VALUES = 4_000_000
# from here on the Hessian, of d x d numbers, costs more than the gradients that it saves
MOST_COLUMNS = 600
# of the gradient: tight enough that solvers agree to four digits of a probability
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Linear:
    """
    A logistic model of label 1.

    Parameters
    ----------
    coefficients : ndarray of float64, shape (d,)
    intercept : float
    n_iter : int
        Steps of the solver.
    """

    coefficients: Float64
    intercept: float
    n_iter: int = 0

    def logits(self, X: NDArray[Any]) -> Float64:
        """
        :math:`X w + b` for X of shape (n, d), shape (n,).

        Every row is summed by itself: a matrix product rounds otherwise with other rows beside it, and a row
        would be decided by its company where it lies at a threshold.
        """
        size = max(1, CHUNK_VALUES // max(1, X.shape[1]))
        parts = [
            (X[start : start + size] * self.coefficients).sum(axis=1) for start in range(0, len(X), size)
        ]
        return np.concatenate(parts) + self.intercept if parts else np.zeros(0)

    def probability(self, X: NDArray[Any]) -> Float64:
        """Probability of label 1 for X of shape (n, d), shape (n,)."""
        found: Float64 = expit(self.logits(X))
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a saved model keeps."""
        return {
            "coefficients": self.coefficients,
            "intercept": np.array([self.intercept]),
            "n_iter": np.array([self.n_iter]),
        }

    @classmethod
    def restore(cls, arrays: Arrays) -> Linear:
        """Model of what :meth:`arrays` gave."""
        return cls(arrays["coefficients"], float(arrays["intercept"][0]), int(arrays["n_iter"][0]))


def logistic_regression(n_columns: int, *, C: float, max_iter: int) -> Any:
    """
    scikit-learn's estimator as all comparators use it, not fitted.

    Raises
    ------
    ValueError
        `C` is not positive and finite, or `max_iter` below 1.
    """
    from sklearn.linear_model import LogisticRegression

    if not (np.isfinite(C) and C > 0):
        raise ValueError(f"C must be positive and finite, got {C!r}.")
    solver = "newton-cholesky" if n_columns <= MOST_COLUMNS else "lbfgs"
    return LogisticRegression(C=C, max_iter=check_count("max_iter", max_iter), tol=TOLERANCE, solver=solver)


def fit_logistic(
    X: NDArray[Any],
    codes: NDArray[np.int64],
    *,
    C: float,
    max_iter: int,
    weights: ArrayLike | None = None,
) -> Linear:
    """
    Fit an l2-penalised logistic regression in float64.

    Parameters
    ----------
    X : ndarray, shape (n, d)
    codes : ndarray of int, shape (n,)
        0 and 1, both there.
    C : float
        Inverse of the penalty's strength.
    max_iter : int
    weights : array-like, shape (n,) or None
        Of the rows.

    Raises
    ------
    ValueError
        See :func:`logistic_regression`.
    """
    model = logistic_regression(X.shape[1], C=C, max_iter=max_iter)
    model.fit(X.astype(np.float64), codes, sample_weight=weights)
    return Linear(model.coef_[0], float(model.intercept_[0]), int(model.n_iter_[0]))
