"""Measure drift: how far a batch is from what a published model's training rows looked like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evenhand.data_contracts.model import Contract
from evenhand.fairlib.evaluation.comparison import holm
from evenhand.fairlib.evaluation.drift import ColumnDrift, largest, mean_of
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.errors import InputError
from evenhand.tasks.monitoring.compare import Column, Settings, compare_column
from evenhand.tasks.monitoring.gates import known_metrics
from evenhand.tasks.monitoring.people import Groups, compare_groups, compare_label, labels_of
from evenhand.tasks.monitoring.predictions import Predictions, predictions
from evenhand.tasks.monitoring.reading import Batch, read_batch
from evenhand.tasks.step import Step, StepContext, StepResult

__all__ = ["STEP"]


def measure_drift(context: StepContext) -> StepResult:
    """
    Write ``metrics.json``, which gates judge, and ``drift.json``, which the report shows.

    Parameters are the model's ``contract``, ``settings`` (``draws``, ``level``, ``min_cell``), a ``seed`` and
    ``predicted``: rows and predicted positives of the training run's test rows, or None. Inputs are the
    ``raw`` table and the model's ``bundle``. Neither file holds a row, a category that training did not
    know, or a count of fewer than `min_cell` people of a group.
    """
    contract = Contract.from_dict(context.parameters["contract"])
    bundle = context.inputs["bundle"]
    settings = Settings(**context.parameters["settings"], seed=context.parameters["seed"])
    reference = json.loads((bundle / "reference.json").read_text())
    try:
        encoder = TableEncoder.load(bundle / "encoder.json")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"the model cannot be loaded ({type(error).__name__}): publish it again.") from error
    batch = read_batch(context.inputs["raw"], contract, list(reference["columns"]))
    columns = {
        name: compare_column(batch, contract.column(name), told, encoder.categories_.get(name), settings)
        for name, told in reference["columns"].items()
    }
    labels = labels_of(batch.table, contract, json.loads((bundle / "inputs.json").read_text()))
    groups = {
        name: compare_groups(batch.table, contract.column(name), told, labels, settings)
        for name, told in reference["groups"].items()
    }
    label = compare_label(labels, reference, settings)
    predicts = "label_values" in json.loads((bundle / "inputs.json").read_text())
    predicted = (
        predictions(context, batch.table, bundle, encoder, list(reference["columns"]), settings)
        if predicts
        else None
    )
    adjusted = dict(zip(columns, holm([column.drift.p for column in columns.values()]), strict=True))
    metrics = _metrics(columns, adjusted, groups, label.metric, predicted)
    ordered = {name: metrics[name] for name in known_metrics(reference, predicts=predicts)}
    evaluation = Evaluation(ordered, {}, batch.table.num_rows, context.parameters["settings"])
    drift = {
        "rows": batch.table.num_rows,
        "reference_rows": reference["rows"],
        "ignored_columns": batch.ignored,
        "settings": context.parameters["settings"],
        "columns": {name: column.to_json(adjusted[name]) for name, column in columns.items()},
        "groups": {name: found.to_json() for name, found in groups.items()},
        "label": {"name": contract.label.name, **label.to_json()},
        "prediction": None if predicted is None else predicted.to_json(),
    }
    outputs = {}
    for name, content in (("metrics", evaluation.to_json()), ("drift", drift)):
        path = context.workdir / f"{name}.json"
        path.write_text(json.dumps(content, indent=1, allow_nan=False))
        outputs[name] = (path, name)
    return StepResult(outputs, _facts(batch))


def _facts(batch: Batch) -> dict[str, Any]:
    return {"rows": batch.table.num_rows, "ignored_columns": batch.ignored}


def _metrics(
    columns: Mapping[str, Column],
    adjusted: Mapping[str, float | None],
    groups: Mapping[str, Groups],
    label: MetricValue,
    predicted: Predictions | None,
) -> dict[str, MetricValue]:
    """Every metric by its flat name."""
    indices = [column.drift.psi for column in columns.values()]
    unseen = {name: column.unseen for name, column in columns.items() if column.unseen is not None}
    outside = {name: column.outside for name, column in columns.items()}
    metrics = {
        "psi_max": largest(indices),
        "psi_mean": mean_of(indices),
        # with no category there is nothing that could be new
        "unseen_max": largest(list(unseen.values())) if unseen else MetricValue(0.0),
        "outside_contract_max": largest(list(outside.values())),
        "label_rate_change": label,
    }
    for name, column in columns.items():
        metrics[f"psi.{name}"] = column.drift.psi
        metrics[f"p_value.{name}"] = _p_value(column.drift, adjusted[name])
        metrics[f"missing_change.{name}"] = column.missing.metric
        metrics[f"outside_contract.{name}"] = column.outside
    metrics |= {f"unseen.{name}": value for name, value in unseen.items()}
    for name, found in groups.items():
        metrics[f"group_share_change.{name}"] = found.shares
        metrics[f"label_rate_change.{name}"] = found.rates
    if predicted is not None:
        metrics |= {"prediction_rate": predicted.rate, "prediction_rate_change": predicted.change.metric}
    return metrics


def _p_value(drift: ColumnDrift, adjusted: float | None) -> MetricValue:
    return MetricValue.insufficient(drift.psi.reason) if adjusted is None else MetricValue(adjusted)


STEP = Step("measure_drift", measure_drift)
