"""Fair metric: learn from the training rows which people are comparable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.distances.explore import EXPLORE
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.distances.metric_base import FeatureBounds, Metric, mean_squared_distance
from evenhand.fairlib.distances.metric_evidence import MetricReport
from evenhand.fairlib.distances.number_fits import LEAST_PER_KNOT
from evenhand.fairlib.distances.sensitive_subspace import (
    LearnedDirection,
    SensitiveSubspace,
    predicts_attribute,
)
from evenhand.fairlib.execution import derive_seed, sample_rows
from evenhand.fairlib.preprocessing.counterfactuals import all_copies
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.step import Outputs, StepContext, StepResult
from evenhand.tasks.sentence_rows import copies_to_learn, read_encoder

# AUC of the label from which on the inputs predict it at all, and the share of what it has beyond
# chance that a learned metric must leave.
LEAST_AUC = 0.55
LEAST_SIGNAL = 0.1
# Rows whose adapted copies are compared with the contract's ranges.
CHECKED_COPIES = 6000
# Share of people whose copies may be outside a range: those at its end.
OUTSIDE_SHARE = 0.01
# Rounding of encoded numbers, in standard deviations.
ROUNDING = 1e-4
# Share of the differences between comparable people that FACE removes by default.
EXPLAINED_VARIANCE = 0.95


def fair_metric(context: StepContext) -> StepResult:
    """Write ``metric/``, the fair metric that the job describes; of a learned one also
    ``metric_report.json``, what it does with each column.
    """
    data = read_dataset(context.inputs["train"])
    unlearned: list[str] = []
    with input_errors("the fair metric cannot be learned: "):
        metric = _fit_metric(context, data, unlearned)
    if isinstance(metric, LearnedMetric):
        _check_signal(metric.report_)
        _check_ranges(context, data, metric)
    elif not unlearned:
        _check_rank(metric)
    metric.save(context.workdir / "metric")
    facts = {
        "rank": int(metric.basis_.shape[1]),
        "mean_squared_distance": mean_squared_distance(metric, data.X),
        "unlearned": unlearned,
    }
    outputs: Outputs = {"metric": (context.workdir / "metric", "metric")}
    if isinstance(metric, LearnedMetric):
        facts["learned"] = report_content(metric.report_)
        outputs |= context.write_json("metric_report", facts["learned"])
    return StepResult(outputs, facts)


def _fit_metric(context: StepContext, data: Dataset, unlearned: list[str]) -> Metric:
    parameters = context.parameters["fair_metric"]
    if parameters["kind"] == "sensitive-subspace":
        return _subspace(data, parameters, unlearned)
    if parameters["kind"] == "learned":
        return _learned(context, data, parameters)
    metric: FACE | EXPLORE
    if parameters["kind"] == "face":
        size = parameters["n_directions"]
        share = parameters["explained_variance"]
        if size is None and share is None:
            share = EXPLAINED_VARIANCE
        metric = FACE(n_directions=size, explained_variance=share)
    else:
        seed = derive_seed(context.parameters["seed"], "fair_metric")
        metric = EXPLORE(parameters["strength"], max_pairs=parameters["pairs"], random_state=seed)
    # Comparable people have equal values in some columns, or are a person and the person's copies.
    columns = parameters["comparable_by"]
    if not columns:
        encoder = read_encoder(context)
        if context.parameters.get("terms"):
            rows, copies = copies_to_learn(context, data, encoder)
            metric.fit(rows, counterfactuals=copies)
            # points of a search lie between the values of all training rows
            metric.feature_bounds_ = FeatureBounds.of(data.X.astype(np.float64), metric.basis_)
            return metric
        copies = all_copies(encoder, data.X, context.parameters["counterfactuals"])
        return metric.fit(data.X, counterfactuals=copies)
    positions = _positions(data, columns)
    _, groups = np.unique(data.X[:, positions], axis=0, return_inverse=True)
    return metric.fit(data.X, groups=groups)


def _subspace(
    data: Dataset, parameters: Mapping[str, Any], unlearned: list[str]
) -> SensitiveSubspace:
    """Learn the subspace; `unlearned` gets the attributes for which it has no learned direction."""
    attributes = list(data.sensitive)
    indicators = parameters["indicators"]
    if indicators is None:
        indicators = [name for name in attributes if name in data.groups]
    learned = parameters["learned"]
    if learned is None:
        learned = attributes
    targets = {name: _target(data, name) for name in learned}
    directions = [LearnedDirection(name, tuple(data.groups.get(name, ()))) for name in learned]
    metric = SensitiveSubspace(
        indicators=_positions(data, indicators),
        learned=directions,
        strength=parameters["strength"],
    )
    metric.fit(data.X, sensitive_features=targets)
    by_default = parameters["indicators"] is None and parameters["learned"] is None
    inputs = metric.n_features_in_
    fixed = len(metric.indicators)
    half = fixed + (inputs - fixed) // 2
    if by_default and metric.basis_.shape[1] > half > 0:
        # A table of few inputs has hardly more dimensions than directions. People must still differ
        # in something: of the directions that predict an attribute, the leading ones are kept.
        predictive = []
        for direction in directions:
            columns = np.setdiff1d(np.arange(inputs), direction.excluded)
            if predicts_attribute(
                data.X[:, columns], targets[direction.attribute], metric.strength
            ):
                predictive.append(direction)
            else:
                unlearned.append(direction.attribute)
        metric.set_params(max_rank=half, learned=predictive)
        metric.fit(data.X, sensitive_features=targets)
    return metric


def _learned(context: StepContext, data: Dataset, parameters: Mapping[str, Any]) -> LearnedMetric:
    """Learn the metric from evidence on the training rows."""
    sensitive = {name: data.groups[name] for name in data.sensitive if name in data.groups}
    metric = LearnedMetric(
        sensitive=sensitive,
        legitimate=_positions(data, parameters["legitimate"]),
        feature_groups=data.groups,
        explained_variance=parameters["explained_variance"],
        random_state=derive_seed(context.parameters["seed"], "fair_metric"),
        # fewer people than by default would give no better metric
        min_cell=max(context.parameters.get("min_cell", 0), LEAST_PER_KNOT),
    )
    return metric.fit(data.X, data.y, sensitive_features=data.sensitive)


def report_content(report: MetricReport) -> dict[str, Any]:
    """Content of a step's facts: verdicts on columns, and leaks, rounded."""
    columns = []
    for item in report.columns:
        signal = None
        if item.signal is not None:
            signal = round(item.signal, 5)
        columns.append(
            {
                "column": item.column,
                "verdict": item.verdict,
                "auc": round(item.auc, 4),
                "signal": signal,
            }
        )
    leaks = {}
    for name, before in report.before.items():
        after = report.after[name]
        leaks[name] = {
            "before": round(before.auc, 4),
            "after": round(after.auc, 4),
            "low": round(after.low, 4),
            "high": round(after.high, 4),
        }
    label_auc = None
    if report.label_auc is not None:
        label_auc = [round(auc, 4) for auc in report.label_auc]
    return {
        "columns": columns,
        "leaks": leaks,
        "label_auc": label_auc,
        "adapts": report.adapts,
    }


