"""Neural networks trained on balanced mini-batches: plain, SenSeI, SenSR and counterfactual logit pairing."""

from fairlib.methods.networks.clp import CLPClassifier
from fairlib.methods.networks.plain import NeuralNetworkClassifier
from fairlib.methods.networks.sensei import SenSeIClassifier
from fairlib.methods.networks.sensr import SenSRClassifier

__all__ = ["CLPClassifier", "NeuralNetworkClassifier", "SenSRClassifier", "SenSeIClassifier"]
