"""Split thresholds that are no value of a training row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.mapped import row_blocks

if TYPE_CHECKING:
    import xgboost as xgb

    from evenhand.fairlib.methods.one_hot import OneHotRuns

DIGITS = range(-6, 13)


def between_values(
    booster: xgb.Booster, rows: Float32, runs: OneHotRuns | None = None
) -> xgb.Booster:
    """Move every numeric split threshold of a booster off the values of the rows that it was
    trained on.

    XGBoost sends a row left if its value is below the threshold, and takes thresholds from the
    rows' values. The new threshold is the shortest decimal number strictly between the next smaller
    and the next larger value, so every row takes the same way, and the model shows no row's value.
    Two values without a float32 between them keep their threshold. `rows`, float32 of shape (n, d),
    are all training rows; NaN is a missing value. With `runs` they are joined, and the result takes
    rows that are not. It has the trees only: it keeps no training matrix.
    """
    import xgboost as xgb

    content = json.loads(booster.save_raw("json"))
    trees = content["learner"]["gradient_booster"]["model"]["trees"]
    used: dict[int, list[tuple[list[float], int]]] = {}
    for tree in trees:
        nodes = zip(tree["left_children"], tree["split_type"], tree["split_indices"], strict=True)
        for node, (left, categorical, feature) in enumerate(nodes):
            if left >= 0 and not categorical:
                used.setdefault(feature, []).append((tree["split_conditions"], node))
    old = {
        feature: np.array([conditions[node] for conditions, node in places], dtype=np.float32)
        for feature, places in used.items()
    }
    # next smaller and next larger value of every threshold, in all blocks of the rows
    gaps = {feature: np.tile([[-np.inf], [np.inf]], len(values)) for feature, values in old.items()}
    for block in row_blocks(rows):
        for feature, (low, high) in gaps.items():
            known = np.unique(rows[block, feature])
            below, above = _gap(old[feature], known[np.isfinite(known)])
            np.maximum(low, below, out=low)
            np.minimum(high, above, out=high)
    for feature, places in used.items():
        for (conditions, node), value in zip(
            places, _moved(old[feature], *gaps[feature]), strict=True
        ):
            conditions[node] = value
    if runs is not None:
        runs.separate(content)
    return xgb.Booster(model_file=bytearray(json.dumps(content).encode()))


def _gap(thresholds: Float32, known: Float32) -> tuple[Float, Float]:
    """Sorted values next to each threshold, infinite beyond all: one below it, and one that
    is not.
    """
    bounded = np.concatenate([[-np.inf], known.astype(np.float64), [np.inf]])
    place = np.searchsorted(known, thresholds)
    return bounded[place], bounded[place + 1]


def _moved(thresholds: Float32, low: Float, high: Float) -> list[Any]:
    """Shortest decimals in the gaps in which the thresholds lie, between two values or beyond all
    of them.
    """
    width = np.where(np.isfinite(high - low), 0.0, np.maximum(1.0, np.abs(thresholds)))
    low = np.where(np.isfinite(low), low, thresholds - 2 * width)
    high = np.where(np.isfinite(high), high, thresholds + 2 * width)
    found = thresholds.astype(np.float64)
    open_ = np.ones(len(thresholds), dtype=bool)
    for digits in DIGITS:
        candidate = np.round((low + high) / 2, digits)
        rounded = candidate.astype(np.float32)
        fits = open_ & (rounded > low) & (rounded < high)
        found[fits], open_ = candidate[fits], open_ & ~fits
    return list(found.tolist())
