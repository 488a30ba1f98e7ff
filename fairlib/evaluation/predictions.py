"""Audit of predictions that any model or person has made, with or without the true labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.distances.metric_base import mean_squared_distance, sensitive_columns
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue, evaluate
from evenhand.fairlib.evaluation.flips import flips
from evenhand.fairlib.evaluation.group_selection import MISSING
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.fairlib.evaluation.outcomes import Outcomes, Rate, group_rates, score_histograms
from evenhand.fairlib.evaluation.probabilities import OVERALL, reliability
from evenhand.fairlib.evaluation.transport_adversary import audit_losses
from evenhand.fairlib.execution import Progress, generator, sample_rows
from evenhand.fairlib.numerics import log_losses
from evenhand.fairlib.row_order import check_row_order

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd
    import pyarrow as pa


Predictor = Callable[["pd.DataFrame"], ArrayLike]

# Metrics that need probabilities, not decisions alone.
OF_SCORES = ("auc", *OVERALL, "calibration_gap")
# Budget of the certificates, as a share of the mean squared distance of two random rows: the
# default of methods that are trained within a budget.
BUDGET_SHARE = 0.001
# Most rows that the certificates compare.
MOST_COMPARED = 5000
# A column with more values is a quantity: its values are not exchanged.
MOST_VALUES = 20


@dataclass(frozen=True, eq=False)
class PredictionAudit:
    """An audit of n predictions; nothing in it is of a single person."""

    evaluation: Evaluation
    # of the scores, by attribute and group; empty without scores
    histograms: Mapping[str, Any]
    # mean probabilities and shares of positives in bins; None without labels or without scores
    reliability: Mapping[str, Any] | None

    def rates(self, attribute: str) -> pd.DataFrame:
        """Rows, rates and impact ratio of each group of an attribute, with the ends of their
        intervals.

        Parameters
        ----------
        attribute : str
            Name of a sensitive attribute, or of an intersection such as ``"sex&race"``.

        Returns
        -------
        DataFrame
            A row per group, with ``n``, ``selected`` and ``impact`` (and with labels ``positive``,
            ``tpr`` and ``tnr``), each with ``.low`` and ``.high``.
        """
        import pandas as pd

        settings = self.evaluation.settings
        rows = group_rates(
            self.evaluation.counts[attribute],
            settings["min_cell"],
            settings["level"],
            settings.get("favourable", 1),
        )
        names = ["selected", "impact"]
        if settings["labelled"]:
            names += ["positive", "tpr", "tnr"]
        table = []
        for row in rows:
            entry: dict[str, Any] = {"group": row.group, "n": row.n}
            for name in names:
                rate: Rate = getattr(row, name)
                entry[name] = rate.value
                entry[f"{name}.low"] = rate.low
                entry[f"{name}.high"] = rate.high
            table.append(entry)
        return pd.DataFrame(table).set_index("group")

    def chart(self, attribute: str) -> alt.VConcatChart:
        """Draw the selection rates of an attribute's groups, and with labels also TPR and TNR.

        Parameters
        ----------
        attribute : str
            As of :meth:`rates`.

        Returns
        -------
        alt.VConcatChart
            A chart per rate.
        """
        from evenhand.fairlib.plots import group_charts

        table = self.rates(attribute)
        table = table.astype(object).where(table.notna(), None)
        titles = {
            "selected": "Selection rate",
            "tpr": "True positive rate",
            "tnr": "True negative rate",
        }
        bars = []
        for name, title in titles.items():
            if name not in table:
                continue
            for group, row in table.iterrows():
                bars.append(
                    {
                        "rate": title,
                        "group": group,
                        "value": row[name],
                        "low": row[f"{name}.low"],
                        "high": row[f"{name}.high"],
                    }
                )
        return group_charts.group_rates(bars)


def audit_predictions(
    prediction: ArrayLike | Predictor,
    sensitive_features: Mapping[str, ArrayLike] | pd.DataFrame | pa.Table | None = None,
    label: ArrayLike | None = None,
    *,
    features: pd.DataFrame | None = None,
    points: ArrayLike | Callable[[Int], Float] | None = None,
    budget: float | None = None,
    sample_weight: ArrayLike | None = None,
    people: ArrayLike | None = None,
    threshold: float | Literal["median"] = 0.5,
    positive: Any = 1,
    favourable: Any = None,
    intersections: bool = True,
    draws: int = 1000,
    level: float = 0.95,
    min_cell: int = 5,
    seed: int = 0,
    callback: Progress | None = None,
    sensitive: Mapping[str, ArrayLike] | pd.DataFrame | pa.Table | None = None,
) -> PredictionAudit:
    """Measure predictions: performance, calibration, differences between groups, impact ratios,
    intervals.

    Parameters
    ----------
    prediction : array-like, shape (n,), or callable
        Probabilities of the positive label in [0, 1], or decisions (0 and 1 alone, or booleans). A
        callable gets `features` and gives them; it is also asked about copies of everybody with
        another value of a sensitive column.
    sensitive_features : mapping, DataFrame or Arrow table
        Columns of shape (n,) by attribute; their values are the groups. Missing ones are shown as
        ``missing``, which is no group of a gap or ratio.
    label : array-like, shape (n,), optional
        True labels of at most two values. Without them only selection rates are compared.
    features : DataFrame, optional
        Rows for a callable `prediction`.
    points : array-like, shape (n, d), or callable, optional
        Rows in the coordinates of a fair metric, ``metric.project(X)``: comparable people are near
        each other. A callable gets positions of rows and gives those. With them
        ``certificate.flips``, and for probabilities with labels ``certificate.drf``, are measured
        on at most ``MOST_COMPARED`` random rows.
    budget : float, optional
        Mean squared distance of the certificates; default: ``BUDGET_SHARE`` of that of two random
        rows.
    sample_weight : array-like, shape (n,), optional
        Weights of the rows; certificates do without.
    people : array-like of int, shape (n,), optional
        Number of every row's person, where people have several rows.
    threshold : float or "median"
        A score from the threshold on is selected; ``"median"`` selects scores above the median, as
        the scoring rate of New York City's rule on automated employment decision tools does (6 RCNY
        5-300).
    positive : object
        Value of `label` that is positive.
    favourable : object, optional
        Value of `label` that is the good outcome for a person, which selection rates and impact
        ratios are of; default: the positive one.
    intersections : bool
        Whether to measure the intersection of every pair of attributes too.
    draws, level, min_cell, seed, callback
        As in :func:`evenhand.fairlib.evaluation.evaluate.evaluate`.
    sensitive : mapping, DataFrame or Arrow table, optional
        Earlier name of `sensitive_features`.

        .. deprecated:: 0.2
            Use `sensitive_features`.

    Returns
    -------
    PredictionAudit
        Its evaluation has ``consistency.<attribute>`` for each attribute that a callable reads.

    Raises
    ------
    ValueError
        If lengths or the orders of indexes differ, a prediction is missing or outside [0, 1], the
        labels have more than two values or lack the positive one, there is no sensitive column, or
        a callable has no features.

    Examples
    --------
    >>> prediction = [0.9, 0.8, 0.7, 0.6, 0.9, 0.2, 0.6, 0.1, 0.3, 0.4]
    >>> audit = audit_predictions(prediction, {"sex": ["f"] * 5 + ["m"] * 5}, draws=0)
    >>> audit.evaluation.metrics["demographic_parity_difference.sex"].value
    0.8
    """
    if sensitive is not None:
        sensitive_features = _renamed(sensitive, sensitive_features)
    check_row_order(
        prediction=prediction,
        sensitive_features=sensitive_features,
        label=label,
        features=features,
        sample_weight=sample_weight,
        people=people,
    )
    groups = _groups_by_attribute(sensitive_features)
    decided = _decided(prediction, features, groups, threshold)
    is_scored = bool(np.any((decided.score != 0) & (decided.score != 1)))
    is_labelled = label is not None
    labels = np.zeros(len(decided.score), dtype=np.int64)
    if label is not None:
        labels = _labels(label, positive)
    outcomes = Outcomes(
        y_true=labels,
        y_pred=decided.decisions,
        score=decided.score,
        sensitive=groups,
        consistent=decided.consistent,
        people=None if people is None else np.asarray(people),
        favourable=1 if favourable is None or favourable == positive else 0,
    )
    evaluation = evaluate(
        outcomes,
        sample_weight=sample_weight,
        draws=draws,
        level=level,
        min_cell=min_cell,
        seed=seed,
        intersections=intersections,
        score_intervals=is_scored and is_labelled,
        callback=callback,
    )
    metrics = measurable(evaluation.metrics, is_labelled=is_labelled, is_scored=is_scored)
    compared = {name: parts for name, parts in evaluation.groups.items() if name in metrics}
    settings = {**evaluation.settings, "labelled": is_labelled, "threshold": threshold}
    if points is not None:
        chance = {"draws": draws, "level": level, "seed": seed}
        certificates, certificate_settings = _certificates(
            outcomes, points, budget, is_scored and is_labelled, chance
        )
        metrics |= certificates
        settings |= certificate_settings
    histograms: Mapping[str, Any] = {}
    curves = None
    if is_scored and is_labelled:
        curves = reliability(outcomes, min_cell=min_cell, level=level)
    if is_scored:
        histograms = score_histograms(outcomes, min_cell=min_cell)
    audited = replace(evaluation, metrics=metrics, settings=settings, groups=compared)
    return PredictionAudit(audited, histograms, curves)


class _Decided(NamedTuple):
    """Scores of n rows, the decisions by them, and whose decision no other value of an attribute
    changes.
    """

    score: Float
    decisions: Int
    consistent: dict[str, Bool]  # by attribute; only of a model that can be asked


def _decided(
    prediction: ArrayLike | Predictor,
    features: pd.DataFrame | None,
    groups: Mapping[str, Any],
    threshold: float | Literal["median"],
) -> _Decided:
    """The predictions, given or asked of a model, and its decisions on copies of everybody."""
    if not callable(prediction):
        score = scores_of(prediction)
        return _Decided(score, _DecisionRule.of(threshold, score)(score), {})
    if features is None:
        raise ValueError("features: got none, expected the rows for the model that is called")
    score = scores_of(prediction(features))
    decision_rule = _DecisionRule.of(threshold, score)
    decisions = decision_rule(score)
    consistent = _consistency(prediction, features, groups, decision_rule, decisions)
    return _Decided(score, decisions, consistent)


def _groups_by_attribute(sensitive_features: Any) -> dict[str, Any]:
    """The group of every row, by attribute; there must be an attribute."""
    columns = sensitive_columns(sensitive_features)
    groups = {str(name): _groups(column) for name, column in columns.items()}
    if not groups:
        raise ValueError(
            "sensitive_features: got no column, expected at least one; name whose groups to compare"
        )
    return groups


def _renamed(sensitive: Any, sensitive_features: Any) -> Any:
    """The sensitive features that were given by their earlier name, with a warning."""
    if sensitive_features is not None:
        raise ValueError(
            "sensitive: it is the earlier name of sensitive_features; give one of the two"
        )
    warnings.warn(
        "audit_predictions(sensitive=...) is deprecated and will be removed in the next minor "
        "version: use sensitive_features.",
        DeprecationWarning,
        stacklevel=3,
    )
    return sensitive


def decisions_of(values: ArrayLike, threshold: float | Literal["median"] = 0.5) -> Int:
    """Decisions, 0 or 1, from probabilities or decisions.

    Parameters
    ----------
    values : array-like, shape (n,) or (n, 2)
        Probabilities of the positive label; of two columns the second.
    threshold : float or "median"
        As of :func:`audit_predictions`.

    Returns
    -------
    int array, shape (n,)
    """
    score = scores_of(values)
    return _DecisionRule.of(threshold, score)(score)


class _DecisionRule(NamedTuple):
    """Decisions from scores: those from a threshold on, or above the median, are selected."""

    threshold: float
    above_only: bool  # whether a score that equals the threshold is not selected

    @classmethod
    def of(cls, threshold: float | Literal["median"], score: Float) -> _DecisionRule:
        """The rule that a user states.

        Parameters
        ----------
        threshold : float or "median"
            "median": above that of the scores.
        score : ndarray of float, shape (n,)

        Returns
        -------
        _DecisionRule
        """
        if threshold == "median":
            return cls(float(np.median(score)), above_only=True)
        return cls(float(threshold), above_only=False)

    def __call__(self, score: Float) -> Int:
        """Decisions, 0 or 1, of scores of shape (n,)."""
        selected = score > self.threshold if self.above_only else score >= self.threshold
        return selected.astype(np.int64)


def _consistency(
    model: Predictor,
    features: pd.DataFrame,
    groups: Mapping[str, Any],
    decision_rule: _DecisionRule,
    decisions: Int,
) -> dict[str, Bool]:
    """Whether all copies of each row get the row's decision, by sensitive attribute."""
    consistent = {}
    for name, copies in _copies(features, groups).items():
        agreeing = [decision_rule(scores_of(model(copy))) == decisions for copy in copies]
        consistent[name] = np.logical_and.reduce(agreeing)
    return consistent


