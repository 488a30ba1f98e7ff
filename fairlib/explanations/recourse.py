r"""The smallest change of some columns after which a model decides otherwise.

Branch and bound over the values of the changeable columns (:mod:`.choices`). A part is one set of
values for each column; its cheapest combination costs the sum of the cheapest values. The part
whose cheapest combination costs least comes first: if that combination is decided favourably, no
smaller change exists. Otherwise the part is divided, and a half is dropped if an upper bound of
its margins (:mod:`.margin_bounds`) is below the threshold of decisions. If no part is left, no
combination of these values is decided favourably: that is a proof that there is no recourse.

Models without such bounds are asked for their decision on every combination, if there are few, and
else on all changes of one and of two columns, cheapest first, which proves nothing.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.fairlib.arrays import Bool, Float32, Index
from evenhand.fairlib.explanations.choices import Changeable, Choices, choices_of, frame_of
from evenhand.fairlib.explanations.margin_bounds import MarginBounds, ModelMargins
from evenhand.fairlib.methods.decided import predictions_of
from evenhand.fairlib.preprocessing.encoder import TableEncoder

if TYPE_CHECKING:
    pass

Status = Literal["found", "none", "unknown", "not needed"]
# Parts that are looked at before the search ends without a proof.
MOST_PARTS = 4000
# The threshold of margins is known up to this much.
SLACK = 1e-8
# Combinations that a model is asked for one by one.
MOST_ASKED = 20_000


@dataclass(frozen=True)
class Change:
    """A column's own value, and the value that it would need."""

    column: str
    before: Any
    after: Any
    cost: float  # as :mod:`.choices` defines it


@dataclass(frozen=True)
class Recourse:
    """What would have to change, for a person who was decided about adversely.

    Parameters
    ----------
    status : {"found", "none", "unknown", "not needed"}
        ``"none"``: no combination of values of the changeable columns is decided favourably;
        ``"unknown"``: none was found, which proves nothing.
    method : str
        How it was found, in words.
    changes : tuple of Change, default ()
        The changes, which the model itself was asked about.
    cost : float or None, default None
        Their cost.
    is_smallest : bool, default False
        Whether it is proved that no smaller change has the same effect.
    least_cost : float, default 0
        Every change with that effect costs at least so much.
    parts : int, default 0
        Parts that were looked at, or combinations that the model was asked for.
    """

    status: Status
    method: str
    changes: tuple[Change, ...] = ()
    cost: float | None = None
    is_smallest: bool = False
    least_cost: float = 0.0
    parts: int = 0


