r"""Real people within a fair distance of one person who are decided otherwise.

A real person has one category of each column, whole numbers where the column has whole numbers,
and values within the contract. Regions of certificates also have points between these values.

Branch and bound over the values of all columns. A part is one set of values for each column. It is
dropped if a lower bound of its fair distances exceeds the radius, or an upper bound of its margins
(:mod:`.margin_bounds`) does not reach the threshold of the other decision. The part with the
largest bound comes first. If no part is left, no real person within the radius is decided
otherwise.

**Distances.** For moves :math:`\delta` from the person within a box, and every point
:math:`\delta_0` of it, convexity gives

.. math:: \delta^\top \Sigma \delta \;\ge\; 2 \min_{s} s^\top \Sigma \delta_0
    - \delta_0^\top \Sigma \delta_0

with s over the box. Accelerated projected gradient steps move :math:`\delta_0` to the least
distance.
"""

from __future__ import annotations

import datetime
import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Index
from evenhand.fairlib.certificates.networks import NotProvedError
from evenhand.fairlib.certificates.region import Region
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.explanations.choices import NUMBERS, Choices, frame_of
from evenhand.fairlib.explanations.margin_bounds import MarginBounds, ModelMargins
from evenhand.fairlib.methods.decided import predictions_of
from evenhand.fairlib.preprocessing.encoder import (
    MISSING,
    FittedColumn,
    TableEncoder,
    UnseenCategories,
)

# Parts that are looked at for one person.
MOST_PARTS = 3000
# Steps towards the least distance of a part, and steps between two looks at the bound.
STEPS = 60
LOOK = 6
# Relative and absolute rounding of a fair distance at the radius.
TOLERANCE = 1e-9
# The threshold of margins is known up to this much.
SLACK = 1e-8
# Significant digits of a shown person's numbers, the fewest that will do.
ROUND_DIGITS = (2, 3, 4, 6)
# Whole numbers that are values of their own; of more, trees read those between two splits as one.
MOST_SINGLE = 5000
MOST_WHOLE = 200_000
# Columns of more values are not tested value by value before the search.
MOST_TESTED = 100
# Sets of categories that columns of this kind can have are finite.
LISTED = ("onehot", "binary", "ordinal")
# Stands for every category that no training row had, where the encoder takes them.
UNLISTED = "another value"
FIRST_DAY = datetime.date(1970, 1, 1)


@dataclass(frozen=True)
class RealValues:
    """The values that real people may have in a column.

    Parameters
    ----------
    column : str
        Name of the column.
    values : sequence or None, default None
        All that people may have; None: the categories of the training rows, and all numbers within
        the bounds.
    minimum, maximum : float or None, default None
        Of numbers: inclusive bounds; None: those of the metric's training rows.
    whole : bool, default False
        Whether a number is a whole one.
    optional : bool, default False
        Whether the value may be missing.
    """

    column: str
    values: Sequence[Any] | None = None
    minimum: float | None = None
    maximum: float | None = None
    whole: bool = False
    optional: bool = False


@dataclass(frozen=True)
class SearchedPeople:
    """Result of a search among real people.

    Parameters
    ----------
    status : {"none", "found", "unknown"}
        ``"none"`` is a proof.
    differs : mapping of str to value, default empty
        Columns in which the person found differs, with that person's values.
    distance : float or None, default None
        Fair distance of the person found.
    reason : str, default ""
        Why it is not known.
    parts : int, default 0
        Parts that were looked at.
    """

    status: str
    differs: Mapping[str, Any] = field(default_factory=dict)
    distance: float | None = None
    reason: str = ""
    parts: int = 0


