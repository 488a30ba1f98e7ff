"""The groups of one or several sensitive attributes as columns, and the shares that are wanted of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Groups", "Target", "indicators_of"]

Float = NDArray[np.float64]
# Wanted shares by attribute and group.
Target: TypeAlias = Mapping[str, Mapping[str, float]]


class Groups:
    """
    Indicators of group membership (Deng et al. 2023, appendix A.2).

    Parameters
    ----------
    sensitive_features : mapping of str to array-like, shape (n,)
    rows : int
        n.

    Attributes
    ----------
    names : dict of str to list of str
        Groups of every attribute.
    indicators : ndarray, shape (n, K)
        One block of columns an attribute, in each of which a row has a single 1.

    Raises
    ------
    ValueError
        No attribute, one of another length, or one with a single group.
    """

    def __init__(self, sensitive_features: Mapping[str, ArrayLike], rows: int) -> None:
        if not sensitive_features:
            raise ValueError("sensitive_features is empty: balancing needs an attribute to balance.")
        self.names: dict[str, list[str]] = {}
        for name, values in sensitive_features.items():
            found = np.asarray(values).astype(str)
            if found.shape != (rows,):
                raise ValueError(f"sensitive_features[{name!r}] must have the shape ({rows},).")
            self.names[name] = [str(group) for group in np.unique(found)]
            if len(self.names[name]) < 2:
                raise ValueError(f"the attribute {name!r} has one group only: there is nothing to balance.")
        self.indicators = indicators_of(sensitive_features, self.names)

    def target(self, wanted: Target | None) -> Float:
        """
        Wanted shares, shape (K,): uniform within every attribute that `wanted` does not name.

        Raises
        ------
        ValueError
            An attribute or a group that there is none of, a group left out, a negative share, a sum that is
            not 1.
        """
        parts = []
        for name in wanted or {}:
            if name not in self.names:
                raise ValueError(f"target names the attribute {name!r}; there are {', '.join(self.names)}.")
        for name, groups in self.names.items():
            shares = (wanted or {}).get(name)
            if shares is None:
                parts += [1.0 / len(groups)] * len(groups)
                continue
            # a wanted group that is absent must be named before a present one that is not wanted
            for group in shares:
                if group not in groups:
                    raise ValueError(
                        f"target wants the group {group!r} of {name!r}, which has no row in the sample."
                    )
            if set(shares) != set(groups):
                raise ValueError(f"target must give all {len(groups)} groups of {name!r} a share.")
            if any(not share >= 0 for share in shares.values()) or not math.isclose(
                sum(shares.values()), 1.0, abs_tol=1e-6
            ):
                raise ValueError(
                    f"the target shares of {name!r} must be at least 0 and sum to 1, got a sum of "
                    f"{sum(shares.values()):g}."
                )
            parts += [float(shares[group]) for group in groups]
        return np.array(parts)


def indicators_of(sensitive_features: Mapping[str, ArrayLike], names: Mapping[str, Sequence[str]]) -> Float:
    """
    Indicators of rows for groups that are known already, shape (n, K).

    Raises
    ------
    ValueError
        An attribute is missing, or has a group that is not known; the message does not quote it.
    """
    blocks = []
    for name, groups in names.items():
        if name not in sensitive_features:
            raise ValueError(f"sensitive_features lacks the attribute {name!r}.")
        values = np.asarray(sensitive_features[name]).astype(str)
        block = values[:, None] == np.asarray(groups)[None, :]
        if not block.any(axis=1).all():
            raise ValueError(f"the attribute {name!r} has rows of a group that the proxy was not fitted on.")
        blocks.append(block)
    return np.concatenate(blocks, axis=1).astype(np.float64)
