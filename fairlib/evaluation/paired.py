"""Two models on the same rows: the difference of every metric, with an interval from a paired
bootstrap.

Each draw resamples the rows once, for both models, so the variation that both models share cancels
in the difference. The interval is therefore narrower than two separate intervals would suggest:
Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 8, on resampling the units
that were observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.evaluation.closed_intervals import rate_interval
from evenhand.fairlib.evaluation.evaluate import (
    MetricValue,
    check_settings,
    encode_sensitive,
    estimates,
    reading_json,
)
from evenhand.fairlib.evaluation.measuring import measure
from evenhand.fairlib.evaluation.metric_intervals import Interval, percentiles
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.probabilities import centred
from evenhand.fairlib.execution import generator
from evenhand.fairlib.numerics import MAX_LOG_LOSS, log_losses
from evenhand.fairlib.parameters import check_sample_weight


@dataclass(frozen=True)
class Comparison:
    """Differences between a model and a baseline on the same rows."""

    # flat metric name to model less baseline, in reading order
    differences: Mapping[str, MetricValue]
    n: int
    # ``draws``, ``level``, ``min_cell``, ``seed`` and ``intersections`` that were used
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give the comparison as plain JSON types, without NaN; ``from_json`` reads it."""
        whole = asdict(self)
        return {key: whole[key] for key in ("n", "settings", "differences")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Comparison:
        """Read the result of ``to_json``.
        ValueError if a part is missing or a difference is malformed.

        Parameters
        ----------
        data : mapping
            Result of :meth:`to_json`.

        Returns
        -------
        Comparison
            An equal comparison.

        Raises
        ------
        ValueError
            If a part is missing or a difference is malformed.
        """
        with reading_json("comparison"):
            differences = {name: MetricValue(**m) for name, m in data["differences"].items()}
            return cls(differences, int(data["n"]), dict(data.get("settings", {})))


def compare(
    outcomes: Outcomes,
    baseline: Outcomes,
    *,
    sample_weight: ArrayLike | None = None,
    draws: int = 1000,
    level: float = 0.95,
    min_cell: int = 5,
    seed: int = 0,
    intersections: bool = False,
    identical: bool = False,
) -> Comparison:
    r"""Measure the difference between a model and a baseline on the same rows, metric by metric.

    .. math:: \Delta = m(\mathrm{model}) - m(\mathrm{baseline}), \qquad
              \left[ q_{\alpha / 2}(\Delta^*),\; q_{1 - \alpha / 2}(\Delta^*) \right],\quad
              \alpha = 1 - \mathrm{level}

    with the quantiles of :math:`\Delta^*` over draws that resample each row with both its
    predictions, both its scores and both its flags of consistency; widened to contain
    :math:`\Delta`, and the same quantiles of draws with some random answers more
    (:func:`evenhand.fairlib.evaluation.bootstrap.smoothed_counts`): two models that agree on all
    rows may differ on others. A difference of scores that is equal in all rows is widened by the
    part of further rows that could differ, as far as any two rows seen differ.

    The `baseline` has the same rows in the same order; the other arguments are those of
    :func:`evenhand.fairlib.evaluation.evaluate.evaluate`. The result has every metric that both
    sides have: all but the consistency of copies that one of them lacks. A metric that is
    insufficient for either side is insufficient here. ValueError: rows that differ (in number,
    labels or sensitive columns), an argument out of its range, an ambiguous intersection.

    The interval shows whether the difference could be due to the sample, given the two models as
    they are; it says nothing about training them again. A largest difference between groups is
    never negative, and the resampled one is biased upwards, so its interval is conservative where
    both models treat groups nearly alike. :func:`evenhand.fairlib.evaluation.bootstrap.auc_draws`
    bounds the error of the AUC's draws; the AUC's point estimate is exact.

    Parameters
    ----------
    outcomes : Outcomes
        Rows as the model predicts them.
    baseline : Outcomes
        The same rows, in the same order, as the baseline predicts them.
    sample_weight : array-like, shape (n,), optional
        Weights of the rows, as of :func:`evenhand.fairlib.evaluation.evaluate.evaluate`.
    draws : int, default 1000
        Bootstrap draws; 0 for none (no intervals).
    level : float, default 0.95
        Coverage of the intervals, in (0, 1).
    min_cell : int, default 5
        Fewest rows of a cell, as of :func:`evenhand.fairlib.evaluation.evaluate.evaluate`.
    seed : int, default 0
        Seed of the bootstrap.
    intersections : bool, default False
        Whether to add the intersection of every pair of sensitive attributes.
    identical : bool, default False
        Whether the two are known to be one model: then every difference is 0, without uncertainty.

    Returns
    -------
    Comparison
        Model less baseline, by metric.

    Raises
    ------
    ValueError
        For rows that differ (in number, labels or sensitive columns), an argument out of its range,
        an ambiguous intersection.

    References
    ----------
    .. [1] B. Efron and R. Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 8.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0, 1] * 20)
    >>> sex = {"sex": np.array(["f"] * 20 + ["m"] * 20, dtype=object)}
    >>> model = Outcomes(y, y, y * 0.8 + 0.1, sex)
    >>> baseline = Outcomes(y, np.ones_like(y), np.full(40, 0.5), sex)
    >>> compare(model, baseline, draws=0).differences["accuracy"].value
    0.5
    """
    check_settings(draws, level, min_cell)
    _check_same_rows(outcomes, baseline)
    # A group that either side knows of is missing for both.
    groups = {
        name: (*outcomes.groups.get(name, ()), *baseline.groups.get(name, ()))
        for name in outcomes.sensitive
    }
    names, codes = encode_sensitive(outcomes.sensitive, groups, intersections)
    measured = measure(
        [outcomes, baseline],
        codes,
        names,
        weights=check_sample_weight(sample_weight, outcomes.n),
        draws=draws,
        min_cell=min_cell,
        random=partial(generator, seed, "paired bootstrap"),
        smooth=True,
    )
    point = _differences(measured.point)
    resampled = _differences(measured.resampled)
    smoothed = _differences(measured.smoothed)
    if "ece" in resampled:
        resampled["ece"] = centred(resampled["ece"], float(point["ece"]))
    independent = outcomes.n if outcomes.people is None else len(np.unique(outcomes.people))
    intervals: dict[str, Interval] = {}
    if not draws:
        resampled = {}
    for name, drawn in resampled.items():
        value = float(point[name])
        if identical:
            intervals[name] = (value, value)
            continue
        interval = percentiles(drawn, level, value)
        if name in smoothed:
            interval = _union(interval, percentiles(smoothed[name], level, value))
        intervals[name] = _widened(name, interval, (outcomes, baseline), independent, level)
    settings = {
        "draws": draws,
        "level": level,
        "min_cell": min_cell,
        "seed": seed,
        "intersections": intersections,
    }
    differences = estimates(point, measured.shortages, intervals)
    return Comparison(differences, outcomes.n, settings)


def _differences(sides: Sequence[Mapping[str, Float]]) -> dict[str, Float]:
    """Every metric of the model less that of the baseline."""
    model, baseline = sides
    return {name: values - baseline[name] for name, values in model.items()}


def _union(first: Interval, second: Interval) -> Interval:
    """The interval around both; the first where one of them is a reason."""
    if isinstance(first, str) or isinstance(second, str):
        return first
    return min(first[0], second[0]), max(first[1], second[1])


def _widened(
    name: str, interval: Interval, sides: tuple[Outcomes, Outcomes], independent: int, level: float
) -> Interval:
    """Widen an interval of width 0: of n equal differences, some share of further ones may be
    others.
    """
    if isinstance(interval, str) or interval[1] > interval[0]:
        return interval
    _, share = rate_interval(0, independent, level)
    limit = MAX_LOG_LOSS if name.startswith("log_loss") else 1.0
    reach = share * _reach(name, sides)
    value = interval[0]
    return max(value - reach, min(-limit, value)), min(value + reach, max(limit, value))


def _reach(name: str, sides: tuple[Outcomes, Outcomes]) -> float:
    """How far one row's part of a metric may be from another's: for the log loss as far as the rows
    show.
    """
    if not name.startswith("log_loss"):
        return 1.0
    losses = []
    for side in sides:
        if side.classes:
            probability = side.score[np.arange(side.n), side.y_true]
        else:
            probability = np.where(side.y_true == 1, side.score, 1.0 - side.score)
        losses.append(log_losses(probability[:, None])[0])
    # where all losses are equal they say nothing of others
    return float(np.ptp(np.concatenate(losses))) or MAX_LOG_LOSS


SAME_ROWS = "evaluate both models on the same rows, in the same order"


def _check_same_rows(outcomes: Outcomes, baseline: Outcomes) -> None:
    """ValueError for rows that differ in number, labels, sensitive columns or people."""
    if baseline.n != outcomes.n:
        raise ValueError(
            f"baseline: got {baseline.n} rows, expected {outcomes.n} as the model's; {SAME_ROWS}"
        )
    if set(baseline.sensitive) != set(outcomes.sensitive):
        raise ValueError(
            f"baseline: got the sensitive columns {sorted(baseline.sensitive)}, "
            f"expected {sorted(outcomes.sensitive)} as the model's; {SAME_ROWS}"
        )
    if outcomes.favourable != baseline.favourable:
        raise ValueError(
            f"baseline: got the favourable label {baseline.favourable}, expected "
            f"{outcomes.favourable} as the model's; {SAME_ROWS}"
        )
    _check_equal("labels", outcomes.y_true, baseline.y_true)
    for name, column in outcomes.sensitive.items():
        _check_equal(f"groups of {name!r}", column, baseline.sensitive[name])
    _check_equal("people", outcomes.people, baseline.people)


def _check_equal(
    title: str, of_model: NDArray[Any] | None, of_baseline: NDArray[Any] | None
) -> None:
    """ValueError unless a column is equal on both sides, or missing on both."""
    if of_model is None and of_baseline is None:
        return
    if of_model is None or of_baseline is None:
        raise ValueError(f"baseline: one side has {title} and the other has not; {SAME_ROWS}")
    differing = int(np.sum(of_model != of_baseline))
    if differing:
        raise ValueError(
            f"baseline: {differing} of {len(of_model)} {title} differ from the model's rows; "
            f"{SAME_ROWS}"
        )
