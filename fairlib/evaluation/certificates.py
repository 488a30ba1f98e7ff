"""Certificates of distributional individual fairness: bounds on a network's output change within a
budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.auditor.differentiable_model import as_differentiable
from evenhand.fairlib.auditor.worst_case_search import Auditor, LogitDistance
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.evaluation.bootstrap import multinomial_chunks, percentile_interval
from evenhand.fairlib.evaluation.budget_allocation import ConcaveHulls, concave_hulls
from evenhand.fairlib.evaluation.closed_intervals import bounded_mean_interval
from evenhand.fairlib.evaluation.evaluate import check_settings
from evenhand.fairlib.execution import Progress, derive_seed, generator, one_thread

# The first multipliers: from 1 up and down by this factor.
LADDER_FACTOR = 16.0
MOST_RUNGS = 20
# Rounds of searches at these multiples of the dual's multipliers; they end when no value rises by
# more than RISE.
ROUNDS = 4
NEAR = (0.5, 1.0, 2.0)
RISE = 2e-3
# Multipliers within this factor of one another are searched once in a restart.
SAME = 1.05
# Random places along the free directions that every search tries for each person.
INSIDE = 16
# Climbs along the free directions from each person's best places, once in every restart.
CLIMBS = 8
CHUNK_ROWS = 4096


@dataclass(frozen=True)
class Certificate:
    r"""Pairs :math:`(\epsilon, \delta)`: the largest output change that a search found within each
    budget.

    If the search missed nothing, the model is :math:`(\epsilon, \delta)`-distributionally
    individually fair (definition 2.1) on these people and within the metric's feature bounds.
    Otherwise the true
    :math:`\delta` is larger.
    """

    budgets: Float  # shape (b,): epsilon, mean squared fair distance
    # shape (b,): delta, the mean distance of outputs that was reached within each budget
    values: Float
    # shape (b,): bootstrap interval of each value, over the people
    low: Float | None
    high: Float | None
    multipliers: Float  # shape (b,): lambda of the dual, output distance per further unit of budget
    people: int
    classes: int  # number of logits

    def share_bound(self, threshold: float, index: int = 0) -> float:
        r"""Bound on the share of people whose output can differ by `threshold` or more (proposition
        2.3).

        It holds for these people, if the search missed nothing.

        .. math:: P(d_Y(h(X), h(T_{IF}(X))) \ge \tau) \le \delta / \tau

        where :math:`T_{IF}` moves each person to the worst comparable point within squared distance
        :math:`\epsilon`. `threshold`, a mean squared difference of logits, is :math:`\tau`, and
        `index` the position of the budget. ValueError: a threshold that is not positive.

        Parameters
        ----------
        threshold : float
            Mean squared difference of logits :math:`\tau`, above 0.
        index : int, default 0
            Position of the budget.

        Returns
        -------
        float
            At most 1.

        Raises
        ------
        ValueError
            If the threshold is not positive.
        """
        if not threshold > 0:
            raise ValueError(f"threshold must be positive, got {threshold!r}.")
        return min(1.0, float(self.values[index]) / threshold)

    def share_bound_of_odds(self, factor: float, index: int = 0) -> float:
        r"""Bound on the share of people whose odds of two classes can change by `factor` or more.

        A change of the log-odds by :math:`\log f` needs a mean squared logit difference of at least
        :math:`(\log f)^2 / (2 K)`. It holds under the condition of :meth:`share_bound`. ValueError:
        a factor not above 1, or a model with one logit.

        Parameters
        ----------
        factor : float
            Factor f of the odds, above 1.
        index : int, default 0
            Position of the budget.

        Returns
        -------
        float
            At most 1.

        Raises
        ------
        ValueError
            For a factor not above 1, or a model with one logit.
        """
        if not factor > 1:
            raise ValueError(f"factor must be above 1, got {factor!r}.")
        if self.classes < 2:
            raise ValueError("odds need two logits at least; this model has one.")
        return self.share_bound(float(np.log(factor)) ** 2 / (2.0 * self.classes), index)


def certify(
    network: nn.Module,
    X: ArrayLike,
    metric: Metric,
    budgets: Sequence[float] | Float,
    *,
    subspace_steps: int = 16,
    full_steps: int = 20,
    restarts: int = 3,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    callback: Progress | None = None,
) -> Certificate:
    r"""Empirical fair regulariser of a differentiable model on unseen people (theorem 2.4).

    .. math::
        \hat R(h) = \inf_{\lambda \ge 0} \; \lambda \epsilon
        + \frac1n \sum_i \sup_{x'} \left\{ d_Y(h(x_i), h(x')) - \lambda d_X(x_i, x') \right\}

    Yurochkin and Sun 2021, with :math:`d_Y` the mean squared difference of logits, :math:`d_X` the
    squared fair distance and :math:`x'` in the metric's feature bounds. The inner supremum is
    searched at a ladder of multipliers, then repeatedly at the :math:`\lambda` of the dual; every
    point found counts at every :math:`\lambda` (column generation). A search can miss the supremum,
    so the value is a lower bound of :math:`\hat R(h)` on these people. It takes no weights of rows:
    each of the people is one.

    Parameters
    ----------
    network : torch.nn.Module
        Maps (n, d) float32 to logits (n, K).
    X : array-like, shape (n, d)
        People whom the network was not trained on.
    metric : Metric
        Fitted fair metric, whose feature bounds the search keeps.
    budgets : sequence of float
        :math:`\epsilon`, each finite and not negative.
    subspace_steps, full_steps : int
        Steps of every search, as in :class:`evenhand.fairlib.auditor.worst_case_search.Auditor`.
    restarts : int
        Whole searches, at least 1; all but the first from random starts. More of them never find
        less.
    draws : int
        Bootstrap draws over people; 0 for no interval.
    level : float
        Coverage of the intervals, in (0, 1).
    seed : int
        Seed of the random starts and of the bootstrap.
    callback : callable, optional
        ``callback(done, total)``: every possible round of searches and the bootstrap count as one
        each.

    Returns
    -------
    Certificate
        The regulariser at every budget, with its interval.

    Raises
    ------
    ValueError
        For no row, a metric of another dimension than X, no budget or a negative one, fewer than
        one restart, a level outside (0, 1), or logits of another shape or that are not finite.

    References
    ----------
    .. [1] M. Yurochkin and Y. Sun, "SenSeI", ICLR 2021, theorem 2.4.

    Examples
    --------
    >>> import torch
    >>> from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [0.0, 3.0], [1.0, 4.0]])
    >>> metric = SensitiveSubspace(indicators=[0], learned=[]).fit(X)
    >>> network = torch.nn.Linear(2, 2)
    >>> with torch.no_grad():
    ...     _ = network.weight.zero_()
    >>> certify(network, X, metric, [0.5], draws=0).values.tolist()  # it ignores all columns
    [0.0]
    """
    check_is_fitted(metric)
    rows = torch.tensor(np.asarray(X, dtype=np.float32))
    epsilon = np.asarray(budgets, dtype=np.float64).ravel()
    check_settings(draws, level)
    _check(rows, metric, epsilon, restarts)
    report = callback or (lambda done, total: None)
    total = restarts * ROUNDS + 2
    training = network.training
    network.eval()
    try:
        with one_thread():
            auditor = Auditor(
                metric,
                subspace_steps=subspace_steps,
                full_steps=full_steps,
                inside=INSIDE,
                climbs=CLIMBS,
            )
            searches = _Searches(network, rows, auditor, seed)
            # a restart adds to what the earlier ones found, so that more of them never find less
            for start in range(restarts):
                searches.begin(start)
                _search_ladder(searches, epsilon)
                for done in range(ROUNDS):
                    report(1 + start * ROUNDS + done, total)
                    before, multipliers = searches.hulls().allocate(epsilon)
                    for multiplier in _distinct(np.outer(multipliers, NEAR)):
                        if not searches.has_searched(multiplier):
                            searches.run(multiplier)
                    if (searches.hulls().allocate(epsilon)[0] <= before * (1.0 + RISE)).all():
                        break
    finally:
        network.train(training)
    report(total - 1, total)
    hulls = searches.hulls()
    values, multipliers = hulls.allocate(epsilon)
    low, high = value_intervals(hulls, epsilon, values, draws, level, seed)
    report(total, total)
    return Certificate(epsilon, values, low, high, multipliers, len(rows), searches.classes)


def _check(rows: Tensor, metric: Metric, budgets: Float, restarts: int) -> None:
    if rows.ndim != 2 or rows.shape[1] != metric.n_features_in_:
        raise ValueError(
            f"X has the shape {tuple(rows.shape)}, but this metric was fitted on "
            f"{metric.n_features_in_} features."
        )
    if len(rows) == 0:
        raise ValueError("X has no row: there is nobody to certify the model on.")
    if budgets.size == 0 or not (np.isfinite(budgets) & (budgets >= 0)).all():
        raise ValueError(
            f"budgets must be finite and not negative, at least one, got {budgets.tolist()}."
        )
    if restarts < 1:
        raise ValueError(f"restarts must be at least 1, got {restarts!r}.")


class _Searches:
    """Values and squared distances of all points found for each person, the person's own point
    first.
    """

    def __init__(self, network: nn.Module, rows: Tensor, auditor: Auditor, seed: int) -> None:
        self.model = as_differentiable(network)
        self.parts = rows.split(CHUNK_ROWS)
        self.objectives = [_FiniteDistance(self.model.logits(part)) for part in self.parts]
        self.classes = int(self.objectives[0].own.shape[1])
        self.auditor = auditor
        self.seed = seed
        self.values = [np.zeros(len(rows))]
        self.distances = [np.zeros(len(rows))]

    def begin(self, start: int) -> None:
        """Begin a restart with its own random numbers; all but the first have random starts.

        Parameters
        ----------
        start : int
            Number of the restart, from 0.
        """
        self.start = start
        self.searched: list[float] = []
        self.random = torch.Generator().manual_seed(
            derive_seed(self.seed, "certificate", str(start))
        )
        self.places: list[Tensor | None] = [None] * len(self.parts)
        if self.auditor.metric.basis_.shape[1]:
            # At an infinite multiplier people still move along the free directions.
            steps = max(self.auditor.subspace_steps, 1)
            self.run(0.0, replace(self.auditor, subspace_steps=steps, full_steps=0))

    def run(self, multiplier: float, auditor: Auditor | None = None) -> float:
        """Search at one multiplier, and keep the values and distances found.

        Parameters
        ----------
        multiplier : float
            Price of a squared distance, at least 0.
        auditor : Auditor or None, default None
            None: that of the searches.

        Returns
        -------
        float
            The mean squared distance found.
        """
        worst = []
        for part, objective, place in zip(self.parts, self.objectives, self.places, strict=True):
            worst_of_part = (auditor or self.auditor).search(
                self.model,
                part,
                objective,
                multiplier,
                self.random,
                random_start=self.start > 0,
                place=place,
            )
            worst.append(worst_of_part)
        if auditor is None:
            self.searched.append(multiplier)
        # the later searches of this restart begin where this one ended
        self.places = [case.place for case in worst]
        self.values.append(torch.cat([case.value for case in worst]).double().numpy())
        self.distances.append(torch.cat([case.squared_distance for case in worst]).double().numpy())
        return float(self.distances[-1].mean())

    def has_searched(self, multiplier: float) -> bool:
        """Whether this restart has searched at nearly the same multiplier.

        Parameters
        ----------
        multiplier : float
            Price of a squared distance, at least 0.

        Returns
        -------
        bool
        """
        return any(
            other == multiplier or multiplier / SAME < other < multiplier * SAME
            for other in self.searched
        )

    def hulls(self) -> ConcaveHulls:
        """Concave hull of output distance over squared fair distance, per person."""
        return concave_hulls(np.stack(self.values, axis=1), np.stack(self.distances, axis=1))


class _FiniteDistance(LogitDistance):
    """The distance of outputs, which refuses logits of another shape or that are not finite."""

    def __init__(self, own: Tensor) -> None:
        if own.ndim != 2:
            raise ValueError(
                f"the network must give logits of shape (n, K), got {tuple(own.shape)}."
            )
        super().__init__(own)

    def value(self, logits: Tensor) -> Tensor:
        """Value per row.

        Parameters
        ----------
        logits : Tensor, shape (n, K)

        Returns
        -------
        Tensor, shape (n,)

        Raises
        ------
        ValueError
            If a value is not finite.
        """
        distance = super().value(logits)
        if not torch.isfinite(distance).all():
            raise ValueError("the network's logits are not finite: it cannot be certified.")
        return distance


def _search_ladder(searches: _Searches, budgets: Float) -> None:
    """Search at multipliers whose mean squared distances enclose the smallest and the largest
    budget.
    """
    reachable = searches.run(0.0)
    first = searches.run(1.0)
    least = float(budgets[budgets > 0].min(initial=np.inf))
    enough = min(float(budgets.max()), 0.99 * reachable)
    for factor, reached in (
        (LADDER_FACTOR, lambda distance: distance <= least or distance == 0.0),
        (1.0 / LADDER_FACTOR, lambda distance: distance >= enough),
    ):
        multiplier = 1.0
        distance = first
        for _ in range(MOST_RUNGS):
            if reached(distance):
                break
            multiplier *= factor
            distance = searches.run(multiplier)


def _distinct(multipliers: Float) -> list[float]:
    """The multipliers without those within a few percent of another."""
    distinct: list[float] = []
    for multiplier in np.sort(multipliers.ravel()).tolist():
        if not distinct or multiplier > SAME * distinct[-1]:
            distinct.append(multiplier)
    return distinct


def value_intervals(
    hulls: ConcaveHulls, budgets: Float, points: Float, draws: int, level: float, seed: int
) -> tuple[Float | None, Float | None]:
    """Percentile interval of each budget's value over resamples of the people.

    Where all people are alike the draws are equal: then some share of further people may differ, as
    far as the largest change that was found for anybody.

    Parameters
    ----------
    hulls : ConcaveHulls
        Options of all people.
    budgets : ndarray of float64, shape (b,)
        Mean squared fair distances.
    points : ndarray of float64, shape (b,)
        Value of each budget.
    draws : int
        Bootstrap draws; 0 for no interval.
    level : float
        Coverage, in (0, 1).
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    tuple of two ndarrays, shape (b,), or None
        Lower and upper ends.
    """
    if not draws:
        return None, None
    people = np.ones(len(hulls.free), dtype=np.int64)
    random = generator(seed, "certificate", "bootstrap")
    resamples = chain.from_iterable(multinomial_chunks(people, draws, random))
    columns = np.stack([hulls.allocate(budgets, weights)[0] for weights in resamples], axis=1)
    # a value is defined in every draw
    bounds = [
        percentile_interval(drawn, level, point)
        for drawn, point in zip(columns, points, strict=True)
    ]
    low, high = np.array(bounds, dtype=np.float64).T
    largest = float((hulls.free + np.bincount(hulls.person, hulls.gain, len(people))).max())
    for k in np.flatnonzero(low == high):
        most = max(largest, points[k])
        low[k], high[k] = bounded_mean_interval(points[k], len(people), level, most=most)
    return low, high
