"""DADI: an agent that asks for features, trained against an adversary that predicts the sensitive
group.
"""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

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
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
