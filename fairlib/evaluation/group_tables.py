"""Metrics of all groups of one attribute, and the gaps and ratios between those with enough people.

Cells are groups within levels of control features: without control features there is one level.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.audit_columns import Grouping
from evenhand.fairlib.evaluation.closed_intervals import (
    Estimates,
    corrected_level,
    largest_difference,
    pairs_of,
    smallest_ratio,
)
from evenhand.fairlib.evaluation.effective_rows import effective_number
from evenhand.fairlib.evaluation.group_metrics import CellMetric, Cells
from evenhand.fairlib.evaluation.group_selection import KINDS
from evenhand.fairlib.evaluation.metric_intervals import RateCells, gap_interval
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS, Rate, rows_in
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.probabilities import calibration_gap_interval

GapKind = Literal["difference", "ratio", "catalogue"]
Status = Literal["ok", "too_few", "missing", "undefined"]


@dataclass(frozen=True)
class Settings:
    """How an audit compares groups."""

    level: float = 0.95
    min_cell: int = 5
    draws: int = 200
    seed: int = 0
    compares_missing: bool = False
    unit: str = "rows"  # what is counted: "rows" or "people"
    # groups that must be measured, by attribute
    required: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Gap:
    """A difference or a ratio between the groups of an attribute, within a level of controls."""

    metric: str
    attribute: str
    control: int  # position of the level of the control features
    kind: GapKind
    value: float | None
    low: float | None
    high: float | None
    least: str  # group of the smallest value
    most: str  # group of the largest value
    reason: str = ""  # why there is no value

    @property
    def status(self) -> str:
        """``ok``, or ``insufficient_evidence`` where there is no value."""
        return "ok" if self.value is not None else "insufficient_evidence"


@dataclass(frozen=True, eq=False)
class GroupTable:
    """One model's metrics in the groups of one attribute."""

    grouping: Grouping
    controls: Grouping | None
    cells: Cells  # control levels times groups, the groups of a level one after another
    metrics: Mapping[str, CellMetric]
    rows: Float  # shape (Q * K,): rows, or people, of each cell
    settings: Settings
    _estimates: dict[tuple[str, float], Estimates] = field(default_factory=dict, repr=False)

    @property
    def levels(self) -> int:
        """Number of levels of the control features, Q; 1 without any."""
        return 1 if self.controls is None else self.controls.size

    def shaped(self, column: Any) -> Any:
        """A column of cells as levels and groups, shape (Q, K)."""
        return np.asarray(column).reshape(self.levels, self.grouping.size)

    def status(self, name: str) -> list[Status]:
        """Whether each cell's value of a metric may be compared, and else why not.

        Parameters
        ----------
        name : str
            Name of the metric.

        Returns
        -------
        list of str
            Of length Q K: ``ok``, ``missing`` (a missing value is no group), ``too_few`` or
            ``undefined``.
        """
        metric = self.metrics[name]
        enough = metric.n >= self.settings.min_cell
        missing = np.tile(self.grouping.missing, self.levels) & ~self.settings.compares_missing
        undefined = _undefined(metric)
        result: list[Status] = []
        for cell in range(len(metric.n)):
            if missing[cell]:
                result.append("missing")
            elif not enough[cell]:
                result.append("too_few")
            elif undefined[cell]:
                result.append("undefined")
            else:
                result.append("ok")
        return result

    def compared(self, name: str) -> Bool:
        """Whether each cell is compared, shape (Q, K).

        Parameters
        ----------
        name : str
            Name of the metric.

        Returns
        -------
        bool array, shape (Q, K)
        """
        return np.asarray(self.shaped(np.array(self.status(name)) == "ok"))

    def estimates(self, name: str, level: float | None = None) -> Estimates | None:
        """Values of the cells with their intervals; None for a metric without intervals.

        Parameters
        ----------
        name : str
            Name of the metric.
        level : float, optional
            Coverage; default: that of the settings.

        Returns
        -------
        Estimates or None
            Of shape (Q K,).
        """
        metric = self.metrics[name]
        if metric.intervals is None:
            return None
        coverage = self.settings.level if level is None else level
        key = (name, coverage)
        if key not in self._estimates:
            self._estimates[key] = metric.intervals(coverage)
        return self._estimates[key]

    def gap(self, name: str, kind: GapKind, control: int = 0, smallest: int = 0) -> Gap:
        """Compare the groups by one metric.

        Parameters
        ----------
        name : str
            Name of the metric.
        kind : {"difference", "ratio"}
            Largest value less the smallest, or the smallest over the largest.
        control : int
            Position of the level of the control features.
        smallest : int, default 0
            Fewest rows, or people, of a group that is compared here, if two groups have so many.

        Returns
        -------
        Gap
        """
        places = np.flatnonzero(self.compared(name)[control])
        places = self._large_enough(name, control, places, smallest)
        reason = self._shortage(name, control, places)
        attribute = self.grouping.name
        if reason:
            return Gap(name, attribute, control, kind, None, None, None, "", "", reason)
        chosen = places + control * self.grouping.size
        values = self.metrics[name].value[chosen].astype(np.float64)
        texts = self.grouping.texts
        least = texts[places[int(np.argmin(values))]]
        most = texts[places[int(np.argmax(values))]]
        if kind == "ratio" and not (self.metrics[name].is_positive and values.max() > 0):
            reason = "undefined: the largest value is not above 0"
            return Gap(name, attribute, control, kind, None, None, None, least, most, reason)
        estimate = self._compare(name, kind, chosen, values)
        value, low, high = (float(column) for column in estimate)
        if np.isnan(low) or np.isnan(high):
            return Gap(name, attribute, control, kind, value, None, None, least, most)
        low = min(low, value)
        high = max(high, value)
        return Gap(name, attribute, control, kind, value, low, high, least, most)

    def _large_enough(self, name: str, control: int, places: Int, smallest: int) -> Int:
        """Places of the groups with `smallest` rows that a metric is of; all, if fewer than two."""
        large = places[self.shaped(self.metrics[name].n)[control, places] >= smallest]
        return large if len(large) >= 2 else places

    def _compare(self, name: str, kind: GapKind, chosen: Int, values: Float) -> Estimates:
        """The gap or ratio of some cells, with NaN ends where there is no interval."""
        level = self.settings.level
        narrow = self.estimates(name, level)
        wide = self.estimates(name, corrected_level(level, pairs_of(len(chosen))))
        nothing = np.full(len(chosen), np.nan)
        if narrow is None or wide is None:
            narrow = Estimates(values, nothing, nothing)
            wide = narrow
        else:
            narrow = Estimates(*(column[chosen] for column in narrow))
            wide = Estimates(*(column[chosen] for column in wide))
        if kind == "difference":
            return largest_difference(narrow, wide)
        narrow = narrow._replace(low=np.maximum(narrow.low, 0.0))
        wide = wide._replace(low=np.maximum(wide.low, 0.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            return smallest_ratio(narrow, wide)

    def _shortage(self, name: str, control: int, places: Int) -> str:
        """Say why groups cannot be compared; empty if they can."""
        metric = self.metrics[name]
        if metric.value.dtype == object:
            return f"{name} gives no single number"
        too_small = self._lacking(places)
        if too_small:
            return f"{self.grouping.name}: {too_small}, which must be measured"
        if len(places) >= 2:
            return ""
        left_out = left_out_words(self.left_out(name, control), self.settings.unit)
        note = f"; left out: {left_out}" if left_out else ""
        if self.grouping.size - int(self.grouping.missing.sum()) < 2:
            return f"{self.grouping.name}: only one group, nothing to compare it with{note}"
        return (
            f"{self.grouping.name}: fewer than two groups have {self.settings.min_cell} "
            f"{self.settings.unit} that {name} is of{note}"
        )

    def _lacking(self, places: Int) -> str:
        """Name the groups that must be measured and are not; empty if all are."""
        required = self.settings.required.get(self.grouping.name, ())
        texts = self.grouping.texts
        measured = [texts[place] for place in places.tolist()]
        too_small = []
        for group in required:
            if group not in measured:
                counted = self._rows_of(group)
                too_small.append(f"“{group}” has {counted:,} {self.settings.unit}")
        return ", ".join(too_small)

    def _rows_of(self, group: str) -> int:
        """Rows, or people, of a group over all levels of the control features."""
        texts = self.grouping.texts
        if group not in texts:
            return 0
        return int(self.shaped(self.rows)[:, texts.index(group)].sum())

    def left_out(self, name: str, control: int = 0) -> list[dict[str, Any]]:
        """List the groups that are not compared by a metric.

        Parameters
        ----------
        name : str
            Name of the metric.
        control : int
            Position of the level of the control features.

        Returns
        -------
        list of dict
            Per group ``group``, ``n`` (its rows or people), ``of`` (those that the metric is of)
            and ``reason``: ``missing``, ``too_few`` or ``undefined``. Groups without a row in the
            level are not listed.
        """
        size = self.grouping.size
        status = self.status(name)[control * size : (control + 1) * size]
        rows = self.shaped(self.rows)[control]
        n = self.shaped(self.metrics[name].n)[control]
        listed = []
        for place, text in enumerate(self.grouping.texts):
            if status[place] == "ok" or not rows[place]:
                continue
            listed.append(
                {
                    "group": text,
                    "n": int(rows[place]),
                    "of": int(n[place]),
                    "reason": status[place],
                }
            )
        return listed

    def catalogue_gap(
        self, name: str, label: Int | None, decided: Int, labels: int, control: int = 0
    ) -> Gap:
        """A metric of the catalogue that compares groups, such as ``gap_max``.

        Parameters
        ----------
        name : str
            One of :data:`evenhand.fairlib.evaluation.metrics.GROUP_METRICS`.
        label, decided : int array, shape (n,)
            True and predicted labels, the favourable one of two coded 1; without true labels only
            metrics of the decisions.
        labels : int
            Number of labels, L.
        control : int
            Position of the level of the control features.

        Returns
        -------
        Gap
        """
        needs = GROUP_METRICS[name].needs
        true_labels = np.zeros(len(decided), dtype=np.int64) if label is None else label
        counts, by_label = self._label_counts(true_labels, decided, labels)
        needed = {"rows": by_label.sum(axis=-1, keepdims=True), "positives": by_label[:, -1:]}
        enough = (needed.get(needs, by_label) >= self.settings.min_cell).all(axis=-1)
        missing = np.tile(self.grouping.missing, self.levels) & ~self.settings.compares_missing
        inside = np.arange(len(enough)) // self.grouping.size == control
        chosen = np.flatnonzero(enough & ~missing & inside)
        attribute = self.grouping.name
        if len(chosen) < 2:
            reason = f"{attribute}: fewer than two groups have {self.settings.min_cell} "
            reason += f"{self.settings.unit} in each cell ({KINDS[needs]})"
            return Gap(name, attribute, control, "catalogue", None, None, None, "", "", reason)
        cells = self._rate_cells(true_labels, decided, counts, labels)
        value = float(GROUP_METRICS[name].function(counts[chosen]))
        if np.isnan(value):
            reason = "undefined on these rows: it would divide by zero"
            return Gap(name, attribute, control, "catalogue", None, None, None, "", "", reason)

        def _rows_of(rate: Rate) -> Float:
            base = rows_in(rate.base, true_labels, decided)
            return self._effective(rows_in(rate.hits, true_labels, decided), base)

        ends = gap_interval(name, cells, _rows_of, chosen, self.settings.level)
        low = min(float(ends.low), value)
        high = max(float(ends.high), value)
        return Gap(name, attribute, control, "catalogue", value, low, high, "", "")

    def calibration_gap(self, outcomes: Outcomes, control: int = 0) -> Gap:
        """Largest difference between groups of mean probability less share of positives.

        Parameters
        ----------
        outcomes : Outcomes
            The rows, of two labels with probabilities.
        control : int
            Position of the level of the control features.

        Returns
        -------
        Gap
        """
        name = "calibration_gap"
        attribute = self.grouping.name
        missing = self.grouping.missing & ~self.settings.compares_missing
        enough = self.shaped(self.rows)[control] >= self.settings.min_cell
        chosen = np.flatnonzero(enough & ~missing)
        if len(chosen) < 2:
            reason = f"{attribute}: fewer than two groups have {self.settings.min_cell} "
            reason += self.settings.unit
            return Gap(name, attribute, control, "catalogue", None, None, None, "", "", reason)
        cells = self.cells
        estimate = calibration_gap_interval(
            outcomes,
            cells.code,
            cells.size,
            chosen + control * self.grouping.size,
            cells.weights,
            self.settings.level,
        )
        value, low, high = (float(column) for column in estimate)
        return Gap(
            name, attribute, control, "catalogue", value, min(low, value), max(high, value), "", ""
        )

    def _label_counts(self, label: Int, decided: Int, labels: int) -> tuple[Float, Float]:
        """Sums of weights by cell, label and decision, and rows or people by cell and label."""
        cells = self.cells
        code = (cells.code * labels + label) * labels + decided
        shape = (cells.size, labels, labels)
        counts = np.bincount(code, cells.weights, minlength=int(np.prod(shape))).reshape(shape)
        by_label = np.stack([cells.counts(label == k) for k in range(labels)], axis=-1)
        return counts.astype(np.float64), by_label

    def _rate_cells(self, label: Int, decided: Int, counts: Float, labels: int) -> RateCells:
        """Counts with the effective rows of the selection rate and of each label's recall."""
        right = label == decided
        by_label = np.stack([self._effective(right, label == k) for k in range(labels)], axis=-1)
        return RateCells(counts, self._effective(decided == 1), by_label)

    def _effective(self, hit: Bool, rows: Bool | None = None) -> Float:
        """Effective rows behind a share of each cell: of all rows, or of some."""
        cells = self.cells
        if cells.is_plain:
            return cells.counts(rows)
        means = cells.means(hit.astype(np.float64), rows)
        return effective_number(means, means.mean, self.settings.level)


def _undefined(metric: CellMetric) -> Bool:
    """Whether each value is no number."""
    if metric.value.dtype == object:
        return np.zeros(len(metric.value), dtype=bool)
    return np.asarray(np.isnan(metric.value))


def left_out_words(groups: list[dict[str, Any]], unit: str) -> str:
    """Name groups that are left out, with their counts.

    Parameters
    ----------
    groups : list of dict
        As of :meth:`GroupTable.left_out`.
    unit : str
        What is counted: ``"rows"`` or ``"people"``.

    Returns
    -------
    str
    """
    texts = []
    for group in groups:
        size = f"{group['n']:,} {unit}"
        if group["n"] == 1:
            size = "1 person" if unit == "people" else "1 row"
        if group["reason"] == "too_few" and group["of"] < group["n"]:
            size += f", {group['of']:,} that count"
        texts.append(f"{group['group']} ({size})")
    return ", ".join(texts)


MakeMetric = Callable[[Cells], CellMetric]


def make_table(
    grouping: Grouping,
    controls: Grouping | None,
    makers: Mapping[str, MakeMetric],
    weights: Float | None,
    people: Int | None,
    settings: Settings,
) -> GroupTable:
    """Compute metrics in the groups of an attribute.

    Parameters
    ----------
    grouping : Grouping
        The groups.
    controls : Grouping, optional
        Levels of the control features.
    makers : mapping
        By metric a function that computes it in cells.
    weights : array, shape (n,), optional
        Weights of the rows.
    people : int array, shape (n,), optional
        Number of every row's person.
    settings : Settings
        How groups are compared.

    Returns
    -------
    GroupTable
    """
    code = grouping.code
    size = grouping.size
    if controls is not None:
        code = controls.code * grouping.size + grouping.code
        size *= controls.size
    cells = Cells(code, size, weights, people)
    metrics = {name: make(cells) for name, make in makers.items()}
    return GroupTable(grouping, controls, cells, metrics, cells.counts(), settings)


@dataclass(frozen=True, eq=False)
class ModelTables:
    """One model's metrics of the table as a whole and by attribute."""

    overall: GroupTable
    attributes: Mapping[str, GroupTable]  # each attribute alone, and every pair
    joint: GroupTable  # of all attributes together
    # by attribute without control features, for the verdict; the same where there are none
    marginal: Mapping[str, GroupTable]