def measurable(
    metrics: Mapping[str, MetricValue], *, is_labelled: bool, is_scored: bool
) -> dict[str, MetricValue]:
    """Choose the metrics that follow from decisions alone, and those of the labels and scores.

    Parameters
    ----------
    metrics : mapping
        Metrics by flat name.
    is_labelled, is_scored : bool
        Whether there are true labels, and probabilities.

    Returns
    -------
    dict
    """
    measurable = {}
    for name, value in metrics.items():
        kind = name.partition(".")[0]
        if not _needs_labels(kind) or (is_labelled and (is_scored or kind not in OF_SCORES)):
            measurable[name] = value
    return measurable


def _needs_labels(kind: str) -> bool:
    """Whether a metric, by its name without a subject, needs true labels."""
    if kind == "consistency":
        return False
    return kind not in GROUP_METRICS or GROUP_METRICS[kind].needs_labels


def _certificates(
    outcomes: Outcomes, points: Any, budget: float | None, losses: bool, chance: dict[str, Any]
) -> tuple[dict[str, MetricValue], dict[str, Any]]:
    """Certificates of some of the rows, and the settings that they are of."""
    rows = sample_rows(outcomes.n, MOST_COMPARED, generator(chance["seed"], "comparable"))
    chosen = points(rows) if callable(points) else np.asarray(points)[rows]
    near = np.asarray(chosen, dtype=np.float64)
    if budget is None:
        budget = BUDGET_SHARE * mean_squared_distance(None, near)
    flipped = flips(near, outcomes.y_pred[rows], budget, **chance)
    measured = {"certificate.flips": MetricValue(flipped.share, flipped.low, flipped.high)}
    if losses:
        losses_by_label = log_losses(
            np.stack([1.0 - outcomes.score[rows], outcomes.score[rows]], axis=1)
        )
        risen = audit_losses(losses_by_label, near, outcomes.y_true[rows], budget, **chance)
        measured["certificate.drf"] = MetricValue(risen.gap, risen.low, risen.high)
    return measured, {"budget": budget, "compared": len(rows)}


