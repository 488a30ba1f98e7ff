"""The rows of an evaluation: labels, predictions, scores, groups and counterfactual agreement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.catalogue import attribute_names
from evenhand.fairlib.evaluation.closed_intervals import (
    exact_interval,
    pairwise_ratios,
    rate_interval,
)
from evenhand.fairlib.evaluation.group_selection import JOINT, MISSING, is_missing
from evenhand.fairlib.row_order import check_row_order

PAIR_SEPARATOR = "&"
# A number, or a range of numbers as contracts name it: <25, 25-39, 0.5 to <1.5, >=60.
RANGE = re.compile(r"^(?:(?P<below><)|>=)?(?P<low>-?\d+(?:\.\d+)?)(?:(?:-| to <)-?\d+(?:\.\d+)?)?$")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Labels and predictions of a classifier on n people, column by column, of shape (n,) each.

    ValueError if lengths differ, there is no row, a label is not 0 or 1 (or a position in
    `classes`), a score is not finite or outside [0, 1], a group label is not a string, a group is
    observed that ``groups`` does not list, or the favourable label is neither 0 nor 1.
    """

    # true and predicted labels: 0 or 1, or positions in `classes`
    y_true: Int
    y_pred: Int
    # predicted probability of label 1, in [0, 1]; of `classes` that of each, shape (n, L)
    score: Float
    # group label of every row, per sensitive attribute
    sensitive: Mapping[str, NDArray[np.object_]]
    # per set of counterfactual copies: True where all copies of the row got the same predicted
    # label
    consistent: Mapping[str, Bool] = field(default_factory=dict)
    # groups that are known to exist, per attribute; default: those observed. A known group without
    # a row stays in every table with a count of zero; metrics leave it out and name it.
    groups: Mapping[str, Iterable[str]] = field(default_factory=dict)
    classes: tuple[str, ...] = ()  # names of the L labels where there are more than two
    # numbers of the people that rows are of, where a person may have several: intervals draw people
    people: Int | None = None
    # label, 1 or 0, that is the good outcome for a person: selection rates, the impact ratio, equal
    # opportunity and the Theil index are of it
    favourable: int = 1
    # False: `people` numbers groups of several people, so that rows count where a metric needs
    # enough people
    counts_people: bool = True

    def __post_init__(self) -> None:
        """Validate, and bring every column to its one type."""
        check_row_order(
            y_true=self.y_true,
            y_pred=self.y_pred,
            score=self.score,
            sensitive=self.sensitive,
            consistent=self.consistent,
            people=self.people,
        )
        y_true = _codes("y_true", self.y_true, len(self.classes))
        n = len(y_true)
        if n == 0:
            raise ValueError("y_true: got 0 rows, expected at least 1; evaluate a non-empty split")
        sensitive = {name: _strings(name, column, n) for name, column in self.sensitive.items()}
        columns = {
            "y_true": y_true,
            "y_pred": _codes("y_pred", self.y_pred, len(self.classes), n),
            "score": _probabilities(self.score, n, len(self.classes)),
            "sensitive": sensitive,
            "consistent": {name: _flags(name, flag, n) for name, flag in self.consistent.items()},
            "groups": _known_groups(self.groups, sensitive),
        }
        if self.people is not None:
            columns["people"] = _numbers("people", self.people, n)
        for key, column in columns.items():
            object.__setattr__(self, key, column)
        if self.favourable not in (0, 1):
            raise ValueError(f"favourable: got {self.favourable!r}, expected the label 0 or 1")
        if self.classes and self.favourable != 1:
            raise ValueError(
                "favourable: got 0 with more than two labels, expected 1; leave it out"
            )

    def with_favourable_last(self) -> Outcomes:
        """Exchange both labels where label 0 is the favourable one; then label 1 is."""
        if self.favourable == 1:
            return self
        return replace(
            self,
            y_true=1 - self.y_true,
            y_pred=1 - self.y_pred,
            score=1.0 - self.score,
            favourable=1,
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y_true)

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """Rank of each row's score among the distinct scores, shape (n,), from 0; sorted once.

        With more than two labels the score is the probability of the true one.
        """
        score = self.score[np.arange(self.n), self.y_true] if self.classes else self.score
        order = np.argsort(score)
        ordered = score[order]
        rises = np.concatenate([[False], ordered[1:] != ordered[:-1]])
        del ordered  # millions of scores
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.cumsum(rises)
        return ranks


