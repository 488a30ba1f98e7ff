"""The proved side of certificates of networks and trees, with the model's calibration and decision
rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.certificates import measures
from evenhand.fairlib.certificates.branching import MARGIN, network_rings
from evenhand.fairlib.certificates.networks import NotProvedError
from evenhand.fairlib.certificates.region import Region
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.evaluation.budget_allocation import ConcaveHulls
from evenhand.fairlib.execution import Progress, available_cores, map_in_threads
from evenhand.fairlib.methods.decided import DecidedModel, GroupRule, ThresholdRule

# People whose parts compete for the same effort.
GROUP = 250
# Beyond four times the budget's radius, the radii grow by this factor up to the whole range.
FACTOR = 3.0


@dataclass(frozen=True)
class Proof:
    r"""What is proved about one model on some people."""

    people: int
    radius: float  # fair distance of the ball of each person, the root of the budget
    # by metric: found and proved
    intervals: dict[str, measures.Interval] = field(default_factory=dict)
    # share of people whose decision provably cannot change within the radius
    unchanged: float | None = None
    hulls: ConcaveHulls | None = None  # of the proved mean change
    reasons: dict[str, str] = field(default_factory=dict)  # why a metric has no proof


NAMES = (
    "certificate.dif",
    "certificate.score",
    "certificate.flips",
    "certificate.radius",
    "certificate.loss",
)
"""Metrics that have a found and a proved end."""


def prove(
    model: Any,
    X: ArrayLike,
    metric: Metric,
    budget: float,
    *,
    y: ArrayLike | None = None,
    parts: int = 40,
    seed: int = 0,
    callback: Progress | None = None,
) -> Proof:
    """Prove certificates of a fitted classifier of two labels on rows X, shape (n, d).

    Parameters
    ----------
    model : fitted classifier
        Fitted, with a ``network_`` or a ``booster_``, possibly with a calibration and a decision
        rule. Trees have no ``certificate.dif``, which is a change of logits by small moves.
    X : array-like, shape (n, d)
        Encoded rows of people.
    metric : Metric
        Fitted fair metric.
    budget : float
        Mean squared fair distance; the ball of a person has its root as radius.
    y : array-like, shape (n,), optional
        Labels, 0 or 1, for the rise of the loss; default: it is not proved.
    parts : int, default 40
        Effort, as in :func:`evenhand.fairlib.certificates.branching.network_rings`; of trees the
        states that are looked at per person, side and radius, of which there are few.
    seed : int, default 0
        Seed of the search.
    callback : callable, optional
        ``callback(done, total)``, in groups of people.

    Returns
    -------
    Proof
        Intervals, and reasons where nothing is proved.

    Examples
    --------
    >>> from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
    >>> from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> metric = SensitiveSubspace(indicators=[0], learned=[]).fit(X)
    >>> model = NeuralNetworkClassifier(hidden=(4,), n_steps=20, random_state=0)
    >>> proof = prove(model.fit(X, X[:, 1] > 0), X, metric, budget=0.01)
    >>> proof.people
    20
    >>> interval = proof.intervals["certificate.flips"]
    >>> 0 <= interval.found <= interval.proved <= 1
    True
    """
    try:
        rings = rings_within(model, X, metric, budget, parts=parts, seed=seed, callback=callback)
    except NotProvedError as error:
        reasons = dict.fromkeys(NAMES, f"not proved: {error}")
        return Proof(len(np.asarray(X)), float(np.sqrt(budget)), reasons=reasons)
    return proof_of(model, rings, y=y)


@dataclass(frozen=True)
class RingsWithin:
    """How far outputs of a model may move within rising distances from people, without a rule of
    decisions.
    """

    people: int
    budget: float
    radii: list[float]
    rings: list[measures.Ring]
    is_trees: bool

    @property
    def radius(self) -> float:
        """Fair distance of the ball of each person."""
        return float(np.sqrt(self.budget))


def rings_within(
    model: Any,
    X: ArrayLike,
    metric: Metric,
    budget: float,
    *,
    parts: int = 40,
    seed: int = 0,
    callback: Progress | None = None,
) -> RingsWithin:
    """Search and bound the outputs of a fitted classifier; a calibration and a rule are not used.

    Parameters
    ----------
    model : fitted classifier
        As for :func:`prove`.
    X : array-like, shape (n, d)
        Encoded rows of people.
    metric : Metric
        Fitted fair metric.
    budget : float
        Mean squared fair distance.
    parts : int, default 40
        Effort.
    seed : int, default 0
        Seed of the search.
    callback : callable, optional
        ``callback(done, total)``, in groups of people.

    Returns
    -------
    RingsWithin

    Raises
    ------
    NotProvedError
        If the model has parts that the proof does not cover.
    """
    is_trees = hasattr(model, "booster_")
    x = np.asarray(X, dtype=np.float64)
    radius = float(np.sqrt(budget))
    diameter = _diameter(Region.of(metric, x, 0.0))
    largest = min(diameter, 4 * radius) if is_trees else diameter
    radii = radii_up_to(largest, radius)
    groups = [x[i : i + GROUP] for i in range(0, len(x), GROUP)]
    done = []

    def _rings_of(group: Float) -> list[measures.Ring]:
        if is_trees:
            # compiles kernels
            from evenhand.fairlib.certificates.tree_rings import tree_rings

            # a mean may be spent on a few people who move farther
            rings = tree_rings(
                model, metric, group, [*radii, np.inf], rounds=(max(parts, 1),), far_rounds=(1,)
            )
        elif getattr(model, "adapts_inputs", False):
            raise NotProvedError("the model reads adapted columns, which are no linear map.")
        else:
            rings = network_rings(model.network_, metric, group, radii, parts=parts, seed=seed)
        done.append(len(group))
        if callback is not None:
            callback(len(done), len(groups))
        return rings

    # the bounds of trees have threads of their own
    several = map_in_threads(1 if is_trees else available_cores(), _rings_of, groups)
    joined = [measures.Ring.join(same) for same in zip(*several, strict=True)]
    return RingsWithin(len(x), budget, radii, joined, is_trees)


def proof_of(model: Any, within: RingsWithin, *, y: ArrayLike | None = None) -> Proof:
    """Prove certificates of a model under its calibration and rule, by rings of the same model.

    Parameters
    ----------
    model : fitted classifier
        That of the rings, possibly with a calibration and a decision rule.
    within : RingsWithin
        Result of :func:`rings_within`.
    y : array-like, shape (n,), optional
        Labels, 0 or 1, for the rise of the loss.

    Returns
    -------
    Proof
    """
    budget = within.budget
    rings = within.rings
    proof = Proof(within.people, within.radius)
    margins = rings
    if not within.is_trees:
        mean_bounds = measures.mean_change(rings, measures.squared_gain, measures.squared_found)
        dif = {"certificate.dif": _within(budget, mean_bounds)}
        proof = replace(proof, intervals=dif, hulls=mean_bounds[1])
        margins = [ring.columns(MARGIN, np.sqrt(2.0)) for ring in rings]
    try:
        score, threshold = _score_and_threshold(model)
    except NotProvedError as error:
        return replace(proof, reasons=dict.fromkeys(NAMES[1:], f"not proved: {error}"))
    proved_radii, found_radii = measures.decision_radii(margins[: len(within.radii)], threshold)
    ball = margins[within.radii.index(within.radius)]
    median = measures.Interval(float(np.median(found_radii)), float(np.median(proved_radii)))
    intervals = {
        **proof.intervals,
        "certificate.score": measures.score_change(ball, score),
        "certificate.flips": measures.flipped_share(proved_radii, found_radii, budget),
        "certificate.radius": median,
    }
    if y is not None:
        rise = partial(measures.loss_rise, score=score, y=np.asarray(y))
        mean_bounds = measures.mean_change(margins, rise, lambda ring: rise(ring.own, ring.found))
        intervals["certificate.loss"] = _within(budget, mean_bounds)
    unchanged = float((proved_radii >= within.radius * (1.0 - 1e-9)).mean())
    return replace(proof, intervals=intervals, unchanged=unchanged)


def _within(budget: float, hulls: tuple[ConcaveHulls, ConcaveHulls]) -> measures.Interval:
    """Both ends of a mean within a mean budget."""
    ends = []
    for hull in hulls:
        values, _ = hull.allocate(np.array([budget]))
        ends.append(float(values[0]))
    return measures.Interval(found=ends[0], proved=ends[1])


def radii_up_to(largest: float, radius: float) -> list[float]:
    """Radii of rings: 0, around the given radius, and on to one that reaches everybody in the
    range.

    Parameters
    ----------
    largest : float
        Fair distance that reaches everybody.
    radius : float
        Fair distance of interest.

    Returns
    -------
    list of float
        Rising, from 0.
    """
    if radius == 0.0:
        return [0.0]
    radii = [0.0, radius / 2, radius, 2 * radius, 4 * radius]
    while radii[-1] < largest:
        radii.append(FACTOR * radii[-1])
    return radii


def _diameter(region: Region) -> float:
    """No point of a region is at a larger fair distance from its person."""
    extent = np.linalg.norm(np.maximum(-region.low, region.high), axis=1)
    # the smallest squared column length of F is one over the largest eigenvalue of the metric's
    # matrix
    return float(extent.max() / np.sqrt(np.square(region.factor).sum(axis=0).min()))


def _score_and_threshold(model: Any) -> tuple[Callable[[Float], Float], float]:
    """The score as a monotone function of the margin, and the margin from which on decisions are
    positive.
    """
    rule: Any = ThresholdRule()
    if isinstance(model, DecidedModel):
        rule = model.rule
    if isinstance(rule, GroupRule):
        raise NotProvedError(f"decisions depend on the group by {rule.attribute!r}")
    score = _score_of(model)
    if rule.threshold is None:
        return score, 0.0
    return score, _margin_at(score, rule.threshold)


def _score_of(model: Any) -> Callable[[Float], Float]:
    """The score as a monotone function of the margin."""
    calibration = None
    if isinstance(model, DecidedModel):
        calibration = model.calibration
    # the last parameter of both is the intercept
    if calibration is not None and min(calibration.parameters[:-1], default=0.0) < 0:
        raise NotProvedError("the calibration does not rise with the probability")

    def _score(margin: Float) -> Float:
        probability = np.asarray(expit(margin))
        if calibration is None:
            return probability
        return np.asarray(calibration(probability))

    return _score


def _margin_at(score: Callable[[Float], Float], threshold: float) -> float:
    """The least margin whose score reaches a threshold."""
    low = -40.0
    high = 40.0
    while high - low > measures.ROUNDING:
        middle = (low + high) / 2
        if score(np.array([middle]))[0] >= threshold:
            high = middle
        else:
            low = middle
    return high


def group_margin_thresholds(model: Any) -> dict[str, tuple[float, float]]:
    """Margins between which decisions by thresholds of groups depend on more than the margin.

    Parameters
    ----------
    model : DecidedModel
        With a :class:`evenhand.fairlib.methods.decided.GroupRule`.

    Returns
    -------
    dict of str to tuple of two floats
        By group: nobody below the first is decided positively, and everybody above the second is.

    Raises
    ------
    NotProvedError
        If the calibration does not rise.
    """
    score = _score_of(model)
    margins = {}
    for group, mixture in model.rule.thresholds.thresholds.items():
        ends = []
        for threshold, _ in mixture:
            # nobody has a score above 1
            ends.append(_margin_at(score, threshold) if threshold <= 1.0 else np.inf)
        margins[group] = (min(ends), max(ends))
    return margins


def margin_threshold(model: Any) -> float:
    """The margin above which a model of two labels decides positively.

    Parameters
    ----------
    model : fitted classifier
        Possibly with a calibration and a decision rule.

    Returns
    -------
    float
        Log-odds of the model's own probability.

    Raises
    ------
    NotProvedError
        If decisions depend on a group, or the calibration does not rise.
    """
    return _score_and_threshold(model)[1]