def _check_signal(report: MetricReport) -> None:
    """Refuse a metric that leaves nothing by which people with other labels differ."""
    if report.label_auc is None:
        return
    before, after = report.label_auc
    if before >= LEAST_AUC and after - 0.5 < LEAST_SIGNAL * (before - 0.5):
        cure = "List columns whose differences between groups may count in fair_metric.legitimate."
        if not report.adapts:
            cure = (
                "Make the sensitive attributes model inputs, so that columns are adapted instead "
                "of removed, or list columns in fair_metric.legitimate."
            )
        raise InputError(
            "the learned metric leaves nothing that predicts the label (AUC "
            f"{before:.2f} before, {after:.2f} after): all people would be comparable. {cure}"
        )


def _check_ranges(context: StepContext, data: Dataset, metric: LearnedMetric) -> None:
    """Refuse a metric whose adapted copies have numbers outside the ranges of the contract.

    A few such copies of people at a range's end are no reason.
    """
    ranges = context.parameters.get("ranges")
    if not ranges:
        return
    rows = sample_rows(len(data.X), CHECKED_COPIES, np.random.default_rng(0))
    groups = {name: values[rows] for name, values in data.sensitive.items()}
    copies = metric.counterfactuals(data.X[rows], sensitive_features=groups)
    for item in read_encoder(context).fitted_:
        if item.name not in ranges:
            continue
        position = data.groups[item.name][0]
        low, high = ranges[item.name]
        values = np.stack([copy[:, position] for copy in copies])
        numbers = values.astype(np.float64) * item.scale + item.centre
        tolerance = ROUNDING * item.scale
        outside = np.zeros(numbers.shape, dtype=bool)
        if low is not None:
            outside |= numbers < low - tolerance
        if high is not None:
            outside |= numbers > high + tolerance
        share = float(outside.any(axis=0).mean())
        if share > OUTSIDE_SHARE:
            raise InputError(
                f"the adapted copies of {share:.0%} of people have a {item.name!r} outside the "
                f"contract's range {_range_in_words(low, high)}: list it in "
                "fair_metric.legitimate, leave it out (leave_out), or widen the range."
            )


def _range_in_words(low: float | None, high: float | None) -> str:
    if low is None:
        return f"up to {high:g}"
    if high is None:
        return f"from {low:g}"
    return f"{low:g} to {high:g}"


def _positions(data: Dataset, names: Iterable[str]) -> list[int]:
    """Positions of the matrix columns of some columns of the table."""
    positions: list[int] = []
    for name in names:
        positions.extend(data.groups[name])
    return positions


def _check_rank(metric: Metric) -> None:
    """Refuse a metric that removes all differences, or none."""
    rank = metric.basis_.shape[1]
    width = metric.n_features_in_
    if 0 < rank < width or (rank == 0 and isinstance(metric, EXPLORE)):
        return
    removed = "nothing: it protects nobody"
    if rank:
        removed = "everything: all people are comparable"
    keys = {"sensitive-subspace": "indicators or fair_metric.learned", "explore": "strength"}
    cure = keys.get(metric.kind, "n_directions or fair_metric.explained_variance")
    raise InputError(f"the fair metric's subspace is {removed}; change fair_metric.{cure}.")


def _target(data: Dataset, name: str) -> NDArray[Any]:
    """Standardised values of a numeric attribute, as the encoder computes them; groups of any
    other.
    """
    if name not in data.numbers:
        return data.sensitive[name].astype(str)
    values = data.numbers[name]
    scaled = (values - np.nanmean(values)) / (np.nanstd(values) or 1.0)
    return np.nan_to_num(scaled, nan=0.0)  # a missing number becomes the mean, as in a model input
