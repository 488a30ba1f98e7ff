"""Audit of any fitted classifier: the loss increase when people are treated as comparable other
people.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.evaluation.bootstrap import multinomial_chunks, percentile_interval
from evenhand.fairlib.evaluation.budget_allocation import ConcaveHulls
from evenhand.fairlib.evaluation.closed_intervals import bounded_mean_interval
from evenhand.fairlib.evaluation.evaluate import check_settings
from evenhand.fairlib.execution import Progress, generator, shifted
from evenhand.fairlib.numerics import MAX_LOG_LOSS, log_losses, logistic_losses
from evenhand.fairlib.row_order import check_row_order
from evenhand.fairlib.transport.dual import DualSolver, envelope_moves
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem
from evenhand.fairlib.transport.search import Envelopes

# The multiplier of a resample is first searched within a factor of 1 + BRACKET / sqrt(people) of
# the audit's own multiplier; if it lies outside, the bracket widens by the factor WIDEN.
BRACKET = 8.0
WIDEN = 16.0


@dataclass(frozen=True)
class TransportAudit:
    """Result of the restricted adversary; losses in nats."""

    budget: float  # epsilon, mean squared fair distance
    loss: float  # mean on the own rows
    adversarial_loss: float  # mean in the worst case within the budget
    # low, high: interval of the gap between the two losses
    low: float | None
    high: float | None
    multiplier: float  # eta*, nats of loss per further unit of budget
    # budget that was used; less than the budget where no move raises the loss any more
    spent: float
    # shape (n,): the row that each person is treated as in the worst case; of one person, who may
    # be divided between two rows, the row with the larger share
    target: Int
    distance: Float  # shape (n,): fair distance (not squared) between the own row and the target
    # shape (n,): loss of each person's label at the own row and at the target
    own_loss: Float
    target_loss: Float

    @property
    def gap(self) -> float:
        """Empirical performance gap (3.2), in nats."""
        return _gap(self.adversarial_loss, self.loss)

    def most_unfair(self, limit: int | None = None) -> Int:
        """People whose loss rises most at their target, in falling order, without those whose loss
        falls.

        Parameters
        ----------
        limit : int, optional
            Most people; default: all.

        Returns
        -------
        ndarray of int64, shape (k,)
            Rows of these people.
        """
        revealed = self.target_loss - self.own_loss
        order = np.argsort(-revealed, kind="stable")
        return order[revealed[order] > 0][:limit]


def transport_audit(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    metric: Metric | None,
    budget: float,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    jobs: int = 1,
    callback: Progress | None = None,
) -> TransportAudit:
    r"""Empirical performance gap of a fitted classifier of any kind (Vargo et al. 2021, equation
    3.2).

    .. math::
        \sup_{P: W_D(P, P_n) \le \epsilon} E_P[\ell(f(x), y)] - \frac1n \sum_i \ell(f(x_i), y_i)

    The adversary may treat each person as any other row of X, label kept, as long as the mean
    squared fair distance stays within the budget. It needs only probabilities and distances, so any
    classifier will do. The log loss counts probabilities as at least 2.2e-16. It takes no weights
    of rows: the worst case is a maximum over people, of whom each is one.

    Parameters
    ----------
    model : fitted classifier
        With ``predict_proba`` and ``classes_``.
    X : array-like, shape (n, d)
        Rows that the model was not trained on, for a statement about new people (theorem 3.4).
    y : array-like, shape (n,)
    metric : fitted fair metric or None
        None for Euclidean distance on X.
    budget : float
        :math:`\epsilon`.
    draws : int
        Bootstrap resamples of the people, with the rows that they may be treated as held fixed; 0
        for no interval.
    level : float
        Coverage of the interval, in (0, 1).
    seed : int
        Seed of the bootstrap, and of ties between equally bad transports.
    jobs : int
        Threads.
    callback : callable, optional
        ``callback(done, total)``: the search counts as one, then every bootstrap draw.

    Returns
    -------
    TransportAudit
        Mean loss, the worst case, and the gap with its interval.

    Raises
    ------
    ValueError
        For a negative or non-finite budget, another number of labels than rows, a label that the
        model does not know, probabilities that are not finite, or too few draws.

    References
    ----------
    .. [1] A. Vargo et al., "Individually Fair Gradient Boosting", ICLR 2021, equation 3.2.

    Examples
    --------
    >>> from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
    >>> from evenhand.fairlib.methods.comparators.logistic import LogisticClassifier
    >>> X = np.array([[0.0, 1.0], [1.0, 2.0], [0.0, 3.0], [1.0, 4.0]])
    >>> y = np.array([0, 0, 1, 1])
    >>> metric = SensitiveSubspace(indicators=[0], learned=[]).fit(X)
    >>> model = LogisticClassifier().fit(X, y)
    >>> result = transport_audit(model, X, y, metric, budget=1.0, draws=0)
    >>> bool(result.adversarial_loss >= result.loss)
    True
    >>> result.spent <= 1.0 + 1e-9
    True
    """
    check_row_order(X=X, y=y)
    probabilities = np.asarray(model.predict_proba(X), dtype=np.float64)
    if not np.isfinite(probabilities).all():
        raise ValueError("model gives probabilities that are not finite.")
    classes = np.asarray(model.classes_)
    labels = np.asarray(y)
    if labels.shape != (len(probabilities),):
        raise ValueError(
            f"y must have one label per row of X, got {labels.shape} for {len(probabilities)}."
        )
    codes = (labels[:, None] == classes).argmax(axis=1)
    if (classes[codes] != labels).any():
        raise ValueError(
            f"y has labels that the model does not know: it has {len(classes)} classes."
        )
    points = np.asarray(X, dtype=np.float64) if metric is None else metric.project(X)
    return audit_losses(
        log_losses(probabilities),
        points,
        codes,
        budget,
        draws=draws,
        level=level,
        seed=seed,
        jobs=jobs,
        callback=callback,
    )


def drawn_together(probability: ArrayLike, y: ArrayLike, loss: float) -> Float:
    r"""Probabilities drawn towards the base rate until their log loss is `loss`, if it was lower.

    .. math:: p_t = \sigma(t z + (1 - t) \bar z), \qquad t \in [0, 1],

    with the log-odds z of the probabilities and :math:`\bar z` of the share of positives. Gaps
    between such scores shrink with t, so a model must be compared with these to separate the effect
    of mitigation from that of shrinkage.

    Parameters
    ----------
    probability : array-like, shape (n,)
        Probabilities of label 1.
    y : array-like, shape (n,)
        Labels, 0 or 1.
    loss : float
        Wanted mean log loss (nats); everybody is at the base rate if it is larger than that gives.

    Returns
    -------
    ndarray of float64, shape (n,)
        Probabilities.
    """
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    p = np.asarray(probability, dtype=np.float64)
    labels = np.asarray(y, dtype=np.int64)
    z = logit(np.clip(p, 1e-12, 1.0 - 1e-12))
    centre = float(logit(np.clip(labels.mean(), 1e-12, 1.0 - 1e-12)))

    def _excess(t: float) -> float:
        losses = logistic_losses(t * z + (1.0 - t) * centre)
        return float(losses[labels, np.arange(len(labels))].mean()) - loss

    if _excess(1.0) >= 0.0:
        return p
    # the loss is convex in t, so it crosses the wanted one once
    t = 0.0 if _excess(0.0) <= 0.0 else float(brentq(_excess, 0.0, 1.0, xtol=1e-10))
    return np.asarray(expit(t * z + (1.0 - t) * centre), dtype=np.float64)


def audit_losses(
    losses: Float,
    points: ArrayLike,
    labels: ArrayLike,
    budget: float,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    jobs: int = 1,
    callback: Progress | None = None,
) -> TransportAudit:
    r"""As :func:`transport_audit`, from any table of losses and rows that are projected already.

    Parameters
    ----------
    losses : ndarray of float64, shape (classes, n)
        Loss (nats) of each row under each label.
    points : array-like, shape (n, d)
        Rows projected by the fair metric.
    labels : array-like, shape (n,)
        True labels, as positions among the classes.
    budget : float
        Mean squared fair distance :math:`\epsilon`, at least 0.
    draws : int, default 1000
        Bootstrap draws of the people; 0 for no interval.
    level : float, default 0.95
        Coverage of the interval, in (0, 1).
    seed : int, default 0
        Seed of the search and of the bootstrap.
    jobs : int, default 1
        Threads.
    callback : callable, optional
        ``callback(done, total)``: the search counts as one, then every draw.

    Returns
    -------
    TransportAudit
        The worst case within the budget.

    Raises
    ------
    ValueError
        For a negative or non-finite budget, or too few draws.
    """
    check_settings(draws, level)
    if not (np.isfinite(budget) and budget >= 0):
        raise ValueError(f"budget must be finite and at least 0, got {budget!r}.")
    losses = np.asarray(losses, dtype=np.float64)
    problem = TransportProblem(points, labels, budget)
    solver = DualSolver(problem, seed=seed, jobs=jobs)
    plan = solver.solve(losses)
    if callback is not None:
        callback(1, 1 + draws)
    own_losses = losses[problem.labels, np.arange(problem.n)]
    gap = _gap(plan.value, float(own_losses.mean()))
    low = high = None
    if draws:
        rng = generator(seed, "bootstrap", "audit")
        resampled = _resample(solver, plan, own_losses, draws, rng, shifted(callback, 1, 1 + draws))
        low, high = percentile_interval(resampled, level, gap)
        if low is not None and low == high:
            # nobody, or everybody alike, gains by a move: some share of further people could gain
            # more
            reach = float(np.ptp(losses)) or MAX_LOG_LOSS
            low, high = bounded_mean_interval(gap, problem.n, level, most=max(reach, gap))
    target = plan.target
    if plan.split is not None and plan.split[2] > 0.5:
        target[plan.split[0]] = plan.split[1]
    moved = problem.places[problem.place_of] - problem.places[problem.place_of[target]]
    return TransportAudit(
        budget=float(budget),
        loss=float(own_losses.mean()),
        adversarial_loss=plan.value,
        low=low,
        high=high,
        multiplier=plan.multiplier,
        spent=plan.spent,
        target=target,
        distance=np.sqrt(np.einsum("ij,ij->i", moved, moved)),
        own_loss=own_losses,
        target_loss=losses[problem.labels, target],
    )


def _resample(
    solver: DualSolver,
    plan: TransportPlan,
    own: Float,
    draws: int,
    rng: np.random.Generator,
    callback: Progress | None,
) -> Float:
    """Gap of every resample of the people, shape (draws,).

    The envelopes hold each person's moves at all multipliers of the bracket, so a resample only
    allocates its budget anew: one cumulated sum over the moves in the order of their ratios.
    """
    problem = solver.problem
    n = problem.n
    gaps = np.full(draws, np.nan)
    eta = plan.multiplier
    width = 1.0 + BRACKET / np.sqrt(n)
    low, high = (eta / width, eta * width) if eta > 0 else (0.0, max(1e-6, float(np.ptp(own))))
    moves = _Moves(solver.search.envelopes(low, high))
    resamples = chain.from_iterable(multinomial_chunks(np.ones(n, dtype=np.int64), draws, rng))
    for k, drawn in enumerate(resamples):
        by_query = np.bincount(problem.query_of, weights=drawn, minlength=len(problem.query_size))
        while np.isfinite(high):
            worst = moves.worst_loss(by_query, problem.budget, low == 0.0)
            if isinstance(worst, float):
                gaps[k] = _gap(worst, float(drawn @ own) / n)
                break
            if worst == "under":
                low = low / WIDEN if low > 1e-12 * eta else 0.0
            else:
                high *= WIDEN
            moves = _Moves(solver.search.envelopes(low, high))
        if callback is not None:
            callback(k + 1, draws)
    return gaps


def _gap(adversarial: float, own: float) -> float:
    """Difference of the losses, at least 0; the difference of equal losses is rounding."""
    gap = adversarial - own
    return gap if gap > 1e-13 * max(abs(adversarial), abs(own)) else 0.0


class _Moves:
    """Moves of all queries within a bracket of multipliers: segments of their hulls."""

    def __init__(self, vertices: Envelopes) -> None:
        start = vertices.start
        self.first_cost = vertices.cost[start[:-1]]
        self.last_cost = vertices.cost[start[1:] - 1]
        query, cost, gain, ratio = envelope_moves(vertices)
        order = np.argsort(-ratio, kind="stable")
        self.hulls = ConcaveHulls(vertices.loss[start[:-1]], query[order], cost[order], gain[order])

    def worst_loss(self, weights: NDArray[Any], budget: float, all_moves: bool) -> float | str:
        """Largest mean loss within a mean budget.

        Parameters
        ----------
        weights : ndarray, shape (queries,)
            The people of each query.
        budget : float
            Mean squared fair distance.
        all_moves : bool
            Whether the envelopes hold all moves, however cheap, so that no budget is too large for
            them.

        Returns
        -------
        float or str
            "over" or "under" if the bracket of multipliers is too narrow.
        """
        shares = weights / weights.sum()
        base = float(shares @ self.first_cost)
        if base > budget * (1 + 1e-14):
            return "over"
        if not all_moves and float(shares @ self.last_cost) <= budget * (1 + 1e-14):
            return "under"
        return float(self.hulls.allocate(np.array([budget - base]), shares * len(shares))[0][0])
