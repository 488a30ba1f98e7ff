"""Point estimates and bootstrap draws of every metric, of one or more models on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.catalogue import ANY_CLASSES
from evenhand.fairlib.evaluation.bootstrap import (
    CellCounts,
    Codes,
    Column,
    JointTable,
    auc_draws,
    distinct_rows,
    score_table,
    smoothed_counts,
)
from evenhand.fairlib.evaluation.effective_rows import effective_rows
from evenhand.fairlib.evaluation.group_selection import (
    GROUP_NEEDS,
    GroupSelection,
    select_groups,
    shortage_of,
)
from evenhand.fairlib.evaluation.metrics import (
    GROUP_METRICS,
    OVERALL_METRICS,
    Array,
    Metric,
    Needs,
    auc,
    ratio,
    recalls,
)
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.probabilities import (
    OVERALL,
    ece_shortage,
    probability_draws,
    probability_values,
)
from evenhand.fairlib.execution import Progress, shifted


class Measured(NamedTuple):
    """Metrics of one or more models on the same rows, by name, and of every draw of these rows."""

    people: CellCounts  # numbers of rows, of the first model
    counts: list[CellCounts]  # per model: rows, or the sums of their weights
    selections: dict[str, GroupSelection]  # of every metric that compares groups
    shortages: dict[str, str]  # of every metric, why its cells have too few rows
    point: list[dict[str, Float]]  # per model, each of shape ()
    resampled: list[dict[str, Float]]  # per model, each of shape (draws,)
    # the same with some random answers more in each cell; empty unless asked for
    smoothed: list[dict[str, Float]]


def measure(
    sides: Sequence[Outcomes],
    codes: Codes,
    names: Mapping[str, Sequence[str]] | None = None,
    *,
    weights: Float | None = None,
    draws: int,
    score_intervals: bool = True,
    min_cell: int,
    random: Callable[[str], np.random.Generator],
    smooth: bool = False,
    callback: Progress | None = None,
) -> Measured:
    """Measure models on the same rows, which every draw resamples for all of them alike.

    Parameters
    ----------
    sides : sequence of Outcomes
        The models' outcomes, with the same labels and people; consistency is measured of the copies
        that all have.
    codes : mapping
        Groups of the rows by attribute, as :class:`JointTable` takes them.
    names : mapping, optional
        Names of the groups by attribute; default: their numbers.
    weights : ndarray of float64, shape (n,), optional
        Weights of the rows.
    draws : int
        Bootstrap draws; 0 for none.
    score_intervals : bool, default True
        Whether metrics of scores are drawn too.
    min_cell : int
        Fewest rows, or people, of a cell.
    random : callable
        Makes the generator of each kind of draws.
    smooth : bool, default False
        Whether to add draws as of :func:`evenhand.fairlib.evaluation.bootstrap.smoothed_counts`.
    callback : callable, optional
        ``callback(done, total)``, in draws.

    Returns
    -------
    Measured
        Point estimates and draws, per model.
    """
    first_side = sides[0]
    table = JointTable(
        y_true=first_side.y_true,
        predictions=[side.y_pred for side in sides],
        codes=codes,
        consistent=_common_flags(sides),
        sample_weight=weights,
        classes=first_side.classes,
        people=first_side.people,
        favourable=first_side.favourable,
    )
    rows = table.people()
    by_label, whole = _count_units(first_side, codes, weights, rows)
    if names is None:
        names = {name: list(map(str, range(size))) for name, (_, size) in codes.items()}
    selections = find_selections(by_label, whole, names, min_cell)
    shortages = find_shortages(by_label, selections, min_cell, whole)
    if not first_side.classes:
        shortages["ece"] = shortages["ece"] or _ece_shortage(sides, min_cell, weights)

    counts_of_sides = table.counts(table.weights)
    compared = {name: selections[f"calibration_gap.{name}"].positions for name in codes}
    point = []
    for side, counts in zip(sides, counts_of_sides, strict=True):
        values = metric_values(counts, selections)
        values |= _score_values(side, codes, weights, compared)
        point.append(values)

    # draws, in the same order: from counts, from ranks, and from probabilities
    has_auc_draws = score_intervals and not first_side.classes and not shortages["auc"]
    total = draws + draws if has_auc_draws else draws
    smoothing = None
    if smooth:
        smoothing = _smoothing(first_side, counts_of_sides[0], weights, random("smoothed"))
    resampled, smoothed = resample_metrics(
        table,
        draws,
        random("cells"),
        selections,
        counts_of_sides,
        smoothing=smoothing,
        callback=shifted(callback, 0, total),
    )
    if draws and has_auc_draws:
        after_cells = shifted(callback, draws, total)
        drawn = _drawn_aucs(sides, draws, random("auc"), weights, after_cells)
        _add_columns(resampled, [{"auc": column} for column in drawn])
    if draws and score_intervals:
        of_probabilities = probability_draws(
            sides, codes, draws, random("probabilities"), sample_weight=weights, compared=compared
        )
        _add_columns(resampled, of_probabilities)
    return Measured(
        people=rows,
        counts=counts_of_sides,
        selections=selections,
        shortages=shortages,
        point=point,
        resampled=resampled,
        smoothed=smoothed,
    )


def _count_units(
    outcomes: Outcomes, codes: Codes, weights: Float | None, rows: CellCounts
) -> tuple[CellCounts, CellCounts | None]:
    """Numbers of people with each label, and with any, where people are numbered and count in place
    of rows; else those of rows, and None.
    """
    if outcomes.people is None or not outcomes.counts_people:
        return rows, None
    by_label = _count_people(outcomes, outcomes.people, codes, weights, by_label=True)
    whole = _count_people(outcomes, outcomes.people, codes, weights, by_label=False)
    return by_label, whole


def _ece_shortage(sides: Sequence[Outcomes], min_cell: int, weights: Float | None) -> str:
    """Why the rows do not suffice for the calibration error of a model; empty if they do for
    all.
    """
    for side in sides:
        shortage = ece_shortage(side, min_cell, weights)
        if shortage:
            return shortage
    return ""


def _smoothing(
    outcomes: Outcomes, counts: CellCounts, weights: Float | None, rng: np.random.Generator
) -> Smoothing:
    """Add answers of the mean weight that one independent row stands for."""
    weight = float(counts.overall.sum()) / _independent_rows(outcomes, weights)
    return Smoothing(rng, weight)


def _score_values(
    side: Outcomes, codes: Codes, weights: Float | None, compared: Mapping[str, Int]
) -> dict[str, Float]:
    """Metrics of ranks, for two labels, and of probabilities."""
    values: dict[str, Float] = {}
    if not side.classes:
        values["auc"] = auc(*score_table(side.y_true, side.ranks, sample_weight=weights))
    return values | probability_values(side, codes, weights, compared)


def _drawn_aucs(
    sides: Sequence[Outcomes],
    draws: int,
    rng: np.random.Generator,
    weights: Float | None,
    callback: Progress | None,
) -> list[Float]:
    """AUC of every draw, per model."""
    return auc_draws(
        sides[0].y_true,
        [side.ranks for side in sides],
        draws,
        rng,
        sample_weight=weights,
        people=sides[0].people,
        callback=callback,
    )


def _add_columns(
    resampled: Sequence[dict[str, Float]], added: Iterable[Mapping[str, Float]]
) -> None:
    """Add further metrics of every draw, per model."""
    for values, columns in zip(resampled, added, strict=True):
        values.update(columns)


def _common_flags(sides: Sequence[Outcomes]) -> list[dict[str, Bool]]:
    """Per model, the flags of consistency of the sets of copies that all models have."""
    names = []
    for name in sides[0].consistent:
        if all(name in side.consistent for side in sides):
            names.append(name)
    flags = []
    for side in sides:
        flags.append({name: side.consistent[name] for name in names})
    return flags


def _independent_rows(outcomes: Outcomes, weights: Float | None) -> float:
    """Effective number of rows of a table, for the share that is predicted right."""
    cell = np.zeros(outcomes.n, dtype=np.int64)
    right = outcomes.y_true == outcomes.y_pred
    return float(effective_rows(cell, 1, right, 0.95, weights, outcomes.people)[0])


def _count_people(
    outcomes: Outcomes, people: Int, codes: Codes, weights: Float | None, *, by_label: bool
) -> CellCounts:
    """Numbers of people in place of rows: each counts once in each group, and `by_label` with each
    label.
    """
    _, person = np.unique(people, return_inverse=True)
    columns: list[Column] = []
    if weights is not None:
        columns.append(((weights > 0).astype(int), 2))
    columns.append((person, int(person.max()) + 1))
    if by_label:
        columns.append((outcomes.y_true, len(outcomes.classes) or 2))
    columns += codes.values()
    first, _ = distinct_rows(columns)
    table = JointTable(
        y_true=outcomes.y_true[first],
        predictions=[outcomes.y_pred[first]],
        codes={name: (code[first], size) for name, (code, size) in codes.items()},
        consistent=[{name: flags[first] for name, flags in outcomes.consistent.items()}],
        sample_weight=None if weights is None else weights[first],
        classes=outcomes.classes,
        favourable=outcomes.favourable,
    )
    return table.people()


def metric_values(
    counts: CellCounts,
    selections: Mapping[str, GroupSelection],
    observed: CellCounts | None = None,
) -> dict[str, Float]:
    """All metrics that follow from counts, for one table or for many draws of it at once.

    Metrics that compare groups are of the groups of their `selections`. Draws have the counts
    `observed`: a cell that no row of a draw is in keeps these, so that the draw of a small group
    does not void the others.

    Parameters
    ----------
    counts : CellCounts
        Counts of one table, or of many draws of it.
    selections : mapping
        Groups that each metric compares.
    observed : CellCounts, optional
        Counts of the table of which `counts` are draws.

    Returns
    -------
    dict
        Name to values, of the shape of the draws.
    """
    counts = counts.with_favourable_last()
    if observed is not None:
        observed = observed.with_favourable_last()
    n = counts.overall.sum(axis=(-2, -1))
    values = {}
    for name, metric in _defined(OVERALL_METRICS, counts):
        values[name] = metric.function(counts.overall)
    if counts.classes:
        rates = recalls(counts.overall)
        values |= {f"recall.{name}": rates[..., k] for k, name in enumerate(counts.classes)}
    for copies, agreeing in counts.agreeing.items():
        values[f"consistency.{copies}"] = ratio(agreeing, n)
    for attribute, cells in counts.groups.items():
        for name, metric in _defined(GROUP_METRICS, counts):
            positions = selections[f"{name}.{attribute}"].positions
            compared = cells[..., positions, :, :]
            if observed is not None:
                compared = _filled(compared, observed.groups[attribute][positions], metric.needs)
            flat = f"{name}.{attribute}"
            values[flat] = np.full(cells.shape[:-3], np.nan)
            if len(positions) >= 2:
                values[flat] = metric.function(compared)
    return values


def _filled(drawn: Array, observed: Array, needs: Needs) -> Array:
    """Put the observed counts where a draw has no row of a group, and, for a metric of labels,
    where it has none of a label of a group.
    """
    axes: tuple[int, ...] = (-1,)
    if needs == "rows":
        axes = (-2, -1)
    return np.where(drawn.sum(axis=axes, keepdims=True) == 0, observed, drawn)


def _defined(metrics: Mapping[str, Metric], counts: CellCounts) -> list[tuple[str, Metric]]:
    """Metrics that the number of labels allows."""
    if not counts.classes:
        return list(metrics.items())
    return [(name, metric) for name, metric in metrics.items() if name in ANY_CLASSES]


class Smoothing(NamedTuple):
    """How draws are smoothed."""

    rng: np.random.Generator
    weight: float  # of one random answer: the mean weight that one independent row stands for


def resample_metrics(
    table: JointTable,
    draws: int,
    rng: np.random.Generator,
    selections: Mapping[str, GroupSelection],
    observed: Sequence[CellCounts],
    *,
    smoothing: Smoothing | None = None,
    callback: Progress | None = None,
) -> tuple[list[dict[str, Float]], list[dict[str, Float]]]:
    """Metrics of every draw by name, shape (draws,), per model of the table; empty without draws.

    Parameters
    ----------
    table : JointTable
        The rows.
    draws : int
        Bootstrap draws; 0 for none.
    rng : np.random.Generator
        Generator of the draws.
    selections : mapping
        Groups that each metric compares.
    observed : sequence of CellCounts
        Counts of the rows, per model.
    smoothing : Smoothing, optional
        How further draws are smoothed; default: none.
    callback : callable, optional
        ``callback(done, total)``, in draws.

    Returns
    -------
    tuple of two lists of dicts
        Per model, name to values, shape (draws,); of the draws, and of the smoothed draws.
    """
    chunks: list[dict[str, list[Float]]] = [{} for _ in table.counters]
    smoothed: list[dict[str, list[Float]]] = [{} for _ in table.counters]
    for models in table.draws(draws, rng, callback=callback):
        for k, counts in enumerate(models):
            for name, column in metric_values(counts, selections, observed[k]).items():
                chunks[k].setdefault(name, []).append(column)
            if smoothing is not None:
                smooth_counts = smoothed_counts(counts, smoothing.weight, smoothing.rng)
                for name, column in metric_values(smooth_counts, selections, observed[k]).items():
                    smoothed[k].setdefault(name, []).append(column)
    return _joined(chunks), _joined(smoothed)


def _joined(chunks: Sequence[Mapping[str, Sequence[Float]]]) -> list[dict[str, Float]]:
    """Per model, each metric's chunks of draws as one array."""
    models = []
    for values in chunks:
        models.append({name: np.concatenate(parts) for name, parts in values.items()})
    return models