def overall_rates(outcomes: Outcomes) -> dict[str, dict[str, float]]:
    """Shares of people with the positive label, predicted and observed.

    Parameters
    ----------
    outcomes : Outcomes
        Labels and predictions.

    Returns
    -------
    dict
        ``rates``: ``predicted`` and ``observed``; empty with more than two labels.
    """
    if outcomes.classes:
        return {}
    predicted = float((outcomes.y_pred == 1).mean())
    observed = float((outcomes.y_true == 1).mean())
    return {"rates": {"predicted": predicted, "observed": observed}}


def with_intersections(sensitive: Mapping[str, ArrayLike]) -> dict[str, NDArray[np.object_]]:
    """Add the intersection of every pair of attributes, after the given attributes.

    Parameters
    ----------
    sensitive : mapping
        Group labels by attribute, as in :class:`Outcomes`.

    Returns
    -------
    dict
        The given columns, then attribute ``"a&b"`` of every pair, with the label ``"x & y"`` where
        ``a`` is ``x`` and ``b`` is ``y``.

    Raises
    ------
    ValueError
        If a pair's name is taken, the columns' lengths differ, or two different pairs of groups
        would share a label.
    """
    n = len(np.asarray(next(iter(sensitive.values()), ())))
    columns = {name: _strings(name, column, n) for name, column in sensitive.items()}
    encoded = {name: encode_groups(column) for name, column in columns.items()}
    result = dict(columns)
    for first, second in combinations(columns, 2):
        name = f"{first}{PAIR_SEPARATOR}{second}"
        if name in result:
            raise ValueError(
                f"sensitive: {name!r} is both given and an intersection; rename the given one"
            )
        groups_a, codes_a = encoded[first]
        groups_b, codes_b = encoded[second]
        code = codes_a * len(groups_b) + codes_b
        present = np.bincount(code, minlength=len(groups_a) * len(groups_b)) > 0
        labels = []
        for pair in np.flatnonzero(present).tolist():
            place_a, place_b = divmod(pair, len(groups_b))
            labels.append(f"{groups_a[place_a]}{JOINT}{groups_b[place_b]}")
        if len(set(labels)) < len(labels):
            raise ValueError(
                f"sensitive: two pairs of groups of {first!r} and {second!r} share one joint "
                "label; rename the groups that contain ' & '"
            )
        result[name] = np.array(labels, dtype=object)[(np.cumsum(present) - 1)[code]]
    return result


def groups_by(sensitive: Mapping[str, ArrayLike], attribute: str) -> NDArray[Any]:
    """Group of every row by an attribute, or by several crossed ones.

    Parameters
    ----------
    sensitive : mapping
        Group labels by attribute.
    attribute : str
        A key of `sensitive`, or several joined by ``&``.

    Returns
    -------
    ndarray of str or object, shape (n,)
        Of crossed attributes the labels joined by ``" & "``.

    Raises
    ------
    KeyError
        If the attribute is none of `sensitive`, and crosses none of them.
    ValueError
        If two different crossed groups would share a label.

    Examples
    --------
    >>> sensitive = {"sex": ["f", "m"], "race": ["b", "w"]}
    >>> groups_by(sensitive, "sex&race").tolist()
    ['f & b', 'm & w']
    """
    names = attribute_names(attribute, sensitive)
    if len(names) == 1:
        return np.asarray(sensitive[attribute])
    labels: list[str] = [""]
    code = np.zeros(len(np.asarray(sensitive[names[0]])), dtype=np.int64)
    # one attribute after another, so that only combinations of the rows get a label
    for place, name in enumerate(names):
        groups, code_of_attribute = encode_groups(np.asarray(sensitive[name], dtype=object))
        code = code * len(groups) + code_of_attribute
        present, code = np.unique(code, return_inverse=True)
        joined = []
        for number in present.tolist():
            before, last = divmod(number, len(groups))
            label = groups[last]
            if place > 0:
                label = f"{labels[before]}{JOINT}{label}"
            joined.append(label)
        labels = joined
    if len(set(labels)) < len(labels):
        raise ValueError(
            f"two crossed groups of {attribute!r} share one label: rename the groups that contain "
            f"{JOINT!r}"
        )
    return np.array(labels, dtype=object)[code]


