"""The certificate of a model's outputs: what a search found, what is proved, and their metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.certificates.proof import NAMES, Proof, prove
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.evaluation.certificates import Certificate, certify, value_intervals
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.tasks.execution.step import Stages

NONE_FOUND = "no comparable point with another decision was found"
ODDS = (1.25, 1.5, 2.0, 4.0)


@dataclass(frozen=True)
class Certified:
    """A search's certificate, the proof, and the bootstrap settings of their intervals.

    Trees have no search, and neither have networks on adapted columns, which have outputs.
    """

    found: Certificate | None
    proof: Proof
    settings: Mapping[str, Any]
    has_outputs: bool = False

    def metrics(self) -> dict[str, MetricValue]:
        """The found value, and both ends of every interval; one that is not proved has a reason
        instead.
        """
        metrics = {}
        if self.found is not None:
            metrics["certificate.dif"] = _first(self.found.values, self.found.low, self.found.high)
        elif self.has_outputs:
            not_searched = self.proof.reasons["certificate.dif"]
            metrics["certificate.dif"] = MetricValue.insufficient(not_searched)
        names: tuple[str, ...] = NAMES
        if not metrics:
            names = NAMES[1:]
        for name in names:
            interval = self.proof.intervals.get(name)
            if interval is None:
                reason = MetricValue.insufficient(self.proof.reasons[name])
                metrics |= {f"{name}.found": reason, f"{name}.proved": reason}
                continue
            largest_found = MetricValue.insufficient(NONE_FOUND)
            proved = MetricValue(interval.proved)
            if np.isfinite(interval.found):
                largest_found = MetricValue(interval.found)
            if name == "certificate.dif":
                candidates = (metrics[name], largest_found)
                largest_found = max(candidates, key=lambda metric: metric.value or 0.0)
                proved = self._with_interval(interval.proved)
            metrics |= {f"{name}.found": largest_found, f"{name}.proved": proved}
        return metrics

    def _with_interval(self, value: float) -> MetricValue:
        """The proved mean change with its interval over the people."""
        if self.found is None or self.proof.hulls is None or not self.settings["draws"]:
            return MetricValue(value)
        budget = self.found.budgets[:1]
        point = np.array([value])
        return _first(point, *value_intervals(self.proof.hulls, budget, point, **self.settings))

    def content(self) -> dict[str, Any]:
        """The proof; of a search also the curve by rising budgets and shares of people; as JSON
        types.
        """
        intervals = {}
        for name, interval in self.proof.intervals.items():
            intervals[name] = {"found": None, "proved": interval.proved}
            if np.isfinite(interval.found):
                intervals[name]["found"] = interval.found
        proof = {
            "people": self.proof.people,
            "proof": {
                "radius": self.proof.radius,
                "unchanged": self.proof.unchanged,
                "intervals": intervals,
                "reasons": self.proof.reasons,
            },
        }
        if self.found is None:
            return proof
        certificate = self.found
        order = np.argsort(certificate.budgets)
        return proof | {
            "budget": float(certificate.budgets[0]),
            "value": float(certificate.values[0]),
            "multiplier": float(certificate.multipliers[0]),
            "curve": {
                "budgets": certificate.budgets[order].tolist(),
                "values": certificate.values[order].tolist(),
                "low": _listed(certificate.low, order),
                "high": _listed(certificate.high, order),
            },
            "shares": [
                {"odds": factor, "share": certificate.share_bound_of_odds(factor)}
                for factor in ODDS
            ],
        }


def _listed(values: Float | None, order: Int) -> list[float] | None:
    """Values in an order, as JSON; None if there are none."""
    if values is None:
        return None
    listed: list[float] = values[order].tolist()
    return listed


def _first(values: Float, low: Float | None, high: Float | None) -> MetricValue:
    """The first of several values with its interval."""
    if low is None or high is None:
        return MetricValue(float(values[0]))
    return MetricValue(float(values[0]), float(low[0]), float(high[0]))


def certify_outputs(
    model: Any,
    X: Float32,
    y: Int,
    metric: Metric,
    budgets: Sequence[float],
    *,
    parts: int,
    settings: Mapping[str, Any],
    stages: Stages,
) -> Certified:
    """Prove for people with labels y at the first budget, and of a network search at all
    budgets.
    """
    certificate = None
    has_outputs = hasattr(model, "network_")
    if has_outputs:
        searched = stages.next()
        if not getattr(model, "adapts_inputs", False):
            certificate = certify(model.network_, X, metric, budgets, callback=searched, **settings)
    seed = settings["seed"]
    report = stages.next()
    proof = prove(model, X, metric, budgets[0], y=y, parts=parts, seed=seed, callback=report)
    return Certified(certificate, proof, settings, has_outputs)
