"""Gate: may this model ship?"""

from __future__ import annotations

import json

from evenhand.fairlib.evaluation.evaluate import Evaluation
from evenhand.fairlib.evaluation.gates import decide, parse_gates
from evenhand.tasks.errors import InputError
from evenhand.tasks.step import Step, StepContext, StepResult

__all__ = ["STEP"]


def gate(context: StepContext) -> StepResult:
    """Write ``decision.json``: each gate's value, bound and verdict."""
    evaluation = Evaluation.from_json(json.loads(context.inputs["metrics"].read_text()))
    try:
        decision = decide(evaluation, parse_gates(context.parameters["gates"]))
    except ValueError as error:
        raise InputError(f"gates: {error}") from None
    path = context.workdir / "decision.json"
    path.write_text(json.dumps(decision.to_json(), indent=1, sort_keys=True))
    return StepResult({"decision": (path, "decision")}, {"verdict": decision.verdict})


STEP = Step("gate", gate)
