"""The step that decides whether a run passes: its gates, and whether its model is of any use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.evaluation.gates import decide, parse_gates
from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.errors import input_errors
from evenhand.tasks.evaluating.measured_controls import comparisons
from evenhand.tasks.execution.step import StepContext, StepResult

DEFAULT_GATES = "default gates"
# Smallest useful difference between the 5th and the 95th percentile of calibrated probabilities.
LEAST_SPREAD = 0.01
# Balanced accuracy above that of one answer for everybody, which is 1 over the number of labels.
MARGIN = 0.001
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
    with input_errors("gates: "):
        decided = decide(Evaluation.from_json(metrics), parse_gates(gates), controls=controls)
    decision = decided.to_json()
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


def default_gates(*, calibrated: bool, classes: int) -> dict[str, dict[str, Any]]:
    """Limits for a job that sets none: better than the majority-class baseline."""
    least = 1 / (classes or 2) + MARGIN
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
            f"percentile: {spread:.3g}): {cure}."
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
