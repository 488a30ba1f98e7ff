r"""Bounds on a model's margin over all combinations of the values that some columns may have.

Columns that do not change are fixed at the person's values first, so that trees lose the leaves
that the person cannot reach, and the first layer of a network becomes a sum over the changeable
columns.

**Trees.** The sum over the trees of the largest leaf that any combination reaches.

**Networks** of linear layers with ReLU between them. The first layer is a sum over columns, so its
inputs have exact bounds. Every unit with an input in [l, u], l < 0 < u, lies below
:math:`u (z - l) / (u - l)` and above :math:`\alpha z` with :math:`\alpha` 0 or 1 (Zhang et al.,
"Efficient neural network robustness certification with general activation functions", NeurIPS
2018). From the last layer to the first this leaves a sum over columns, whose largest value is
exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Float32, Index
from evenhand.fairlib.explanations.choices import Choices

# Unit roundoff of float32.
ROUNDOFF = 2.0**-24
# Relative rounding of a projected row that is stored in float32, with a wide margin.
PROJECTION_ROUNDING = 2.0**-21

Domain = Sequence[Index]
"""For each column the positions of the values that it may have, by rising cost."""


Division = tuple[int, Index]
"""The column at which to divide a domain, and the positions of the values of one half."""


class MarginBounds(Protocol):
    """Margins of one person with some values, in the direction of the favourable decision.

    The model's own margin differs by at most `rounding`, because it computes in single precision.
    """

    rounding: float

    def margin(self, picks: Sequence[int]) -> float:
        """Margin with the values at these positions, one of each column."""

    def upper(self, domain: Domain) -> float:
        """Bound the margins of a domain from above."""

    def division(self, domain: Domain) -> Division:
        """Say where to divide a domain that has more than one combination."""


def halves(positions: Index) -> Index:
    """The half of a column's values that is nearer to the person's own one.

    Parameters
    ----------
    positions : ndarray of intp
        Positions of at least two of them, by rising cost.

    Returns
    -------
    ndarray of intp
        At least one and not all of them.
    """
    return positions[: len(positions) // 2]


@dataclass(frozen=True)
class Leaves:
    """All leaves of a tree model as boxes of the matrix, tree by tree."""

    value: Float  # shape (leaves,)
    starts: Index  # first leaf of each tree
    column: Index  # shape (leaves, depth): columns that a leaf's path tests
    low: Float  # shape (leaves, depth): at least this much
    high: Float  # shape (leaves, depth): less than this
    base: float

    @classmethod
    def of(cls, booster: Any) -> Leaves:
        """Read the trees of a fitted booster for two classes.

        Parameters
        ----------
        booster : xgboost.Booster

        Returns
        -------
        Leaves

        Raises
        ------
        NotProvedError
            For a booster that :func:`evenhand.fairlib.certificates.trees.read_trees` refuses.
        """
        from evenhand.fairlib.certificates.trees import read_trees

        trees, _, features = read_trees(booster)
        values: list[float] = []
        starts: list[int] = []
        paths: list[dict[int, list[float]]] = []
        for root in trees.roots.tolist():
            starts.append(len(values))
            stack: list[tuple[int, dict[int, list[float]]]] = [(root, {})]
            while stack:
                node, path = stack.pop()
                feature = int(trees.feature[node])
                if feature < 0:
                    values.append(float(trees.value[node]))
                    paths.append(path)
                    continue
                column = int(features[feature])
                cut = float(trees.above[node])
                low, high = path.get(column, [-np.inf, np.inf])
                stack.append((int(trees.left[node]), {**path, column: [low, min(high, cut)]}))
                stack.append((int(trees.right[node]), {**path, column: [max(low, cut), high]}))
        return cls._packed(values, starts, paths, float(trees.base))

    @classmethod
    def _packed(
        cls,
        values: list[float],
        starts: list[int],
        paths: list[dict[int, list[float]]],
        base: float,
    ) -> Leaves:
        """The same as arrays; short paths are filled up with tests that everything passes."""
        depth = max([1, *map(len, paths)])
        column = np.zeros((len(paths), depth), dtype=np.intp)
        low = np.full((len(paths), depth), -np.inf)
        high = np.full((len(paths), depth), np.inf)
        for leaf, path in enumerate(paths):
            for place, (tested, ends) in enumerate(path.items()):
                column[leaf, place] = tested
                low[leaf, place] = ends[0]
                high[leaf, place] = ends[1]
        return cls(np.array(values), np.array(starts, dtype=np.intp), column, low, high, base)

    @cached_property
    def rounding(self) -> float:
        """Bound on the rounding of a float32 sum of one leaf of each tree."""
        largest = np.maximum.reduceat(np.abs(self.value), self.starts)
        return ROUNDOFF * len(largest) * (abs(self.base) + float(largest.sum()))

    @cached_property
    def numbered_cuts(self) -> tuple[Float, Index, Index]:
        """All cuts as pairs of column and number, and the position of each leaf's ends there."""
        pairs = []
        for ends in (self.low, self.high):
            pairs.append(np.stack([self.column.ravel().astype(np.float64), ends.ravel()], axis=1))
        cuts, numbers = np.unique(np.concatenate(pairs), axis=0, return_inverse=True)
        low_cut, high_cut = numbers.reshape(2, *self.column.shape)
        return cuts, low_cut, high_cut

    def cuts(self) -> dict[int, Float]:
        """Rising numbers of each matrix column at which a tree may change.

        Returns
        -------
        dict of int to ndarray of float64
        """
        by_column: dict[int, Float] = {}
        for tested in np.unique(self.column).tolist():
            ends = self.low[self.column == tested]
            numbers = np.unique(ends[np.isfinite(ends)])
            more = self.high[self.column == tested]
            by_column[tested] = np.unique(np.append(numbers, more[np.isfinite(more)]))
        return by_column


