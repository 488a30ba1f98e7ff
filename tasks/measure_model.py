"""Measure model: a published model's metrics on a table that it was not made from, beside a baseline's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data_contracts.groups import group_labels
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.evaluation.acquisition import features_asked
from evenhand.fairlib.evaluation.evaluate import Evaluation
from evenhand.fairlib.evaluation.evaluate import evaluate as measure
from evenhand.fairlib.evaluation.histograms import score_histograms
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired import compare
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.randomness import derive_seed
from evenhand.tasks.counterfactuals import check_counterfactuals
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.decisions import Counterfactuals, Decides, Decisions, acquire, decide_rows
from evenhand.tasks.evaluating.groups import known_groups
from evenhand.tasks.step import Step, StepContext, StepResult

__all__ = ["STEP"]

# rows that are encoded, copied and predicted at a time: what is in memory beside the table itself
CHUNK_ROWS = 65_536


@dataclass(frozen=True)
class Judged:
    """A model and the encoder that it was published with."""

    role: str
    model: Decides
    encoder: TableEncoder
    encoder_file: bytes

    @classmethod
    def load(cls, role: str, bundle: Path, counterfactuals: Counterfactuals) -> Judged:
        """Read a bundle; one that cannot make the copies of the counterfactuals is refused."""
        try:
            model = load_model(bundle / "model")
            encoder = TableEncoder.load(bundle / "encoder.json")
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise InputError(
                f"the {role} cannot be loaded ({type(error).__name__}): publish it again."
            ) from error
        try:
            check_counterfactuals(counterfactuals, encoder)
        except InputError as error:
            raise InputError(f"the {role}: {error}") from None
        return cls(role, model, encoder, (bundle / "encoder.json").read_bytes())


def measure_model(context: StepContext) -> StepResult:
    """
    Write ``metrics.json`` and ``histograms.json``; with a baseline ``baseline.json`` and ``comparison.json``.

    Parameters are the model's ``contract``, the settings ``evaluate`` and a ``seed``; inputs the ``checked``
    table, the ``bundle`` and perhaps the ``baseline``. Both models meet the counterfactuals of the settings,
    each through its own encoder. A model that asks for features is measured by what it predicts after its
    questions. Certificates are not measured: the fair metric that they need is not published.
    """
    settings = context.parameters["evaluate"]
    contract = Contract.from_dict(context.parameters["contract"])
    counterfactuals = settings["counterfactuals"]
    judged = [
        Judged.load(role, context.inputs[name], counterfactuals)
        for role, name in (("model", "bundle"), ("baseline", "baseline"))
        if name in context.inputs
    ]
    table = pq.read_table(context.inputs["checked"])
    decided = _decide(context, judged, _features(table, contract), counterfactuals)
    people = _people(table, contract)
    outcomes = [
        Outcomes(y_pred=one.predicted, score=one.score, consistent=one.consistent, **people)
        for one in decided
    ]
    evaluations = [_measured(context, *pair) for pair in zip(outcomes, decided, strict=True)]
    written: dict[str, Any] = {
        "metrics": evaluations[0].to_json(),
        "histograms": score_histograms(outcomes[0], min_cell=settings["min_cell"]),
    }
    if len(judged) > 1:
        written["baseline"] = evaluations[1].to_json()
        written["comparison"] = compare(*outcomes, **_settings(context)).to_json()
    kinds = {"baseline": "metrics"}
    outputs = {}
    for name, content in written.items():
        path = context.workdir / f"{name}.json"
        path.write_text(json.dumps(content, indent=1, allow_nan=False))
        outputs[name] = (path, kinds.get(name, name))
    return StepResult(outputs, {"rows": table.num_rows})


def _features(table: pa.Table, contract: Contract) -> pd.DataFrame:
    """Model inputs as the encoders take them."""
    frame: pd.DataFrame = table.select([column.name for column in contract.features]).to_pandas()
    return frame


def _people(table: pa.Table, contract: Contract) -> dict[str, Any]:
    """What is known of the rows whoever predicts: true labels, groups, and which groups there can be."""
    label = contract.label
    values = table[label.name]
    y_true = pc.equal(values, pa.scalar(label.positive, type=values.type)).to_numpy().astype(np.int64)
    sensitive = {
        column.name: group_labels(table[column.name], column).astype(object) for column in contract.sensitive
    }
    groups = {
        column.name: known_groups(column) | set(pd.unique(sensitive[column.name]))
        for column in contract.sensitive
    }
    return {"y_true": y_true, "sensitive": sensitive, "groups": groups}


def _decide(
    context: StepContext, judged: list[Judged], features: pd.DataFrame, counterfactuals: Counterfactuals
) -> list[Decisions]:
    """What every model decides about every row, a chunk of rows at a time."""
    rows = len(features)
    parts: list[list[Decisions]] = [[] for _ in judged]
    for start in range(0, rows, CHUNK_ROWS):
        chunk = features.iloc[start : start + CHUNK_ROWS]
        encoded: dict[bytes, NDArray[np.float32]] = {}
        for one, part in zip(judged, parts, strict=True):
            # a model and its baseline often learned from the same rows: these are encoded once
            if one.encoder_file not in encoded:
                encoded[one.encoder_file] = _encode(one, chunk)
            X = encoded[one.encoder_file]
            part.append(decide_rows(one.model, one.encoder, X, counterfactuals, acquire(one.model, X)))
        context.progress(min(start + CHUNK_ROWS, rows), rows, {})
    return [Decisions.concatenate(part) for part in parts]


def _encode(judged: Judged, chunk: pd.DataFrame) -> NDArray[np.float32]:
    try:
        return judged.encoder.transform(chunk)
    except ValueError as error:  # its messages name columns and quote no value
        raise InputError(f"the data does not fit the {judged.role}: {error}") from None


def _settings(context: StepContext) -> dict[str, Any]:
    settings = context.parameters["evaluate"]
    return {
        **{key: settings[key] for key in ("draws", "level", "min_cell", "intersections")},
        "seed": derive_seed(context.parameters["seed"], "bootstrap"),
    }


def _measured(context: StepContext, outcomes: Outcomes, decided: Decisions) -> Evaluation:
    settings: Mapping[str, Any] = _settings(context)
    evaluation = measure(outcomes, **settings)
    if decided.asked is None:
        return evaluation
    keys = ("draws", "level", "min_cell", "seed")
    asked = features_asked(decided.asked, **{key: settings[key] for key in keys})
    return replace(evaluation, metrics={**evaluation.metrics, "features_asked": asked})


STEP = Step("measure_model", measure_model)
