r"""What a longer search could still gain, from a stream of independent random settings.

A guided search says nothing about the settings that it did not try: it tries those like the best
ones. Settings that are drawn independently from a space can be exchanged with one another, and so
they are evidence of all settings of the space.

Let :math:`U_i` be the share of settings that are better than the i-th setting of the stream. It is
uniform on (0, 1), or smaller where settings tie. The share of settings better than the best of n is
the smallest of n such numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.execution import generator

# The bound on the share holds at all numbers of settings up to here together.
MOST_SETTINGS = 10**6
# The bound changes at numbers of settings that grow by this factor, from the first on.
EPOCH_FACTOR = 1.1
FIRST_EPOCH = 8
# Fewest settings in the tail that an extreme-value distribution is fitted to, and the share of the
# stream that the tail is where there are more.
LEAST_TAIL = 25
LEAST_COUNTED = 2 * LEAST_TAIL
TAIL_SHARE = 0.15
MOST_TAIL = 150
# A fit with a smaller p-value is rejected.
LEAST_P = 0.1
# Simulated tails, by which the fit is checked and its bound is calibrated.
SIMULATIONS = 400
# Numbers of standard errors that are added to the shape, of which the first that suffices is taken.
ERRORS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
# With a shape of 0, the share above the bound is divided by the first of these that suffices.
FACTORS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
# The shape is taken as above 0 if it is by more than so many standard errors.
LARGEST_T = 1.64
# With a smaller shape most of the largest values are near the end of the fitted distribution: its
# density grows without bound there, and the errors of the estimates are unknown.
LEAST_SHAPE = -1.0
PILED_UP = "the largest values pile up at one value"
# A distribution without gaps has no value twice. Two settings may be the same model; a value that
# more than three of the largest have is an atom, which a Pareto distribution has not.
MOST_ALIKE = 3
TOO_HEAVY = "the largest values are spread wider than those of a bounded metric"


def share_bound(settings: int, level: float = 0.95) -> float:
    r"""Bound the share of settings that are better than the best of so many random ones.

    The bound assumes nothing about the distribution, and holds at all numbers of settings together,
    so the stream may be stopped at any time for any reason:
    :math:`P(\exists n: \min(U_1, ..., U_n) > p_n) \le 1 - level`. For a fixed n the bound
    :math:`1 - (1 - level)^{1/n}`, about 3 / n, would do ("rule of three"); this one is some two
    times as large.

    It is constant on epochs that begin at :math:`m_1 < m_2 < ...`. The smallest of more numbers is
    smaller, so the bound fails within an epoch only if it fails at its beginning. The chance
    :math:`v_k` that it fails for the first time in epoch k follows from
    :math:`v_k = (1 - p_k)^{m_k} - \sum_{j<k} v_j (1 - p_k)^{m_k - m_j}`, and
    :math:`p_k = 1 - a_k^{1/m_k}` with :math:`a_k` falling as :math:`1 / (k + 10)`, scaled so that
    :math:`\sum_k v_k = 1 - level`. The union over epochs of growing length is the usual way to
    confidence sequences [1]_; here its sum is exact, as the events follow from one another.

    Parameters
    ----------
    settings : int
        Number of settings of the stream that were judged.
    level : float
        Chance that the bound holds at all times.

    Returns
    -------
    float
        From 0 to 1; 1 for fewer settings than the first epoch has.

    Raises
    ------
    ValueError
        If the level is not between 0 and 1.

    References
    ----------
    .. [1] S. R. Howard, A. Ramdas, J. McAuliffe and J. Sekhon, "Time-uniform, nonparametric,
       nonasymptotic confidence sequences", Annals of Statistics 49 (2021).

    Examples
    --------
    >>> round(share_bound(300), 3)
    0.024
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: got {level!r}, expected a number between 0 and 1")
    starts = _epoch_starts()
    epoch = int(np.searchsorted(starts, settings, side="right")) - 1
    if epoch < 0:
        return 1.0
    return float(_epoch_bounds(level)[epoch])


