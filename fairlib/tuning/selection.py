r"""How much too high the stated chance of the chosen one of many trials is.

The chance that unseen rows keep a limit is right for one trial. Of many trials a search chooses one
whose validation rows happened to keep the limit with room: its chance is stated too high, the more
so the smaller the groups are and the more trials there are ("winner's curse"). Here the choice is
repeated: people are divided into halves at random, a trial is chosen by one half, and its chance is
computed on that half and on the other. The mean difference is what a choice adds to the chance.

References
----------
I. Tsamardinos, E. Greasidou and G. Borboudakis, "Bootstrapping the out-of-sample predictions for
efficient and accurate cross-validation", Machine Learning 107, 2018, correct the performance of a
chosen setting on the same kind of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.catalogue import better
from evenhand.fairlib.evaluation.evaluate import encode_sensitive
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS, OVERALL_METRICS, Array
from evenhand.fairlib.tuning.study import BY_VALUE, UNSEEN, Aim, Allowance, Limit, Trial
from evenhand.fairlib.tuning.unseen_rows import PRIOR

HALVINGS = 12
DRAWS = 100
# Confidences at which the choice is repeated.
LEVELS_OF_CHOICE = (0.2, 0.3, 0.4, BY_VALUE, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99)
# A trial counts unless so many others have both a better objective and a higher chance.
MOST_AHEAD = 30


@dataclass(frozen=True, eq=False)
class People:
    """The validation people: label, groups, and which people are compared by each metric.

    Parameters
    ----------
    y : ndarray of int64, shape (n,)
        Labels, 0 or 1.
    sensitive : mapping
        Groups by attribute, each of shape (n,).
    compared : mapping
        Names of the groups that a metric compares.
    favourable : int
        The favourable label.
    people : ndarray of int64, shape (n,), or None
        Numbers of the people that rows are of, where a person may have several.
    intersections : bool
        Whether the groups of pairs of attributes are compared too.
    """

    y: Int
    sensitive: Mapping[str, Array]
    compared: Mapping[str, Sequence[str]]
    favourable: int = 1
    people: Int | None = None
    intersections: bool = False


@dataclass(frozen=True, eq=False)
class _Metric:
    """A metric that follows from counts of cells.

    `code` numbers the groups of the rows, and `positions` are those that are compared.
    """

    name: str
    function: Callable[[Array], Float]
    code: Int
    size: int
    positions: Sequence[int]

    def values(self, cells: Array) -> Float:
        """The metric of cells, shape (..., K, 2, 2)."""
        with np.errstate(all="ignore"):
            if "." in self.name:
                return np.asarray(self.function(cells[..., self.positions, :, :]))
            return np.asarray(self.function(cells[..., 0, :, :]))


def countable_metrics(names: Sequence[str], people: People) -> dict[str, _Metric]:
    """Return those of the metrics that follow from counts of decisions, by name.

    Parameters
    ----------
    names : sequence of str
    people : People

    Returns
    -------
    dict
    """
    group_names, codes = encode_sensitive(dict(people.sensitive), {}, people.intersections)
    metrics = {}
    for name in names:
        kind, _, attribute = name.partition(".")
        if kind in OVERALL_METRICS and not attribute:
            nobody = np.zeros(len(people.y), dtype=np.int64)
            metrics[name] = _Metric(name, OVERALL_METRICS[kind].function, nobody, 1, [0])
        elif kind in GROUP_METRICS and attribute in codes and people.compared.get(name):
            code, size = codes[attribute]
            places = [
                place
                for place, group in enumerate(group_names[attribute])
                if group in people.compared[name]
            ]
            metrics[name] = _Metric(name, GROUP_METRICS[kind].function, code, size, places)
    return metrics


def contenders(aim: Aim, trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that might be chosen: few others have a better objective and a higher
    chance of keeping the limits.

    Parameters
    ----------
    aim : Aim
        One objective counts, the first.
    trials : sequence of Trial
        Judged on all folds, with chances.

    Returns
    -------
    list of Trial
        In their order.
    """
    losses = np.array([aim.losses(trial.metrics)[0] for trial in trials])
    chances = np.array([_least_chance(aim, trial) for trial in trials])
    kept = []
    for place, trial in enumerate(trials):
        if not math.isfinite(losses[place]):
            continue
        ahead = (losses < losses[place]) & (chances > chances[place])
        if np.count_nonzero(ahead) < MOST_AHEAD:
            kept.append(trial)
    return kept


