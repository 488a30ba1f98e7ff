"""Methods that train a model, each a scikit-learn classifier with ``save`` and ``load``.

:mod:`evenhand.fairlib.methods.registry` lists them by the name that a job uses.
"""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.methods.boosting_libraries import (
        CatBoostTreesClassifier,
        LightGBMTreesClassifier,
    )
    from evenhand.fairlib.methods.budro import BudroClassifier
    from evenhand.fairlib.methods.comparators.adversarial import AdversarialClassifier
    from evenhand.fairlib.methods.comparators.logistic import (
        LogisticClassifier,
        ReweighedLogisticClassifier,
    )
    from evenhand.fairlib.methods.comparators.reduction import ExponentiatedGradientClassifier
    from evenhand.fairlib.methods.comparators.sklearn_estimators import (
        SklearnBoostingClassifier,
        SklearnForestClassifier,
    )
    from evenhand.fairlib.methods.dadi.dadi_classifier import DADIClassifier
    from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier
    from evenhand.fairlib.methods.gbdt import GBDTClassifier
    from evenhand.fairlib.methods.method_base import Method
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
    from evenhand.fairlib.methods.preprocessed_gbdt import (
        ProjectedGBDTClassifier,
        ReweighedGBDTClassifier,
    )
    from evenhand.fairlib.methods.registry import METHODS, MethodSpec, load_model, method_class

__all__ = [
    "AdversarialClassifier",
    "BudroClassifier",
    "CatBoostTreesClassifier",
    "CLPClassifier",
    "CLPRegressor",
    "DADIClassifier",
    "ExponentiatedGradientClassifier",
    "FAIASClassifier",
    "GBDTClassifier",
    "load_model",
    "LightGBMTreesClassifier",
    "LogisticClassifier",
    "Method",
    "method_class",
    "METHODS",
    "MethodSpec",
    "NeuralNetworkClassifier",
    "NeuralNetworkRegressor",
    "ProjectedGBDTClassifier",
    "ReweighedGBDTClassifier",
    "ReweighedLogisticClassifier",
    "SklearnBoostingClassifier",
    "SklearnForestClassifier",
    "SenSeIClassifier",
    "SenSeIRegressor",
    "SenSRClassifier",
    "SenSRRegressor",
]

if not TYPE_CHECKING:
    _MODULES = {
        "AdversarialClassifier": "evenhand.fairlib.methods.comparators.adversarial",
        "BudroClassifier": "evenhand.fairlib.methods.budro",
        "CatBoostTreesClassifier": "evenhand.fairlib.methods.boosting_libraries",
        "CLPClassifier": "evenhand.fairlib.methods.networks.sensei",
        "CLPRegressor": "evenhand.fairlib.methods.networks.regression",
        "DADIClassifier": "evenhand.fairlib.methods.dadi.dadi_classifier",
        "ExponentiatedGradientClassifier": "evenhand.fairlib.methods.comparators.reduction",
        "FAIASClassifier": "evenhand.fairlib.methods.faias.faias_classifier",
        "GBDTClassifier": "evenhand.fairlib.methods.gbdt",
        "load_model": "evenhand.fairlib.methods.registry",
        "LightGBMTreesClassifier": "evenhand.fairlib.methods.boosting_libraries",
        "LogisticClassifier": "evenhand.fairlib.methods.comparators.logistic",
        "Method": "evenhand.fairlib.methods.method_base",
        "method_class": "evenhand.fairlib.methods.registry",
        "METHODS": "evenhand.fairlib.methods.registry",
        "MethodSpec": "evenhand.fairlib.methods.registry",
        "NeuralNetworkClassifier": "evenhand.fairlib.methods.networks.plain",
        "NeuralNetworkRegressor": "evenhand.fairlib.methods.networks.regression",
        "ProjectedGBDTClassifier": "evenhand.fairlib.methods.preprocessed_gbdt",
        "ReweighedGBDTClassifier": "evenhand.fairlib.methods.preprocessed_gbdt",
        "ReweighedLogisticClassifier": "evenhand.fairlib.methods.comparators.logistic",
        "SenSeIClassifier": "evenhand.fairlib.methods.networks.sensei",
        "SenSeIRegressor": "evenhand.fairlib.methods.networks.regression",
        "SenSRClassifier": "evenhand.fairlib.methods.networks.sensei",
        "SenSRRegressor": "evenhand.fairlib.methods.networks.regression",
        "SklearnBoostingClassifier": "evenhand.fairlib.methods.comparators.sklearn_estimators",
        "SklearnForestClassifier": "evenhand.fairlib.methods.comparators.sklearn_estimators",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
