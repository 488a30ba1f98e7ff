"""Audit of predictions that any model or person has made, with or without the true labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.distances.metric_base import mean_squared_distance, sensitive_columns
from evenhand.fairlib.evaluation.audit import audit_losses
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue, evaluate
from evenhand.fairlib.evaluation.flips import flips
from evenhand.fairlib.evaluation.group_selection import MISSING
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.fairlib.evaluation.outcomes import Outcomes, group_rates, score_histograms
from evenhand.fairlib.evaluation.probabilities import OVERALL, reliability
from evenhand.fairlib.execution import Progress, generator, sample_rows
from evenhand.fairlib.numerics import log_losses

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd
    import pyarrow as pa


Predictor = Callable[["pd.DataFrame"], ArrayLike]

# Metrics that need no true label: those of the rows of a group, whatever their labels.
OF_SELECTION = tuple(name for name, metric in GROUP_METRICS.items() if metric.needs == "rows")
# Metrics that need probabilities, not decisions alone.
OF_SCORES = ("auc", *OVERALL, "calibration_gap")
# The default of methods that are trained within a budget.
BUDGET_SHARE = 0.001
MOST_COMPARED = 5000
# A column with more values is a quantity: its values are not exchanged.
MOST_VALUES = 20


@dataclass(frozen=True, eq=False)
class PredictionAudit:
    """An audit of n predictions; nothing in it is of a single person."""

    evaluation: Evaluation
    # of the scores, by attribute and group; empty without scores
    histograms: Mapping[str, Any]
    # probabilities beside shares of positives; None without labels or without scores
    reliability: Mapping[str, Any] | None

    def rates(self, attribute: str) -> pd.DataFrame:
        """Rows, rates and impact ratio of each group of an attribute, with the ends of their
        intervals.
        """
        import pandas as pd

        settings = self.evaluation.settings
        rows = group_rates(
            self.evaluation.counts[attribute],
            settings["min_cell"],
            settings["level"],
            settings.get("favourable", 1),
        )
        names = (
            "selected",
            "impact",
            *(("positive", "tpr", "tnr") if settings["labelled"] else ()),
        )
        ends = ("value", "low", "high")
        return pd.DataFrame(
            [
                {"group": row.group, "n": row.n}
                | {f"{name}.{end}".removesuffix(".value"): getattr(getattr(row, name), end)
                   for name in names for end in ends}
                for row in rows
            ]
        ).set_index("group")  # fmt: skip

    def chart(self, attribute: str) -> alt.VConcatChart:
        """Draw the selection rates of an attribute's groups, and with labels also TPR and TNR."""
        from evenhand.fairlib.plots.group_charts import group_rates as draw

        table = self.rates(attribute)
        titles = {
            "selected": "Selection rate",
            "tpr": "True positive rate",
            "tnr": "True negative rate",
        }
        return draw(
            [
                {"rate": title, "group": group, "value": row[name], "low": row[f"{name}.low"],
                 "high": row[f"{name}.high"]}
                for name, title in titles.items() if name in table
                for group, row in table.astype(object).where(table.notna(), None).iterrows()
            ]
        )  # fmt: skip


def audit_predictions(
    prediction: ArrayLike | Predictor,
    sensitive: Mapping[str, ArrayLike] | pd.DataFrame | pa.Table,
    label: ArrayLike | None = None,
    *,
    features: pd.DataFrame | None = None,
    points: ArrayLike | Callable[[Int], Float] | None = None,
    budget: float | None = None,
    threshold: float | Literal["median"] = 0.5,
    positive: Any = 1,
    favourable: Any = None,
    intersections: bool = True,
    draws: int = 1000,
    level: float = 0.95,
    min_cell: int = 5,
    seed: int = 0,
    callback: Progress | None = None,
) -> PredictionAudit:
    """Measure predictions: performance, calibration, differences between groups, impact ratios,
    intervals.

    Parameters
    ----------
    prediction : array-like, shape (n,), or callable
        Probabilities of the positive label in [0, 1], or decisions (0 and 1 alone, or booleans). A
        callable gets `features` and gives them; it is also asked about copies of everybody with
        another value of a sensitive column.
    sensitive : mapping, DataFrame or Arrow table
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

    Returns
    -------
    PredictionAudit
        Its evaluation has ``consistency.<attribute>`` for each attribute that a callable reads.

    Raises
    ------
    ValueError
        If lengths differ, a prediction is missing or outside [0, 1], the labels have more than two
        values or lack the positive one, there is no sensitive column, or a callable has no
        features.
    """
    groups = {str(name): _groups(column) for name, column in sensitive_columns(sensitive).items()}
    if not groups:
        raise ValueError(
            "sensitive: got no column, expected at least one; name whose groups to compare"
        )
    model: Any = prediction if callable(prediction) else None
    if model is not None and features is None:
        raise ValueError("features: got none, expected the rows for the model that is called")
    given: Any = prediction if model is None else model(features)
    score = _scores(given)
    cut = float(np.median(score)) if threshold == "median" else float(threshold)

    def decide(values: Float) -> Int:
        return (values > cut if threshold == "median" else values >= cut).astype(np.int64)

    decided = decide(score)
    scored = bool(np.any((score != 0) & (score != 1)))
    consistent = {
        name: np.logical_and.reduce([decide(_scores(model(copy))) == decided for copy in copies])
        for name, copies in (
            {} if model is None or features is None else _copies(features, groups)
        ).items()
    }
    known = np.zeros(len(score), dtype=np.int64) if label is None else _labels(label, positive)
    code = 1 if favourable is None or favourable == positive else 0
    outcomes = Outcomes(known, decided, score, groups, consistent, favourable=code)
    found = evaluate(
        outcomes, draws=draws, level=level, min_cell=min_cell, seed=seed, intersections=intersections,
        score_intervals=scored and label is not None, callback=callback,
    )  # fmt: skip
    measured = {
        name: value
        for name, value in found.metrics.items()
        if (kind := name.partition(".")[0]) == "consistency"
        or kind in OF_SELECTION
        or (label is not None and (scored or kind not in OF_SCORES))
    }
    compared = {name: groups for name, groups in found.groups.items() if name in measured}
    used = {**found.settings, "labelled": label is not None, "threshold": threshold}
    if points is not None:
        chance = {"draws": draws, "level": level, "seed": seed}
        certified, stated = _certificates(
            outcomes, points, budget, scored and label is not None, chance
        )
        measured = measured | certified
        used = used | stated
    curves = (
        reliability(outcomes, min_cell=min_cell, level=level)
        if scored and label is not None
        else None
    )
    return PredictionAudit(
        replace(found, metrics=measured, settings=used, groups=compared),
        score_histograms(outcomes, min_cell=min_cell) if scored else {},
        curves,
    )


