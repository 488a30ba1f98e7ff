"""Every metric with its interval, or the reason why the evidence does not suffice for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from evenhand.fairlib.evaluation.metric_intervals import Interval, metric_intervals
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
from evenhand.fairlib.evaluation.outcomes import (
    Outcomes,
    encode_groups,
    list_cells,
    with_intersections,
)
from evenhand.fairlib.evaluation.probabilities import (
    OVERALL,
    ece_shortage,
    probability_draws,
    probability_values,
)
from evenhand.fairlib.execution import Progress, generator, shifted
from evenhand.fairlib.parameters import check_sample_weight

Status = Literal["ok", "insufficient_evidence"]

MIN_DRAWS = 20
"""Fewest bootstrap draws, other than none: an interval from fewer draws has hardly any information.
"""


@dataclass(frozen=True)
class MetricValue:
    """A metric with its interval, or the reason why there is none.

    ValueError if a number is not finite, an "ok" metric has no value, or an insufficient one has a
    number.
    """

    value: float | None  # point estimate; None exactly where the evidence is insufficient
    # low, high: ends of the interval; None without one
    low: float | None = None
    high: float | None = None
    status: Status = "ok"  # whether the value may be used
    reason: str = ""  # why the evidence does not suffice; empty if it does

    def __post_init__(self) -> None:
        """Refuse values that a reader could mistake for a measured number."""
        numbers = [x for x in (self.value, self.low, self.high) if x is not None]
        if not all(math.isfinite(x) for x in numbers):
            raise ValueError(
                "MetricValue: got NaN or infinity, expected a finite number; use insufficient()"
            )
        if self.status not in ("ok", "insufficient_evidence"):
            raise ValueError(
                f"status: got {self.status!r}, expected 'ok' or 'insufficient_evidence'"
            )
        if self.status == "ok" and self.value is None:
            raise ValueError("MetricValue: got no value with status 'ok'; use insufficient()")
        if self.status != "ok" and numbers:
            raise ValueError(
                "MetricValue: got a number with status 'insufficient_evidence'; leave it None"
            )
        if (self.low is None) != (self.high is None):
            raise ValueError("MetricValue: got one bound of the interval, expected both or none")

    @classmethod
    def insufficient(cls, reason: str) -> MetricValue:
        """Metric without a number, because of ``reason``.

        Parameters
        ----------
        reason : str
            Why the evidence does not suffice.

        Returns
        -------
        MetricValue
            Without a number.
        """
        return cls(None, None, None, "insufficient_evidence", reason)


@dataclass(frozen=True)
class Evaluation:
    """Result of an evaluation of n rows."""

    metrics: Mapping[str, MetricValue]  # flat metric name to value, in reading order
    # per sensitive attribute, the rows of :func:`evenhand.fairlib.evaluation.outcomes.list_cells`
    counts: Mapping[str, list[dict[str, Any]]]
    n: int
    # ``draws``, ``level``, ``min_cell``, ``seed`` and ``intersections`` that were used;
    # ``favourable``: which of two labels, 1 or 0, is the good outcome for a person; ``classes``:
    # names of more than two labels; ``unit``: "people" where these are counted in place of rows
    settings: Mapping[str, Any] = field(default_factory=dict)
    # per metric that compares groups: ``measured``, the groups that it is of, and ``left_out``, as
    # :meth:`evenhand.fairlib.evaluation.group_selection.GroupSelection.left_out` lists them
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give the evaluation as plain JSON types, without NaN; ``from_json`` reads it."""
        whole = asdict(self)
        return {key: whole[key] for key in ("n", "settings", "metrics", "counts", "groups")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evaluation:
        """Read the result of ``to_json``.
        ValueError if a part is missing or a metric is malformed.

        Parameters
        ----------
        data : mapping
            Result of :meth:`to_json`.

        Returns
        -------
        Evaluation
            An equal evaluation.

        Raises
        ------
        ValueError
            If a part is missing or a metric is malformed.
        """
        with reading_json("evaluation"):
            metrics = {name: MetricValue(**metric) for name, metric in data["metrics"].items()}
            settings = dict(data.get("settings", {}))
            # evaluations of older versions do not have the groups
            groups = dict(data.get("groups", {}))
            return cls(metrics, dict(data["counts"].items()), int(data["n"]), settings, groups)


@contextmanager
def reading_json(what: str) -> Iterator[None]:
    """Turn the faults of reading malformed JSON into a ``ValueError`` that names it.

    Parameters
    ----------
    what : str
        Name of the object that is read.

    Raises
    ------
    ValueError
        If reading in the block fails for a missing or malformed part.
    """
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{what}: got malformed JSON ({type(error).__name__}: {error}); expected the result of "
            "to_json"
        ) from error


