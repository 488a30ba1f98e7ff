"""DADI: an agent that asks for features, trained against an adversary that predicts the sensitive
group.
"""

from evenhand.fairlib.methods.dadi.dadi_classifier import Acquisition, DADIClassifier

__all__ = ["Acquisition", "DADIClassifier"]
