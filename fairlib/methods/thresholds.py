"""Split thresholds that are no value of a training row."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.mapped import row_blocks

if TYPE_CHECKING:
    import xgboost as xgb

    from evenhand.fairlib.methods.one_hot import OneHotRuns

DIGITS = range(-6, 13)


@dataclass
class _Splits:
    """Numeric splits of one feature, in all trees of a booster."""

    # by split, the list of its tree's thresholds and its position there
    conditions: list[list[float]] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)

    def thresholds(self) -> Float32:
        """Thresholds of the splits as the booster has them, shape (splits,)."""
        pairs = zip(self.conditions, self.nodes, strict=True)
        return np.array([conditions[node] for conditions, node in pairs], dtype=np.float32)

    def replace(self, thresholds: list[float]) -> None:
        """Write new thresholds into the trees.

        Parameters
        ----------
        thresholds : list of float, length splits
            In the order of :meth:`thresholds`.
        """
        for conditions, node, value in zip(self.conditions, self.nodes, thresholds, strict=True):
            conditions[node] = value


def between_values(
    booster: xgb.Booster, rows: Float32, runs: OneHotRuns | None = None
) -> xgb.Booster:
    """Move every numeric split threshold of a booster off the values of its training rows.

    XGBoost sends a row left if its value is below the threshold, and takes thresholds from the
    rows' values. The new threshold is the shortest decimal number strictly between the next smaller
    and the next larger value, so every row takes the same way, and the model shows no row's value.
    Two values without a float32 between them keep their threshold.

    Parameters
    ----------
    booster : xgboost.Booster
    rows : ndarray of float32, shape (n, d)
        All training rows; NaN is a missing value.
    runs : OneHotRuns or None
        The runs of one-hot columns that are joined in `rows`; the result then takes rows that are
        not joined.

    Returns
    -------
    xgboost.Booster
        It has the trees only: it keeps no training matrix.
    """
    import xgboost as xgb

    content = json.loads(booster.save_raw("json"))
    trees = content["learner"]["gradient_booster"]["model"]["trees"]
    splits = _numeric_splits(trees)
    thresholds = {feature: of_feature.thresholds() for feature, of_feature in splits.items()}
    # next smaller and next larger value of every threshold, in all blocks of the rows
    smaller = {feature: np.full(len(old), -np.inf) for feature, old in thresholds.items()}
    larger = {feature: np.full(len(old), np.inf) for feature, old in thresholds.items()}
    for block in row_blocks(rows):
        for feature, old in thresholds.items():
            values = np.unique(rows[block, feature])
            below, above = _gap(old, values[np.isfinite(values)])
            np.maximum(smaller[feature], below, out=smaller[feature])
            np.minimum(larger[feature], above, out=larger[feature])
    for feature, of_feature in splits.items():
        moved = _moved(thresholds[feature], smaller[feature], larger[feature])
        of_feature.replace(moved)
    if runs is not None:
        runs.separate(content)
    return xgb.Booster(model_file=bytearray(json.dumps(content).encode()))


def _numeric_splits(trees: list[dict[str, Any]]) -> dict[int, _Splits]:
    """Numeric splits by feature, of trees as XGBoost's JSON has them."""
    splits: dict[int, _Splits] = {}
    for tree in trees:
        for node, left_child in enumerate(tree["left_children"]):
            is_leaf = left_child < 0
            is_categorical = bool(tree["split_type"][node])
            if is_leaf or is_categorical:
                continue
            of_feature = splits.setdefault(tree["split_indices"][node], _Splits())
            of_feature.conditions.append(tree["split_conditions"])
            of_feature.nodes.append(node)
    return splits


def _gap(thresholds: Float32, values: Float32) -> tuple[Float, Float]:
    """Sorted values next to each threshold: one below it, and one that is not; infinite beyond
    all.
    """
    bounded = np.concatenate([[-np.inf], values.astype(np.float64), [np.inf]])
    place = np.searchsorted(values, thresholds)
    return bounded[place], bounded[place + 1]


def _moved(thresholds: Float32, low: Float, high: Float) -> list[float]:
    """Shortest decimals in the gaps in which the thresholds lie, between two values or beyond all
    of them.
    """
    # beyond all values, a gap of twice the threshold on that side
    width = np.where(np.isfinite(high - low), 0.0, np.maximum(1.0, np.abs(thresholds)))
    low = np.where(np.isfinite(low), low, thresholds - 2 * width)
    high = np.where(np.isfinite(high), high, thresholds + 2 * width)
    moved = thresholds.astype(np.float64)
    unsolved = np.ones(len(thresholds), dtype=bool)
    for digits in DIGITS:
        candidate = np.round((low + high) / 2, digits)
        rounded = candidate.astype(np.float32)
        fits = unsolved & (rounded > low) & (rounded < high)
        moved[fits] = candidate[fits]
        unsolved &= ~fits
    return [float(value) for value in moved]
