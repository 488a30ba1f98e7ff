"""Controls on the test rows: their metrics, and the paired differences of the method's model from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired import Comparison, compare

MAJORITY, PLAIN, BLIND = CONTROLS = ("majority", "plain", "blind")
Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Majority:
    """The commonest answer for everybody, with the share of positives in the training rows as probability."""

    positive_share: float
    classes_ = np.array([0, 1])

    def predict_proba(self, X: Matrix) -> NDArray[np.float64]:
        """Class probabilities, shape (n, 2)."""
        return np.tile([1.0 - self.positive_share, self.positive_share], (len(X), 1))

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Commonest label, shape (n,)."""
        return np.full(len(X), int(self.positive_share > 0.5))


@dataclass(frozen=True)
class Blind:
    """A model that was trained with 0 in some columns, and so predicts from the others."""

    model: Any
    columns: list[int]

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels."""
        found: NDArray[Any] = self.model.classes_
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)

    def predict_proba(self, X: Matrix) -> NDArray[np.float64]:
        """Class probabilities, shape (n, 2)."""
        found: NDArray[np.float64] = self.model.predict_proba(self._hidden(X))
        return found

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Labels, shape (n,)."""
        found: NDArray[Any] = self.model.predict(self._hidden(X))
        return found

    def _hidden(self, X: Matrix) -> Matrix:
        copy = np.array(X, dtype=np.float32)
        copy[:, self.columns] = 0.0
        return copy


@dataclass(frozen=True)
class MeasuredControl:
    """A control's outcomes on the test rows, and its certificates.

    `same_as` names the model that it equals: the method's own, or the control without mitigation.
    """

    name: str
    outcomes: Outcomes
    certificates: Mapping[str, MetricValue]
    same_as: str | None = None


def controls_content(
    outcomes: Outcomes,
    certificates: Mapping[str, MetricValue],
    measured: list[MeasuredControl],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Metrics of each control and differences of the method's model from it, as plain JSON types.

    The differences have paired intervals, except those of certificates.
    """
    found = {}
    for control in measured:
        compared = compare(outcomes, control.outcomes, **settings).to_json()["differences"]
        single = compare_values(outcomes, control.outcomes, settings)
        for name, value in certificates.items():
            other = control.certificates.get(name)
            if other is not None and value.value is not None and other.value is not None:
                single[name] = other.value
                compared[name] = {**vars(MetricValue(value.value - other.value))}
        found[control.name] = {"same_as": control.same_as, "metrics": single, "differences": compared}
    return {"rows": outcomes.n, "level": settings["level"], "controls": found}


def compare_values(
    outcomes: Outcomes, control: Outcomes, settings: Mapping[str, Any]
) -> dict[str, float | None]:
    """Values of a control's metrics, without intervals."""
    from evenhand.fairlib.evaluation.evaluate import evaluate

    found = evaluate(control, **{**settings, "draws": 0})
    return {name: metric.value for name, metric in found.metrics.items()}


def comparisons(content: Mapping[str, Any]) -> dict[str, Comparison]:
    """Differences from each control, as gates read them."""
    return {
        name: Comparison.from_json({"differences": control["differences"], "n": content["rows"]})
        for name, control in content["controls"].items()
    }
