"""Evaluate: every metric on the test rows, with intervals, and counterfactual consistency."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairlib.distances.registry import load_metric
from fairlib.evaluation.acquisition import features_asked
from fairlib.evaluation.audit import Audit
from fairlib.evaluation.certificates import Certificate
from fairlib.evaluation.evaluate import Evaluation, MetricValue
from fairlib.evaluation.evaluate import evaluate as measure
from fairlib.evaluation.histograms import score_histograms
from fairlib.evaluation.outcomes import Outcomes
from fairlib.methods.base import Method
from fairlib.methods.networks.base import NetworkMethod
from fairlib.methods.registry import load_model
from fairlib.preprocessing.counterfactuals import encoded_copies
from fairlib.preprocessing.encoder import TableEncoder
from fairlib.randomness import derive_seed
from tasks.acquisition import Acquired, Acquires, FullInformation, questions_of, write_acquisition
from tasks.audit import audit_model, write_audit
from tasks.counterfactuals import check_counterfactuals
from tasks.dataset import Dataset, read_dataset
from tasks.invariance import certify_model, write_certificate
from tasks.selection import selects, write_selection
from tasks.step import Step, StepContext, StepResult

__all__ = ["STEP"]


class Decides(Protocol):
    """What predicts labels and their probabilities."""

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels."""

    def predict_proba(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Class probabilities, shape (n, 2)."""

    def predict(self, X: NDArray[np.float32]) -> NDArray[Any]:
        """Labels, shape (n,)."""


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
    acquired = model.acquire(data.X) if isinstance(model, Acquires) else None
    outcomes = _outcomes(model, encoder, data, settings, acquired)
    evaluation = _measure(context, outcomes, draws=settings["draws"])
    outputs: dict[str, tuple[Path, str]] = {}
    audit = _audit(context, model, data, draws=settings["draws"])
    if audit is not None:
        outputs |= write_audit(audit, data, settings["min_cell"], folder)
    certificate = _certify(context, model, data, draws=settings["draws"])
    if certificate is not None:
        outputs |= write_certificate(certificate, folder)
    evaluation = _with_certificates(evaluation, audit, certificate)
    if acquired is not None:
        evaluation, written = _with_acquisition(context, evaluation, model, acquired, data, encoder)
        outputs |= written
    if selects(model):
        outputs |= write_selection(model, data.X, settings=settings, folder=folder)
    if "without_adversary" in context.inputs:
        plain = load_model(context.inputs["without_adversary"])
        compared = _with_certificates(
            _measure(context, _outcomes(plain, encoder, data, settings), draws=0),
            _audit(context, plain, data, draws=0),
            _certify(context, plain, data, draws=0),
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
    return StepResult(
        {
            "metrics": (folder / "metrics.json", "metrics"),
            "histograms": (folder / "histograms.json", "histograms"),
            "predictions": (folder / "predictions.parquet", "predictions"),
            **outputs,
        },
        {"test_rows": len(data.y)},
    )


def _outcomes(
    model: Decides,
    encoder: TableEncoder,
    data: Dataset,
    settings: Mapping[str, Any],
    acquired: Acquired | None = None,
) -> Outcomes:
    """What the model decides about every row, and whether it decides the same about every copy."""
    if acquired is None:
        # a model may have a threshold of its own
        score, predicted = model.predict_proba(data.X)[:, 1], model.predict(data.X)
    else:
        # the questions are asked once
        score, predicted = acquired.probability, model.classes_[(acquired.probability > 0.5).astype(int)]
    return Outcomes(
        y_true=data.y,
        y_pred=predicted.astype(np.int64),
        score=score,
        sensitive={name: values.astype(str) for name, values in data.sensitive.items()},
        consistent={
            name: is_consistent(model, encoder, data.X, changes)
            for name, changes in settings["counterfactuals"].items()
        },
    )


def _measure(context: StepContext, outcomes: Outcomes, *, draws: int) -> Evaluation:
    """All metrics but the certificates."""
    settings = context.parameters["evaluate"]
    return measure(
        outcomes,
        draws=draws,
        level=settings["level"],
        min_cell=settings["min_cell"],
        seed=derive_seed(context.parameters["seed"], "bootstrap"),
        intersections=settings["intersections"],
    )


def _with_acquisition(
    context: StepContext,
    evaluation: Evaluation,
    model: Acquires,
    acquired: Acquired,
    data: Dataset,
    encoder: TableEncoder,
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
    informed = _measure(context, _outcomes(FullInformation(model), encoder, data, settings), draws=0)
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


def _audit(context: StepContext, model: Method, data: Dataset, *, draws: int) -> Audit | None:
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
    )


def _certify(context: StepContext, model: Method, data: Dataset, *, draws: int) -> Certificate | None:
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


def is_consistent(
    model: Decides,
    encoder: TableEncoder,
    X: NDArray[np.float32],
    changes: Mapping[str, Sequence[Any] | str],
) -> NDArray[np.bool_]:
    """Whether each row gets one and the same prediction on all its counterfactual copies, shape (n,)."""
    predictions = np.stack([model.predict(copy) for copy in encoded_copies(encoder, X, changes)])
    same: NDArray[np.bool_] = (predictions == predictions[0]).all(axis=0)
    return same


STEP = Step("evaluate", evaluate)
