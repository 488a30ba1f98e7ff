"""Gates: limits that an evaluation must keep, decided by one pure function for every caller."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, get_args

from evenhand.fairlib.catalogue import better, group_metrics
from evenhand.fairlib.evaluation.group_selection import left_out_text

if TYPE_CHECKING:
    from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue, Status
    from evenhand.fairlib.evaluation.paired import Comparison

Bound = Literal["point", "interval"]
Kind = Literal["min", "max", "no_worse_than_baseline", "better_than_blind", "better_than_plain"]
Verdict = Literal["passed", "refused", "insufficient_evidence"]

CONTROLS: dict[Kind, str] = {"better_than_blind": "blind", "better_than_plain": "plain"}
"""Gates that compare with a control, and its name."""
GATE_KEYS = ("min", "max", "bound", "groups", "no_worse_than_baseline", *CONTROLS)

ROUNDING = 1e-12
"""A difference this near to a tolerance counts as equal to it: 0.8 - 0.79 is no more than 0.01."""


@dataclass(frozen=True)
class Gate:
    """Limits on one metric.
    ValueError if no limit is given, one is not finite, ``min`` exceeds ``max``, or a tolerance is
    negative.
    """

    metric: str  # flat metric name
    # smallest and largest value allowed
    min: float | None = None
    max: float | None = None
    # the number that is compared: the point estimate, or the unfavourable end of the interval
    # (``low`` with ``min``, ``high`` with ``max``; of the difference from a baseline, the worse
    # end). Where there are ``NAME.found`` and ``NAME.proved``, ``max`` compares the latter and
    # ``min`` the former.
    bound: Bound = "point"
    # how much worse than a baseline on the same rows the metric may be, at least 0
    no_worse_than_baseline: float | None = None
    # how much better than a control on the same rows the metric must be: the learner without
    # mitigation and without the sensitive columns, or only without mitigation. 0 allows no loss, a
    # negative number one.
    better_than_blind: float | None = None
    better_than_plain: float | None = None
    # groups of the metric's attribute that must be measured: where one is left out, for too few
    # rows, the gate does not pass
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate the limits."""
        where = f"gate {self.metric!r}"
        kinds = get_args(Kind)
        tolerance = self.no_worse_than_baseline
        limits = {kind: limit for kind in kinds if (limit := getattr(self, kind)) is not None}
        if not limits:
            raise ValueError(
                f"{where}: got no limit, expected {', '.join(kinds[:-1])} or {kinds[-1]}; "
                "add one or remove the gate"
            )
        for key, limit in limits.items():
            # bool is an int to Python, but `min: true` is a slip and not a limit of 1.
            if (
                isinstance(limit, bool)
                or not isinstance(limit, int | float)
                or not math.isfinite(limit)
            ):
                raise ValueError(f"{where}: got {key}={limit!r}, expected a finite number")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(
                f"{where}: got min={self.min} above max={self.max}; swap or correct them"
            )
        if tolerance is not None and tolerance < 0:
            raise ValueError(
                f"{where}: got no_worse_than_baseline={tolerance!r}, expected 0 or more"
            )
        if self.bound not in ("point", "interval"):
            raise ValueError(f"{where}: got bound={self.bound!r}, expected 'point' or 'interval'")
        self._check_groups(where)

    def _check_groups(self, where: str) -> None:
        if not self.groups:
            return
        texts = [isinstance(group, str) and group != "" for group in self.groups]
        if not all(texts) or len(set(self.groups)) < len(self.groups):
            raise ValueError(f"{where}: got groups={list(self.groups)}, expected names, each once")
        kind, _, attribute = self.metric.partition(".")
        if not attribute or kind not in group_metrics(any_classes=False):
            raise ValueError(
                f"{where}: groups needs a metric that compares groups, such as gap_max.<attribute>"
            )


@dataclass(frozen=True)
class GateResult:
    """Result of one limit, of the metric and bound of its gate."""

    metric: str
    bound: Bound
    limit: float
    kind: Kind
    # compared with the limit, positive if worse than the baseline or better than the control; None
    # if the evidence is insufficient
    value: float | None
    passed: bool
    status: Status  # whether there was a number to compare; without one, a limit is not passed
    shortfall: float | None  # by how much the limit is missed: 0 if passed, None without a number
    text: str  # the same in one line of words