class TreeMargins:
    """Margins of trees with some values of one person.

    Parameters
    ----------
    leaves : Leaves
        All leaves of the model.
    encoded : ndarray of float32, shape (d,)
        The person.
    choices : list of Choices
        Values of the changeable columns.
    sign : {1, -1}
        1 where a large margin is favourable.
    """

    def __init__(
        self, leaves: Leaves, encoded: Float32, choices: Sequence[Choices], sign: int
    ) -> None:
        self.choices = choices
        row = encoded.astype(np.float64)
        free = np.zeros(len(row), dtype=np.bool_)
        owner = np.full(len(row), -1, dtype=np.intp)
        for place, column in enumerate(choices):
            free[column.places] = True
            owner[column.places] = place
        column_value = row[leaves.column]
        passes = (column_value >= leaves.low) & (column_value < leaves.high)
        tests_free = free[leaves.column]
        reached: Bool = np.asarray((passes | tests_free).all(axis=1))
        self.owner = owner
        self.row = row
        self._keep(leaves, reached, tests_free, sign)

    def _keep(self, leaves: Leaves, reached: Bool, tests_free: Bool, sign: int) -> None:
        """Keep the leaves that some values reach, and the tests of columns that are not fixed."""
        tree = np.repeat(
            np.arange(len(leaves.starts)), np.diff(np.append(leaves.starts, len(leaves.value)))
        )[reached]
        self.value = sign * leaves.value[reached]
        # tests of fixed columns are passed by every leaf that is left
        self.column = np.where(tests_free, leaves.column, 0)[reached]
        self.low = np.where(tests_free, leaves.low, -np.inf)[reached]
        self.high = np.where(tests_free, leaves.high, np.inf)[reached]
        counts = np.bincount(tree, minlength=len(leaves.starts))
        # a tree with one leaf left is a constant
        alone = counts[tree] == 1
        self.base = sign * leaves.base + float(self.value[alone].sum())
        in_groups = ~alone
        self.value = self.value[in_groups]
        self.column = self.column[in_groups]
        self.low = self.low[in_groups]
        self.high = self.high[in_groups]
        self.starts = np.flatnonzero(np.append(True, np.diff(tree[in_groups]) > 0))[
            : len(np.unique(tree[in_groups]))
        ]
        self.sizes = np.diff(np.append(self.starts, len(self.value)))
        self.cuts, low_cut, high_cut = leaves.numbered_cuts
        self.low_cut = low_cut[reached][in_groups]
        self.high_cut = high_cut[reached][in_groups]
        self.rounding = leaves.rounding

    def _reached(self, near: Float, far: Float) -> Float:
        """Value of each leaf that a box reaches, minus infinity of the others."""
        reached = ((far[self.column] >= self.low) & (near[self.column] < self.high)).all(axis=1)
        return np.where(reached, self.value, -np.inf)

    def _largest(self, near: Float, far: Float) -> Float:
        """Largest reachable leaf of each tree within a box."""
        return np.asarray(np.maximum.reduceat(self._reached(near, far), self.starts))

    def _point(self, picks: Sequence[int]) -> Float:
        point = self.row.copy()
        for choices, pick in zip(self.choices, picks, strict=True):
            point[choices.places] = choices.encoded[pick]
        return point

    def margin(self, picks: Sequence[int]) -> float:
        """As in :class:`MarginBounds`.

        Parameters
        ----------
        picks : sequence of int
            Position of a value in each column.

        Returns
        -------
        float
        """
        if not len(self.starts):
            return self.base
        point = self._point(picks)
        return self.base + float(self._largest(point, point).sum())

    def _box(self, domain: Domain) -> tuple[Float, Float]:
        """Smallest and largest number of each matrix column."""
        near = self.row.copy()
        far = self.row.copy()
        for choices, positions in zip(self.choices, domain, strict=True):
            encoded = choices.encoded[positions]
            near[choices.places] = encoded.min(axis=0)
            far[choices.places] = encoded.max(axis=0)
        return near, far

    def upper(self, domain: Domain) -> float:
        """As in :class:`MarginBounds`.

        Parameters
        ----------
        domain : sequence of ndarray of intp
            Positions of the values that each column may have.

        Returns
        -------
        float
        """
        if not len(self.starts):
            return self.base
        return self.base + float(self._largest(*self._box(domain)).sum())

    def division(self, domain: Domain) -> Division:
        """As in :class:`MarginBounds`: the cut on which the largest leaves differ most from those
        of the cheapest values.

        Parameters
        ----------
        domain : sequence of ndarray of intp
            Positions of the values that each column may have.

        Returns
        -------
        tuple of int and ndarray of intp
        """
        if not len(self.starts):
            return _widest(domain)
        values = self._reached(*self._box(domain))
        largest = np.maximum.reduceat(values, self.starts)
        is_largest = values == np.repeat(largest, self.sizes)
        corner = self._point([int(positions[0]) for positions in domain])
        gaps = np.repeat(largest - self._largest(corner, corner), self.sizes)
        leaves = np.flatnonzero(is_largest & (gaps > 0.0))
        tested = corner[self.column[leaves]]
        below = tested < self.low[leaves]
        above = tested >= self.high[leaves]
        numbers = np.where(below, self.low_cut[leaves], self.high_cut[leaves])
        failed = below | above
        weights = np.broadcast_to(gaps[leaves][:, None], failed.shape)[failed]
        total = np.bincount(numbers[failed], weights=weights, minlength=1)
        for cut in np.argsort(-total, kind="stable").tolist():
            if total[cut] <= 0.0:
                break
            matrix_column = int(self.cuts[cut, 0])
            column = int(self.owner[matrix_column])
            choices = self.choices[column]
            position = int(np.flatnonzero(choices.places == matrix_column)[0])
            positions = domain[column]
            reached = choices.encoded[positions, position] >= self.cuts[cut, 1]
            if reached.any() and not reached.all():
                return column, positions[reached]
        return _widest(domain)


