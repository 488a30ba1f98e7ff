"""FAIAS: a predictor trained against a selector of the features that it sees."""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier

__all__ = [
    "FAIASClassifier",
]

if not TYPE_CHECKING:
    _MODULES = {
        "FAIASClassifier": "evenhand.fairlib.methods.faias.faias_classifier",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
