"""Certificates from proved bounds: change of scores, of decisions and of logits, each between two
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.evaluation.budget_allocation import ConcaveHulls, concave_hulls
from evenhand.fairlib.evaluation.flips import affordable
from evenhand.fairlib.numerics import log_losses

# A margin this near to the threshold of decisions may be on its other side.
ROUNDING = 1e-9
# Pieces of a ring: within one the cost is that of its inner and the change that of its outer
# radius.
PIECES = 32


@dataclass(frozen=True)
class Ring:
    r"""Largest values of m functions of a model's output between two fair distances from each of n
    people.

    Arrays have the shape (n, m). A point within the radius reaches `found`; no point within the
    radius is above `proved`, and none within the inner radius above `inner_proved`. At a distance
    in between, the largest value is at most the straight line between these two.
    """

    # fair distances, not squared; the radius may be infinite
    inner: float
    radius: float
    own: Float  # values at the people themselves
    found: Float
    proved: Float
    inner_proved: Float
    # shape (n,): longest change of the output that a point within the radius reaches
    longest: Float | None = None

    def columns(self, columns: Sequence[int], factor: float = 1.0) -> Ring:
        """Only these functions, each times a positive factor.

        Parameters
        ----------
        columns : sequence of int
            Positions of functions.
        factor : float, default 1.0
            Positive factor of their values.

        Returns
        -------
        Ring
            Of these functions.
        """
        chosen = list(columns)
        return Ring(
            inner=self.inner,
            radius=self.radius,
            own=factor * self.own[:, chosen],
            found=factor * self.found[:, chosen],
            proved=factor * self.proved[:, chosen],
            inner_proved=factor * self.inner_proved[:, chosen],
        )

    @staticmethod
    def join(rings: Sequence[Ring]) -> Ring:
        """The ring of all people of rings with the same distances.

        Parameters
        ----------
        rings : sequence of Ring
            Rings of different people.

        Returns
        -------
        Ring
            Of all people.
        """
        longest = [ring.longest for ring in rings if ring.longest is not None]
        return Ring(
            inner=rings[0].inner,
            radius=rings[0].radius,
            own=np.concatenate([ring.own for ring in rings]),
            found=np.concatenate([ring.found for ring in rings]),
            proved=np.concatenate([ring.proved for ring in rings]),
            inner_proved=np.concatenate([ring.inner_proved for ring in rings]),
            longest=np.concatenate(longest) if longest else None,
        )


@dataclass(frozen=True)
class Interval:
    """A quantity between two ends; the one that a search `found` and the one that is `proved`.

    A radius at which nothing was found is infinite.
    """

    found: float
    proved: float


def score_change(ring: Ring, score: Callable[[Float], Float]) -> Interval:
    """Largest change of anybody's score within a radius; the ring is of the margin and of minus the
    margin.

    `score` is a monotone function of the margin.

    Parameters
    ----------
    ring : Ring
        Values of the margin and of minus the margin, in two columns.
    score : callable
        Monotone function of the margin.

    Returns
    -------
    Interval
        Found and proved change.
    """
    own_score = score(ring.own[:, 0])
    changes = []
    for ends in (ring.found, ring.proved):
        rise = np.abs(score(ends[:, 0]) - own_score).max()
        fall = np.abs(score(-ends[:, 1]) - own_score).max()
        changes.append(max(float(rise), float(fall)))
    return Interval(found=changes[0], proved=changes[1])


def decision_radii(rings: Sequence[Ring], threshold: float) -> tuple[Float, Float]:
    r"""Fair distances within which a decision cannot change, and at which one that changes was
    found.

    Both have the shape (n,). A decision is positive where the margin exceeds the threshold,
    whichever way it falls at the threshold itself; so a margin that reaches the threshold counts as
    a change. `rings` are those of the margin and of minus the margin, with rising radii, each
    beginning where the last one ends.

    Parameters
    ----------
    rings : sequence of Ring
        Values of the margin and of minus the margin, with rising radii, each ring beginning where
        the last one ends.
    threshold : float
        Margin above which a decision is positive.

    Returns
    -------
    tuple of two ndarrays, shape (n,)
        Proved and found radii, fair distances.
    """
    own_score = rings[0].own[:, 0]
    positive = own_score > threshold
    limit = np.where(positive, -threshold, threshold)
    proved_radii = np.zeros(len(own_score))
    found_radii = np.full(len(own_score), np.inf)

    def _excess(ends: Float) -> Float:
        """How far the value that decides is above the limit; below 0 the decision holds."""
        return np.where(positive, ends[:, 1], ends[:, 0]) - limit

    for ring in rings:
        inner = _excess(ring.inner_proved + ROUNDING)
        outer = _excess(ring.proved + ROUNDING)
        found_radii = np.where(
            _excess(ring.found) > 0, np.minimum(found_radii, ring.radius), found_radii
        )
        crosses = (inner < 0) & (outer >= 0)
        share = np.where(crosses, inner / np.where(crosses, inner - outer, 1.0), 0.0)
        width = 0.0
        if np.isfinite(ring.radius):
            width = ring.radius - ring.inner
        reached = np.where(outer < 0, ring.radius, (ring.inner + share * width) * crosses)
        proved_radii = np.maximum(proved_radii, reached)
    return proved_radii * (1.0 - 1e-12), found_radii


def flipped_share(proved: Float, found: Float, budget: float) -> Interval:
    r"""Largest share of people whose decision changes within a mean squared fair distance
    :math:`\epsilon`.

    A person costs the squared distance to the nearest comparable point with another decision: at
    least the square of the `proved` and at most that of the `found` one. The cheapest people come
    first, as in :func:`evenhand.fairlib.evaluation.flips.flips`.

    Parameters
    ----------
    proved : ndarray of float64, shape (n,)
        Fair distances within which no decision changes.
    found : ndarray of float64, shape (n,)
        Fair distances at which one that changes was found.
    budget : float
        Mean squared fair distance :math:`\epsilon`.

    Returns
    -------
    Interval
        Found and proved share.
    """
    shares = []
    for distance in (found, proved):
        squared, counts = np.unique(np.square(distance), return_counts=True)
        shares.append(float(affordable(squared, counts[None], budget)[0]))
    return Interval(*shares)


def squared_length(change: Float) -> Float:
    r"""Largest :math:`\|\Delta\|^2`, shape (n,), of points of the plane with :math:`q_i^\top \Delta
    \le H_i`.

    `change` is H, (n, m), for m unit vectors at equal angles all around, each H at least 0. Between
    two neighbours q and q', c the cosine of their angle, the longest :math:`\Delta` is where both
    bounds meet,

    .. math:: \|\Delta\|^2 = (H^2 + H'^2 - 2 c H H') / (1 - c^2),

    if that lies between the two, and else on one of them.

    Parameters
    ----------
    change : ndarray of float64, shape (n, m)
        H for m unit vectors at equal angles all around.

    Returns
    -------
    ndarray of float64, shape (n,)
        At least 0.
    """
    H = np.maximum(change, 0.0)
    after = np.roll(np.maximum(change, 0.0), -1, axis=1)
    c = np.cos(2 * np.pi / H.shape[1])
    between = (c * after <= H) & (c * H <= after)
    corner = np.where(between, (H**2 + after**2 - 2 * c * H * after) / (1 - c**2), 0.0)
    on_one_bound = np.maximum(np.minimum(H, after / c), np.minimum(after, H / c))
    return np.asarray(np.maximum(corner, on_one_bound**2).max(axis=1))


def squared_gain(own: Float, ends: Float) -> Float:
    """Bound of the mean squared change of two logits, shape (n,), by the directions of
    their rings.

    Parameters
    ----------
    own : ndarray of float64, shape (n, m)
        Values in each direction at the people themselves.
    ends : ndarray of float64, shape (n, m)
        Largest values.

    Returns
    -------
    ndarray of float64, shape (n,)
        Squared logits.
    """
    return squared_length(ends - own) / 2


def squared_found(ring: Ring) -> Float:
    """The mean squared change of two logits that a point within the ring reaches, shape (n,).

    Parameters
    ----------
    ring : Ring
        Ring of a network, with ``longest``.

    Returns
    -------
    ndarray of float64, shape (n,)
        Squared logits.
    """
    assert ring.longest is not None
    return np.asarray(np.square(ring.longest) / 2)


def loss_rise(own: Float, ends: Float, score: Callable[[Float], Float], y: NDArray[Any]) -> Float:
    r"""Largest rise of the log loss, shape (n,), of people with labels y, 0 or 1, shape (n,).

    .. math:: \ell(m, 1) = -\log s(m), \quad \ell(m, 0) = -\log(1 - s(m))

    Parameters
    ----------
    own : ndarray of float64, shape (n, 2)
        Margin and minus the margin at the people themselves.
    ends : ndarray of float64, shape (n, 2)
        Their largest values.
    score : callable
        Monotone function of the margin.
    y : ndarray, shape (n,)
        Labels, 0 or 1.

    Returns
    -------
    ndarray of float64, shape (n,)
        Rises in nats, at least 0.
    """
    people = np.arange(len(y))
    worst = np.where(y == 1, -ends[:, 1], ends[:, 0])
    losses = []
    for margin in (own[:, 0], worst):
        probability = score(margin)
        losses.append(log_losses(np.stack([1.0 - probability, probability], axis=1))[y, people])
    return np.asarray(np.maximum(losses[1] - losses[0], 0.0))


def mean_change(
    rings: Sequence[Ring], gain: Callable[[Float, Float], Float], found: Callable[[Ring], Float]
) -> tuple[ConcaveHulls, ConcaveHulls]:
    r"""Hulls of the found and the proved mean change of the output over mean budgets.

    With :math:`U_i(r)` an upper bound of person i's change within distance r, weak duality gives
    for every :math:`\lambda \ge 0`

    .. math:: \hat R \le \lambda \epsilon + \frac1n \sum_i \max_j \{ U_i(r_{j+1}) - \lambda r_j^2 \}

    on any radii :math:`0 = r_0 < r_1 < \dots` up to infinity; the least right side is that of the
    hulls with gains :math:`U_i(r_{j+1})` and costs :math:`r_j^2`. Found changes with the cost of
    their radius squared give a lower bound in the same way.

    Parameters
    ----------
    rings : sequence of Ring
        Rings with rising radii: the first has the radius 0, and no comparable point is beyond the
        last.
    gain : callable
        ``gain(own, ends)`` bounds each person's change, shape (n,), where the values are at most
        `ends`, shape (n, m).
    found : callable
        Change of each person that a point within a ring reaches, shape (n,).

    Returns
    -------
    tuple of two ConcaveHulls
        Of the found and of the proved change.
    """
    gains = []
    costs = []
    reached = []
    spent = []
    for ring in rings:
        finite = np.isfinite(ring.radius)
        if finite:
            reached.append(found(ring))
            spent.append(np.full(len(ring.own), ring.radius**2))
        if not finite or ring.radius == ring.inner:
            pieces = 1
            width = 0.0
        else:
            pieces = PIECES
            width = ring.radius - ring.inner
        for piece in range(pieces):
            share = (piece + 1) / pieces
            ends = ring.inner_proved + share * (ring.proved - ring.inner_proved)
            gains.append(gain(ring.own, ends))
            start = ring.inner + piece / pieces * width
            costs.append(np.full(len(ring.own), start**2))
    return (
        concave_hulls(np.stack(reached, axis=1), np.stack(spent, axis=1)),
        concave_hulls(np.stack(gains, axis=1), np.stack(costs, axis=1)),
    )
