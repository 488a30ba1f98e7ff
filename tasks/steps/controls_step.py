"""Controls: what the same learner does without mitigation, with and without the sensitive
columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.mapped import new_like, release, row_blocks
from evenhand.fairlib.methods.decided import DecidedModel
from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.tasks.classifier_training import Learner
from evenhand.tasks.execution.dataset import Dataset, dataset_of, read_targets
from evenhand.tasks.execution.step import Stages, StepContext, StepResult
from evenhand.tasks.steps.decide_step import decided_rule


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
    columns = sensitive_columns(data)
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
            rows = without_columns(data, columns)
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


def control_learner(parameters: Mapping[str, Any], rows: int) -> Learner:
    """Learner without mitigation of a method, with the `arguments` that both share, for so many
    rows.
    """
    spec = METHODS[parameters["method"]]

    def build() -> Any:
        seed = derive_seed(parameters["seed"], "train")
        return method_class(spec.name)(**parameters["arguments"], random_state=seed).plain(rows)

    return Learner(METHODS[spec.plain], build)


def sensitive_columns(data: Dataset) -> list[int]:
    """Positions of the matrix columns of all sensitive attributes that are model inputs."""
    columns: list[int] = []
    for name in data.sensitive:
        columns.extend(data.groups.get(name, ()))
    return columns


def without_columns(data: Dataset, columns: list[int]) -> Dataset:
    """The same rows with 0 in some columns, which no learner can then use."""
    X = new_like(data.X)
    for block in row_blocks(data.X):
        X[block] = data.X[block]
        X[block, columns] = np.float32(0.0)
        release(X)
    return replace(data, X=X)
