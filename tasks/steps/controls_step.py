"""Controls: what the same learner does without mitigation, with and without the sensitive
columns, and with a simple mitigation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from evenhand.fairlib.methods.decided import DecidedModel
from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.classifier_training import Learner, control_learner
from evenhand.tasks.decision_rules import decided_rule
from evenhand.tasks.evaluating.control_names import BLIND, LEAVE_OUT, PLAIN, REWEIGH
from evenhand.tasks.execution.dataset import Dataset, dataset_of, read_targets
from evenhand.tasks.execution.step import Outputs, Report, Stages, StepContext, StepResult


def controls(context: StepContext) -> StepResult:
    """Write ``plain/`` and ``blind/``, two trained controls, and ``majority.json``.

    ``plain`` is the method's learner without mitigation; a method that has none is its own plain
    control, and the folder is missing, unless decisions have thresholds by group. ``blind`` is the
    same without the sensitive columns; it is missing where no sensitive column is a model input.
    For a mitigating method also ``reweigh/``, the same learner on rows reweighed by group and
    label, ``leave_out/``, which is blind and without the columns that predict an attribute, and
    ``simple_mitigations.json``, which says why one of them is missing.
    All are calibrated and decide as the job's model does, but with one threshold for all groups.
    ``plain_settings.json`` has the parameters in which the controls of a mitigating method differ
    from the defaults of their own method.
    ``majority`` has the share of each label in the training rows. With `held_out`, also
    ``plain_held_out.parquet``: labels and probabilities of rows that the plain control was not
    trained on.
    """
    parameters = context.parameters
    data = read_targets(context.inputs["train"])
    spec = METHODS[parameters["method"]]
    columns = data.sensitive_positions()
    mitigates = bool(spec.name != spec.plain or parameters["decision"]["equal"])
    names = []
    if mitigates:
        names.append(PLAIN)
    if columns:
        names.append(BLIND)
    shares = (np.bincount(data.y, minlength=2) / len(data.y)).tolist()
    outputs: Outputs = context.write_json("majority", {"shares": shares})
    if names:
        labels_only = not mitigates or "on_disk" in parameters
        data = dataset_of(context, "train", labels_only=labels_only)
    left_out: list[int] = []
    weights = None
    if mitigates:
        # imported lazily: a method without mitigation needs none of it
        from evenhand.tasks.evaluating import simple_mitigations as simple

        choices = simple.simple_mitigations(data, spec, parameters)
        names += [name for name, choice in choices.items() if choice.is_trained]
        if choices[REWEIGH].is_trained:
            weights = simple.reweighing(data, simple.attributes_of(data, parameters))
        left_out = columns + data.positions_of(choices[LEAVE_OUT].columns)
        content = {name: choice.to_json() for name, choice in choices.items()}
        outputs |= context.write_json("simple_mitigations", content)
        outputs |= _settings_output(context, len(data.y))
    stages = Stages(context.progress, max(len(names), 1))
    hidden = {BLIND: columns, LEAVE_OUT: left_out}
    for name in names:
        learner = control_learner(parameters, len(data.y))
        if name == REWEIGH:
            learner = replace(learner, weights=weights)
        rows = data
        if name in hidden:
            rows = data.with_zeros_in(hidden[name])
        outputs |= _trained(context, name, learner, rows, stages.next())
    stages.finish()
    return StepResult(outputs, {"trained": names})


def _settings_output(context: StepContext, rows: int) -> Outputs:
    """Write the controls' own settings, if there are any."""
    settings = own_settings(control_learner(context.parameters, rows))
    if not settings:
        return {}
    return context.write_json("plain_settings", settings)


def own_settings(learner: Learner) -> dict[str, dict[str, Any]]:
    """Parameters of a learner that differ from its method's defaults: ``value`` and ``default``.

    A control has the settings of the mitigating method, such as its number of trees, so it is not
    the model that a job of its own method trains.
    """
    model: Any = learner.build()
    defaults = type(model)().get_params()
    differing = {}
    for name, value in sorted(model.get_params().items()):
        if name != "random_state" and value != defaults[name]:
            differing[name] = {"value": value, "default": defaults[name]}
    return differing


def _trained(
    context: StepContext, name: str, learner: Learner, rows: Dataset, progress: Report
) -> Outputs:
    """Train and write one control with its decision rule, and held-out rows of the plain one."""
    parameters = context.parameters
    outputs: Outputs = {}
    model: Any = learner.fit(rows, progress=progress)
    decides = parameters["calibration"] != "none" or parameters["decision"]["threshold"] != "own"
    writes_held_out = name == PLAIN and parameters.get("held_out", False)
    if decides or writes_held_out:
        held = learner.held_out(model, rows, parameters["seed"])
    if writes_held_out:
        held.write(context.workdir / "plain_held_out.parquet")
        outputs["plain_held_out"] = (context.workdir / "plain_held_out.parquet", "held_out")
    if decides:
        one_threshold = {**parameters, "decision": {**parameters["decision"], "equal": None}}
        calibration, rule, _ = decided_rule(one_threshold, held)
        model = DecidedModel(model, calibration, rule)
    model.save(context.workdir / name)
    outputs[name] = (context.workdir / name, "model")
    return outputs
