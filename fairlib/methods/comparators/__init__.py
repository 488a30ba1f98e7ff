"""Comparators of group fairness on logistic regression, most of them through Fairlearn."""

from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import lazy_dir, lazy_getattr

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
    __getattr__ = lazy_getattr(__name__, _MODULES)
    __dir__ = lazy_dir(__name__, _MODULES)
