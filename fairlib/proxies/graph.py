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
    """

    coefficients: Float  # shape (H, d): v, the normals of all halfspaces
    intercepts: Float  # shape (H,): b
    mixture: Float  # shape (H,): p; the entries of a node sum to 1
    starts: Int  # shape (nodes + 1,)
    # shape (nodes,) each: a child, which is a node's position, or -1 - j for proxy group j
    one: Int
    zero: Int

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together: the compiled loop does not check its indices."""
        nodes = len(self.one)
        count = len(self.mixture)
        place = np.arange(nodes)
        fits = (
            self.coefficients.ndim == 2
            and len(self.coefficients) == len(self.intercepts) == count
            and len(self.zero) == nodes
            and len(self.starts) == nodes + 1
            and self.starts[0] == 0
            and self.starts[-1] == count
            and (np.diff(self.starts) >= 0).all()
            and all(
                ((child < 0) | ((child > place) & (child < nodes))).all()
                for child in (self.one, self.zero)
            )
        )
        if not fits:
            raise ValueError("the arrays of a splitting graph do not fit together.")

    @property
    def width(self) -> int:
        """Number of features; 0 for a graph without nodes, which takes any."""
        return int(self.coefficients.shape[1]) if len(self.one) else 0

    @property
    def groups(self) -> int:
        """Number of proxy groups; a graph without nodes has one."""
        return int(-min(self.one.min(), self.zero.min())) if len(self.one) else 1

    def shares(self, X: ArrayLike) -> Float:
        """Share of every row of X, shape (n, d), in every proxy group, shape (n, groups); rows sum
        to 1.

        X is rounded to float32. The sums run over the features in their order, in float64. A row's
        result therefore does not depend on the other rows. ValueError if X has another number of
        features.
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
        """Shares of rows that are read column by column, as :func:`_kernels.carry` says."""
        from evenhand.fairlib.proxies._splitting_kernels import carry

        found = np.empty((numbers.shape[1], self.groups))
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
            found,
        )
        return found

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
        intercepts[:count], mixture[:count] = self.intercepts, self.mixture
        return weights, intercepts, mixture

    def save(self, path: str | Path) -> None:
        """Write the arrays as safetensors."""
        # safetensors writes the memory of an array, whatever its strides
        save_file({name: np.ascontiguousarray(getattr(self, name)) for name in FIELDS}, path)

    @classmethod
    def load(cls, path: str | Path) -> SplittingGraph:
        """Read the file that :meth:`save` wrote."""
        return cls(**load_file(path))


def expected_acceptance(shares: Float, acceptance: Float) -> Float:
    """Acceptance probability, shape (n,), of shares, (n, l), and the groups' acceptance, (l,).

    Summed in the groups' order: the order of a matrix product depends on the number of rows. A
    row's shares sum to 1 up to rounding.
    """
    total = np.zeros(len(shares))
    for column, kept in zip(shares.T, acceptance, strict=True):
        total += column * kept
    return np.clip(total, 0.0, 1.0)
