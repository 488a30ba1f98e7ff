"""Gates: limits that an evaluation must keep, decided by one pure function for every caller."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from evenhand.fairlib.catalogue import better, group_metrics

if TYPE_CHECKING:
    from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue, Status
    from evenhand.fairlib.evaluation.paired import Comparison

Bound = Literal["point", "interval"]
Kind = Literal[
    "min",
    "max",
    "no_worse_than_baseline",
    "better_than_blind",
    "better_than_plain",
    "better_than_reweigh",
    "better_than_leave_out",
]
Verdict = Literal["passed", "refused", "insufficient_evidence"]

CONTROLS: dict[Kind, str] = {
    "better_than_blind": "blind",
    "better_than_plain": "plain",
    "better_than_reweigh": "reweigh",
    "better_than_leave_out": "leave_out",
}
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
    # mitigation and without the sensitive columns, only without mitigation, on reweighed rows, or
    # without the columns that predict an attribute. 0 allows no loss, a negative number one.
    better_than_blind: float | None = None
    better_than_plain: float | None = None
    better_than_reweigh: float | None = None
    better_than_leave_out: float | None = None
    # groups of the metric's attribute that must be measured: where one is left out, for too few
    # rows, the gate does not pass
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate the limits."""
        where = f"gate {self.metric!r}"
        kinds = get_args(Kind)
        tolerance = self.no_worse_than_baseline
        limits = {kind: getattr(self, kind) for kind in kinds if getattr(self, kind) is not None}
        if not limits:
            raise ValueError(
                f"{where}: got no limit, expected {', '.join(kinds[:-1])} or {kinds[-1]}; "
                "add one or remove the gate"
            )
        for key, limit in limits.items():
            if not _is_finite_number(limit):
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
        """Validate the names of groups, and that the metric compares groups."""
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


def _is_finite_number(limit: object) -> bool:
    """Whether a limit is a number; `true` is an int to Python, but a slip in a gate."""
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        return False
    # neither NaN nor infinite, nor a whole number that no float holds
    return abs(limit) <= sys.float_info.max


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

    Parameters
    ----------
    gates : mapping
        Limits by metric, with the keys of :class:`Gate`.

    Returns
    -------
    sequence of Gate
        One gate a metric.

    Raises
    ------
    ValueError
        If a key is unknown, or as :class:`Gate` raises it.

    Examples
    --------
    >>> [gate.max for gate in parse_gates({"gap_max.sex": {"max": 0.2}})]
    [0.2]
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
        keywords = dict(limits)
        groups = keywords.pop("groups", [])
        if not isinstance(groups, list | tuple):
            raise ValueError(
                f"gate {metric!r}: got groups={groups!r}, expected a list such as [F, M]"
            )
        names = tuple(_group_name(group) for group in groups)
        parsed.append(Gate(metric, **keywords, groups=names))
    return parsed


def _group_name(group: Any) -> Any:
    """Name of a group that YAML reads as a number or as a truth value."""
    if isinstance(group, bool):
        return str(group).lower()
    if isinstance(group, int):
        return str(group)
    return group


