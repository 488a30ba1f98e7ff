"""Measure predictions: what any model, or any person, predicted for the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import group_labels
from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.inference import label_column, sensitive_column
from evenhand.data_contracts.values import Values, read_values
from evenhand.fairlib.evaluation.predictions import audit_predictions
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.inputs import nearest
from evenhand.tasks.step import StepContext, StepResult


def measure_predictions(context: StepContext) -> StepResult:
    """Write ``metrics.json``, ``histograms.json`` and, for probabilities with labels, ``reliability.json``.

    Parameters are the columns ``prediction``, ``label`` (None: not known) and ``sensitive``, the label's
    ``positive`` value (None: as `init` chooses it), the ``threshold``, the settings ``evaluate`` and a
    ``seed``. Inputs are the ``raw`` table and, optionally, a foreign ``model``, which gives the predictions:
    then the columns but for the label are its features.
    """
    given = context.parameters
    raw = context.inputs["raw"]
    _check_names(given, pq.read_schema(raw).names)
    table = pq.read_table(raw, columns=None if "model" in context.inputs else _names(given))
    with input_errors("", ContractError):
        sensitive = {name: _groups(table, name) for name in given["sensitive"]}
        label, said = None, {}
        if given["label"] is not None:
            values = read_values(table[given["label"]], given["label"], plain=True)
            described = label_column(values, given["positive"])
            (negative,) = set(described.allowed or ()) - {described.positive}
            label = _is(values, described.positive)
            said = {"positive": described.positive, "negative": negative}
    if "model" in context.inputs:
        from evenhand.tasks.foreign_models import load_predictor

        features = table.drop_columns([given["label"]] if given["label"] else []).to_pandas()
        arguments = {"prediction": load_predictor(context.inputs["model"]), "features": features}
    else:
        arguments = {"prediction": _predictions(table, given, said.get("positive"))}
    del table
    with input_errors("predictions: "):
        audit = audit_predictions(
            **arguments,
            sensitive=sensitive,
            label=label,
            threshold=given["threshold"],
            seed=given["seed"],
            **given["evaluate"],
            callback=lambda done, total: context.progress(done, total, {}),
        )
    outputs = context.write_json("metrics", audit.evaluation.to_json())
    if audit.histograms:
        outputs |= context.write_json("histograms", audit.histograms)
    if audit.reliability:
        outputs |= context.write_json("reliability", audit.reliability)
    return StepResult(outputs, {"rows": audit.evaluation.n, "label": said})


def _names(given: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(filter(None, [given["prediction"], given["label"], *given["sensitive"]])))


def _check_names(given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in _names(given):
        if name not in known:
            raise InputError(
                f"the table has no column {name!r}{nearest(name, known)}: it has {', '.join(known)}."
            )


def _groups(table: pa.Table, name: str) -> NDArray[np.object_]:
    """Groups as `init` makes them: the values, or ranges of many numbers."""
    values = read_values(table[name], name)
    return group_labels(values.data, sensitive_column(values))


def _is(values: Values, positive: Any) -> NDArray[np.int64]:
    return pc.equal(values.data, pa.scalar(positive, values.data.type)).to_numpy().astype(np.int64)


def _predictions(table: pa.Table, given: Mapping[str, Any], positive: Any) -> NDArray[Any]:
    """Numbers as they are; decisions written in words by the label's positive value, or by the given one."""
    name = given["prediction"]
    with input_errors("", ContractError):
        values = read_values(table[name], name)
        if values.kind in ("integer", "number"):
            return values.data.cast(pa.float64()).to_numpy()
        plain = read_values(table[name], name, plain=True)
        return _is(plain, label_column(plain, given["positive"] if positive is None else positive).positive)