def encode_groups(
    column: NDArray[np.object_], groups: Iterable[str] = ()
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Give the sorted groups of a column, with further `groups`, and each row's position among
    them, (n,).

    Parameters
    ----------
    column : ndarray, shape (n,)
        Group labels.
    groups : sequence of str, default ()
        Further groups, which no row may have.

    Returns
    -------
    tuple of tuple of str and ndarray of int32
        Groups in sorted order, and positions, shape (n,).
    """
    from pandas import factorize

    # a hash table is ten times faster than sorting a million Python strings
    codes, observed = factorize(column)
    ordered = tuple(sorted({*observed.tolist(), *groups}))
    position = {group: k for k, group in enumerate(ordered)}
    positions = np.array([position[group] for group in observed.tolist()], dtype=np.int32)
    return ordered, positions[codes]


def _vector(argument: str, values: ArrayLike, n: int | None, width: int = 0) -> NDArray[Any]:
    """A column of n rows as an array, or a table of `width` columns where that is not 0."""
    array = np.asarray(values)
    expected_shape: tuple[int, ...] = ()
    dimensions = "1"
    if width:
        expected_shape = (width,)
        dimensions = f"2, the second of {width} columns"
    if array.shape[1:] != expected_shape:
        raise ValueError(
            f"{argument}: got {array.ndim} dimensions, expected {dimensions}; pass one value per "
            "row"
        )
    if n is not None and len(array) != n:
        raise ValueError(
            f"{argument}: got {len(array)} rows, expected {n} as in y_true; align the rows"
        )
    return array


def _codes(argument: str, values: ArrayLike, classes: int, n: int | None = None) -> Int:
    """Labels as int64: 0 and 1, or positions among so many classes."""
    array = _vector(argument, values, n)
    wrong = len(array)
    if array.dtype.kind in "biuf" and not classes:
        wrong = int(np.sum((array != 0) & (array != 1)))
    elif array.dtype.kind in "iu":
        wrong = int(np.sum((array < 0) | (array >= classes)))
    if wrong:
        allowed = f"whole numbers from 0 to {classes - 1}" if classes else "0 or 1"
        raise ValueError(
            f"{argument}: {wrong} of {len(array)} values are not {allowed}; encode the labels so"
        )
    return array.astype(np.int64, copy=False)


def _probabilities(values: ArrayLike, n: int, classes: int) -> Float:
    """Scores as finite float64 numbers in [0, 1]."""
    array = _vector("score", values, n, classes)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"score: got dtype {array.dtype}, expected float; pass the probability of label 1"
        )
    score = array.astype(np.float64, copy=False)
    for wrong, fault in (
        (~np.isfinite(score), "are NaN or infinite"),
        ((score < 0) | (score > 1), "lie outside [0, 1]"),
    ):
        if wrong.any():
            raise ValueError(
                f"score: {int(wrong.sum())} of {wrong.size} values {fault}; pass probabilities"
            )
    return score


def _strings(name: str, values: ArrayLike, n: int) -> NDArray[np.object_]:
    """Group labels as Python strings."""
    argument = f"sensitive[{name!r}]"
    column = _vector(argument, values, n)
    from pandas.api.types import infer_dtype

    array = column.astype(object, copy=False)
    if infer_dtype(array, skipna=False) not in ("string", "empty"):
        wrong = sum(not isinstance(value, str) for value in array.tolist())
        raise ValueError(
            f"{argument}: {wrong} of {n} group labels are not strings; "
            "convert them to str and name missing ones 'missing'"
        )
    _check_name("sensitive", name)
    return array


def _numbers(argument: str, values: ArrayLike, n: int) -> Int:
    """Numbers of people as int64."""
    array = _vector(argument, values, n)
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"{argument}: got dtype {array.dtype}, expected whole numbers; number the people"
        )
    return array.astype(np.int64, copy=False)


def _flags(name: str, values: ArrayLike, n: int) -> Bool:
    """Flags of consistency as booleans."""
    argument = f"consistent[{name!r}]"
    array = _vector(argument, values, n)
    if array.dtype.kind != "b":
        raise ValueError(
            f"{argument}: got dtype {array.dtype}, expected bool; pass True where all copies agree"
        )
    _check_name("consistent", name)
    return array


def _check_name(argument: str, name: str) -> None:
    """ValueError for the endings under which the bounds of metrics are logged."""
    if not name or name.endswith((".low", ".high")):
        raise ValueError(
            f"{argument}: got the name {name!r}, expected a name that does not end in .low or .high"
        )


def _known_groups(
    groups: Mapping[str, Iterable[str]], sensitive: Mapping[str, NDArray[np.object_]]
) -> dict[str, tuple[str, ...]]:
    """Known groups per attribute, sorted."""
    unknown = sorted(set(groups) - set(sensitive))
    if unknown:
        raise ValueError(
            f"groups: got attributes {unknown}, expected some of {sorted(sensitive)}; correct the "
            "name"
        )
    listed_groups = {name: tuple(sorted(set(listed))) for name, listed in groups.items()}
    for name, listed in listed_groups.items():
        unlisted = len(set(sensitive[name].tolist()) - set(listed))
        if unlisted:
            raise ValueError(
                f"groups[{name!r}]: {unlisted} observed group(s) are not listed; list every group"
            )
    return listed_groups


def list_cells(
    groups: Sequence[str], counts: Int, min_cell: int, classes: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """List the counts of one sensitive attribute, a row per group and label.

    Parameters
    ----------
    groups : sequence of str
        Names of the K groups.
    counts : ndarray of int64, shape (K, L, L)
        Rows per group, true label and predicted label.
    min_cell : int
        Fewest rows of a cell that is enough.
    classes : sequence of str, default ()
        Names of the L labels where there are more than two.

    Returns
    -------
    list of dict
        In the order of the groups, those that are ranges of numbers from low to high. Per group and
        label ``group``, ``label`` (0 or 1), ``n``, ``predicted_positive``, ``rate`` =
        predicted_positive / n (None in an empty cell) and ``enough``. With `classes`, ``label`` is
        one of them, ``right`` are the rows predicted so, which ``rate`` is of, ``predicted`` all
        rows of the group that are predicted so, and ``taken_for`` the labels that most of the other
        rows get, the most frequent first, at most two, if the other rows are at least `min_cell`.
    """
    cells = []
    tables = counts.tolist()
    for place in _in_order_of_ranges(groups):
        group = groups[place]
        table = tables[place]
        for label in range(len(table)):
            if classes:
                cells.append(_cell_of_class(group, label, table, min_cell, classes))
            else:
                cells.append(_cell_of_label(group, label, table[label], min_cell))
    return cells


def _in_order_of_ranges(groups: Sequence[str]) -> list[int]:
    """Places of groups such as ``<25``, ``25-39`` and ``>=60`` from low to high, and others after
    them; as they are, if a name is no range.
    """
    lows: dict[int, float] = {}
    for place, group in enumerate(groups):
        match = RANGE.match(group)
        if group == MISSING:
            lows[place] = np.inf
        elif match is None:
            return list(range(len(groups)))
        elif match["below"]:
            lows[place] = -np.inf
        else:
            lows[place] = float(match["low"])
    return sorted(lows, key=lows.__getitem__)


def _cell_of_label(group: str, label: int, row: Sequence[int], min_cell: int) -> dict[str, Any]:
    """One cell of :func:`list_cells` for two labels; `row` are its rows by predicted label."""
    n = sum(row)
    positive = row[1]
    return {
        "group": group,
        "label": label,
        "n": n,
        "predicted_positive": positive,
        "rate": positive / n if n else None,
        "enough": n >= min_cell,
    }


def _cell_of_class(
    group: str, label: int, table: Sequence[Sequence[int]], min_cell: int, classes: Sequence[str]
) -> dict[str, Any]:
    """One cell of :func:`list_cells` for more labels; `table` are the group's rows, (L, L)."""
    row = table[label]
    n = sum(row)
    right = row[label]
    confused = []
    if n - right >= min_cell:
        by_frequency = sorted(range(len(row)), key=lambda j: -row[j])
        confused = [classes[j] for j in by_frequency if j != label and row[j]]
    return {
        "group": group,
        "label": classes[label],
        "n": n,
        "right": right,
        "rate": right / n if n else None,
        "enough": n >= min_cell,
        "predicted": sum(row_of_label[label] for row_of_label in table),
        "taken_for": confused[:2],
    }


class Rate(NamedTuple):
    """A share of rows with its exact interval; None where there are fewer rows than the minimum."""

    hits: int
    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


class GroupRates(NamedTuple):
    """One group: base rate, selection rate, true positive rate, true negative rate, impact ratio.

    The base rate is the share of rows whose true label is the favourable outcome, the selection
    rate that of rows which are predicted so. TPR and TNR are of the labels 1 and 0, whichever is
    favourable. The impact ratio is the selection rate over the largest of any group; that of
    missing values is no group and has none. There is no interval for the group of the largest rate
    itself.
    """

    group: str
    n: int
    positive: Rate
    selected: Rate
    tpr: Rate
    tnr: Rate
    impact: Rate


def group_rates(
    cells: Sequence[Mapping[str, Any]], min_cell: int, level: float = 0.95, favourable: int = 1
) -> list[GroupRates]:
    r"""Compute the rates of groups, in the order in which they first occur.

    Parameters
    ----------
    cells : sequence
        Counts of :func:`list_cells`, with ``group``, ``label``, ``n`` and ``predicted_positive``;
        an absent cell counts no rows.
    min_cell : int
        A rate over fewer rows is None.
    level : float, default 0.95
        Coverage of the intervals: exact ones of rates, those of
        :func:`evenhand.fairlib.evaluation.closed_intervals.pairwise_ratios` of impact ratios.
    favourable : int, default 1
        Label, 1 or 0, that base rates, selection rates and impact ratios are of.

    Returns
    -------
    list of GroupRates
        One entry a group.

    Examples
    --------
    >>> cells = [
    ...     {"group": "a", "label": 1, "n": 10, "predicted_positive": 8},
    ...     {"group": "b", "label": 1, "n": 10, "predicted_positive": 4},
    ... ]
    >>> [(group.group, group.impact.value) for group in group_rates(cells, min_cell=5)]
    [('a', 1.0), ('b', 0.5)]
    """

    def _rate(hits: int, n: int) -> Rate:
        if n < max(min_cell, 1):
            return Rate(hits, n)
        return Rate(hits, n, hits / n, *rate_interval(hits, n, level))

    tally: dict[str, list[list[int]]] = {}
    for cell in cells:
        rows = tally.setdefault(cell["group"], [[0, 0], [0, 0]])
        rows[cell["label"]][0] += cell["n"]
        rows[cell["label"]][1] += cell["predicted_positive"]
    selected = {}
    favoured = {}  # rows whose true label is the favourable one
    for group, ((n0, p0), (n1, p1)) in tally.items():
        n = n0 + n1
        positives = p0 + p1
        selected[group] = _rate(positives if favourable == 1 else n - positives, n)
        favoured[group] = _rate(n1 if favourable == 1 else n0, n)
    compared = [_rate for group, _rate in selected.items() if not is_missing(group)]
    largest = max(compared, key=lambda selection: selection.value or 0.0, default=Rate(0, 0))
    rates = []
    for group, ((n0, p0), (n1, p1)) in tally.items():
        rates.append(
            GroupRates(
                group,
                n0 + n1,
                positive=favoured[group],
                selected=selected[group],
                tpr=_rate(p1, n1),
                tnr=_rate(n0 - p0, n0),
                impact=_impact(selected[group], largest, level, is_missing(group)),
            )
        )
    return rates


def _impact(rate: Rate, largest: Rate, level: float, missing: bool) -> Rate:
    """Ratio of two selection rates with its interval; none of missing values."""
    if missing or rate.value is None or not largest.value:
        return Rate(rate.hits, rate.n)
    value = rate.value / largest.value
    if rate is largest:
        return Rate(rate.hits, rate.n, value)
    rate_intervals = exact_interval([rate.hits, largest.hits], [rate.n, largest.n], level)
    ratios = pairwise_ratios(rate_intervals)
    return Rate(rate.hits, rate.n, value, float(ratios.low[0, 1]), float(ratios.high[0, 1]))


def score_histograms(outcomes: Outcomes, *, min_cell: int = 5) -> dict[str, dict[str, Any]]:
    """Count scores per sensitive attribute, group and bin.

    Parameters
    ----------
    outcomes : Outcomes
        Rows of two labels.
    min_cell : int, default 5
        Fewest rows of a group with counts; so few scores would show single people.

    Returns
    -------
    dict
        Per attribute ``{"edges": [21 floats], "groups": {group: [20 ints] or None}}``, with equal
        bins of [0, 1].
    """
    bins = 20
    edges = np.linspace(0.0, 1.0, bins + 1)
    bin_of_row = np.clip(np.searchsorted(edges, outcomes.score, side="right") - 1, 0, bins - 1)
    result = {}
    for attribute, column in outcomes.sensitive.items():
        groups, codes = encode_groups(column, outcomes.groups.get(attribute, ()))
        table = np.bincount(codes * bins + bin_of_row, minlength=len(groups) * bins)
        counts: dict[str, list[int] | None] = {}
        for group, row in zip(groups, table.reshape(-1, bins), strict=True):
            counts[group] = None
            if row.sum() >= min_cell:
                counts[group] = row.tolist()
        result[attribute] = {"edges": edges.tolist(), "groups": counts}
    return result
