"""FAIAS: a predictor trained against a selector of the features that it sees."""

from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import lazy_dir, lazy_getattr

if TYPE_CHECKING:
    from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier

__all__ = [
    "FAIASClassifier",
]

if not TYPE_CHECKING:
    _MODULES = {
        "FAIASClassifier": "evenhand.fairlib.methods.faias.faias_classifier",
    }
    __getattr__ = lazy_getattr(__name__, _MODULES)
    __dir__ = lazy_dir(__name__, _MODULES)
