"""The metrics that an audit is asked for: names of the catalogue and functions, for any target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.audit_target import Target
from evenhand.fairlib.evaluation.callable_metrics import (
    Function,
    callable_metric,
    catalogued_name,
    check_takes_weights,
    name_of,
)
from evenhand.fairlib.evaluation.group_metrics import (
    ALIASES,
    OF_NUMBERS,
    OF_SCORES,
    RATES,
    CellMetric,
    Cells,
    auc_metric,
    balanced_accuracy_metric,
    base_rows,
    mean_metric,
    share_metric,
)
from evenhand.fairlib.evaluation.group_tables import Settings
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.fairlib.evaluation.table_metrics import (
    OF_DECISIONS,
    OF_PROBABILITIES,
    r2,
    table_metric,
)
from evenhand.fairlib.execution import generator
from evenhand.fairlib.numerics import MAX_LOG_LOSS, log_losses

Chosen = Mapping[str, str | Function]
"""By the name in results, the metric's name in the catalogue, or its function."""

CALIBRATION_GAP = "calibration_gap"

RATES_OF_GAPS = {
    CALIBRATION_GAP: ("mean_score", "base_rate"),
    "demographic_parity_difference": ("selection_rate",),
    "impact_ratio": ("selection_rate",),
    "equal_opportunity_difference": ("true_positive_rate",),
    "balanced_accuracy_difference": ("balanced_accuracy",),
}
"""Rates of a single group that are shown with a metric that compares groups. A metric without an
entry compares error rates, and has both of them.
"""

CLASSES = ("accuracy", "balanced_accuracy")
OF_CLASS = ("recall", "precision", "selection_rate")


@dataclass(frozen=True)
class Request:
    """Metrics that were asked for."""

    metrics: Chosen  # of single groups
    gaps: tuple[str, ...]  # of the catalogue, that compare groups
    is_single: bool  # whether one metric was passed, not a list or a mapping
    hidden: tuple[str, ...] = ()  # metrics that only the verdict uses
    is_asked: bool = True  # whether the caller named metrics


def read_request(metrics: Any, target: Target | None) -> Request:
    """Read the argument ``metrics``.

    Parameters
    ----------
    metrics : str, callable, sequence or mapping, optional
        As the caller passed it; None for the usual ones.
    target : Target, optional
        Labels and predictions; None where only functions can be computed.

    Returns
    -------
    Request

    Raises
    ------
    ValueError
        For a name that no audit of this target has.
    """
    if metrics is None:
        assert target is not None
        return _usual(target)
    is_single = isinstance(metrics, str) or callable(metrics)
    chosen: dict[str, str | Function] = {}
    gaps: list[str] = []
    for name, metric in _named_metrics([metrics] if is_single else metrics):
        if not isinstance(metric, str):
            chosen[name] = _function(name, metric)
        elif metric.partition(".")[0] in (*GROUP_METRICS, CALIBRATION_GAP):
            gaps.append(_checked_gap(metric.partition(".")[0], target))
        else:
            chosen[name] = _checked_name(metric, target)
    if not chosen:
        chosen.update({name: name for name in _rates_of(gaps, target)})
    if not chosen:
        raise ValueError("metrics: got none, expected at least one")
    hidden = [name for name in _verdict_metrics(target) if chosen.get(name) != name]
    return Request(chosen, tuple(gaps), is_single, tuple(hidden))


def _named_metrics(metrics: Any) -> list[tuple[str, Any]]:
    """Metrics of a mapping or a sequence, with their names."""
    if isinstance(metrics, Mapping):
        return [(str(name), metric) for name, metric in metrics.items()]
    pairs = []
    for metric in metrics:
        name = metric if isinstance(metric, str) else name_of(metric)
        pairs.append((name, metric))
    return pairs


def _function(name: str, metric: Any) -> Function:
    if not callable(metric):
        raise ValueError(
            f"metrics: {name} is {metric!r}, expected a name or a function of y_true and y_pred"
        )
    return metric