class RealPeopleSearch:
    """Searches real people near many people of one model.

    Parameters
    ----------
    model : Method or DecidedModel
        Fitted, for two labels.
    encoder : TableEncoder
        Fitted encoder of its rows.
    metric : Metric
        Fitted fair metric.
    radius : float
        Fair distance up to which people are comparable.
    values : mapping of str to RealValues
        By column; a column without an entry has the categories of the training rows, and numbers
        in the range of the metric's training rows.
    most_parts : int, default 3000
        Parts that are looked at for one person before the search ends.
    groups_of : callable, or None, default None
        ``groups_of(rows)`` is the group of each row, where decisions depend on it.

    Raises
    ------
    NotProvedError
        If no bounds of the model's margins are known.
    """

    def __init__(
        self,
        model: Any,
        encoder: TableEncoder,
        metric: Metric,
        radius: float,
        values: Mapping[str, RealValues],
        *,
        most_parts: int = MOST_PARTS,
        groups_of: Callable[[Sequence[Mapping[str, Any]]], Any] | None = None,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.metric = metric
        self.radius = radius
        self.values = values
        self.most_parts = most_parts
        self.groups_of = groups_of
        if groups_of is not None and not set(model.rule.columns) <= set(encoder.groups_):
            raise NotProvedError(
                f"decisions depend on the group by {model.rule.attribute!r}, which is no input."
            )
        margins = ModelMargins.of(model)
        if margins is None:
            raise NotProvedError("no bounds are known for this kind of model.")
        self.margins = margins
        self.cuts = margins.cuts()
        self.matrix = np.asarray(metric.weigh(np.eye(metric.n_features_in_)), dtype=np.float64)
        self.largest = float(np.linalg.eigvalsh(self.matrix)[-1])
        self._listed: dict[str, tuple[list[Any], Float32]] = {}

    @property
    def farthest(self) -> float:
        """The radius with its rounding."""
        return self.radius * (1.0 + TOLERANCE) + TOLERANCE

    def search(
        self, row: Mapping[str, Any], encoded: Float32, *, is_positive: bool
    ) -> SearchedPeople:
        """Search a real person within the radius who is decided otherwise.

        Parameters
        ----------
        row : mapping of str to value
            The person's values as in the table; None where one is missing.
        encoded : ndarray of float32, shape (d,)
            The same, encoded.
        is_positive : bool
            Decision about the person.

        Returns
        -------
        SearchedPeople
        """
        try:
            columns = self._columns(row, encoded)
        except NotListedError as error:
            return SearchedPeople("unknown", reason=str(error))
        return _Search(self, row, encoded, columns, is_positive=is_positive).run()

    # values of columns

    def _columns(self, row: Mapping[str, Any], encoded: Float32) -> list[Cells]:
        """The values near the person of every column that has more than the person's own one."""
        region = Region.of(self.metric, encoded[None], self.farthest)
        eye = np.eye(len(encoded))
        highest = region.support(eye)[0]
        lowest = -region.support(-eye)[0]
        columns = []
        for item in self.encoder.fitted_:
            places = np.array(self.encoder.groups_[item.name])
            ends = (lowest[places], highest[places])
            stated = self.values.get(item.name, RealValues(item.name))
            if item.kind in LISTED:
                cells = self._categories(stated, row, encoded[places], places, ends)
            elif item.kind in (*NUMBERS, "date"):
                cells = self._numbers(item, stated, row, encoded[places], places, ends)
            elif (ends[0] < ends[1]).any():
                raise NotListedError(
                    f"values of the encoding {item.kind} cannot be listed (column {item.name})"
                )
            else:
                continue
            if len(cells.choices) > 1:
                columns.append(cells)
        return columns

    def _categories(
        self,
        stated: RealValues,
        row: Mapping[str, Any],
        own: Float32,
        places: Index,
        ends: tuple[Float, Float],
    ) -> Cells:
        """Categories whose numbers are each within reach."""
        values, rows = self._encoded_categories(stated, row, places)
        in_reach = ((rows >= ends[0]) & (rows <= ends[1])).all(axis=1)
        is_own = (rows == own).all(axis=1)
        chosen = np.flatnonzero(in_reach & ~is_own)
        listed = [row[stated.column], *[values[place] for place in chosen.tolist()]]
        encoded = np.concatenate([own[None], rows[chosen]])
        return Cells.of_single(stated.column, places, listed, encoded)

    def _encoded_categories(
        self, stated: RealValues, row: Mapping[str, Any], places: Index
    ) -> tuple[list[Any], Float32]:
        """All categories that people may have, and their numbers, the same for everybody."""
        name = stated.column
        if name not in self._listed:
            values: list[Any] = [value for value in self.encoder.accepted(name) if value != MISSING]
            if self.encoder.unseen == "ignore":
                values.append(UNLISTED)
            if stated.values is not None:
                values = list(stated.values)
            if stated.optional:
                values.append(None)
            readable = []
            encoded = []
            for value in values:
                try:
                    matrix = self.encoder.transform(frame_of([{**row, name: value}], self.encoder))
                except UnseenCategories:
                    # nobody with this value can be decided about
                    continue
                readable.append(value)
                encoded.append(matrix[0, places])
            shape = (len(encoded), len(places))
            self._listed[name] = (readable, np.array(encoded, dtype=np.float32).reshape(shape))
        return self._listed[name]

    def _numbers(
        self,
        item: FittedColumn,
        stated: RealValues,
        row: Mapping[str, Any],
        own_row: Float32,
        places: Index,
        ends: tuple[Float, Float],
    ) -> Cells:
        """Numbers within reach, and the missing value, if it is."""
        own_value = row[item.name]
        low, high = _stated_ends(item, stated, ends)
        cells = Cells.of_single(item.name, places, [own_value], own_row[None])
        moves = bool(ends[0][0] < ends[1][0])
        has_indicator = len(places) > 1
        if has_indicator and own_value is None:
            moves = bool(ends[0][1] <= 0.0)
        if moves and low <= high:
            intervals = self._intervals(item, stated, low, high, int(places[0]))
            cells = cells.joined(intervals, own=None if own_value is None else float(own_row[0]))
        if has_indicator and stated.optional and own_value is not None and ends[1][1] >= 1.0:
            without = frame_of([{**row, item.name: None}], self.encoder)
            cells = cells.with_missing(self.encoder.transform(without)[:, places])
        return cells

    def _intervals(
        self, item: FittedColumn, stated: RealValues, low: float, high: float, place: int
    ) -> Intervals:
        """Numbers of a column between two ends, as the column has them."""
        if stated.values is not None:
            return _listed_numbers(item, stated.values, low, high)
        if stated.whole or item.kind == "date":
            return self._whole(item, low, high, place)
        return self._between_cuts(item, low, high, place)

    def _whole(self, item: FittedColumn, low: float, high: float, place: int) -> Intervals:
        """Whole numbers, each on its own, or of many those between two splits together."""
        first = math.ceil(low - 1e-9)
        last = math.floor(high + 1e-9)
        if last - first > MOST_WHOLE:
            raise NotListedError(f"the column {item.name} has too many values within reach")
        numbers = np.arange(first, last + 1)
        encoded = ((numbers - item.centre) / item.scale).astype(np.float32)
        values: list[Any] = numbers.tolist()
        if item.kind == "date":
            values = [FIRST_DAY + datetime.timedelta(days=number) for number in values]
        if len(numbers) <= MOST_SINGLE or self.cuts is None:
            return Intervals(values, encoded, encoded)
        part = np.searchsorted(self.cuts.get(place, np.empty(0)), encoded, side="right")
        starts = np.flatnonzero(np.append(True, np.diff(part) != 0))
        stops = np.append(starts[1:], len(part)) - 1
        return Intervals([values[start] for start in starts], encoded[starts], encoded[stops])

    def _between_cuts(self, item: FittedColumn, low: float, high: float, place: int) -> Intervals:
        """Numbers between two splits together."""
        if self.cuts is None:
            raise NotListedError(f"the column {item.name} has numbers that are not whole")
        edges = [(low - item.centre) / item.scale, (high - item.centre) / item.scale]
        start = np.float32(min(edges))
        stop = np.float32(max(edges))
        cuts = self.cuts.get(place, np.empty(0))
        inner = cuts[(cuts > start) & (cuts <= stop)].astype(np.float32)
        lows = np.append(start, inner)
        highs = np.append(np.nextafter(inner, np.float32(-np.inf)), stop)
        values = (lows.astype(np.float64) * item.scale + item.centre).tolist()
        return Intervals(values, lows, highs)


def _stated_ends(
    item: FittedColumn, stated: RealValues, ends: tuple[Float, Float]
) -> tuple[float, float]:
    """Smallest and largest number within reach and within the stated bounds."""
    numbers = [float(end[0]) * item.scale + item.centre for end in ends]
    low = min(numbers)
    high = max(numbers)
    if stated.minimum is not None:
        low = max(low, stated.minimum)
    if stated.maximum is not None:
        high = min(high, stated.maximum)
    return low, high


def _listed_numbers(
    item: FittedColumn, values: Sequence[Any], low: float, high: float
) -> Intervals:
    """The stated numbers within reach."""
    listed = sorted(value for value in values if value is not None and low <= value <= high)
    numbers = np.array(listed, dtype=np.float64)
    encoded = ((numbers - item.centre) / item.scale).astype(np.float32)
    return Intervals(listed, encoded, encoded)


class NotListedError(ValueError):
    """The values of a column cannot be listed."""


@dataclass(frozen=True)
class Intervals:
    """Intervals of a column's number, within which the model does not change."""

    values: list[Any]
    low: Float32
    high: Float32


@dataclass(frozen=True)
class Cells:
    """The values of one column near a person, the person's own one first.

    The number of a cell may lie between `low` and `high`, shapes (cells, places); the model decides
    the same on all of a cell.
    """

    choices: Choices
    low: Float
    high: Float

    @classmethod
    def of_single(cls, name: str, places: Index, values: list[Any], encoded: Float32) -> Cells:
        """Cells of one value each."""
        choices = Choices(name, places, values, encoded, np.zeros(len(values)))
        ends = encoded.astype(np.float64)
        return cls(choices, ends, ends)

    def joined(self, intervals: Intervals, own: float | None) -> Cells:
        """With intervals of the first place, without those that are the person's own number."""
        differs = np.ones(len(intervals.low), dtype=np.bool_)
        if own is not None:
            differs = (intervals.low != own) | (intervals.high != own)
        low = np.zeros((int(differs.sum()), self.low.shape[1]), dtype=np.float32)
        high = low.copy()
        low[:, 0] = intervals.low[differs]
        high[:, 0] = intervals.high[differs]
        nearest = low.copy()
        if own is not None:
            nearest[:, 0] = np.clip(np.float32(own), low[:, 0], high[:, 0])
        # the nearest first
        order = np.argsort(np.abs(nearest[:, 0] - np.float32(own or 0.0)), kind="stable")
        places = np.flatnonzero(differs)[order].tolist()
        choices = self.choices
        values = [*choices.values, *[intervals.values[place] for place in places]]
        encoded = np.concatenate([choices.encoded, nearest[order]])
        return Cells(
            Choices(choices.column, choices.places, values, encoded, np.zeros(len(values))),
            np.concatenate([self.low, low[order].astype(np.float64)]),
            np.concatenate([self.high, high[order].astype(np.float64)]),
        )

    def with_missing(self, encoded: Float32) -> Cells:
        """With the missing value."""
        choices = self.choices
        return Cells(
            Choices(
                choices.column,
                choices.places,
                [*choices.values, None],
                np.concatenate([choices.encoded, encoded]),
                np.zeros(len(choices) + 1),
            ),
            np.concatenate([self.low, encoded.astype(np.float64)]),
            np.concatenate([self.high, encoded.astype(np.float64)]),
        )

    def kept(self, positions: Index) -> Cells:
        """Only some cells."""
        choices = self.choices
        return Cells(
            Choices(
                choices.column,
                choices.places,
                [choices.values[position] for position in positions.tolist()],
                choices.encoded[positions],
                choices.costs[positions],
            ),
            self.low[positions],
            self.high[positions],
        )


class _Search:
    """Branch and bound for one person."""

    def __init__(
        self,
        settings: RealPeopleSearch,
        row: Mapping[str, Any],
        encoded: Float32,
        columns: Sequence[Cells],
        *,
        is_positive: bool,
    ) -> None:
        self.settings = settings
        self.row = row
        self.encoded = encoded
        self.x = encoded.astype(np.float64)
        self.is_positive = is_positive
        self.sign = -1 if is_positive else 1
        self.most = settings.farthest**2
        self.columns = self._near(columns)
        choices = [column.choices for column in self.columns]
        self.margins: MarginBounds = settings.margins.bounds(encoded, choices, self.sign)
        # what is so near to the threshold is decided by the model itself
        self.limit = settings.margins.limit(self.sign) - self.margins.rounding - SLACK

    def _near(self, columns: Sequence[Cells]) -> list[Cells]:
        """Without the categories that nobody within the radius has."""
        near = []
        whole = [np.arange(len(column.choices)) for column in columns]
        for place, column in enumerate(columns):
            positions = whole[place]
            if len(positions) <= MOST_TESTED:
                kept = [0]
                for position in positions[1:].tolist():
                    part = list(whole)
                    part[place] = np.array([position])
                    if self._least(*self._box(columns, part))[0] <= self.most:
                        kept.append(position)
                column = column.kept(np.array(kept))
            if len(column.choices) > 1:
                near.append(column)
        return near

    def run(self) -> SearchedPeople:
        """Look at parts, the one with the largest bound of the margin first."""
        columns = self.columns
        whole = [np.arange(len(column.choices)) for column in columns]
        counter = itertools.count()
        heap: list[tuple[float, int, list[Index]]] = []
        self._push(heap, counter, whole)
        parts = 0
        open_ends = 0
        while heap and parts < self.settings.most_parts:
            _, _, domain = heapq.heappop(heap)
            parts += 1
            least, point = self._least(*self._box(columns, domain))
            if least > self.most:
                continue
            person = self._person_near(domain, point)
            if person is not None:
                return SearchedPeople("found", person[0], person[1], parts=parts)
            if all(len(positions) == 1 for positions in domain):
                open_ends += self._has_width(domain)
                continue
            for part in self._halves(domain):
                self._push(heap, counter, part)
        return _not_found(parts, has_parts=bool(heap), has_open_ends=open_ends > 0)

    def _halves(self, domain: Sequence[Index]) -> list[list[Index]]:
        """Both halves of a part, where its margins divide it best."""
        column, chosen = self.margins.division(domain)
        positions = domain[column]
        is_chosen = np.isin(positions, chosen)
        parts = []
        for half in (positions[is_chosen], positions[~is_chosen]):
            part = list(domain)
            part[column] = half
            parts.append(part)
        return parts

    def _push(self, heap: list[Any], counter: Any, domain: list[Index]) -> None:
        upper = self.margins.upper(domain)
        if upper >= self.limit:
            heapq.heappush(heap, (-upper, next(counter), domain))

    def _has_width(self, domain: Sequence[Index]) -> bool:
        """Whether a part of one cell a column has more than one person."""
        for column, positions in zip(self.columns, domain, strict=True):
            if (column.low[positions] < column.high[positions]).any():
                return True
        return False

    def _box(self, columns: Sequence[Cells], domain: Sequence[Index]) -> tuple[Float, Float]:
        """Smallest and largest move of each matrix column."""
        low = np.zeros(len(self.x))
        high = np.zeros(len(self.x))
        for column, positions in zip(columns, domain, strict=True):
            places = column.choices.places
            low[places] = column.low[positions].min(axis=0) - self.x[places]
            high[places] = column.high[positions].max(axis=0) - self.x[places]
        return low, high

    def _least(self, low: Float, high: Float) -> tuple[float, Float]:
        """Lower bound of the squared fair distances of moves in a box, and a move near the least;
        a move within the radius ends it early.
        """
        matrix = self.settings.matrix
        pace = 1.0 / self.settings.largest
        point = np.clip(0.0, low, high)
        ahead = point
        inertia = 1.0
        bound = 0.0
        for step in range(STEPS):
            slope = matrix @ point
            squared = float(point @ slope)
            if squared <= 0.25 * self.most:
                break
            if step % LOOK == 0 or step == STEPS - 1:
                reached = float(np.minimum(slope * low, slope * high).sum())
                bound = max(bound, 2.0 * reached - squared - 1e-12 * (1.0 + squared))
                is_done = squared - bound <= 1e-3 * self.most
                if bound > self.most or is_done:
                    break
            moved = np.clip(ahead - pace * (matrix @ ahead), low, high)
            next_inertia = (1.0 + math.sqrt(1.0 + 4.0 * inertia * inertia)) / 2.0
            ahead = moved + (inertia - 1.0) / next_inertia * (moved - point)
            point = moved
            inertia = next_inertia
        return bound, point

    def _person_near(
        self, domain: Sequence[Index], point: Float
    ) -> tuple[dict[str, Any], float] | None:
        """The person of a part nearest to a point, if within the radius and decided otherwise."""
        picks = []
        numbers = self.x.copy()
        for column, positions in zip(self.columns, domain, strict=True):
            places = column.choices.places
            target = self.x[places] + point[places]
            nearest = np.clip(target, column.low[positions], column.high[positions])
            gaps = np.square(nearest - target).sum(axis=1)
            best = int(np.argmin(gaps))
            picks.append(int(positions[best]))
            numbers[places] = nearest[best]
        move = numbers - self.x
        if float(move @ self.settings.matrix @ move) > self.most:
            return None
        if self.margins.margin(picks) < self.limit:
            return None
        return self._checked(picks, numbers)

    def _checked(self, picks: Sequence[int], numbers: Float) -> tuple[dict[str, Any], float] | None:
        """What differs in a person, and the fair distance, as model and metric have them.

        Of numbers that are not whole, the roundest will do: 63 says more than 63.00738856856828.
        """
        exact = self._person(picks, numbers, None)
        if exact is None:
            return None
        has_fraction = any(isinstance(value, float) for value in exact[0].values())
        if has_fraction:
            for digits in ROUND_DIGITS:
                rounded = self._person(picks, numbers, digits)
                if rounded is not None:
                    return rounded
        return exact

    def _person(
        self, picks: Sequence[int], numbers: Float, digits: int | None
    ) -> tuple[dict[str, Any], float] | None:
        """What differs in a person whose numbers have some significant digits, or all with None;
        None if it is too far, or not decided otherwise.
        """
        settings = self.settings
        other_row = dict(self.row)
        for column, pick in zip(self.columns, picks, strict=True):
            value = column.choices.values[pick]
            if pick and (column.low[pick] < column.high[pick]).any():
                value = self._number(column.choices, float(numbers[column.choices.places[0]]))
                if digits is not None and isinstance(value, float):
                    value = self._rounded(column, pick, value, digits)
            if pick:
                other_row[column.choices.column] = value
        encoded = settings.encoder.transform(frame_of([other_row], settings.encoder))
        distance = settings.metric.distance(self.x[None], np.asarray(encoded, dtype=np.float64))
        if float(distance[0]) > settings.farthest:
            return None
        if not self._is_otherwise(other_row, encoded):
            return None
        differs = {}
        for name, value in other_row.items():
            if value != self.row[name]:
                differs[name] = value
        return differs, float(distance[0])

    def _rounded(self, column: Cells, pick: int, value: float, digits: int) -> float:
        """The nearest number with some significant digits that is in the part of a column; the
        number itself where none is.
        """
        item = self._fitted(column.choices.column)
        unit = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits) if value else 1.0
        for number in (round(value / unit), math.ceil(value / unit), math.floor(value / unit)):
            rounded = float(f"{number * unit:.{digits}g}")
            encoded = (rounded - item.centre) / item.scale
            if column.low[pick][0] <= encoded <= column.high[pick][0]:
                return rounded
        return value

    def _fitted(self, column: str) -> FittedColumn:
        return next(item for item in self.settings.encoder.fitted_ if item.name == column)

    def _is_otherwise(self, other: dict[str, Any], encoded: Float32) -> bool:
        """Whether the model itself decides otherwise about another person."""
        settings = self.settings
        groups = None
        if settings.groups_of is not None:
            if not decided_rows(settings.model, [other], settings.groups_of):
                return False
            groups = settings.groups_of([other])
        positive, _, _ = predictions_of(settings.model, encoded, groups)
        return bool(positive[0]) != self.is_positive

    def _number(self, choices: Choices, encoded: float) -> Any:
        """The value of a number of the matrix, whole where the column has whole numbers."""
        settings = self.settings
        item = self._fitted(choices.column)
        number = encoded * item.scale + item.centre
        stated = settings.values.get(choices.column)
        if item.kind == "date":
            return FIRST_DAY + datetime.timedelta(days=round(number))
        if stated is not None and stated.whole:
            return round(number)
        return number


