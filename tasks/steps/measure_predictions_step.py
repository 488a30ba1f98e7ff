"""Measure predictions: what any model, or any person, predicted for the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import coerce, group_labels
from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.favourable import describe_outcome, guess_favourable
from evenhand.data_contracts.inference import (
    guess_positive,
    in_words,
    infer_contract,
    label_column,
    match_value,
    sensitive_column,
)
from evenhand.data_contracts.values import Values, read_values
from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
from evenhand.fairlib.evaluation.predictions import audit_predictions
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.execution.step import StepContext, StepResult
from evenhand.tasks.sources.plain_forms import refuse_unread_numbers
from evenhand.tasks.steps.preprocess_step import column_specs
from evenhand.tasks.written_input import nearest

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.data_contracts.column import Column


def measure_predictions(context: StepContext) -> StepResult:
    """Write ``metrics.json``, ``histograms.json`` and, for probabilities with labels,
    ``reliability.json``.

    Parameters are the columns ``prediction``, ``label`` (None: not known) and ``sensitive``, the
    label's ``positive`` and ``favourable`` values (None: as `init` chooses them), the ``features``
    in which people are compared (empty: no certificate), the ``threshold``, the settings
    ``evaluate`` and a ``seed``. Inputs are the ``raw`` table and, optionally, a foreign ``model``,
    which gives the predictions: then the columns but for the label are its features.
    """
    given = context.parameters
    raw = context.inputs["raw"]
    _check_names(given, pq.read_schema(raw).names)
    table = pq.read_table(raw, columns=None if "model" in context.inputs else _names(given))
    refuse_unread_numbers(table.select(_names(given)))
    with input_errors("", ContractError):
        sensitive = {name: _groups(table, name) for name in given["sensitive"]}
        label = None
        described = None
        said = {}
        if given["label"] is not None:
            values = read_values(table[given["label"]], given["label"], plain=True)
            described = label_column(values, given["positive"], favourable=given["favourable"])
            (negative,) = set(described.allowed or ()) - {described.positive}
            label = _is(values, [described.positive])
            said = {"positive": described.positive, "negative": negative}
    if "model" in context.inputs:
        from evenhand.tasks.sources.foreign_models import load_predictor

        features = table.drop_columns([given["label"]] if given["label"] else []).to_pandas()
        model = load_predictor(context.inputs["model"], described, given["positive"])

        def predict(rows: pd.DataFrame) -> NDArray[Any]:
            found = np.asarray(model(rows))
            if found.ndim > 1 and found.shape[1] > 1:
                return found
            column = pa.chunked_array([pa.array(found.ravel())])
            return _scores(column, None, described, given["positive"])

        arguments = {"prediction": predict, "features": features}
    else:
        name = given["prediction"]
        arguments = {"prediction": _scores(table[name], name, described, given["positive"])}
    if given["features"]:
        arguments["points"] = partial(_points, table, given, sensitive)
    with input_errors("", ContractError):
        outcome = _outcome(given, described, table)
    del table
    with input_errors("predictions: ", ValueError, ContractError):
        audit = audit_predictions(
            **arguments,
            sensitive=sensitive,
            label=label,
            favourable=outcome["code"],
            threshold=given["threshold"],
            seed=given["seed"],
            **given["evaluate"],
            callback=lambda done, total: context.progress(done, total, {}),
        )
    evaluation = replace(
        audit.evaluation, settings={**audit.evaluation.settings, "outcome": outcome}
    )
    outputs = context.write_json("metrics", evaluation.to_json())
    if audit.histograms:
        outputs |= context.write_json("histograms", audit.histograms)
    if audit.reliability:
        outputs |= context.write_json("reliability", audit.reliability)
    return StepResult(outputs, {"rows": audit.evaluation.n, "label": said, "outcome": outcome})


def _outcome(given: Mapping[str, Any], label: Column | None, table: pa.Table) -> dict[str, Any]:
    """The favourable outcome, as :func:`describe_outcome` has it, with the ``reason`` for it.

    Without a label, decisions of two values say it; probabilities need the value that they are of.
    """
    reason = "as asked"
    if label is None:
        label = _decided(given, table)
    if label is None:
        return _outcome_of_probabilities(given)
    if given["favourable"] is None:
        guess = guess_favourable(label.name, label.allowed or ())
        reason = "nothing says which outcome is favourable" if guess is None else guess.reason
    return describe_outcome(label) | {"reason": reason}


def _decided(given: Mapping[str, Any], table: pa.Table) -> Column | None:
    """Describe a column of decisions as if it were the label; None for probabilities, or a
    model's.
    """
    name = given["prediction"]
    if name is None or given["label"] is not None:
        return None
    values = read_values(table[name], name, plain=True)
    if values.distinct != 2 or len(values.present) < len(values.data):
        return None
    # numbers are decisions only as 0 and 1, of which 1 is positive
    numeric = values.kind in ("integer", "number")
    if numeric and set(pc.unique(values.present).to_pylist()) != {0, 1}:
        return None
    return label_column(
        values, None if numeric else given["positive"], favourable=given["favourable"]
    )


def _outcome_of_probabilities(given: Mapping[str, Any]) -> dict[str, Any]:
    """The favourable outcome where only the options can say it: of probabilities without labels."""
    positive = given["positive"]
    favourable = given["favourable"]
    if favourable is not None and positive is None:
        raise InputError(
            "--favourable needs --positive here: probabilities alone do not say which outcome they "
            "are of."
        )
    code = 1 if favourable is None or in_words(favourable) == in_words(positive) else 0
    unfavourable = positive if code == 0 else None
    return {
        "column": given["prediction"] or "prediction",
        "code": code,
        "favourable": in_words(
            1 if favourable is None and positive is None else favourable or positive
        ),
        "adverse": None if unfavourable is None else in_words(unfavourable),
        "stated": favourable is not None,
        "reason": "as asked"
        if favourable is not None
        else "nothing says which outcome is favourable",
    }


def _names(given: Mapping[str, Any]) -> list[str]:
    named = [given["prediction"], given["label"], *given["sensitive"], *given["features"]]
    return list(dict.fromkeys(filter(None, named)))


def _points(
    table: pa.Table, given: Mapping[str, Any], sensitive: Mapping[str, NDArray[Any]], rows: Int
) -> Float:
    """Rows in the coordinates of a sensitive subspace of the features, learned from these rows."""
    names = dict.fromkeys([*given["features"], *given["sensitive"], given["label"]])
    chosen = table.select(list(names)).take(rows)
    contract = infer_contract(
        chosen, "audit", given["label"], given["sensitive"], given["positive"]
    )
    frame = coerce(chosen, contract).to_pandas()
    X = TableEncoder(column_specs(contract), unseen="ignore").fit(frame).transform(frame)
    groups = {name: values[rows] for name, values in sensitive.items()}
    return SensitiveSubspace().fit(X, sensitive_features=groups).project(X)


def _check_names(given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in _names(given):
        if name not in known:
            raise InputError(
                f"the table has no column {name!r}{nearest(name, known)}: it has "
                f"{', '.join(known)}."
            )


def _groups(table: pa.Table, name: str) -> NDArray[np.object_]:
    """Groups as `init` makes them: the values, or ranges of many numbers."""
    values = read_values(table[name], name)
    return group_labels(values.data, sensitive_column(values))


def _is(values: Values, chosen: Sequence[Any]) -> NDArray[np.bool_]:
    kept = pc.is_in(values.data, value_set=pa.array(chosen, values.data.type))
    return np.asarray(kept.to_numpy())


def _scores(
    column: pa.ChunkedArray, name: str | None, label: Column | None, positive: Any
) -> NDArray[np.float64 | np.bool_]:
    """Probabilities as they are; of decisions, whether they are the label's, or the given, positive
    value.

    Without a `name` they are a model's. Numbers are decisions if they are the label's two values.
    Raises `InputError` if words are not the label's, or none of them is known to be positive.
    """
    allowed: list[Any] = list((label and label.allowed) or ())
    wanted: Any = positive if label is None else label.positive
    shown = f"the column {name!r}" if name else "the model's prediction"
    name = name or "prediction"
    with input_errors("", ContractError):
        values = read_values(column, name)
        if values.kind in ("integer", "number"):
            numbers = values.data.cast(pa.float64())
            classes = (
                list(map(float, allowed))
                if label and label.logical_type in ("integer", "number")
                else []
            )
            if classes and pc.all(pc.is_in(numbers, value_set=pa.array(classes))).as_py():
                return _is(replace(values, data=numbers), [float(wanted)])
            return np.asarray(numbers.to_numpy())
        plain = read_values(column, name, plain=True)
    if plain.data.null_count:
        raise InputError(
            f"{shown} is missing in {plain.data.null_count:,} of {len(plain.data):,} rows: predict "
            "them, or "
            "drop these rows."
        )
    if plain.kind == "boolean" and (label is None or label.logical_type != "boolean"):
        return _is(plain, [True])
    counts = {one["values"].as_py(): one["counts"].as_py() for one in pc.value_counts(plain.data)}
    known = [in_words(value).lower() for value in allowed]
    if len(counts) > 2 or (
        known and not {in_words(value).lower() for value in counts} <= set(known)
    ):
        these = (
            f"{' and '.join(map(in_words, allowed))}, as the label has" if known else "two values"
        )
        raise InputError(
            f"{shown} has {len(counts):,} different values that are no numbers: give probabilities "
            "in "
            f"[0, 1], or decisions of {these}."
        )
    if wanted is None and len(counts) == 1:
        raise InputError(
            f"{shown} is the same in all rows: name the positive value with --positive."
        )
    if wanted is None:
        wanted = guess_positive(counts)[0]
    elif label is None and len(counts) == 2:
        with input_errors("", ContractError):
            wanted = match_value("positive", wanted, list(counts), shown)
    return _is(
        plain, [value for value in counts if in_words(value).lower() == in_words(wanted).lower()]
    )
