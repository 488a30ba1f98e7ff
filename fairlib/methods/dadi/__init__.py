"""DADI: acquisition of features by an agent that an adversary holds to fair ones."""

from evenhand.fairlib.methods.dadi.classifier import DADIClassifier
from evenhand.fairlib.methods.dadi.rollout import Acquisition

__all__ = ["Acquisition", "DADIClassifier"]
