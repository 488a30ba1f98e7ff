"""The base of all fair metrics: distances in projected coordinates, for numpy and torch, and
saving.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from evenhand.fairlib.arrays import Float, Index
from evenhand.fairlib.parameters import ParameterChecks
from evenhand.fairlib.preprocessing.input_tables import (
    InputTable,
    NamedRows,
    TakesTables,
    dense,
    encode,
    read_encoder,
    read_table,
)

FORMAT = 2
# Smallest exponent of a bound's step: finer steps need numbers that float64 lacks.
FINEST = -300


@dataclass(frozen=True)
class FeatureBounds:
    """Box around the training rows.

    A search for comparable people may move along the free directions at no cost: without bounds it
    would leave the range of real people. The largest and the smallest value of a feature belong to
    somebody, though, and a metric is saved and published. So bounds are widened by a tenth to a
    hundredth of the range and more, outwards to a round number. A feature that takes only the
    values 0 and 1, or only one value, keeps them: they identify nobody.
    """

    # shape (d,): bounds of each feature
    low: Float
    high: Float
    # shape (k,): bounds of the rows' coordinates along the free directions
    free_low: Float
    free_high: Float

    @classmethod
    def of(cls, rows: Float, basis: Float) -> FeatureBounds:
        """Bounds of training rows, shape (n, d), and a basis, shape (d, k).

        Parameters
        ----------
        rows : ndarray of float64, shape (n, d)
            Training rows.
        basis : ndarray of float64, shape (d, k)
            Free directions.

        Returns
        -------
        FeatureBounds
            Widened bounds.
        """
        return cls(*_bounds(rows), *_bounds(rows @ basis))


def _bounds(values: Float) -> tuple[Float, Float]:
    """Widened bounds of every column."""
    lows = values.min(axis=0)
    highs = values.max(axis=0)
    fixed = (lows == highs) | ((values == 0.0) | (values == 1.0)).all(axis=0)
    for j in np.flatnonzero(~fixed):
        lows[j], highs[j] = _widened(float(lows[j]), float(highs[j]))
    return lows, highs


def _widened(low: float, high: float) -> tuple[float, float]:
    """Outwards, the next multiple but one of 10^(floor(log10(range)) - 1)."""
    spread = min(high - low, sys.float_info.max)
    exponent = max(math.floor(math.log10(spread)) - 1, FINEST)
    return 0.0 - _above(-low, exponent), _above(high, exponent)


def _above(value: float, exponent: int) -> float:
    """The multiple of 10^exponent after the next one to `value`, rounded to its decimal number."""
    step = 10.0**exponent
    quotient = value / step
    nearest = round(quotient)
    # 0.3 / 0.1 is not 3: a value that is a multiple up to rounding counts as one
    count = nearest if abs(quotient - nearest) < 1e-9 else math.ceil(quotient)
    return max(round((count + 1) * step, -exponent), value)


class Metric(TakesTables, ParameterChecks, BaseEstimator):  # type: ignore[misc]
    r"""A fair distance between people, learned by ``fit``.

    .. math:: d_x^2(x_1, x_2) = (x_1 - x_2)^\top \Sigma (x_1 - x_2), \qquad \Sigma \succeq 0

    Differences in the null space of :math:`\Sigma`, the free directions, do not count. Unless a
    metric says otherwise, nothing else is distorted: :math:`\Sigma = I - B B^\top`.

    Every method takes rows as array-likes of shape (n, d), computed in float64, or as torch tensors
    of shape (..., d) and a floating-point dtype. Tensors give tensors of the same dtype and device,
    which can be differentiated. Arrays need no torch. A ValueError names another width than at
    ``fit``, numbers that are not finite (arrays only), and tensors of integers.

    Rows may also be a table of pandas, polars, Arrow or another library that Narwhals reads: its
    columns are found by their names, and encoded as those at ``fit`` (``encoder_``) where they hold
    more than numbers.

    Attributes
    ----------
    n_features_in_ : int
        d: columns of the matrix, also of an encoded table.
    feature_names_in_ : ndarray of str
        Names of the table's columns, if X was a table.
    encoder_ : TableEncoder or None
        What makes numbers of a table; None where X was an array, or a table of plain numbers.
    basis_ : ndarray of float64, shape (d, k)
        Orthonormal columns :math:`B` that span the free directions.
    feature_bounds_ : FeatureBounds
        Bounds of the training rows.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    # whether the matrix is I - B B'
    is_projection: ClassVar[bool] = True
    # saved with the bounds: names of fitted attributes without their last underscore
    saved: ClassVar[tuple[str, ...]] = ("basis",)

    def _fit_rows(self, X: Any) -> Float:
        """Training rows as numbers; sets what the metric knows of the columns of a table."""
        self.__dict__.pop("feature_names_in_", None)
        if isinstance(X, NamedRows):
            # from a method, which has encoded its table
            self.encoder_ = X.encoder
            self.feature_names_in_ = np.array(list(X.columns), dtype=object)
            return check_array(X.rows, dtype=np.float64)
        table = read_table(X)
        rows = self._numbers_of(X, reset=True)
        if table is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        return check_array(rows, dtype=np.float64)

    def _rows_of(self, X: Any) -> Any:
        """Rows to measure as numbers: tables are encoded, arrays stay as they are."""
        table = read_table(X)
        if table is None:
            return dense(X)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return table.frame
        missing = [name for name in names if name not in table.names]
        if missing:
            raise ValueError(
                f"X lacks the columns {', '.join(missing)}, which the metric was fitted on."
            )
        frame = table.named()[list(names)]
        if self.encoder_ is None:
            return frame
        return encode(self.encoder_, InputTable(frame, table.kinds))

    def _copies(self, tables: Any) -> Any:
        """Further rows, such as counterfactual copies, as numbers; None stays None."""
        if tables is None:
            return None
        return [self._rows_of(rows) for rows in tables]

    def _remember(self, rows: Float, basis: Float) -> None:
        """Set the attributes that every fitted metric has."""
        self.n_features_in_ = rows.shape[1]
        # row-major: safetensors writes the buffer as it lies in memory
        self.basis_ = np.ascontiguousarray(basis, dtype=np.float64)
        self.feature_bounds_ = FeatureBounds.of(rows, self.basis_)
        self._tensors: dict[Any, Any] = {}

    def __sklearn_clone__(self) -> Self:
        """A fitted metric is copied with what it learned, which a method with this parameter needs.

        A clone that is fitted again learns everything anew.
        """
        if hasattr(self, "n_features_in_"):
            return copy.deepcopy(self)
        return super().__sklearn_clone__()

    def project(self, X: Any) -> Any:
        r"""Coordinates, shape (n, r), in which :math:`d_x` is the Euclidean distance.

        Unless a metric says otherwise :math:`X - (X B) B^\top`, with r = d: two thin products,
        never a d x d matrix.

        Parameters
        ----------
        X : array-like or torch.Tensor, shape (n, d)
            Rows, or a tensor of shape (..., d).

        Returns
        -------
        ndarray or torch.Tensor, shape (n, r)
            Projected rows, of the kind of X.
        """
        check_is_fitted(self)
        rows = X if _is_tensor(X) else check_array(self._rows_of(X), dtype=np.float64)
        return self._project(self._checked(rows))

    def weigh(self, V: Any) -> Any:
        r"""Rows times the matrix, :math:`V \Sigma`: half the gradient of :math:`d_x^2` at V
        and 0.

        Parameters
        ----------
        V : array-like or torch.Tensor, shape (n, d)
            Rows, or a tensor of shape (..., d).

        Returns
        -------
        ndarray or torch.Tensor, shape (n, d)
            Products, of the kind of V.
        """
        check_is_fitted(self)
        return self._weigh(self._checked(V))

    def unweigh(self, V: Any) -> Any:
        r"""Rows times the matrix's pseudo-inverse, :math:`V \Sigma^+`.

        It drops the part of V along free directions, and undoes :meth:`weigh` on the rest.

        Parameters
        ----------
        V : array-like or torch.Tensor, shape (n, d)
            Rows, or a tensor of shape (..., d).

        Returns
        -------
        ndarray or torch.Tensor, shape (n, d)
            Products, of the kind of V.
        """
        check_is_fitted(self)
        return self._unweigh(self._checked(V))

    def operators(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """:meth:`weigh` and :meth:`unweigh` without their checks, for inner loops."""
        check_is_fitted(self)
        return self._weigh, self._unweigh

    def squared(self, x1: Any, x2: Any) -> Any:
        r"""Squared distances :math:`d_x^2` of paired rows, shape (n,).

        Two arrays must have one shape; tensors broadcast.

        Parameters
        ----------
        x1 : array-like or torch.Tensor, shape (n, d)
            Rows, or a tensor.
        x2 : array-like or torch.Tensor, shape (n, d)
            Rows that are paired with the first.

        Returns
        -------
        ndarray or torch.Tensor, shape (n,)
            Squared distances.
        """
        difference = self._difference(x1, x2)
        return (difference * difference).sum(-1)

    def distance(self, x1: Any, x2: Any) -> Any:
        """Distances :math:`d_x` of paired rows, shape (n,): the root of :meth:`squared`.

        The gradient of a tensor's distance is 0 where the distance is.

        Parameters
        ----------
        x1 : array-like or torch.Tensor, shape (n, d)
            Rows, or a tensor.
        x2 : array-like or torch.Tensor, shape (n, d)
            Rows that are paired with the first.

        Returns
        -------
        ndarray or torch.Tensor, shape (n,)
            Distances.
        """
        difference = self._difference(x1, x2)
        if _is_tensor(difference):
            return sys.modules["torch"].linalg.vector_norm(difference, dim=-1)
        return np.linalg.norm(difference, axis=-1)

    def pairwise(self, X: Any, Y: Any = None, *, squared: bool = False) -> Any:
        r"""Distances of all pairs, shape (n, m); `squared` gives :math:`d_x^2`, the transport cost
        of BuDRO.

        Parameters
        ----------
        X : array-like or torch.Tensor, shape (n, d)
            Rows, or a tensor of shape (..., d).
        Y : array-like or torch.Tensor, shape (m, d), optional
            Other rows; default: X itself.
        squared : bool, default False
            Whether to give squared distances.

        Returns
        -------
        ndarray or torch.Tensor, shape (n, m)
            Distances.
        """
        projected_x = self.project(X)
        projected_y = projected_x if Y is None else self.project(Y)
        if _is_tensor(projected_x):
            # the Gram expansion cancels in single precision
            torch = sys.modules["torch"]
            distances = torch.cdist(
                projected_x, projected_y, compute_mode="donot_use_mm_for_euclid_dist"
            )
            return distances * distances if squared else distances
        from scipy.spatial.distance import cdist

        return cdist(projected_x, projected_y, "sqeuclidean" if squared else "euclidean")

    def arrays(self) -> dict[str, Float]:
        """All learned arrays by name: the content of the file that :meth:`save` writes."""
        arrays = {name: getattr(self, f"{name}_") for name in self.saved}
        arrays |= asdict(self.feature_bounds_)
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    def save(self, folder: str | Path) -> None:
        """Write ``metric.safetensors`` (the arrays) and ``metric.json`` into `folder`.

        Parameters
        ----------
        folder : str or Path
            Folder of the metric.
        """
        from safetensors.numpy import save_file

        check_is_fitted(self)
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        save_file(self.arrays(), str(target / "metric.safetensors"))
        description: dict[str, Any] = {
            "format": FORMAT,
            "kind": self.kind,
            "rank": int(self.basis_.shape[1]),
        }
        if hasattr(self, "feature_names_in_"):
            description["features"] = [str(name) for name in self.feature_names_in_]
        self._write_encoder(target)
        (target / "metric.json").write_text(json.dumps(description, sort_keys=True))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a metric of this kind written by :meth:`save`: it measures the same distances.

        Parameters
        ----------
        folder : str or Path
            Folder of the metric.

        Returns
        -------
        Self
            A metric that measures the same distances.

        Raises
        ------
        ValueError
            If the folder holds another kind of metric, or another format.
        """
        from safetensors.numpy import load_file

        source = Path(folder)
        description = json.loads((source / "metric.json").read_text())
        if description.get("format") != FORMAT or description.get("kind") != cls.kind:
            raise ValueError(f"{source} holds no {cls.title} of format {FORMAT}.")
        arrays = load_file(str(source / "metric.safetensors"))
        metric = cls()
        for name in cls.saved:
            setattr(metric, f"{name}_", arrays.pop(name))
        metric.feature_bounds_ = FeatureBounds(**arrays)
        metric.n_features_in_ = int(metric.basis_.shape[0])
        metric.encoder_ = read_encoder(source)
        if "features" in description:
            metric.feature_names_in_ = np.array(description["features"], dtype=object)
        metric._tensors = {}
        return metric

    def _project(self, V: Any) -> Any:
        basis = self._array_like(V, "basis")
        return V - (V @ basis) @ basis.T

    # an orthogonal projection is its own square and its own pseudo-inverse
    def _weigh(self, V: Any) -> Any:
        return self._project(V)

    def _unweigh(self, V: Any) -> Any:
        return self._project(V)

    def _difference(self, x1: Any, x2: Any) -> Any:
        """Difference of paired rows in projected coordinates."""
        check_is_fitted(self)
        if _is_tensor(x1):
            return self._project(self._checked(self._checked(x1) - self._checked(x2)))
        first = np.atleast_2d(np.asarray(self._rows_of(x1), dtype=np.float64))
        second = np.atleast_2d(np.asarray(self._rows_of(x2), dtype=np.float64))
        if first.shape != second.shape:
            raise ValueError(
                f"x1 and x2 must have one shape, got {first.shape} and {second.shape}."
            )
        return self.project(first - second)

    def _checked(self, V: Any) -> Any:
        """Rows of the metric's width: float64, or a floating-point tensor as it is."""
        rows = V if _is_tensor(V) else np.asarray(V, dtype=np.float64)
        if _is_tensor(V) and not V.is_floating_point():
            raise ValueError(f"X must be a tensor of floating-point numbers, got {V.dtype}.")
        width = rows.shape[-1] if rows.ndim else 0
        if width != self.n_features_in_:
            raise ValueError(
                f"X has {width} features, but this metric was fitted on {self.n_features_in_}."
            )
        return rows

    def _array_like(self, V: Any, name: str) -> Any:
        """A fitted array; for a tensor V one of its dtype and device, which is kept."""
        array = getattr(self, f"{name}_")
        if not _is_tensor(V):
            return array
        key = (name, V.dtype, V.device)
        if key not in self._tensors:
            torch = sys.modules["torch"]
            # a tensor made in inference mode can never be differentiated
            with torch.inference_mode(False):
                self._tensors[key] = torch.tensor(array, dtype=V.dtype, device=V.device)
        return self._tensors[key]


def _is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor; there is none unless torch was imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def mean_squared_distance(metric: Metric | None, X: ArrayLike) -> float:
    r"""Mean squared fair distance between two random people, the unit of a relative budget.

    .. math:: E\, d_x^2(X_1, X_2) = 2 \sum_j \operatorname{Var} p_j(X)

    for independent draws :math:`X_1, X_2` of the rows and the metric's coordinates :math:`p`.

    Parameters
    ----------
    metric : Metric, optional
        Any object with ``project``; None is the Euclidean distance.
    X : array-like, shape (n, d)
        Rows.

    Returns
    -------
    float
        A squared distance.
    """
    points = np.asarray(X if metric is None else metric.project(X), dtype=np.float64)
    return 2.0 * float(points.var(axis=0).sum())


def sensitive_columns(sensitive_features: Any) -> dict[str, NDArray[Any]]:
    """Values of every sensitive feature by name; None gives no feature.

    Parameters
    ----------
    sensitive_features : mapping, DataFrame, Series or array-like
        A mapping of names to values; a DataFrame or Arrow table; a Series, by its name; or an array
        of shape (n,) or (n, k), whose columns are named ``group``, or ``group0``, ``group1`` and so
        on.

    Returns
    -------
    dict
        Values by name, each of shape (n,).

    Examples
    --------
    >>> sorted(sensitive_columns({"sex": ["f", "m"], "age": [30, 40]}))
    ['age', 'sex']
    """
    features = sensitive_features
    if features is None:
        return {}
    if hasattr(features, "to_pandas"):
        features = features.to_pandas()
    is_frame = getattr(features, "ndim", 0) == 2 and hasattr(features, "columns")
    if is_frame or isinstance(features, Mapping):
        return {str(name): np.asarray(features[name]) for name in features}
    values = np.asarray(features)
    if values.ndim == 2:
        return {f"group{j}": values[:, j] for j in range(values.shape[1])}
    name = getattr(features, "name", None)
    return {"group" if name is None else str(name): values}


def check_source(title: str, **sources: Any) -> None:
    """ValueError unless exactly one source was given.

    Parameters
    ----------
    title : str
        Name of the metric, for messages.

    Raises
    ------
    ValueError
        Unless exactly one was passed.
    """
    names = [name for name, value in sources.items() if value is not None]
    if len(names) != 1:
        received = " and ".join(names) or "none"
        raise ValueError(f"{title} learns from one of {', '.join(sources)}; got {received}.")


def group_codes(rows: Float, groups: ArrayLike) -> Index:
    """Integer group of every row, shape (n,).
    ValueError: not one id a row, a missing id.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
        Rows.
    groups : array-like, shape (n,)
        Ids of groups.

    Returns
    -------
    ndarray of intp, shape (n,)
        Codes from 0.

    Raises
    ------
    ValueError
        If there is not one id a row, or an id is missing.
    """
    import pandas as pd

    ids = np.asarray(groups)
    if ids.shape != (len(rows),):
        raise ValueError(
            f"groups must have one id per row of X, {len(rows)}, got shape {ids.shape}."
        )
    codes, _ = pd.factorize(ids)
    if (codes < 0).any():
        raise ValueError(
            f"groups lacks the ids of {int((codes < 0).sum())} rows: give each row one."
        )
    return codes