class ProjectedTreeMargins(TreeMargins):
    """Margins of trees that read projected rows, with some values of one person.

    Each projected number is a sum over the columns of the table, so that the box of a domain is a
    sum of intervals. It is widened by more than the rounding of the projection. The margin of one
    combination is that of its widened box, and so an upper bound.

    Parameters
    ----------
    leaves : Leaves
        All leaves of the model.
    encoded : ndarray of float32, shape (d,)
        The person.
    choices : list of Choices
        Values of the changeable columns.
    sign : {1, -1}
        1 where a large margin is favourable.
    matrix : ndarray of float64, shape (d, d)
        A row times it is the projected row.
    """

    def __init__(
        self,
        leaves: Leaves,
        encoded: Float32,
        choices: Sequence[Choices],
        sign: int,
        matrix: Float,
    ) -> None:
        self.choices = choices
        fixed = encoded.astype(np.float64)
        sizes = np.abs(fixed)
        self.parts = []
        for column in choices:
            values = column.encoded.astype(np.float64)
            fixed[column.places] = 0.0
            sizes[column.places] = np.abs(values).max(axis=0)
            self.parts.append(values @ matrix[column.places])
        self.fixed = fixed @ matrix
        self.pad = PROJECTION_ROUNDING * (sizes @ np.abs(matrix) + sizes.max(initial=0.0))
        near, far = self._box([np.arange(len(column)) for column in choices])
        meets = (far[leaves.column] >= leaves.low) & (near[leaves.column] < leaves.high)
        self._keep(leaves, np.asarray(meets.all(axis=1)), np.ones_like(meets), sign)

    def _box(self, domain: Domain) -> tuple[Float, Float]:
        """Smallest and largest projected numbers."""
        near = self.fixed - self.pad
        far = self.fixed + self.pad
        for part, positions in zip(self.parts, domain, strict=True):
            near = near + part[positions].min(axis=0)
            far = far + part[positions].max(axis=0)
        return near, far

    def margin(self, picks: Sequence[int]) -> float:
        """An upper bound of the margin with these values.

        Parameters
        ----------
        picks : sequence of int
            Position of a value in each column.

        Returns
        -------
        float
        """
        return self.upper([np.array([pick]) for pick in picks])

    def division(self, domain: Domain) -> Division:
        """As in :class:`MarginBounds`: the column that moves the numbers most on whose cuts the
        largest leaves depend, and the half of its values that moves them up.

        Parameters
        ----------
        domain : sequence of ndarray of intp
            Positions of the values that each column may have.

        Returns
        -------
        tuple of int and ndarray of intp
        """
        near, far = self._box(domain)
        # cuts of the kept leaves within the box, by projected number
        cut_within = (self.low > near[self.column]) & (self.low <= far[self.column])
        cut_within |= (self.high > near[self.column]) & (self.high <= far[self.column])
        weights = np.bincount(self.column[cut_within], minlength=len(near)).astype(np.float64)
        best = -1.0
        column = 0
        for place, (part, positions) in enumerate(zip(self.parts, domain, strict=True)):
            if len(positions) < 2:
                continue
            gain = float(np.ptp(part[positions], axis=0) @ weights)
            if gain > best:
                best = gain
                column = place
        positions = domain[column]
        moves = self.parts[column][positions]
        along = int(np.argmax(np.ptp(moves, axis=0) * weights))
        middle = (moves[:, along].min() + moves[:, along].max()) / 2.0
        is_above = moves[:, along] > middle
        if is_above.any() and not is_above.all():
            return column, positions[is_above]
        return _widest(domain)


