"""Counterfactuals of a job held against what the training rows have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.preprocessing.encoder import TableEncoder, category_name
from evenhand.tasks.errors import InputError

__all__ = ["check_counterfactuals"]


def check_counterfactuals(
    counterfactuals: Mapping[str, Mapping[str, Sequence[Any] | str]], encoder: TableEncoder
) -> None:
    """Refuse a category that no training row had, and copies that are all the same."""
    for name, changes in counterfactuals.items():
        copies = 1
        for column, listed in changes.items():
            known = encoder.categories_.get(column, ())
            copies *= len(known) if listed == "all" else len(set(listed))
            strange = [
                value for value in listed if known and listed != "all" and category_name(value) not in known
            ]
            if strange:
                raise InputError(
                    f"the counterfactual {name!r} gives {column!r} the value {strange[0]!r}, which no "
                    "training row has: list values of the table."
                )
        if copies < 2:
            raise InputError(
                f"the counterfactual {name!r} changes nothing: {', '.join(map(repr, changes))} has one value "
                "in the training rows; change another column."
            )
