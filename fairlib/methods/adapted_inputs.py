"""Models that read adapted columns: a learned metric maps everybody to one group first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.distances.metric_kinds import load_metric

METRIC_FOLDER = "metric"


class AdaptedInputs:
    """A mixin of tree methods, whose ``metric_`` may adapt columns.

    It comes before :class:`evenhand.fairlib.methods.gbdt.GBDTClassifier` among the bases.
    """

    metric_: Any

    @property
    def adapts_inputs(self) -> bool:
        """Whether the model reads adapted columns instead of those of X."""
        return adapts(getattr(self, "metric_", None))

    def _strength(self) -> float:
        """Share of the way to the counterparts."""
        return 1.0

    def _adapted_training_rows(self, X: Float32) -> Float32:
        rows: Float32 = self.metric_.adapted(X, strength=self._strength())
        return rows

    def _draws(self, X: Float32) -> list[Float32]:
        """The rows to predict from: adapted once for every draw of the categories."""
        strength = self._strength()
        numbers = range(self.metric_.n_draws)
        return [self.metric_.adapted(X, number, strength) for number in numbers]

    def _probabilities(self, X: Float32) -> Float:
        predict: Callable[[Float32], Float] = super()._probabilities  # type: ignore[misc]
        if not self.adapts_inputs:
            return predict(X)
        return mean_of_log_odds([predict(rows) for rows in self._draws(X)])

    def log_odds_by_column(self, X: Float32) -> Float32:
        """As of trees; of adapted columns the mean over all draws.

        Parameters
        ----------
        X : ndarray of float32, shape (n, d)
            Rows before they are adapted.

        Returns
        -------
        ndarray of float32, shape (n, d + 1)
            As :meth:`evenhand.fairlib.methods.gbdt.GBDTClassifier.log_odds_by_column`.
        """
        contributions: Callable[[Float32], Float32] = super().log_odds_by_column  # type: ignore[misc]
        if not self.adapts_inputs:
            return contributions(X)
        parts = np.stack([contributions(rows) for rows in self._draws(X)])
        return np.asarray(parts.mean(axis=0, dtype=np.float64), dtype=np.float32)

    def _write(self, folder: Path) -> None:
        super()._write(folder)  # type: ignore[misc]
        if self.adapts_inputs:
            self.metric_.save(folder / METRIC_FOLDER)

    def _read(self, folder: Path) -> None:
        super()._read(folder)  # type: ignore[misc]
        if (folder / METRIC_FOLDER).is_dir():
            self.metric_ = load_metric(folder / METRIC_FOLDER)


def adapts(metric: Any) -> bool:
    """Whether a metric maps rows to adapted columns.

    Parameters
    ----------
    metric : Metric or None

    Returns
    -------
    bool
        False also where a group cannot be read from the columns.
    """
    return isinstance(metric, LearnedMetric) and metric.adapts


def mean_of_log_odds(probabilities: list[Float]) -> Float:
    """Probabilities whose log-odds are the mean of those of several draws.

    Parameters
    ----------
    probabilities : list of ndarray of float, shape (n, K)

    Returns
    -------
    ndarray of float, shape (n, K)

    Examples
    --------
    >>> mean_of_log_odds([np.array([[0.5, 0.5]]), np.array([[0.2, 0.8]])]).round(3).tolist()
    [[0.333, 0.667]]
    """
    if len(probabilities) == 1:
        return probabilities[0]
    smallest = np.finfo(np.float64).tiny
    logs = np.mean([np.log(np.maximum(part, smallest)) for part in probabilities], axis=0)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
