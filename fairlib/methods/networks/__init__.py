"""Neural networks trained on mini-batches: plain, SenSeI, SenSR and counterfactual logit
pairing.
"""

from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.methods.networks.sensei import (
    CLPClassifier,
    SenSeIClassifier,
    SenSRClassifier,
)

__all__ = ["CLPClassifier", "NeuralNetworkClassifier", "SenSRClassifier", "SenSeIClassifier"]
