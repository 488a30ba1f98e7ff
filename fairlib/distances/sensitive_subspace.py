"""The sensitive subspace metric: differences inside a learned subspace do not count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.distances.metric_base import Metric, sensitive_columns
from evenhand.fairlib.numerics import orthonormal_basis
from evenhand.fairlib.preprocessing.input_tables import positions_of, with_columns_of

FOLDS = 5


@dataclass(frozen=True)
class LearnedDirection:
    """A direction to learn: the normal of a linear model that predicts an attribute from the other
    columns.

    The `excluded` columns of X, those that hold the attribute itself, are left out of that model.
    """

    attribute: str
    excluded: tuple[int | str, ...] = ()


@dataclass(repr=False, eq=False, kw_only=True)
class SensitiveSubspace(Metric):
    r"""Euclidean distance outside a sensitive subspace.

    .. math:: d_x^2(x_1, x_2) = \| (I - P)(x_1 - x_2) \|_2^2, \qquad P = B B^\top

    where the orthonormal columns of :math:`B` span the sensitive directions: unit vectors of the
    columns that hold a sensitive attribute, and normals of linear models that predict an attribute
    from all other columns (Vargo et al. 2021, equation C.1 and appendix C.2; Yurochkin et al.
    2020).

    Parameters
    ----------
    indicators : sequence of int or str
        Columns whose unit vectors belong to the subspace: positions, or names of a table's columns.
    learned : sequence of LearnedDirection, or None
        Directions to learn. None: one for each attribute given to ``fit``.
    strength : float
        l2 penalty of the logistic regressions, :math:`\lambda` in
        :math:`\sum_i \ell_i + \frac{\lambda}{2}\|w\|^2`.
    max_rank : int or None
        Largest dimension of the subspace, the indicators' included. Of more learned directions than
        fit, the leading right singular vectors of the models' coefficients are kept: the directions
        along which their predictions differ most. None: all directions are kept; but where those of
        `learned` None would leave no difference between people, half of the dimensions that are not
        the indicators'.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 3.0]])
    >>> metric = SensitiveSubspace(indicators=[0], learned=[]).fit(X)
    >>> metric.distance(X[:1], X[1:2]).tolist()  # they differ in the sensitive column only
    [0.0]
    >>> metric.distance(X[:1], X[2:]).tolist()
    [2.0]
    """

    kind: ClassVar[str] = "sensitive-subspace"
    title: ClassVar[str] = "sensitive subspace"

    indicators: Sequence[int | str] = ()
    learned: Sequence[LearnedDirection] | None = None
    strength: float = 0.1
    max_rank: int | None = None

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, sensitive_features: Any = None
    ) -> Self:
        """Learn the subspace from training rows, shape (n, d); y is ignored.

        Sensitive features are as in
        :func:`evenhand.fairlib.distances.metric_base.sensitive_columns`. An attribute with two
        values gives one l2-logistic direction, one with more categories one for each category (one
        against the rest), a floating-point attribute the coefficients of ``RidgeCV``.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Training rows.
        y : array-like, optional
            Ignored.
        sensitive_features : mapping, DataFrame, Series or array-like, optional
            Attributes, as in :func:`evenhand.fairlib.distances.metric_base.sensitive_columns`.

        Returns
        -------
        Self
            The fitted metric.

        Raises
        ------
        ValueError
            For an indicator or excluded column outside X, a missing or constant attribute, a
            penalty that is not positive and finite, fewer dimensions than indicators.
        """
        self._check_parameters()
        data = self._fit_rows(X)
        columns = self._columns_by_name()
        width = data.shape[1]
        attributes = sensitive_columns(with_columns_of(X, sensitive_features))
        learned = self.learned
        if learned is None:
            learned = [LearnedDirection(name) for name in attributes]
        indicators = sorted(set(positions_of(self.indicators, columns, "indicators")))
        self._check_columns(indicators, learned, columns, width)
        directions: list[Float] = []
        for item in learned:
            if item.attribute not in attributes:
                raise ValueError(
                    f"learned names the attribute {item.attribute!r}, which sensitive_features "
                    f"lacks; it has {sorted(attributes)}."
                )
            excluded = positions_of(item.excluded, columns, "excluded")
            directions += self._normals(data, attributes[item.attribute], item, excluded)
        # without their indicator columns the normals span the same space, and indicator columns
        # project to exactly 0 and leave no rounding in the others: a tree would split on it
        units = np.eye(width)[:, indicators]
        normals = np.array(directions).reshape(-1, width)
        lengths = np.linalg.norm(normals, axis=1)
        normals[:, indicators] = 0.0
        # the rest of a normal inside the indicators' span is rounding, not a direction
        rounding = width * np.finfo(np.float64).eps * lengths
        normals = normals[np.linalg.norm(normals, axis=1) > rounding]
        basis = orthonormal_basis(normals)
        most = self._largest_rank(len(indicators), len(indicators) + basis.shape[1], width)
        if len(indicators) + basis.shape[1] > most:
            # not scaled to unit length: the model of an attribute that no column predicts has small
            # coefficients
            _, _, vt = np.linalg.svd(normals, full_matrices=False)
            basis = vt[: most - len(indicators)].T
            basis[indicators] = 0.0
        self._remember(data, np.concatenate([units, basis], axis=1))
        return self

    def _check_parameters(self) -> None:
        """ValueError for a parameter out of its range."""
        self._check_interval("(0, inf)", "strength")
        self._check_columns_named("indicators")
        learned = self.learned
        if learned is not None:
            is_sequence = isinstance(learned, Sequence) and not isinstance(learned, str)
            if not is_sequence or not all(isinstance(item, LearnedDirection) for item in learned):
                self._refuse("learned", "a list of LearnedDirection", optional=True)
        self._check_counts("max_rank", least=max(len(set(self.indicators)), 1), optional=True)

    def _largest_rank(self, fixed: int, rank: int, width: int) -> int:
        """Largest dimension of the subspace: all of it, unless people then differ in nothing."""
        if self.max_rank is not None:
            return self.max_rank
        if self.learned is None and fixed < rank == width:
            return fixed + (width - fixed) // 2
        return rank

    def _check_columns(
        self,
        indicators: Sequence[int],
        learned: Sequence[LearnedDirection],
        columns: Mapping[str, Sequence[int]],
        width: int,
    ) -> None:
        """ValueError for a column that rows of this width lack."""
        positions = list(indicators)
        for item in learned:
            positions += positions_of(item.excluded, columns, "excluded")
        if any(not 0 <= position < width for position in positions):
            raise ValueError(
                f"indicators and excluded must be columns of X, 0 to {width - 1}, got {positions}."
            )
        if self.max_rank is not None and self.max_rank < len(indicators):
            raise ValueError(
                f"max_rank must be at least {len(indicators)}, the number of columns of the "
                f"indicators, got {self.max_rank}."
            )

    def _normals(
        self, data: Float, target: NDArray[Any], item: LearnedDirection, excluded: Sequence[int]
    ) -> list[Float]:
        """Normals of the models that predict `target`, with zeros in the excluded columns."""
        inputs = np.setdiff1d(np.arange(data.shape[1]), excluded)
        if inputs.size == 0:
            raise ValueError(f"no column is left to predict {item.attribute!r} from.")
        if target.shape != (data.shape[0],):
            raise ValueError(
                f"{item.attribute!r} must have one value per row of X, got shape {target.shape}."
            )
        models = _models(target, self.strength)
        if not models:
            raise ValueError(
                f"the attribute {item.attribute!r} is constant: no direction can be learned."
            )
        normals = np.zeros((len(models), data.shape[1]))
        for normal, (model, labels) in zip(normals, models, strict=True):
            normal[inputs] = model.fit(data[:, inputs], labels).coef_.ravel()
        return list(normals)


def _models(target: NDArray[Any], strength: float) -> list[tuple[Any, NDArray[Any]]]:
    """Linear models that predict an attribute, each with its own target; none for a constant
    attribute.
    """
    from sklearn.linear_model import LogisticRegression, RidgeCV

    values = np.unique(target)
    if values.size > 2 and np.issubdtype(target.dtype, np.floating):
        return [(RidgeCV(), target)]
    positives = values[1:] if values.size <= 2 else values
    return [
        (LogisticRegression(C=1.0 / strength, max_iter=2000), target == value)
        for value in positives
    ]


def predicts_attribute(X: ArrayLike, target: NDArray[Any], strength: float = 0.1) -> bool:
    """Whether linear models predict an attribute better than chance on rows that they were not
    trained on.

    Better than chance is a cross-validated AUC, or correlation for a floating-point attribute, of
    more than three standard errors above that of a random prediction.

    Parameters
    ----------
    X : array-like, shape (n, k)
        Encoded columns.
    target : ndarray, shape (n,)
        Values of the attribute.
    strength : float, default 0.1
        l2 penalty, that of :class:`SensitiveSubspace`.

    Returns
    -------
    bool
        True if one of the models does.
    """
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import cross_val_predict

    data = check_array(X, dtype=np.float64)
    for model, labels in _models(target, strength):
        if labels.dtype != bool:
            predicted = cross_val_predict(model, data, labels)
            correlation = 0.0
            if np.ptp(predicted) > 0:
                correlation = np.corrcoef(predicted, labels)[0, 1]
            if correlation > 3.0 / np.sqrt(len(labels)):
                return True
            continue
        counts = np.bincount(labels, minlength=2)
        if counts.min() < FOLDS:
            continue  # too few rows for a test
        predicted = cross_val_predict(model, data, labels, cv=FOLDS, method="decision_function")
        # of the Mann-Whitney statistic where both classes have one distribution
        error = np.sqrt((len(labels) + 1) / (12.0 * counts[0] * counts[1]))
        if roc_auc_score(labels, predicted) > 0.5 + 3.0 * error:
            return True
    return False