class NetworkMargins:
    """Margins of a network, or of a linear model, with some values of one person.

    Parameters
    ----------
    layers : list of tuple of two ndarrays
        Weights (out, in) and biases (out,) of layers with ReLU between them; the last has one
        output, the margin.
    encoded : ndarray of float32, shape (d,)
        The person.
    choices : list of Choices
        Values of the changeable columns.
    sign : {1, -1}
        1 where a large margin is favourable.
    """

    def __init__(
        self,
        layers: Sequence[tuple[Float, Float]],
        encoded: Float32,
        choices: Sequence[Choices],
        sign: int,
    ) -> None:
        self.choices = choices
        row = encoded.astype(np.float64)
        weight, bias = layers[0]
        self.start = weight @ row + bias
        # what each value adds to the inputs of the first layer's units
        self.added = []
        for column in choices:
            moved = column.encoded.astype(np.float64) - row[column.places]
            self.added.append(moved @ weight[:, column.places].T)
        last_weight, last_bias = layers[-1]
        self.later = [*layers[1:-1], (sign * last_weight, sign * last_bias)]
        self.rounding = self._rounding(layers, row)
        if len(layers) == 1:
            self.later = []
            self.start = sign * self.start
            self.added = [sign * added for added in self.added]

    def _rounding(self, layers: Sequence[tuple[Float, Float]], row: Float) -> float:
        """Bound on the rounding of float32 layers: the terms of each path from input to output,
        times the sum of their absolute values (Higham 2002, section 3.1), twice.
        """
        size = np.abs(row)
        for column in self.choices:
            largest = np.abs(column.encoded).max(axis=0).astype(np.float64)
            size[column.places] = np.maximum(size[column.places], largest)
        terms = 0
        for weight, bias in layers:
            size = np.abs(weight) @ size + np.abs(bias)
            terms += weight.shape[1] + 2
        return 2.0 * ROUNDOFF * terms * float(size[0])

    def margin(self, picks: Sequence[int]) -> float:
        """As in :class:`MarginBounds`.

        Parameters
        ----------
        picks : sequence of int
            Position of a value in each column.

        Returns
        -------
        float
        """
        inputs = self.start.copy()
        for added, pick in zip(self.added, picks, strict=True):
            inputs += added[pick]
        for weight, bias in self.later:
            inputs = weight @ np.maximum(inputs, 0.0) + bias
        return float(inputs[0])

    def _linear(self, domain: Domain) -> tuple[list[Float], float]:
        """What each value of a column adds to a linear bound of the margin, and its constant."""
        parts = [added[positions] for added, positions in zip(self.added, domain, strict=True)]
        low = self.start.copy()
        high = self.start.copy()
        for part in parts:
            low += part.min(axis=0)
            high += part.max(axis=0)
        direction, constant = self._linear_bound(low, high)
        effects = [part @ direction for part in parts]
        return effects, constant + float(direction @ self.start)

    def upper(self, domain: Domain) -> float:
        """As in :class:`MarginBounds`.

        Parameters
        ----------
        domain : sequence of ndarray of intp
            Positions of the values that each column may have.

        Returns
        -------
        float
        """
        effects, constant = self._linear(domain)
        return constant + sum(float(effect.max()) for effect in effects)

    def division(self, domain: Domain) -> Division:
        """As in :class:`MarginBounds`: the column whose best value adds most to that of the
        cheapest one.

        Parameters
        ----------
        domain : sequence of ndarray of intp
            Positions of the values that each column may have.

        Returns
        -------
        tuple of int and ndarray of intp
        """
        effects, _ = self._linear(domain)
        # values with the same effect may still move the units' inputs
        gains = []
        for effect in effects:
            gain = float(effect.max() - effect[0]) + 1e-3 * float(np.ptp(effect))
            gains.append(gain if len(effect) > 1 else -1.0)
        column = int(np.argmax(gains))
        if gains[column] <= 0.0:
            return _widest(domain)
        effect = effects[column]
        chosen = effect > (float(effect.max()) + float(effect[0])) / 2.0
        if not chosen.any() or chosen.all():
            return column, halves(domain[column])
        return column, domain[column][chosen]

    def _linear_bound(self, low: Float, high: Float) -> tuple[Float, float]:
        """Coefficients of the first layer's inputs, and a constant, whose sum is nowhere below the
        margin.
        """
        if not self.later:
            return np.ones(len(low)), 0.0
        ends = [(low, high)]
        for weight, bias in self.later[:-1]:
            inner_low = np.maximum(ends[-1][0], 0.0)
            inner_high = np.maximum(ends[-1][1], 0.0)
            positive = np.maximum(weight, 0.0)
            negative = np.minimum(weight, 0.0)
            ends.append(
                (
                    positive @ inner_low + negative @ inner_high + bias,
                    positive @ inner_high + negative @ inner_low + bias,
                )
            )
        weight, bias = self.later[-1]
        coefficients = weight[0]
        constant = float(bias[0])
        for place in range(len(ends) - 1, -1, -1):
            least, most = ends[place]
            unsure = (least < 0.0) & (most > 0.0)
            slope = np.where(most > 0.0, 1.0, 0.0)
            width = np.where(unsure, most - least, 1.0)
            upper_slope = np.where(unsure, most / width, slope)
            lower_slope = np.where(unsure & (most < -least), 0.0, slope)
            rising = coefficients > 0.0
            constant -= float(
                (np.where(rising & unsure, coefficients * upper_slope * least, 0.0)).sum()
            )
            coefficients = coefficients * np.where(rising, upper_slope, lower_slope)
            if place:
                weight, bias = self.later[place - 1]
                constant += float(coefficients @ bias)
                coefficients = coefficients @ weight
        return coefficients, constant


