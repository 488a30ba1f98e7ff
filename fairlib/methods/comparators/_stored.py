"""How the comparators are saved, and how a chosen threshold decides."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.methods.base import BinaryMethod
from evenhand.fairlib.methods.comparators.linear import Arrays, Linear

__all__ = ["Arrays", "ArraysMethod", "LinearMethod", "ThresholdMethod"]

PARAMETERS_FILE = "parameters.safetensors"


class ArraysMethod(BinaryMethod):
    """Base of the classifiers whose fitted parameters are a few arrays."""

    @abstractmethod
    def _arrays(self) -> Arrays:
        """All that prediction needs."""

    @abstractmethod
    def _restore(self, arrays: Arrays) -> None:
        """Take what ``_arrays`` gave."""

    def _write(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        # a strided view would be written as its memory lies
        kept = {name: np.ascontiguousarray(values) for name, values in self._arrays().items()}
        save_file(kept, str(folder / PARAMETERS_FILE))

    def _read(self, folder: Path) -> None:
        from safetensors.numpy import load_file

        self._restore(load_file(str(folder / PARAMETERS_FILE)))


class LinearMethod(ArraysMethod):
    """
    Base of the classifiers with one logistic regression.

    Attributes
    ----------
    linear_ : Linear
    n_iter_ : int
        Steps of its solver.
    """

    linear_: Linear

    @property
    def n_iter_(self) -> int:
        """Steps of the solver."""
        return self.linear_.n_iter


class ThresholdMethod(LinearMethod):
    """
    Base of the classifiers whose decision threshold is chosen.

    Attributes
    ----------
    threshold_ : float
        A row is predicted ``classes_[1]`` where that class's probability is at least this.
    """

    threshold_: float

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """
        ``classes_[1]`` where its probability is at least ``threshold_``. Deterministic.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray, shape (n,)
        """
        positive = self.predict_proba(X)[:, 1] >= self.threshold_
        return self.classes_[positive.astype(np.int64)]
