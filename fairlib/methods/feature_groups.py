"""Which columns of a matrix belong together: one table column, one group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["check_groups"]


def check_groups(groups: Mapping[str, Sequence[int]] | None, n_columns: int) -> dict[str, list[int]]:
    """
    Groups of matrix columns: every column in exactly one; None makes each column a group of its own.

    Raises
    ------
    ValueError
        A column is missing, there twice or beyond the matrix, or a group is empty.
    """
    if groups is None:
        return {f"x{j}": [j] for j in range(n_columns)}
    named = {str(name): [int(j) for j in columns] for name, columns in groups.items()}
    empty = [name for name, columns in named.items() if not columns]
    if empty:
        raise ValueError(f"feature_groups: the group {empty[0]!r} has no column.")
    listed = [j for columns in named.values() for j in columns]
    for j in sorted(set(listed)):
        if not 0 <= j < n_columns:
            raise ValueError(f"feature_groups names column {j}, and X has the columns 0 to {n_columns - 1}.")
        if listed.count(j) > 1:
            raise ValueError(f"feature_groups has column {j} twice: every column belongs to one group.")
    if len(listed) < n_columns:
        missing = next(j for j in range(n_columns) if j not in set(listed))
        raise ValueError(f"feature_groups misses column {missing}: every column belongs to one group.")
    return named
