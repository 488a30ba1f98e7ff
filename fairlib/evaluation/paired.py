"""Two models on the same rows: the difference of every metric, with an interval from a paired bootstrap.

Both models answer for the same people, so their metrics rise and fall together from sample to sample. Each
draw resamples the rows once, for both; its difference keeps only what the models do not share. The interval
is therefore narrower than two separate ones would suggest: Efron and Tibshirani, "An Introduction to the
Bootstrap" (1993), chapter 8, on resampling the units that were observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.evaluation.bootstrap import PairedTable, score_table
from evenhand.fairlib.evaluation.evaluate import (
    MetricValue,
    check_settings,
    encode_sensitive,
    find_shortages,
    measured,
    metric_values,
    reading_order,
)
from evenhand.fairlib.evaluation.metrics import auc
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired_auc import paired_auc_draws
from evenhand.fairlib.randomness import generator

__all__ = ["Comparison", "Difference", "compare"]


@dataclass(frozen=True)
class Difference(MetricValue):
    """One metric of a model less the same of a baseline, with its interval, or the reason why there is none.

    Fields, and what is refused, are those of :class:`evenhand.fairlib.evaluation.evaluate.MetricValue`.
    """


@dataclass(frozen=True)
class Comparison:
    """Everything in which a model and a baseline can be compared on the same rows.

    Parameters
    ----------
    differences : mapping of str to Difference
        Flat metric name to model less baseline, in reading order.
    n : int
        Number of rows.
    settings : mapping
        ``draws``, ``level``, ``min_cell``, ``seed`` and ``intersections`` that were used.
    """

    differences: Mapping[str, Difference]
    n: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give the comparison as plain JSON types, without NaN; ``from_json`` turns it back."""
        return {
            "n": self.n,
            "settings": dict(self.settings),
            "differences": {name: asdict(difference) for name, difference in self.differences.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Comparison:
        """Rebuild a comparison from ``to_json``.

        Raises
        ------
        ValueError
            If a part is missing or a difference is malformed.
        """
        try:
            differences = {name: Difference(**found) for name, found in data["differences"].items()}
            return cls(differences, int(data["n"]), dict(data.get("settings", {})))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"comparison: got malformed JSON ({type(error).__name__}: {error}); "
                "expected what Comparison.to_json writes"
            ) from error


def compare(
    outcomes: Outcomes,
    baseline: Outcomes,
    *,
    draws: int = 1000,
    level: float = 0.95,
    min_cell: int = 5,
    seed: int = 0,
    intersections: bool = False,
) -> Comparison:
    r"""Measure by how much a model differs from a baseline on the same rows, metric by metric.

    .. math:: \Delta = m(\mathrm{model}) - m(\mathrm{baseline}), \qquad
              \left[ q_{\alpha / 2}(\Delta^*),\; q_{1 - \alpha / 2}(\Delta^*) \right],\quad
              \alpha = 1 - \mathrm{level}

    with the quantiles of :math:`\Delta^*` over draws that resample each row with both its predictions, both
    its scores and both its flags of consistency; widened to hold :math:`\Delta`.

    Parameters
    ----------
    outcomes, baseline : Outcomes
        What the model and the baseline did on the same rows, in the same order.
    draws : int
        Bootstrap draws; 0 for none (no intervals).
    level : float
        Coverage of the intervals, in (0, 1).
    min_cell : int
        As for :func:`evenhand.fairlib.evaluation.evaluate.evaluate`.
    seed : int
        Seed of the bootstrap. The result does not depend on the order of the rows.
    intersections : bool
        Whether to add the intersection of every pair of sensitive attributes, as attribute ``"a&b"``.

    Returns
    -------
    Comparison
        Every metric that both sides have: all but the consistency of copies that one of them lacks. One that
        is insufficient for either side is insufficient here.

    Raises
    ------
    ValueError
        If the rows differ (in number, labels or sensitive columns), an argument is out of its range, or an
        intersection is ambiguous.

    Notes
    -----
    The interval tells whether the difference could be the sample's, given the two models as they are; it says
    nothing of training them again. A largest difference between groups is never negative, and the resampled
    one is biased upwards: its interval is conservative where both models treat groups nearly alike. The AUC's
    draws are those of
    :func:`fairlib.evaluation.paired_auc.paired_auc_draws`, which bounds their error; its point is exact.
    """
    check_settings(draws, level, min_cell)
    _check_same_rows(outcomes, baseline)
    # A group that either side knows of is missing for both.
    groups = {
        name: (*outcomes.groups.get(name, ()), *baseline.groups.get(name, ())) for name in outcomes.sensitive
    }
    _, codes = encode_sensitive(outcomes.sensitive, groups, intersections)
    copies = [name for name in outcomes.consistent if name in baseline.consistent]
    both = (outcomes, baseline)
    model_flags, baseline_flags = ({name: side.consistent[name] for name in copies} for side in both)
    table = PairedTable(
        outcomes.y_true, (outcomes.y_pred, baseline.y_pred), codes, (model_flags, baseline_flags)
    )

    counts = table.counts(table.weights)
    first, second = (metric_values(side, table.n) for side in counts)
    first["auc"], second["auc"] = (auc(*score_table(side.y_true, side.score)) for side in both)
    # The cells that must not be short are of labels and groups, which both sides share.
    shortages = find_shortages(counts[0], min_cell)

    resampled = _resample(table, draws, seed)
    if draws and not shortages["auc"]:
        rng = generator(seed, "paired bootstrap", "auc")
        resampled["auc"] = paired_auc_draws(outcomes.y_true, outcomes.score, baseline.score, draws, rng)
    return Comparison(
        {
            name: measured(
                Difference, float(first[name] - second[name]), shortages[name], resampled.get(name), level
            )
            for name in reading_order(first, copies)
        },
        table.n,
        {"draws": draws, "level": level, "min_cell": min_cell, "seed": seed, "intersections": intersections},
    )


def _check_same_rows(outcomes: Outcomes, baseline: Outcomes) -> None:
    cure = "judge both models on the same rows, in the same order"
    if baseline.n != outcomes.n:
        raise ValueError(f"baseline: got {baseline.n} rows, expected {outcomes.n} as the model's; {cure}")
    other = int(np.sum(baseline.y_true != outcomes.y_true))
    if other:
        raise ValueError(f"baseline: {other} of {outcomes.n} labels differ from the model's rows; {cure}")
    if set(baseline.sensitive) != set(outcomes.sensitive):
        raise ValueError(
            f"baseline: got the sensitive columns {sorted(baseline.sensitive)}, "
            f"expected {sorted(outcomes.sensitive)} as the model's; {cure}"
        )
    for name, column in outcomes.sensitive.items():
        other = int(np.sum(baseline.sensitive[name] != column))
        if other:
            raise ValueError(
                f"baseline: {other} of {outcomes.n} groups of {name!r} differ from the model's rows; {cure}"
            )


def _resample(table: PairedTable, draws: int, seed: int) -> dict[str, NDArray[np.float64]]:
    chunks: dict[str, list[NDArray[np.float64]]] = {}
    for model, baseline in table.draws(draws, generator(seed, "paired bootstrap", "cells")):
        second = metric_values(baseline, table.n)
        for name, values in metric_values(model, table.n).items():
            chunks.setdefault(name, []).append(values - second[name])
    return {name: np.concatenate(parts) for name, parts in chunks.items()}
