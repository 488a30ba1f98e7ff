"""What follows from the trials of a study: which are best within the limits, and what each limit
costs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from evenhand.fairlib.catalogue import better, describe
from evenhand.fairlib.evaluation.comparison import pareto_front
from evenhand.fairlib.tuning.quantiles import chance_above, chance_below, quantile_of

Estimates = Mapping[str, Mapping[str, Any]]
# Chance of keeping a limit on unseen rows that is looked for unless another one is asked for; if no
# trial reaches it, the next one counts. At the last, the value of the validation rows decides; with
# less than that, the value has to keep the limit too.
CONFIDENCE = 0.9
BY_VALUE = 0.5
# The most that the first objective may lose for a confidence that nobody asked for, where it is a
# share: on small tables only a nearly constant model may reach it.
MOST_COST = 0.05
LADDER = (CONFIDENCE, 0.8, 0.7, 0.6, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, BY_VALUE)
# Keys of the ends of the interval, and of what unseen rows may show.
INTERVAL_ENDS = ("low", "high")
UNSEEN_ENDS = ("below", "above")
# Key of the quantiles of a metric on unseen rows.
UNSEEN = "unseen"
UNKNOWN = 1.0
"""Shortfall of a metric without a number: as much as the difference of two shares can be."""


@dataclass(frozen=True)
class Limit:
    """A limit on one metric.

    Parameters
    ----------
    metric : str
        Name of the metric.
    sign : {">=", "<="}
        Whether the metric must be at least, or at most, the value.
    value : float
    """

    metric: str
    sign: Literal[">=", "<="]
    value: float

    def shortfall(self, found: float) -> float:
        """By how much a number misses the limit.

        Parameters
        ----------
        found : float
            The metric, or an end of its interval.

        Returns
        -------
        float
            At most 0 if it does not miss it.
        """
        if self.sign == ">=":
            return self.value - found
        return found - self.value

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.value:.12g}"


def parse_limit(text: str) -> Limit:
    """Read a limit such as ``gap_max.sex <= 0.1``.

    Parameters
    ----------
    text : str
        ``METRIC >= NUMBER`` or ``METRIC <= NUMBER``.

    Returns
    -------
    Limit

    Raises
    ------
    ValueError
        If the text has another form.
    """
    match = re.fullmatch(r"\s*([^<>=]+?)\s*(>=|<=)\s*(\S+)\s*", text)
    try:
        value = float(match[3]) if match else math.nan
    except ValueError:
        value = math.nan
    if match is None or not math.isfinite(value):
        raise ValueError(
            f"the limit {text!r} is not of the form METRIC >= NUMBER or METRIC <= NUMBER"
        )
    return Limit(match[1], ">=" if match[2] == ">=" else "<=", value)


@dataclass(frozen=True)
class Trial:
    """A finished trial: a model under one of its rules of decisions.

    Parameters
    ----------
    model : int
        Its number.
    kind : str
        "search", "default", "job", or a control.
    state : {"judged", "pruned", "failed", "partial"}
        ``pruned`` and ``partial`` trials were judged on fewer rows, the latter as there was no time
        for more.
    rule : int, default 0
        Place of the rule.
    method : str or None, default None
    arguments : mapping, default {}
        Parameters of the method.
    decision : str, default "job"
        Kind of the rule.
    tolerance : float or None, default None
        Largest gap that the rule allows.
    calibration : str or None, default None
        Kind of calibration before the rule; None is the job's.
    metrics : mapping, default {}
        By name, ``value``, ``low`` and ``high``.
    seconds : float, default 0
        Duration.
    error : str or None, default None
        Message of a failed trial.
    """

    model: int
    kind: str
    state: Literal["judged", "pruned", "failed", "partial"]
    rule: int = 0
    method: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    decision: str = "job"
    tolerance: float | None = None
    calibration: str | None = None
    metrics: Estimates = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None

    @property
    def number(self) -> str:
        """Number of the model, and after a dot the place of the rule unless it is the first."""
        if self.rule:
            return f"{self.model}.{self.rule}"
        return str(self.model)


@dataclass(frozen=True)
class Aim:
    """What a study looks for: metrics to make best, and limits.

    A limit is met where the chance that unseen rows keep it is at least the confidence. Without a
    confidence, ``CONFIDENCE`` is looked for while trials are searched; among finished trials the
    first of ``LADDER`` counts that any trial reaches, as :func:`settled` says.

    Parameters
    ----------
    objectives : tuple of str
        Metrics, the first one first.
    limits : tuple of Limit, default ()
    confidence : float or None, default None
        From ``BY_VALUE``, at which the value decides, to below 1.
    level : float, default 0.95
        Level of the intervals that trials have.
    """

    objectives: tuple[str, ...]
    limits: tuple[Limit, ...] = ()
    confidence: float | None = None
    level: float = 0.95

    @property
    def confidence_of_search(self) -> float:
        """The confidence, or the default one."""
        if self.confidence is None:
            return CONFIDENCE
        return self.confidence

    @property
    def by_value(self) -> Aim:
        """The same aim, where the values of the metrics decide."""
        return replace(self, confidence=BY_VALUE)

    @property
    def metrics(self) -> list[str]:
        """Metrics that a trial must have, each once."""
        return list(dict.fromkeys([*self.objectives, *(limit.metric for limit in self.limits)]))

    def __str__(self) -> str:
        text = " and ".join(self.objectives)
        if self.limits:
            text += f" where {' and '.join(map(str, self.limits))}"
        return text

    def found(self, limit: Limit, metrics: Estimates) -> float | None:
        """The number that a limit is compared with: the value, or what the metric of unseen rows
        is worse than with a chance of at most one less the confidence, whichever is worse.

        Parameters
        ----------
        limit : Limit
        metrics : mapping
            Of a trial.

        Returns
        -------
        float or None
            The value where there is no interval; None without a number, or where unseen rows
            mostly have none, unless the value decides.
        """
        metric = metrics.get(limit.metric, {})
        value: float | None = metric.get("value")
        if value is not None and UNSEEN in metric and self.confidence_of_search != BY_VALUE:
            if not metric[UNSEEN]:
                return None
            level = self.confidence_of_search
            worse = max
            if limit.sign == ">=":
                level = 1.0 - level
                worse = min
            # the value compares small groups too, of which unseen rows may have too few
            return worse(value, quantile_of(metric[UNSEEN], level))
        end = _end(limit, metric, UNSEEN_ENDS)
        if value is None or end is None:
            return value
        share = _quantile(self.confidence_of_search) / _quantile((1 + self.level) / 2)
        return value + (end - value) * max(share, 0.0)

    def chance(self, limit: Limit, metrics: Estimates) -> float | None:
        r"""Estimate the chance that so many unseen rows as the test has keep a limit.

        It follows from the quantiles of the metric on such rows, where the trial has them
        (:mod:`evenhand.fairlib.tuning.unseen_rows`). Otherwise the metric is taken as normal about
        the value, with the standard deviation that its predicted interval has:
        :math:`\Phi((l - v) / s)` for an upper limit.

        Parameters
        ----------
        limit : Limit
        metrics : mapping
            Of a trial.

        Returns
        -------
        float or None
            None without a value or an interval, or where unseen rows mostly have no value.

        Examples
        --------
        >>> aim = Aim(("auc",), (Limit("gap_max.sex", "<=", 0.1),))
        >>> metrics = {"gap_max.sex": {"value": 0.06, "below": 0.02, "above": 0.10}}
        >>> round(aim.chance(aim.limits[0], metrics), 3)
        0.975
        """
        metric = metrics.get(limit.metric, {})
        value = metric.get("value")
        if value is not None and UNSEEN in metric:
            if not metric[UNSEEN]:
                return None
            if limit.sign == "<=":
                return chance_below(metric[UNSEEN], limit.value)
            return chance_above(metric[UNSEEN], limit.value)
        end = _end(limit, metric, UNSEEN_ENDS)
        if value is None or end is None:
            return None
        room = -limit.shortfall(value)
        width = abs(end - value)
        if width == 0.0:
            return float(room >= 0)
        return NormalDist().cdf(room / width * _quantile((1 + self.level) / 2))

    def shortfall(self, limit: Limit, metrics: Estimates) -> float:
        """By how much a limit is missed.

        Parameters
        ----------
        limit : Limit
        metrics : mapping
            Of a trial.

        Returns
        -------
        float
            0 if it is met, and ``UNKNOWN`` where there is no number.
        """
        number = self.found(limit, metrics)
        if number is None:
            return UNKNOWN
        return max(0.0, limit.shortfall(number))

    def miss(self, metrics: Estimates) -> float:
        """Sum of the shortfalls of all limits.

        Parameters
        ----------
        metrics : mapping
            Of a trial.

        Returns
        -------
        float
        """
        return sum(self.shortfall(limit, metrics) for limit in self.limits)

    def losses(self, metrics: Estimates) -> tuple[float, ...]:
        """The objectives, each so that less is better; infinite where there is no number.

        Parameters
        ----------
        metrics : mapping
            Of a trial.

        Returns
        -------
        tuple of float
        """
        values = []
        for name in self.objectives:
            value = metrics.get(name, {}).get("value")
            sign = -1.0 if better(name) == "higher" else 1.0
            if value is None:
                values.append(math.inf)
            else:
                values.append(sign * value)
        return tuple(values)


def _end(limit: Limit, metric: Mapping[str, float | None], ends: tuple[str, str]) -> float | None:
    """The unfavourable one of two ends of a metric."""
    lower_end, upper_end = ends
    if limit.sign == "<=":
        return metric.get(upper_end)
    return metric.get(lower_end)


def _quantile(share: float) -> float:
    """Quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(share)


