"""DADI: acquisition of features by an agent that an adversary holds to fair ones."""

from fairlib.methods.dadi.classifier import Acquisition, DADIClassifier

__all__ = ["Acquisition", "DADIClassifier"]