def mean_gain_bound(settings: int, most: float, level: float = 0.95) -> float:
    r"""Bound the mean gain of one further random setting over the best found.

    With p the share of settings that are better than the best found, which is at least as good as
    the best of the `settings` random ones, and a gain of `most` at most,

    .. math:: E[(X - best)_+] \le p \cdot most,

    and p is below :func:`share_bound`. So nothing is assumed about the distribution, and the bound
    holds whenever the search stops. A search may stop where the mean gain of one more model is
    less than what the model costs [1]_.

    Parameters
    ----------
    settings : int
        Number of settings of the stream that were judged.
    most : float
        Difference of the metric's best possible value and that of the best found, at least 0.
    level : float
        Chance that the bound holds at all times.

    Returns
    -------
    float
        In the unit of the metric, from 0 to `most`.

    Raises
    ------
    ValueError
        If the level is not between 0 and 1, or `most` is negative or not finite.

    References
    ----------
    .. [1] C. Hays, B. Laufer, S. Barocas and M. Raghavan, "Statistical Guarantees in the Search for
       Less Discriminatory Algorithms", ICLR 2026, arXiv 2512.23943.

    Examples
    --------
    >>> round(mean_gain_bound(300, 0.02), 5)
    0.00048
    """
    if not 0.0 <= most < math.inf:
        raise ValueError(f"most: got {most!r}, expected a finite number, not negative")
    return most * share_bound(settings, level)


@lru_cache(maxsize=1)
def _epoch_starts() -> Float:
    """First number of settings of each epoch."""
    starts = [FIRST_EPOCH]
    while starts[-1] < MOST_SETTINGS:
        starts.append(max(starts[-1] + 1, math.floor(EPOCH_FACTOR * starts[-1])))
    return np.array(starts, dtype=np.float64)


@lru_cache(maxsize=8)
def _epoch_bounds(level: float) -> Float:
    """Bound of each epoch, so that the chance of any failure is 1 - `level`."""
    starts = _epoch_starts()
    weights = 1.0 / (np.arange(len(starts)) + 10.0)
    # more than the sum of the chances at the beginnings of the epochs, and less
    low = 0.0
    high = 1.0 / weights[0]
    for _ in range(60):
        scale = (low + high) / 2
        bounds = 1.0 - np.minimum(scale * weights, 1.0) ** (1.0 / starts)
        if failure_chance(bounds, starts) > 1.0 - level:
            high = scale
        else:
            low = scale
    return 1.0 - (low * weights) ** (1.0 / starts)


def failure_chance(bounds: Float, starts: Float) -> float:
    """Chance that the smallest of uniform numbers is above its epoch's bound at any time.

    Parameters
    ----------
    bounds : ndarray, shape (K,)
        Bound of each epoch; they fall.
    starts : ndarray, shape (K,)
        Number of settings at which each epoch begins.

    Returns
    -------
    float
    """
    first = np.zeros(len(starts))
    for k, start in enumerate(starts):
        log_miss = np.log1p(-bounds[k])
        after = np.exp(log_miss * (start - starts[:k]))
        first[k] = np.exp(log_miss * start) - first[:k] @ after
    return float(first.sum())


@dataclass(frozen=True)
class GainBound:
    """Bound on what a longer search could still gain.

    Parameters
    ----------
    gain : float or None
        Largest gain of the metric; None if the values do not show it.
    reason : str
        Why they do not show it; empty if they do.
    tail : int
        Number of settings that the distribution was fitted to.
    shape : float or None
        Shape of the fitted distribution; below 0 there is a largest possible value.
    p_value : float or None
        Of the test that the tail has this distribution.
    """

    gain: float | None
    reason: str = ""
    tail: int = 0
    shape: float | None = None
    p_value: float | None = None