def _usual(target: Target) -> Request:
    """Metrics of an audit that was asked for none."""
    names = ["count", *_verdict_metrics(target)]
    gaps: tuple[str, ...] = ()
    if target.kind == "two labels" and target.y_true is not None:
        names = ["count", "selection_rate", "base_rate", "accuracy"]
        names += ["true_positive_rate", "false_positive_rate"]
        gaps = ("gap_max",)
    if target.kind == "classes" and target.y_true is not None:
        names += [f"recall.{label}" for label in target.classes]
        gaps = ("gap_max",)
    if target.kind == "two labels" and target.score:
        names += ["mean_score"] if target.y_true is None else ["auc", "brier"]
    usual = {name: name for name in dict.fromkeys(names)}
    return Request(usual, gaps, is_single=False, is_asked=False)


def _verdict_metrics(target: Target | None) -> tuple[str, ...]:
    """Metrics that the verdict is about."""
    if target is None:
        return ()
    is_labelled = target.y_true is not None
    if target.kind == "two labels":
        errors = ("true_positive_rate", "false_positive_rate") if is_labelled else ()
        return ("selection_rate", *errors)
    if target.kind == "classes":
        shares = [f"selection_rate.{label}" for label in target.classes]
        if target.favourable is not None:
            shares = [f"selection_rate.{target.favourable_name}"]
            return (*shares, "accuracy") if is_labelled else tuple(shares)
        return ("accuracy",) if is_labelled else tuple(shares)
    errors = ("mean_error", "mean_absolute_error") if is_labelled else ()
    return ("mean_prediction", *errors)


def names_for(target: Target | None) -> list[str]:
    """Names of the metrics of single groups that a target allows.

    Parameters
    ----------
    target : Target, optional
        Labels and predictions.

    Returns
    -------
    list of str
    """
    if target is None:
        return ["count"]
    is_labelled = target.y_true is not None
    if target.kind == "numbers":
        return ["count", "mean_prediction", *((*OF_NUMBERS, "r2") if is_labelled else ())]
    if target.kind == "classes":
        return _names_for_classes(target)
    names = ["count", "selection_rate"]
    if is_labelled:
        names += [*RATES, "balanced_accuracy", *OF_DECISIONS]
    if target.score:
        names += (*OF_SCORES, *OF_PROBABILITIES) if is_labelled else ("mean_score",)
    return names


def _names_for_classes(target: Target) -> list[str]:
    """Names of the metrics of more than two labels."""
    if target.y_true is None:
        return ["count", *(f"selection_rate.{label}" for label in target.classes)]
    names = ["count", *CLASSES]
    for stem in OF_CLASS:
        names += [f"{stem}.{label}" for label in target.classes]
    if target.score:
        names.append("log_loss")
    return names


def _checked_name(name: str, target: Target | None) -> str:
    """The catalogue's name of a metric, which the target must allow."""
    allowed = names_for(target)
    chosen = ALIASES.get(name, name)
    if name in allowed:
        return name
    if chosen in allowed:
        return chosen
    needs = ""
    if chosen in (*OF_SCORES, *OF_PROBABILITIES) and target is not None and not target.score:
        needs = " (probabilities are passed as y_score)"
    raise ValueError(
        f"metrics: got {name!r}, which this audit does not have{needs}; expected a function, or "
        f"one of {', '.join([*allowed, *_gaps_for(target)])}"
    )


def _gaps_for(target: Target | None) -> list[str]:
    """Metrics of the catalogue that compare groups and that a target allows."""
    from evenhand.fairlib.catalogue import ANY_CLASSES

    if target is None or target.kind == "numbers":
        return []
    names = []
    for name, metric in GROUP_METRICS.items():
        if metric.needs_labels and target.y_true is None:
            continue
        if target.kind == "two labels" or name in ANY_CLASSES:
            names.append(name)
    if target.kind == "two labels" and target.score and target.y_true is not None:
        names.append(CALIBRATION_GAP)
    return names


