"""Comparators of group fairness on logistic regression, most of them through Fairlearn."""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.methods.comparators.adversarial import AdversarialClassifier
    from evenhand.fairlib.methods.comparators.logistic import (
        LogisticClassifier,
        ReweighedLogisticClassifier,
    )
    from evenhand.fairlib.methods.comparators.reduction import ExponentiatedGradientClassifier

__all__ = [
    "AdversarialClassifier",
    "ExponentiatedGradientClassifier",
    "LogisticClassifier",
    "ReweighedLogisticClassifier",
]

if not TYPE_CHECKING:
    _MODULES = {
        "AdversarialClassifier": "evenhand.fairlib.methods.comparators.adversarial",
        "ExponentiatedGradientClassifier": "evenhand.fairlib.methods.comparators.reduction",
        "LogisticClassifier": "evenhand.fairlib.methods.comparators.logistic",
        "ReweighedLogisticClassifier": "evenhand.fairlib.methods.comparators.logistic",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
