"""Gates: limits on metrics, read, checked before anything is measured, and applied to measured
metrics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.data_contracts.arrow import known_groups
from evenhand.fairlib.catalogue import (
    ANY_CLASSES,
    EXCHANGED,
    TOKEN_METRICS,
    group_metrics,
    names_of,
)
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.evaluation.gates import CONTROLS, Decision, Gate, decide, parse_gates
from evenhand.fairlib.evaluation.paired import Comparison
from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.evaluating.measured_controls import comparisons
from evenhand.tasks.execution.step import StepContext, StepResult
from evenhand.tasks.written_input import as_number, nearest, read_yaml

if TYPE_CHECKING:
    from evenhand.data_contracts.model import Contract
    from evenhand.tasks.registry.bundle import Bundle


NO_CERTIFICATES = (
    "certificates are measured where a model is trained: the fair metric that they need is not "
    "published"
)
# Metrics that only the run which trains a model has.
OF_RUNS = (
    "features_asked",
    "leak_suspected",
    "membership_auc",
    "probability_spread",
    "reasons_kept",
)
DEFAULT_GATES = "default gates"
# Smallest useful difference between the 5th and the 95th percentile of calibrated probabilities.
LEAST_SPREAD = 0.01
# One answer for everybody has 0.5.
LEAST_BALANCED = 0.501
# What to change if a model is degenerate; of some learners also which of their parameters.
MORE = "give more rows, or inputs that predict the label better"
CURES = {
    "gbdt": (
        f"{MORE}, or raise method.eta or method.n_steps, or lower method.reg_lambda or the budget"
    ),
    "nn": (
        f"{MORE}, or raise method.n_steps or method.learning_rate, or lower the weight of the "
        "mitigation"
    ),
}
MAX_PSI = 0.2
MAX_UNSEEN = 0.01


def gate(context: StepContext) -> StepResult:
    """Write ``decision.json``: each gate's value, bound and verdict.

    A job without gates gets those of :func:`default_gates`. A degenerate classifier never passes:
    the verdict is then ``insufficient_evidence``, or ``refused`` by a gate of the job, and
    ``degenerate`` says why.
    """
    parameters = context.parameters
    metrics = json.loads(context.inputs["metrics"].read_text())
    controls = None
    if "controls" in context.inputs:
        controls = comparisons(json.loads(context.inputs["controls"].read_text()))
    gates = parameters["gates"]
    method = parameters.get("method")
    if "leaks" in context.inputs:
        leaks = json.loads(context.inputs["leaks"].read_text())
        metrics["metrics"]["leak_suspected"] = vars(MetricValue(float(len(leaks["columns"]))))
    by_default = not gates and method is not None
    if by_default:
        classes = len(metrics["settings"].get("classes", ()))
        gates = default_gates(calibrated=parameters["calibrated"], classes=classes)
    decision = judge(metrics, gates, controls=controls).to_json()
    if by_default:
        decision["note"] = DEFAULT_GATES
    if method is not None:
        reason = degenerate(metrics["metrics"], method, calibrated=parameters["calibrated"])
        if reason is not None:
            # a refusal by the job's own gates says more; the default ones say the same as the
            # reason
            verdict = "insufficient_evidence"
            if decision["verdict"] == "refused" and not by_default:
                verdict = "refused"
            decision |= {"passed": False, "verdict": verdict, "degenerate": reason}
    outputs = context.write_json("decision", decision, sort_keys=True)
    return StepResult(outputs, {"verdict": decision["verdict"]})


def judge(
    evaluation: Mapping[str, Any],
    gates: Mapping[str, Any],
    comparison: Mapping[str, Any] | None = None,
    controls: Mapping[str, Comparison] | None = None,
) -> Decision:
    """Decide on an evaluation, and its comparisons with a baseline and with controls.

    Raises `InputError` for a gate on a metric that was not measured.
    """
    compared = None
    if comparison is not None:
        compared = Comparison.from_json(comparison)
    with input_errors("gates: "):
        return decide(Evaluation.from_json(evaluation), parse_gates(gates), compared, controls)


def default_gates(*, calibrated: bool, classes: int) -> dict[str, dict[str, Any]]:
    """Limits for a job that sets none: better than the majority-class baseline."""
    least = LEAST_BALANCED
    if classes:
        least = 1 / classes + 0.001
    gates: dict[str, dict[str, Any]] = {"balanced_accuracy": {"min": round(least, 3)}}
    if calibrated:
        gates["log_loss_gain"] = {"min": 0.0}
    return gates


def degenerate(
    metrics: Mapping[str, Mapping[str, Any]], method: str, *, calibrated: bool
) -> str | None:
    """Say why a model is of no use, whatever its gates: it has no discriminative power.

    Uncalibrated probabilities may lie close together and still order people well, so they are
    judged by their order alone. So may calibrated ones of a rare label: they are close together
    near 0, and yet better than the share of positives for everybody.
    """
    cure = CURES.get(METHODS[method].plain, MORE)
    classes = sum(name.startswith("recall.") for name in metrics)
    if classes:
        rate = metrics["balanced_accuracy"]
        if rate["value"] is None or _upper_end(rate) > 1 / classes:
            return None
        return (
            "the model is right no more often than chance (balanced accuracy "
            f"{rate['value']:.3f}): {cure}."
        )
    return _degenerate_of_two_labels(metrics, cure, calibrated=calibrated)


def _degenerate_of_two_labels(
    metrics: Mapping[str, Mapping[str, Any]], cure: str, *, calibrated: bool
) -> str | None:
    """As :func:`degenerate`, of a model of two labels."""
    spread = metrics["probability_spread"]["value"]
    area = metrics["auc"]
    gain = metrics["log_loss_gain"]
    orders_people = _surely_above(area, 0.5) and (not calibrated or _surely_above(gain, 0.0))
    if not orders_people and (spread == 0.0 or (calibrated and spread < LEAST_SPREAD)):
        return (
            "the model gives nearly everybody the same probability (from the 5th to the 95th "
            "percentile: "
            f"{spread:.3g}): {cure}."
        )
    if area["value"] is not None and _upper_end(area) <= 0.5:
        return f"the model orders people no better than chance (AUC {area['value']:.3f}): {cure}."
    if calibrated and gain["value"] is not None and gain["value"] <= 0.0:
        return (
            "the model's log loss is no better than that of the share of positives for everybody "
            f"(difference {gain['value']:.3g}): {cure}."
        )
    return None


def _surely_above(metric: Mapping[str, Any], limit: float) -> bool:
    """Whether the interval lies above a limit, or the value if there is no interval."""
    end = metric["low"]
    if end is None:
        end = metric["value"]
    return end is not None and end > limit


def _upper_end(metric: Mapping[str, Any]) -> Any:
    """The upper end of the interval, or the value if there is no interval."""
    if metric["high"] is None:
        return metric["value"]
    return metric["high"]


def read_limits(
    gates: Mapping[str, Any] | str | None, *, baseline: bool
) -> tuple[dict[str, Any] | None, tuple[Gate, ...]]:
    """Read gates from a mapping or the path of a YAML file; return them and their limits.

    Raises `InputError` for a file that cannot be read, a wrong gate, or a gate that needs a
    baseline where there is none.
    """
    if gates is None:
        return None, ()
    if isinstance(gates, str):
        gates = read_gates(Path(gates).expanduser())
    chosen = as_number(dict(gates))
    with input_errors("gates: ", end="."):
        limits = tuple(parse_gates(chosen))
    for limit in limits:
        controlled = next((kind for kind in CONTROLS if getattr(limit, kind) is not None), None)
        if controlled is not None:
            raise InputError(
                f"the gate {limit.metric!r} has {controlled}, and only the run that trains a model "
                "has "
                "controls: take it out."
            )
        if not baseline and limit.no_worse_than_baseline is not None:
            raise InputError(
                f"the gate {limit.metric!r} has no_worse_than_baseline: give --baseline, or take "
                "it out."
            )
    return chosen, limits


def read_gates(path: Path) -> dict[str, Any]:
    """Read a file of gates: a mapping of metrics to limits, at the top or under ``gates``.

    Raises `InputError` if the file cannot be read or holds no gates.
    """
    content = read_yaml(path, "the gates file")
    if isinstance(content, dict) and "gates" in content:
        content = content["gates"]
    if not isinstance(content, dict) or not content:
        raise InputError(
            f"the gates file {path} holds no gates: write metrics with limits, such as auc: {{min: "
            f"0.7}}."
        )
    return content


def check_metric(
    gate: Gate, known: Sequence[str], of: str, listed: Sequence[str] | None = None
) -> None:
    """Refuse a gate on a metric that is not `known`; the message lists these, or those `listed`."""
    if gate.metric not in known:
        raise InputError(
            f"the gate {gate.metric!r} names no metric of {of}{nearest(gate.metric, known)}; there "
            "are "
            f"{', '.join(listed or known)}."
        )


def check_groups(gate: Gate, contract: Contract) -> None:
    """Refuse a gate that names a group which the contract does not list; it need not list any."""
    if not gate.groups:
        return
    attribute = gate.metric.partition(".")[2]
    for column in contract.sensitive:
        listed = sorted(known_groups(column))
        if column.name != attribute or not listed:
            continue
        for group in gate.groups:
            if group not in listed:
                raise InputError(
                    f"the gate {gate.metric!r} names the group {group!r}, which the contract does "
                    "not list"
                    f"{nearest(group, listed)}; the groups of {attribute!r} are "
                    f"{', '.join(listed)}."
                )


def measured_metrics(contract: Contract, copies: Iterable[str]) -> list[str]:
    """Metrics of a classifier under a contract, with these sets of counterfactual copies.

    Metrics of intersections and of lists of terms are left out.
    """
    classes = contract.label.classes
    kinds = names_of("classifier", any_classes=bool(classes))
    metrics = [name for name in kinds if "." not in name]
    metrics += [f"recall.{value}" for value in classes]
    metrics += [f"consistency.{name}" for name in copies]
    for kind in group_metrics(any_classes=bool(classes)):
        metrics += [f"{kind}.{column.name}" for column in contract.sensitive]
    return metrics


def token_metrics(contract: Contract, lists: Iterable[str]) -> list[str]:
    """Metrics of lists of terms."""
    kinds = [k for k in TOKEN_METRICS if k in ANY_CLASSES or not contract.label.classes]
    metrics = []
    for name in lists:
        metrics += [f"{kind}.{name}" for kind in ("consistency", *kinds)]
    return metrics


def check_evaluation_gates(
    gates: Sequence[Gate], model: Bundle, settings: Mapping[str, Any]
) -> None:
    """Raise `InputError` for a gate on a metric that an evaluation with these settings
    cannot have.
    """
    measured = measured_metrics(model.contract, settings["counterfactuals"])
    metrics = [name for name in measured if name not in OF_RUNS]
    # metrics without a paired difference from a baseline
    alone = token_metrics(model.contract, settings.get("terms", ()))
    if model.asks_features:
        alone.append("features_asked")
    metrics += alone
    for gate in gates:
        check_groups(gate, model.contract)
        kind, _, subject = gate.metric.partition(".")
        if kind == "certificate":
            raise InputError(f"the gate {gate.metric!r} cannot be judged here: {NO_CERTIFICATES}.")
        if gate.metric in alone and gate.no_worse_than_baseline is not None:
            raise InputError(
                f"the gate {gate.metric!r} has no paired difference: give it a max or a min in "
                "place of "
                "no_worse_than_baseline."
            )
        # Only the data shows which intersections exist.
        if not (settings["intersections"] and kind in group_metrics() and "&" in subject):
            check_metric(gate, metrics, "this evaluation")


def drift_metrics(
    reference: Mapping[str, Any], *, predicts: bool, terms: Iterable[str] = ()
) -> list[str]:
    """Metrics of a comparison with this ``reference.json``, in order; a proxy has none about
    predictions.

    Lists of `terms` have those of exchanged terms. More than two labels have no selection rate, and
    no base rates by group.
    """
    columns = list(reference["columns"])
    classes = "classes" in reference.get("label", {})
    subjects = {"<column>": columns, "<attr>": list(reference["groups"])}
    names = []
    for metric in names_of("drift"):
        kind, _, subject = metric.partition(".")
        if kind.startswith("prediction") and not predicts:
            continue
        if classes and metric in ("prediction_rate", "label_rate_change.<attr>"):
            continue
        if not subject:
            names.append(metric)
            continue
        listed = subjects.get(subject, ())
        if kind == "unseen":
            listed = _categorical(reference)
        names += [f"{kind}.{name}" for name in listed]
    for name in terms:
        names += [f"{kind}.{name}" for kind in EXCHANGED]
    return names


def default_drift_gates(reference: Mapping[str, Any]) -> dict[str, Any]:
    """Limit each model input's stability index to 0.2, and each category's share of unseen values
    to 1%.

    The limits are per column, not on `psi_max`: a column that changed is refused even if another
    column has too few rows to be judged.
    """
    gates: dict[str, Any] = {f"psi.{name}": {"max": MAX_PSI} for name in reference["columns"]}
    return gates | {f"unseen.{name}": {"max": MAX_UNSEEN} for name in _categorical(reference)}


def check_drift_gates(gates: Sequence[Gate], known: Sequence[str]) -> None:
    """Raise `InputError` for a gate on a metric that is none of those `known`, of
    :func:`drift_metrics`.
    """
    for gate in gates:
        check_metric(gate, known, "drift", names_of("drift"))


def _categorical(reference: Mapping[str, Any]) -> list[str]:
    return [name for name, column in reference["columns"].items() if column["kind"] == "category"]
