"""Decide: calibrate the probabilities on held-out rows, and choose how decisions follow
from them.
"""

from __future__ import annotations

import shutil

from evenhand.fairlib.methods.decided import GroupRule, write_decision
from evenhand.tasks.classifier_training import HeldOut
from evenhand.tasks.decision_rules import (
    decided_rule,
    held_out_groups,
    joined_groups_warning,
    share_warning,
)
from evenhand.tasks.execution.dataset import read_targets
from evenhand.tasks.execution.step import StepContext, StepResult


def decide(context: StepContext) -> StepResult:
    """Write ``model/``, the model with its decision rule, and ``rule.json`` with the choice for the
    page.

    Parameters are those of :func:`evenhand.tasks.decision_rules.chosen_rule`. Inputs are the
    ``model``, its ``held_out`` rows, and for thresholds by group the ``train`` rows.
    """
    held = HeldOut.read(context.inputs["held_out"])
    groups = None
    warnings = []
    if context.parameters["decision"]["equal"]:
        data = read_targets(context.inputs["train"])
        groups = held_out_groups(context.parameters, data.sensitive, held)
        joined = joined_groups_warning(context.parameters, data.sensitive, held, groups)
        if joined is not None:
            warnings.append(joined)
    shutil.copytree(context.inputs["model"], context.workdir / "model")
    calibration, rule, content = decided_rule(context.parameters, held, groups)
    if isinstance(rule, GroupRule):
        rule = rule.knowing(data.sensitive)
        content["rule"] = rule.to_json()
    write_decision(context.workdir / "model", calibration, rule)
    outputs = {"model": (context.workdir / "model", "model")}
    outputs |= context.write_json("rule", content)
    facts = {"calibration": calibration.kind}
    if content["missed_share"] is not None:
        warnings.append(share_warning(content["missed_share"]))
    if warnings:
        facts["warning"] = "; ".join(warnings)
    return StepResult(outputs, facts)
