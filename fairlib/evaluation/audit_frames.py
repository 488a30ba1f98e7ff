"""Results of an audit as pandas objects, in the form of Fairlearn's ``MetricFrame``, and tidy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from evenhand.fairlib.evaluation.audit_columns import Grouping
from evenhand.fairlib.evaluation.group_selection import MISSING
from evenhand.fairlib.evaluation.group_tables import (
    Gap,
    GapKind,
    GroupTable,
    ModelTables,
    left_out_words,
)

Method = Literal["between_groups", "to_overall"]
Errors = Literal["raise", "coerce"]
NO_NUMBERS = "some values are no single numbers: leave these metrics out, or use errors='coerce'"
TOO_FEW = (
    "fewer than two groups have the {min_cell} {unit} that {metric} needs, so there is no "
    "comparison; pass a smaller min_cell to compare them nevertheless"
)


class ModelFrames:
    """One model's results as ``MetricFrame`` has them.

    Parameters
    ----------
    tables : ModelTables
        The model's metrics.
    names : sequence of str
        Metrics that were asked for.
    """

    def __init__(self, tables: ModelTables, names: Sequence[str]) -> None:
        self.tables = tables
        self.names = list(names)

    @property
    def control_names(self) -> list[str]:
        """Names of the control features."""
        controls = self.tables.joint.controls
        return [] if controls is None else list(controls.columns)

    def overall(self) -> pd.Series | pd.DataFrame:
        """Metrics of all rows, a row per level of control features.

        Returns
        -------
        Series or DataFrame
            A Series by metric without control features.
        """
        table = self.tables.overall
        columns = {name: _values(table, name) for name in self.names}
        if table.controls is None:
            return pd.Series({name: column[0] for name, column in columns.items()})
        frame = pd.DataFrame(columns, index=_index([table.controls], table.controls.values))
        return _with_all_combinations(frame)

    def by_group(self) -> pd.DataFrame:
        """Metrics of every group of all attributes together, a column a metric.

        Returns
        -------
        DataFrame
            Combinations of values without a row are NaN, as in ``MetricFrame``.
        """
        columns = {name: _values(self.tables.joint, name) for name in self.names}
        return self._of_groups(columns)

    def compared(self) -> pd.DataFrame:
        """Whether each value of :meth:`by_group` is compared.

        Returns
        -------
        DataFrame of bool
        """
        joint = self.tables.joint
        columns = {name: joint.compared(name).ravel() for name in self.names}
        return self._of_groups(columns).fillna(False).astype(bool)

    def _of_groups(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        """Columns of cells as a frame, by control features and attributes."""
        joint = self.tables.joint
        parts: list[Grouping] = [joint.grouping]
        values = [tuple(group) for group in joint.grouping.values]
        if joint.controls is not None:
            parts.insert(0, joint.controls)
            values = []
            for level in joint.controls.values:
                values += [(*level, *group) for group in joint.grouping.values]
        frame = pd.DataFrame(columns, index=_index(parts, values))
        # a combination without a row is there only where MetricFrame has it
        frame = frame[joint.rows > 0]
        return _with_all_combinations(frame)

    def _numbers(self, errors: Errors) -> pd.DataFrame:
        """Values that are compared; the others NaN."""
        if errors not in ("raise", "coerce"):
            raise ValueError(f"errors: got {errors!r}, expected 'raise' or 'coerce'")
        frame = self.by_group()
        if errors == "raise" and "object" in map(str, frame.dtypes):
            raise ValueError(NO_NUMBERS)
        numbers = frame.apply(pd.to_numeric, errors="coerce")
        return numbers.where(self.compared())

    def extreme(self, which: Literal["min", "max"], errors: Errors) -> pd.Series | pd.DataFrame:
        """Smallest or largest value of the groups that are compared.

        Parameters
        ----------
        which : {"min", "max"}
            Which one.
        errors : {"raise", "coerce"}
            Whether values that are no numbers are an error or NaN.

        Returns
        -------
        Series or DataFrame
        """
        numbers = self._numbers(errors)
        return self._aggregate(numbers, which)

    def _aggregate(self, numbers: pd.DataFrame, which: str) -> pd.Series | pd.DataFrame:
        if self.control_names:
            return numbers.groupby(level=self.control_names).agg(which)
        return numbers.agg(which)

    def difference(self, method: Method, errors: Errors) -> pd.Series | pd.DataFrame:
        """Largest difference between two groups, or between a group and all rows.

        Parameters
        ----------
        method : {"between_groups", "to_overall"}
            Which differences.
        errors : {"raise", "coerce"}
            As of :meth:`extreme`.

        Returns
        -------
        Series or DataFrame
        """
        numbers = self._numbers(errors)
        self._warn_of_few(numbers)
        if _checked(method) == "between_groups":
            largest = self._aggregate(numbers, "max")
            smallest = self._aggregate(numbers, "min")
            return (largest - smallest).where(self._enough(numbers))
        distances = (numbers - self._aligned_overall(numbers)).abs()
        return self._aggregate(distances, "max")

    def ratio(self, method: Method, errors: Errors) -> pd.Series | pd.DataFrame:
        """Smallest ratio between two groups, or between a group and all rows, at most 1.

        Parameters
        ----------
        method : {"between_groups", "to_overall"}
            Which ratios.
        errors : {"raise", "coerce"}
            As of :meth:`extreme`.

        Returns
        -------
        Series or DataFrame
            NaN for 0 over 0.
        """
        numbers = self._numbers(errors)
        self._warn_of_few(numbers)
        if _checked(method) == "between_groups":
            quotient = self._aggregate(numbers, "min") / self._aggregate(numbers, "max")
            return quotient.where(self._enough(numbers))
        ratios = numbers / self._aligned_overall(numbers)
        below_one = ratios.where(~(ratios > 1), 1 / ratios)
        return self._aggregate(below_one, "min")

    def _aligned_overall(self, numbers: pd.DataFrame) -> Any:
        """Values of all rows, for every group that of its control level."""
        overall = self.overall()
        if isinstance(overall, pd.Series):
            return pd.to_numeric(overall, errors="coerce")
        group_columns: list[Any] = list(self.tables.joint.grouping.columns)
        level = numbers.index.droplevel(group_columns)
        aligned = overall.apply(pd.to_numeric, errors="coerce").reindex(level)
        return aligned.set_axis(numbers.index)

    def _enough(self, numbers: pd.DataFrame) -> Any:
        """Whether at least two groups are compared."""
        return self._aggregate(numbers.notna(), "sum") >= 2

    def _warn_of_few(self, numbers: pd.DataFrame) -> None:
        """Warn of metrics of which fewer than two groups can be compared."""
        settings = self.tables.joint.settings
        for name in self.names:
            counted = numbers[name].notna()
            if counted.sum() < 2 and self.tables.joint.metrics[name].value.dtype != object:
                message = TOO_FEW.format(
                    min_cell=settings.min_cell, unit=settings.unit, metric=name
                )
                warnings.warn(message, stacklevel=4)


def _checked(method: str) -> str:
    if method not in ("between_groups", "to_overall"):
        raise ValueError(f"method: got {method!r}, expected 'between_groups' or 'to_overall'")
    return method


def _values(table: GroupTable, name: str) -> Any:
    """Values of all cells of a metric."""
    return table.metrics[name].value


def _index(parts: Sequence[Grouping], values: Sequence[tuple[Any, ...]]) -> pd.Index:
    """Index of groups: of one column its values, of several tuples."""
    names: list[str] = []
    for part in parts:
        names += part.columns
    if len(names) == 1:
        return pd.Index([value[0] for value in values], name=names[0])
    return pd.MultiIndex.from_tuples(values, names=names)


def _with_all_combinations(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the combinations of values without a row; those with a missing value only where rows
    are.
    """
    index = frame.index
    if not isinstance(index, pd.MultiIndex):
        return frame
    levels = []
    for position in range(index.nlevels):
        values = index.get_level_values(position)
        levels.append([value for value in pd.unique(values) if value != MISSING])
    sizes = [len(level) for level in levels]
    if np.prod([float(size) for size in sizes]) > 10 * len(frame) + 1000:
        return frame
    whole = pd.MultiIndex.from_product(_sorted_like(index, levels), names=index.names)
    incomplete = [value for value in index if MISSING in value]
    if incomplete:
        whole = whole.append(pd.MultiIndex.from_tuples(incomplete, names=index.names))
    return frame.reindex(whole)


