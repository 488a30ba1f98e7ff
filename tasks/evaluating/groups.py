"""Which groups a sensitive column can have, whether anybody in a table is of them or not."""

from __future__ import annotations

import pyarrow as pa

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.groups import bin_names, group_labels

__all__ = ["known_groups"]


def known_groups(column: Column) -> set[str]:
    """Groups that the contract names: those of the bins, or of the allowed values; empty if it names none."""
    if column.bins is not None:
        return set(bin_names(column))
    if column.allowed is None:
        return set()
    return set(group_labels(pa.array(list(column.allowed)), column).tolist())
