"""A splitting graph: randomised halfspace splits that carry a row, in shares, to proxy groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import load_file, save_file

from evenhand.fairlib.arrays import Float, Int

# Halfspaces are padded to full vector registers.
LANES = 8
FIELDS = ("coefficients", "intercepts", "mixture", "starts", "one", "zero")


@dataclass(frozen=True)
class SplittingGraph:
    r"""Nodes in an order in which children follow their parents.

    Node i sends the share :math:`\tilde h_i(x) = \sum_s p_s \mathbb{1}[v_s \cdot x + b_s > 0]` of
    the row's weight to its child ``one[i]`` and the rest to ``zero[i]`` (Deng et al. 2023,
    definitions 9 to 12, with any weights p instead of equal ones). The sum runs over the halfspaces
    from ``starts[i]`` to ``starts[i + 1]``.

    Parameters
    ----------
    coefficients : ndarray of float64, shape (H, d)
        v: the normals of all halfspaces.
    intercepts : ndarray of float64, shape (H,)
        b.
    mixture : ndarray of float64, shape (H,)
        p; the entries of a node sum to 1.
    starts : ndarray of int64, shape (nodes + 1,)
        First halfspace of each node, and their number.
    one, zero : ndarray of int64, shape (nodes,)
        A child, which is a node's position, or -1 - j for proxy group j.

    Raises
    ------
    ValueError
        If the arrays do not fit together.
    """

    coefficients: Float
    intercepts: Float
    mixture: Float
    starts: Int
    one: Int
    zero: Int

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together: the compiled loop does not check its indices."""
        nodes = len(self.one)
        count = len(self.mixture)
        fits = (
            self.coefficients.ndim == 2
            and len(self.coefficients) == len(self.intercepts) == count
            and len(self.zero) == nodes
            and len(self.starts) == nodes + 1
            and self.starts[0] == 0
            and self.starts[-1] == count
            and (np.diff(self.starts) >= 0).all()
            and _follow(self.one)
            and _follow(self.zero)
        )
        if not fits:
            raise ValueError("the arrays of a splitting graph do not fit together.")

    @property
    def width(self) -> int:
        """Number of features; 0 for a graph without nodes, which takes any."""
        if len(self.one):
            return int(self.coefficients.shape[1])
        return 0

    @property
    def groups(self) -> int:
        """Number of proxy groups; a graph without nodes has one."""
        if len(self.one):
            return int(-min(self.one.min(), self.zero.min()))
        return 1

    def shares(self, X: ArrayLike) -> Float:
        """Share of every row in every proxy group; rows sum to 1.

        X is rounded to float32. The sums run over the features in their order, in float64. A row's
        result therefore does not depend on the other rows.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float64, shape (n, groups)

        Raises
        ------
        ValueError
            If X has another number of features.
        """
        rows = np.asarray(X, dtype=np.float32)
        width = rows.shape[1]
        if self.width not in (0, width):
            raise ValueError(f"X has {width} features, but the graph takes {self.width}.")
        # every column is a number that needs no scaling
        columns = np.arange(self.width)
        plan = np.stack([columns * 0 + 1, columns, columns, columns * 0 - 1], axis=1)
        numbers = rows.T.astype(np.float64, order="C")
        none = np.empty((0, len(rows)), dtype=np.int32)
        return self.carried(numbers, none, np.zeros(width), np.ones(width), plan)

    def carried(
        self, numbers: Float, codes: NDArray[np.int32], means: Float, scales: Float, plan: Int
    ) -> Float:
        """Shares of rows that are read column by column.

        Parameters
        ----------
        numbers, codes, means, scales, plan : ndarray
            As of :func:`._splitting_kernels.carry`.

        Returns
        -------
        ndarray of float64, shape (n, groups)
        """
        from evenhand.fairlib.proxies._splitting_kernels import carry

        shares = np.empty((numbers.shape[1], self.groups))
        carry(
            numbers,
            codes,
            means,
            scales,
            plan,
            *self.padded,
            self.starts,
            self.one,
            self.zero,
            shares,
        )
        return shares

    @cached_property
    def padded(self) -> tuple[Float, Float, Float]:
        """Weights, shape (d + 1, lanes), with zeros for a value that adds nothing; intercepts;
        mixture.
        """
        width = self.coefficients.shape[1]
        count = len(self.intercepts)
        weights = np.zeros((width + 1, -(-max(count, 1) // LANES) * LANES))
        weights[:width, :count] = self.coefficients.T
        intercepts, mixture = np.zeros((2, weights.shape[1]))
        intercepts[:count] = self.intercepts
        mixture[:count] = self.mixture
        return weights, intercepts, mixture

    def save(self, path: str | Path) -> None:
        """Write the arrays as safetensors.

        Parameters
        ----------
        path : str or pathlib.Path
        """
        # safetensors writes the memory of an array, whatever its strides
        save_file({name: np.ascontiguousarray(getattr(self, name)) for name in FIELDS}, path)

    @classmethod
    def load(cls, path: str | Path) -> SplittingGraph:
        """Read the file that :meth:`save` wrote.

        Parameters
        ----------
        path : str or pathlib.Path

        Returns
        -------
        SplittingGraph
        """
        return cls(**load_file(path))


def _follow(children: Int) -> bool:
    """Whether all children of nodes are proxy groups, or nodes after their parents."""
    nodes = len(children)
    is_later_node = (children > np.arange(nodes)) & (children < nodes)
    return bool(((children < 0) | is_later_node).all())


def expected_acceptance(shares: Float, acceptance: Float) -> Float:
    """Acceptance probability of rows.

    Summed in the groups' order: the order of a matrix product depends on the number of rows.

    Parameters
    ----------
    shares : ndarray of float64, shape (n, l)
        Share of each row in each proxy group; they sum to 1 up to rounding.
    acceptance : ndarray of float64, shape (l,)
        Acceptance of the proxy groups.

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    total = np.zeros(len(shares))
    for column, group_acceptance in zip(shares.T, acceptance, strict=True):
        total += column * group_acceptance
    return np.clip(total, 0.0, 1.0)
