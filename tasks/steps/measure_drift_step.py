"""Measure drift: how far a batch of new rows is from a published model's training rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import coerce, decode, group_labels
from evenhand.data_contracts.checking import check_batch
from evenhand.data_contracts.errors import CheckCrashed, ContractViolation
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.catalogue import EXCHANGED
from evenhand.fairlib.evaluation.comparison import holm
from evenhand.fairlib.evaluation.drift import (
    LEAST_ROWS,
    Change,
    change_between,
    largest,
    share,
    share_change,
)
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.preprocessing.encoder import (
    MISSING,
    NUMERIC_KINDS,
    TableEncoder,
    category_name,
)
from evenhand.tasks import monitoring
from evenhand.tasks.errors import InputError, NotCarriedOut, unusable
from evenhand.tasks.evaluating.decisions import LoadedModel, decide_table
from evenhand.tasks.evaluating.drift_limits import drift_metrics
from evenhand.tasks.evaluating.metric_leaks import copy_makers, measured_copies
from evenhand.tasks.evaluating.token_moves import TokenMoves, moves_in_table
from evenhand.tasks.execution.step import StepContext, StepResult

# By model input the rules that rows break, with the numbers of rows.
Broken = dict[str, list[tuple[str, int]]]
NO_TEST_ROWS = MetricValue.insufficient("the metrics of its training run are not in this store")


@dataclass(frozen=True)
class PredictionDrift(Change):
    """Change of the share predicted positive on the rows that the model can answer.

    Of more than two labels the largest change of the share of one, without a rate.
    """

    rows: int
    unanswered: int
    rate: MetricValue | None
    classes: list[dict[str, Any]] = field(default_factory=list)


def measure_drift(context: StepContext) -> StepResult:
    """Write ``metrics.json``, which gates judge, and ``drift.json``, which the page shows.

    Parameters are the model's ``contract``, ``settings`` (``draws``, ``level``, ``min_cell``), a
    ``seed`` and ``tested``: numbers of test rows and predictions of the training run, or None;
    ``terms`` are the model's lists of terms, and ``exchanged`` the metrics of exchanged terms on
    its test rows; ``adapted`` is the consistency on adapted copies there, or None. Inputs are the
    ``raw`` table and the model's ``bundle``. Neither file holds a row, a category that training
    rows lacked, or a count of fewer than `min_cell` people of a group.
    """
    contract = Contract.from_dict(context.parameters["contract"])
    bundle = context.inputs["bundle"]
    settings = monitoring.Settings(
        **context.parameters["settings"], seed=context.parameters["seed"]
    )
    reference = json.loads((bundle / "reference.json").read_text())
    inputs = json.loads((bundle / "inputs.json").read_text())
    with unusable("the model", "loaded"):
        encoder = TableEncoder.load(bundle / "encoder.json")
    features = list(reference["columns"])
    table, broken, ignored = _read_batch(context.inputs["raw"], contract, features)
    columns = {}
    for name, entry in reference["columns"].items():
        columns[name] = monitoring.compare_column(
            table[name],
            contract.column(name),
            entry,
            settings,
            categories=encoder.categories_.get(name, ()),
            broken=broken.get(name, ()),
        )
    adjusted = holm([column.p_value for column in columns.values()])
    for name, p in zip(features, adjusted, strict=True):
        columns[name] = replace(columns[name], p_value=p)
    labels = monitoring.labels_of(table, contract, inputs)
    groups = {
        name: monitoring.compare_groups(table, contract.column(name), entry, labels, settings)
        for name, entry in reference["groups"].items()
    }
    classes = list(map(str, contract.label.classes))
    label = monitoring.compare_label(labels, classes, reference, settings)
    # A proxy predicts no label.
    predicts = "label_values" in inputs
    predictions = None
    moves = TokenMoves()
    consistency: dict[str, MetricValue] = {}
    if predicts:
        predictions, moves, consistency = _predictions(
            context, table, bundle, contract, encoder, settings
        )
    metrics = _metrics(columns, groups, label.change, predictions) | moves.metrics | consistency
    terms = context.parameters["terms"]
    names = drift_metrics(reference, predicts=predicts, terms=terms, adapts=bool(consistency))
    ordered = {name: metrics[name] for name in names}
    rows = table.num_rows
    stated = context.parameters["settings"]
    prediction = None
    if predictions is not None:
        prediction = asdict(predictions)
    drift = {
        "rows": rows,
        "reference_rows": reference["rows"],
        "ignored_columns": ignored,
        "settings": stated,
        "columns": {name: asdict(column) for name, column in columns.items()},
        "groups": {name: asdict(group) for name, group in groups.items()},
        "label": {"name": contract.label.name, **asdict(label)},
        "prediction": prediction,
        "tokens": _exchanged(moves, context.parameters["exchanged"]),
    }
    if consistency:
        now = consistency["adapted_consistency"]
        drift["adapted"] = _moments("adapted_consistency", now, context.parameters["adapted"])
    outputs = context.write_json("metrics", Evaluation(ordered, {}, rows, stated).to_json())
    outputs |= context.write_json("drift", drift)
    return StepResult(outputs, {"rows": rows, "ignored_columns": ignored})


def _read_batch(
    path: Path, contract: Contract, features: Sequence[str]
) -> tuple[pa.Table, Broken, int]:
    """Read a batch and check its columns and types, but not its values.

    Returns its model inputs with the sensitive columns and the label that it has, the rules that
    rows break, and the number of other columns.

    Missing values, and values outside their set or range, are no error: drift counts them. Raises
    `InputError` if there are no rows, a model input is missing, or a column occurs twice or has
    another type.
    """
    raw = pq.read_table(path)
    used = {*features, *(column.name for column in contract.sensitive), contract.label.name}
    # Positions, because a name may occur twice.
    used_places = [i for i, name in enumerate(raw.column_names) if name in used]
    # A missing column may be there under another name, so the check then reads every column.
    whole = set(features) <= set(raw.column_names)
    checked = raw
    if whole:
        checked = raw.select(used_places)
    try:
        table = coerce(checked, contract)
        result = check_batch(table, contract)
    except ContractViolation as error:
        raise InputError(str(error)) from None
    except CheckCrashed as error:
        raise NotCarriedOut(f"the batch could not be checked: {error}") from error
    wrong = [violation for violation in result.violations if violation.scope == "table"]
    if not whole:
        # Columns of the contract that are no model input may be missing or of another type.
        wrong = [violation for violation in wrong if violation.column in used] or wrong
    if wrong:
        raise InputError(str(ContractViolation(wrong, contract.name)))
    broken: Broken = {}
    for violation in result.violations:
        if violation.column in features:
            broken.setdefault(str(violation.column), []).append(
                (violation.expectation, violation.count)
            )
    return table, broken, raw.num_columns - len(used_places)


def _metrics(
    columns: Mapping[str, monitoring.InputDrift],
    groups: Mapping[str, monitoring.GroupDrift],
    label: MetricValue,
    predictions: PredictionDrift | None,
) -> dict[str, MetricValue]:
    """All metrics by name."""
    unseen = {name: column.unseen for name, column in columns.items() if column.unseen is not None}
    # Without categorical inputs no category can be unseen.
    unseen_max = MetricValue(0.0)
    if unseen:
        unseen_max = largest(list(unseen.values()))
    metrics = {
        "psi_max": largest([column.psi for column in columns.values()]),
        "unseen_max": unseen_max,
        "outside_contract_max": largest([column.outside_contract for column in columns.values()]),
        "label_rate_change": label,
    }
    for name, column in columns.items():
        p_value = MetricValue.insufficient(column.psi.reason)
        if column.p_value is not None:
            p_value = MetricValue(column.p_value)
        metrics[f"psi.{name}"] = column.psi
        metrics[f"p_value.{name}"] = p_value
        metrics[f"missing_change.{name}"] = column.missing.change
        metrics[f"outside_contract.{name}"] = column.outside_contract
    metrics |= {f"unseen.{name}": value for name, value in unseen.items()}
    for name, group in groups.items():
        metrics[f"group_share_change.{name}"] = group.share_change
        metrics[f"label_rate_change.{name}"] = group.label_rate_change
    if predictions is not None:
        metrics["prediction_rate_change"] = predictions.change
        if predictions.rate is not None:
            metrics["prediction_rate"] = predictions.rate
    return metrics


def _exchanged(moves: TokenMoves, then: Mapping[str, Any]) -> dict[str, Any]:
    """By list of terms the number of sentences with one, and each metric now and on the
    test rows.
    """
    exchanged: dict[str, Any] = {}
    for name, content in moves.content.items():
        rows = []
        for kind in EXCHANGED:
            metric = f"{kind}.{name}"
            rows.append(_moments(metric, moves.metrics[metric], then.get(metric)))
        exchanged[name] = {
            "column": content["column"],
            "sentences": content["sentences"],
            "metrics": rows,
        }
    return exchanged


def _moments(name: str, now: MetricValue, then: Mapping[str, Any] | None) -> dict[str, Any]:
    """A metric now and on the test rows, with its change."""
    before = MetricValue.insufficient("the metrics of its training run are not with the model")
    if then is not None:
        before = MetricValue(**then)
    return {
        "name": name,
        "now": vars(now),
        "then": vars(before),
        "change": vars(change_between(now, before)),
    }


def _predictions(
    context: StepContext,
    table: pa.Table,
    bundle: Path,
    contract: Contract,
    encoder: TableEncoder,
    settings: monitoring.Settings,
) -> tuple[PredictionDrift, TokenMoves, dict[str, MetricValue]]:
    """Predict the rows that the model accepts, and compare the share of predicted positives, or of
    labels.

    With lists of terms their sentences are answered again with every other term. For a model that
    reads adapted columns the consistency on adapted copies is returned, too.

    Rows that the model refuses, because of an unseen category or a number that is not finite, are
    left out and counted.
    """
    model = LoadedModel.load("model", bundle)
    classes = tuple(map(str, contract.label.classes))
    fit = pa.array(_answerable(table, encoder))
    rows = table.select([spec.name for spec in encoder.columns]).filter(fit)
    # decisions may depend on a group
    sensitive = {}
    for column in contract.sensitive:
        if column.name in table.column_names:
            sensitive[column.name] = group_labels(table[column.name].filter(fit), column)
    n = rows.num_rows
    sizes = np.zeros(len(classes) or 2, dtype=np.int64)
    moves = TokenMoves()
    makers = copy_makers(model.model, ())
    consistency = {}
    if makers:
        consistency["adapted_consistency"] = MetricValue.insufficient("no row can be predicted")
    if n:
        (decided,) = decide_table([model], rows, {}, context.progress, sensitive, [makers])
        decided, measured_consistency = measured_copies(decided, makers, settings.level)
        consistency |= measured_consistency
        sizes = np.bincount(decided.predicted, minlength=len(sizes))
        # the labels of new rows need not be known, and no metric of exchanged terms depends on them
        unknown = np.zeros(n, dtype=np.int64)
        outcomes = Outcomes(unknown, decided.predicted, decided.score, sensitive, classes=classes)
        measured = {**context.parameters["settings"], "intersections": False}
        measured["terms"] = context.parameters["terms"]
        moves = moves_in_table(model, rows, outcomes, {"evaluate": measured, "seed": settings.seed})
    tested = context.parameters["tested"]
    rate: MetricValue | None = None
    if classes:
        change = _class_change(sizes.tolist(), classes, tested, settings)
    else:
        rate = share(int(sizes[1]), n, level=settings.level)
        change = _rate_change(int(sizes[1]), n, rate, tested, settings)
    predictions = PredictionDrift(**vars(change), rows=n, unanswered=table.num_rows - n, rate=rate)
    return predictions, moves, consistency


def _class_change(
    sizes: list[int],
    classes: Sequence[str],
    tested: Mapping[str, Any] | None,
    settings: monitoring.Settings,
) -> Change:
    """Change of the shares of more than two predicted labels since the test rows."""
    then = None
    if tested is not None:
        then = (tested["predicted"], tested["n"])
    return monitoring.compare_classes(sizes, classes, then, settings, NO_TEST_ROWS)


def _rate_change(
    positives: int,
    n: int,
    rate: MetricValue,
    tested: Mapping[str, Any] | None,
    settings: monitoring.Settings,
) -> Change:
    """Change of the share of rows predicted positive since the test rows."""
    if tested is None:
        reason = NO_TEST_ROWS
        if rate.value is None:
            reason = rate
        return Change(None, rate.value, reason)
    if rate.value is None:
        return Change(tested["predicted_positive"] / tested["n"], None, rate)
    return share_change(
        positives,
        n,
        tested["predicted_positive"],
        tested["n"],
        level=settings.level,
        least=LEAST_ROWS,
    )


def _answerable(table: pa.Table, encoder: TableEncoder) -> NDArray[np.bool_]:
    """Rows that the encoder accepts, shape (n,)."""
    fit = np.ones(table.num_rows, dtype=bool)
    for spec in encoder.columns:
        values = decode(table[spec.name])
        if spec.kind in NUMERIC_KINDS:
            if pa.types.is_floating(values.type):
                fit &= ~np.isinf(values.to_numpy())
        elif encoder.unseen == "error" and spec.kind != "text":
            accepted = encoder.accepted(spec.name)
            unseen = []
            for scalar in pc.unique(values.combine_chunks()):
                value = scalar.as_py()
                if _encoded_name(value) not in accepted:
                    unseen.append(value)
            if unseen:
                among = pc.is_in(values, value_set=pa.array(unseen, type=values.type))
                fit &= ~np.asarray(among.to_numpy(), dtype=bool)
    return fit


def _encoded_name(value: Any) -> str:
    """The name under which the encoder has a category, or a missing value."""
    if value is None or value != value:
        return MISSING
    return category_name(value)
