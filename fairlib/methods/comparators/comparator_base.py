"""The base of the comparators: input, saved arrays, and imports of optional libraries."""

# Annotations are evaluated here, without `from __future__ import annotations`: constructors that
# subclasses in other modules inherit show them as types, and jobs are checked against these.

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.methods.method_base import Callback, Method, read_tensors
from evenhand.fairlib.methods.registry import needed_extra, spec_of_class
from evenhand.fairlib.methods.row_groups import Groups, read_groups
from evenhand.fairlib.preprocessing.input_tables import with_columns_of

PARAMETERS_FILE = "parameters.safetensors"
Arrays = Mapping[str, NDArray[Any]]


@contextmanager
def optional_import(method: type) -> Iterator[None]:
    """Import the libraries of a method's class in this context.

    Parameters
    ----------
    method : type
        Class of the method.

    Raises
    ------
    ImportError
        If a library is not installed; the message says what installs it.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{needed_extra(spec_of_class(method))} ({error})") from error


def repeated_rows(weights: Float | None, rows: Int) -> Int:
    """As many rows as given, each as often as its weight relative to the mean says, up to
    rounding.

    Parameters
    ----------
    weights : ndarray of float, shape (n,), or None
        Those of all rows; None gives the rows as they are.
    rows : ndarray of int, shape (m,)
        Positions of some of the n rows.

    Returns
    -------
    ndarray of int, shape (m,)
        Positions, in the order of `rows`.
    """
    if weights is None:
        return rows
    # systematic sampling: the drawn points are equally far apart on the cumulated weights
    upto = np.cumsum(weights[rows])
    points = (np.arange(len(rows)) + 0.5) / len(rows) * upto[-1]
    return rows[np.minimum(np.searchsorted(upto, points), len(rows) - 1)]


@dataclass(kw_only=True, eq=False, repr=False)
class Comparator(Method):
    """Base of the classifiers whose fitted parameters are a few arrays.

    A subclass implements ``_learn``, ``_positive_probability``, ``_arrays`` and ``_restore``. Where
    a library trains, only the numbers that prediction needs are kept, so that a saved model loads
    without the library.

    Parameters
    ----------
    random_state : int or None
    """

    random_state: int | None = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train; as in :class:`evenhand.fairlib.methods.method_base.Method`.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Training rows.
        y : array-like, shape (n,)
            Labels.
        sensitive_features : mapping, DataFrame, Series or array of n rows, or names of columns of X
            Ignored without mitigation.
        sample_weight : array-like, shape (n,), or None
            Weight of every row, at least 0; None: all count the same. A library that takes no
            weights gets each row as often as its weight says.
        callback : callable or None
            Called after every step that is reported, at least after the last, with (step, steps,
            empty mapping).

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            For a parameter out of its range; no sensitive features, an unknown attribute or one of
            a single group; a group without one of the labels, where the method compares error
            rates; too few rows.
        FloatingPointError
            If an output of a network is not finite.
        ImportError
            If the optional extra is not installed.
        """
        data, codes, weights = self._begin_fit(X, y, sample_weight)
        sensitive_features = with_columns_of(X, sensitive_features)
        groups = self._groups(sensitive_features, codes)
        self._learn(data, codes, groups, weights, callback or (lambda step, steps, progress: None))
        return self

    def _check_parameters(self) -> None:
        self._check_whole_numbers("random_state")

    def _groups(self, sensitive_features: Any, codes: Int) -> Groups:
        """Groups to treat; without mitigation one of all rows."""
        return Groups((), np.zeros(len(codes), np.int64), ("all",))

    @abstractmethod
    def _learn(
        self, data: Float32, codes: Int, groups: Groups, weights: Float | None, callback: Callback
    ) -> None:
        """Set the fitted parameters."""

    @abstractmethod
    def _positive_probability(self, X: Float32) -> Float:
        """Probability of ``classes_[1]``, shape (n,)."""

    def _probabilities(self, X: Float32) -> Float:
        positive = self._positive_probability(X)
        return np.stack([1.0 - positive, positive], axis=1)

    @abstractmethod
    def _arrays(self) -> Arrays:
        """All that prediction needs."""

    @abstractmethod
    def _restore(self, arrays: Arrays) -> None:
        """Set the fitted parameters to what ``_arrays`` gave."""

    def _write(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        # a strided view would be written in the order of its memory
        arrays = {name: np.ascontiguousarray(values) for name, values in self._arrays().items()}
        save_file(arrays, str(folder / PARAMETERS_FILE))

    def _read(self, folder: Path) -> None:
        self._restore(read_tensors(folder / PARAMETERS_FILE, "numpy")[1])


@dataclass(kw_only=True, eq=False, repr=False)
class GroupComparator(Comparator):
    """Base of the comparators that treat groups.

    Parameters
    ----------
    attribute : str or None
        The sensitive feature that forms the groups. None: all, crossed.
    """

    attribute: str | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_name("attribute")

    def _groups(self, sensitive_features: Any, codes: Int) -> Groups:
        chosen = None if self.attribute is None else [self.attribute]
        return read_groups(sensitive_features, chosen, len(codes))
