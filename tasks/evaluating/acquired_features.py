"""Acquired features: the questions that a model asked of the test rows, and its metrics with all
features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.evaluation.acquisition import (
    Questions,
    adversary_auc,
    answers_matrix,
    asked_histogram,
    question_report,
)
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.methods.decided import labels_of
from evenhand.tasks.evaluating.measured_controls import Wrapped
from evenhand.tasks.execution.dataset import Dataset

if TYPE_CHECKING:
    # imported for types only: the module loads compiled kernels
    from evenhand.fairlib.methods.dadi.dadi_classifier import Acquisition, DADIClassifier


class FullInformation(Wrapped):
    """The same model with all features known that it may ask for."""

    def predict_proba(self, X: Float32) -> Float:
        """Class probabilities, shape (n, 2)."""
        allowed_cells = np.broadcast_to(self.model.allowed_, (len(X), len(self.model.allowed_)))
        probabilities: Float = self.model.predict_proba_known(X, allowed_cells)
        return probabilities

    def predict(self, X: Float32, groups: NDArray[Any] | None = None) -> NDArray[Any]:
        """Labels by the model's rule."""
        return labels_of(self.model, self.predict_proba(X)[:, 1], X, groups)


def questions_of(model: DADIClassifier, acquired: Acquisition) -> Questions:
    """The questions that were asked, with the names of the features."""
    return Questions(tuple(model.groups_), acquired.order, model.allowed_)


def adversaries(
    model: DADIClassifier, acquired: Acquisition, data: Dataset, settings: Mapping[str, Any]
) -> dict[str, MetricValue]:
    """``adversary_auc`` of every sensitive attribute, also of those that no adversary was trained
    for.

    The settings are those of :func:`evenhand.fairlib.evaluation.acquisition.adversary_auc`.
    """
    answers = answers_matrix(data.X, acquired.known, list(model.groups_.values()))
    return {
        f"adversary_auc.{name}": adversary_auc(
            answers, groups.astype(str), people=data.people, **settings
        )
        for name, groups in data.sensitive.items()
    }


def acquisition_content(
    model: DADIClassifier,
    questions: Questions,
    data: Dataset,
    *,
    asked: MetricValue,
    full_information: Mapping[str, float | None],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Content of ``acquisition.json``: shares and places of the questions, and the metrics with all
    features.

    It holds no row, and no share of fewer people than `min_cell`.
    """
    feature_report = model.feature_report_
    alone = feature_report.get("groups", {})
    unknown = {"classifier_auc": None, "adversary_auc": None}
    report_settings = {"level": settings["level"], "min_cell": settings["min_cell"]}
    report = question_report(questions, data.y, data.sensitive, **report_settings)
    return {
        "gamma": model.gamma,
        "criterion": model.criterion,
        "attributes": model.attributes_,
        "rows": len(data.y),
        "level": settings["level"],
        "groups": [entry | alone.get(entry["name"], unknown) for entry in report],
        "asked": {
            "mean": asked.value,
            "low": asked.low,
            "high": asked.high,
            "histogram": asked_histogram(questions),
        },
        "auc": {name: feature_report.get(name, unknown) for name in ("all", "acquired")},
        "full_information": dict(full_information),
    }