@dataclass(frozen=True)
class ModelMargins:
    """What gives bounds of a model's margins: the leaves of its trees, or its layers."""

    # by group, or of everybody: nobody below the first margin is decided positively, and everybody
    # above the second is
    thresholds: Mapping[str | None, tuple[float, float]]
    method: str
    leaves: Leaves | None = None
    layers: Sequence[tuple[Float, Float]] | None = None
    # of trees that read projected rows: a row times it is the projected row
    projection: Float | None = None

    @classmethod
    def of(cls, model: Any) -> ModelMargins | None:
        """Read a model; None if no bounds are known for its kind.

        Parameters
        ----------
        model : Method or DecidedModel
            Fitted, for two labels.

        Returns
        -------
        ModelMargins or None
        """
        from evenhand.fairlib.certificates.networks import NotProvedError, read_network

        base = getattr(model, "base", model)
        # adapted rows are no linear map of the person's own
        if getattr(base, "adapts_inputs", False):
            return None
        if hasattr(base, "threshold_") or hasattr(base, "acquire"):
            return None
        try:
            thresholds = _thresholds(model)
            if hasattr(base, "booster_"):
                leaves = Leaves.of(base.booster_)
                method = "branch and bound over the splits of the trees"
                return cls(thresholds, method, leaves, projection=_projection(base))
            if hasattr(base, "linear_"):
                weight = np.asarray(base.linear_.coefficients, dtype=np.float64)[None]
                layers = [(weight, np.array([float(base.linear_.intercept)]))]
                return cls(thresholds, "branch and bound over the linear model", layers=layers)
            if hasattr(base, "network_"):
                *inner, (weight, bias) = read_network(base.network_)
                # two logits, whose difference is the margin
                layers = [*inner, (weight[1:] - weight[:1], bias[1:] - bias[:1])]
                return cls(thresholds, "branch and bound over the network", layers=layers)
        except NotProvedError:
            return None
        return None

    def limit(self, sign: int, group: str | None = None) -> float:
        """The margin times `sign` below which the decision in the direction of `sign` is excluded.

        Parameters
        ----------
        sign : {1, -1}
            1 for positive decisions.
        group : str or None, default None
            Group whose thresholds count; one without any has those that small groups share. None:
            those of all groups.

        Returns
        -------
        float
        """
        from evenhand.fairlib.methods.decided import OTHER_GROUPS

        of_group = None
        if group is not None:
            of_group = self.thresholds.get(group, self.thresholds.get(OTHER_GROUPS))
        if of_group is not None:
            low, high = of_group
        else:
            low = min(ends[0] for ends in self.thresholds.values())
            high = max(ends[1] for ends in self.thresholds.values())
        if sign == 1:
            return low
        return -high

    def cuts(self) -> dict[int, Float] | None:
        """Numbers of each matrix column at which the trees may change; None for other models, and
        where trees read projected rows.

        Returns
        -------
        dict of int to ndarray of float64, or None
        """
        if self.leaves is None or self.projection is not None:
            return None
        return self.leaves.cuts()

    def bounds(self, encoded: Float32, choices: Sequence[Choices], sign: int) -> MarginBounds:
        """Bounds for one person.

        Parameters
        ----------
        encoded : ndarray of float32, shape (d,)
            The person.
        choices : list of Choices
            Values of the columns that have several.
        sign : {1, -1}
            1 where large margins are searched for.

        Returns
        -------
        MarginBounds
        """
        if self.leaves is not None and self.projection is not None:
            return ProjectedTreeMargins(self.leaves, encoded, choices, sign, self.projection)
        if self.leaves is not None:
            return TreeMargins(self.leaves, encoded, choices, sign)
        assert self.layers is not None
        return NetworkMargins(self.layers, encoded, choices, sign)


def _projection(base: Any) -> Float | None:
    """The matrix of a method whose trees read projected rows."""
    if not hasattr(base, "_project"):
        return None
    metric = base.metric_
    return np.asarray(metric.project(np.eye(metric.n_features_in_)), dtype=np.float64)


def _thresholds(model: Any) -> Mapping[str | None, tuple[float, float]]:
    """Thresholds of the margin by group, or of everybody."""
    from evenhand.fairlib.certificates.proof import group_margin_thresholds, margin_threshold
    from evenhand.fairlib.methods.decided import GroupRule

    if isinstance(getattr(model, "rule", None), GroupRule):
        return {group: ends for group, ends in group_margin_thresholds(model).items()}  # noqa: C416
    threshold = margin_threshold(model)
    return {None: (threshold, threshold)}


def _widest(domain: Domain) -> Division:
    """The column with most values, and the half of them that costs least."""
    sizes = [len(positions) for positions in domain]
    column = int(np.argmax(sizes))
    return column, halves(domain[column])
