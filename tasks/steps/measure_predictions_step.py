"""Measure predictions: what any model, or any person, predicted for the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import coerce, group_labels, label_codes
from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.favourable import describe_outcome, guess_favourable, guess_side
from evenhand.data_contracts.inference import (
    guess_positive,
    in_words,
    infer_contract,
    label_column,
    match_value,
    read_label,
    sensitive_column,
)
from evenhand.data_contracts.values import Values, read_values
from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
from evenhand.fairlib.evaluation.audit_target import MOST_CLASSES
from evenhand.fairlib.evaluation.group_audit import audit
from evenhand.fairlib.evaluation.predictions import audit_predictions, decisions_of, scores_of
from evenhand.fairlib.parameters import check_sample_weight
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.evaluating.group_audits import (
    OF_CLASSES,
    Audits,
    audit_decisions,
    document_of,
    metrics_of,
    settings_of,
    within_controls,
)
from evenhand.tasks.execution.step import StepContext, StepResult
from evenhand.tasks.sources.foreign_models import Decided, load_predictor, load_value_predictor
from evenhand.tasks.sources.plain_forms import refuse_unread_numbers
from evenhand.tasks.sources.row_group_blocks import columns_of_raw
from evenhand.tasks.steps.preprocess_step import column_specs
from evenhand.tasks.written_input import check_columns

if TYPE_CHECKING:
    from evenhand.data_contracts.column import Column


# Name of a model's predictions where columns of predictions have their own.
MODEL = "model"


def measure_predictions(context: StepContext) -> StepResult:
    """Write ``metrics.json``, ``audit.json`` (verdict, groups and gaps), for two labels
    ``histograms.json`` and, for probabilities with labels, ``reliability.json``.

    Parameters are the columns ``prediction``, ``label`` (None: not known) and ``sensitive``, the
    label's ``positive`` and ``favourable`` values (None: as `init` chooses them), of a label of
    numbers its threshold ``at_least``, the ``features`` in which people are compared (empty: no
    certificate), the ``threshold`` (None: a model's own, else .5), further columns
    ``compared_with`` of predictions, ``weight`` and ``person``, ``control`` columns, names of
    values by column, the settings ``evaluate`` and a ``seed``. Inputs are the ``raw`` table and,
    optionally, a foreign ``model``, which gives the predictions: then the columns but for the label
    are its features.
    """
    parameters = context.parameters
    raw = context.inputs["raw"]
    names = _names(parameters)
    check_columns(names, columns_of_raw(raw))
    # a model may read any column
    columns: list[str] | None = names
    if "model" in context.inputs:
        columns = None
    table = pq.read_table(raw, columns=columns)
    refuse_unread_numbers(table.select(names))
    people = _audited_people(table, parameters)
    kind = _kind(table, parameters)
    if kind == "two labels":
        return _measure_decisions(context, table, people)
    if parameters["features"]:
        raise InputError(
            f"the label {parameters['label']!r} has more than two values: --features needs one of "
            "two; leave it out."
        )
    return _measure_others(context, table, people, kind)


def _audited_people(table: pa.Table, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Groups, control features, weights and people of the rows, as arguments of an audit."""
    with input_errors("", ContractError):
        groups = {}
        for name in parameters["sensitive"]:
            groups[name] = _named(_groups(table, name), parameters["value_names"].get(name, {}))
        controls = {name: _groups(table, name) for name in parameters["control"]}
    people: dict[str, Any] = {"sensitive_features": groups}
    if controls:
        people["control_features"] = controls
    if parameters["weight"]:
        people["sample_weight"] = _weights(table, parameters["weight"])
    if parameters["person"]:
        persons = table[parameters["person"]].combine_chunks()
        if persons.null_count:
            raise InputError(
                f"the column {parameters['person']!r} is missing in {persons.null_count:,} of "
                f"{len(persons):,} rows: name every row's person."
            )
        people["people"] = np.asarray(persons.dictionary_encode().indices, dtype=np.int64)
    return people


def _named(groups: NDArray[np.object_], names: Mapping[str, str]) -> NDArray[np.object_]:
    """Groups under the names of their values."""
    if not names:
        return groups
    return np.array([names.get(group, group) for group in groups], dtype=object)


def _weights(table: pa.Table, name: str) -> Float:
    """Weights of the rows."""
    with input_errors("", ContractError):
        values = read_values(table[name], name)
    if values.kind not in ("integer", "number") or values.data.null_count:
        raise InputError(
            f"the column {name!r} has values that are no numbers: weights are numbers, at least 0."
        )
    weights = np.asarray(values.data.cast(pa.float64()).to_numpy())
    with input_errors(f"the column {name!r}: ", ValueError):
        check_sample_weight(weights, len(weights))
    return weights


def _kind(table: pa.Table, parameters: Mapping[str, Any]) -> str:
    """Whether the label has two values, is one of several classes, or a quantity."""
    name = parameters["label"]
    states_outcome = parameters["positive"] is not None or parameters.get("at_least") is not None
    if name is None or states_outcome:
        return "two labels"
    with input_errors("", ContractError):
        values = read_values(table[name], name)
    if values.kind in ("integer", "number"):
        numbers = values.present.cast(pa.float64())
        whole = pc.all(pc.equal(numbers, pc.floor(numbers))).as_py()
        if values.distinct > MOST_CLASSES or (values.distinct > 2 and not whole):
            return "numbers"
    if values.kind != "date" and 2 < values.distinct <= MOST_CLASSES:
        return "classes"
    return "two labels"


def _measure_others(
    context: StepContext, table: pa.Table, people: Mapping[str, Any], kind: str
) -> StepResult:
    """Measure predicted classes or quantities."""
    parameters = context.parameters
    label = None
    if parameters["label"]:
        label = _plain_column(table, parameters["label"], kind)
    predicted = {}
    if "model" in context.inputs:
        model = MODEL
        predicted[model] = _values_of_model(context.inputs["model"], table, parameters, kind)
    else:
        model = parameters["prediction"]
        for name in (model, *parameters["compared_with"]):
            predicted[name] = _plain_column(table, name, kind)
    metrics = None
    if kind == "classes" and label is not None:
        _check_classes(label, predicted)
        classes = sorted({str(value) for value in pd.unique(label)})
        metrics = [*OF_CLASSES, *(f"recall.{name}" for name in classes)]
    with input_errors("predictions: ", ValueError, ContractError):
        audits = within_controls(
            people, partial(audit, label, predicted, metrics=metrics, **settings_of(parameters))
        )
    chosen = {**parameters["evaluate"], "seed": parameters["seed"], "labelled": label is not None}
    measured = metrics_of(audits.whole[model], {**chosen, "kind": kind})
    outputs = context.write_json("metrics", measured)
    outputs |= context.write_json("audit", document_of(audits, model))
    return StepResult(outputs, {"rows": measured["n"], "label": {}, "outcome": None})


def _values_of_model(
    path: Path, table: pa.Table, parameters: Mapping[str, Any], kind: str
) -> pd.Series:
    """Classes or quantities that a foreign model predicts from all columns but the label."""
    rows = table.drop_columns([parameters["label"]]).to_pandas()
    values = load_value_predictor(path)(rows)
    return _plain_column(pa.table({MODEL: pa.array(values)}), MODEL, kind)


def _check_classes(label: pd.Series, predicted: Mapping[str, pd.Series]) -> None:
    """Refuse a column of predictions that has no value of the label."""
    classes = set(label)
    for name, column in predicted.items():
        if not classes & set(column):
            raise InputError(
                f"the label {label.name!r} has {len(classes)} distinct values, and the column "
                f"{name!r} has none of them: give a column of predicted classes."
            )


def _plain_column(table: pa.Table, name: str, kind: str) -> pd.Series:
    """A column of labels or quantities, none missing."""
    with input_errors("", ContractError):
        values = read_values(table[name], name, plain=kind == "classes")
    if kind == "numbers" and values.kind not in ("integer", "number"):
        raise InputError(f"the column {name!r} has values that are no numbers, as the label has.")
    if values.data.null_count:
        raise InputError(
            f"the column {name!r} is missing in {values.data.null_count:,} of "
            f"{len(values.data):,} rows: fill them in, or drop these rows."
        )
    return pd.Series(values.data.to_numpy(zero_copy_only=False), name=name)


def _measure_decisions(
    context: StepContext, table: pa.Table, people: Mapping[str, Any]
) -> StepResult:
    """Measure decisions of two labels, or their probabilities."""
    parameters = context.parameters
    described: Column | None = None
    label: NDArray[np.bool_] | None = None
    label_values: dict[str, Any] = {}
    sensitive = people["sensitive_features"]
    with input_errors("", ContractError):
        if parameters["label"] is not None:
            described, label = _read_label(table, parameters)
            (negative,) = set(described.allowed or ()) - {described.positive}
            label_values = {"positive": described.positive, "negative": negative}
    if "model" in context.inputs:
        arguments = _model_arguments(context.inputs["model"], table, described, parameters)
    else:
        name = parameters["prediction"]
        arguments = {"prediction": _scores(table[name], name, described, parameters["positive"])}
    if parameters["features"]:
        arguments["points"] = partial(_points, table, parameters, sensitive)
    with input_errors("", ContractError):
        outcome = _outcome(parameters, described, table)
        compared = {}
        for name in parameters["compared_with"]:
            compared[name] = _scores(table[name], name, described, parameters["positive"])
    del table
    threshold, own_decisions = _decision_threshold(parameters, arguments["prediction"])
    with input_errors("predictions: ", ValueError, ContractError):
        measured = audit_predictions(
            **arguments,
            sensitive_features=sensitive,
            sample_weight=people.get("sample_weight"),
            people=people.get("people"),
            label=label,
            favourable=outcome["code"],
            threshold=threshold,
            seed=parameters["seed"],
            **parameters["evaluate"],
            callback=lambda done, total: context.progress(done, total, {}),
        )
        predicted = arguments["prediction"]
        if isinstance(predicted, RememberedModel):
            predicted = predicted.first
        model = parameters["prediction"] or MODEL
        chosen = {**parameters, "threshold": threshold}
        audits = _audit_by_group({model: predicted, **compared}, label, outcome, people, chosen)
    settings = {**measured.evaluation.settings, "outcome": outcome}
    evaluation = replace(measured.evaluation, settings=settings)
    outputs = context.write_json("metrics", evaluation.to_json())
    outputs |= context.write_json("audit", document_of(audits, model))
    if measured.histograms:
        outputs |= context.write_json("histograms", measured.histograms)
    if measured.reliability:
        outputs |= context.write_json("reliability", measured.reliability)
    facts = {"rows": evaluation.n, "label": label_values, "outcome": outcome}
    if own_decisions:
        facts["own_decisions"] = own_decisions
    return StepResult(outputs, facts)


def _audit_by_group(
    predicted: Mapping[str, Any],
    label: NDArray[np.bool_] | None,
    outcome: Mapping[str, Any],
    people: Mapping[str, Any],
    parameters: Mapping[str, Any],
) -> Audits:
    """Verdict, groups and gaps of one or more predictions of two labels."""
    decided = {}
    scores = {}
    for model, values in predicted.items():
        decided[model] = decisions_of(values, parameters["threshold"])
        score = scores_of(values)
        if np.any((score != 0) & (score != 1)):
            scores[model] = score
    if len(scores) < len(predicted):
        scores = {}
    settings = settings_of(parameters)
    return within_controls(
        people, partial(audit_decisions, decided, scores, label, outcome, **settings)
    )


# From this probability on the positive value is predicted where nothing else says it.
HALF = 0.5


def _decision_threshold(
    parameters: Mapping[str, Any], predicted: Any
) -> tuple[float | Literal["median"], str]:
    """The threshold of the decisions, and a sentence where a model decides by itself."""
    if parameters["threshold"] is not None:
        return parameters["threshold"], ""
    if not isinstance(predicted, RememberedModel) or not predicted.decides:
        return HALF, ""
    if predicted.threshold is None:
        return HALF, (
            "the decisions are the model's own, which no single threshold gives, so that its "
            "probabilities are not measured; --threshold 0.5 audits the probabilities"
        )
    return predicted.threshold, (
        "the decisions are the model's own: it predicts the positive value from a probability of "
        f"{predicted.threshold:.4g} on; --threshold takes another"
    )


class RememberedModel:
    """A model that keeps its first answers: those of the rows themselves.

    `threshold` is the probability from which on it decides for the positive value, None where it
    does not say how it decides. With `by_decisions` it answers with its decisions, which no
    threshold gives.
    """

    def __init__(
        self, predict: Callable[[pd.DataFrame], NDArray[Any] | Decided], rows: pd.DataFrame
    ) -> None:
        self.predict = predict
        self.rows = rows
        self.threshold: float | None = None
        self.by_decisions = False
        answers = predict(rows)
        if isinstance(answers, Decided):
            self.threshold = answers.threshold()
            self.by_decisions = self.threshold is None
        self.decides = isinstance(answers, Decided)
        self.first = self._values(answers)

    def __call__(self, rows: pd.DataFrame) -> NDArray[Any]:
        """Predict some rows."""
        if rows is self.rows:
            return self.first
        return self._values(self.predict(rows))

    def _values(self, answers: NDArray[Any] | Decided) -> NDArray[Any]:
        """Probabilities, or decisions."""
        if not isinstance(answers, Decided):
            return answers
        if self.by_decisions:
            return answers.is_positive.astype(np.int64)
        return answers.probability


def _read_label(table: pa.Table, parameters: Mapping[str, Any]) -> tuple[Column, NDArray[np.bool_]]:
    """Describe the column of the label, and say of each row whether it has the positive value."""
    name = parameters["label"]
    at_least = parameters.get("at_least")
    values = read_label(table[name], name, at_least)
    described = label_column(
        values,
        parameters["positive"],
        favourable=parameters["favourable"],
        at_least=at_least,
    )
    # of numbers with a threshold everything below knows the two sides alone
    return described.outcome, label_codes(values.data, described) == 1


def _model_arguments(
    path: Path, table: pa.Table, label: Column | None, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments of an audit of a foreign model, whose features are all columns but the label."""
    positive = parameters["positive"]
    if parameters["label"]:
        table = table.drop_columns([parameters["label"]])
    features = table.to_pandas()
    model = load_predictor(path, label, positive)

    def predict(rows: pd.DataFrame) -> NDArray[Any] | Decided:
        answers = model(rows)
        if isinstance(answers, Decided):
            # with a stated threshold the probabilities are audited, as those of any model
            return answers if parameters["threshold"] is None else answers.probability
        predicted = np.asarray(answers)
        if predicted.ndim > 1 and predicted.shape[1] > 1:
            return predicted
        column = pa.chunked_array([pa.array(predicted.ravel())])
        return _scores(column, None, label, positive)

    return {"prediction": RememberedModel(predict, features), "features": features}


def _outcome(options: Mapping[str, Any], label: Column | None, table: pa.Table) -> dict[str, Any]:
    """The favourable outcome, as :func:`describe_outcome` has it, with the ``reason`` for it.

    Without a label, decisions of two values say it; probabilities need the value that they are of.
    """
    reason = "as asked"
    if label is None:
        label = _decided(options, table)
    if label is None:
        return _outcome_of_probabilities(options)
    if options["favourable"] is None:
        guess = guess_favourable(label.name, label.allowed or ())
        if options.get("at_least") is not None:
            guess = guess_side(label.name)
        reason = "nothing says which outcome is favourable" if guess is None else guess.reason
    return describe_outcome(label) | {"reason": reason}


def _decided(options: Mapping[str, Any], table: pa.Table) -> Column | None:
    """Describe a column of decisions as if it were the label; None for probabilities, or a
    model's.
    """
    name = options["prediction"]
    if name is None or options["label"] is not None:
        return None
    values = read_values(table[name], name, plain=True)
    if values.distinct != 2 or len(values.present) < len(values.data):
        return None
    # numbers are decisions only as 0 and 1, of which 1 is positive
    numeric = values.kind in ("integer", "number")
    if numeric and set(pc.unique(values.present).to_pylist()) != {0, 1}:
        return None
    positive = options["positive"]
    if numeric:
        positive = None
    return label_column(values, positive, favourable=options["favourable"])


def _outcome_of_probabilities(options: Mapping[str, Any]) -> dict[str, Any]:
    """The favourable outcome where only the options can say it: of probabilities without labels."""
    positive = options["positive"]
    favourable = options["favourable"]
    if favourable is not None and positive is None:
        raise InputError(
            "--favourable needs --positive here: probabilities alone do not say which outcome they "
            "are of."
        )
    outcome = {
        "column": options["prediction"] or "prediction",
        "code": 1,
        "favourable": in_words(favourable or positive),
        "adverse": None,
        "stated": favourable is not None,
        "reason": "as asked",
    }
    if favourable is None:
        outcome["reason"] = "nothing says which outcome is favourable"
        if positive is None:
            outcome["favourable"] = in_words(1)
    elif in_words(favourable) != in_words(positive):
        # the probabilities are of the adverse outcome
        outcome["code"] = 0
        outcome["adverse"] = in_words(positive)
    return outcome


def _names(options: Mapping[str, Any]) -> list[str]:
    column_names = [
        options["prediction"],
        options["label"],
        *options["sensitive"],
        *options["features"],
    ]
    column_names += [options["weight"], options["person"]]
    column_names += [*options["control"], *options["compared_with"]]
    return list(dict.fromkeys(filter(None, column_names)))


def _points(
    table: pa.Table, options: Mapping[str, Any], sensitive: Mapping[str, NDArray[Any]], rows: Int
) -> Float:
    """Rows in the coordinates of a sensitive subspace of the features, learned from these rows."""
    names = dict.fromkeys([*options["features"], *options["sensitive"], options["label"]])
    chosen = table.select(list(names)).take(rows)
    contract = infer_contract(
        chosen,
        "audit",
        options["label"],
        options["sensitive"],
        options["positive"],
        at_least=options.get("at_least"),
    )
    frame = coerce(chosen, contract).to_pandas()
    X = TableEncoder(column_specs(contract), unseen="ignore").fit(frame).transform(frame)
    groups = {name: values[rows] for name, values in sensitive.items()}
    return SensitiveSubspace().fit(X, sensitive_features=groups).project(X)


def _groups(table: pa.Table, name: str) -> NDArray[np.object_]:
    """Groups as `init` makes them: the values, or ranges of many numbers."""
    values = read_values(table[name], name)
    return group_labels(values.data, sensitive_column(values))


def _is(values: Values, chosen: Sequence[Any]) -> NDArray[np.bool_]:
    is_chosen = pc.is_in(values.data, value_set=pa.array(chosen, values.data.type))
    return np.asarray(is_chosen.to_numpy())


def _scores(
    column: pa.ChunkedArray, name: str | None, label: Column | None, positive: Any
) -> NDArray[np.float64 | np.bool_]:
    """Probabilities as they are; of decisions, whether they are the label's, or the given, positive
    value.

    Without a `name` they are a model's. Numbers are decisions if they are the label's two values.
    Raises `InputError` if words are not the label's, or none of them is known to be positive.
    """
    description = "the model's prediction"
    if name:
        description = f"the column {name!r}"
    name = name or "prediction"
    with input_errors("", ContractError):
        values = read_values(column, name)
        if values.kind in ("integer", "number"):
            return _numeric_scores(values, label, positive)
        plain = read_values(column, name, plain=True)
    if plain.data.null_count:
        raise InputError(
            f"{description} is missing in {plain.data.null_count:,} of {len(plain.data):,} rows: "
            "predict them, or drop these rows."
        )
    if plain.kind == "boolean" and (label is None or label.logical_type != "boolean"):
        return _is(plain, [True])
    counts = {}
    for item in pc.value_counts(plain.data):
        counts[item["values"].as_py()] = item["counts"].as_py()
    _check_decisions(counts, label, description)
    positive_value = _positive_decision(counts, label, positive, description)
    wanted_word = in_words(positive_value).lower()
    return _is(plain, [value for value in counts if in_words(value).lower() == wanted_word])


def _numeric_scores(
    values: Values, label: Column | None, positive: Any
) -> NDArray[np.float64 | np.bool_]:
    """Numbers as probabilities, or, if they are the label's two values, as decisions."""
    numbers = values.data.cast(pa.float64())
    if label is not None and label.allowed and label.logical_type in ("integer", "number"):
        allowed: list[Any] = list(label.allowed)
        classes = pa.array([float(value) for value in allowed])
        if pc.all(pc.is_in(numbers, value_set=classes)).as_py():
            positive_value: Any = label.positive
            return _is(replace(values, data=numbers), [float(positive_value)])
    return _checked_scores(np.asarray(numbers.to_numpy()), values.name)


def _checked_scores(scores: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Probabilities; `InputError` with the first number that is none."""
    wrong = ~((scores >= 0) & (scores <= 1))
    if not wrong.any():
        return scores
    first = scores[int(np.argmax(wrong))]
    example = "a missing value" if np.isnan(first) else f"{first:g}"
    raise InputError(
        f"the column {name!r} has {int(wrong.sum()):,} of {len(scores):,} values that are missing "
        f"or outside [0, 1], such as {example}: give a column of probabilities, or of decisions; "
        "quantities are audited with a --label of quantities."
    )


def _check_decisions(counts: Mapping[Any, int], label: Column | None, shown: str) -> None:
    """Raise InputError unless there are at most two decisions, which are values of the label."""
    label_values: list[Any] = []
    if label is not None and label.allowed:
        label_values = list(label.allowed)
    label_words = {in_words(value).lower() for value in label_values}
    decided_words = {in_words(value).lower() for value in counts}
    if len(counts) <= 2 and (not label_words or decided_words <= label_words):
        return
    allowed = "two values"
    if label_words:
        allowed = f"{' and '.join(map(in_words, label_values))}, as the label has"
    raise InputError(
        f"{shown} has {len(counts):,} different values that are no numbers: give probabilities in "
        f"[0, 1], or decisions of {allowed}."
    )


def _positive_decision(
    counts: Mapping[Any, int], label: Column | None, positive: Any, shown: str
) -> Any:
    """The decision that is positive: the label's, the given one, or the one that its word says."""
    if label is not None and label.positive is not None:
        return label.positive
    if label is not None or positive is None:
        if len(counts) == 1:
            raise InputError(
                f"{shown} is the same in all rows: name the positive value with --positive."
            )
        return guess_positive(counts)[0]
    if len(counts) == 2:
        with input_errors("", ContractError):
            return match_value("positive", positive, list(counts), shown)
    return positive