def decide(
    evaluation: Evaluation,
    gates: Sequence[Gate],
    comparison: Comparison | None = None,
    controls: Mapping[str, Comparison] | None = None,
) -> Decision:
    """Compare an evaluation, and its differences from a baseline, with gates.

    Parameters
    ----------
    evaluation : Evaluation
        Metrics with their intervals. One without a number never passes: the gate is
        "insufficient_evidence" unless another gate is refused. So is a gate that keeps its limit,
        but names a group that was not measured.
    gates : sequence of Gate
        Limits to keep.
    comparison : Comparison, optional
        Differences from a baseline on the same rows, for gates with ``no_worse_than_baseline``.
    controls : mapping, optional
        Differences from controls, by the control's name.

    Returns
    -------
    Decision
        The verdict, with one result per limit.

    Raises
    ------
    ValueError
        If a gate names a metric that the evaluation, or the comparison that the gate needs, does
        not have; if a gate needs a comparison and there is none, or its metric has no direction.

    Examples
    --------
    >>> from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
    >>> evaluation = Evaluation({"auc": MetricValue(0.81)}, {}, 100)
    >>> decide(evaluation, [Gate("auc", min=0.8)]).results[0].text
    'auc is 0.810 and must be at least 0.800: passed'
    """
    results: list[GateResult] = []
    for gate in gates:
        _metric_of(gate, "evaluation", evaluation.metrics)
        for kind in get_args(Kind):
            if getattr(gate, kind) is None:
                continue
            if kind in ("min", "max"):
                result = _compare(gate, kind, evaluation.metrics)
            else:
                difference = _difference_of(gate, kind, comparison, controls or {})
                result = _compare_with(gate, kind, difference)
            results.append(_with_groups(gate, kind, result, evaluation))
    verdict: Verdict = "passed"
    if any(result.status == "ok" and not result.passed for result in results):
        verdict = "refused"
    elif any(not result.passed for result in results):
        verdict = "insufficient_evidence"
    note = "" if gates else "no gates"
    return Decision(verdict == "passed", verdict, note, tuple(results))


def _metric_of(gate: Gate, where: str, metrics: Mapping[str, MetricValue]) -> MetricValue:
    """The gate's metric; ValueError with advice if it is not there."""
    if gate.metric not in metrics:
        advice = _nearest(gate.metric, tuple(metrics))
        raise ValueError(f"gate {gate.metric!r}: the {where} has no such metric; {advice}")
    return metrics[gate.metric]


def _difference_of(
    gate: Gate, kind: Kind, comparison: Comparison | None, controls: Mapping[str, Comparison]
) -> MetricValue:
    """The gate's metric less that of the baseline, or of the control, of this kind of limit."""
    control = CONTROLS.get(kind)
    if control is None:
        baseline = comparison
        requirement = "a baseline to compare with"
    else:
        baseline = controls.get(control)
        requirement = "controls, which only a run has"
    if baseline is None:
        raise ValueError(f"gate {gate.metric!r}: {kind} needs {requirement}")
    where = f"comparison with {control or 'the baseline'}"
    return _metric_of(gate, where, baseline.differences)


class _Side(NamedTuple):
    """Words of a smallest or of a largest allowed value."""

    condition: str
    end: str  # of the interval, which an interval gate compares
    fault: str
    searched: str  # of two ends of a certificate the one that is compared


# A search can miss: a maximum is compared with what is proved.
_SIDES: dict[Kind, _Side] = {
    "min": _Side(condition="at least", end="lower", fault="low", searched="found"),
    "max": _Side(condition="at most", end="upper", fault="high", searched="proved"),
}


def _compare(gate: Gate, kind: Kind, metrics: Mapping[str, MetricValue]) -> GateResult:
    """Compare a metric with the smallest, or the largest, value allowed."""
    limit = float(getattr(gate, kind))
    side = _SIDES[kind]
    label = gate.metric
    metric = metrics[label]
    one_end = f"{gate.metric}.{side.searched}"
    if one_end in metrics:
        metric = metrics[one_end]
        label = f"{one_end}, by which a {kind} of {gate.metric} is judged,"
    value = metric.value
    if gate.bound == "interval":
        value = metric.low if kind == "min" else metric.high
    if value is None:
        return _undecided(gate, kind, f"{label} must be {side.condition} {limit:g}", metric)
    if gate.bound == "interval":
        label += f" ({side.end} end of its interval)"
    excess = limit - value if kind == "min" else value - limit
    measured, allowed = distinct(value, limit)
    verdict = "passed"
    if not excess <= 0:
        verdict = f"refused, {excess:.3g} too {side.fault}"
    text = f"{label} is {measured} and must be {side.condition} {allowed}: {verdict}"
    return _result(gate, kind, value, max(excess, 0.0), text)