def _not_found(parts: int, *, has_parts: bool, has_open_ends: bool) -> SearchedPeople:
    """What is known where nobody was found."""
    if has_parts:
        reason = f"the search ended after {parts:,} parts"
        return SearchedPeople("unknown", reason=reason, parts=parts)
    if has_open_ends:
        reason = "a person may exist between two numbers of a column"
        return SearchedPeople("unknown", reason=reason, parts=parts)
    return SearchedPeople("none", parts=parts)


def decided_rows(
    model: Any,
    rows: Sequence[dict[str, Any]],
    groups_of: Callable[[Sequence[Mapping[str, Any]]], Any],
) -> list[dict[str, Any]]:
    """The rows whose group has thresholds: nobody else can be decided about.

    Parameters
    ----------
    model : DecidedModel
        With a :class:`evenhand.fairlib.methods.decided.GroupRule`.
    rows : sequence of dict of str to value
        Values by column.
    groups_of : callable
        ``groups_of(rows)`` is the group of each row.

    Returns
    -------
    list of dict of str to value
    """
    if not rows:
        return []
    ruled = model.rule.ruled_groups(groups_of(rows)).tolist()
    return [
        row
        for row, group in zip(rows, ruled, strict=True)
        if group in model.rule.thresholds.thresholds
    ]