@dataclass(frozen=True)
class Decision:
    """Verdict over all gates."""

    passed: bool  # True only with verdict "passed"
    # "refused" if any gate is refused, else "insufficient_evidence" if any lacks evidence, else
    # "passed"
    verdict: Verdict
    note: str  # "no gates" if there were none, else empty
    results: tuple[GateResult, ...]  # one per limit, in the order of the gates

    def to_json(self) -> dict[str, Any]:
        """Give the decision as plain JSON types, without NaN."""
        return asdict(self) | {"results": [asdict(result) for result in self.results]}


def parse_gates(gates: Mapping[str, Any]) -> list[Gate]:
    """Read gates, in their order, from a mapping such as ``{"gap_max.sex": {"max": 0.2}}``.

    The limits of a metric have the keys of :class:`Gate`. ValueError if a key is unknown, or as
    :class:`Gate` raises it.
    """
    if not isinstance(gates, Mapping):
        raise ValueError(
            f"gates: got {type(gates).__name__}, expected a mapping of metric names to limits"
        )
    parsed = []
    for metric, limits in gates.items():
        if not isinstance(metric, str) or not metric:
            raise ValueError(f"gates: got the metric name {metric!r}, expected a non-empty string")
        if not isinstance(limits, Mapping):
            raise ValueError(
                f"gate {metric!r}: got {limits!r}, expected a mapping such as {{min: 0.7}}"
            )
        for key in limits:
            if key not in GATE_KEYS:
                raise ValueError(
                    f"gate {metric!r}: unknown key {key!r}; {_nearest(str(key), GATE_KEYS)}"
                )
        given = dict(limits)
        groups = given.pop("groups", [])
        if not isinstance(groups, list | tuple):
            raise ValueError(
                f"gate {metric!r}: got groups={groups!r}, expected a list such as [F, M]"
            )
        parsed.append(Gate(metric, **given, groups=tuple(_group_name(group) for group in groups)))
    return parsed


def _group_name(group: Any) -> Any:
    """Name of a group that YAML reads as a number or as a truth value."""
    if isinstance(group, bool):
        return str(group).lower()
    return str(group) if isinstance(group, int) else group


def decide(
    evaluation: Evaluation,
    gates: Sequence[Gate],
    comparison: Comparison | None = None,
    controls: Mapping[str, Comparison] | None = None,
) -> Decision:
    """Compare an evaluation, and its differences from a baseline, with gates.

    `comparison` has the differences from a baseline on the same rows, for gates with
    ``no_worse_than_baseline``, and `controls` those from controls, by the control's name. A metric
    without a number never passes: it is "insufficient_evidence" unless another gate is refused. So
    is a gate that keeps its limit, but names a group that was not measured.

    ValueError if a gate names a metric that the evaluation, or the comparison that the gate needs,
    does not have; if a gate needs a comparison and there is none, or its metric has no direction.
    """
    results: list[GateResult] = []
    for gate in gates:
        _known(gate, "evaluation", evaluation.metrics)
        for kind in (kind for kind in get_args(Kind) if getattr(gate, kind) is not None):
            if kind in ("min", "max"):
                result = _compare(gate, kind, evaluation.metrics)
                results.append(_with_groups(gate, kind, result, evaluation))
                continue
            control = CONTROLS.get(kind)
            other = (controls or {}).get(control) if control else comparison
            if other is None:
                lack = "controls, which only a run has" if control else "a baseline to compare with"
                raise ValueError(f"gate {gate.metric!r}: {kind} needs {lack}")
            difference = _known(
                gate, f"comparison with {control or 'the baseline'}", other.differences
            )
            results.append(
                _with_groups(gate, kind, _compare_with(gate, kind, difference), evaluation)
            )
    verdict: Verdict = "passed"
    if any(result.status == "ok" and not result.passed for result in results):
        verdict = "refused"
    elif any(not result.passed for result in results):
        verdict = "insufficient_evidence"
    return Decision(verdict == "passed", verdict, "" if gates else "no gates", tuple(results))


def _known(gate: Gate, where: str, known: Mapping[str, MetricValue]) -> MetricValue:
    if gate.metric not in known:
        advice = _nearest(gate.metric, tuple(known))
        raise ValueError(f"gate {gate.metric!r}: the {where} has no such metric; {advice}")
    return known[gate.metric]


