"""The transport problem of BuDRO and its solution."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairlib.numerics import pairwise_squared_distances

__all__ = ["TransportPlan", "TransportProblem"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Up to this many rows the whole cost matrix (n * n * 8 bytes) is kept: at most 512 MiB.
DENSE_ROWS = 8192
BLOCK_BYTES = 64 * 2**20


@dataclass
class TransportProblem:
    r"""
    The linear program of equation 2.8 (Vargo et al. 2021).

    .. math::
        \max_\Pi \langle R, \Pi \rangle \quad \text{s.t.} \quad \Pi \ge 0,\;
        \langle C, \Pi \rangle \le \epsilon,\; \Pi^\top 1_n = \tfrac1n 1_n

    with :math:`C_{ij} = \|p_i - p_j\|^2` and :math:`R_{ij} = \ell(f(x_i), y_j)`: what it gains to treat
    person j, label kept, as the comparable person i. The distances never change while boosting; the losses
    do.

    Parameters
    ----------
    points : array-like, shape (n, d)
        Rows after the sensitive subspace is projected out, so that Euclidean distance is the fair metric.
    labels : array-like of int, shape (n,)
        Class index of every row.
    budget : float
        :math:`\epsilon`, the mean squared distance that the adversary may spend, finite and at least 0.

    Raises
    ------
    ValueError
        A negative or non-finite budget, points that are not finite, lengths that differ, a negative label, or
        no rows.
    """

    points: Float
    labels: Int
    budget: float
    _dense: Float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.points = np.ascontiguousarray(self.points, dtype=np.float64)
        self.labels = np.ascontiguousarray(self.labels, dtype=np.int64)
        if not (np.isfinite(self.budget) and self.budget >= 0):
            raise ValueError(f"perturbation_budget must be finite and at least 0, got {self.budget!r}.")
        if self.points.ndim != 2 or self.labels.shape != (self.points.shape[0],):
            raise ValueError(
                "labels must have one entry per row of points, "
                f"got {self.labels.shape} for {self.points.shape}."
            )
        if self.n == 0 or self.labels.min() < 0:
            raise ValueError("points need at least one row, and labels must be class indices of at least 0.")
        if not np.isfinite(self.points).all():
            raise ValueError("points must be finite.")

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.points.shape[0])

    def blocks(self) -> list[slice]:
        """Consecutive column blocks: one when the cost matrix is kept, else of at most 64 MiB of costs."""
        if self.n <= DENSE_ROWS:
            return [slice(0, self.n)]
        width = max(1, BLOCK_BYTES // (8 * self.n))
        return [slice(start, min(start + width, self.n)) for start in range(0, self.n, width)]

    def costs(self, columns: slice) -> Float:
        """
        Transport costs of a block, transposed: ``(j, i)`` is what it costs to move column j to row i.

        Returns
        -------
        ndarray of float64, shape (columns, n)
            Contiguous along i, the direction in which every solver searches.
        """
        if self.n <= DENSE_ROWS:
            if self._dense is None:
                self._dense = self._block(slice(0, self.n))
            return self._dense[columns]
        return self._block(columns)

    def _block(self, columns: slice) -> Float:
        # rounding is cut to exact zeros there, so that staying put and moving to an equal point are free
        whole = columns == slice(0, self.n)
        return pairwise_squared_distances(self.points if whole else self.points[columns], self.points)

    def losses_of(self, losses: ArrayLike) -> Float:
        """Validate a loss table of shape (classes, n)."""
        table = np.ascontiguousarray(losses, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.n or self.labels.max(initial=0) >= table.shape[0]:
            raise ValueError(
                f"losses must have shape (classes, {self.n}) and a row for every label, got {table.shape}."
            )
        if not np.isfinite(table).all():
            raise ValueError("losses must be finite.")
        return table


@dataclass(frozen=True)
class TransportPlan:
    r"""
    A solution: every person is treated as one other.

    Parameters
    ----------
    target : ndarray of int64, shape (n,)
        Row i that column j moves to: :math:`\Pi_{ij} = 1/n`.
    labels : ndarray of int64, shape (n,)
        Class index that column j carries along.
    multiplier : float
        :math:`\eta^*`, the dual variable of the budget (nats per squared distance).
    spent : float
        :math:`\langle C, \Pi \rangle`, mean squared distance.
    value : float
        :math:`\langle R, \Pi \rangle`, the adversarial loss (nats).
    bound : float
        Optimal dual value: no plan within the budget has a larger loss.
    evaluations : int
        Passes over the columns.
    """

    target: Int
    labels: Int
    multiplier: float
    spent: float
    value: float
    bound: float
    evaluations: int

    def weights(self, classes: int) -> Float:
        r"""
        The worst-case distribution on the augmented support, :math:`P(x_i, k) = (\Pi y_k)_i`.

        Returns
        -------
        ndarray of float64, shape (classes, n)
            Sums to 1.
        """
        n = self.target.shape[0]
        flat = np.bincount(self.labels * n + self.target, minlength=classes * n)
        return flat.reshape(classes, n) / n