def _least_chance(aim: Aim, trial: Trial) -> float:
    chances = [aim.raw_chance(limit, trial.metrics) for limit in aim.limits]
    return min((chance for chance in chances if chance is not None), default=0.0)


def allowances(
    aim: Aim,
    trials: Sequence[Trial],
    decisions: Bool,
    people: People,
    *,
    unseen: float,
    inflation: Float,
    rng: np.random.Generator,
    halvings: int = HALVINGS,
) -> tuple[Allowance, ...]:
    r"""Return how much the choice among trials adds to their chances, at several confidences.

    At each confidence the trial with the best objective is chosen by one half of the people, among
    those whose chance of keeping every limit is at least the confidence. With :math:`c_A` the
    chance by the half that chose and :math:`c_B` that by the other half, the allowance is the mean
    of :math:`c_A - c_B`, or 0 if that is less.

    Parameters
    ----------
    aim : Aim
        The first objective and the limits. Limits on metrics that do not follow from counts of
        decisions get no allowance.
    trials : sequence of Trial
        T trials that might be chosen.
    decisions : ndarray of bool, shape (T, n)
        Whether each trial predicts label 1 for each person.
    people : People
    unseen : float
        Number of unseen rows over that of the validation rows.
    inflation : ndarray, shape (T,)
        As for :func:`evenhand.fairlib.tuning.unseen_rows.unseen_quantiles`.
    rng : numpy.random.Generator
    halvings : int
        Number of divisions into halves; each is used both ways.

    Returns
    -------
    tuple of Allowance
        One for each of ``LEVELS_OF_CHOICE``; none without a limit on such a metric.
    """
    metrics = countable_metrics(aim.metrics, people)
    limits = [limit for limit in aim.limits if limit.metric in metrics]
    if not limits or len(trials) < 2:
        return ()
    choice = _Choice(aim, limits, trials, metrics)
    rows_of_unseen = max(1, round(unseen * len(people.y)))
    gained = np.zeros((len(LEVELS_OF_CHOICE), len(limits)))
    for _ in range(halvings):
        is_first = _half(people, rng)
        sides = []
        for side in (is_first, ~is_first):
            cells = _cells_by_metric(metrics, people, decisions, side)
            sides.append(choice.of_half(cells, rows_of_unseen, inflation, rng))
        for chosen_by, other in (sides, sides[::-1]):
            for place, level in enumerate(LEVELS_OF_CHOICE):
                chosen = choice.chosen(chosen_by, level)
                gained[place] += chosen_by.chances[chosen] - other.chances[chosen]
    gained = np.maximum(gained / (2 * halvings), 0.0)
    result = []
    for level, row in zip(LEVELS_OF_CHOICE, gained, strict=True):
        by_limit = tuple(
            (str(limit), round(float(value), 4)) for limit, value in zip(limits, row, strict=True)
        )
        result.append(Allowance(level, by_limit))
    return tuple(result)


@dataclass(frozen=True, eq=False)
class _Half:
    """What the trials are by one half of the people; T trials and L limits."""

    chances: Float  # shape (T, L)
    keeps: Bool  # shape (T,): whether the values keep all limits
    losses: Float  # shape (T,): the objective, less is better


