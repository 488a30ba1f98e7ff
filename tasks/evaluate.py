"""Evaluate: every metric on the test rows, with intervals, and counterfactual consistency."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairlib.evaluation.evaluate import evaluate as measure
from fairlib.evaluation.histograms import score_histograms
from fairlib.evaluation.outcomes import Outcomes
from fairlib.methods.base import BinaryMethod
from fairlib.methods.registry import load_model
from fairlib.preprocessing.encoder import TableEncoder, category_name
from fairlib.randomness import derive_seed
from tasks.dataset import read_dataset
from tasks.errors import InputError
from tasks.step import Step, StepContext, StepResult

__all__ = ["STEP", "counterfactual_copies"]


def evaluate(context: StepContext) -> StepResult:
    """Write ``metrics.json``, ``histograms.json`` and ``predictions.parquet`` (no sensitive value in it)."""
    settings = context.parameters["evaluate"]
    model = load_model(context.inputs["model"])
    encoder = TableEncoder.load(context.inputs["encoder"])
    _check_counterfactuals(settings["counterfactuals"], encoder)
    data = read_dataset(context.inputs["test"])
    raw: pd.DataFrame = pq.read_table(context.inputs["test"] / "raw.parquet").to_pandas()
    score = model.predict_proba(data.X)[:, 1]
    prediction = model.predict(data.X).astype(np.int64)
    outcomes = Outcomes(
        y_true=data.y,
        y_pred=prediction,
        score=score,
        sensitive={name: values.astype(str) for name, values in data.sensitive.items()},
        consistent={
            name: is_consistent(model, encoder, raw, changes)
            for name, changes in settings["counterfactuals"].items()
        },
    )
    evaluation = measure(
        outcomes,
        draws=settings["draws"],
        level=settings["level"],
        min_cell=settings["min_cell"],
        seed=derive_seed(context.parameters["seed"], "bootstrap"),
        intersections=settings["intersections"],
    )
    folder = context.workdir
    (folder / "metrics.json").write_text(json.dumps(evaluation.to_json(), indent=1))
    histograms = score_histograms(outcomes, min_cell=settings["min_cell"])
    (folder / "histograms.json").write_text(json.dumps(histograms))
    predictions = pa.table(
        {
            "row": data.rows,
            "label": data.y.astype(np.int8),
            "probability": score,
            "prediction": prediction.astype(np.int8),
        }
    )
    pq.write_table(predictions, folder / "predictions.parquet")
    return StepResult(
        {
            "metrics": (folder / "metrics.json", "metrics"),
            "histograms": (folder / "histograms.json", "histograms"),
            "predictions": (folder / "predictions.parquet", "predictions"),
        },
        {"test_rows": len(data.y)},
    )


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
    model: BinaryMethod,
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
