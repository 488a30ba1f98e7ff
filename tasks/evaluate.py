"""Evaluate: every metric on the test rows, with intervals, and counterfactual consistency."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.fairlib.cores import available_cores
from evenhand.fairlib.distances.registry import load_metric
from evenhand.fairlib.evaluation.audit import Audit, audit
from evenhand.fairlib.evaluation.counts import score_histograms
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.evaluation.evaluate import evaluate as measure
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.selection import selection_report
from evenhand.fairlib.methods.registry import METHODS, load_model
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.progress import Progress
from evenhand.fairlib.randomness import derive_seed, generator
from evenhand.tasks.acquisition import Acquired, Acquires, FullInformation, questions_of, write_acquisition
from evenhand.tasks.certificates import audit_content, audit_pairs, certificate_budgets, certificate_content
from evenhand.tasks.counterfactuals import check_counterfactuals
from evenhand.tasks.dataset import Dataset, read_dataset
from evenhand.tasks.evaluating.decisions import (
    Decides,
    acquire,
    bootstrap_settings,
    decide_rows,
    mean_asked,
)
from evenhand.tasks.step import Outputs, Stages, StepContext, StepResult

if TYPE_CHECKING:
    from evenhand.fairlib.evaluation.certificates import Certificate

__all__ = ["has_trait", "selection_content", "evaluate"]

# A network is certified on at most this many people, drawn at random.
MOST_CERTIFIED = 2000


def evaluate(context: StepContext) -> StepResult:
    """
    Write ``metrics.json``, ``histograms.json`` and ``predictions.parquet`` (no sensitive value in it).

    With a certificate also ``audit.json`` and ``pairs.parquet``, for a network ``certificate.json``, and
    ``without_adversary.json`` if the training gave such a model: its metrics on the same rows, without
    intervals. A model that asks for features gets ``acquisition.json``, and its metrics are those of its
    predictions after the questions. A model with a selector of features gets ``selection.json``.
    """
    settings, folder = context.parameters["evaluate"], context.workdir
    model = load_model(context.inputs["model"])
    encoder = TableEncoder.load(context.inputs["encoder"])
    check_counterfactuals(settings["counterfactuals"], encoder)
    data = read_dataset(context.inputs["test"])
    stages = Stages(context.progress, _count_stages(context, model))
    test = _Test(context, encoder, data, stages)

    acquired = acquire(model, data.X, callback=stages.next()) if isinstance(model, Acquires) else None
    outcomes = test.outcomes(model, acquired)
    evaluation = test.measure(outcomes, draws=settings["draws"], callback=stages.next())
    found, certificate = test.certify(model, draws=settings["draws"])
    metrics = {**evaluation.metrics, **_certificate_metrics(found, certificate)}
    special: Outputs = {}
    if found is not None:
        special |= context.write_json("audit", audit_content(found, data, settings["min_cell"]))
        pq.write_table(pa.table(audit_pairs(found, data)), folder / "pairs.parquet")
        special["pairs"] = (folder / "pairs.parquet", "pairs")
    if certificate is not None:
        special |= context.write_json("certificate", certificate_content(certificate))
    if acquired is not None:
        questions = questions_of(model, acquired)
        metrics["features_asked"] = mean_asked(questions.counts, context.parameters)
        informed = test.measure(test.outcomes(FullInformation(model)), draws=0)
        special |= write_acquisition(
            model,
            questions,
            data,
            encoder,
            asked=metrics["features_asked"],
            full_information={name: metric.value for name, metric in informed.metrics.items()},
            settings=settings,
            folder=folder,
        )
    if has_trait(model, "selects"):
        special |= context.write_json("selection", selection_content(model, data.X, settings["min_cell"]))
    if "without_adversary" in context.inputs:
        plain = load_model(context.inputs["without_adversary"])
        compared = dict(test.measure(test.outcomes(plain), draws=0).metrics)
        compared |= _certificate_metrics(*test.certify(plain, draws=0))
        values = {name: metric.value for name, metric in compared.items()}
        special |= context.write_json("without_adversary", values, "metrics")

    outputs = context.write_json("metrics", replace(evaluation, metrics=metrics).to_json())
    outputs |= context.write_json("histograms", score_histograms(outcomes, min_cell=settings["min_cell"]))
    predictions = {
        "row": data.rows,
        "label": data.y.astype(np.int8),
        "probability": outcomes.score,
        "prediction": outcomes.y_pred.astype(np.int8),
    }
    pq.write_table(pa.table(predictions), folder / "predictions.parquet")
    outputs["predictions"] = (folder / "predictions.parquet", "predictions")
    stages.finish()
    return StepResult(outputs | special, {"test_rows": len(data.y)})


def has_trait(model: Any, trait: str) -> bool:
    """Whether the registry says that the model's method has a trait, such as ``selects``."""
    name = type(model).__name__
    return any(getattr(spec, trait) and spec.class_name == name for spec in METHODS.values())


