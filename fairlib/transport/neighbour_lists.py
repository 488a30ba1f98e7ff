"""Lists of rows that stand for all rows in a search: the nearest places, and the earlier best rows.

With the first, a search is exact among the listed places. The second are proven to hold every row
that matters, or are not used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.transport import _transport_kernels as kernels
from evenhand.fairlib.transport._transport_kernels import BestRows, NearestPlaces, Rises

# Rows of a list, and tables of losses that the bounds of lists may refer to.
LISTED = 64
TABLES = 24
# Most rows, as a share of all, whose rise is looked at one by one.
MOVERS = 0.015
# Bytes of a block of neighbours that are found together.
BLOCK_BYTES = 64 * 2**20


class LossTable(NamedTuple):
    """Losses of an earlier step, to which the bounds of some lists refer."""

    multiplier: float  # at which the lists were filled (nats per squared distance)
    losses: Float  # (classes, m): largest loss at every position (nats)


def nearest_places(places: Float, neighbours: int, jobs: int) -> NearestPlaces:
    """Find the nearest places of every place, itself included, with their exact squared distances.

    Parameters
    ----------
    places : ndarray of float, shape (m, d)
    neighbours : int
        Places in a list, at least 1; all of them if there are fewer.
    jobs : int
        Threads; the result does not depend on it.

    Returns
    -------
    NearestPlaces
        Lists by ascending distance.
    """
    from sklearn.neighbors import NearestNeighbors

    m = len(places)
    k = min(neighbours, m)
    search = NearestNeighbors(n_neighbors=k, n_jobs=jobs).fit(places)
    listed = np.empty((m, k), dtype=np.int32)
    costs = np.empty((m, k))
    # all at once would take three times the memory of the lists
    for rows in np.array_split(np.arange(m), -(-8 * m * k // BLOCK_BYTES)):
        neighbour = search.kneighbors(places[rows], return_distance=False)
        distance = np.empty(neighbour.shape)
        kernels.listed_distances(places, rows[0], neighbour, distance)
        order = np.argsort(distance, axis=1, kind="stable")
        listed[rows] = np.take_along_axis(neighbour, order, axis=1)
        costs[rows] = np.take_along_axis(distance, order, axis=1)
    return NearestPlaces(listed, costs)


class Lists:
    r"""For every query the rows that are best at some multiplier, with bounds of all others.

    The rows are in the order of their values. With losses L and a multiplier m, the value of row i
    at cost c is :math:`L_i - m c`. If no row after a place in the list has a value above b, then
    with losses L' and a multiplier m' none has one above

    .. math:: \frac{m'}{m} b + \max_i \left(L'_i - \frac{m'}{m} L_i\right),

    for the costs cancel. The rows up to there suffice until this bound reaches the best of them.

    Parameters
    ----------
    queries : int
        Number of queries.
    places : int
        Number of places.

    Attributes
    ----------
    rows : ndarray of int32, shape (queries, listed)
        Positions of the listed rows.
    costs : ndarray of float, shape (queries, listed)
        Squared distances to them.
    rest : ndarray of float, shape (queries, parts)
        Bound of the value of all rows that follow each part of the list, or are not on it (nats).
    since : ndarray of int8, shape (queries,)
        Number of the table that the bounds refer to; -1: no list yet.
    tables : list of LossTable
        The tables, the oldest first.
    """

    def __init__(self, queries: int, places: int) -> None:
        keep = min(LISTED, places)
        self.rows = np.zeros((queries, keep), dtype=np.int32)
        self.costs = np.zeros((queries, keep))
        self.rest = np.zeros((queries, -(-keep // kernels.STRIDE)))
        self.since = np.full(queries, -1, dtype=np.int8)
        self.tables: list[LossTable] = []

    def at(self, low: float, high: float, losses: Float, labels: Int) -> tuple[BestRows, Rises]:
        """Add a table of losses, and give the lists with their bounds in a bracket.

        Parameters
        ----------
        low, high : float
            Ends of the bracket of multipliers, 0 < low <= high.
        losses : ndarray of float, shape (classes, m)
            Largest loss at every position (nats).
        labels : ndarray of int, shape (queries,)
            Label of every query.

        Returns
        -------
        BestRows
            The lists; a search that fills one changes them in place.
        Rises
            By table, how much the values rose since, at both ends of the bracket.
        """
        self.tables.append(LossTable(float(np.sqrt(low * high)), losses))
        if len(self.tables) > TABLES:
            self._drop_oldest(labels)
        best = BestRows(self.rows, self.costs, self.rest, self.since)
        return best, _rises(self.tables, low, high, losses)

    def _drop_oldest(self, labels: Int) -> None:
        """Let the bounds that refer to the oldest table refer to the next one."""
        oldest = self.tables[0]
        following = self.tables[1]
        moved = self.since == 0
        ratio = following.multiplier / oldest.multiplier
        self.rest[moved] *= ratio
        rises = (following.losses - ratio * oldest.losses).max(axis=1)
        self.rest[moved] += rises[labels[moved], None]
        self.since[self.since > 0] -= 1
        del self.tables[0]

    @classmethod
    def none(cls) -> tuple[BestRows, Rises]:
        """Lists of no rows, for searches without.

        Returns
        -------
        BestRows, Rises
            Arrays of the right types, without an entry that a search reads.
        """
        empty = cls(1, 0)
        best = BestRows(empty.rows, empty.costs, empty.rest, empty.since)
        return best, _rises([], 1.0, 1.0, np.empty((0, 0)))


def _rises(tables: list[LossTable], low: float, high: float, losses: Float) -> Rises:
    """How much the values of rows rose since each table, at both ends of a bracket."""
    scale = np.empty((len(tables), 2))
    for g, table in enumerate(tables):
        scale[g] = low / table.multiplier, high / table.multiplier
    classes, m = losses.shape
    room = int(np.ceil(MOVERS * m))
    rises = Rises(
        scale=scale,
        rise=np.empty((len(tables), classes, 2)),
        others=np.empty((len(tables), classes, 2)),
        movers=np.empty((len(tables), classes, room), dtype=np.int32),
        climbs=np.empty((len(tables), classes, room, 2)),
    )
    for g, table in enumerate(tables):
        for k in range(classes):
            split_rises(
                losses[k],
                table.losses[k],
                scale[g],
                rises.rise[g, k],
                rises.others[g, k],
                rises.movers[g, k],
                rises.climbs[g, k],
            )
    return rises


def split_rises(
    now: Float, before: Float, scale: Float, rise: Float, others: Float, movers: Int, climbs: Float
) -> None:
    """Rows with the largest ``now - scale * before``, for two scales, and the largest rises.

    A sample gives the rise from which rows are `movers`, as many as there is room for.

    Parameters
    ----------
    now, before : ndarray of float, shape (n,)
        Losses of the rows (nats).
    scale : ndarray of float, shape (2,)
        For the low and the high end of the bracket.
    rise : ndarray of float, shape (2,)
        Receives the largest rises of all rows, at both scales.
    others : ndarray of float, shape (2,)
        Receives those of all rows but the movers.
    movers : ndarray of int32, shape (room,)
        Receives the rows that rose most; 0 where there are fewer.
    climbs : ndarray of float, shape (room, 2)
        Receives their rises; minus infinity where there are fewer.
    """
    rises = now - scale[:, None] * before
    step = max(1, len(now) // 1024)
    sample = np.sort(rises[0, ::step])
    # half as many as there is room for: the sample errs
    limit = sample[max(0, len(sample) - 1 - len(sample) * len(movers) // (2 * len(now)))]
    rise[:] = rises.max(axis=1)
    chosen = np.flatnonzero(rises[0] > limit)[: len(movers)]
    movers[:] = 0
    movers[: len(chosen)] = chosen
    climbs[:] = -np.inf
    climbs[: len(chosen)] = rises[:, chosen].T
    rises[:, chosen] = -np.inf
    others[:] = rises.max(axis=1)