def find_selections(
    by_label: CellCounts,
    whole: CellCounts | None,
    names: Mapping[str, Sequence[str]],
    min_cell: int,
) -> dict[str, GroupSelection]:
    """Groups that each metric compares, by the metric's name.

    Parameters
    ----------
    by_label : CellCounts
        Numbers of rows, or of people with each label.
    whole : CellCounts, optional
        Numbers of people with any label; None where rows count.
    names : mapping
        Names of the groups by attribute.
    min_cell : int
        Fewest rows, or people, of a cell.

    Returns
    -------
    dict
        Metric to groups.
    """
    selections = {}
    for attribute, cells in by_label.with_favourable_last().groups.items():
        counts = cells.sum(axis=-1)
        rows = counts.sum(axis=-1)
        if whole is not None:
            rows = whole.groups[attribute].sum(axis=(-2, -1))
        for kind, needs in GROUP_NEEDS.items():
            selection = select_groups(names[attribute], rows, counts, needs, min_cell)
            selections[f"{kind}.{attribute}"] = selection
    return selections


def find_shortages(
    counts: CellCounts,
    selections: Mapping[str, GroupSelection],
    min_cell: int,
    whole: CellCounts | None = None,
) -> dict[str, str]:
    """Say per metric why its cells have too few rows; empty where they suffice.

    Parameters
    ----------
    counts : CellCounts
        Numbers of rows, or of people with each label.
    selections : mapping
        Groups that each metric compares.
    min_cell : int
        Fewest rows, or people, of a cell.
    whole : CellCounts, optional
        Numbers of people with any label; None where rows count.

    Returns
    -------
    dict
        Metric to reason.
    """
    unit = "rows" if whole is None else "people"
    overall: dict[str, Needs] = {name: metric.needs for name, metric in OVERALL_METRICS.items()}
    overall["auc"] = "cells"
    overall.update(dict.fromkeys(OVERALL, "rows"))
    overall.update({f"consistency.{copies}": "rows" for copies in counts.agreeing})
    shortages = {}
    for name, needs in overall.items():
        table = counts.overall
        if whole is not None and needs == "rows":
            table = whole.overall
        shortages[name] = _shortage(table, needs, min_cell, unit)
    for k, name in enumerate(counts.classes):
        shortages[f"recall.{name}"] = _shortage(counts.overall[k : k + 1], "cells", min_cell, unit)
    for attribute in counts.groups:
        for kind, needs in GROUP_NEEDS.items():
            name = f"{kind}.{attribute}"
            shortages[name] = shortage_of(attribute, selections[name], needs, min_cell, unit)
    return shortages


def _shortage(cells: Int, needs: Needs, min_cell: int, unit: str) -> str:
    """Say that the table as a whole, or a label of it, has too few rows."""
    needed = cells.sum(axis=-1)
    kind = "label"
    if needs != "cells":
        needed = needed.sum(keepdims=True)
        kind = "whole"
    short = int(np.sum(needed < min_cell))
    if not short:
        return ""
    return (
        f"the table: {short} of {needed.size} cells ({kind}) have fewer than {min_cell} {unit}, "
        f"the smallest has {int(needed.min())}"
    )
