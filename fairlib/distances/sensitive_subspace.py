"""The sensitive subspace metric: differences inside a learned subspace do not count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from evenhand.fairlib.distances.base import Metric, sensitive_columns
from evenhand.fairlib.numerics import orthonormal_basis

Float = NDArray[np.float64]


@dataclass(frozen=True)
class LearnedDirection:
    """
    A direction to learn: the normal of a linear model that predicts an attribute from the other columns.

    The `excluded` columns of X, those that hold the attribute itself, are left out of that model.
    """

    attribute: str
    excluded: tuple[int, ...] = ()


@dataclass(repr=False, eq=False, kw_only=True)
class SensitiveSubspace(Metric):
    r"""
    Euclidean distance outside a sensitive subspace.

    .. math:: d_x^2(x_1, x_2) = \| (I - P)(x_1 - x_2) \|_2^2, \qquad P = B B^\top

    where the orthonormal columns of :math:`B` span the sensitive directions: unit vectors of the columns that
    hold a sensitive attribute, and normals of linear models that predict an attribute from all other columns
    (Vargo et al. 2021, equation C.1 and appendix C.2; Yurochkin et al. 2020).

    Parameters
    ----------
    indicators : sequence of int
        Columns whose unit vectors belong to the subspace.
    learned : sequence of LearnedDirection, or None
        Directions to learn. None: one for each attribute given to ``fit``.
    strength : float
        l2 penalty of the logistic regressions, :math:`\lambda` in
        :math:`\sum_i \ell_i + \frac{\lambda}{2}\|w\|^2`.
    """

    kind: ClassVar[str] = "sensitive-subspace"
    title: ClassVar[str] = "sensitive subspace"

    indicators: Sequence[int] = ()
    learned: Sequence[LearnedDirection] | None = None
    strength: float = 0.1

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: Any = None,
    ) -> Self:
        """
        Learn the subspace from training rows, shape (n, d); y is ignored.

        Parameters
        ----------
        sensitive_features : mapping of str to array-like, DataFrame, Series or array
            As in :func:`evenhand.fairlib.distances.base.sensitive_columns`.
            An attribute with two values gives one l2-logistic direction, one with more categories one for
            each category (one against the rest), a floating-point attribute the coefficients of ``RidgeCV``.

        Raises
        ------
        ValueError
            An indicator or excluded column outside X, a missing or constant attribute, a penalty that is not
            positive and finite.
        """
        data = check_array(X, dtype=np.float64)
        width = data.shape[1]
        attributes = sensitive_columns(sensitive_features)
        learned = self.learned
        if learned is None:
            learned = [LearnedDirection(name) for name in attributes]
        if not (np.isfinite(self.strength) and self.strength > 0):
            raise ValueError(f"strength must be positive and finite, got {self.strength!r}.")
        used = [*self.indicators, *(column for item in learned for column in item.excluded)]
        if any(not 0 <= column < width for column in used):
            raise ValueError(f"indicators and excluded must be columns of X, 0 to {width - 1}, got {used}.")

        indicators = sorted(set(self.indicators))
        directions: list[Float] = []
        for item in learned:
            if item.attribute not in attributes:
                raise ValueError(
                    f"learned names the attribute {item.attribute!r}, which sensitive_features lacks; "
                    f"it has {sorted(attributes)}."
                )
            directions += self._normals(data, attributes[item.attribute], item)
        # without their indicator columns the normals span the same space, and indicator columns project to
        # exactly 0 and leave no rounding in the others: a tree would split on it
        units = np.eye(width)[:, indicators]
        normals = np.array(directions).reshape(-1, width)
        lengths = np.linalg.norm(normals, axis=1)
        normals[:, indicators] = 0.0
        # the rest of a normal inside the indicators' span is rounding, not a direction
        normals = normals[np.linalg.norm(normals, axis=1) > width * np.finfo(np.float64).eps * lengths]
        self._remember(data, np.concatenate([units, orthonormal_basis(normals)], axis=1))
        return self

    def _normals(self, data: Float, target: NDArray[Any], item: LearnedDirection) -> list[Float]:
        """Normals of the models that predict `target`, with zeros in the excluded columns."""
        from sklearn.linear_model import LogisticRegression, RidgeCV

        kept = np.setdiff1d(np.arange(data.shape[1]), item.excluded)
        if kept.size == 0:
            raise ValueError(f"no column is left to predict {item.attribute!r} from.")
        if target.shape != (data.shape[0],):
            raise ValueError(
                f"{item.attribute!r} must have one value per row of X, got shape {target.shape}."
            )
        values = np.unique(target)
        if values.size < 2:
            raise ValueError(f"the attribute {item.attribute!r} is constant: no direction can be learned.")
        if values.size > 2 and np.issubdtype(target.dtype, np.floating):
            models = [RidgeCV().fit(data[:, kept], target)]
        else:
            positives = values[1:] if values.size == 2 else values
            models = [
                LogisticRegression(C=1.0 / self.strength, max_iter=2000).fit(data[:, kept], target == value)
                for value in positives
            ]
        normals = np.zeros((len(models), data.shape[1]))
        normals[:, kept] = [model.coef_.ravel() for model in models]
        return list(normals)
