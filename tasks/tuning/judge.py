"""Judge: how good a candidate is, on folds of the training rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.decided import DecidedModel
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.tuning.folds import fold_of_rows, joint_cells
from evenhand.tasks.controls import control_learner, sensitive_columns, without_columns
from evenhand.tasks.dataset import Dataset, read_dataset
from evenhand.tasks.decide import check_groups, decided_rule
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.controls import BLIND, MAJORITY, PLAIN, Blind, Majority
from evenhand.tasks.evaluating.decisions import Decisions, acquire, decide_rows
from evenhand.tasks.step import StepContext, StepResult
from evenhand.tasks.train import learner_of
from evenhand.tasks.training import Learner

# Share of a fold's training rows that the first rung takes: one in so many.
FIRST_RUNG = 3


def judge(context: StepContext) -> StepResult:
    """
    Write ``judged.json``: the metrics of a candidate on rows that its models were not trained on.

    Every fold's rows are predicted by a model of the other folds, calibrated and with a decision rule chosen
    on held-out rows of these. The decisions of all folds together give the metrics and their intervals. On
    the first rung only one fold is predicted, by a model of a third of the other rows, without intervals.

    The inputs are the ``train`` rows, the fair ``metric`` for methods that use one, and the ``encoder`` for
    counterfactual copies. Parameters are those of the steps `train` and `decide`, and ``kind`` (a control's
    name, or another), ``folds``, ``first``, and ``measure`` with the settings of the evaluation.
    """
    parameters = context.parameters
    data = read_dataset(context.inputs["train"])
    check_folds(data, parameters["folds"])
    fold = fold_of_rows(cells_of(data), parameters["folds"], derive_seed(parameters["fold_seed"], "tune"))
    first = parameters["first"]
    found, rows = [], []
    for number in range(1 if first else parameters["folds"]):
        trained, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        if first:
            part = fold_of_rows(
                cells_of(data)[trained], FIRST_RUNG, derive_seed(parameters["fold_seed"], "rung")
            )
            trained = trained[part == 0]
        # the many small fits of a calibration take several times as long on more threads than there are cores
        with threadpool_limits(1, user_api="blas"):
            found.append(_decisions(context, data.take(trained), data.take(held)))
        rows.append(held)
        context.progress(number + 1, parameters["folds"], {})
    metrics = _measure(parameters, data.take(np.concatenate(rows)), Decisions.concatenate(found))
    return StepResult(context.write_json("judged", {"metrics": metrics, "rows": sum(map(len, rows))}))


def cells_of(data: Dataset) -> NDArray[np.int64]:
    """Cell of label and sensitive groups of every row, by which folds are stratified."""
    return joint_cells(data.y, data.sensitive.values())


def check_folds(data: Dataset, folds: int) -> None:
    """Raise InputError unless every fold gets rows of both labels, and leaves some to be trained on."""
    least = int(np.bincount(data.y, minlength=2).min())
    if least < 2 * folds:
        raise InputError(
            f"the training rows have {least} people of the rarer label, and {folds} folds need at least "
            f"{2 * folds}: collect more rows, or set tune.folds lower."
        )


def _decisions(context: StepContext, data: Dataset, held: Dataset) -> Decisions:
    """Decisions about the rows `held` by a model trained on the rows of `data`."""
    copies = context.parameters["measure"]["counterfactuals"]
    encoder: Any = TableEncoder.load(context.inputs["encoder"]) if copies else None
    model = _model(context, data)
    sensitive = {name: values.astype(str) for name, values in held.sensitive.items()}
    return decide_rows(model, encoder, held.X, copies, acquire(model, held.X), sensitive=sensitive)


def _model(context: StepContext, data: Dataset) -> Any:
    parameters, kind = context.parameters, context.parameters["kind"]
    if kind == MAJORITY:
        return Majority(float(data.y.mean()))
    if kind == BLIND:
        columns = sensitive_columns(data)
        return Blind(
            _trained(parameters, control_learner(parameters, len(data.y)), without_columns(data, columns)),
            columns,
        )
    learner = control_learner(parameters, len(data.y)) if kind == PLAIN else learner_of(context, data)
    return _trained(parameters, learner, data)


def _trained(parameters: Mapping[str, Any], learner: Learner, data: Dataset) -> Any:
    """A model of the rows, with the calibration and the decision rule that the candidate has."""
    model: Any = learner.fit(data)
    decision = parameters["decision"]
    if parameters["calibration"] == "none" and decision["threshold"] == "own":
        return model
    held, groups = learner.held_out(model, data, parameters["seed"]), None
    if decision["equal"]:
        everybody = data.sensitive[parameters["attribute"]["name"]].astype(str)
        groups = everybody[held.rows]
        check_groups(parameters, everybody, groups, held.label)
    calibration, rule, _ = decided_rule(parameters, held, groups)
    return DecidedModel(model, calibration, rule)


def _measure(parameters: Mapping[str, Any], data: Dataset, found: Decisions) -> dict[str, Any]:
    measure = parameters["measure"]
    outcomes = Outcomes(
        y_true=data.y,
        y_pred=found.predicted,
        score=found.score,
        sensitive={name: values.astype(str) for name, values in data.sensitive.items()},
        consistent=found.consistent,
    )
    evaluation = evaluate(
        outcomes,
        draws=0 if parameters["first"] else measure["draws"],
        level=measure["level"],
        min_cell=measure["min_cell"],
        intersections=measure["intersections"],
        score_intervals=measure["score_intervals"],
        seed=derive_seed(parameters["seed"], "bootstrap"),
    )
    return {
        name: {"value": metric.value, "low": metric.low, "high": metric.high}
        for name, metric in evaluation.metrics.items()
    }