def check_limits(limits: Sequence[Limit]) -> None:
    """Check that limits can be met together.

    Parameters
    ----------
    limits : sequence of Limit

    Raises
    ------
    ValueError
        If a limit is outside what the metric can be, contradicts another, or asks for a worse
        metric.
    """
    for limit in limits:
        low, high = describe(limit.metric)[0].domain
        best_possible = high if limit.sign == ">=" else low
        if best_possible is not None and limit.shortfall(best_possible) > 0:
            raise ValueError(f"{limit} cannot be met: the metric is {_range_text(low, high)}")
        for second in limits:
            are_opposite = (limit.sign, second.sign) == (">=", "<=")
            if second.metric == limit.metric and are_opposite and limit.value > second.value:
                raise ValueError(f"{limit} contradicts {second}")
    # last: of two limits that contradict each other, one asks for a worse metric
    for limit in limits:
        sign = "<=" if better(limit.metric) == "lower" else ">="
        if limit.sign != sign:
            raise ValueError(
                f"{limit} asks for a worse metric: of {limit.metric} {better(limit.metric)} is "
                f"better, so write {sign}"
            )


def _range_text(low: float | None, high: float | None) -> str:
    """The range of a metric that has an end at least."""
    if low is None:
        return f"at most {high:g}"
    if high is None:
        return f"at least {low:g}"
    return f"between {low:g} and {high:g}"