def _compare(gate: Gate, kind: Kind, metrics: Mapping[str, MetricValue]) -> GateResult:
    limit = float(getattr(gate, kind))
    words, end, side = {"min": ("at least", "lower", "low"), "max": ("at most", "upper", "high")}[
        kind
    ]
    # a search can miss: a maximum is judged by what is proved
    ends = f"{gate.metric}.{'found' if kind == 'min' else 'proved'}"
    label = ends if ends in metrics else gate.metric
    metric = metrics[label]
    if label != gate.metric:
        label += f", by which a {kind} of {gate.metric} is judged,"
    value = metric.value if gate.bound == "point" else metric.low if kind == "min" else metric.high
    if value is None:
        return _undecided(gate, kind, f"{label} must be {words} {limit:g}", metric)
    if gate.bound == "interval":
        label += f" ({end} end of its interval)"
    excess = limit - value if kind == "min" else value - limit
    shown, allowed = distinct(value, limit)
    verdict = "passed" if excess <= 0 else f"refused, {excess:.3g} too {side}"
    text = f"{label} is {shown} and must be {words} {allowed}: {verdict}"
    return _result(gate, kind, value, max(excess, 0.0), text)


def _compare_with(gate: Gate, kind: Kind, difference: MetricValue) -> GateResult:
    """Compare a paired difference from a baseline, or from a control, with what the gate asks."""
    limit = float(getattr(gate, kind))
    control = CONTROLS.get(kind)
    # by how much the model must be better
    wanted = -limit if control is None else limit
    condition = f"must be at least {limit:g} better than {control}'s"
    if control is None:
        condition = f"may be at most {limit:g} worse than the baseline's"
    lower = better(gate.metric) == "lower"
    value = difference.value
    words = ""
    if gate.bound == "interval":
        # the unfavourable end: the larger difference where lower is better, else the smaller one
        value = difference.high if lower else difference.low
        words = f" ({'upper' if lower else 'lower'} end of the paired interval)"
    if value is None:
        return _undecided(gate, kind, f"{gate.metric} {condition}", difference)
    gain = 0.0 - value if lower else value  # not -value, which turns 0 into -0
    gain = wanted if abs(gain - wanted) <= ROUNDING else gain
    missed = max(wanted - gain, 0.0)
    measured = gain if control else 0.0 - gain
    shown, allowed = distinct(measured, limit)
    if control is not None:
        text = f"is {shown} better than {control}'s{words} and must be {allowed} better"
    else:
        found = f"is {shown} worse than the baseline's" if measured else "equals the baseline's"
        if measured < 0:
            found = f"is {distinct(gain, 0.0)[0]} better than the baseline's"
        text = f"{found}{words} and may be at most {allowed} worse"
    verdict = f"refused, {missed:.3g} too {'little' if control else 'much'}" if missed else "passed"
    return _result(gate, kind, measured, missed, f"{gate.metric} {text}: {verdict}")


def _with_groups(gate: Gate, kind: Kind, result: GateResult, evaluation: Evaluation) -> GateResult:
    """Withdraw that a limit is kept where a group that the gate names was not measured."""
    groups = evaluation.groups.get(gate.metric, {"measured": [], "left_out": []})
    lacking = [group for group in gate.groups if group not in groups["measured"]]
    if not lacking or not result.passed:
        return result
    known = {group["group"]: group for group in groups["left_out"]}
    unit = evaluation.settings.get("unit", "rows")
    counted = [
        known.get(name, {"group": name, "n": 0, "fewest": 0, "reason": "absent"})
        for name in lacking
    ]
    text = (
        f"{gate.metric} must be measured of {', '.join(gate.groups)}: insufficient evidence "
        f"(not measured: {left_out_text(counted, unit)})"
    )
    return _result(gate, kind, None, None, text)


def _undecided(gate: Gate, kind: Kind, condition: str, metric: MetricValue) -> GateResult:
    """Result of a limit whose metric has no number."""
    text = f"{condition}: insufficient evidence ({metric.reason or 'it has no interval'})"
    return _result(gate, kind, None, None, text)


def _result(
    gate: Gate, kind: Kind, value: float | None, shortfall: float | None, text: str
) -> GateResult:
    status: Status = "insufficient_evidence" if value is None else "ok"
    limit = float(getattr(gate, kind))
    return GateResult(
        gate.metric, gate.bound, limit, kind, value, shortfall == 0.0, status, shortfall, text
    )


def distinct(value: float, limit: float) -> tuple[str, str]:
    """Print two numbers with the fewest decimals, at least three, that show whether they differ."""
    for decimals in range(3, 17):
        shown = f"{value:.{decimals}f}"
        allowed = f"{limit:.{decimals}f}"
        if value == limit or shown != allowed:
            return shown, allowed
    return repr(value), repr(limit)


def _nearest(name: str, known: Sequence[str]) -> str:
    """Advice with the nearest known name, or with all of them."""
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(known)}"
