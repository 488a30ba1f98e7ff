"""Comparators of group fairness on logistic regression, most of them through aif360 and Fairlearn."""

from fairlib.methods.comparators.adversarial import AdversarialClassifier
from fairlib.methods.comparators.calibration import CalibratedOddsClassifier
from fairlib.methods.comparators.logistic import LogisticClassifier
from fairlib.methods.comparators.reduction import ExponentiatedGradientClassifier
from fairlib.methods.comparators.repair import RepairedLogisticClassifier
from fairlib.methods.comparators.reweighing import ReweighedLogisticClassifier
from fairlib.methods.comparators.thresholds import GroupThresholdsClassifier

__all__ = [
    "AdversarialClassifier",
    "CalibratedOddsClassifier",
    "ExponentiatedGradientClassifier",
    "GroupThresholdsClassifier",
    "LogisticClassifier",
    "RepairedLogisticClassifier",
    "ReweighedLogisticClassifier",
]
