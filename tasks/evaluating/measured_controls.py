"""Controls on the test rows: their metrics, and the paired differences of the method's model from
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.evaluation.acquisition import mean_of_people
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue, evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired import Comparison, compare
from evenhand.tasks.evaluating.control_names import PLAIN

Matrix = Float32


@dataclass(frozen=True)
class Majority:
    """The majority-class baseline, with the labels' shares in the training rows as
    probabilities.
    """

    shares: tuple[float, ...]

    def predict_proba(self, X: Matrix) -> Float:
        """Class probabilities, shape (n, L)."""
        return np.tile(self.shares, (len(X), 1))

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Most frequent label, shape (n,)."""
        return np.full(len(X), int(np.argmax(self.shares)))


@dataclass(frozen=True)
class Wrapped:
    """A model that predicts in its own way; all else is that of the model."""

    model: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)


@dataclass(frozen=True)
class Blind(Wrapped):
    """A model that was trained with 0 in some columns, and so predicts from the others."""

    columns: list[int]

    def predict_proba(self, X: Matrix) -> Float:
        """Class probabilities, shape (n, L)."""
        probabilities: Float = self.model.predict_proba(self._hidden(X))
        return probabilities

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Labels, shape (n,)."""
        predictions: NDArray[Any] = self.model.predict(self._hidden(X))
        return predictions

    def _hidden(self, X: Matrix) -> Matrix:
        copy = np.array(X, dtype=np.float32)
        copy[:, self.columns] = 0.0
        return copy


Against = tuple[dict[str, Any], dict[str, float | None]]
"""Differences of the method's model from a control, and the control's own metrics, as plain JSON
types.
"""


@dataclass(frozen=True)
class MeasuredControl:
    """A control's outcomes on the test rows, and its certificates.

    `same_as` names the model that it equals: the method's own, or the control without mitigation.
    """

    name: str
    outcomes: Outcomes
    certificates: Mapping[str, MetricValue]
    same_as: str | None = None
    by_sentence: Mapping[str, Float] = field(
        default_factory=dict
    )  # of token metrics, shape (m,) each
    against: Against | None = None  # the method's model, if that was compared already


def controls_content(
    own: MeasuredControl, measured: Iterable[MeasuredControl], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Metrics of each control and differences of the method's model, `own`, from it, as plain JSON
    types.

    The differences have paired intervals, those of token metrics over sentences, those of
    certificates none. An iterator of controls has one control's rows in memory at a time.
    """
    outcomes = own.outcomes
    certificates = own.certificates
    chance = {key: settings[key] for key in ("draws", "level", "min_cell", "seed")}
    content_by_control = {}
    for control in measured:
        compared, single = control.against or compared_with(outcomes, control.outcomes, settings)
        for name, value in certificates.items():
            baseline_value = control.certificates.get(name)
            if (
                baseline_value is not None
                and value.value is not None
                and baseline_value.value is not None
            ):
                single[name] = baseline_value.value
                compared[name] = {**vars(MetricValue(value.value - baseline_value.value))}
                if name in own.by_sentence:
                    apart = own.by_sentence[name] - control.by_sentence[name]
                    compared[name] = {**vars(mean_of_people(apart, **chance, least=-1.0, most=1.0))}
        content_by_control[control.name] = {
            "same_as": control.same_as,
            "metrics": single,
            "differences": compared,
        }
    return {"rows": outcomes.n, "level": settings["level"], "controls": content_by_control}


def compared_with(outcomes: Outcomes, control: Outcomes, settings: Mapping[str, Any]) -> Against:
    """Compare a model with a control on the same rows; the differences have paired intervals."""
    differences = compare(outcomes, control, **settings).to_json()["differences"]
    plain = evaluate(control, **{**settings, "draws": 0}).metrics
    return differences, {name: metric.value for name, metric in plain.items()}


def compared_with_itself(evaluation: Evaluation) -> Against:
    """Compare a model with a control that is the model: 0 for whatever could be measured."""
    differences = {}
    for name, metric in evaluation.metrics.items():
        bound = None if metric.low is None else 0.0
        differences[name] = vars(metric if metric.value is None else MetricValue(0.0, bound, bound))
    return differences, {name: metric.value for name, metric in evaluation.metrics.items()}


def comparisons(content: Mapping[str, Any]) -> dict[str, Comparison]:
    """Differences from each control, as gates read them; those from a missing control are not
    measured, for its reason.
    """
    rows = content["rows"]
    compared = {}
    for name, control in content["controls"].items():
        compared[name] = Comparison.from_json({"differences": control["differences"], "n": rows})
    for name, reason in content.get("missing", {}).items():
        unmeasured = MetricValue.insufficient(reason)
        measured = content["controls"][PLAIN]["differences"]
        compared[name] = Comparison(dict.fromkeys(measured, unmeasured), rows)
    return compared