def _compare_with(gate: Gate, kind: Kind, difference: MetricValue) -> GateResult:
    """Compare a paired difference from a baseline, or from a control, with what the gate asks."""
    limit = float(getattr(gate, kind))
    control = CONTROLS.get(kind)
    if control is None:
        required_gain = -limit
        condition = f"may be at most {limit:g} worse than the baseline's"
    else:
        required_gain = limit
        condition = f"must be at least {limit:g} better than {control}'s"
    value, end = _compared_end(gate, difference)
    if value is None:
        return _undecided(gate, kind, f"{gate.metric} {condition}", difference)
    gain = value
    if better(gate.metric) == "lower":
        gain = 0.0 - value  # not -value, which turns 0 into -0
    if abs(gain - required_gain) <= ROUNDING:
        gain = required_gain
    shortfall = max(required_gain - gain, 0.0)
    if control is None:
        measured = 0.0 - gain
        text = _text_of_baseline(measured, limit, end)
        fault = "much"
    else:
        measured = gain
        printed, allowed = distinct(measured, limit)
        text = f"is {printed} better than {control}'s{end} and must be {allowed} better"
        fault = "little"
    verdict = "passed"
    if shortfall:
        verdict = f"refused, {shortfall:.3g} too {fault}"
    return _result(gate, kind, measured, shortfall, f"{gate.metric} {text}: {verdict}")


def _compared_end(gate: Gate, difference: MetricValue) -> tuple[float | None, str]:
    """The number of a difference that a gate compares, and words that name an interval's end."""
    if gate.bound == "point":
        return difference.value, ""
    # the unfavourable end: the larger difference where lower is better, else the smaller one
    if better(gate.metric) == "lower":
        return difference.high, " (upper end of the paired interval)"
    return difference.low, " (lower end of the paired interval)"


def _text_of_baseline(loss: float, limit: float, end: str) -> str:
    """Say how much worse than the baseline a model is, and how much worse it may be."""
    printed, allowed = distinct(loss, limit)
    if loss < 0:
        fact = f"is {distinct(0.0 - loss, 0.0)[0]} better than the baseline's"
    elif loss:
        fact = f"is {printed} worse than the baseline's"
    else:
        fact = "equals the baseline's"
    return f"{fact}{end} and may be at most {allowed} worse"


def _with_groups(gate: Gate, kind: Kind, result: GateResult, evaluation: Evaluation) -> GateResult:
    """Withdraw that a limit is kept where a group that the gate names was not measured."""
    groups = evaluation.groups.get(gate.metric, {"measured": [], "left_out": []})
    unmeasured = [group for group in gate.groups if group not in groups["measured"]]
    if not unmeasured or not result.passed:
        return result
    left_out = {group["group"]: group for group in groups["left_out"]}
    unit = evaluation.settings.get("unit", "rows")
    counted = []
    for name in unmeasured:
        absent = {"group": name, "n": 0, "fewest": 0, "reason": "absent"}
        counted.append(left_out.get(name, absent))
    # imported lazily: reading gates alone needs no numeric library
    from evenhand.fairlib.evaluation.group_selection import left_out_text

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
    """Result of one limit of a gate; without a value the evidence is insufficient."""
    return GateResult(
        metric=gate.metric,
        bound=gate.bound,
        limit=float(getattr(gate, kind)),
        kind=kind,
        value=value,
        passed=shortfall == 0.0,
        status="insufficient_evidence" if value is None else "ok",
        shortfall=shortfall,
        text=text,
    )


def distinct(value: float, limit: float) -> tuple[str, str]:
    """Print two numbers with the fewest decimals, at least three, that show whether they differ.

    Parameters
    ----------
    value : float
        First number.
    limit : float
        Second number.

    Returns
    -------
    tuple of two str
        Both numbers, equal only if the numbers are.

    Examples
    --------
    >>> distinct(0.80001, 0.8)
    ('0.80001', '0.80000')
    """
    for decimals in range(3, 17):
        printed = f"{value:.{decimals}f}"
        allowed = f"{limit:.{decimals}f}"
        if value == limit or printed != allowed:
            return printed, allowed
    return repr(value), repr(limit)


def _nearest(name: str, allowed: Sequence[str]) -> str:
    """Advice with the nearest allowed name, or with all of them."""
    close = get_close_matches(name, allowed, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"expected one of {', '.join(allowed)}"