def beats(aim: Aim, one: Estimates, other: Estimates) -> bool:
    """Whether one result is clearly ahead: nearer to the limits, or within them and dominating.

    Parameters
    ----------
    aim : Aim
    one, other : mapping
        Metrics of two trials.

    Returns
    -------
    bool
        Whether `one` is ahead of `other`.
    """
    miss = aim.miss(one)
    other_miss = aim.miss(other)
    if miss != other_miss:
        return miss < other_miss
    losses = aim.losses(one)
    other_losses = aim.losses(other)
    if losses == other_losses:
        return False
    return all(loss <= second for loss, second in zip(losses, other_losses, strict=True))


def leading(aim: Aim, results: Sequence[Estimates]) -> list[Estimates]:
    """Results that no other one beats.

    Parameters
    ----------
    aim : Aim
    results : sequence of mapping
        Metrics of trials.

    Returns
    -------
    list of mapping
        In their order.
    """
    return [result for result in results if not _is_beaten(aim, result, results)]


def _is_beaten(aim: Aim, result: Estimates, rivals: Sequence[Estimates]) -> bool:
    return any(beats(aim, rival, result) for rival in rivals)


def is_kept(
    aim: Aim, own: Sequence[Estimates], others: Sequence[Sequence[Estimates]], factor: float
) -> bool:
    """Whether a model goes on after a rung: at most one in `factor` of the models there is ahead of
    it.

    A model has a result for each rule of decisions. Another one is ahead of a result if one of its
    own beats it, and the result with the fewest ahead counts. With one objective this is
    asynchronous successive halving; with several, the order is that of domination.

    Parameters
    ----------
    aim : Aim
    own : sequence of mapping
        Metrics of the model, by rule of decisions.
    others : sequence of sequence of mapping
        Metrics of all other models at the rung.
    factor : float
        Above 1: one model in `factor` goes on.

    Returns
    -------
    bool

    References
    ----------
    L. Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020.
    """
    fewest = math.inf
    for result in own:
        ahead = sum(_is_beaten(aim, result, rival_results) for rival_results in others)
        fewest = min(fewest, ahead)
    return fewest < max(1.0, (len(others) + 1) / factor)


