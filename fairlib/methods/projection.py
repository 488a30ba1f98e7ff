"""Project the sensitive subspace out of the features, then boost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.distances.registry import fitted_metric, load_metric
from evenhand.fairlib.methods.base import Float32, Float64
from evenhand.fairlib.methods.gbdt import Codes, GBDTClassifier

__all__ = ["ProjectedGBDTClassifier"]


@dataclass(kw_only=True, repr=False, eq=False)
class ProjectedGBDTClassifier(GBDTClassifier):
    r"""
    Gradient boosted trees on :math:`X (I - P)`, invariant along the sensitive subspace.

    The comparator "project" of Vargo et al. 2021 (appendix C.2).

    Parameters
    ----------
    metric : Metric or None
        The metric whose subspace is removed; one that is not fitted is cloned and fitted at ``fit``. None:
        the sensitive subspace, learned at ``fit`` from ``sensitive_features``, which are needed then.

    Attributes
    ----------
    metric_ : Metric
    """

    metric: Metric | None = field(default=None, kw_only=False)

    def _prepare(
        self, X: Float32, codes: Codes, sensitive_features: Mapping[str, ArrayLike] | None
    ) -> tuple[Float32, Float64 | None]:
        self.metric_ = fitted_metric(self.metric, X, sensitive_features)
        return self._project(X), None

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
