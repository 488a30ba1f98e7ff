"""How the columns of a matrix form groups, and which of these are sensitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

__all__ = ["Features"]


@dataclass(frozen=True)
class Features:
    """
    Groups of d columns.

    Parameters
    ----------
    group_of : Tensor of int, shape (d,)
        Group of every column.
    sensitive : Tensor of bool, shape (Q, d)
        Columns of each sensitive group.
    free : Tensor of bool, shape (G,)
        Groups that may be selected.
    """

    group_of: Tensor
    sensitive: Tensor
    free: Tensor

    @classmethod
    def of(cls, groups: Mapping[str, Sequence[int]], sensitive: Sequence[str]) -> Self:
        """Features of groups that partition the columns; those named are sensitive."""
        names = list(groups)
        group_of = torch.empty(sum(map(len, groups.values())), dtype=torch.int64)
        for position, columns in enumerate(groups.values()):
            group_of[list(columns)] = position
        hidden = torch.tensor([names.index(name) for name in sensitive])
        free = torch.ones(len(names), dtype=torch.bool)
        free[hidden] = False
        return cls(group_of, group_of[None] == hidden[:, None], free)

    @property
    def hidden(self) -> Tensor:
        """Columns of all sensitive groups, shape (d,)."""
        return self.sensitive.any(0)

    def masked(self, x: Tensor, selection: Tensor) -> Tensor:
        """Features with those that are not selected at 0; the selection has shape (n or 1, G)."""
        return x * selection[:, self.group_of]
