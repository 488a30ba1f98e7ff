"""Gradient boosted decision trees (XGBoost): the unmitigated baseline, and the base of all tree methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.methods.base import Callback, Float32, Float64, Method, check_counts

if TYPE_CHECKING:
    import xgboost as xgb

BOOSTER_FILE = "booster.ubj"
TREE_PARAMETERS = ("max_depth", "eta", "reg_lambda", "min_child_weight")
Codes: TypeAlias = NDArray[np.int64]


@dataclass(kw_only=True, repr=False, eq=False)
class GBDTClassifier(Method):
    """
    Gradient boosted trees on the logistic loss.

    The base of all methods whose model is one XGBoost booster. Subclasses are dataclasses too: their fields
    are the keyword arguments of the constructor.

    Parameters
    ----------
    n_steps : int
        Boosting steps.
    max_depth, eta, reg_lambda, min_child_weight
        As XGBoost names them: depth of a tree, learning rate, l2 penalty of leaf weights, least sum of
        hessians in a child.
    balance_classes : bool
        Weight label 1 by n0 / n1 of the training labels.
    scale_pos_weight : float or None
        Weight of label 1, instead of the one that `balance_classes` gives; for two classes.
    random_state : int or None
    n_jobs : int or None
        Threads; None for all.

    Attributes
    ----------
    booster_ : xgboost.Booster
    """

    n_steps: int = 100
    max_depth: int = 6
    eta: float = 0.3
    reg_lambda: float = 1.0
    min_child_weight: float = 1.0
    balance_classes: bool = True
    scale_pos_weight: float | None = None
    random_state: int | None = None
    n_jobs: int | None = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """
        Train; arguments as in :class:`evenhand.fairlib.methods.base.Method`.

        ``sensitive_features`` are ignored without mitigation. The callback is called after every step.

        Raises
        ------
        ValueError
            No sensitive features where the method needs them.
        """
        import xgboost as xgb

        data, codes = self._check_training(X, y)
        rows, weights = self._prepare(data, codes, sensitive_features)
        check_counts(self, "n_steps")
        matrix = xgb.QuantileDMatrix(rows, label=codes, weight=weights, nthread=self.n_jobs or 0)
        booster = xgb.Booster(self._booster_parameters(codes), [matrix])
        for step in range(self.n_steps):
            booster.update(matrix, step)
            if callback is not None:
                callback(step + 1, self.n_steps, {})
        self.booster_ = without_cache(booster)
        return self

    def _prepare(
        self, X: Float32, codes: Codes, sensitive_features: Mapping[str, ArrayLike] | None
    ) -> tuple[Float32, Float64 | None]:
        """Rows and weights that the trees are trained on."""
        return X, None

    def _booster_parameters(self, codes: Codes) -> dict[str, Any]:
        """XGBoost's parameters; a fixed ``base_score`` keeps it from fitting an intercept of its own."""
        weight = self.scale_pos_weight
        if weight is None:
            positives = int(codes.sum())
            weight = (len(codes) - positives) / positives if self.balance_classes else 1.0
        elif not (np.isfinite(weight) and weight > 0):
            raise ValueError(f"scale_pos_weight must be positive and finite, got {weight!r}.")
        return {
            "objective": "binary:logistic",
            "tree_method": "hist",
            "base_score": 0.5,
            **{name: getattr(self, name) for name in TREE_PARAMETERS},
            "scale_pos_weight": weight,
            "seed": 0 if self.random_state is None else int(self.random_state),
            "nthread": self.n_jobs or 0,
        }

    def _probabilities(self, X: Float32) -> Float64:
        found: Float64 = self.booster_.inplace_predict(X).astype(np.float64)
        return np.stack([1.0 - found, found], axis=1) if found.ndim == 1 else found

    def _write(self, folder: Path) -> None:
        self.booster_.save_model(folder / BOOSTER_FILE)

    def _read(self, folder: Path) -> None:
        import xgboost as xgb

        self.booster_ = xgb.Booster(model_file=folder / BOOSTER_FILE)


def without_cache(booster: xgb.Booster) -> xgb.Booster:
    """A copy with the trees only: a trained booster keeps its training matrix in memory."""
    import xgboost as xgb

    return xgb.Booster(model_file=booster.save_raw("ubj"))
