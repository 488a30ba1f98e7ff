"""Evaluate: every metric on the test rows, with intervals, and counterfactual consistency."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairlib.distances.sensitive_subspace import SensitiveSubspace
from fairlib.evaluation.audit import Audit
from fairlib.evaluation.evaluate import Evaluation, MetricValue
from fairlib.evaluation.evaluate import evaluate as measure
from fairlib.evaluation.histograms import score_histograms
from fairlib.evaluation.outcomes import Outcomes
from fairlib.methods.base import Method
from fairlib.methods.registry import load_model
from fairlib.preprocessing.encoder import TableEncoder, category_name
from fairlib.randomness import derive_seed
from tasks.audit import audit_model, write_audit
from tasks.dataset import Dataset, read_dataset
from tasks.errors import InputError
from tasks.step import Step, StepContext, StepResult

__all__ = ["STEP", "counterfactual_copies"]


def evaluate(context: StepContext) -> StepResult:
    """
    Write ``metrics.json``, ``histograms.json`` and ``predictions.parquet`` (no sensitive value in it).

    With a certificate also ``audit.json`` and ``pairs.parquet``, and ``without_adversary.json`` if the
    training gave such a model: its metrics on the same rows, without intervals.
    """
    settings = context.parameters["evaluate"]
    model = load_model(context.inputs["model"])
    encoder = TableEncoder.load(context.inputs["encoder"])
    _check_counterfactuals(settings["counterfactuals"], encoder)
    data = read_dataset(context.inputs["test"])
    raw: pd.DataFrame = pq.read_table(context.inputs["test"] / "raw.parquet").to_pandas()
    folder = context.workdir
    outcomes = _outcomes(model, encoder, data, raw, settings)
    evaluation, audit = _measure(context, model, outcomes, data, draws=settings["draws"])
    outputs: dict[str, tuple[Path, str]] = {}
    if audit is not None:
        outputs |= write_audit(audit, data, settings["min_cell"], folder)
    if "without_adversary" in context.inputs:
        plain = load_model(context.inputs["without_adversary"])
        compared, _ = _measure(context, plain, _outcomes(plain, encoder, data, raw, settings), data, draws=0)
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
    model: Method, encoder: TableEncoder, data: Dataset, raw: pd.DataFrame, settings: Mapping[str, Any]
) -> Outcomes:
    """What the model decides about every row, and whether it decides the same about every copy."""
    return Outcomes(
        y_true=data.y,
        y_pred=model.predict(data.X).astype(np.int64),
        score=model.predict_proba(data.X)[:, 1],
        sensitive={name: values.astype(str) for name, values in data.sensitive.items()},
        consistent={
            name: is_consistent(model, encoder, raw, changes)
            for name, changes in settings["counterfactuals"].items()
        },
    )


def _measure(
    context: StepContext, model: Method, outcomes: Outcomes, data: Dataset, *, draws: int
) -> tuple[Evaluation, Audit | None]:
    """All metrics, the certificate included if there is a budget for it."""
    settings, seed = context.parameters["evaluate"], context.parameters["seed"]
    evaluation = measure(
        outcomes,
        draws=draws,
        level=settings["level"],
        min_cell=settings["min_cell"],
        seed=derive_seed(seed, "bootstrap"),
        intersections=settings["intersections"],
    )
    budget = context.parameters["certificate"]
    if budget is None:
        return evaluation, None
    metric = SensitiveSubspace.load(context.inputs["metric"])
    audit = audit_model(
        model, data, metric, budget, draws=draws, level=settings["level"], seed=derive_seed(seed, "audit")
    )
    certificate = MetricValue(audit.gap, audit.low, audit.high)
    return replace(evaluation, metrics={**evaluation.metrics, "certificate.drf": certificate}), audit


def _check_counterfactuals(
    counterfactuals: Mapping[str, Mapping[str, Sequence[Any] | str]], encoder: TableEncoder
) -> None:
    """Refuse a category that no training row had, and copies that are all the same."""
    for name, changes in counterfactuals.items():
        copies = 1
        for column, listed in changes.items():
            known = encoder.categories_.get(column, ())
            copies *= len(known) if listed == "all" else len(set(listed))
            strange = [
                value for value in listed if known and listed != "all" and category_name(value) not in known
            ]
            if strange:
                raise InputError(
                    f"the counterfactual {name!r} gives {column!r} the value {strange[0]!r}, which no "
                    "training row has: list values of the table."
                )
        if copies < 2:
            raise InputError(
                f"the counterfactual {name!r} changes nothing: {', '.join(map(repr, changes))} has one value "
                "in the training rows; change another column."
            )


def counterfactual_copies(
    raw: pd.DataFrame, encoder: TableEncoder, changes: Mapping[str, Sequence[str] | str]
) -> list[pd.DataFrame]:
    """
    Copies of the rows, one for every combination of the listed values.

    Parameters
    ----------
    raw : DataFrame, shape (n, columns)
    encoder : TableEncoder
        Knows the values of ``all``: those seen in training.
    changes : mapping of column to values, or to ``"all"``

    Returns
    -------
    list of DataFrame
        On each, every changed column is constant (BuDRO, appendix C.2).
    """
    values = {
        column: list(encoder.categories_[column]) if listed == "all" else list(listed)
        for column, listed in changes.items()
    }
    copies = []
    for combination in itertools.product(*values.values()):
        copy = raw.copy()
        for column, value in zip(values, combination, strict=True):
            copy[column] = value
        copies.append(copy)
    return copies


def is_consistent(
    model: Method,
    encoder: TableEncoder,
    raw: pd.DataFrame,
    changes: Mapping[str, Sequence[str] | str],
) -> NDArray[np.bool_]:
    """Whether each row gets one and the same prediction on all its counterfactual copies, shape (n,)."""
    copies = counterfactual_copies(raw, encoder, changes)
    predictions = np.stack([model.predict(encoder.transform(copy)) for copy in copies])
    same: NDArray[np.bool_] = (predictions == predictions[0]).all(axis=0)
    return same


STEP = Step("evaluate", evaluate)