def is_candidate(trial: Trial) -> bool:
    """Whether a trial may win: no constant, and judged on all folds, or on a part of the rows.

    Parameters
    ----------
    trial : Trial

    Returns
    -------
    bool
    """
    return trial.state in ("judged", "partial") and trial.kind != "majority"


def within(aim: Aim, trials: Sequence[Trial]) -> list[Trial]:
    """Trials that may win, meet all limits, and have a number for every objective.

    One that was judged on a part of the rows has no interval, and so can meet them by its value
    only.

    Parameters
    ----------
    aim : Aim
    trials : sequence of Trial

    Returns
    -------
    list of Trial
        In their order.
    """
    return [trial for trial in trials if _is_within(aim, trial)]


def _is_within(aim: Aim, trial: Trial) -> bool:
    if not is_candidate(trial):
        return False
    needs_interval = bool(aim.limits) and aim.confidence_of_search != BY_VALUE
    if needs_interval and trial.state != "judged":
        return False
    if aim.miss(trial.metrics) != 0:
        return False
    return all(map(math.isfinite, aim.losses(trial.metrics)))


def settled(aim: Aim, trials: Sequence[Trial]) -> Aim:
    """Return the aim with the highest confidence of ``LADDER`` that a trial keeps all limits with,
    unless one was asked for.

    A confidence for which the first objective loses more than ``MOST_COST`` is passed over. If no
    trial keeps them with any of these, the values decide which is the best compromise.

    Parameters
    ----------
    aim : Aim
        Objectives, limits, and the confidence that was asked for.
    trials : sequence of Trial
        Finished trials.

    Returns
    -------
    Aim
        The same aim, with a confidence.
    """
    if aim.confidence is not None or not aim.limits:
        return aim
    has_quantiles = any(
        trial.metrics.get(limit.metric, {}).get(UNSEEN) for limit in aim.limits for trial in trials
    )
    for confidence in LADDER:
        if confidence < BY_VALUE and not has_quantiles:
            # the chance of a normal distribution is above one half where the value keeps the limit
            continue
        candidate = replace(aim, confidence=confidence)
        if within(candidate, trials) and _cost_of(candidate, trials) <= MOST_COST:
            return candidate
    return aim.by_value


def is_share(metric: str) -> bool:
    """Whether a metric is between 0 and 1.

    Parameters
    ----------
    metric : str

    Returns
    -------
    bool
    """
    return tuple(describe(metric)[0].domain) == (0, 1)


def _cost_of(aim: Aim, trials: Sequence[Trial]) -> float:
    """How much the first objective, if it is a share, loses against the values deciding."""
    if not is_share(aim.objectives[0]):
        return 0.0
    by_value = within(aim.by_value, trials)
    if not by_value:
        return 0.0
    least = min(aim.losses(trial.metrics)[0] for trial in within(aim, trials))
    return least - min(aim.losses(trial.metrics)[0] for trial in by_value)


