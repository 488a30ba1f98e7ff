"""Certificates of distributional individual fairness: how far outputs can move when people move a little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from evenhand.fairlib.auditor import Auditor, LogitDistance, as_differentiable
from evenhand.fairlib.cores import one_thread
from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.evaluation.bootstrap import percentile_interval
from evenhand.fairlib.evaluation.budget_allocation import Purchases, purchases
from evenhand.fairlib.evaluation.evaluate import MIN_DRAWS
from evenhand.fairlib.progress import Progress
from evenhand.fairlib.randomness import derive_seed, generator

__all__ = ["Certificate", "certify"]

Float = NDArray[np.float64]

# The first ladder of prices: from 1 up and down by this factor.
LADDER_FACTOR = 16.0
MOST_RUNGS = 20
# Rounds of searches at the prices that the dual then chooses; they end when no value rises by more than this.
ROUNDS = 4
RISE = 2e-3
# Random places along the free directions that every search tries for each person.
INSIDE = 16
CHUNK_ROWS = 4096


@dataclass(frozen=True)
class Certificate:
    r"""
    Pairs :math:`(\epsilon, \delta)`: how far a search could move a model's outputs within each budget.

    Where the search missed nothing, the model is :math:`(\epsilon, \delta)`-distributionally individually
    fair (definition 2.1) on the people that were looked at and within the metric's domain. Otherwise the
    true :math:`\delta` is larger.

    Parameters
    ----------
    budgets : ndarray of float64, shape (b,)
        :math:`\epsilon`, mean squared fair distance.
    values : ndarray of float64, shape (b,)
        :math:`\delta`, the mean distance of outputs :math:`d_Y` that was reached within each budget.
    low, high : ndarray of float64, shape (b,), or None
        Bootstrap interval of each, over the people.
    multipliers : ndarray of float64, shape (b,)
        The :math:`\lambda` of the dual: output distance that one more unit of budget would buy.
    people, classes : int
    """

    budgets: Float
    values: Float
    low: Float | None
    high: Float | None
    multipliers: Float
    people: int
    classes: int

    def share_bound(self, threshold: float, index: int = 0) -> float:
        r"""
        Bound on the share of people whose output can differ by `threshold` or more (proposition 2.3).

        It holds as far as ``values`` do: on these people, if the search missed nothing.

        .. math:: P(d_Y(h(X), h(T_{IF}(X))) \ge \tau) \le \delta / \tau

        where :math:`T_{IF}` moves each person to the worst comparable other within squared distance
        :math:`\epsilon`.

        Parameters
        ----------
        threshold : float
            :math:`\tau > 0`, a mean squared difference of logits.
        index : int
            Which budget.

        Raises
        ------
        ValueError
            A threshold that is not positive.
        """
        if not threshold > 0:
            raise ValueError(f"threshold must be positive, got {threshold!r}.")
        return min(1.0, float(self.values[index]) / threshold)

    def share_bound_of_odds(self, factor: float, index: int = 0) -> float:
        r"""
        Bound on the share of people whose odds of one class against another can change by `factor` or more.

        A change of the log-odds by :math:`\log f` needs a mean squared logit difference of at least
        :math:`(\log f)^2 / (2 K)`. It holds as far as :meth:`share_bound` does.

        Raises
        ------
        ValueError
            A factor not above 1, or a model with one logit.
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
    full_steps: int = 10,
    restarts: int = 2,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    callback: Progress | None = None,
) -> Certificate:
    r"""
    Empirical fair regulariser of a differentiable model on unseen people (theorem 2.4).

    .. math::
        \hat R(h) = \inf_{\lambda \ge 0} \; \lambda \epsilon
        + \frac1n \sum_i \sup_{x'} \left\{ d_Y(h(x_i), h(x')) - \lambda d_X(x_i, x') \right\}

    Yurochkin and Sun 2021, with :math:`d_Y` the mean squared difference of logits, :math:`d_X` the squared
    fair distance and :math:`x'` in the metric's domain. The inner supremum is searched for at a ladder of
    prices, then again and again at the :math:`\lambda` that the dual chooses; whatever was found anywhere
    counts at every :math:`\lambda` (column generation). A search can miss: the value is what is certainly
    reachable, a lower bound of :math:`\hat R(h)` on these people.

    Parameters
    ----------
    network : torch.nn.Module
        Maps (n, d) float32 to logits (n, K).
    X : array-like, shape (n, d)
    metric : fitted fair metric
    budgets : sequence of float
        :math:`\epsilon`, each finite and not negative.
    subspace_steps, full_steps : int
        Of every search, as in :class:`evenhand.fairlib.auditor.Auditor`.
    restarts : int
        Searches at every price, at least 1; all but the first from random starts.
    draws, level : int, float
        Of the bootstrap over people; 0 draws for no interval.
    seed : int
    callback : callable, optional
        ``callback(done, total)``: the ladder, every round of searches (those that it takes fewer of at once)
        and the bootstrap count as one each.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        No row, a metric of another dimension than X, no budget or a negative one, fewer than one restart, a
        level that is no share, logits of another shape or that are not finite.
    """
    check_is_fitted(metric)
    rows = torch.tensor(np.asarray(X, dtype=np.float32))
    asked = np.asarray(budgets, dtype=np.float64).ravel()
    _check(rows, metric, asked, restarts, draws, level)
    report = callback or (lambda done, total: None)
    training = network.training
    network.eval()
    try:
        with one_thread():
            found = _Treatments(network, rows, metric, subspace_steps, full_steps, restarts, seed)
            _ladder(found, asked)
            for done in range(ROUNDS):
                report(1 + done, ROUNDS + 2)
                before, prices = found.purchases().best(asked)
                for price in _distinct(prices):
                    found.look(price)
                if (found.purchases().best(asked)[0] <= before * (1.0 + RISE)).all():
                    break
    finally:
        network.train(training)
    report(1 + ROUNDS, ROUNDS + 2)
    bought = found.purchases()
    values, multipliers = bought.best(asked)
    low, high = _intervals(bought, asked, values, draws, level, seed)
    report(ROUNDS + 2, ROUNDS + 2)
    return Certificate(asked, values, low, high, multipliers, len(rows), found.classes)