class RecourseSearch:
    """Searches changes for many people of one model.

    Parameters
    ----------
    model : Method or DecidedModel
        Fitted, for two labels.
    encoder : TableEncoder
        Fitted encoder of its rows.
    changeable : sequence of Changeable
        Columns that people can change.
    favourable : {0, 1}, default 1
        Code of the favourable label.
    most_parts : int, default 4000
        Parts that are looked at for one person before the search ends without a proof.
    """

    def __init__(
        self,
        model: Any,
        encoder: TableEncoder,
        changeable: Sequence[Changeable],
        *,
        favourable: int = 1,
        most_parts: int = MOST_PARTS,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.changeable = list(changeable)
        self.favourable = favourable
        self.most_parts = most_parts
        self.sign = 1 if favourable == 1 else -1
        self.margins = ModelMargins.of(model)
        self.cuts = None if self.margins is None else self.margins.cuts()

    def find(self, row: Mapping[str, Any], groups: Any = None) -> Recourse:
        """Search the smallest change for one person.

        Parameters
        ----------
        row : mapping of str to value
            Values of the columns that the encoder reads; None where one is missing.
        groups : str or None, default None
            The person's group, where decisions depend on it.

        Returns
        -------
        Recourse
        """
        frame = frame_of([row], self.encoder)
        encoded = self.encoder.transform(frame)
        if self._favourable(encoded, groups)[0]:
            return Recourse("not needed", "the decision is the favourable one")
        choices = choices_of(self.encoder, row, encoded[0], self.changeable, self.cuts)
        if not choices:
            return Recourse("none", "no changeable column has another value", is_smallest=False)
        person = _Person(self, row, encoded[0], choices, groups)
        if self.margins is not None:
            margins = self.margins.bounds(encoded[0], choices, self.sign)
            return self._branch_and_bound(person, margins, self.margins)
        return _ask_model(person)

    def _favourable(self, rows: Float32, groups: Any = None) -> Bool:
        """Whether each encoded row gets the favourable decision of the model itself."""
        if groups is not None:
            groups = np.full(len(rows), groups)
        positive, _, _ = predictions_of(self.model, rows, groups)
        return np.asarray(positive == (self.favourable == 1))

    def _branch_and_bound(
        self, person: _Person, margins: MarginBounds, model: ModelMargins
    ) -> Recourse:
        """Look at parts by rising cost; the module has the argument."""
        # what is so near to the threshold is decided by the model itself
        limit = model.limit(self.sign, person.groups) - margins.rounding - SLACK
        choices = person.choices
        whole = [np.arange(len(column)) for column in choices]
        counter = itertools.count()
        # cost, number, positions, whether the cheapest combination was refused
        heap: list[tuple[float, int, list[Index], bool]] = []
        if margins.upper(whole) >= limit:
            heap.append((0.0, next(counter), whole, False))
        parts = 0
        while heap and parts < self.most_parts:
            _, _, domain, is_refused = heapq.heappop(heap)
            parts += 1
            picks = [int(positions[0]) for positions in domain]
            if not is_refused:
                margin = margins.margin(picks)
                if margin >= limit and person.is_favourable(picks):
                    return person.recourse(picks, model.method, parts, is_smallest=True)
            if all(len(positions) == 1 for positions in domain):
                continue
            for half, has_cheapest in _halves(domain, *margins.division(domain)):
                if margins.upper(half) >= limit:
                    cost = _least_cost(choices, half)
                    heapq.heappush(heap, (cost, next(counter), half, has_cheapest))
        if not heap:
            return Recourse("none", model.method, is_smallest=True, parts=parts)
        least = heap[0][0]
        greedy = _greedy(person, margins, limit)
        if greedy is None:
            return Recourse("unknown", model.method, least_cost=least, parts=parts)
        recourse = person.recourse(greedy, model.method, parts, is_smallest=False)
        return replace(recourse, least_cost=least)


@dataclass(frozen=True)
class _Person:
    """One person, with the values that the changeable columns could have."""

    search: RecourseSearch
    row: Mapping[str, Any]
    encoded: Float32
    choices: list[Choices]
    groups: Any

    def rows(self, picks: Index) -> Float32:
        """Encoded rows with the values at these positions, shape (combinations, columns)."""
        rows = np.repeat(self.encoded[None], len(picks), axis=0)
        for place, column in enumerate(self.choices):
            rows[:, column.places] = column.encoded[picks[:, place]]
        return rows

    def is_favourable(self, picks: Sequence[int]) -> bool:
        """Whether the model itself decides favourably about the changed row of the table."""
        changed = dict(self.row)
        for column, pick in zip(self.choices, picks, strict=True):
            if pick:
                changed[column.column] = column.values[pick]
        frame = frame_of([changed], self.search.encoder)
        encoded = self.search.encoder.transform(frame)
        return bool(self.search._favourable(encoded, self.groups)[0])

    def recourse(
        self, picks: Sequence[int], method: str, parts: int, *, is_smallest: bool
    ) -> Recourse:
        """The changes at these positions."""
        changes = []
        for column, pick in zip(self.choices, picks, strict=True):
            if pick:
                before = self.row[column.column]
                cost = float(column.costs[pick])
                changes.append(Change(column.column, before, column.values[pick], cost))
        cost = sum(change.cost for change in changes)
        return Recourse(
            "found",
            method,
            tuple(changes),
            cost,
            is_smallest=is_smallest,
            least_cost=cost if is_smallest else 0.0,
            parts=parts,
        )


def _least_cost(choices: Sequence[Choices], domain: Sequence[Index]) -> float:
    """Cost of the cheapest combination of a part."""
    pairs = zip(choices, domain, strict=True)
    return float(sum(column.costs[positions[0]] for column, positions in pairs))


def _halves(domain: Sequence[Index], column: int, chosen: Index) -> list[tuple[list[Index], bool]]:
    """Both halves of a part, and whether each has the cheapest combination of the whole."""
    positions = domain[column]
    is_chosen = np.isin(positions, chosen)
    parts = []
    for half in (positions[is_chosen], positions[~is_chosen]):
        part = list(domain)
        part[column] = half
        parts.append((part, bool(half[0] == positions[0])))
    return parts


def _greedy(person: _Person, margins: MarginBounds, limit: float) -> list[int] | None:
    """Change one column after another, each time the one with the largest rise of the margin per
    cost; None if that leads nowhere.
    """
    picks = [0] * len(person.choices)
    margin = margins.margin(picks)
    for _ in person.choices:
        best: tuple[float, int, int, float] | None = None
        for place, column in enumerate(person.choices):
            for pick in range(1, len(column)):
                tried = [*picks]
                tried[place] = pick
                value = margins.margin(tried)
                if value <= margin:
                    continue
                rise = min(value, limit + 2.0 * margins.rounding) - margin
                added_cost = max(float(column.costs[pick] - column.costs[picks[place]]), 1e-9)
                if best is None or rise / added_cost > best[0]:
                    best = (rise / added_cost, place, pick, value)
        if best is None:
            return None
        picks[best[1]] = best[2]
        margin = best[3]
        if margin >= limit and person.is_favourable(picks):
            return picks
    return None


def _ask_model(person: _Person) -> Recourse:
    """Ask the model for its decision on combinations, cheapest first."""
    sizes = [len(column) for column in person.choices]
    is_complete = float(np.prod(np.array(sizes, dtype=np.float64))) <= MOST_ASKED
    combinations = _all_combinations(sizes) if is_complete else _few_changes(sizes)
    costs = np.zeros(len(combinations))
    for place, column in enumerate(person.choices):
        costs += column.costs[combinations[:, place]]
    order = np.argsort(costs, kind="stable")[:MOST_ASKED]
    ordered = combinations[order]
    method = "the model was asked about every combination"
    if not is_complete:
        method = "search: the model was asked about changes of one and of two columns"
    decided = person.search._favourable(person.rows(ordered), person.groups)
    for place in np.flatnonzero(decided).tolist():
        picks = [int(pick) for pick in ordered[place]]
        if person.is_favourable(picks):
            return person.recourse(picks, method, len(ordered), is_smallest=is_complete)
    status: Status = "none" if is_complete else "unknown"
    return Recourse(status, method, is_smallest=is_complete, parts=len(ordered))


def _all_combinations(sizes: Sequence[int]) -> Index:
    """Every combination of positions, shape (combinations, columns)."""
    grids = np.meshgrid(*[np.arange(size) for size in sizes], indexing="ij")
    return np.stack([grid.ravel() for grid in grids], axis=1)


def _few_changes(sizes: Sequence[int]) -> Index:
    """Combinations in which one or two columns have another value, at most so many of each pair."""
    blocks = []
    for place, size in enumerate(sizes):
        block = np.zeros((size - 1, len(sizes)), dtype=np.intp)
        block[:, place] = np.arange(1, size)
        blocks.append(block)
    for first, second in itertools.combinations(range(len(sizes)), 2):
        near = np.arange(1, min(sizes[first], 60))
        far = np.arange(1, min(sizes[second], 60))
        block = np.zeros((len(near) * len(far), len(sizes)), dtype=np.intp)
        block[:, first] = np.repeat(near, len(far))
        block[:, second] = np.tile(far, len(near))
        blocks.append(block)
    return np.concatenate(blocks)


def smallest_change(
    model: Any,
    encoder: TableEncoder,
    row: Mapping[str, Any],
    changeable: Sequence[Changeable],
    *,
    favourable: int = 1,
    groups: Any = None,
    most_parts: int = MOST_PARTS,
) -> Recourse:
    """Smallest change of some columns after which a model decides favourably.

    Parameters
    ----------
    model : Method or DecidedModel
        Fitted, for two labels.
    encoder : TableEncoder
        Fitted encoder of its rows.
    row : mapping of str to value
        The person's values as in the table; None where one is missing.
    changeable : sequence of Changeable
        Columns that the person can change.
    favourable : {0, 1}, default 1
        Code of the favourable label.
    groups : str or None, default None
        The person's group, where decisions depend on it.
    most_parts : int, default 4000
        Parts that are looked at before the search ends without a proof.

    Returns
    -------
    Recourse

    Raises
    ------
    ValueError
        For a column that the model does not read, or whose values cannot be listed.

    Examples
    --------
    >>> import pandas as pd
    >>> from evenhand.fairlib.methods.gbdt import GBDTClassifier
    >>> from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
    >>> years = np.arange(200) % 20
    >>> frame = pd.DataFrame({"years": years, "city": np.where(years % 3, "Rome", "Oslo")})
    >>> encoder = TableEncoder([ColumnSpec("years", "standard"), ColumnSpec("city", "onehot")])
    >>> X = encoder.fit(frame).transform(frame)
    >>> model = GBDTClassifier(n_steps=20, max_depth=2, random_state=0).fit(X, years >= 10)
    >>> row = {"years": 4, "city": "Rome"}
    >>> recourse = smallest_change(model, encoder, row, [Changeable("years", "up", whole=True)])
    >>> [(change.column, change.before, change.after) for change in recourse.changes]
    [('years', 4, 10)]
    >>> recourse.is_smallest
    True
    """
    search = RecourseSearch(
        model, encoder, changeable, favourable=favourable, most_parts=most_parts
    )
    return search.find(row, groups)
