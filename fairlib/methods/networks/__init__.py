"""Neural networks trained on mini-batches: plain, SenSeI, SenSR and counterfactual logit
pairing.
"""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
    from evenhand.fairlib.methods.networks.regression import (
        CLPRegressor,
        NeuralNetworkRegressor,
        SenSeIRegressor,
        SenSRRegressor,
    )
    from evenhand.fairlib.methods.networks.sensei import (
        CLPClassifier,
        SenSeIClassifier,
        SenSRClassifier,
    )

__all__ = [
    "CLPClassifier",
    "CLPRegressor",
    "NeuralNetworkClassifier",
    "NeuralNetworkRegressor",
    "SenSeIClassifier",
    "SenSeIRegressor",
    "SenSRClassifier",
    "SenSRRegressor",
]

if not TYPE_CHECKING:
    _MODULES = {
        "CLPClassifier": "evenhand.fairlib.methods.networks.sensei",
        "CLPRegressor": "evenhand.fairlib.methods.networks.regression",
        "NeuralNetworkClassifier": "evenhand.fairlib.methods.networks.plain",
        "NeuralNetworkRegressor": "evenhand.fairlib.methods.networks.regression",
        "SenSeIClassifier": "evenhand.fairlib.methods.networks.sensei",
        "SenSeIRegressor": "evenhand.fairlib.methods.networks.regression",
        "SenSRClassifier": "evenhand.fairlib.methods.networks.sensei",
        "SenSRRegressor": "evenhand.fairlib.methods.networks.regression",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
