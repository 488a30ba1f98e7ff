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

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.evaluation.closed_intervals import rate_interval
from evenhand.fairlib.evaluation.evaluate import (
    MetricValue,
    check_settings,
    encode_sensitive,
    estimates,
    measure,
    reading_json,
)
from evenhand.fairlib.evaluation.metric_intervals import Interval, percentiles
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.probabilities import centred
from evenhand.fairlib.execution import generator
from evenhand.fairlib.numerics import MAX_LOG_LOSS, log_losses


@dataclass(frozen=True)
class Comparison:
    """Differences between a model and a baseline on the same rows."""

    differences: Mapping[
        str, MetricValue
    ]  # flat metric name to model less baseline, in reading order
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
        """
        with reading_json("comparison"):
            differences = {
                name: MetricValue(**found) for name, found in data["differences"].items()
            }
            return cls(differences, int(data["n"]), dict(data.get("settings", {})))


def compare(
    outcomes: Outcomes,
    baseline: Outcomes,
    *,
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

    With `identical` the two are known to be one model: every difference is 0, without uncertainty.

    The interval shows whether the difference could be due to the sample, given the two models as
    they are; it says nothing about training them again. A largest difference between groups is
    never negative, and the resampled one is biased upwards, so its interval is conservative where
    both models treat groups nearly alike. :func:`evenhand.fairlib.evaluation.bootstrap.auc_draws`
    bounds the error of the AUC's draws; the AUC's point estimate is exact.
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
    for name, drawn in resampled.items() if draws else ():
        value = float(point[name])
        if identical:
            intervals[name] = (value, value)
            continue
        intervals[name] = percentiles(drawn, level, value)
        if name in smoothed:
            intervals[name] = _union(intervals[name], percentiles(smoothed[name], level, value))
        intervals[name] = _widened(name, intervals[name], (outcomes, baseline), independent, level)
    return Comparison(
        estimates(point, measured.shortages, intervals),
        outcomes.n,
        {
            "draws": draws,
            "level": level,
            "min_cell": min_cell,
            "seed": seed,
            "intersections": intersections,
        },
    )


def _differences(sides: Sequence[Mapping[str, Float]]) -> dict[str, Float]:
    model, baseline = sides
    return {name: values - baseline[name] for name, values in model.items()}


def _union(one: Interval, other: Interval) -> Interval:
    if isinstance(one, str) or isinstance(other, str):
        return one
    return min(one[0], other[0]), max(one[1], other[1])


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
        probability = side.score[np.arange(side.n), side.y_true] if side.classes else side.score
        if not side.classes:
            probability = np.where(side.y_true == 1, probability, 1.0 - probability)
        losses.append(log_losses(probability[:, None])[0])
    seen = np.concatenate(losses)
    # where all losses are equal they say nothing of others
    return float(np.ptp(seen)) or MAX_LOG_LOSS


def _check_same_rows(outcomes: Outcomes, baseline: Outcomes) -> None:
    cure = "evaluate both models on the same rows, in the same order"
    if baseline.n != outcomes.n:
        raise ValueError(
            f"baseline: got {baseline.n} rows, expected {outcomes.n} as the model's; {cure}"
        )
    if set(baseline.sensitive) != set(outcomes.sensitive):
        raise ValueError(
            f"baseline: got the sensitive columns {sorted(baseline.sensitive)}, "
            f"expected {sorted(outcomes.sensitive)} as the model's; {cure}"
        )
    pairs: dict[str, tuple[Any, Any]] = {"labels": (outcomes.y_true, baseline.y_true)}
    pairs |= {
        f"groups of {name!r}": (column, baseline.sensitive[name])
        for name, column in outcomes.sensitive.items()
    }
    if outcomes.favourable != baseline.favourable:
        raise ValueError(
            f"baseline: got the favourable label {baseline.favourable}, expected "
            f"{outcomes.favourable} as "
            f"the model's; {cure}"
        )
    if outcomes.people is not None or baseline.people is not None:
        pairs["people"] = outcomes.people, baseline.people
    for what, (own, other) in pairs.items():
        if own is None or other is None:
            raise ValueError(f"baseline: one side has {what} and the other has not; {cure}")
        if differing := int(np.sum(own != other)):
            raise ValueError(
                f"baseline: {differing} of {outcomes.n} {what} differ from the model's rows; {cure}"
            )
