"""Gate: decide whether a model may be published."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.evaluation.evaluate import Evaluation
from evenhand.fairlib.evaluation.gates import Decision, Gate, decide, parse_gates
from evenhand.fairlib.evaluation.paired import Comparison
from evenhand.tasks.errors import InputError
from evenhand.tasks.inputs import nearest
from evenhand.tasks.step import StepContext, StepResult

__all__ = ["check_metric", "gate", "judge"]


def gate(context: StepContext) -> StepResult:
    """Write ``decision.json``: each gate's value, bound and verdict."""
    metrics = json.loads(context.inputs["metrics"].read_text())
    decision = judge(metrics, context.parameters["gates"])
    outputs = context.write_json("decision", decision.to_json(), sort_keys=True)
    return StepResult(outputs, {"verdict": decision.verdict})


def judge(
    evaluation: Mapping[str, Any], gates: Mapping[str, Any], comparison: Mapping[str, Any] | None = None
) -> Decision:
    """
    Decide on an evaluation, and a comparison with a baseline, in their JSON forms.

    Raises
    ------
    InputError
        A gate on a metric that was not measured.
    """
    compared = None if comparison is None else Comparison.from_json(comparison)
    try:
        return decide(Evaluation.from_json(evaluation), parse_gates(gates), compared)
    except ValueError as error:
        raise InputError(f"gates: {error}") from None


def check_metric(gate: Gate, known: Sequence[str], of: str, listed: Sequence[str]) -> None:
    """Refuse a gate on a metric that is not `known`, with the nearest name and those `listed`."""
    if gate.metric not in known:
        raise InputError(
            f"the gate {gate.metric!r} names no metric of {of}{nearest(gate.metric, known)}; there are "
            f"{', '.join(listed)}."
        )
