"""All kinds of fair metrics by name, and the loading and fitting of any kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.distances.explore import EXPLORE
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace

METRICS: dict[str, type[Metric]] = {metric.kind: metric for metric in (SensitiveSubspace, FACE, EXPLORE)}


def load_metric(folder: str | Path) -> Metric:
    """
    Read a saved metric of any kind.

    Raises
    ------
    ValueError
        The folder holds a kind or a format that this version does not know.
    """
    source = Path(folder)
    kind = json.loads((source / "metric.json").read_text()).get("kind")
    if kind not in METRICS:
        raise ValueError(f"{source} holds a metric of the kind {kind!r}; known: {', '.join(METRICS)}.")
    return METRICS[kind].load(source)


def fitted_metric(
    metric: Metric | None, X: ArrayLike, sensitive_features: Mapping[str, ArrayLike] | None
) -> Metric:
    """
    The metric itself if it is fitted, else a fitted clone; without one the fitted sensitive subspace.

    X has the shape (n, d), every sensitive feature the shape (n,).

    Raises
    ------
    ValueError
        No metric and no sensitive features to learn one from, or a metric of another dimension.
    """
    if metric is None and sensitive_features is None:
        raise ValueError("metric is None: give a fair metric, or sensitive_features to learn one from.")
    found: Metric = SensitiveSubspace() if metric is None else metric
    if not hasattr(found, "n_features_in_"):
        found = clone(found).fit(X, sensitive_features=sensitive_features)
    width = np.shape(X)[1]
    if found.n_features_in_ != width:
        raise ValueError(f"X has {width} features, but the metric was fitted on {found.n_features_in_}.")
    return found