def _sorted_like(index: pd.MultiIndex, levels: Sequence[list[Any]]) -> list[list[Any]]:
    """Values of every level in sorted order."""
    ordered = []
    for level in levels:
        try:
            ordered.append(sorted(level))
        except TypeError:
            ordered.append(sorted(level, key=str))
    return ordered


def tidy_rows(
    tables: Sequence[GroupTable], names: Sequence[str], overall: GroupTable
) -> pd.DataFrame:
    """One row per metric and group, the table as a whole first.

    Parameters
    ----------
    tables : sequence of GroupTable
        Attributes.
    names : sequence of str
        Metrics.
    overall : GroupTable
        The table as a whole.

    Returns
    -------
    DataFrame
        ``metric``, ``attribute``, control features, ``group``, ``value``, ``lower``, ``upper``,
        ``n`` and ``status``.
    """
    parts = []
    for table in (overall, *tables):
        for name in names:
            parts.append(_tidy(table, name, is_overall=table is overall))
    return pd.concat(parts, ignore_index=True)


def _tidy(table: GroupTable, name: str, *, is_overall: bool) -> pd.DataFrame:
    """Rows of one metric and attribute."""
    metric = table.metrics[name]
    cells = len(metric.value)
    lower = np.full(cells, np.nan)
    upper = np.full(cells, np.nan)
    estimate = table.estimates(name)
    if estimate is not None:
        has_value = ~np.isnan(metric.value.astype(np.float64))
        lower = np.where(has_value, np.fmin(estimate.low, metric.value), np.nan)
        upper = np.where(has_value, np.fmax(estimate.high, metric.value), np.nan)
        lower = np.where(np.isnan(estimate.low), np.nan, lower)
        upper = np.where(np.isnan(estimate.high), np.nan, upper)
    columns: dict[str, Any] = {"metric": name, "attribute": "" if is_overall else _name_of(table)}
    columns |= control_columns(table)
    columns["group"] = np.tile(np.array(table.grouping.texts, dtype=object), table.levels)
    columns |= {"value": metric.value, "lower": lower, "upper": upper}
    columns |= {"n": metric.n.astype(np.int64), "status": table.status(name)}
    frame = pd.DataFrame(columns)
    return frame[table.rows > 0]


