"""Kamiran-Calders weights, then boost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.methods.base import Callback, Float64
from evenhand.fairlib.methods.gbdt import BoosterMethod

__all__ = ["ReweighedGBDTClassifier", "kamiran_calders_weights"]


def kamiran_calders_weights(groups: ArrayLike, codes: ArrayLike) -> Float64:
    r"""
    Weights that make group and label independent.

    .. math:: w(g, y) = \frac{P(g) P(y)}{P(g, y)}

    (Kamiran and Calders 2011). The weighted share of every label is then the same in every group, and
    :math:`\sum_i w_i = n` if every cell has a row.

    Parameters
    ----------
    groups : array-like of int, shape (n,)
    codes : array-like of int, shape (n,)

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    group_codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    label_codes = np.unique(np.asarray(codes), return_inverse=True)[1]
    joint = np.zeros((group_codes.max() + 1, label_codes.max() + 1))
    np.add.at(joint, (group_codes, label_codes), 1.0)
    expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True) / joint.sum()
    return (expected / np.where(joint > 0, joint, 1.0))[group_codes, label_codes]


class ReweighedGBDTClassifier(BoosterMethod):
    """
    Gradient boosted trees on rows weighted so that group and label are independent.

    Parameters
    ----------
    attributes : sequence of str or None
        Which of the sensitive features form the groups (their intersection). None: all.
    n_steps, max_depth, eta, reg_lambda, min_child_weight, balance_classes, scale_pos_weight,
    random_state, n_jobs
        As in :class:`fairlib.methods.gbdt.GBDTClassifier`, with XGBoost's defaults, as in the paper's
        comparison.
    """

    def __init__(
        self,
        *,
        attributes: Sequence[str] | None = None,
        n_steps: int = 100,
        max_depth: int = 6,
        eta: float = 0.3,
        reg_lambda: float = 1.0,
        min_child_weight: float = 1.0,
        balance_classes: bool = False,
        scale_pos_weight: float | None = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.attributes = attributes
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
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        callback: Callback | None = None,
    ) -> ReweighedGBDTClassifier:
        """
        Train on weighted rows.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
        sensitive_features : mapping of str to array-like, shape (n,)
            Group of every row, per attribute. Not needed to predict.
        callback : callable or None

        Raises
        ------
        ValueError
            No sensitive features, an attribute that they lack or with another number of rows, or no
            attribute chosen.
        """
        data, codes = self._check_training(X, y)
        weights = kamiran_calders_weights(self._groups(sensitive_features, len(codes)), codes)
        self.booster_ = self._boost(data, codes, steps=self.n_steps, weights=weights, callback=callback)
        return self

    def _groups(self, sensitive_features: Mapping[str, ArrayLike] | None, n: int) -> NDArray[np.int64]:
        """One integer per intersection of the chosen attributes."""
        if sensitive_features is None or len(sensitive_features) == 0:
            raise ValueError("sensitive_features are needed: the weights depend on each row's group.")
        chosen = list(sensitive_features) if self.attributes is None else list(self.attributes)
        if not chosen:
            raise ValueError("attributes is empty: name at least one, or leave it None for all.")
        groups = np.zeros(n, dtype=np.int64)
        for name in chosen:
            if name not in sensitive_features:
                raise ValueError(
                    f"attributes names {name!r}, which sensitive_features lacks; "
                    f"it has {list(sensitive_features)}."
                )
            values = np.asarray(sensitive_features[name])
            if values.shape != (n,):
                raise ValueError(
                    f"sensitive feature {name!r} must have one value per row of X, got shape {values.shape} "
                    f"for {n} rows."
                )
            labels = np.unique(values, return_inverse=True)[1]
            groups = groups * (labels.max() + 1) + labels
        return groups