def _certificates(
    outcomes: Outcomes, points: Any, budget: float | None, losses: bool, chance: dict[str, Any]
) -> tuple[dict[str, MetricValue], dict[str, Any]]:
    """Certificates of some of the rows, and the settings that they are of."""
    rows = sample_rows(outcomes.n, MOST_COMPARED, generator(chance["seed"], "comparable"))
    near = np.asarray(
        points(rows) if callable(points) else np.asarray(points)[rows], dtype=np.float64
    )
    allowed = BUDGET_SHARE * mean_squared_distance(None, near) if budget is None else budget
    flipped = flips(near, outcomes.y_pred[rows], allowed, **chance)
    measured = {"certificate.flips": MetricValue(flipped.share, flipped.low, flipped.high)}
    if losses:
        both = log_losses(np.stack([1.0 - outcomes.score[rows], outcomes.score[rows]], axis=1))
        risen = audit_losses(both, near, outcomes.y_true[rows], allowed, **chance)
        measured["certificate.drf"] = MetricValue(risen.gap, risen.low, risen.high)
    return measured, {"budget": allowed, "compared": len(rows)}


def _scores(values: ArrayLike) -> Float:
    """Predictions as numbers; of two columns of probabilities the second."""
    given = np.asarray(values)
    if given.ndim == 2 and given.shape[1] in (1, 2):
        given = given[:, -1]
    if given.ndim != 1 or given.dtype.kind not in "biuf":
        raise ValueError(
            f"prediction: got {given.ndim} dimensions of type {given.dtype}, expected one number "
            "in [0, 1] "
            "per row"
        )
    score = given.astype(np.float64, copy=False)
    wrong = int(np.sum(~((score >= 0) & (score <= 1))))
    if wrong:
        raise ValueError(
            f"prediction: {wrong:,} of {len(score):,} values are missing or outside [0, 1]; give "
            "probabilities, or decisions as 0 and 1"
        )
    return score


def _labels(values: ArrayLike, positive: Any) -> Int:
    import pandas as pd

    given = pd.Series(np.asarray(values))
    found = list(pd.unique(given))
    if given.isna().any() or len(found) > 2 or positive not in found:
        raise ValueError(
            f"label: got {len(found)} values, expected two, none missing, of which one is the "
            "positive "
            f"{positive!r}"
        )
    return np.asarray(given == positive, dtype=np.int64)


def _groups(values: ArrayLike) -> NDArray[np.object_]:
    """Groups as text; a missing value is named so, and is no group of a comparison."""
    import pandas as pd

    given = np.asarray(values)
    if given.dtype == object and pd.api.types.infer_dtype(given, skipna=False) == "string":
        return given
    codes, names = pd.factorize(given, use_na_sentinel=True)
    texts = np.array([*map(str, names), MISSING], dtype=object)
    return texts[codes]


def _copies(features: pd.DataFrame, groups: Mapping[str, Any]) -> dict[str, list[pd.DataFrame]]:
    """Copies of all rows by attribute among the features, each with one value of it for
    everybody.
    """
    found = {}
    for name in groups:
        values = features[name].dropna().unique() if name in features else ()
        if 2 <= len(values) <= MOST_VALUES:
            found[name] = [features.assign(**{name: value}) for value in values]
    return found
