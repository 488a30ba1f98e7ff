"""Train: learn the model from the encoded training rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.registry import METHODS, installed, method_class, needed_extra
from evenhand.fairlib.preprocessing.counterfactuals import all_copies
from evenhand.tasks.classifier_training import HeldOut, Learner, fit_useful
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.execution.dataset import Dataset, dataset_of
from evenhand.tasks.execution.step import StepContext, StepResult
from evenhand.tasks.sentence_rows import copies_to_pair, read_encoder


def train(context: StepContext) -> StepResult:
    """Write ``model/``, and ``history.json`` if the method has one, with values per training step.

    With `validate`, also ``held_out.parquet``: labels and probabilities of rows that the model was
    not trained on, by position. With the input `plain`, held-out rows of the plain control, the
    strength of the mitigation is chosen by :func:`evenhand.tasks.classifier_training.fit_useful`,
    whose facts the record has. With `decision_folds` the held-out rows are all rows, each predicted
    by a model of the other folds.
    """
    spec = METHODS[context.parameters["method"]]
    if not installed(spec):
        # The job may have been checked on another machine, which has the extra.
        raise InputError(needed_extra(spec))
    # of a large table they may take more memory than all else
    labels_only = "on_disk" in context.parameters and not spec.needs_groups
    data = dataset_of(context, "train", labels_only=labels_only)
    seed = context.parameters["seed"]
    learner = learner_of(context, data)
    totals = [1]

    def report(done: int, total: int, values: Mapping[str, float]) -> None:
        totals[0] = total
        context.progress(done, total, values)

    held: HeldOut | None = None
    facts: dict[str, Any] = {"method": spec.name}
    if "plain" in context.inputs:
        plain = HeldOut.read(context.inputs["plain"])
        model, held, facts["strength"] = fit_useful(
            learner, data, plain, seed, progress=report, checkpoint=context.checkpoint
        )
        strength = facts["strength"]
        learner = learner_of(context, data, {strength["parameter"]: strength["used"]})
    else:
        model = learner.fit(data, progress=report, checkpoint=context.checkpoint)
    # a training that stops early is finished too
    context.progress(totals[0], totals[0], {})
    model.save(context.workdir / "model")
    outputs = {"model": (context.workdir / "model", "model")}
    history = getattr(model, "history_", None)
    if history:
        (context.workdir / "history.json").write_text(json.dumps(history))
        outputs["history"] = (context.workdir / "history.json", "history")
    if context.parameters.get("validate"):
        folds = context.parameters.get("decision_folds")
        if held is None or folds is not None:
            held = learner.held_out(model, data, seed, folds, context.progress)
        held.write(context.workdir / "held_out.parquet")
        outputs["held_out"] = (context.workdir / "held_out.parquet", "held_out")
    return StepResult(outputs, facts)


def adapted_copies(metric: Any, data: Dataset) -> list[Float32]:
    """Counterparts of rows, whose groups are known, in every group."""
    copies: list[Float32] = metric.counterfactuals(data.X, sensitive_features=data.sensitive)
    return copies


def learner_of(
    context: StepContext, data: Dataset, changed: Mapping[str, Any] = MappingProxyType({})
) -> Learner:
    """Learner of the method, its arguments (some of them `changed`) and inputs, for the rows of
    `data`.

    Raises `InputError` if a counterfactual copy cannot be encoded.
    """
    spec = METHODS[context.parameters["method"]]
    seed = context.parameters["seed"]
    arguments = {**context.parameters["arguments"], **changed}
    if spec.needs_metric:
        arguments["metric"] = load_metric(context.inputs["metric"])
    copies = None
    if spec.pairs_copies(arguments):
        encoder = read_encoder(context)
        with input_errors():
            copies = all_copies(encoder, data.X, context.parameters["counterfactuals"])
            copies += copies_to_pair(context, data, encoder, seed)
            if context.parameters.get("adapted"):
                copies += adapted_copies(load_metric(context.inputs["metric"]), data)
    chosen = context.parameters.get("sensitive", data.sensitive)
    groups = {name: data.sensitive[name].astype(str) for name in chosen if name in data.sensitive}
    return Learner(
        spec,
        lambda: method_class(spec.name)(**arguments, random_state=derive_seed(seed, "train")),
        groups,
        copies,
    )
