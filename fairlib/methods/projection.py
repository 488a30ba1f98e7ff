"""Project the sensitive subspace out of the features, then boost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.distances.registry import fitted_metric, load_metric
from evenhand.fairlib.methods.base import Callback, Float32, Float64
from evenhand.fairlib.methods.gbdt import BoosterMethod

__all__ = ["ProjectedGBDTClassifier"]


class ProjectedGBDTClassifier(BoosterMethod):
    r"""
    Gradient boosted trees on :math:`X (I - P)`, blind to the sensitive subspace.

    The comparator "project" of Vargo et al. 2021 (appendix C.2).

    Parameters
    ----------
    metric : Metric or None
        The metric whose subspace is removed; one that is not fitted is cloned and fitted at ``fit``. None:
        the sensitive subspace, learned at ``fit`` from ``sensitive_features``.
    n_steps, max_depth, eta, reg_lambda, min_child_weight, balance_classes, scale_pos_weight,
    random_state, n_jobs
        As in :class:`evenhand.fairlib.methods.gbdt.GBDTClassifier`.

    Attributes
    ----------
    metric_ : Metric
    """

    def __init__(
        self,
        metric: Metric | None = None,
        *,
        n_steps: int = 100,
        max_depth: int = 6,
        eta: float = 0.3,
        reg_lambda: float = 1.0,
        min_child_weight: float = 1.0,
        balance_classes: bool = True,
        scale_pos_weight: float | None = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.n_steps = n_steps
        self.max_depth = max_depth
        self.eta = eta
        self.reg_lambda = reg_lambda
        self.min_child_weight = min_child_weight
        self.balance_classes = balance_classes
        self.scale_pos_weight = scale_pos_weight
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        callback: Callback | None = None,
    ) -> ProjectedGBDTClassifier:
        """
        Train on the projected features.

        Raises
        ------
        ValueError
            Neither a metric nor sensitive features were given, or the metric has another dimension than X.
        """
        data, codes = self._check_training(X, y)
        self.metric_ = fitted_metric(self.metric, data, sensitive_features)
        self.booster_ = self._boost(
            self._project(data), codes, steps=self.n_steps, weights=None, callback=callback
        )
        return self

    def _project(self, X: Float32) -> Float32:
        return self.metric_.project(X).astype(np.float32)

    def _probabilities(self, X: Float32) -> Float64:
        return super()._probabilities(self._project(X))

    def _write(self, folder: Path) -> None:
        super()._write(folder)
        self.metric_.save(folder / "metric")

    def _read(self, folder: Path) -> None:
        super()._read(folder)
        self.metric_ = load_metric(folder / "metric")
