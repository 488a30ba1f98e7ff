"""The kinds of fair metrics by their names; reading a saved one, and fitting one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from evenhand.fairlib.distances.explore import EXPLORE
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace

METRICS: dict[str, type[Metric]] = {
    metric.kind: metric for metric in (SensitiveSubspace, FACE, EXPLORE, LearnedMetric)
}


def load_metric(folder: str | Path) -> Metric:
    """Read a saved metric of any kind.

    Parameters
    ----------
    folder : str or Path
        Folder of the metric.

    Returns
    -------
    Metric
        A metric of the saved kind.

    Raises
    ------
    ValueError
        If the folder holds a kind or a format that this version does not know.
    """
    source = Path(folder)
    kind = json.loads((source / "metric.json").read_text()).get("kind")
    if kind not in METRICS:
        raise ValueError(
            f"{source} holds a metric of the kind {kind!r}; known: {', '.join(METRICS)}."
        )
    return METRICS[kind].load(source)


def fitted_metric(metric: Metric | None, X: ArrayLike, sensitive_features: Any) -> Metric:
    """The metric itself if it is fitted, else a fitted clone; without one the fitted sensitive
    subspace.

    Parameters
    ----------
    metric : Metric, optional
        A fair metric, fitted or not; None for the sensitive subspace.
    X : array-like, shape (n, d)
        Rows.
    sensitive_features : mapping, DataFrame, Series or array-like
        As in :func:`evenhand.fairlib.distances.metric_base.sensitive_columns`; needed where a
        metric is to be fitted.

    Returns
    -------
    Metric
        A fitted metric.

    Raises
    ------
    ValueError
        If there is no metric and there are no sensitive features to learn one from, or for a metric
        of another dimension, or one that is to be fitted and finds no direction in which people
        are comparable.
    """
    if metric is None and sensitive_features is None:
        raise ValueError(
            "metric is None: give a fair metric, or sensitive_features to learn one from, as in "
            "fit(X, y, sensitive_features={'sex': sex})."
        )
    fitted: Metric = SensitiveSubspace() if metric is None else metric
    if not hasattr(fitted, "n_features_in_"):
        fitted = clone(fitted).fit(X, sensitive_features=sensitive_features)
        basis = getattr(fitted, "basis_", None)
        if sensitive_features is None and basis is not None and not basis.shape[1]:
            raise ValueError(
                f"no people are comparable by {type(fitted).__name__}(): name columns as its "
                "indicators, or pass sensitive_features to learn from, as in "
                "fit(X, y, sensitive_features={'sex': sex})."
            )
    width = np.shape(X)[1]
    if fitted.n_features_in_ != width:
        raise ValueError(
            f"X has {width} features, but the metric was fitted on {fitted.n_features_in_}."
        )
    return fitted
