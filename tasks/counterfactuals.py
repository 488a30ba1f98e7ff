"""The counterfactuals of a job: checked against the training rows' values, and their copies of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder, category_name
from evenhand.tasks.errors import InputError
from evenhand.tasks.step import StepContext

__all__ = ["check_counterfactuals", "counterfactual_copies"]


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


def counterfactual_copies(context: StepContext, X: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Copies of encoded rows under all counterfactuals of the step's parameters."""
    counterfactuals = context.parameters["counterfactuals"]
    encoder = TableEncoder.load(context.inputs["encoder"])
    check_counterfactuals(counterfactuals, encoder)
    return [copy for changes in counterfactuals.values() for copy in encoded_copies(encoder, X, changes)]