def _checked_gap(name: str, target: Target | None) -> str:
    allowed = _gaps_for(target)
    if name not in allowed:
        raise ValueError(
            f"metrics: got {name!r}, which this audit does not have; expected a function, or one "
            f"of {', '.join([*names_for(target), *allowed])}"
        )
    return name


def _rates_of(gaps: list[str], target: Target | None) -> list[str]:
    """Rates of single groups that metrics compare."""
    if target is None:
        return []
    errors: tuple[str, ...] = ("true_positive_rate", "false_positive_rate")
    if target.kind == "classes":
        errors = tuple(f"recall.{label}" for label in target.classes)
    names: dict[str, None] = {}
    for gap in gaps:
        names |= dict.fromkeys(RATES_OF_GAPS.get(gap, errors))
    return list(names)


@dataclass(frozen=True)
class Part:
    """The metric is the mean of each row's value over some rows."""

    value: Float  # shape (n,)
    rows: Bool | None  # shape (n,): rows that count; None for all
    is_share: bool  # whether each row's value is 0 or 1


class ModelMetrics:
    """Metrics of one model's predictions."""

    def __init__(
        self,
        target: Target | None,
        model: str,
        raw: tuple[NDArray[Any] | None, NDArray[Any]],
        settings: Settings,
    ) -> None:
        self.target = target
        self.model = model
        self.raw_true, self.raw_pred = raw
        self.settings = settings

    def maker(self, metric: str | Function) -> Callable[[Cells], CellMetric]:
        """A function that computes a metric in cells.

        Parameters
        ----------
        metric : str or callable
            Name in the catalogue, or a function.

        Returns
        -------
        callable
        """
        if isinstance(metric, str):
            return partial(self._catalogued, metric)
        return partial(self._called, metric)

    def _called(self, function: Function, cells: Cells) -> CellMetric:
        if self.raw_true is None:
            raise ValueError("y_true: got none, expected the true labels that functions need")
        twin = None
        name = catalogued_name(function)
        if name is not None and name in names_for(self.target):
            twin = self._catalogued(name, cells)
        if cells.weights is not None:
            check_takes_weights(name_of(function), function)
        return callable_metric(
            function,
            cells,
            self.raw_true,
            self.raw_pred,
            draws=self.settings.draws,
            rng=generator(self.settings.seed, f"audit {name_of(function)}"),
            twin=twin,
        )

    def _catalogued(self, name: str, cells: Cells) -> CellMetric:
        if name == "count":
            rows = cells.counts()
            return CellMetric(rows, rows)
        assert self.target is not None
        if name == "balanced_accuracy":
            label = self._labels()
            right = label == self.target.y_pred[self.model]
            labels = len(self.target.classes)
            return balanced_accuracy_metric(cells, label, right, labels)
        if name == "auc":
            _, ranks = np.unique(self.target.score[self.model], return_inverse=True)
            return auc_metric(cells, self._labels(), ranks.astype(np.int64))
        if name in (*OF_DECISIONS, *OF_PROBABILITIES, "r2"):
            return self._of_tables(name, cells)
        part = self.part(name)
        assert part is not None
        if part.is_share:
            return share_metric(cells, part.value == 1.0, part.rows)
        bounds = BOUNDS.get(name)
        is_positive = bool(part.value.min() >= 0)
        is_squared = name == "root_mean_squared_error"
        return mean_metric(
            cells, part.value, bounds, is_positive=is_positive, is_squared=is_squared
        )

    def _of_tables(self, name: str, cells: Cells) -> CellMetric:
        """A metric that is no mean of the rows' values: resampled as functions are."""
        assert self.target is not None
        rng = generator(self.settings.seed, f"audit {name}")
        draws = self.settings.draws
        label: Any = self.target.y_true
        if name == "r2":
            predicted: Any = self.target.y_pred[self.model]
            return callable_metric(r2, cells, label, predicted, draws=draws, rng=rng)
        if name in OF_PROBABILITIES:
            predicted = self.target.score[self.model]
        else:
            predicted = self.target.y_pred[self.model]
            if self.target.favourable == 0:
                label = 1 - label
                predicted = 1 - predicted
        return callable_metric(table_metric(name), cells, label, predicted, draws=draws, rng=rng)

    def _labels(self) -> Int:
        assert self.target is not None
        assert self.target.y_true is not None
        return self.target.y_true.astype(np.int64, copy=False)

    def part(self, name: str) -> Part | None:
        """Each row's part of a metric that is a mean; None for other metrics.

        Parameters
        ----------
        name : str
            Name in the catalogue.

        Returns
        -------
        Part or None
        """
        assert self.target is not None
        no_means = ("count", "balanced_accuracy", "auc", "r2", *OF_DECISIONS, *OF_PROBABILITIES)
        if name in no_means:
            return None
        if self.target.kind == "numbers":
            return self._part_of_numbers(name)
        if name in OF_SCORES:
            return Part(self._score_part(name), None, is_share=False)
        if self.target.kind == "classes":
            return self._part_of_classes(name)
        return self._part_of_two_labels(name)

    def _score_part(self, name: str) -> Float:
        """Each row's part of a metric of the probabilities."""
        assert self.target is not None
        score = self.target.score[self.model]
        if name == "mean_score":
            return score
        label = self._labels()
        if self.target.kind == "classes":
            of_label = score[np.arange(len(label)), label]
        else:
            of_label = np.where(label == 1, score, 1.0 - score)
        if name == "brier":
            return (1.0 - of_label) ** 2
        return log_losses(of_label[:, None])[0]

    def _part_of_two_labels(self, name: str) -> Part:
        assert self.target is not None
        predicted = self.target.y_pred[self.model]
        favourable = self.target.favourable
        if name == "selection_rate":
            return Part((predicted == favourable).astype(np.float64), None, is_share=True)
        rate = RATES[name]
        label = self._labels()
        hits = {
            "right": predicted == label,
            "wrong": predicted != label,
            "selected": predicted == 1,
            "positive": label == favourable,
        }
        rows = base_rows(rate.base, label, predicted == 1)
        return Part(hits[rate.hit].astype(np.float64), rows, is_share=True)

    def _part_of_classes(self, name: str) -> Part:
        assert self.target is not None
        predicted = self.target.y_pred[self.model]
        if name == "accuracy":
            return Part((predicted == self._labels()).astype(np.float64), None, is_share=True)
        stem, _, label_name = name.partition(".")
        code = self.target.classes.index(label_name)
        chosen = predicted == code
        if stem == "selection_rate":
            return Part(chosen.astype(np.float64), None, is_share=True)
        truly = self._labels() == code
        hit = (chosen & truly).astype(np.float64)
        return Part(hit, truly if stem == "recall" else chosen, is_share=True)

    def _part_of_numbers(self, name: str) -> Part:
        assert self.target is not None
        predicted = self.target.y_pred[self.model].astype(np.float64)
        if name == "mean_prediction":
            return Part(predicted, None, is_share=False)
        assert self.target.y_true is not None
        target = self.target.y_true.astype(np.float64)
        parts = {
            "mean_target": target,
            "mean_error": predicted - target,
            "mean_absolute_error": np.abs(predicted - target),
            "root_mean_squared_error": (predicted - target) ** 2,
        }
        return Part(parts[name], None, is_share=False)


BOUNDS = {
    "mean_score": (0.0, 1.0),
    "brier": (0.0, 1.0),
    "log_loss": (0.0, MAX_LOG_LOSS),
}
"""Smallest and largest part of one row."""