@dataclass(frozen=True, eq=False)
class _Choice:
    """The choice of a trial by a part of the people."""

    aim: Aim
    limits: Sequence[Limit]
    trials: Sequence[Trial]
    metrics: Mapping[str, _Metric]

    def of_half(
        self, cells: Mapping[str, Array], rows: int, inflation: Float, rng: np.random.Generator
    ) -> _Half:
        """Compute the objective and the chances of all trials."""
        chances = np.empty((len(self.trials), len(self.limits)))
        keeps = np.ones(len(self.trials), dtype=bool)
        drawn: dict[str, Array] = {}
        for place, limit in enumerate(self.limits):
            metric = self.metrics[limit.metric]
            if limit.metric not in drawn:
                drawn[limit.metric] = metric.values(
                    _drawn_cells(cells[limit.metric], rows, inflation, rng)
                )
            chances[:, place] = _keeping(limit, drawn[limit.metric]).mean(axis=1)
            keeps &= _keeping(limit, metric.values(cells[limit.metric]))
        return _Half(chances, keeps, self._losses(cells))

    def _losses(self, cells: Mapping[str, Array]) -> Float:
        """The first objective by these cells, or as it is of all people."""
        name = self.aim.objectives[0]
        if name not in cells:
            return np.array([self.aim.losses(trial.metrics)[0] for trial in self.trials])
        values = self.metrics[name].values(cells[name])
        if better(name) == "higher":
            values = -values
        return np.where(np.isnan(values), np.inf, values)

    def chosen(self, half: _Half, level: float) -> int:
        """Return the place of the trial that is chosen at a confidence."""
        least = half.chances.min(axis=1)
        is_within = least >= level
        if level == BY_VALUE:
            is_within = half.keeps
        elif level < BY_VALUE:
            is_within = is_within & half.keeps
        if not is_within.any():
            return int(np.argmax(least))
        return int(np.argmin(np.where(is_within, half.losses, np.inf)))


def _keeping(limit: Limit, values: Float) -> Bool:
    """Whether values keep a limit; a missing one does not."""
    with np.errstate(invalid="ignore"):
        if limit.sign == "<=":
            return np.asarray(values <= limit.value)
        return np.asarray(values >= limit.value)


def _half(people: People, rng: np.random.Generator) -> Bool:
    """Draw half of the people, shape (n,): of each label alike, and all rows of a person."""
    if people.people is not None:
        _, number = np.unique(people.people, return_inverse=True)
        return np.asarray(rng.random(number.max() + 1) < 0.5)[number]
    cell = people.y
    for values in people.sensitive.values():
        _, code = np.unique(np.asarray(values, dtype=str), return_inverse=True)
        cell = cell * (code.max() + 1) + code
    order = np.lexsort((rng.random(len(cell)), cell))
    is_first = np.zeros(len(cell), dtype=bool)
    # every second one in each cell, beginning at random
    is_first[order[int(rng.integers(2)) :: 2]] = True
    return is_first


def _cells_by_metric(
    metrics: Mapping[str, _Metric], people: People, decisions: Bool, rows: Bool
) -> dict[str, Array]:
    """Cells of all trials by metric, shape (T, K, 2, 2), of some of the rows."""
    y_true = people.y[rows]
    y_pred = decisions[:, rows]
    if people.favourable == 0:
        y_true = 1 - y_true
        y_pred = ~y_pred
    by_attribute: dict[str, Array] = {}
    cells = {}
    for name, metric in metrics.items():
        attribute = name.partition(".")[2]
        if attribute not in by_attribute:
            cell = metric.code[rows] * 2 + y_true
            is_in = np.zeros((len(cell), 2 * metric.size), dtype=np.float32)
            is_in[np.arange(len(cell)), cell] = 1.0
            positive = y_pred.astype(np.float32) @ is_in
            both = np.stack([is_in.sum(axis=0) - positive, positive], axis=-1)
            by_attribute[attribute] = both.reshape(-1, metric.size, 2, 2).astype(np.float64)
        cells[name] = by_attribute[attribute]
    return cells


def _drawn_cells(cells: Array, rows: int, inflation: Float, rng: np.random.Generator) -> Array:
    """Draw cells of unseen rows for each trial, shape (T, draws, K, 2, 2)."""
    trials = len(cells)
    weight = cells.reshape(trials, -1) / inflation[:, None] + PRIOR
    gammas = rng.standard_gamma(np.repeat(weight[:, None], DRAWS, axis=1))
    shares = gammas / gammas.sum(axis=-1, keepdims=True)
    drawn = rng.multinomial(rows, shares)
    return drawn.reshape(trials, DRAWS, *cells.shape[1:])


def has_chances(aim: Aim, trial: Trial) -> bool:
    """Whether a trial has the quantiles of unseen rows of a limited metric.

    Parameters
    ----------
    aim : Aim
    trial : Trial

    Returns
    -------
    bool
    """
    return any(UNSEEN in trial.metrics.get(limit.metric, {}) for limit in aim.limits)