def evaluate(
    outcomes: Outcomes,
    *,
    sample_weight: ArrayLike | None = None,
    draws: int = 1000,
    level: float = 0.95,
    min_cell: int = 5,
    seed: int = 0,
    intersections: bool = False,
    score_intervals: bool = True,
    callback: Progress | None = None,
) -> Evaluation:
    """Measure performance, calibration, group differences and consistency, each with an interval.

    Every metric is listed, with a number or with the reason why there is none. The interval
    reflects sampling of the evaluated rows only, or of people with all their rows, not of the
    training. Rates and what is computed from them have intervals in closed form
    (:mod:`evenhand.fairlib.evaluation.closed_intervals`), the others those of a bootstrap. None has
    the width 0, however equal the rows are. The interval of a largest difference between groups
    contains 0 where all groups may be equal.

    A metric that compares groups is of the groups with enough rows, without that of missing values:
    the result's ``groups`` names those measured and those left out.

    Parameters
    ----------
    outcomes : Outcomes
        Labels, predictions, scores and groups of n rows.
    sample_weight : array-like, shape (n,), optional
        Weights of the rows, at least 0: every metric is what it would be with a row of weight 2
        there twice, and one of weight 0 left out (its group stays known). A drawn row brings its
        weight. Numbers of rows stay numbers of rows: in `counts`, and where `min_cell` decides.
        Only ``ece``, which takes off the part of chance, depends on the sum of the weights: let it
        be the number of rows that the evidence is worth.
    draws : int, default 1000
        Bootstrap draws; 0 for none (no intervals).
    level : float, default 0.95
        Coverage of the intervals, in (0, 1).
    min_cell : int, default 5
        A cell (group and true label; for demographic parity the group) with fewer rows, or fewer
        people where the outcomes number them, leaves its group out of every metric that needs it;
        with fewer than two groups left the metric is insufficient. The table as a whole counts as
        one group for the metrics without a sensitive attribute.
    seed : int, default 0
        Seed of the bootstrap. The result does not depend on the order of the rows.
    intersections : bool, default False
        Whether to add the intersection of every pair of sensitive attributes, as attribute
        ``"a&b"``.
    score_intervals : bool, default True
        Whether metrics of scores (AUC, and those of probabilities) get intervals too, which takes
        longest.
    callback : callable, optional
        ``callback(done, total)``, in bootstrap draws: those of the counts, then those of the AUC.
        The draws of the probabilities take a fraction of a second and are not counted.

    Returns
    -------
    Evaluation
        Every metric, with a number or with the reason why there is none.

    Raises
    ------
    ValueError
        For an argument out of its range, a negative or infinite weight, only weights of 0, or an
        ambiguous intersection.

    Examples
    --------
    >>> y = np.array([0, 1] * 20)
    >>> sex = {"sex": np.array(["f"] * 20 + ["m"] * 20, dtype=object)}
    >>> evaluation = evaluate(Outcomes(y, y, y * 0.8 + 0.1, sex), draws=200)
    >>> accuracy = evaluation.metrics["accuracy"]
    >>> accuracy.value, round(accuracy.low, 3)
    (1.0, 0.912)
    """
    check_settings(draws, level, min_cell)
    names, codes = encode_sensitive(outcomes.sensitive, outcomes.groups, intersections)
    weights = check_sample_weight(sample_weight, outcomes.n)
    random = partial(generator, seed, "bootstrap")
    measured = measure(
        [outcomes],
        codes,
        names,
        weights=weights,
        draws=draws,
        score_intervals=score_intervals,
        min_cell=min_cell,
        random=random,
        callback=callback,
    )
    point = measured.point[0]
    intervals: dict[str, Interval] = {}
    if draws:
        intervals = metric_intervals(outcomes, codes, measured, weights, level, random("theil"))
    settings: dict[str, Any] = {
        "draws": draws,
        "level": level,
        "min_cell": min_cell,
        "seed": seed,
        "intersections": intersections,
    }
    if outcomes.classes:
        settings["classes"] = list(outcomes.classes)
    else:
        settings["favourable"] = outcomes.favourable
    if outcomes.people is not None and outcomes.counts_people:
        settings["unit"] = "people"
    counts = {}
    for name, groups in names.items():
        rows = measured.people.groups[name]
        counts[name] = list_cells(groups, rows, min_cell, outcomes.classes)
    compared = {}
    for name in point:
        if name in measured.selections:
            compared[name] = measured.selections[name].to_json()
    return Evaluation(
        metrics=estimates(point, measured.shortages, intervals),
        counts=counts,
        n=outcomes.n,
        settings=settings,
        groups=compared,
    )


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
    classes = first_side.classes
    table = JointTable(
        y_true=first_side.y_true,
        predictions=[side.y_pred for side in sides],
        codes=codes,
        consistent=_common_flags(sides),
        sample_weight=weights,
        classes=classes,
        people=first_side.people,
        favourable=first_side.favourable,
    )
    rows = table.people()
    # where people are numbered, they count in place of rows: with each label, and with any
    by_label = rows
    whole = None
    if first_side.people is not None and first_side.counts_people:
        by_label = _count_people(first_side, first_side.people, codes, weights, by_label=True)
        whole = _count_people(first_side, first_side.people, codes, weights, by_label=False)
    if names is None:
        names = {name: list(map(str, range(size))) for name, (_, size) in codes.items()}
    selections = find_selections(by_label, whole, names, min_cell)
    shortages = find_shortages(by_label, selections, min_cell, whole)

    # point estimates: from counts, from ranks, and from probabilities
    counts_of_sides = table.counts(table.weights)
    point = [metric_values(counts, selections) for counts in counts_of_sides]
    compared = {name: selections[f"calibration_gap.{name}"].positions for name in codes}
    for values, side in zip(point, sides, strict=True):
        if not classes:
            values["auc"] = auc(*score_table(side.y_true, side.ranks, sample_weight=weights))
            shortages["ece"] = shortages["ece"] or ece_shortage(side, min_cell, weights)
        values |= probability_values(side, codes, weights, compared)

    # draws, in the same order
    has_auc_draws = score_intervals and not classes and not shortages["auc"]
    total = draws + draws if has_auc_draws else draws
    smoothing = None
    if smooth:
        weight = float(counts_of_sides[0].overall.sum()) / _independent_rows(first_side, weights)
        smoothing = Smoothing(random("smoothed"), weight)
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
        drawn = auc_draws(
            first_side.y_true,
            [side.ranks for side in sides],
            draws,
            random("auc"),
            sample_weight=weights,
            people=first_side.people,
            callback=shifted(callback, draws, total),
        )
        for values, column in zip(resampled, drawn, strict=True):
            values["auc"] = column
    if draws and score_intervals:
        of_probabilities = probability_draws(
            sides, codes, draws, random("probabilities"), sample_weight=weights, compared=compared
        )
        for values, columns in zip(resampled, of_probabilities, strict=True):
            values |= columns
    return Measured(
        people=rows,
        counts=counts_of_sides,
        selections=selections,
        shortages=shortages,
        point=point,
        resampled=resampled,
        smoothed=smoothed,
    )


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