def gain_bound(
    merits: Float,
    best: float,
    times: float = 10.0,
    *,
    most: float = math.inf,
    level: float = 0.9,
    seed: int = 0,
) -> GainBound:
    r"""Bound what a search that is so many times as long could gain.

    The largest merits are taken as a sample of a generalised Pareto distribution,
    :math:`P(Y - u > y) = \zeta (1 + \xi y / \sigma)^{-1/\xi}`, which is the limit of the tail of
    most distributions [1]_. That is an assumption, and so is :math:`\xi \le 0`: metrics are
    bounded, and so their tails are no heavier than exponential ones. The first is tested by the
    Cramér-von-Mises distance with simulated tails, and the second by the estimate; a tail that
    fails gives no bound. Neither does one of which more than three of the 25 largest merits are
    equal, as that distribution is continuous, nor one whose :math:`\xi` is below -1 by more than
    the estimates of simulated tails with -1 are. Then the density grows without bound towards the
    largest possible value: the merits pile up at one value, and maximum-likelihood estimates have
    no known errors [3]_. The parameters are estimated as in [2]_.

    The bound is a quantile of the largest of the further settings, for a shape that is larger than
    its estimate by a number of standard errors :math:`(1 + \xi) / \sqrt k`, at most 0, and a scale
    that gives the mean excess with it. The number is the smallest with which bounds from simulated
    tails of this size, with a shape one standard error larger than the estimate, cover the gain
    with a level halfway to 1: the estimate of the shape may be wrong in the other direction.

    Parameters
    ----------
    merits : ndarray, shape (n,)
        Of each setting of the stream, larger is better; NaN of those that do not count.
    best : float
        Merit of the best setting that any search found.
    times : float
        Length of the longer search over that of the stream.
    most : float
        Largest gain that is possible at all: the distance from the best merit to the end of the
        metric's domain. At 0 there is nothing to gain, whatever the distribution.
    level : float
        Chance that the bound covers the gain, if the assumption holds.
    seed : int
        Seed of the simulated tails.

    Returns
    -------
    GainBound

    References
    ----------
    .. [1] J. Pickands, "Statistical inference using extreme order statistics", Annals of
       Statistics 3 (1975).
    .. [2] J. Zhang and M. A. Stephens, "A new and efficient estimation method for the generalized
       Pareto distribution", Technometrics 51 (2009).
    .. [3] R. L. Smith, "Maximum likelihood estimation in a class of nonregular cases", Biometrika
       72 (1985).
    """
    if most <= 0.0:
        return GainBound(0.0)
    counted = np.sort(merits[np.isfinite(merits)])[::-1]
    size = int(min(max(LEAST_TAIL, TAIL_SHARE * len(counted)), MOST_TAIL))
    if len(counted) < LEAST_COUNTED:
        reason = f"{len(counted)} random settings are as good, and {LEAST_COUNTED} are needed"
        return GainBound(None, reason)
    excesses = counted[:size] - counted[size]
    excesses = excesses[excesses > 0.0]
    _, alike = np.unique(counted[:LEAST_TAIL], return_counts=True)
    too_few = len(excesses) < LEAST_TAIL // 2 or len(np.unique(excesses)) < len(excesses) / 2
    if too_few or alike.max() > MOST_ALIKE:
        return GainBound(None, "too many of the best settings are equal", len(excesses))
    shape, scale = (float(value[0]) for value in _pareto_fits(excesses[None, :]))
    if shape > LARGEST_T * _standard_error(shape, len(excesses)):
        return GainBound(None, TOO_HEAVY, len(excesses), shape)
    rng = generator(seed, "further-search")
    if _is_piled_up(shape, len(excesses), rng):
        return GainBound(None, PILED_UP, len(excesses), shape)
    simulated = _pareto_quantiles(rng.random((SIMULATIONS, len(excesses))), shape, scale)
    shapes, scales = _pareto_fits(simulated)
    distances = _fit_distances(simulated, shapes, scales)
    distance = _fit_distances(excesses[None, :], np.array([shape]), np.array([scale]))[0]
    p_value = float(np.mean(distances >= distance))
    if p_value < LEAST_P:
        reason = "the largest values do not have the assumed distribution"
        return GainBound(None, reason, len(excesses), shape, p_value)
    further = (times - 1.0) * len(excesses)
    caution = _sufficient_caution(rng, excesses, shape, further, (1.0 + level) / 2)
    bound = float(_upper_quantiles(excesses[None, :], np.array([shape]), *caution)[0])
    gain = min(max(0.0, float(counted[size]) + bound - best), most)
    return GainBound(gain, "", len(excesses), shape, p_value)


def _is_piled_up(shape: float, size: int, rng: np.random.Generator) -> bool:
    """Whether an estimate from so many excesses is too small for tails with the least shape."""
    if shape >= LEAST_SHAPE:
        return False
    uniform = _pareto_quantiles(rng.random((SIMULATIONS, size)), LEAST_SHAPE, 1.0)
    estimates, _ = _pareto_fits(uniform)
    return shape < float(np.quantile(estimates, LEAST_P))


