"""Evaluate: every metric on the test rows, with intervals, and counterfactual consistency."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.fairlib.distances.registry import load_metric
from evenhand.fairlib.evaluation.acquisition import features_asked
from evenhand.fairlib.evaluation.audit import Audit
from evenhand.fairlib.evaluation.certificates import Certificate
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.evaluation.evaluate import evaluate as measure
from evenhand.fairlib.evaluation.histograms import score_histograms
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.methods.base import Method
from evenhand.fairlib.methods.networks.base import NetworkMethod
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.progress import Progress
from evenhand.fairlib.randomness import derive_seed
from evenhand.tasks.acquisition import Acquired, Acquires, FullInformation, questions_of, write_acquisition
from evenhand.tasks.audit import audit_model, write_audit
from evenhand.tasks.counterfactuals import check_counterfactuals
from evenhand.tasks.dataset import Dataset, read_dataset
from evenhand.tasks.evaluating.decisions import Decides, acquire, decide_rows
from evenhand.tasks.invariance import certify_model, write_certificate
from evenhand.tasks.progress import Stages
from evenhand.tasks.selection import selects, write_selection
from evenhand.tasks.step import Step, StepContext, StepResult

__all__ = ["STEP"]


def evaluate(context: StepContext) -> StepResult:
    """
    Write ``metrics.json``, ``histograms.json`` and ``predictions.parquet`` (no sensitive value in it).

    With a certificate also ``audit.json`` and ``pairs.parquet``, of a network ``certificate.json``, and
    ``without_adversary.json`` if the training gave such a model: its metrics on the same rows, without
    intervals. Of a model that asks for features ``acquisition.json``; what is measured is what it predicts
    after its questions. Of one with a selector of features ``selection.json``.
    """
    settings = context.parameters["evaluate"]
    model = load_model(context.inputs["model"])
    encoder = TableEncoder.load(context.inputs["encoder"])
    check_counterfactuals(settings["counterfactuals"], encoder)
    data = read_dataset(context.inputs["test"])
    folder = context.workdir
    stages = Stages(context.progress, _count_stages(context, model))
    acquired = acquire(model, data.X, callback=stages.next()) if isinstance(model, Acquires) else None
    outcomes = _outcomes(model, encoder, data, settings, acquired, callback=stages.next())
    evaluation = _measure(context, outcomes, draws=settings["draws"], callback=stages.next())
    outputs: dict[str, tuple[Path, str]] = {}
    audit = _audit(context, model, data, stages, draws=settings["draws"])
    if audit is not None:
        outputs |= write_audit(audit, data, settings["min_cell"], folder)
    certificate = _certify(context, model, data, stages, draws=settings["draws"])
    if certificate is not None:
        outputs |= write_certificate(certificate, folder)
    evaluation = _with_certificates(evaluation, audit, certificate)
    if acquired is not None:
        evaluation, written = _with_acquisition(
            context, evaluation, model, acquired, data, encoder, callback=stages.next()
        )
        outputs |= written
    if selects(model):
        outputs |= write_selection(model, data.X, settings=settings, folder=folder)
    if "without_adversary" in context.inputs:
        plain = load_model(context.inputs["without_adversary"])
        compared = _with_certificates(
            _measure(context, _outcomes(plain, encoder, data, settings, callback=stages.next()), draws=0),
            _audit(context, plain, data, stages, draws=0),
            _certify(context, plain, data, stages, draws=0),
        )
        values = {name: metric.value for name, metric in compared.metrics.items()}
        (folder / "without_adversary.json").write_text(json.dumps(values, indent=1))
        outputs["without_adversary"] = (folder / "without_adversary.json", "metrics")
    (folder / "metrics.json").write_text(json.dumps(evaluation.to_json(), indent=1))
    histograms = score_histograms(outcomes, min_cell=settings["min_cell"])
    (folder / "histograms.json").write_text(json.dumps(histograms))
    predictions = pa.table(
        {
            "row": data.rows,
            "label": data.y.astype(np.int8),
            "probability": outcomes.score,
            "prediction": outcomes.y_pred.astype(np.int8),
        }
    )
    pq.write_table(predictions, folder / "predictions.parquet")
    stages.finish()
    return StepResult(
        {
            "metrics": (folder / "metrics.json", "metrics"),
            "histograms": (folder / "histograms.json", "histograms"),
            "predictions": (folder / "predictions.parquet", "predictions"),
            **outputs,
        },
        {"test_rows": len(data.y)},
    )


def _count_stages(context: StepContext, model: Method) -> int:
    """
    Parts of the step that count for themselves.

    The rows and their copies, and the metrics; with a budget the audit, and for a network the certificate;
    for a model that asks, its questions and what it would know with all answers; of the model without its
    adversary the same but the metrics, which have no intervals.
    """
    certificates = 0
    if context.parameters["certificate"] is not None:
        certificates = 2 if isinstance(model, NetworkMethod) else 1
    questions = 2 if isinstance(model, Acquires) else 0
    plain = 1 + certificates if "without_adversary" in context.inputs else 0
    return 2 + questions + certificates + plain


def _outcomes(
    model: Decides,
    encoder: TableEncoder,
    data: Dataset,
    settings: Mapping[str, Any],
    acquired: Acquired | None = None,
    *,
    callback: Progress | None = None,
) -> Outcomes:
    """What the model decides about every row, and whether it decides the same about every copy."""
    decided = decide_rows(model, encoder, data.X, settings["counterfactuals"], acquired, callback=callback)
    return Outcomes(
        y_true=data.y,
        y_pred=decided.predicted,
        score=decided.score,
        sensitive={name: values.astype(str) for name, values in data.sensitive.items()},
        consistent=decided.consistent,
    )


def _measure(
    context: StepContext, outcomes: Outcomes, *, draws: int, callback: Progress | None = None
) -> Evaluation:
    """All metrics but the certificates."""
    settings = context.parameters["evaluate"]
    return measure(
        outcomes,
        draws=draws,
        level=settings["level"],
        min_cell=settings["min_cell"],
        seed=derive_seed(context.parameters["seed"], "bootstrap"),
        intersections=settings["intersections"],
        callback=callback,
    )


def _with_acquisition(
    context: StepContext,
    evaluation: Evaluation,
    model: Acquires,
    acquired: Acquired,
    data: Dataset,
    encoder: TableEncoder,
    *,
    callback: Progress,
) -> tuple[Evaluation, dict[str, tuple[Path, str]]]:
    """Add how many features are asked, and write which, beside the metrics with all of them known."""
    settings = context.parameters["evaluate"]
    questions = questions_of(model, acquired)
    asked = features_asked(
        questions.counts,
        draws=settings["draws"],
        level=settings["level"],
        min_cell=settings["min_cell"],
        seed=derive_seed(context.parameters["seed"], "bootstrap"),
    )
    outcomes = _outcomes(FullInformation(model), encoder, data, settings, callback=callback)
    informed = _measure(context, outcomes, draws=0)
    written = write_acquisition(
        model,
        questions,
        data,
        encoder,
        asked=asked,
        full_information={name: metric.value for name, metric in informed.metrics.items()},
        settings=settings,
        folder=context.workdir,
    )
    return replace(evaluation, metrics={**evaluation.metrics, "features_asked": asked}), written


def _audit(context: StepContext, model: Method, data: Dataset, stages: Stages, *, draws: int) -> Audit | None:
    """What an adversary finds within the budget, if there is one."""
    budget = context.parameters["certificate"]
    if budget is None:
        return None
    return audit_model(
        model,
        data,
        load_metric(context.inputs["metric"]),
        budget,
        draws=draws,
        level=context.parameters["evaluate"]["level"],
        seed=derive_seed(context.parameters["seed"], "audit"),
        callback=stages.next(),
    )


def _certify(
    context: StepContext, model: Method, data: Dataset, stages: Stages, *, draws: int
) -> Certificate | None:
    """How far a network's outputs can move within the budget, if there is one."""
    budget = context.parameters["certificate"]
    if budget is None or not isinstance(model, NetworkMethod):
        return None
    return certify_model(
        model,
        data,
        load_metric(context.inputs["metric"]),
        budget,
        draws=draws,
        level=context.parameters["evaluate"]["level"],
        seed=derive_seed(context.parameters["seed"], "certificate"),
        callback=stages.next(),
    )


def _with_certificates(
    evaluation: Evaluation, audit: Audit | None, certificate: Certificate | None
) -> Evaluation:
    metrics = dict(evaluation.metrics)
    if audit is not None:
        metrics["certificate.drf"] = MetricValue(audit.gap, audit.low, audit.high)
    if certificate is not None:
        ends = (
            (None, None)
            if certificate.low is None or certificate.high is None
            else (float(certificate.low[0]), float(certificate.high[0]))
        )
        metrics["certificate.dif"] = MetricValue(float(certificate.values[0]), *ends)
    return replace(evaluation, metrics=metrics)


STEP = Step("evaluate", evaluate)