def _name_of(table: GroupTable) -> str:
    return table.grouping.name


def control_columns(table: GroupTable) -> dict[str, Any]:
    """Values of the control features of every cell, by name.

    Parameters
    ----------
    table : GroupTable
        A table of cells.

    Returns
    -------
    dict
    """
    if table.controls is None:
        return {}
    columns = {}
    for position, name in enumerate(table.controls.columns):
        values = [level[position] for level in table.controls.values]
        column = np.empty(len(values), dtype=object)
        column[:] = values
        columns[name] = np.repeat(column, table.grouping.size)
    return columns


def control_values(table: GroupTable, control: int) -> dict[str, Any]:
    """Values of the control features of one level, by name.

    Parameters
    ----------
    table : GroupTable
        A table of cells.
    control : int
        Position of the level.

    Returns
    -------
    dict
    """
    if table.controls is None:
        return {}
    return dict(zip(table.controls.columns, table.controls.values[control], strict=True))


def gap_rows(
    tables: Sequence[GroupTable],
    names: Sequence[str],
    catalogue: Sequence[str],
    of_catalogue: Callable[[GroupTable, str, int], Gap],
) -> pd.DataFrame:
    """One row per metric, attribute and kind of gap.

    Parameters
    ----------
    tables : sequence of GroupTable
        Attributes.
    names : sequence of str
        Metrics of single groups.
    catalogue : sequence of str
        Metrics of the catalogue that compare groups.
    of_catalogue : callable
        Computes one of these in a level of the control features.

    Returns
    -------
    DataFrame
        ``metric``, ``attribute``, control features, ``kind``, ``value``, ``lower``, ``upper``,
        ``lowest`` and ``highest`` group, ``status``, ``reason`` and ``left_out``.
    """
    kinds: tuple[GapKind, ...] = ("difference", "ratio")
    rows = []
    for table in tables:
        for control in range(table.levels):
            for name in catalogue:
                rows.append(_gap_row(table, of_catalogue(table, name, control)))
            for name in names:
                if name == "count":
                    continue
                for kind in kinds:
                    gap = table.gap(name, kind, control)
                    left_out = left_out_words(table.left_out(name, control), table.settings.unit)
                    rows.append(_gap_row(table, gap, left_out))
    return pd.DataFrame(rows)


def _gap_row(table: GroupTable, gap: Gap, left_out: str = "") -> dict[str, Any]:
    return {
        "metric": gap.metric,
        "attribute": gap.attribute,
        **control_values(table, gap.control),
        "kind": "gap" if gap.kind == "catalogue" else gap.kind,
        "value": np.nan if gap.value is None else gap.value,
        "lower": np.nan if gap.low is None else gap.low,
        "upper": np.nan if gap.high is None else gap.high,
        "lowest": gap.least,
        "highest": gap.most,
        "status": gap.status,
        "reason": gap.reason,
        "left_out": left_out,
    }