def front(aim: Aim, trials: Sequence[Trial]) -> list[Trial]:
    """Trials within the limits that no other dominates in the objectives.

    Parameters
    ----------
    aim : Aim
    trials : sequence of Trial

    Returns
    -------
    list of Trial
    """
    candidates = within(settled(aim, trials), trials)
    if not candidates:
        return []
    losses = np.array([aim.losses(trial.metrics) for trial in candidates])
    return [candidates[index] for index in pareto_front(losses, ["lower"] * len(aim.objectives))]


def best(aim: Aim, trials: Sequence[Trial], prefer: str | None = None) -> Trial | None:
    """The best trial within the limits, ties by the other objectives.

    Among equals a simpler one wins: a control, then the job as it is, then the first.

    Parameters
    ----------
    aim : Aim
    trials : sequence of Trial
    prefer : str or None, default None
        Metric by which the best is chosen; default: the first objective.

    Returns
    -------
    Trial or None
        None if no trial is within the limits.
    """
    order = _choosing(settled(aim, trials), prefer)
    return min(within(order, trials), key=partial(_place, order), default=None)


def ranked(aim: Aim, trials: Sequence[Trial], prefer: str | None = None) -> list[Trial]:
    """The trials within the limits, in the order in which :func:`best` would choose them.

    Parameters
    ----------
    aim : Aim
    trials : sequence of Trial
    prefer : str or None, default None
        Metric by which the best is chosen; default: the first objective.

    Returns
    -------
    list of Trial
    """
    order = _choosing(settled(aim, trials), prefer)
    return sorted(within(order, trials), key=partial(_place, order))


def _choosing(aim: Aim, prefer: str | None) -> Aim:
    """The aim with the metric first by which the best trial is chosen."""
    first = prefer or aim.objectives[0]
    further = (name for name in aim.objectives if name != first)
    return replace(aim, objectives=(first, *further))


def _place(order: Aim, trial: Trial) -> tuple[Any, ...]:
    """What trials are sorted by, the best first."""
    simplest_first = {("plain", "job"): 0, ("blind", "job"): 1, ("job", "job"): 2}
    rank = simplest_first.get((trial.kind, trial.decision), len(simplest_first))
    return order.losses(trial.metrics), rank, trial.model, trial.rule


def nearest(aim: Aim, trials: Sequence[Trial]) -> Trial | None:
    """The trial that misses the limits least, ties by the objectives.

    Parameters
    ----------
    aim : Aim
    trials : sequence of Trial

    Returns
    -------
    Trial or None
        None without a trial that may win.
    """
    candidates = [trial for trial in trials if is_candidate(trial)]
    aim = settled(aim, trials)
    return min(
        candidates,
        key=lambda trial: (aim.miss(trial.metrics), aim.losses(trial.metrics)),
        default=None,
    )


def answer(aim: Aim, trials: Sequence[Trial], prefer: str | None = None) -> Trial | None:
    """Return the best trial within the limits, or the best compromise.

    Parameters
    ----------
    aim : Aim
        Objectives and limits.
    trials : sequence of Trial
        Finished trials.
    prefer : str, optional
        Metric by which the best is chosen; default: the first objective.

    Returns
    -------
    Trial or None
        None if no trial has a number for what is asked.
    """
    winner = best(aim, trials, prefer)
    if winner is None:
        return nearest(aim, trials)
    return winner


# A limit on performance is out of reach if a model would have to be so many times nearer to perfect
# than the best of the first models, and by as much at least. Judged on a part of the rows, a model
# is further from perfect than it will be.
REACHABLE_FACTORS = {"judged": 2.0, "partial": 3.0}
LEAST_DISTANCE = 0.05
# Metrics of performance, which no rule of decisions and no left out column can make perfect.
PERFORMANCE = ("accuracy", "balanced_accuracy", "auc", "log_loss", "brier", "recall")


