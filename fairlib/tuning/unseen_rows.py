r"""What a metric may be on unseen rows, by the counts of the validation rows.

A largest gap between groups is never below 0, so noise makes it larger: on few rows a model without
any gap has one. The metric of unseen rows is therefore not distributed around the value of the
validation rows, and a normal distribution states the chance of keeping a limit too high where
groups are small. Here the rates of the groups and then the unseen rows are drawn.

Thresholds by group need more than that. They are chosen so that the validation rows have about the
gap that is allowed. So the noise of these rows is not in the gap, where it could be seen, but in
the thresholds. Its effect is measured: the thresholds are chosen again on random halves of the
validation rows.

Rows of a person or of a place are alike, and unseen rows come as whole people or places too: these
clusters are drawn in place of rows, see :mod:`evenhand.fairlib.tuning.unseen_clusters`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.evaluate import encode_sensitive
from evenhand.fairlib.evaluation.group_selection import needed_rows
from evenhand.fairlib.evaluation.metrics import (
    GROUP_METRICS,
    OVERALL_METRICS,
    Array,
    Metric,
    Needs,
)
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.tuning.quantiles import LEVELS
from evenhand.fairlib.tuning.unseen_clusters import (
    DRAWS,
    FEWEST_CLUSTERS,
    PRIOR,
    UnseenClusters,
    design_effects,
    draw_clusters,
    merged_clusters,
    prior_rows,
    student_factor,
)

CALIBRATION_GAP = "calibration_gap"


@dataclass(frozen=True, eq=False)
class HalfChoice:
    """Decisions about all validation rows by a rule that was chosen on a half of them.

    Parameters
    ----------
    is_half : ndarray of bool, shape (n,)
        Whether a row is in the half.
    y_pred : ndarray of int, shape (n,)
    """

    is_half: Bool
    y_pred: Int


def unseen_quantiles(
    outcomes: Outcomes,
    measured: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    *,
    unseen: float,
    inflation: float = 1.0,
    choices: Sequence[HalfChoice] = (),
    intersections: bool,
    min_cell: int = 1,
    rng: np.random.Generator,
) -> dict[str, list[float]]:
    r"""Return the quantiles of ``LEVELS`` of metrics on unseen rows.

    The shares of the cells of group, label and decision are drawn: from their Dirichlet
    distribution given the validation rows, each of which counts for :math:`1 / inflation` rows.
    Then the unseen rows are drawn from a multinomial distribution with these shares, and the metric
    is computed from them: of the groups that have enough of the drawn rows, as on real ones.

    Where ``outcomes.people`` numbers people or places, these are drawn in place of rows, see
    :func:`draw_clusters`. The rows of the drawn ones are counted in cells, and those of the prior
    (:func:`prior_rows`) are added.

    With `choices` the shares are drawn from a t-distribution about those of the validation rows,
    with a degree of freedom for each two choices. A rule that is chosen on the half :math:`A` has
    the shares :math:`s_A` on it and :math:`s_B` on the other half, and the covariance is estimated
    by the mean of the products of :math:`(s_B - s_A) / 2`. A difference of halves of n rows has
    four times the variance of a difference between n rows and the population: so it is with the
    rates of a fixed rule, and with those of one whose choice makes :math:`s_A` what it is. Halves
    are to have whole people or places; then this covariance is one between them.

    Parameters
    ----------
    outcomes : Outcomes
        Of the validation rows, with two labels.
    measured : mapping
        Per metric that compares groups, ``measured``: the names of the groups that it compares.
    names : sequence of str
        Metrics; left out are those that neither follow from counts of cells nor are
        ``calibration_gap``, whose mean residuals are drawn.
    unseen : float
        Number of unseen rows over that of the validation rows.
    inflation : float, default 1
        By how much the variance of the metric is larger than that of so many validation rows.
    choices : sequence of HalfChoice, default ()
        Of a rule that was chosen on the validation rows; `inflation` is not used then.
    intersections : bool
        Whether the groups of pairs of attributes are compared too.
    min_cell : int, default 1
        Fewest unseen rows, or people where these count, in every cell of a group that a metric
        needs. Where fewer than two groups have as many, the metric has no value; one that has none
        in half of the draws has no quantiles.
    rng : numpy.random.Generator
        Generator of the draws.

    Returns
    -------
    dict
        By metric; an empty list for one without a value in half of the draws. The dictionary is
        empty with fewer than ``FEWEST_CLUSTERS`` people or places.
    """
    if outcomes.people is not None and len(np.unique(outcomes.people)) < FEWEST_CLUSTERS:
        return {}
    group_names, codes = encode_sensitive(outcomes.sensitive, outcomes.groups, intersections)
    draw = _UnseenDraw(outcomes, unseen, inflation, choices, rng)
    quantiles: dict[str, list[float]] = {}
    drawn: dict[str, _DrawnCells] = {}
    for name in names:
        kind, _, attribute = name.partition(".")
        compared = measured.get(name, {}).get("measured", ())
        positions = _positions(group_names.get(attribute, ()), compared)
        metric = _metric_of(name, codes)
        if attribute and len(positions) < 2:
            continue
        if kind == CALIBRATION_GAP and attribute in codes:
            code, size = codes[attribute]
            values = draw.calibration_gaps(code, size, positions, min_cell)
        elif metric is None:
            continue
        else:
            if attribute not in drawn:
                code, size = codes.get(attribute, (np.zeros(outcomes.n, dtype=np.int64), 1))
                drawn[attribute] = draw.cells(code, size)
            cells = drawn[attribute]
            if attribute:
                values = metric.function(
                    _of_large_groups(cells.of(positions), metric.needs, min_cell)
                )
            else:
                values = metric.function(cells.rows[:, 0])
        values = values[np.isfinite(values)]
        quantiles[name] = []
        if len(values) >= DRAWS / 2:
            quantiles[name] = [float(value) for value in np.quantile(values, LEVELS)]
    return quantiles


@dataclass(frozen=True, eq=False)
class _DrawnCells:
    """Unseen rows of each draw, and what is counted for a group to be large enough."""

    rows: Array  # shape (draws, K, 2, 2): by group, label and decision
    by_label: Array  # shape (draws, K, 2): rows, or people, by group and label
    by_group: Array  # shape (draws, K): rows, or people

    def of(self, groups: Sequence[int]) -> _DrawnCells:
        """Those of some groups."""
        return _DrawnCells(self.rows[:, groups], self.by_label[:, groups], self.by_group[:, groups])


class _UnseenDraw:
    """Draws of unseen rows in cells, of one attribute after the other."""

    def __init__(
        self,
        outcomes: Outcomes,
        unseen: float,
        inflation: float,
        choices: Sequence[HalfChoice],
        rng: np.random.Generator,
    ) -> None:
        self.outcomes = outcomes
        self.unseen = unseen
        self.inflation = inflation
        self.choices = choices
        self.rng = rng
        # the draws of calibration gaps do not depend on those of decisions
        self.calibration_rng = rng.spawn(1)[0]
        if outcomes.people is not None:
            _, self.person = np.unique(outcomes.people, return_inverse=True)
            merging, self.fixed_rng, self.chosen_rng = rng.spawn(3)
            self.merged = merged_clusters(self.person, merging)

    @cached_property
    def fixed(self) -> UnseenClusters:
        """Unseen clusters for what does not depend on the validation rows."""
        return draw_clusters(self.merged, unseen=self.unseen, rng=self.fixed_rng)

    @cached_property
    def clusters(self) -> UnseenClusters:
        """Unseen clusters for the decisions, the same for all attributes."""
        has_choices = len(self.choices) > 0
        if self.inflation == 1.0 and not has_choices:
            return self.fixed
        return draw_clusters(
            self.merged,
            unseen=self.unseen,
            inflation=self.inflation,
            are_shares_known=has_choices,
            rng=self.chosen_rng,
        )

    def calibration_gaps(
        self, group: Array, groups: int, compared: Sequence[int], min_cell: int
    ) -> Float:
        """Draw the largest gaps of calibration between the compared ones of so many groups."""
        outcomes = self.outcomes
        rng = self.calibration_rng
        if outcomes.people is None:
            return _drawn_calibration_gaps(
                outcomes, group, groups, compared, unseen=self.unseen, min_cell=min_cell, rng=rng
            )
        units = self._units(self.fixed, group, groups)
        enough = units >= max(min_cell, 1)
        return _calibration_gaps_of_clusters(
            outcomes, group, groups, compared, clusters=self.fixed, enough=enough, rng=rng
        )

    def cells(self, code: Array, size: int) -> _DrawnCells:
        """Draw the unseen rows by group, whose code is below `size`, label and decision."""
        if self.outcomes.people is None:
            return self._cells_of_rows(code, size)
        return self._cells_of_clusters(code, size)

    def _cells_of_rows(self, code: Array, size: int) -> _DrawnCells:
        """Draw independent rows."""
        outcomes = self.outcomes
        counts = _cells(outcomes, outcomes.y_pred, code, size)
        shares = _drawn_shares(counts, self.inflation, self.rng)
        if self.choices:
            differences = _differences(outcomes, self.choices, code, size)
            shares = _moved_shares(counts, differences, len(differences) / 2, PRIOR, self.rng)
        number = max(1, round(outcomes.n * self.unseen))
        rows = self.rng.multinomial(number, shares).reshape(DRAWS, *counts.shape)
        by_label = rows.sum(axis=-1)
        return _DrawnCells(rows, by_label, by_label.sum(axis=-1))

    def _cells_of_clusters(self, code: Array, size: int) -> _DrawnCells:
        """Draw people or places, and count their rows."""
        outcomes = self.outcomes
        clusters = self.clusters
        has_choices = len(self.choices) > 0
        cell = _cell_of_row(outcomes, outcomes.y_pred, code)
        group_and_label = cell // 2
        effects = design_effects(group_and_label, 2 * size, cell % 2, 2, self.person)
        # of both decisions
        effects = np.repeat(effects, 2)
        added = prior_rows(
            effects,
            unseen=self.unseen,
            inflation=self.inflation,
            is_rate_known=has_choices,
            rng=self.rng,
        )
        rows = clusters.sums(cell, 4 * size) + added
        if has_choices:
            counts = _cells(outcomes, outcomes.y_pred, code, size)
            differences = _differences(outcomes, self.choices, code, size)
            degrees = min(len(differences) / 2, clusters.times.shape[1] - 1.0)
            prior = PRIOR * effects
            shares = _moved_shares(counts, differences, degrees, prior, self.rng)
            expected = counts.ravel() + prior
            # each row stands for as many as the shares of its cell say
            rows *= shares / (expected / expected.sum())
        added_by_label = added.reshape(DRAWS, 2 * size, 2).sum(axis=-1)
        added_by_group = added.reshape(DRAWS, size, 4).sum(axis=-1)
        by_label = self._units(clusters, group_and_label, 2 * size, added_by_label)
        return _DrawnCells(
            rows.reshape(DRAWS, size, 2, 2),
            by_label.reshape(DRAWS, size, 2),
            self._units(clusters, code, size, added_by_group),
        )

    def _units(
        self, clusters: UnseenClusters, code: Array, size: int, added: Float | float = 0.0
    ) -> Float:
        """Unseen people by code, each once with each code, or rows where these count; with those
        of so many `added` rows.
        """
        is_counted = np.ones(self.outcomes.n)
        if self.outcomes.counts_people:
            _, first = np.unique(self.person * size + code, return_index=True)
            is_counted[:] = 0.0
            is_counted[first] = 1.0
        rows = np.bincount(code, minlength=size)
        units = np.bincount(code, is_counted, minlength=size)
        units_of_added = added * units / np.maximum(rows, 1)
        return np.rint(clusters.sums(code, size, is_counted) + units_of_added)


def _drawn_calibration_gaps(
    outcomes: Outcomes,
    group: Array,
    groups: int,
    compared: Sequence[int],
    *,
    unseen: float,
    min_cell: int,
    rng: np.random.Generator,
) -> Float:
    r"""Draws of the largest difference between groups of the mean residual :math:`p - y` on unseen
    rows, shape (draws,) or fewer.

    The numbers of unseen rows of the groups, :math:`m_g`, are drawn. The mean of a group's unseen
    rows is about that of its :math:`n_g` validation rows, with the variance
    :math:`s_g^2 (1 / n_g + 1 / m_g)` and the tails of a t-distribution. Draws in which fewer than
    two groups have `min_cell` rows are left out.
    """
    residual = outcomes.score - outcomes.y_true
    rows = np.bincount(group, minlength=groups).astype(np.float64)
    number = max(1, round(rows.sum() * unseen))
    unseen_rows = rng.multinomial(number, rows / rows.sum(), size=DRAWS)
    smallest = np.full(DRAWS, np.inf)
    largest = np.full(DRAWS, -np.inf)
    comparable = np.zeros(DRAWS, dtype=np.int64)
    for place in compared:
        in_group = residual[group == place]
        enough = unseen_rows[:, place] >= max(min_cell, 1)
        comparable += enough
        spread = 1.0  # of a single residual nothing is known
        if len(in_group) > 1:
            spread = float(np.std(in_group, ddof=1))
        variance = 1.0 / rows[place] + 1.0 / np.maximum(unseen_rows[:, place], 1)
        noise = rng.standard_t(max(rows[place] - 1.0, 1.0), size=DRAWS)
        means = in_group.mean() + spread * np.sqrt(variance) * noise
        smallest = np.where(enough, np.minimum(smallest, means), smallest)
        largest = np.where(enough, np.maximum(largest, means), largest)
    is_comparable = comparable >= 2
    gaps: Float = largest[is_comparable] - smallest[is_comparable]
    return gaps


def _calibration_gaps_of_clusters(
    outcomes: Outcomes,
    group: Array,
    groups: int,
    compared: Sequence[int],
    *,
    clusters: UnseenClusters,
    enough: Bool,
    rng: np.random.Generator,
) -> Float:
    """Draws as of :func:`_drawn_calibration_gaps`, of whole people or places; `enough`, shape
    (draws, K), says which groups have enough of them.

    The mean residuals of all groups are those of the same drawn clusters, so that what a place adds
    to both of two groups cancels. The deviations of a group with rows in few clusters are made as
    wide as Student's distribution of so many has them.
    """
    residual = outcomes.score - outcomes.y_true
    rows = clusters.sums(group, groups)
    sums = clusters.sums(group, groups, residual)
    widening = _group_widening(clusters, group, groups)
    smallest = np.full(DRAWS, np.inf)
    largest = np.full(DRAWS, -np.inf)
    comparable = np.zeros(DRAWS, dtype=np.int64)
    for place in compared:
        comparable += enough[:, place]
        mean = residual[group == place].mean()
        if np.isnan(widening[place]):
            # of a single cluster's residuals nothing is known
            number = np.maximum(clusters.times.sum(axis=1), 1.0)
            deviation = rng.standard_t(1.0, size=DRAWS) * np.sqrt(1.0 + 1.0 / number)
        else:
            drawn = sums[:, place] / np.maximum(rows[:, place], 1e-9)
            deviation = widening[place] * (drawn - mean)
        # a residual is a probability less a label
        means = np.clip(mean + deviation, -1.0, 1.0)
        smallest = np.where(enough[:, place], np.minimum(smallest, means), smallest)
        largest = np.where(enough[:, place], np.maximum(largest, means), largest)
    is_comparable = comparable >= 2
    gaps: Float = largest[is_comparable] - smallest[is_comparable]
    return gaps


def _group_widening(clusters: UnseenClusters, group: Array, groups: int) -> Float:
    """By how much to widen the deviations of each group, shape (K,): 1 for one with rows in all
    clusters, NaN for one with rows in fewer than two.

    Drawn shares of k clusters have a variance smaller by (k - 1) / (k + 1).
    """
    count = clusters.times.shape[1]
    has_rows = np.bincount(group * count + clusters.of_row, minlength=groups * count) > 0
    present = np.append(has_rows.reshape(groups, count).sum(axis=1), count)
    variance = np.full(groups + 1, np.nan)
    np.divide(present + 1.0, present - 1.0, out=variance, where=present > 1)
    variance *= student_factor(present)
    return np.asarray(np.sqrt(variance[:-1] / variance[-1]))


def _metric_of(name: str, codes: Mapping[str, Any]) -> Metric | None:
    """The metric of that name if it is computed from cells; None for one that is not."""
    kind, _, attribute = name.partition(".")
    if kind in OVERALL_METRICS and not attribute:
        return OVERALL_METRICS[kind]
    if kind in GROUP_METRICS and attribute in codes:
        return GROUP_METRICS[kind]
    return None


def _positions(names: Sequence[str], compared: Sequence[str]) -> list[int]:
    """Places of the compared groups among all."""
    return [place for place, group in enumerate(names) if group in compared]


def _of_large_groups(cells: _DrawnCells, needs: Needs, min_cell: int) -> Array:
    """The draws in which two groups or more have enough rows, without groups that have too few.

    Such a group gets the cells of one that has enough: metrics of groups compare the largest and
    the smallest rate, and a copy changes neither.
    """
    needed = needed_rows(cells.by_group, cells.by_label, needs)
    enough: Bool = np.all(needed >= min_cell, axis=-1)
    is_comparable = enough.sum(axis=-1) >= 2
    rows, enough = cells.rows[is_comparable], enough[is_comparable]
    first_large = np.argmax(enough, axis=-1)[:, np.newaxis]
    places = np.where(enough, np.arange(enough.shape[-1]), first_large)
    return np.take_along_axis(rows, places[..., np.newaxis, np.newaxis], axis=1)


def _cell_of_row(outcomes: Outcomes, y_pred: Array, code: Array) -> Array:
    """Cell of group, label and decision of each row; label 1 is the favourable one."""
    y_true = outcomes.y_true
    if outcomes.favourable == 0:
        y_true = 1 - y_true
        y_pred = 1 - y_pred
    return np.asarray((code * 2 + y_true) * 2 + y_pred)


def _cells(outcomes: Outcomes, y_pred: Array, code: Array, size: int) -> Float:
    """Rows by group, label and decision, shape (K, 2, 2)."""
    cell = _cell_of_row(outcomes, y_pred, code)
    return np.bincount(cell, minlength=4 * size).reshape(size, 2, 2).astype(np.float64)


def _drawn_shares(counts: Float, inflation: float, rng: np.random.Generator) -> Float:
    """Shares of cells under a rule that does not depend on the rows, shape (draws, 4K)."""
    return rng.dirichlet(counts.ravel() / inflation + PRIOR, size=DRAWS)


def _differences(
    outcomes: Outcomes, choices: Sequence[HalfChoice], code: Array, size: int
) -> Float:
    """Half the differences of the shares of cells between the other half and that of each choice,
    shape (B, 4K).
    """
    differences = []
    for choice in choices:
        cells = _cells(outcomes, choice.y_pred, code, size).ravel()
        # the rows of the half, counted by making a cell for each half
        of_half = _cells(outcomes, choice.y_pred, code + size * choice.is_half, 2 * size)
        in_half = of_half.ravel()[4 * size :]
        in_other = cells - in_half
        differences.append((in_other / in_other.sum() - in_half / in_half.sum()) / 2)
    return np.array(differences)


def _moved_shares(
    counts: Float,
    differences: Float,
    degrees: float,
    prior: Float | float,
    rng: np.random.Generator,
) -> Float:
    """Shares of cells under a rule that was chosen on the rows, shape (draws, 4K).

    Both halves of a division are alike, so that there are half as many `degrees` of freedom as
    differences.
    """
    weights = rng.normal(size=(DRAWS, len(differences))) / np.sqrt(len(differences))
    degrees = max(1.0, degrees)
    weights /= np.sqrt(rng.chisquare(degrees, size=(DRAWS, 1)) / degrees)
    rows = counts.sum()
    moved = counts.ravel() + rows * (weights @ differences)
    moved = np.maximum(moved, 0.0) + prior
    return np.asarray(moved / moved.sum(axis=1, keepdims=True))
