"""Which features a selector lets a model use, over the test rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.evaluation.selection import selection_report
from evenhand.fairlib.methods.registry import METHODS

__all__ = ["Selects", "selects", "write_selection"]


class Selects(Protocol):
    """A model with a selector of features."""

    groups_: Mapping[str, Any]
    attributes_: list[str]
    data_dependent: bool

    def selection_probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """How likely each group is selected, shape (n, G)."""


def selects(model: Any) -> TypeGuard[Selects]:
    """Whether a model's method has a selector, as the registry knows."""
    name = type(model).__name__
    return any(spec.selects and spec.class_name == name for spec in METHODS.values())


def write_selection(
    model: Selects, X: NDArray[np.float32], *, settings: Mapping[str, Any], folder: Path
) -> dict[str, tuple[Path, str]]:
    """
    Write ``selection.json``: how likely each feature is selected, over the test rows.

    No row's probabilities are in it, and of fewer than `min_cell` people no mean, unless they are the same
    for everybody.
    """
    content = {
        "attributes": list(model.attributes_),
        "data_dependent": bool(model.data_dependent),
        "rows": len(X),
        "groups": selection_report(
            model.selection_probabilities(X),
            list(model.groups_),
            model.attributes_,
            data_dependent=bool(model.data_dependent),
            min_cell=settings["min_cell"],
        ),
    }
    path = folder / "selection.json"
    path.write_text(json.dumps(content, indent=1, allow_nan=False))
    return {"selection": (path, "selection")}