@dataclass(frozen=True)
class OutOfReach:
    """A limit that no model can be expected to meet.

    Parameters
    ----------
    limit : Limit
    nearest : float
        The best value of the metric among the first models, of those that keep `others`.
    others : tuple of Limit
        The other limits that such models keep; none where no model keeps them.
    """

    limit: Limit
    nearest: float
    others: tuple[Limit, ...]

    def __str__(self) -> str:
        among = ""
        if self.others:
            among = f", among those that keep {' and '.join(map(str, self.others))}"
        bound = "up to" if self.limit.sign == ">=" else "down to"
        return (
            f"{self.limit} is out of reach: the nearest of the first models has "
            f"{self.limit.metric} {self.nearest:.3g}{among}; give a limit {bound} that"
        )


def out_of_reach(
    aim: Aim, trials: Sequence[Trial], limits: Sequence[Limit] | None = None
) -> OutOfReach | None:
    """Return a limit that the first models show to be out of reach, if there is one.

    They are boosting and logistic regression under all rules of decisions. Nobody can prove what no
    model can do; a limit is out of reach if the distance to a perfect metric would have to be less
    than half that of the best of them.

    Parameters
    ----------
    aim : Aim
        Objectives and limits.
    trials : sequence of Trial
        Of the first models.
    limits : sequence of Limit, optional
        Those of the aim that are looked at; default: all. Others are kept by a model that there is.

    Returns
    -------
    OutOfReach or None
    """
    candidates = [trial for trial in trials if is_candidate(trial)]
    for limit in aim.limits if limits is None else limits:
        unreachable = _out_of_reach(aim, limit, candidates)
        if unreachable is not None:
            return unreachable
    return None


def _out_of_reach(aim: Aim, limit: Limit, candidates: Sequence[Trial]) -> OutOfReach | None:
    """The limit, if the candidates show it to be out of reach."""
    low, high = describe(limit.metric)[0].domain
    perfect = high if limit.sign == ">=" else low
    if limit.metric.partition(".")[0] not in PERFORMANCE or perfect is None:
        return None
    others = tuple(item for item in aim.limits if item is not limit)
    without_limit = replace(aim, limits=others).by_value
    among = [trial for trial in candidates if without_limit.miss(trial.metrics) == 0]
    if not among:
        among = list(candidates)
        others = ()
    nearest_trial = min(
        among, key=lambda trial: aim.by_value.shortfall(limit, trial.metrics), default=None
    )
    if nearest_trial is None or not _is_far(limit, nearest_trial, perfect):
        return None
    value = nearest_trial.metrics[limit.metric]["value"]
    assert value is not None, "it misses the limit"
    return OutOfReach(limit, value, others)


def _is_far(limit: Limit, trial: Trial, perfect: float) -> bool:
    """Whether the distance to a perfect metric is too many times that of the limit."""
    value = trial.metrics.get(limit.metric, {}).get("value")
    if value is None or limit.shortfall(value) < LEAST_DISTANCE:
        return False
    factor = REACHABLE_FACTORS[trial.state]
    return abs(perfect - value) > factor * abs(perfect - limit.value)


Evidence = Literal["chance", "value"]
"""By what a limit is kept: a chance of at least the confidence, or the value alone."""


@dataclass(frozen=True)
class Standing:
    """How a trial stands to one limit.

    Parameters
    ----------
    limit : Limit
        The limit.
    value, end : float or None
        The metric's value, and the unfavourable end of its interval.
    chance : float or None
        Estimated chance that unseen rows keep the limit; None without an interval.
    kept_by : {"chance", "value"} or None
        "chance" if it is at least the confidence; None if the value misses the limit, or there is
        none.
    """

    limit: Limit
    value: float | None
    end: float | None
    chance: float | None
    kept_by: Evidence | None

    @property
    def missed_by(self) -> float:
        """By how much the value misses the limit; 0 if it keeps it, and ``UNKNOWN`` if there is
        none.
        """
        if self.value is None:
            return UNKNOWN
        return max(0.0, self.limit.shortfall(self.value))

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.limit}: not enough evidence for the metric"
        numbers = f"value {self.value:.3g}"
        if self.chance is not None:
            numbers += f", {probability_text(self.limit, self.chance)} on unseen rows"
        if self.kept_by is None:
            return f"{self.limit}: missed by {self.missed_by:.3g} ({numbers})"
        if self.kept_by == "value":
            return f"{self.limit}: kept by the value, not shown to hold ({numbers})"
        return f"{self.limit}: kept ({numbers})"


