"""Gates: limits that an evaluation must keep, decided by one pure function for every caller."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Literal

from fairlib.evaluation.evaluate import Evaluation, MetricValue, Status

Bound = Literal["point", "interval"]
Kind = Literal["min", "max"]
Verdict = Literal["passed", "refused", "insufficient_evidence"]

GATE_KEYS = ("min", "max", "bound")


@dataclass(frozen=True)
class Gate:
    """Limits on one metric.

    Parameters
    ----------
    metric : str
        Flat metric name.
    min, max : float or None
        Smallest and largest value allowed; at least one is given.
    bound : {"point", "interval"}
        What is compared: the point estimate, or the unfavourable end of the interval (``low`` with ``min``,
        ``high`` with ``max``).

    Raises
    ------
    ValueError
        If no limit is given, one is not finite, or ``min`` exceeds ``max``.
    """

    metric: str
    min: float | None = None
    max: float | None = None
    bound: Bound = "point"

    def __post_init__(self) -> None:
        """Validate the limits."""
        where = f"gate {self.metric!r}"
        if self.min is None and self.max is None:
            raise ValueError(f"{where}: got no limit, expected min or max; add one or remove the gate")
        for key, limit in (("min", self.min), ("max", self.max)):
            if limit is None:
                continue
            # bool is an int to Python, but `min: true` is a slip and not a limit of 1.
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
                raise ValueError(f"{where}: got {key}={limit!r}, expected a finite number")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"{where}: got min={self.min} above max={self.max}; swap or correct them")
        if self.bound not in ("point", "interval"):
            raise ValueError(f"{where}: got bound={self.bound!r}, expected 'point' or 'interval'")


@dataclass(frozen=True)
class GateResult:
    """How one limit was kept.

    Parameters
    ----------
    metric : str
        Flat metric name.
    bound : {"point", "interval"}
        What was compared.
    limit : float
        The limit.
    kind : {"min", "max"}
        Which side the limit is on.
    value : float or None
        The number compared with it; None if the evidence is insufficient.
    passed : bool
        True only if the value keeps the limit.
    status : {"ok", "insufficient_evidence"}
        Whether there was a number to compare.
    shortfall : float or None
        By how much the limit is missed: positive if refused, 0 if passed, None without a number.
    text : str
        The same in one line of words.
    """

    metric: str
    bound: Bound
    limit: float
    kind: Kind
    value: float | None
    passed: bool
    status: Status
    shortfall: float | None
    text: str


@dataclass(frozen=True)
class Decision:
    """Verdict over all gates.

    Parameters
    ----------
    passed : bool
        True only with verdict "passed".
    verdict : {"passed", "refused", "insufficient_evidence"}
        "refused" if any gate is refused, else "insufficient_evidence" if any lacks evidence, else "passed".
    results : tuple of GateResult
        One per limit, in the order of the gates.
    note : str
        "no gates" if there were none, else empty.
    """

    passed: bool
    verdict: Verdict
    results: tuple[GateResult, ...]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Give the decision as plain JSON types, without NaN."""
        return {
            "passed": self.passed,
            "verdict": self.verdict,
            "note": self.note,
            "results": [asdict(result) for result in self.results],
        }


def parse_gates(gates: Mapping[str, Any]) -> list[Gate]:
    """Read gates from a mapping such as ``{"gap_max.sex": {"max": 0.2, "bound": "interval"}}``.

    Parameters
    ----------
    gates : mapping of str to mapping
        Metric name to its limits, with the keys ``min``, ``max`` and ``bound``.

    Returns
    -------
    list of Gate
        In the order of the mapping.

    Raises
    ------
    ValueError
        If a key is unknown, a limit is missing, not a finite number, or ``min`` exceeds ``max``.
    """
    if not isinstance(gates, Mapping):
        raise ValueError(f"gates: got {type(gates).__name__}, expected a mapping of metric names to limits")
    parsed = []
    for metric, limits in gates.items():
        if not isinstance(metric, str) or not metric:
            raise ValueError(f"gates: got the metric name {metric!r}, expected a non-empty string")
        if not isinstance(limits, Mapping):
            raise ValueError(f"gate {metric!r}: got {limits!r}, expected a mapping such as {{min: 0.7}}")
        for key in limits:
            if key not in GATE_KEYS:
                raise ValueError(f"gate {metric!r}: unknown key {key!r}; {_nearest(str(key), GATE_KEYS)}")
        parsed.append(Gate(metric, **limits))
    return parsed


def decide(evaluation: Evaluation, gates: Sequence[Gate]) -> Decision:
    """Compare an evaluation with gates.

    Parameters
    ----------
    evaluation : Evaluation
        What was measured.
    gates : sequence of Gate
        What must hold.

    Returns
    -------
    Decision
        A missing number never passes: it is "insufficient_evidence", which only a refused gate outranks.

    Raises
    ------
    ValueError
        If a gate names a metric that the evaluation does not have.
    """
    for gate in gates:
        if gate.metric not in evaluation.metrics:
            raise ValueError(
                f"gate {gate.metric!r}: the evaluation has no such metric; "
                f"{_nearest(gate.metric, tuple(evaluation.metrics))}"
            )
    results: list[GateResult] = []
    for gate in gates:
        metric = evaluation.metrics[gate.metric]
        if gate.min is not None:
            results.append(_compare(gate, "min", gate.min, metric))
        if gate.max is not None:
            results.append(_compare(gate, "max", gate.max, metric))
    verdict: Verdict = "passed"
    if any(result.status == "ok" and not result.passed for result in results):
        verdict = "refused"
    elif any(not result.passed for result in results):
        verdict = "insufficient_evidence"
    return Decision(verdict == "passed", verdict, tuple(results), "" if gates else "no gates")


def _compare(gate: Gate, kind: Kind, limit: float, metric: MetricValue) -> GateResult:
    limit = float(limit)
    words = "at least" if kind == "min" else "at most"
    if gate.bound == "point":
        value, label = metric.value, gate.metric
    elif kind == "min":
        value, label = metric.low, f"{gate.metric} (lower end of its interval)"
    else:
        value, label = metric.high, f"{gate.metric} (upper end of its interval)"
    if metric.status != "ok" or value is None:
        reason = metric.reason or "it has no interval"
        text = f"{gate.metric} must be {words} {limit:g}: insufficient evidence ({reason})"
        return GateResult(
            gate.metric, gate.bound, limit, kind, None, False, "insufficient_evidence", None, text
        )
    missing = limit - value if kind == "min" else value - limit
    passed = missing <= 0
    shown, asked = _distinct(value, limit)
    end = "passed" if passed else f"refused, {missing:.3g} {'too low' if kind == 'min' else 'too high'}"
    text = f"{label} is {shown} and must be {words} {asked}: {end}"
    return GateResult(gate.metric, gate.bound, limit, kind, value, passed, "ok", max(missing, 0.0), text)


def _distinct(value: float, limit: float) -> tuple[str, str]:
    """Print two numbers with as many decimals as it takes to tell them apart, from three."""
    for decimals in range(3, 17):
        shown, asked = f"{value:.{decimals}f}", f"{limit:.{decimals}f}"
        if value == limit or shown != asked:
            return shown, asked
    return repr(value), repr(limit)


def _nearest(name: str, known: Sequence[str]) -> str:
    """Advice naming the nearest known name, or all of them."""
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(known)}"
