"""Measure model: a published model's metrics on a table of new rows, and those of a baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.data_contracts.arrow import group_labels, known_groups, label_codes
from evenhand.data_contracts.favourable import describe_outcome
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes, overall_rates, score_histograms
from evenhand.fairlib.evaluation.paired import compare
from evenhand.fairlib.preprocessing.counterfactuals import check_counterfactuals
from evenhand.tasks.errors import input_errors
from evenhand.tasks.evaluating.decisions import (
    LoadedModel,
    bootstrap_settings,
    decide_table,
    person_mean,
)
from evenhand.tasks.evaluating.metric_leaks import copy_makers, measured_copies
from evenhand.tasks.evaluating.token_moves import moves_in_table
from evenhand.tasks.execution.step import StepContext, StepResult


def measure_model(context: StepContext) -> StepResult:
    """Write ``metrics.json``; for two labels ``histograms.json``, for lists of terms
    ``tokens.json``.

    A baseline adds ``baseline.json`` and ``comparison.json``.

    Parameters are the model's ``contract``, the settings ``evaluate`` and a ``seed``. Inputs are
    the ``checked`` table, the ``bundle`` and, optionally, the ``baseline``. Both models are
    measured on the counterfactuals of the settings, each with its own encoder. A model that asks
    for features is measured by its predictions after the questions. Certificates are not measured:
    they need the fair metric, which is not published. A model that reads adapted columns contains
    the learned metric, so that it is also measured on the adapted copies.
    """
    settings = bootstrap_settings(context.parameters)
    counterfactuals = context.parameters["evaluate"]["counterfactuals"]
    contract = Contract.from_dict(context.parameters["contract"])
    roles = {"bundle": "model", "baseline": "baseline"}
    models = [
        LoadedModel.load(role, context.inputs[name])
        for name, role in roles.items()
        if name in context.inputs
    ]
    for one in models:
        with input_errors(f"the {one.role}: "):
            check_counterfactuals(one.encoder, counterfactuals)
    table = pq.read_table(context.inputs["checked"])
    features = table.select([column.name for column in contract.features])
    people = _people(table, contract)
    names = context.parameters["evaluate"].get("adapted", [])
    makers = [copy_makers(one.model, names) for one in models]
    decided = []
    consistencies = []
    of_models = decide_table(
        models, features, counterfactuals, context.progress, people["sensitive"], makers
    )
    for decisions, of_model in zip(of_models, makers, strict=True):
        with_names, consistency = measured_copies(decisions, of_model, settings["level"])
        decided.append(with_names)
        consistencies.append(consistency)
    outcomes = [
        Outcomes(
            y_pred=model_decisions.predicted,
            score=model_decisions.score,
            consistent=model_decisions.consistent,
            **people,
        )
        for model_decisions in decided
    ]
    evaluations = list[dict[str, Any]]()
    outputs = dict[str, Any]()
    for one, rows, decisions, consistency in zip(
        models, outcomes, decided, consistencies, strict=True
    ):
        evaluation = evaluate(rows, **settings)
        moves = moves_in_table(one, features, rows, context.parameters)
        if moves.content and not evaluations:
            outputs |= context.write_json("tokens", moves.content)
        metrics = {**evaluation.metrics, **moves.metrics, **consistency}
        if decisions.asked is not None:
            metrics["features_asked"] = person_mean(decisions.asked, context.parameters)
        used = dict(evaluation.settings)
        if not contract.label.classes:
            used["outcome"] = describe_outcome(contract.label)
        if consistency and names:
            used["adapted"] = names
        evaluations.append(replace(evaluation, metrics=metrics, settings=used).to_json())
    min_cell = settings["min_cell"]
    outputs |= context.write_json("metrics", evaluations[0] | overall_rates(outcomes[0]))
    if not outcomes[0].classes:
        outputs |= context.write_json(
            "histograms", score_histograms(outcomes[0], min_cell=min_cell)
        )
    if len(models) > 1:
        outputs |= context.write_json("baseline", evaluations[1], "metrics")
        # one version compared with itself: nothing differs, and nothing is estimated
        identical = context.inputs["bundle"] == context.inputs["baseline"]
        compared = compare(*outcomes, **settings, identical=identical)
        outputs |= context.write_json("comparison", compared.to_json())
    return StepResult(outputs, {"rows": table.num_rows})


def _people(table: pa.Table, contract: Contract) -> dict[str, Any]:
    """The arguments of `Outcomes` that do not depend on the model: true labels, groups, and known
    groups.
    """
    label = contract.label
    sensitive = {
        column.name: group_labels(table[column.name], column) for column in contract.sensitive
    }
    groups = {
        column.name: known_groups(column) | set(pd.unique(sensitive[column.name]))
        for column in contract.sensitive
    }
    y_true = label_codes(table[label.name], label)
    classes = tuple(map(str, label.classes))
    return {
        "y_true": y_true,
        "sensitive": sensitive,
        "groups": groups,
        "classes": classes,
        "favourable": label.favourable_code,
    }