def scores_of(values: ArrayLike) -> Float:
    """Give predictions as numbers in [0, 1]; of two columns of probabilities the second.

    Parameters
    ----------
    values : array-like, shape (n,) or (n, 2)
        Probabilities or decisions.

    Returns
    -------
    ndarray of float64, shape (n,)

    Raises
    ------
    ValueError
        For another shape or type, missing values, or values outside [0, 1].
    """
    numbers = np.asarray(values)
    if numbers.ndim == 2 and numbers.shape[1] in (1, 2):
        numbers = numbers[:, -1]
    if numbers.ndim != 1 or numbers.dtype.kind not in "biuf":
        raise ValueError(
            f"prediction: got {numbers.ndim} dimensions of type {numbers.dtype}, expected one "
            "number in [0, 1] per row"
        )
    score = numbers.astype(np.float64, copy=False)
    wrong = int(np.sum(~((score >= 0) & (score <= 1))))
    if wrong:
        raise ValueError(
            f"prediction: {wrong:,} of {len(score):,} values are missing or outside [0, 1]; give "
            "probabilities, or decisions as 0 and 1"
        )
    return score


def _labels(values: ArrayLike, positive: Any) -> Int:
    """Labels as 0 and 1, where 1 is the positive one."""
    import pandas as pd

    labels = pd.Series(np.asarray(values))
    distinct = list(pd.unique(labels))
    if labels.isna().any() or len(distinct) > 2 or positive not in distinct:
        raise ValueError(
            f"label: got {len(distinct)} values, expected two, none missing, of which one is the "
            f"positive {positive!r}"
        )
    return np.asarray(labels == positive, dtype=np.int64)


def _groups(values: ArrayLike) -> NDArray[np.object_]:
    """Groups as text; a missing value is named so, and is no group of a comparison."""
    import pandas as pd

    column = np.asarray(values)
    if column.dtype == object and pd.api.types.infer_dtype(column, skipna=False) == "string":
        return column
    codes, names = pd.factorize(column, use_na_sentinel=True)
    texts = np.array([*map(str, names), MISSING], dtype=object)
    return texts[codes]


def _copies(features: pd.DataFrame, groups: Mapping[str, Any]) -> dict[str, list[pd.DataFrame]]:
    """Copies of all rows by attribute among the features, each with one value of it for
    everybody.
    """
    copies = {}
    for name in groups:
        if name not in features:
            continue
        values = features[name].dropna().unique()
        if 2 <= len(values) <= MOST_VALUES:
            copies[name] = [features.assign(**{name: value}) for value in values]
    return copies
