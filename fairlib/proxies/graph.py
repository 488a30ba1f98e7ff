"""A splitting graph: randomised halfspace splits that carry a row, in shares, to proxy groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from safetensors.numpy import load_file, save_file

from evenhand.fairlib.arrays import Float, Int

FIELDS = ("coefficients", "intercepts", "mixture", "starts", "one", "zero")


@dataclass(frozen=True)
class SplittingGraph:
    r"""Nodes in an order in which children follow their parents.

    Node i sends the share :math:`\tilde h_i(x) = \sum_s p_s \mathbb{1}[v_s \cdot x + b_s > 0]` of the row's
    weight to its child ``one[i]`` and the rest to ``zero[i]`` (Deng et al. 2023, definitions 9 to 12, with
    any weights p instead of equal ones). The sum runs over the halfspaces from ``starts[i]`` to
    ``starts[i + 1]``.
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
        nodes, count = len(self.one), len(self.mixture)
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
                ((child < 0) | ((child > place) & (child < nodes))).all() for child in (self.one, self.zero)
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
        """Share of every row of X, shape (n, d), in every proxy group, shape (n, groups); rows sum to 1.

        X is rounded to float32. The sums run over the features in their order, in float64. A row's result
        therefore does not depend on the other rows. ValueError if X has another number of features.
        """
        from evenhand.fairlib.proxies._kernels import carry

        rows = np.ascontiguousarray(X, dtype=np.float32)
        if self.width not in (0, rows.shape[1]):
            raise ValueError(f"X has {rows.shape[1]} features, but the graph takes {self.width}.")
        found = np.zeros((len(rows), self.groups))
        if len(self.one) == 0:
            found[:] = 1.0
        else:
            carry(rows, *(getattr(self, name) for name in FIELDS), found)
        return found

    def save(self, path: str | Path) -> None:
        """Write the arrays as safetensors."""
        # safetensors writes the memory of an array, whatever its strides
        save_file({name: np.ascontiguousarray(getattr(self, name)) for name in FIELDS}, path)

    @classmethod
    def load(cls, path: str | Path) -> SplittingGraph:
        """Read the file that :meth:`save` wrote."""
        return cls(**load_file(path))
