"""DADI: acquisition of features by an agent that an adversary holds to fair ones."""

from fairlib.methods.dadi.acquiring import Acquisition
from fairlib.methods.dadi.classifier import DADIClassifier

__all__ = ["Acquisition", "DADIClassifier"]
