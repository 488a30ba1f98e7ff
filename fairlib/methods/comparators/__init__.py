"""Comparators of group fairness on logistic regression, most of them through aif360 and Fairlearn."""

from evenhand.fairlib.methods.comparators.adversarial import AdversarialClassifier
from evenhand.fairlib.methods.comparators.calibration import CalibratedOddsClassifier
from evenhand.fairlib.methods.comparators.logistic import LogisticClassifier, ReweighedLogisticClassifier
from evenhand.fairlib.methods.comparators.reduction import ExponentiatedGradientClassifier
from evenhand.fairlib.methods.comparators.repair import RepairedLogisticClassifier
from evenhand.fairlib.methods.comparators.thresholds import GroupThresholdsClassifier

__all__ = [
    "AdversarialClassifier",
    "CalibratedOddsClassifier",
    "ExponentiatedGradientClassifier",
    "GroupThresholdsClassifier",
    "LogisticClassifier",
    "RepairedLogisticClassifier",
    "ReweighedLogisticClassifier",
]
