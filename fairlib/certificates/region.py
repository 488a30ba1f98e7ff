"""All people within a fair distance of one person: the set over which a model's output is
bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from evenhand.fairlib.arrays import Float, Index
from evenhand.fairlib.distances.metric_base import Metric

# Rounds of alternating projections that look for the part of a direction which the box bounds
# better.
ROUNDS = 12
# That part is also tried at these shares of its length.
SHARES = (1.0, 0.7, 0.0)
# Within single precision.
RADII = 1e-15, 1e15
# Numbers in a chunk of directions: more than fit into a processor's cache take several times as
# long.
CHUNK = 2**15


@dataclass(frozen=True)
class Region:
    r"""For each of n people the encoded rows that an adversary may put in their place.

    .. math::
        \{ x + P \delta + B t : \; l \le \delta \le u, \; \delta^\top \Sigma \delta \le r^2, \;
        t_l \le t \le t_u \}, \qquad P = I - B B^\top

    :math:`\Sigma` is the fair metric's matrix and the columns of B are its free directions. These
    are the points that :class:`evenhand.fairlib.auditor.worst_case_search.SearchBounds` searches:
    :math:`x + \delta` within the range of every feature, :math:`B^\top x'` within theirs; x itself
    always belongs. The radius r is a fair distance, not a squared one: a certificate's budget
    :math:`\epsilon` is a mean of squares, :math:`r^2`.
    """

    x: Float  # shape (n, d): the people
    # shape (n, d): bounds of delta, from at most 0 to at least 0
    low: Float
    high: Float
    # shape (n, k): bounds of t
    free_low: Float
    free_high: Float
    radius: Float  # shape (n,): r, not negative; infinity leaves only the box
    basis: Float  # shape (d, k): B, with orthonormal columns
    factor: Float  # shape (d, r): F, with F F' the pseudoinverse of the fair metric's matrix
    # whether that is P: V P is as long as V F then, and costs k of r products
    is_projection: bool = False

    @classmethod
    def of(cls, metric: Metric, X: ArrayLike, radius: float | Float) -> Self:
        """The regions of rows X, shape (n, d), at one radius or at one radius each, shape (n,).

        ValueError: a metric of another width, or whose matrix is zero; numbers that are not finite;
        a negative radius.

        Parameters
        ----------
        metric : Metric
            Fitted fair metric.
        X : array-like, shape (n, d)
            The people.
        radius : float or ndarray of float64
            One fair distance, or one per person, shape (n,); at least 0.

        Returns
        -------
        Self
            Of n people.

        Raises
        ------
        ValueError
            For a metric of another width, or whose matrix is zero; numbers that are not finite; a
            negative radius.
        """
        check_is_fitted(metric)
        x = np.asarray(X, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != metric.n_features_in_:
            raise ValueError(
                f"X has the shape {x.shape}, but this metric was fitted on {metric.n_features_in_} "
                "features."
            )
        radii = np.broadcast_to(np.asarray(radius, dtype=np.float64), (len(x),)).copy()
        if not np.isfinite(x).all() or not (radii >= 0).all():
            raise ValueError("X must be finite and the radius a number of at least 0.")
        values, vectors = np.linalg.eigh(metric.unweigh(np.eye(x.shape[1])))
        positive = values > x.shape[1] * np.finfo(np.float64).eps * max(values[-1], 0.0)
        if not positive.any():
            raise ValueError(
                "the fair metric's matrix is zero: everybody is comparable with everybody."
            )
        basis = metric.basis_
        bounds = metric.feature_bounds_
        along = x @ basis
        return cls(
            x=x,
            low=np.minimum(bounds.low - x, 0.0),
            high=np.maximum(bounds.high - x, 0.0),
            free_low=np.minimum(bounds.free_low - along, 0.0),
            free_high=np.maximum(bounds.free_high - along, 0.0),
            radius=radii,
            basis=basis,
            factor=vectors[:, positive] * np.sqrt(values[positive]),
            is_projection=metric.is_projection,
        )

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, index: Index) -> Self:
        """The regions of some people, who may be repeated.

        Parameters
        ----------
        index : ndarray of intp
            Positions of people, who may be repeated.

        Returns
        -------
        Self
            Of these people.
        """
        names = ("x", "low", "high", "free_low", "free_high", "radius")
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def points(self, delta: Float, t: Float) -> Float:
        """Rows of some moves, shapes (..., n, d) and (..., n, k), after these are brought into the
        region.

        Parameters
        ----------
        delta : ndarray of float64, shape (..., n, d)
            Moves.
        t : ndarray of float64, shape (..., n, k)
            Moves along the free directions.

        Returns
        -------
        ndarray of float64, shape (..., n, d)
            Points of the region.
        """
        moved = self.inside(delta)
        along = np.clip(t, self.free_low, self.free_high)
        return np.asarray(self.x + moved + (along - moved @ self.basis) @ self.basis.T)

    def inside(self, delta: Float) -> Float:
        """Moves delta, shape (..., n, d), brought into the region.

        The region contains all points between x and any of its points, so that a move that is too
        long is shortened.

        Parameters
        ----------
        delta : ndarray of float64, shape (..., n, d)
            Moves.

        Returns
        -------
        ndarray of float64, shape (..., n, d)
            Moves within the region.
        """
        moved = np.maximum(np.minimum(delta, self.high), self.low)
        # Σ = (F F')+, and F has orthogonal columns
        scaled = self._times(moved, self.factor / np.square(self.factor).sum(axis=0))
        length = np.linalg.norm(scaled, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            # a little shorter: rounding must not lead out of the region
            share = np.where(length > self.radius, self.radius / length * (1.0 - 1e-12), 1.0)
        return np.asarray(moved * share[..., None])

    def support(self, A: Float) -> Float:
        r"""Upper bounds of :math:`\max a^\top x'`, shape (n, m), for the rows a of A, (m, d) or (n,
        m, d).

        With :math:`g = P a` it is the sum of :math:`a^\top x`, of the exact maximum over t, and of

        .. math:: \max_\delta g^\top \delta \;\le\; \min_{h \perp B} \;
            r \sqrt{(g - h)^\top \Sigma^+ (g - h)} + \sum_j \max(h_j l_j, h_j u_j)

        for which a few h are tried, 0 and g among them: every h gives an upper bound. Rounding adds
        less than :meth:`slack`, which is included.

        Parameters
        ----------
        A : ndarray of float64, shape (n, m, d)
            Rows a of coefficients, or (m, d) where they are the same for everybody.

        Returns
        -------
        ndarray of float64, shape (n, m)
            Upper bounds.
        """
        return self.lines(A)[0]

    def lines(self, A: Float) -> tuple[Float, Float]:
        r"""The bounds of :meth:`support`, and the factor of r in them, both (n, m).

        For a region of radius :math:`r' \le r` the bound less :math:`r - r'` times the factor
        holds.

        Parameters
        ----------
        A : ndarray of float64, shape (n, m, d)
            Rows a of coefficients, or (m, d) where they are the same for everybody.

        Returns
        -------
        tuple of two ndarrays, shape (n, m)
            Bounds and factors.
        """
        along = A @ self.basis
        low = self.free_low[:, None, :]
        high = self.free_high[:, None, :]
        free = np.maximum(along * low, along * high).sum(axis=-1)
        at_person = self.x @ A.T if A.ndim == 2 else np.einsum("nmd,nd->nm", A, self.x)
        reach, factor = self.reach(A - along @ self.basis.T)
        return np.asarray(at_person + free + reach + self.slack(A)), factor

    def towards(self, A: Float) -> Float:
        """A point of the region far in each direction, shape (n, m, d), for rows as in
        :meth:`support`.

        It is the maximum where neither bound of a feature cuts the ellipsoid.

        Parameters
        ----------
        A : ndarray of float64, shape (n, m, d)
            Rows a of coefficients, or (m, d) where they are the same for everybody.

        Returns
        -------
        ndarray of float64, shape (n, m, d)
            Points of the region.
        """
        n = len(self)
        m = A.shape[-2]
        # the region of a person once for each of the person's m rows
        repeated = self.rows(np.repeat(np.arange(n), m))
        rows = np.broadcast_to(A, (n, *A.shape[-2:])).reshape(n * m, -1)
        along = rows @ self.basis
        g = rows - along @ self.basis.T
        ends = np.where(along > 0, repeated.free_high, repeated.free_low)
        return repeated.points(repeated.steepest(g), ends).reshape(n, m, -1)

    def steepest(self, g: Float) -> Float:
        """The move delta of the radius's length that is farthest in each direction g, (n, d),
        without B.

        Parameters
        ----------
        g : ndarray of float64, shape (n, d)
            Directions without a part along B.

        Returns
        -------
        ndarray of float64, shape (n, d)
            Moves of fair length r, not cut to the box.
        """
        # features that cannot move that way
        g = np.where(((g > 0) & (self.high <= 0)) | ((g < 0) & (self.low >= 0)), 0.0, g)
        g = self._times(g, self.factor)
        length = np.linalg.norm(g, axis=1, keepdims=True)
        move = g / np.maximum(length, np.finfo(g.dtype).tiny)
        if not self.is_projection:
            move = move @ self.factor.T
        return np.asarray(move * np.minimum(self.radius, 1e9)[:, None])

    def _times(self, V: Float, factor: Float) -> Float:
        """V F, or V P of the same length, for V of shape (..., d)."""
        if self.is_projection:
            return V - (V @ self.basis) @ self.basis.T
        return V @ factor

    def reach(self, G: Float) -> tuple[Float, Float]:
        r"""Upper bounds of :math:`\max g^\top \delta` for g orthogonal to B, and the factors of r
        in them.

        Parameters
        ----------
        G : ndarray of float64, shape (n, m, d)
            Rows g orthogonal to B, or (m, d).

        Returns
        -------
        tuple of two ndarrays, shape (n, m)
            Bounds, and factors.
        """
        if not self.radius.any():
            return np.zeros((len(self), G.shape[-2])), np.zeros((len(self), G.shape[-2]))
        step = max(1, CHUNK // (G.shape[-2] * G.shape[-1]))
        if len(self) <= step:
            return self._reach_of_chunk(G)
        bounds = []
        factors = []
        for start in range(0, len(self), step):
            people = np.arange(start, min(start + step, len(self)))
            bound, factor = self.rows(people).reach(G if G.ndim == 2 else G[people])
            bounds.append(bound)
            factors.append(factor)
        return np.concatenate(bounds), np.concatenate(factors)

    def _reach_of_chunk(self, G: Float) -> tuple[Float, Float]:
        """:meth:`reach` for so few people that the arrays fit into a processor's cache."""
        low = self.low[:, None, :]
        high = self.high[:, None, :]
        radius = self.radius[:, None]
        G = np.broadcast_to(G, (len(self), *G.shape[-2:]))
        best = np.maximum(G * low, G * high).sum(axis=-1)
        factor = np.zeros(G.shape[:2])
        finite = np.isfinite(radius)
        if not finite.any():
            return best, factor
        part = self._part_of_box(G)
        # the box's bound of a share of the part is that share of its bound
        of_part = np.maximum(part * low, part * high).sum(axis=-1)
        for share in SHARES:
            remainder = G - share * part if share else G
            # both are orthogonal to B, and P makes no vector longer
            if not self.is_projection:
                remainder = remainder @ self.factor
            length = np.sqrt(np.einsum("nmd,nmd->nm", remainder, remainder))
            length = np.where(finite, length, 0.0)
            value = np.where(finite, radius, 0.0) * length + share * of_part
            better = finite & (value < best)
            best = np.where(better, value, best)
            factor = np.where(better, length, factor)
        return best, factor

    def _part_of_box(self, G: Float) -> Float:
        """The part of each g that the box bounds better than the ellipsoid; orthogonal to B.

        The move of length r along g, if Σ were I, is cut to the box: what is cut off is the box's
        part. Dykstra's alternating projections find such a part that is orthogonal to B. Every part
        that is gives a bound, so single precision suffices, but for the last projection.
        """
        lengths = np.sqrt(np.einsum("nmd,nmd->nm", G, G))[..., None]
        lengths = np.maximum(lengths, np.finfo(np.float64).tiny)
        # of directions of length 1, so that nothing overflows
        radius = np.clip(self.radius, *RADII).astype(np.float32)[:, None, None]
        with np.errstate(over="ignore"):
            low = self.low.astype(np.float32)[:, None, :]
            high = self.high.astype(np.float32)[:, None, :]
        basis = self.basis.astype(np.float32)
        part = (G / lengths).astype(np.float32)
        cut = np.zeros_like(part)
        for _ in range(ROUNDS):
            part += cut
            np.multiply(part, radius, out=cut)
            # faster than np.clip where the bounds are arrays
            np.minimum(cut, high, out=cut)
            np.maximum(cut, low, out=cut)
            cut /= radius
            part -= cut
            # as one matrix: a stack of small matrices is multiplied one by one
            rows = part.reshape(-1, part.shape[-1])
            rows -= (rows @ basis) @ basis.T
        exact = part.astype(np.float64)
        exact *= lengths
        rows = exact.reshape(-1, exact.shape[-1])
        rows -= (rows @ self.basis) @ self.basis.T
        return exact

    def slack(self, A: Float) -> Float:
        r"""More than the rounding errors of :meth:`support`, shape (n, m) or (n, 1).

        Every term is a sum of products of a with x, B and the bounds, of at most d terms. With unit
        roundoff u each has an error below :math:`(d + 2) u` times the sum of the absolute products
        (Higham 2002, section 3.1), which by the Cauchy-Schwarz inequality are at most :math:`(k +
        1) \|a\| (\|x\| + \|\max(-l, u)\| + \|\max(-t_l, t_u)\|)`, as B has orthonormal columns.

        Parameters
        ----------
        A : ndarray of float64, shape (n, m, d)
            Rows a of coefficients, or (m, d) where they are the same for everybody.

        Returns
        -------
        ndarray of float64, shape (n, m)
            Bounds of rounding errors, or (n, 1).
        """
        d, k = self.basis.shape
        sizes = np.linalg.norm(self.x, axis=1)
        sizes = sizes + np.linalg.norm(np.maximum(-self.low, self.high), axis=1)
        sizes = sizes + np.linalg.norm(np.maximum(-self.free_low, self.free_high), axis=1)
        unit = 8 * (d + 8) * (k + 1) * np.finfo(np.float64).eps
        return np.asarray(unit * sizes[:, None] * np.linalg.norm(A, axis=-1))