def _sufficient_caution(
    rng: np.random.Generator, excesses: Float, shape: float, further: float, level: float
) -> tuple[float, float]:
    """Return the number of standard errors, and the share of excesses that is left above the bound,
    with which bounds cover the largest of so many further excesses.

    They are simulated with a shape that is one standard error larger than the estimate.
    """
    size = len(excesses)
    true_shape = min(0.0, shape + float(_standard_error(shape, size)))
    true_scale = float(excesses.mean()) * (1.0 - true_shape)
    samples = _pareto_quantiles(rng.random((SIMULATIONS, size)), true_shape, true_scale)
    shapes, _ = _pareto_fits(samples)
    # the share of further excesses above the largest is exponential with this mean
    share = np.minimum(rng.exponential(size=SIMULATIONS) / further, 1.0)
    largest = _pareto_quantiles(1.0 - share, true_shape, true_scale)
    share_above = min(0.5, -math.log(level) / further)
    options = [(errors, share_above) for errors in ERRORS]
    options += [(math.inf, share_above / factor) for factor in FACTORS]
    for option in options:
        if np.mean(largest <= _upper_quantiles(samples, shapes, *option)) >= level:
            return option
    return options[-1]


def _standard_error(shape: Float | float, size: int) -> Float:
    """Standard error of the estimated shape, of its maximum-likelihood estimate."""
    return np.asarray(np.maximum(1.0 + np.asarray(shape), 0.1) / math.sqrt(size))


def _upper_quantiles(samples: Float, shapes: Float, errors: float, share: float) -> Float:
    """Excess that this share is above, of each row of excesses, with a shape larger by so many
    standard errors.
    """
    size = samples.shape[1]
    larger = np.zeros(len(shapes))
    if math.isfinite(errors):
        larger = np.minimum(shapes + errors * _standard_error(shapes, size), 0.0)
    scales = samples.mean(axis=1) * (1.0 - larger)
    return np.maximum(_pareto_quantiles(1.0 - share, larger, scales), samples.max(axis=1))


def _pareto_quantiles(share: Float | float, shape: Float | float, scale: Float | float) -> Float:
    """Quantiles of the generalised Pareto distribution."""
    log_above = np.log1p(-np.asarray(share))
    flat = np.abs(shape) < 1e-9
    safe = np.where(flat, 1.0, shape)
    return np.where(flat, -scale * log_above, scale * np.expm1(-safe * log_above) / safe)


def _pareto_shares(excesses: Float, shape: Float, scale: Float) -> Float:
    """Distribution function of the generalised Pareto distribution."""
    flat = np.abs(shape) < 1e-9
    safe = np.where(flat, 1.0, shape)
    inner = np.maximum(1.0 + safe * excesses / scale, 0.0)
    with np.errstate(divide="ignore"):
        log_above = np.where(flat, -excesses / scale, -np.log(inner) / safe)
    return -np.expm1(np.minimum(log_above, 0.0))


