r"""Adapted copies: the counterpart of each person in another group, column by column.

The counterpart of a number has the same quantile in the other group, given the columns that it is
conditioned on (Plečko and Meinshausen 2020). A number of which many people have the same values,
such as whole numbers, keeps to these values: a person's quantile is drawn within the value's share.
A category keeps its level with the largest possible probability, and else moves to levels that are
more frequent in the other group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Index
from evenhand.fairlib.distances.group_balance import balance_weights, moments_of
from evenhand.fairlib.distances.number_fits import (
    LEAST_PER_KNOT,
    NumberFit,
    fit_number,
    knot_count,
    knots_of,
    ridge,
    scale_ratio,
    shares_of_knots,
    with_intercept,
    with_one_location,
)

Kind = Literal["keep", "shift", "scale", "quantiles", "steps", "levels"]
# Kinds for which a person needs a uniform number.
DRAWN = ("steps", "levels")
# Least people of a group from which a counterpart is learned.
LEAST_GROUP = 30
# People of a group who are expected at least at a level that few of them have.
LEAST_RARE = 1.0
# Level of the tests by which a column's kind is chosen, divided by the number of columns.
TEST_LEVEL = 0.05
# Level of the second test of a number that seems to differ, given the columns that do not.
SECOND_LEVEL = 0.01
# Level from which on the first test decides.
CLEAR_LEVEL = 0.0005
# Share of people with a frequent value from which a number keeps to its values.
LEAST_REPEATED = 0.1
# Most parts of the conditioning columns' index, in each of which steps are learned.
STRATA = 8
# Pseudo-count of each level of a category, as a share of the group's frequencies.
PRIOR_ROWS = 2.0
# Steps of the draws of categories: fractional parts of roots of primes, so that columns differ.
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)


@dataclass
class GroupModel:
    """A column's distribution in one group.

    Parameters
    ----------
    weights : list of list of float
        Of a number one row, of a category one for each level: intercept and coefficients of the
        conditioning columns. Of a category they give logits.
    scale : float
        Standard deviation of a number's residuals.
    knots : list of float
        Of ``quantiles``: means of equally many sorted residuals; else empty.
    steps : list of list of list of float
        Of ``steps``, by stratum: value and the cumulated shares below and up to it.
    shares : list of float
        Cumulated share of people up to the middle of each knot; empty for equally many at each.
    """

    weights: list[list[float]]
    scale: float
    knots: list[float]
    steps: list[list[list[float]]] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)


@dataclass
class AdaptedColumn:
    """How one column of the matrix, or the columns of one category, are adapted.

    Parameters
    ----------
    positions : list of int
        Columns of the matrix.
    kind : {"keep", "shift", "scale", "quantiles", "steps", "levels"}
    parents : list of int
        Columns of the matrix that it is conditioned on.
    models : list of GroupModel
        One for each group; empty for ``keep``.
    index : list of float
        Of ``steps``: intercept and coefficients of the conditioning columns.
    cuts : list of float
        Of ``steps``: the limits of the index between strata.
    """

    positions: list[int]
    kind: Kind
    parents: list[int]
    models: list[GroupModel]
    index: list[float] = field(default_factory=list)
    cuts: list[float] = field(default_factory=list)


class Adaptation:
    """Counterparts of people in other groups, learned from training rows.

    Parameters
    ----------
    units : sequence of sequence of int
        Columns of the matrix that are adapted together, in their order: one number, or the 0/1
        columns of one category.
    given : sequence of int
        Columns on which all are conditioned, and which stay as they are.
    sequential : bool
        Whether a column is also conditioned on the earlier ones.
    factors : sequence of int
        Number of groups of each attribute, where groups are combinations of several.
    min_cell : int
        Least people behind each number that :meth:`to_dict` has.

    Attributes
    ----------
    reference_ : int
        The largest group, the first of equals.
    columns_ : list of AdaptedColumn
    """

    def __init__(
        self,
        units: Sequence[Sequence[int]],
        given: Sequence[int] = (),
        *,
        sequential: bool = False,
        factors: Sequence[int] = (),
        min_cell: int = LEAST_PER_KNOT,
    ) -> None:
        self.units = [list(unit) for unit in units]
        self.given = list(given)
        self.sequential = sequential
        self.factors = list(factors)
        self.min_cell = min_cell

    def fit(
        self,
        X: Float,
        codes: Index,
        n_groups: int | None = None,
        *,
        kinds: Mapping[int, Kind] | None = None,
    ) -> Self:
        """Learn each column's distribution in each group.

        Parameters
        ----------
        X : ndarray of float, shape (n, d)
        codes : ndarray of int, shape (n,)
            Group of every row.
        n_groups : int, optional
            Number of groups; default: of those in `codes`.
        kinds : mapping of int to str, optional
            By a unit's first column, the kind that more rows have shown; default: these rows
            choose.

        Returns
        -------
        Self

        Raises
        ------
        ValueError
            If a group has fewer rows than 30 or `min_cell`.
        """
        rows = np.asarray(X, dtype=np.float64)
        count = int(codes.max()) + 1 if n_groups is None else n_groups
        sizes = np.bincount(codes, minlength=count)
        least = least_group(self.min_cell)
        if sizes.min() < least:
            raise ValueError(
                f"a group has {int(sizes.min())} rows: at least {least} are needed to learn "
                "its counterparts."
            )
        self.reference_ = int(sizes.argmax())
        self.n_groups_ = count
        if int(np.prod(self.factors)) != count:
            self.factors = [count]
        self._chosen = kinds
        self._balance(rows, codes)
        self.columns_: list[AdaptedColumn] = []
        for unit, parents in zip(self.units, self._parents(), strict=True):
            if is_number(rows, unit):
                column = self._number(rows, codes, unit, parents)
            else:
                column = self._category(rows, codes, unit, parents)
            self.columns_.append(column)
        return self

    def _parents(self) -> list[list[int]]:
        """Columns on which each unit is conditioned."""
        result = []
        parents = list(self.given)
        for unit in self.units:
            result.append(list(parents))
            if self.sequential:
                parents += unit
        return result

    def _balance(self, rows: Float, codes: Index) -> None:
        """Weigh the rows so that groups are alike in the numbers that do not differ."""
        self._row_weights = np.ones(len(rows))
        self._common = np.empty((len(rows), 0))
        level = TEST_LEVEL / max(len(self.units), 1)
        alike = []
        for unit, parents in zip(self.units, self._parents(), strict=True):
            if not is_number(rows, unit):
                continue
            fit = self._fit_number(rows, codes, unit, parents)
            expected = self._expected(rows, unit, parents, fit)
            if self._chosen is None:
                kind = self._kind(expected, codes, fit, level)
            else:
                kind = self._chosen[unit[0]]
            if kind == "keep":
                alike.append(expected)
        if alike:
            self._common = moments_of(alike)
            self._row_weights = balance_weights(self._common, codes, self.n_groups_)

    def _fit_number(
        self, rows: Float, codes: Index, unit: list[int], parents: list[int]
    ) -> NumberFit:
        inputs = with_intercept(rows[:, parents])
        return fit_number(inputs, rows[:, unit[0]], codes, self._row_weights, self.factors)

    def _expected(self, rows: Float, unit: list[int], parents: list[int], fit: NumberFit) -> Float:
        """Values less what the largest group's regression expects."""
        inputs = with_intercept(rows[:, parents])
        return np.asarray(rows[:, unit[0]] - inputs @ fit.weights[self.reference_])

    def _kind(self, expected: Float, codes: Index, fit: NumberFit, level: float) -> Kind:
        """The simplest kind of a number's adaptation that the rows do not contradict."""
        from scipy.stats import ks_2samp, levene

        centre = fit.residuals[self.reference_]
        kind: Kind = "keep"
        for group in range(self.n_groups_):
            if group == self.reference_:
                continue
            residual = fit.residuals[group]
            ratio = scale_ratio(fit.scales[self.reference_], fit.scales[group])
            candidates: dict[Kind, Float] = {
                "keep": expected[codes == group],
                "shift": residual,
                "scale": residual * ratio,
            }
            if levene(residual, centre, center="median").pvalue < level:
                # of an unequal spread the Kolmogorov-Smirnov test alone shows little
                candidates = {"scale": candidates["scale"]}
            smallest: Kind = "quantiles"
            for name, values in candidates.items():
                if ks_2samp(values, centre).pvalue >= level:
                    smallest = name
                    break
            if ORDER.index(smallest) > ORDER.index(kind):
                kind = smallest
        return kind

    def _differs(self, expected: Float, codes: Index) -> bool:
        """Whether a number differs between groups clearly, or also given those that do not."""
        common = self._common
        residual = expected
        if common.shape[1] > 0:
            groups = np.eye(self.n_groups_)[codes]
            inputs = np.concatenate([common, groups], axis=1)
            coefficients, *_ = np.linalg.lstsq(inputs, expected, rcond=None)
            residual = expected - common @ coefficients[: common.shape[1]]
        centre = codes == self.reference_
        for group in range(self.n_groups_):
            if group == self.reference_:
                continue
            members = codes == group
            alone = smallest_p_value(expected[members], expected[centre])
            if alone < CLEAR_LEVEL / len(self.units):
                return True
            explained = smallest_p_value(residual[members], residual[centre])
            if explained < SECOND_LEVEL / len(self.units):
                return True
        return False

    def _number(
        self, rows: Float, codes: Index, unit: list[int], parents: list[int]
    ) -> AdaptedColumn:
        """Learn a number's distributions, of the simplest kind that the rows do not contradict."""
        level = TEST_LEVEL / len(self.units)
        fit = self._fit_number(rows, codes, unit, parents)
        expected = self._expected(rows, unit, parents, fit)
        if self._chosen is not None:
            kind = self._chosen[unit[0]]
        else:
            kind = self._kind(expected, codes, fit, level)
            if fit.pooled and not self._differs(expected, codes):
                kind = "keep"
        if kind == "keep":
            return AdaptedColumn(unit, "keep", list(parents), [])
        if kind == "steps" or is_repeated(rows[:, unit[0]], self.min_cell):
            return self._steps(rows, codes, unit, parents)
        if kind == "scale":
            fit = with_one_location(fit)
        models = []
        for group in range(self.n_groups_):
            model = GroupModel([fit.weights[group].tolist()], float(fit.scales[group]), [])
            if kind == "quantiles":
                residual = fit.residuals[group]
                weights = self._row_weights[codes == group]
                model.knots = knots_of(residual, self.min_cell).tolist()
                model.shares = shares_of_knots(residual, weights, self.min_cell).tolist()
            models.append(model)
        return AdaptedColumn(unit, kind, list(parents), models)

    def _steps(
        self, rows: Float, codes: Index, unit: list[int], parents: list[int]
    ) -> AdaptedColumn:
        """Learn the distributions of a number that many people share, within strata."""
        values = rows[:, unit[0]]
        inputs = with_intercept(rows[:, parents])
        index = ridge(inputs, values)
        place = inputs @ index
        # as many strata as each have enough people of every group
        for count in range(STRATA if parents else 1, 0, -1):
            cuts = cuts_of(place, count, self.min_cell)
            strata = np.searchsorted(cuts, place)
            cells = np.zeros((self.n_groups_, count))
            np.add.at(cells, (codes, strata), 1)
            if cells.min() >= least_group(self.min_cell):
                break
        models = []
        for group in range(self.n_groups_):
            steps = []
            for stratum in range(len(cuts) + 1):
                members = (codes == group) & (strata == stratum)
                weights = self._row_weights[members]
                steps.append(steps_of(values[members], weights, self.min_cell))
            models.append(GroupModel([], 1.0, [], steps))
        return AdaptedColumn(unit, "steps", list(parents), models, index.tolist(), cuts.tolist())

    def _category(
        self, rows: Float, codes: Index, unit: list[int], parents: list[int]
    ) -> AdaptedColumn:
        """Learn the shares of a category's levels."""
        from scipy.stats import chi2_contingency

        levels = levels_of(rows, unit)
        count = level_count(unit)
        counts = np.zeros((self.n_groups_, count))
        np.add.at(counts, (codes, levels), 1.0)
        occurring = counts[:, counts.sum(axis=0) > 0]
        level = TEST_LEVEL / len(self.units)
        if occurring.shape[1] < 2:
            keeps = True
        elif self._chosen is not None:
            keeps = self._chosen[unit[0]] == "keep"
        else:
            keeps = bool(chi2_contingency(occurring).pvalue >= level)
        if keeps:
            return AdaptedColumn(unit, "keep", list(parents), [])
        weighted = np.zeros((self.n_groups_, count))
        np.add.at(weighted, (codes, levels), self._row_weights)
        masses, is_rare = without_small_cells(counts, weighted, self.min_cell)
        shares = masses.sum(axis=0) / masses.sum()
        models = []
        for group in range(self.n_groups_):
            smoothed = masses[group] + PRIOR_ROWS * shares + 1e-6
            smoothed /= smoothed.sum()
            weights = np.zeros((count, 1 + len(parents)))
            weights[:, 0] = np.log(smoothed)
            members = codes == group
            if parents:
                inputs = rows[members][:, parents]
                frequent = np.flatnonzero(~is_rare[group])
                weights = level_logits(inputs, levels[members], weights, frequent)
            models.append(GroupModel(weights.tolist(), 1.0, []))
        return AdaptedColumn(unit, "levels", list(parents), models)

    @property
    def kinds_(self) -> dict[int, Kind]:
        """Kind of every unit, by its first column."""
        return {column.positions[0]: column.kind for column in self.columns_}

    @property
    def n_drawn_(self) -> int:
        """Number of columns for which each person needs a uniform number."""
        return sum(column.kind in DRAWN for column in self.columns_)

    def counterparts(self, X: Float, codes: Index, target: int, uniforms: Float) -> Float:
        """Each person's counterpart in a group.

        Parameters
        ----------
        X : ndarray of float, shape (n, d)
        codes : ndarray of int, shape (n,)
            Group of every row; a row of an unknown group, -1, stays as it is.
        target : int
            The other group.
        uniforms : ndarray of float in [0, 1), shape (n, n_drawn_) or (1, n_drawn_)
            By these a category moves to another level, and a shared value has a quantile.

        Returns
        -------
        ndarray of float64, shape (n, d)
        """
        rows = np.asarray(X, dtype=np.float64)
        adapted = rows.copy()
        drawn = 0
        draws = np.broadcast_to(uniforms, (len(rows), np.shape(uniforms)[1]))
        for column in self.columns_:
            if column.kind == "keep":
                continue
            uniform = np.empty(0)
            if column.kind in DRAWN:
                uniform = draws[:, drawn]
                drawn += 1
            for group in range(self.n_groups_):
                members = np.flatnonzero(codes == group)
                if group != target and members.size:
                    self._move(column, rows, adapted, members, (group, target), uniform)
        return adapted

    def _move(
        self,
        column: AdaptedColumn,
        rows: Float,
        adapted: Float,
        members: Index,
        groups: tuple[int, int],
        uniform: Float,
    ) -> None:
        """Write one column of the counterparts of a group's members."""
        source = column.models[groups[0]]
        aim = column.models[groups[1]]
        before = with_intercept(rows[members][:, column.parents])
        after = with_intercept(adapted[members][:, column.parents])
        if column.kind == "levels":
            moved = move_levels(
                levels_of(rows[members], column.positions),
                level_shares(before, source),
                level_shares(after, aim),
                uniform[members],
            )
            write_levels(adapted, members, column.positions, moved)
            return
        position = column.positions[0]
        values = rows[members, position]
        if column.kind == "steps":
            mapped = np.empty(len(values))
            strata = np.searchsorted(np.array(column.cuts), before @ np.array(column.index))
            aims = np.searchsorted(np.array(column.cuts), after @ np.array(column.index))
            for stratum in range(len(column.cuts) + 1):
                for aim_stratum in range(len(column.cuts) + 1):
                    chosen = np.flatnonzero((strata == stratum) & (aims == aim_stratum))
                    mapped[chosen] = map_steps(
                        values[chosen],
                        source.steps[stratum],
                        aim.steps[aim_stratum],
                        uniform[members[chosen]],
                    )
            adapted[members, position] = mapped
            return
        residual = values - before @ np.array(source.weights[0])
        mapped = map_residual(residual, column.kind, source, aim)
        adapted[members, position] = after @ np.array(aim.weights[0]) + mapped

    def to_dict(self) -> dict[str, Any]:
        """Plain content for a JSON file."""
        return {
            "units": self.units,
            "given": self.given,
            "sequential": self.sequential,
            "factors": self.factors,
            "reference": self.reference_,
            "groups": self.n_groups_,
            "columns": [asdict(column) for column in self.columns_],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote.

        Parameters
        ----------
        content : mapping

        Returns
        -------
        Self
        """
        adaptation = cls(
            content["units"],
            content["given"],
            sequential=content["sequential"],
            factors=content.get("factors", ()),
        )
        adaptation.reference_ = content["reference"]
        adaptation.n_groups_ = content["groups"]
        adaptation.columns_ = []
        for column in content["columns"]:
            models = [GroupModel(**model) for model in column["models"]]
            adaptation.columns_.append(AdaptedColumn(**{**column, "models": models}))
        return adaptation


ORDER: tuple[Kind, ...] = ("keep", "shift", "scale", "quantiles")


def is_binary(values: Float) -> bool:
    """Whether a column holds only 0 and 1.

    Parameters
    ----------
    values : ndarray of float, shape (n,)

    Returns
    -------
    bool
    """
    return bool(((values == 0.0) | (values == 1.0)).all())


def smallest_p_value(first: Float, second: Float) -> float:
    """The smaller p-value of a test of whole distributions and of a test of spreads.

    Of an unequal spread the Kolmogorov-Smirnov test alone shows little; the Brown-Forsythe test
    shows nothing else.

    Parameters
    ----------
    first, second : ndarray of float, shape (n,) and (m,)

    Returns
    -------
    float
    """
    from scipy.stats import ks_2samp, levene

    distributions = float(ks_2samp(first, second).pvalue)
    spreads = float(levene(first, second, center="median").pvalue)
    return min(distributions, spreads)


def least_group(min_cell: int) -> int:
    """Least people of a group from which a counterpart is learned.

    Parameters
    ----------
    min_cell : int

    Returns
    -------
    int
        At least 30.
    """
    return max(LEAST_GROUP, min_cell)


def cuts_of(place: Float, count: int, least: int) -> Float:
    """Limits of as many parts of equally many people: means of the values around them.

    Parameters
    ----------
    place : ndarray of float, shape (n,)
    count : int
        Number of parts.
    least : int
        People whose mean a limit is.

    Returns
    -------
    ndarray of float, shape (count - 1,)
        In rising order.
    """
    ordered = np.sort(place)
    cuts = []
    for number in range(1, count):
        first = max(len(ordered) * number // count - least // 2, 0)
        cuts.append(float(ordered[first : first + least].mean()))
    return np.array(cuts)


def without_small_cells(counts: Float, masses: Float, least: int) -> tuple[Float, Bool]:
    """Masses of a category's levels, without those that few people of a group have.

    The rare levels of a group are taken together. Their mass is divided by what the other groups
    have of them, where these are enough, so that no number depends on fewer than `least` people. If
    all of them are too few, the group's least frequent other level joins them, and they get the
    share of half of `least` people.

    Parameters
    ----------
    counts, masses : ndarray of float, shape (groups, levels)
        People of each level, and their weight. Each group has at least `least` people.
    least : int

    Returns
    -------
    tuple of ndarray of float and ndarray of bool, shape (groups, levels)
        The masses, and whether a level is rare or has joined rare ones.
    """
    is_frequent = counts >= least
    typical = np.where(is_frequent, counts, 0.0).sum(axis=0) / counts.sum()
    result = masses.copy()
    is_pooled = ~is_frequent
    for group in range(len(counts)):
        rare = np.flatnonzero(~is_frequent[group])
        people = float(counts[group, rare].sum())
        if people == 0:
            continue
        mass = float(masses[group, rare].sum())
        if people < least:
            frequent = np.flatnonzero(is_frequent[group])
            joined = frequent[np.argmin(counts[group, frequent])]
            is_pooled[group, joined] = True
            pooled = mass + float(masses[group, joined])
            mass = pooled * (least / 2) / (people + counts[group, joined])
            result[group, joined] = pooled - mass
        expected = np.clip(typical[rare] * counts[group].sum(), LEAST_RARE, least)
        result[group, rare] = mass * expected / expected.sum()
    return result, is_pooled


def is_repeated(values: Float, least: int) -> bool:
    """Whether at least a tenth of the people have a value that enough people have.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
    least : int
        People who are enough.

    Returns
    -------
    bool
    """
    _, counts = np.unique(values, return_counts=True)
    return bool(counts[counts >= least].sum() >= LEAST_REPEATED * len(values))


def is_number(rows: Float, unit: Sequence[int]) -> bool:
    """Whether a unit is one number, not the 0/1 columns of a category.

    Parameters
    ----------
    rows : ndarray of float, shape (n, d)
    unit : sequence of int

    Returns
    -------
    bool
    """
    return len(unit) == 1 and not is_binary(rows[:, unit[0]])


def steps_of(
    values: Float, row_weights: Float | None = None, least: int = LEAST_PER_KNOT
) -> list[list[float]]:
    """A distribution with jumps: values with the cumulated shares below and up to them.

    A value of enough people has a jump. Those between are pooled into means of enough people,
    without one; too few people between two jumps join the lower one, below all jumps the first one.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
        Of at least `least` people.
    row_weights : ndarray of float, shape (n,), optional
        By these people count in the shares.
    least : int
        People who are enough.

    Returns
    -------
    list of [value, share below, share up to it], in rising order
    """
    masses = np.ones(len(values)) if row_weights is None else row_weights
    distinct, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    mass = np.bincount(places, weights=masses)
    total = float(mass.sum())
    steps: list[list[float]] = []
    pool = Pool([], [])
    below = 0.0
    for value, count, weight in zip(distinct.tolist(), counts.tolist(), mass.tolist(), strict=True):
        if count < least:
            pool.add(value, count, weight)
            continue
        up_to = below + sum(pool.weights)
        if steps or len(pool.values) >= least:
            _add_pool(steps, pool, below, total, least)
            below = up_to
        pool = Pool([], [])
        steps.append([value, below / total, (up_to + weight) / total])
        below = up_to + weight
    _add_pool(steps, pool, below, total, least)
    return steps


class Pool(NamedTuple):
    """Rare values between two jumps, with the weight of each person."""

    values: list[float]
    weights: list[float]

    def add(self, value: float, count: int, weight: float) -> None:
        """Add a value, once for each of its people."""
        self.values.extend([value] * count)
        self.weights.extend([weight / count] * count)


def _add_pool(steps: list[list[float]], pool: Pool, below: float, total: float, least: int) -> None:
    """Add the people between two jumps, who follow those of the weight `below`."""
    people = len(pool.values)
    if people < least and steps:
        steps[-1][2] = (below + sum(pool.weights)) / total
        return
    if people == 0:
        return
    count = knot_count(people, least)
    place = below
    values = np.array_split(np.array(pool.values), count)
    weights = np.array_split(np.array(pool.weights), count)
    for part, part_weights in zip(values, weights, strict=True):
        mass = float(part_weights.sum())
        middle = (place + mass / 2) / total
        steps.append([float(np.average(part, weights=part_weights)), middle, middle])
        place += mass


def map_steps(
    values: Float, source: list[list[float]], target: list[list[float]], uniforms: Float
) -> Float:
    """Values of the other group at the same quantile, which is drawn within a jump.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
    source, target : list of [value, share below, share up to it]
    uniforms : ndarray of float in [0, 1), shape (n,)

    Returns
    -------
    ndarray of float, shape (n,)
    """
    levels, below, up_to = np.array(source).T
    # between two values a person's quantile lies between their shares
    knots = np.repeat(levels, 2)
    shares = np.stack([below, up_to], axis=1).ravel()
    quantile = np.interp(values, knots, shares)
    place = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
    jumps = (levels[place] == values) & (up_to[place] > below[place])
    drawn = below[place] + uniforms * (up_to[place] - below[place])
    quantile = np.where(jumps, drawn, quantile)
    aims, aim_below, aim_up_to = np.array(target).T
    aim_shares = np.stack([aim_below, aim_up_to], axis=1).ravel()
    return np.asarray(np.interp(quantile, aim_shares, np.repeat(aims, 2)))


def map_residual(residual: Float, kind: Kind, source: GroupModel, target: GroupModel) -> Float:
    """Residuals of the other group at the same quantile.

    Beyond the outermost knots a residual keeps its distance to them.

    Parameters
    ----------
    residual : ndarray of float, shape (n,)
    kind : {"shift", "scale", "quantiles"}
    source, target : GroupModel
        Of the person's group and the other one.

    Returns
    -------
    ndarray of float, shape (n,)
    """
    if kind == "shift":
        return residual
    if kind == "scale":
        return residual * scale_ratio(target.scale, source.scale)
    knots = np.array(source.knots)
    aims = np.array(target.knots)
    quantile = np.interp(residual, knots, middle_shares(source))
    mapped = np.interp(quantile, middle_shares(target), aims)
    mapped = mapped + np.minimum(residual - knots[0], 0.0)
    return np.asarray(mapped + np.maximum(residual - knots[-1], 0.0))


def middle_shares(model: GroupModel) -> Float:
    """Cumulated share of a group's people up to the middle of each knot.

    Parameters
    ----------
    model : GroupModel

    Returns
    -------
    ndarray of float in (0, 1)
    """
    if model.shares:
        return np.array(model.shares)
    return (np.arange(len(model.knots)) + 0.5) / len(model.knots)


def level_count(positions: Sequence[int]) -> int:
    """Number of a category's levels, with the level of a row without a 1.

    Parameters
    ----------
    positions : sequence of int
        Columns of the category.

    Returns
    -------
    int
    """
    return len(positions) + 1


def levels_of(rows: Float, positions: Sequence[int]) -> Index:
    """Level of each row's category; the last one where no column is 1.

    Parameters
    ----------
    rows : ndarray of float, shape (n, d)
    positions : sequence of int
        Its 0/1 columns.

    Returns
    -------
    ndarray of int, shape (n,)
    """
    part = rows[:, list(positions)]
    return np.where(part.max(axis=1) > 0.5, part.argmax(axis=1), len(positions))


def write_levels(rows: Float, members: Index, positions: Sequence[int], levels: Index) -> None:
    """Write levels as 0/1 columns.

    Parameters
    ----------
    rows : ndarray of float, shape (n, d)
        Changed in place.
    members : ndarray of int, shape (m,)
        Rows to change.
    positions : sequence of int
    levels : ndarray of int, shape (m,)
    """
    encoded = levels[:, None] == np.arange(len(positions))[None, :]
    rows[members[:, None], np.asarray(positions)] = encoded


def level_logits(inputs: Float, levels: Index, shares: Float, frequent: Index) -> Float:
    """Logits of a category's levels given numbers; rare levels keep their share.

    Parameters
    ----------
    inputs : ndarray of float, shape (n, k)
    levels : ndarray of int, shape (n,)
    shares : ndarray of float, shape (levels, 1 + k)
        Logits without the inputs.
    frequent : ndarray of int
        Levels of enough people.

    Returns
    -------
    ndarray of float, shape (levels, 1 + k)
    """
    from sklearn.linear_model import LogisticRegression

    if len(frequent) < 2:
        return shares
    is_frequent = np.isin(levels, frequent)
    model = LogisticRegression(C=0.3, max_iter=300).fit(inputs[is_frequent], levels[is_frequent])
    coefficients = model.coef_
    intercepts = model.intercept_
    if len(frequent) == 2:
        # one row of coefficients, of the second level against the first
        coefficients = np.concatenate([-coefficients / 2, coefficients / 2])
        intercepts = np.concatenate([-intercepts / 2, intercepts / 2])
    logits = shares.copy()
    # so that rare levels keep their share among all
    offset = np.log(np.exp(shares[frequent, 0]).sum())
    total = np.log(np.exp(intercepts).sum())
    logits[frequent, 0] = intercepts - total + offset
    logits[frequent, 1:] = coefficients
    return logits


def level_shares(inputs: Float, model: GroupModel) -> Float:
    """Probabilities of a category's levels.

    Parameters
    ----------
    inputs : ndarray of float, shape (n, 1 + k)
        With the intercept's column.
    model : GroupModel

    Returns
    -------
    ndarray of float, shape (n, levels)
    """
    from scipy.special import softmax

    return np.asarray(softmax(inputs @ np.array(model.weights).T, axis=1))


def move_levels(levels: Index, source: Float, target: Float, uniforms: Float) -> Index:
    """Levels after a maximal coupling: as many people as possible keep theirs.

    A person keeps level k with the probability min(1, target / source), and else gets a level in
    proportion to what it has more in the target.

    Parameters
    ----------
    levels : ndarray of int, shape (n,)
    source, target : ndarray of float, shape (n, levels)
        Probabilities in the person's group and the other one.
    uniforms : ndarray of float in [0, 1), shape (n,)

    Returns
    -------
    ndarray of int, shape (n,)
    """
    person = np.arange(len(levels))
    stay = np.minimum(target[person, levels] / source[person, levels], 1.0)
    excess = np.maximum(target - source, 0.0)
    total = excess.sum(axis=1, keepdims=True)
    excess = excess / np.where(total > 0, total, 1.0)
    place = np.where(stay < 1, (uniforms - stay) / np.where(stay < 1, 1 - stay, 1.0), 0.0)
    moved = (np.cumsum(excess, axis=1) <= place[:, None]).sum(axis=1)
    moved = np.minimum(moved, target.shape[1] - 1)
    return np.where(uniforms < stay, levels, moved)


def grid_of_uniforms(draws: int, categories: int) -> Float:
    """Uniform numbers for deterministic draws of categories, evenly spread in each column.

    Parameters
    ----------
    draws : int
    categories : int

    Returns
    -------
    ndarray of float in [0, 1), shape (draws, categories)
    """
    grid = np.empty((draws, categories))
    even = (np.arange(draws) + 0.5) / draws
    for column in range(categories):
        step = np.sqrt(PRIMES[column % len(PRIMES)]) * (1 + column // len(PRIMES))
        order = np.argsort(np.arange(draws) * step % 1.0, kind="stable")
        grid[:, column] = even[order]
    return grid
