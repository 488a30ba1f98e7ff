"""DADI: an agent that asks for features, trained against an adversary that predicts the sensitive
group.
"""

from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import lazy_dir, lazy_getattr

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.dadi_classifier import Acquisition, DADIClassifier
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire

__all__ = [
    "Acquisition",
    "DADIClassifier",
    "Questionnaire",
]

if not TYPE_CHECKING:
    _MODULES = {
        "Acquisition": "evenhand.fairlib.methods.dadi.dadi_classifier",
        "DADIClassifier": "evenhand.fairlib.methods.dadi.dadi_classifier",
        "Questionnaire": "evenhand.fairlib.methods.dadi.questionnaire",
    }
    __getattr__ = lazy_getattr(__name__, _MODULES)
    __dir__ = lazy_dir(__name__, _MODULES)
