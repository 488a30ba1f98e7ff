"""Project the sensitive subspace out of the features, then boost."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.distances.registry import fitted_metric, load_metric
from evenhand.fairlib.methods.base import Callback, Float32, Float64
from evenhand.fairlib.methods.gbdt import BoosterMethod

__all__ = ["ProjectedGBDTClassifier"]


@dataclass(kw_only=True, repr=False, eq=False)
class ProjectedGBDTClassifier(BoosterMethod):
    r"""
    Gradient boosted trees on :math:`X (I - P)`, invariant along the sensitive subspace.

    The comparator "project" of Vargo et al. 2021 (appendix C.2).

    Parameters
    ----------
    metric : Metric or None
        The metric whose subspace is removed; one that is not fitted is cloned and fitted at ``fit``. None:
        the sensitive subspace, learned at ``fit`` from ``sensitive_features``.

    Attributes
    ----------
    metric_ : Metric
    """

    metric: Metric | None = field(default=None, kw_only=False)

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, sensitive_features: Any = None, callback: Callback | None = None
    ) -> Self:
        """
        Train on the projected features; the arguments are those of ``GBDTClassifier.fit``.

        Raises
        ------
        ValueError
            Neither a metric nor sensitive features were given, or the metric has another dimension than X.
        """
        data, codes = self._check_training(X, y)
        self.metric_ = fitted_metric(self.metric, data, sensitive_features)
        return self._boost(self._project(data), codes, callback)

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
