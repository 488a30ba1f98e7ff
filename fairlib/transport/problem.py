"""The transport problem of BuDRO and its solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float, Int

# Rows closer than this share of the largest coordinate (about the mean) are one place. The rounding
# of a projection is far below it, and merging changes a cost by less than its square.
SAME_PLACE = 1e-12
LARGEST = 1e150
# A smaller rise, as a share of the loss, may be rounding.
RISE = 1e-12
BLOCK_ROWS = 1 << 16


class TransportProblem:
    r"""The linear program (2.8) of Vargo et al. 2021.

    .. math::
        \max_\Pi \langle R, \Pi \rangle \quad \text{s.t.} \quad \Pi \ge 0,\;
        \langle C, \Pi \rangle \le \epsilon,\; \Pi^\top 1_n = \tfrac1n 1_n

    with :math:`C_{ij} = \|p_i - p_j\|^2` and :math:`R_{ij} = \ell(f(x_i), y_j)`: the loss when
    person j keeps the label and is treated as the comparable person i. The costs stay the same
    while boosting; the losses change at every step. Rows at one point are one *place*. Columns with
    the same place and label have the same solution: they are one *query*.

    Parameters
    ----------
    points : array-like, shape (n, d)
        Rows with the sensitive subspace projected out, so that Euclidean distance is the fair
        metric.
    labels : array-like, shape (n,)
        Class indices.
    budget : float
        :math:`\epsilon`, the largest mean squared distance of a plan; 0 allows moves within a
        place only.
    mass : array-like, shape (n,), or None
        Weights of the columns, at least 0 and not all 0, in place of the equal ones.

    Raises
    ------
    ValueError
        For a negative or non-finite budget, labels that do not fit the points or are negative, no
        rows, or points that are not finite.

    References
    ----------
    Vargo, Zhang, Yurochkin and Sun, "Individually fair gradient boosting", ICLR 2021.

    Examples
    --------
    >>> problem = TransportProblem([[0.0], [1.0], [1.0]], labels=[0, 0, 1], budget=0.5)
    >>> problem.n, problem.n_places  # the last two rows are at one place
    (3, 2)
    """

    def __init__(
        self, points: ArrayLike, labels: ArrayLike, budget: float, mass: ArrayLike | None = None
    ) -> None:
        data = np.ascontiguousarray(points, dtype=np.float64)
        codes = _check(labels, budget, data)
        ends = np.stack([data.min(axis=0), data.max(axis=0)])
        # a comparison with NaN is False
        if not (np.abs(ends) < LARGEST).all():
            raise ValueError(
                f"points must be finite, and below {LARGEST:.0e} so that their squares are."
            )
        self.n = len(data)
        self.labels = codes
        self.budget = float(budget)
        self.classes = int(codes.max()) + 1
        # centred: distances stay the same, and products round least
        centre = data.mean(axis=0)
        # rows in the order of their places: a sum or maximum by place is one reduction over slices
        unit = SAME_PLACE * max(
            float(np.abs(ends - centre).max(initial=0.0)), np.finfo(np.float64).tiny
        )
        self.rows_by_place, new = _by_place(data, centre, unit)
        self.place_start = np.append(np.flatnonzero(new), self.n)
        # (m, d): the distinct points, by their first rows
        self.places: Float = data[self.rows_by_place[new]]
        self.n_places = len(self.places)
        self.places -= centre
        # (n,): place of every row
        self.place_of = np.empty(self.n, dtype=np.int64)
        self.place_of[self.rows_by_place] = np.cumsum(new) - 1
        # (n,): query of every row; (queries,): number of columns, place and label of every query
        keys, self.query_of, self.query_size = np.unique(
            self.place_of * self.classes + codes, return_inverse=True, return_counts=True
        )
        self.query_place, self.query_label = np.divmod(keys, self.classes)
        # (n,) and (queries,): mass of every column, with a mean of 1, and of every query
        weights = np.ones(self.n) if mass is None else np.asarray(mass, dtype=np.float64)
        self.mass = weights / weights.mean()
        self.query_mass = np.bincount(self.query_of, self.mass, minlength=len(self.query_size))

    def check_losses(self, losses: ArrayLike) -> Float:
        """Validate a loss table.

        Parameters
        ----------
        losses : array-like, shape (classes, n)
            Loss of every row under every label (nats).

        Returns
        -------
        ndarray of float, shape (classes, n)

        Raises
        ------
        ValueError
            For another shape, or losses that are not finite.
        """
        table = np.ascontiguousarray(losses, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.n or self.classes > table.shape[0]:
            raise ValueError(
                f"losses must have shape (classes, {self.n}) and a row for every label, got "
                f"{table.shape}."
            )
        if not np.isfinite(table).all():
            raise ValueError("losses must be finite.")
        return table

    def largest_losses(self, losses: Float) -> Float:
        """Largest loss among the rows of every place.

        Parameters
        ----------
        losses : ndarray of float, shape (classes, n)

        Returns
        -------
        ndarray of float, shape (classes, places)
        """
        return np.maximum.reduceat(losses[:, self.rows_by_place], self.place_start[:-1], axis=1)


def _by_place(data: Float, centre: Float, unit: float) -> tuple[Int, NDArray[np.bool_]]:
    """Rows sorted by their coordinates in units, equal ones by their numbers; and which begin a
    place.

    Sorted by one coordinate after another, the first one last: with a copy of a column, not of all.
    """

    def _whole(rows: Any, columns: Any) -> Int:
        return np.round((data[rows, columns] - centre[columns]) / unit).astype(np.int64)  # type: ignore[no-any-return]

    order = np.arange(len(data))
    for j in range(data.shape[1] - 1, -1, -1):
        order = order[np.argsort(_whole(order, j), kind="stable")]
    new = np.ones(len(data), dtype=bool)
    for first in range(0, len(data), BLOCK_ROWS):
        block = _whole(order[first : first + BLOCK_ROWS + 1], slice(None))
        new[first + 1 : first + len(block)] = (block[1:] != block[:-1]).any(axis=1)
    return order, new


def _check(labels: ArrayLike, budget: float, data: Float) -> Int:
    if not (np.isfinite(budget) and budget >= 0):
        raise ValueError(f"perturbation_budget must be finite and at least 0, got {budget!r}.")
    codes = np.ascontiguousarray(labels)
    if data.ndim != 2 or codes.shape != data.shape[:1]:
        raise ValueError(
            f"labels must have one entry per row of points, got {codes.shape} for {data.shape}."
        )
    if len(data) == 0:
        raise ValueError("points must have at least one row.")
    if not np.issubdtype(codes.dtype, np.integer) or codes.min() < 0:
        raise ValueError("labels must be class indices: integers of at least 0.")
    return codes.astype(np.int64)


@dataclass(frozen=True)
class TransportPlan:
    r"""A solution: the share of each person's mass that moves to each other row.

    Attributes
    ----------
    support : ndarray of float, shape (classes, n)
        The worst-case distribution :math:`P(x_i, k) = (\Pi y_k)_i` on the augmented support; not
        negative, sums to 1.
    target : ndarray of int, shape (n,)
        Row that receives column j's mass, except for the divided share of `split`.
    multiplier : float
        :math:`\eta`, the dual variable of the budget (nats per squared distance).
    spent : float
        :math:`\langle C, \Pi \rangle`, mean squared distance.
    value : float
        :math:`\langle R, \Pi \rangle`, the adversarial loss (nats).
    bound : float
        Dual value (B.14) at the multiplier: no plan within the budget has a larger loss.
    loss : float
        :math:`\langle R, \tfrac1n I \rangle`, the loss without a move (nats).
    proven : float
        Share of the columns whose move is proven optimal at this multiplier.
    split : (int, int, float) or None
        The one divided column, the second row that receives some of its mass, and that share.
    """

    support: Float
    target: Int
    multiplier: float
    spent: float
    value: float
    bound: float
    loss: float
    proven: float
    split: tuple[int, int, float] | None

    @property
    def gap(self) -> float:
        r"""Largest share of the adversary's rise that the plan can miss, proven.

        .. math::
            \frac{b - v}{b - l}, \quad
            b = \eta \epsilon + \frac1n \sum_j \max_i (R_{ij} - \eta C_{ij}), \quad
            v = \langle R, \Pi \rangle, \quad l = \langle R, \tfrac1n I \rangle

        in which b may be larger: of rows that were not looked at, an upper bound counts. The
        optimum w has :math:`v \le w`, for the plan is feasible, and :math:`w \le b` by weak
        duality: for every feasible plan P and every :math:`\eta \ge 0`, :math:`\langle R, P \rangle
        \le \langle R - \eta C, P \rangle + \eta \epsilon \le b`. As :math:`(w - v) / (w - l)` grows
        with w, it is at most the gap. 0 where the loss can rise by rounding only.
        """
        rise = self.bound - self.loss
        if rise > RISE * abs(self.bound):
            return max(self.bound - self.value, 0.0) / rise
        return 0.0
