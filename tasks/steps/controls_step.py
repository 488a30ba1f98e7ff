"""Controls: what the same learner does without mitigation, with and without the sensitive
columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.fairlib.methods.decided import DecidedModel
from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.classifier_training import control_learner
from evenhand.tasks.decision_rules import decided_rule
from evenhand.tasks.execution.dataset import dataset_of, read_targets
from evenhand.tasks.execution.step import Stages, StepContext, StepResult


def controls(context: StepContext) -> StepResult:
    """Write ``plain/`` and ``blind/``, two trained controls, and ``majority.json``.

    ``plain`` is the method's learner without mitigation; a method that has none is its own plain
    control, and the folder is missing, unless decisions have thresholds by group. ``blind`` is the
    same without the sensitive columns; it is missing where no sensitive column is a model input.
    Both are calibrated and decide as the job's model does, but with one threshold for all groups.
    ``majority`` has the share of each label in the training rows. With `held_out`, also
    ``plain_held_out.parquet``: labels and probabilities of rows that the plain control was not
    trained on.
    """
    parameters = context.parameters
    data = read_targets(context.inputs["train"])
    spec = METHODS[parameters["method"]]
    seed = parameters["seed"]
    columns = data.sensitive_positions()
    mitigates = spec.name != spec.plain or parameters["decision"]["equal"]
    names = []
    if mitigates:
        names.append("plain")
    if columns:
        names.append("blind")
    shares = (np.bincount(data.y, minlength=2) / len(data.y)).tolist()
    outputs = context.write_json("majority", {"shares": shares})
    stages = Stages(context.progress, max(len(names), 1))
    if names:
        data = dataset_of(context, "train", labels_only=True)
    decides = parameters["calibration"] != "none" or parameters["decision"]["threshold"] != "own"
    for name in names:
        learner = control_learner(parameters, len(data.y))
        rows = data
        if name == "blind":
            rows = data.with_zeros_in(columns)
        model: Any = learner.fit(rows, progress=stages.next())
        writes_held_out = name == "plain" and parameters.get("held_out", False)
        if decides or writes_held_out:
            held = learner.held_out(model, rows, seed)
        if writes_held_out:
            held.write(context.workdir / "plain_held_out.parquet")
            outputs["plain_held_out"] = (context.workdir / "plain_held_out.parquet", "held_out")
        if decides:
            one_threshold = {**parameters, "decision": {**parameters["decision"], "equal": None}}
            calibration, rule, _ = decided_rule(one_threshold, held)
            model = DecidedModel(model, calibration, rule)
        model.save(context.workdir / name)
        outputs[name] = (context.workdir / name, "model")
    stages.finish()
    return StepResult(outputs, {"trained": names})