def shown_chance(chance: float) -> str:
    """Write a chance with two digits, without saying that anything is certain.

    Parameters
    ----------
    chance : float
        From 0 to 1.

    Returns
    -------
    str

    Examples
    --------
    >>> shown_chance(0.972), shown_chance(0.9999), shown_chance(0.0)
    ('.97', 'above .99', 'below .01')
    """
    if chance > 0.995:
        return "above .99"
    if chance < 0.005:
        return "below .01"
    return f"{chance:.2f}".removeprefix("0")


def probability_text(limit: Limit | str, chance: float) -> str:
    """Write the chance of keeping a limit as a probability.

    Parameters
    ----------
    limit : Limit or str
    chance : float
        From 0 to 1.

    Returns
    -------
    str

    Examples
    --------
    >>> probability_text("auc >= 0.7", 0.97), probability_text("auc >= 0.7", 0.0)
    ('P(auc >= 0.7) = .97', 'P(auc >= 0.7) < .01')
    """
    shown = shown_chance(chance)
    sign = "="
    for word, inequality in (("above ", ">"), ("below ", "<")):
        if shown.startswith(word):
            shown = shown.removeprefix(word)
            sign = inequality
    return f"P({limit}) {sign} {shown}"


def standings(aim: Aim, metrics: Estimates) -> list[Standing]:
    """Return how a result stands to each limit: by its value, and by the chance of unseen rows.

    Parameters
    ----------
    aim : Aim
        Its limits, and the confidence or else the default one.
    metrics : mapping
        Value, ``low``, ``high``, and where known ``below`` and ``above`` of each metric.

    Returns
    -------
    list of Standing
        One for each limit, in their order.
    """
    rows = []
    for limit in aim.limits:
        metric = metrics.get(limit.metric, {})
        value = metric.get("value")
        chance = aim.chance(limit, metrics)
        kept_by: Evidence | None = None
        if value is not None and limit.shortfall(value) <= 0:
            kept_by = "value"
            if chance is not None and chance >= aim.confidence_of_search:
                kept_by = "chance"
        end = _end(limit, metric, INTERVAL_ENDS)
        rows.append(Standing(limit, value, end, chance, kept_by))
    return rows


def costs(aim: Aim, trials: Sequence[Trial], prefer: str | None = None) -> list[dict[str, Any]]:
    """What each limit costs: the best objective within all limits, and within all but this one.

    Both are of this study's trials: a search without the limit might have found a better one.

    Parameters
    ----------
    aim : Aim
    trials : sequence of Trial
    prefer : str or None, default None
        The objective; default: the first one.

    Returns
    -------
    list of dict
        ``limit``, ``with`` and ``without`` it, and ``by_value``: with all limits, if the values of
        the validation rows decided. None where no trial is within the limits.
    """
    name = prefer or aim.objectives[0]
    aim = settled(aim, trials)
    rows = []
    for limit in aim.limits:
        further_limits = tuple(item for item in aim.limits if item is not limit)
        held = best(aim, trials, name)
        by_value = best(aim.by_value, trials, name)
        free = best(replace(aim, limits=further_limits), trials, name)
        rows.append(
            {
                "limit": str(limit),
                "with": _value_of(held, name),
                "without": _value_of(free, name),
                "by_value": _value_of(by_value, name),
            }
        )
    return rows


def _value_of(trial: Trial | None, metric: str) -> float | None:
    if trial is None:
        return None
    return trial.metrics[metric]["value"]