def _check(rows: Tensor, metric: Metric, budgets: Float, restarts: int, draws: int, level: float) -> None:
    if rows.ndim != 2 or rows.shape[1] != metric.n_features_in_:
        raise ValueError(
            f"X has the shape {tuple(rows.shape)}, but this metric was fitted on "
            f"{metric.n_features_in_} features."
        )
    if len(rows) == 0:
        raise ValueError("X has no row: there is nobody to certify the model on.")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}.")
    if budgets.size == 0 or not (np.isfinite(budgets) & (budgets >= 0)).all():
        raise ValueError(f"budgets must be finite and not negative, at least one, got {budgets.tolist()}.")
    if restarts < 1:
        raise ValueError(f"restarts must be at least 1, got {restarts!r}.")
    if draws and draws < MIN_DRAWS:
        raise ValueError(f"draws must be 0 or at least {MIN_DRAWS}, got {draws!r}.")


class _Treatments:
    """Everything that the searches found for each person, standing still first."""

    def __init__(
        self,
        network: nn.Module,
        rows: Tensor,
        metric: Metric,
        subspace_steps: int,
        full_steps: int,
        restarts: int,
        seed: int,
    ) -> None:
        self.view = as_differentiable(network)
        self.parts = rows.split(CHUNK_ROWS)
        self.goals = [_FiniteDistance(self.view.logits(part)) for part in self.parts]
        self.classes = int(self.goals[0].own.shape[1])
        self.auditor = Auditor(metric, subspace_steps=subspace_steps, full_steps=full_steps, inside=INSIDE)
        self.restarts = restarts
        self.random = torch.Generator().manual_seed(derive_seed(seed, "certificate"))
        self.values = [np.zeros(len(rows))]
        self.distances = [np.zeros(len(rows))]
        if metric.basis_.shape[1]:
            # at an infinite price people still move where moving is free
            alone = Auditor(metric, subspace_steps=max(subspace_steps, 1), full_steps=0, inside=INSIDE)
            for start in range(restarts):
                self._search(alone, 0.0, start > 0)

    def look(self, price: float) -> float:
        """Search at one price from all starts; the largest mean squared distance of what was best."""
        return max(self._search(self.auditor, price, start > 0) for start in range(self.restarts))

    def _search(self, auditor: Auditor, price: float, random_start: bool) -> float:
        found = [
            auditor.search(self.view, part, goal, price, self.random, random_start=random_start)
            for part, goal in zip(self.parts, self.goals, strict=True)
        ]
        value = torch.cat([item.value for item in found]).double().numpy()
        distance = torch.cat([item.squared_distance for item in found]).double().numpy()
        self.values.append(value)
        self.distances.append(distance)
        return float(distance.mean())

    def purchases(self) -> Purchases:
        """What of all this a budget buys."""
        return purchases(np.stack(self.values, axis=1), np.stack(self.distances, axis=1))


class _FiniteDistance(LogitDistance):
    """The distance of outputs, which refuses logits of another shape or that are not finite."""

    def __init__(self, own: Tensor) -> None:
        if own.ndim != 2:
            raise ValueError(f"the network must give logits of shape (n, K), got {tuple(own.shape)}.")
        super().__init__(own)

    def value(self, logits: Tensor) -> Tensor:
        """Value per row, shape (n,)."""
        found = super().value(logits)
        if not torch.isfinite(found).all():
            raise ValueError("the network's logits are not finite: it cannot be certified.")
        return found

    def repeat(self, times: int) -> _FiniteDistance:
        """The same goal for the rows repeated block-wise."""
        return _FiniteDistance(self.own.repeat(times, 1))


def _ladder(found: _Treatments, budgets: Float) -> None:
    """Search from the price at which people spend less than the smallest budget to more than the largest."""
    reachable = found.look(0.0)
    first = found.look(1.0)
    least = float(budgets[budgets > 0].min(initial=np.inf))
    price, spent = 1.0, first
    for _ in range(MOST_RUNGS):
        if spent <= least or spent == 0.0:
            break
        price *= LADDER_FACTOR
        spent = found.look(price)
    price, spent = 1.0, first
    for _ in range(MOST_RUNGS):
        if spent >= min(float(budgets.max()), 0.99 * reachable):
            break
        price /= LADDER_FACTOR
        spent = found.look(price)


def _distinct(prices: Float) -> list[float]:
    """The prices without those within a few percent of another."""
    kept: list[float] = []
    for price in sorted(float(p) for p in prices):
        if not kept or price > 1.05 * kept[-1]:
            kept.append(price)
    return kept


def _intervals(
    bought: Purchases, budgets: Float, points: Float, draws: int, level: float, seed: int
) -> tuple[Float | None, Float | None]:
    """Percentile interval of each budget's value over resamples of the people."""
    if not draws:
        return None, None
    n = len(bought.free)
    random = generator(seed, "certificate", "bootstrap")
    table = np.stack(
        [bought.best(budgets, random.multinomial(n, np.full(n, 1.0 / n)))[0] for _ in range(draws)]
    )
    bounds: list[Any] = [
        percentile_interval(table[:, j], level, float(points[j])) or (points[j], points[j])
        for j in range(len(budgets))
    ]
    return np.array([low for low, _ in bounds]), np.array([high for _, high in bounds])
