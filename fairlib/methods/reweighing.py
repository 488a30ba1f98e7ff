"""Kamiran-Calders weights, then boost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.methods.base import Float32, Float64
from evenhand.fairlib.methods.gbdt import Codes, GBDTClassifier

__all__ = ["ReweighedGBDTClassifier", "kamiran_calders_weights"]


def kamiran_calders_weights(groups: ArrayLike, codes: ArrayLike) -> Float64:
    r"""
    Weights that make group and label independent.

    .. math:: w(g, y) = \frac{P(g) P(y)}{P(g, y)}

    (Kamiran and Calders 2011). The weighted share of every label is then the same in every group, and
    :math:`\sum_i w_i = n` if every cell has a row.

    Groups, labels and weights have the shape (n,).
    """
    group_codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    label_codes = np.unique(np.asarray(codes), return_inverse=True)[1]
    joint = np.zeros((group_codes.max() + 1, label_codes.max() + 1))
    np.add.at(joint, (group_codes, label_codes), 1.0)
    expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True) / joint.sum()
    return (expected / np.where(joint > 0, joint, 1.0))[group_codes, label_codes]


@dataclass(kw_only=True, repr=False, eq=False)
class ReweighedGBDTClassifier(GBDTClassifier):
    """
    Gradient boosted trees on rows weighted so that group and label are independent.

    The defaults are XGBoost's, as in the comparison of Vargo et al. 2021.

    Parameters
    ----------
    attributes : sequence of str or None
        The sensitive features that form the groups (their intersection). None: all.
    """

    attributes: Sequence[str] | None = None
    balance_classes: bool = False

    def _prepare(
        self, X: Float32, codes: Codes, sensitive_features: Mapping[str, ArrayLike] | None
    ) -> tuple[Float32, Float64 | None]:
        return X, kamiran_calders_weights(self._groups(sensitive_features, len(codes)), codes)

    def _groups(self, sensitive_features: Mapping[str, ArrayLike] | None, n: int) -> Codes:
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