def _pareto_fits(samples: Float) -> tuple[Float, Float]:
    """Shape and scale of each row of excesses, by the estimator of Zhang and Stephens (2009).

    The ratio theta = -shape / scale is a mean over candidates, weighted by their profile
    likelihood.
    """
    ordered = np.sort(samples, axis=1)
    n = ordered.shape[1]
    candidates = 20 + int(math.sqrt(n))
    quartile = ordered[:, max(int(n / 4 + 0.5) - 1, 0)]
    places = np.arange(1, candidates + 1) - 0.5
    steps = 1.0 - np.sqrt(candidates / places)
    theta = 1.0 / ordered[:, -1, None] + steps / (3.0 * quartile[:, None])
    logs = np.log1p(-theta[:, :, None] * ordered[:, None, :])
    shapes = logs.mean(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = n * (np.log(-theta / shapes) - shapes - 1.0)
    likelihood = np.where(np.isfinite(likelihood), likelihood, -np.inf)
    weights = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mean_theta = (theta * weights).sum(axis=1)
    shape = np.log1p(-mean_theta[:, None] * ordered).mean(axis=1)
    return shape, -shape / mean_theta


def _fit_distances(samples: Float, shapes: Float, scales: Float) -> Float:
    """Cramér-von-Mises distance of each row of excesses to its fitted distribution."""
    ordered = np.sort(samples, axis=1)
    n = ordered.shape[1]
    expected = (np.arange(n) + 0.5) / n
    shares = _pareto_shares(ordered, shapes[:, None], scales[:, None])
    return np.asarray(((shares - expected) ** 2).sum(axis=1) + 1.0 / (12.0 * n))


@dataclass(frozen=True)
class Multiplicity:
    """How many of equally good models decide otherwise about the same people.

    Parameters
    ----------
    models : int
        Number of equally good models that the reference is compared with.
    ambiguity : float
        Share of people about whom at least one of them decides otherwise.
    discrepancy : float
        Largest share of people about whom a single one decides otherwise.
    mean : float
        Mean share of models that decide otherwise about a person.
    by_group : mapping
        Per attribute and group of at least `min_cell` people, ``people``, ``ambiguity`` and
        ``mean``; None for smaller groups.
    """

    models: int
    ambiguity: float
    discrepancy: float
    mean: float
    by_group: dict[str, dict[str, dict[str, float] | None]]


def multiplicity(
    reference: Bool,
    decisions: Bool,
    groups: dict[str, np.ndarray],
    min_cell: int,
    people: Int | None = None,
) -> Multiplicity:
    """Count of how many equally good models a decision about a person depends.

    Parameters
    ----------
    reference : ndarray of bool, shape (n,)
        Decisions of the model in question.
    decisions : ndarray of bool, shape (m, n)
        Decisions of m models that are as good.
    groups : dict
        Per attribute the group of each person, shape (n,).
    min_cell : int
        Fewest people of a group whose shares are shown. Where all smaller groups together have
        fewer, the next one is not shown either: theirs would follow by subtraction.
    people : ndarray of int, shape (n,), or None, default None
        Person of each row where a person may have several. Shares, too, are then of people: about
        a person a model decides otherwise if it does so about at least one of the rows. In a group
        only the rows of the group count.

    Returns
    -------
    Multiplicity

    Raises
    ------
    ValueError
        Without a model to compare with.

    References
    ----------
    .. [1] C. Marx, F. Calmon and B. Ustun, "Predictive Multiplicity in Classification", ICML 2020.

    Examples
    --------
    >>> other = np.array([[True, False, False, True], [True, True, False, False]])
    >>> result = multiplicity(np.array([True, True, False, False]), other, {}, 1)
    >>> result.ambiguity, result.discrepancy, result.mean
    (0.5, 0.5, 0.25)
    """
    if not len(decisions):
        raise ValueError("decisions: got no model, expected at least one")
    differs_by_row = decisions != reference
    differs = _by_person(differs_by_row, people)
    share = differs.mean(axis=0)
    by_group: dict[str, dict[str, dict[str, float] | None]] = {}
    for attribute, values in groups.items():
        rows = by_group.setdefault(attribute, {})
        people_hidden = 0
        for name in np.unique(values):
            members = values == name
            people_of_group = None if people is None else people[members]
            differs_in_group = _by_person(differs_by_row[:, members], people_of_group)
            rows[str(name)] = None
            count = differs_in_group.shape[1]
            if count >= min_cell:
                share_in_group = differs_in_group.mean(axis=0)
                rows[str(name)] = {
                    "people": float(count),
                    "ambiguity": float((share_in_group > 0).mean()),
                    "mean": float(share_in_group.mean()),
                }
            else:
                people_hidden += count
        _hide_the_rest(rows, people_hidden, min_cell)
    return Multiplicity(
        models=len(decisions),
        ambiguity=float((share > 0).mean()),
        discrepancy=float(differs.mean(axis=1).max()),
        mean=float(share.mean()),
        by_group=by_group,
    )


def _hide_the_rest(
    rows: dict[str, dict[str, float] | None], people_hidden: int, min_cell: int
) -> None:
    """Hide the smallest shown group too where the hidden ones together have fewer than `min_cell`
    people: the numbers of all people and of the shown groups would give those of these few.
    """
    shown = {name: row["people"] for name, row in rows.items() if row is not None}
    if shown and 0 < people_hidden < min_cell:
        rows[min(shown, key=lambda name: shown[name])] = None


def _by_person(differs: Bool, people: Int | None) -> Bool:
    """Whether each of m models decides otherwise about at least one row of each person, shape
    (m, number of people); about each row where `people` is None.
    """
    if people is None:
        return differs
    order = np.argsort(people, kind="stable")
    _, first = np.unique(people[order], return_index=True)
    of_people: Bool = np.logical_or.reduceat(differs[:, order], first, axis=1)
    return of_people
