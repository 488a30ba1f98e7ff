"""Regression: the networks with one output and the squared error, for numbers in place of
classes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.methods.networks.sensei import (
    CLPClassifier,
    SenSeIClassifier,
    SenSRClassifier,
)

TARGET_FILE = "target.json"


class Regression(RegressorMixin):  # type: ignore[misc]
    """Makes a regressor of a network's classifier: one output, and the squared error as `loss`.

    The target is standardised for the training. So the loss, the output distance of SenSeI and CLP
    (the squared difference) and certificates are in units of the variance of y. The parameters are
    those of the classifier; `class_balance` has no effect.

    Attributes
    ----------
    target_mean_, target_scale_ : float
        Mean and standard deviation of y in the training rows.
    """

    _n_outputs = 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = None
        return tags

    def _check_training(self: Any, X: ArrayLike, y: ArrayLike) -> Any:
        data, target = self._validated(X, y=y, y_numeric=True)
        target = np.asarray(target, dtype=np.float64)
        self.target_mean_ = float(target.mean())
        self.target_scale_ = float(target.std()) or 1.0
        return data, (target - self.target_mean_) / self.target_scale_

    def _held_out(self: Any, codes: Any) -> Int:
        if len(codes) < 2:
            raise ValueError(
                "one sample is too few to set some aside: give more, or n_iter_no_change=None."
            )
        count = min(max(1, round(self.validation_fraction * len(codes))), len(codes) - 1)
        return np.sort(generator(self.random_state, "validation").permutation(len(codes))[:count])

    @property
    def predict_proba(self) -> Any:
        """Missing: numbers have no class probabilities."""
        raise AttributeError(
            f"{type(self).__name__} predicts numbers, which have no probabilities."
        )

    def predict(self: Any, X: ArrayLike) -> Float:
        """Predict numbers.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float, shape (n,)
            In the units of y.
        """
        outputs = self.decision_logits(self._validated(X, reset=False))[:, 0]
        return outputs.astype(np.float64) * self.target_scale_ + self.target_mean_

    def _write(self: Any, folder: Path) -> None:
        super()._write(folder)
        units = {"mean": self.target_mean_, "scale": self.target_scale_}
        (folder / TARGET_FILE).write_text(json.dumps(units))

    def _read(self: Any, folder: Path) -> None:
        super()._read(folder)
        units = json.loads((folder / TARGET_FILE).read_text())
        self.target_mean_ = units["mean"]
        self.target_scale_ = units["scale"]


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralNetworkRegressor(Regression, NeuralNetworkClassifier):
    """As :class:`NeuralNetworkClassifier`, for numbers (:class:`Regression`).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> model = NeuralNetworkRegressor(hidden=(8,), n_steps=200, learning_rate=0.01, random_state=0)
    >>> model.fit(X, merit).predict(X).shape
    (200,)
    >>> bool(model.score(X, merit) > 0.5)
    True
    """


@dataclass(kw_only=True, eq=False, repr=False)
class SenSeIRegressor(Regression, SenSeIClassifier):
    """As :class:`SenSeIClassifier`, for numbers (:class:`Regression`).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
    >>> metric = SensitiveSubspace(indicators=[0], learned=[]).fit(X)
    >>> model = SenSeIRegressor(metric, hidden=(8,), rho=5.0, n_steps=50, random_state=0)
    >>> model.fit(X, merit).predict(X).shape
    (200,)
    >>> "output_distance" in model.history_
    True
    """


@dataclass(kw_only=True, eq=False, repr=False)
class SenSRRegressor(Regression, SenSRClassifier):
    """As :class:`SenSRClassifier`, for numbers (:class:`Regression`).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
    >>> metric = SensitiveSubspace(indicators=[0], learned=[]).fit(X)
    >>> model = SenSRRegressor(metric, hidden=(8,), n_steps=50, random_state=0)
    >>> model.fit(X, merit).predict(X).shape
    (200,)
    """


@dataclass(kw_only=True, eq=False, repr=False)
class CLPRegressor(Regression, CLPClassifier):
    """As :class:`CLPClassifier`, for numbers (:class:`Regression`).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> copies = [np.column_stack([1 - sex, X[:, 1]])]
    >>> model = CLPRegressor(hidden=(8,), rho=5.0, n_steps=50, random_state=0)
    >>> model.fit(X, merit, counterfactuals=copies).predict(X).shape
    (200,)
    """
