"""Groups of the sensitive attributes: indicator columns, target shares, and counts of few people
rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float

Names: TypeAlias = Mapping[str, Sequence[str]]
# Attributes with more groups are refused.
MAX_GROUPS = 50
# Target shares by attribute and group.
Target: TypeAlias = Mapping[str, Mapping[str, float]]


def group_names(sensitive_features: Mapping[str, ArrayLike], rows: int) -> dict[str, list[str]]:
    """Names of the groups of every attribute, sorted as text.

    Parameters
    ----------
    sensitive_features : mapping of str to array-like, shape (n,)
    rows : int
        n.

    Returns
    -------
    dict of str to list of str

    Raises
    ------
    ValueError
        If there is no attribute, or an attribute has another length than `rows`, or a single group.
    """
    if not sensitive_features:
        raise ValueError(
            "sensitive_features is empty: balancing needs an attribute to balance. Pass one, as in "
            "sensitive_features={'sex': sex}."
        )
    names: dict[str, list[str]] = {}
    for name, values in sensitive_features.items():
        groups = np.asarray(values).astype(str)
        if groups.shape != (rows,):
            raise ValueError(f"sensitive_features[{name!r}] must have the shape ({rows},).")
        names[name] = [str(group) for group in np.unique(groups)]
        if len(names[name]) < 2:
            raise ValueError(
                f"the attribute {name!r} has one group only: there is nothing to balance."
            )
    return names


def indicators_of(sensitive_features: Mapping[str, ArrayLike], names: Names) -> Float:
    """Indicators of group membership (Deng et al. 2023, appendix A.2).

    There is one block of columns per attribute, and each row has a single 1 in each block.

    Parameters
    ----------
    sensitive_features : mapping of str to array-like, shape (n,)
    names : mapping of str to sequence of str
        Groups of every attribute, K in all.

    Returns
    -------
    ndarray of float64, shape (n, K)

    Raises
    ------
    ValueError
        If an attribute is missing or has an unknown group; the message does not quote the group.
    """
    blocks = []
    for name, groups in names.items():
        if name not in sensitive_features:
            raise ValueError(f"sensitive_features lacks the attribute {name!r}.")
        values = np.asarray(sensitive_features[name]).astype(str)
        block = values[:, None] == np.asarray(groups)[None, :]
        if not block.any(axis=1).all():
            raise ValueError(
                f"the attribute {name!r} has rows of a group that the proxy was not fitted on."
            )
        blocks.append(block)
    return np.concatenate(blocks, axis=1).astype(np.float64)


def target_shares(names: Names, target: Target | None) -> Float:
    """Target shares of all groups. They are equal within an attribute not in `target`.

    Parameters
    ----------
    names : mapping of str to sequence of str
        Groups of every attribute, K in all.
    target : mapping of str to mapping of str to float, or None
        Shares by attribute and group.

    Returns
    -------
    ndarray of float64, shape (K,)

    Raises
    ------
    ValueError
        If `target` names an unknown attribute or group, leaves out a group, or has shares that are
        negative or do not sum to 1.
    """
    target = target or {}
    for name in target:
        if name not in names:
            raise ValueError(f"target names the attribute {name!r}; there are {', '.join(names)}.")
    parts: list[float] = []
    for name, groups in names.items():
        shares = target.get(name)
        if shares is None:
            parts += [1.0 / len(groups)] * len(groups)
            continue
        _check_shares(name, groups, shares)
        parts += [float(shares[group]) for group in groups]
    return np.array(parts)


def _check_shares(name: str, groups: Sequence[str], shares: Mapping[str, float]) -> None:
    if not isinstance(shares, Mapping):
        raise ValueError(f"target must map the groups of {name!r} to their shares, got {shares!r}.")
    for group, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, Real):
            raise ValueError(f"the target share of {group!r} must be a number, got {share!r}.")
    # an absent group is reported before a group that was left out
    for group in shares:
        if group not in groups:
            raise ValueError(
                f"target wants the group {group!r} of {name!r}, which has no row in the sample."
            )
    if set(shares) != set(groups):
        raise ValueError(f"target must give all {len(groups)} groups of {name!r} a share.")
    total = sum(shares.values())
    are_shares = all(share >= 0 for share in shares.values())
    if not are_shares or not math.isclose(total, 1.0, abs_tol=1e-6):
        raise ValueError(
            f"the target shares of {name!r} must be at least 0 and sum to 1, got a sum of "
            f"{total:g}."
        )


def rounded_counts(
    counts: ArrayLike,
    compositions: Sequence[Any],
    base_rates: Sequence[Any],
    blocks: Sequence[int],
    least: int,
) -> tuple[Float, list[Any]]:
    """Round the counts behind proxy groups' sizes and compositions to multiples of `least` people.

    Parameters
    ----------
    counts : array-like, shape (l,)
        People in each proxy group.
    compositions : sequence of l rows of K shares
        A row, or a share in it, may be None and then stays so.
    base_rates : sequence of K shares
        They take the place of a composition of which nobody remains.
    blocks : sequence of int
        Numbers of groups of every attribute; they sum to K.
    least : int
        The unit of the rounding.

    Returns
    -------
    sizes : ndarray of float64, shape (l,)
    compositions : list of l rows
    """
    sizes = np.asarray(counts, dtype=np.float64)
    ends = np.cumsum(blocks)[:-1]
    base_blocks = np.split(np.array(base_rates, dtype=object), ends)
    rounded = []
    for count, row in zip(sizes, compositions, strict=True):
        if row is not None and None not in row:
            people = np.round(np.asarray(row) * count / least)
            row = []
            for block, base_block in zip(np.split(people, ends), base_blocks, strict=True):
                row += list(block / block.sum()) if block.sum() else list(base_block)
        rounded.append(row)
    return np.round(sizes / least) * least, rounded