def check_settings(draws: int, level: float, min_cell: int = 1) -> None:
    """Refuse, with ``ValueError``, settings of a bootstrap that are out of their range.

    Parameters
    ----------
    draws : int
        Bootstrap draws; 0 for none.
    level : float
        Coverage of the intervals, in (0, 1).
    min_cell : int, default 1
        Fewest rows, or people, of a cell.

    Raises
    ------
    ValueError
        For settings out of their range.
    """
    if draws != 0 and draws < MIN_DRAWS:
        raise ValueError(f"draws: got {draws}, expected 0 or at least {MIN_DRAWS}; 1000 is usual")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: got {level}, expected a share between 0 and 1 such as 0.95")
    if min_cell < 1:
        raise ValueError(
            f"min_cell: got {min_cell}, expected at least 1; an empty cell is no evidence"
        )


def encode_sensitive(
    sensitive: Mapping[str, NDArray[np.object_]],
    groups: Mapping[str, Iterable[str]],
    intersections: bool,
) -> tuple[dict[str, tuple[str, ...]], Codes]:
    """Give sorted group labels per attribute, and codes as :class:`JointTable` takes them.

    Parameters
    ----------
    sensitive : mapping
        Group labels by attribute, each of shape (n,).
    groups : mapping
        Groups that are known to exist, even if no row has them.
    intersections : bool
        Whether to add the intersection of every pair of attributes.

    Returns
    -------
    tuple of two dicts
        Sorted names, and codes with the number of groups, by attribute.
    """
    names: dict[str, tuple[str, ...]] = {}
    codes = {}
    columns = with_intersections(sensitive) if intersections else sensitive
    for attribute, column in columns.items():
        names[attribute], code = encode_groups(column, groups.get(attribute, ()))
        codes[attribute] = (code, len(names[attribute]))
    return names, codes


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
    """Put the observed counts where a draw has no row of a group, or of a label of it that is
    needed.
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


def estimates(
    point: Mapping[str, Float], shortages: Mapping[str, str], intervals: Mapping[str, Interval]
) -> dict[str, MetricValue]:
    """Metrics with their intervals: performance, consistency, each attribute's differences, Theil
    index.

    Parameters
    ----------
    point : mapping
        Values by metric.
    shortages : mapping
        Reasons by metric; empty where the rows suffice.
    intervals : mapping
        Intervals, or reasons, by metric.

    Returns
    -------
    dict
        In reading order.
    """
    first = ["accuracy", "balanced_accuracy", "auc", *OVERALL]
    names = list(first)
    for name in point:
        stem, _, subject = name.partition(".")
        if name not in (*first, "theil_index") and stem != "calibration_gap":
            names.append(name)
        # the last of an attribute's differences of decisions
        if stem == "balanced_accuracy_difference":
            names.append(f"calibration_gap.{subject}")
    names.append("theil_index")
    values = {}
    for name in names:
        if name in point:
            values[name] = _estimate(float(point[name]), shortages[name], intervals.get(name))
    return values


def _estimate(value: float, shortage: str, interval: Interval | None) -> MetricValue:
    """Insufficient if rows are short, the value is undefined (NaN), or too few draws are
    defined.
    """
    if shortage:
        return MetricValue.insufficient(shortage)
    if math.isnan(value):
        return MetricValue.insufficient("undefined on these rows: it would divide by zero")
    if interval is None:
        return MetricValue(value)
    if isinstance(interval, str):
        return MetricValue.insufficient(interval)
    # a closed form may leave its own estimate outside by rounding
    return MetricValue(value, min(interval[0], value), max(interval[1], value))