def _count_stages(context: StepContext, model: Any) -> int:
    """Count the parts that report their own progress: each call of ``stages.next``."""
    certificates = 0
    if context.parameters["certificate"] is not None:
        certificates = 2 if has_trait(model, "differentiable") else 1
    questions = 2 if isinstance(model, Acquires) else 0
    plain = 1 + certificates if "without_adversary" in context.inputs else 0
    return 2 + questions + certificates + plain


@dataclass(frozen=True)
class _Test:
    """The test rows of a job, and the measurements of models on them."""

    context: StepContext
    encoder: TableEncoder
    data: Dataset
    stages: Stages

    def outcomes(self, model: Decides, acquired: Acquired | None = None) -> Outcomes:
        """Decisions about every row, and whether they are the same about every copy."""
        counterfactuals = self.context.parameters["evaluate"]["counterfactuals"]
        decided = decide_rows(
            model, self.encoder, self.data.X, counterfactuals, acquired, callback=self.stages.next()
        )
        return Outcomes(
            y_true=self.data.y,
            y_pred=decided.predicted,
            score=decided.score,
            sensitive={name: values.astype(str) for name, values in self.data.sensitive.items()},
            consistent=decided.consistent,
        )

    def measure(self, outcomes: Outcomes, *, draws: int, callback: Progress | None = None) -> Evaluation:
        """All metrics but the certificates."""
        settings = bootstrap_settings(self.context.parameters) | {"draws": draws}
        return measure(outcomes, **settings, callback=callback)

    def certify(self, model: Any, *, draws: int) -> tuple[Audit | None, Certificate | None]:
        """Audit within the job's budget, and for a network the certificate of its outputs."""
        parameters, data = self.context.parameters, self.data
        budget = parameters["certificate"]
        if budget is None:
            return None, None
        metric, level = load_metric(self.context.inputs["metric"]), parameters["evaluate"]["level"]
        found = audit(
            model,
            data.X,
            model.classes_[data.y],
            metric,
            budget,
            draws=draws,
            level=level,
            seed=derive_seed(parameters["seed"], "audit"),
            jobs=available_cores(),
            callback=self.stages.next(),
        )
        if not has_trait(model, "differentiable"):
            return found, None
        from evenhand.fairlib.evaluation.certificates import certify

        seed = derive_seed(parameters["seed"], "certificate")
        people = np.arange(len(data.X))
        if len(people) > MOST_CERTIFIED:
            people = np.sort(generator(seed, "people").choice(len(people), MOST_CERTIFIED, replace=False))
        certificate = certify(
            model.network_,
            data.X[people],
            metric,
            certificate_budgets(budget),
            draws=draws,
            level=level,
            seed=seed,
            callback=self.stages.next(),
        )
        return found, certificate


def _certificate_metrics(found: Audit | None, certificate: Certificate | None) -> dict[str, MetricValue]:
    metrics = {}
    if found is not None:
        metrics["certificate.drf"] = MetricValue(found.gap, found.low, found.high)
    if certificate is not None:
        low, high = (None if ends is None else float(ends[0]) for ends in (certificate.low, certificate.high))
        metrics["certificate.dif"] = MetricValue(float(certificate.values[0]), low, high)
    return metrics


def selection_content(model: Any, X: NDArray[np.float32], min_cell: int) -> dict[str, Any]:
    """
    Selection probabilities of each feature over the test rows, as plain JSON types.

    No row's probabilities are in it, and of fewer than `min_cell` people no mean, unless the probabilities
    are the same for everybody.
    """
    return {
        "attributes": list(model.attributes_),
        "data_dependent": bool(model.data_dependent),
        "rows": len(X),
        "groups": selection_report(
            model.selection_probabilities(X),
            list(model.groups_),
            model.attributes_,
            data_dependent=bool(model.data_dependent),
            min_cell=min_cell,
        ),
    }
