"""Individually fair models from tables of people: methods, fair metrics and audits.

The names below are the public interface. Each is imported from its module when it is first used, so
that ``import evenhand`` loads no numeric library.
"""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.distances.explore import EXPLORE
    from evenhand.fairlib.distances.face import FACE
    from evenhand.fairlib.distances.learned import LearnedMetric
    from evenhand.fairlib.distances.metric_kinds import load_metric
    from evenhand.fairlib.distances.sensitive_subspace import LearnedDirection, SensitiveSubspace
    from evenhand.fairlib.evaluation.group_audit import audit
    from evenhand.fairlib.evaluation.predictions import audit_predictions
    from evenhand.fairlib.evaluation.transport_adversary import transport_audit
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
    from evenhand.fairlib.methods.registry import load_model, load_proxy
    from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
    from evenhand.fairlib.proxies.predicted import PredictedGroupProxy
    from evenhand.fairlib.proxies.tree import ProxyTree
    from evenhand.fairlib.version import __version__

__all__ = [
    "AdversarialClassifier",
    "audit",
    "audit_predictions",
    "BudroClassifier",
    "CatBoostTreesClassifier",
    "CLPClassifier",
    "CLPRegressor",
    "ColumnSpec",
    "DADIClassifier",
    "EXPLORE",
    "ExponentiatedGradientClassifier",
    "FACE",
    "FAIASClassifier",
    "GBDTClassifier",
    "LearnedDirection",
    "LearnedMetric",
    "LightGBMTreesClassifier",
    "load_metric",
    "load_model",
    "load_proxy",
    "LogisticClassifier",
    "NeuralNetworkClassifier",
    "NeuralNetworkRegressor",
    "PredictedGroupProxy",
    "ProjectedGBDTClassifier",
    "ProxyTree",
    "ReweighedGBDTClassifier",
    "ReweighedLogisticClassifier",
    "SklearnBoostingClassifier",
    "SklearnForestClassifier",
    "SenSeIClassifier",
    "SenSeIRegressor",
    "SensitiveSubspace",
    "SenSRClassifier",
    "SenSRRegressor",
    "TableEncoder",
    "transport_audit",
    "__version__",
]

if not TYPE_CHECKING:
    _MODULES = {
        "AdversarialClassifier": "evenhand.fairlib.methods.comparators.adversarial",
        "audit": "evenhand.fairlib.evaluation.group_audit",
        "audit_predictions": "evenhand.fairlib.evaluation.predictions",
        "BudroClassifier": "evenhand.fairlib.methods.budro",
        "CatBoostTreesClassifier": "evenhand.fairlib.methods.boosting_libraries",
        "CLPClassifier": "evenhand.fairlib.methods.networks.sensei",
        "CLPRegressor": "evenhand.fairlib.methods.networks.regression",
        "ColumnSpec": "evenhand.fairlib.preprocessing.encoder",
        "DADIClassifier": "evenhand.fairlib.methods.dadi.dadi_classifier",
        "EXPLORE": "evenhand.fairlib.distances.explore",
        "ExponentiatedGradientClassifier": "evenhand.fairlib.methods.comparators.reduction",
        "FACE": "evenhand.fairlib.distances.face",
        "FAIASClassifier": "evenhand.fairlib.methods.faias.faias_classifier",
        "GBDTClassifier": "evenhand.fairlib.methods.gbdt",
        "LearnedDirection": "evenhand.fairlib.distances.sensitive_subspace",
        "LearnedMetric": "evenhand.fairlib.distances.learned",
        "load_metric": "evenhand.fairlib.distances.metric_kinds",
        "load_model": "evenhand.fairlib.methods.registry",
        "load_proxy": "evenhand.fairlib.methods.registry",
        "LightGBMTreesClassifier": "evenhand.fairlib.methods.boosting_libraries",
        "LogisticClassifier": "evenhand.fairlib.methods.comparators.logistic",
        "NeuralNetworkClassifier": "evenhand.fairlib.methods.networks.plain",
        "NeuralNetworkRegressor": "evenhand.fairlib.methods.networks.regression",
        "PredictedGroupProxy": "evenhand.fairlib.proxies.predicted",
        "ProjectedGBDTClassifier": "evenhand.fairlib.methods.preprocessed_gbdt",
        "ProxyTree": "evenhand.fairlib.proxies.tree",
        "ReweighedGBDTClassifier": "evenhand.fairlib.methods.preprocessed_gbdt",
        "ReweighedLogisticClassifier": "evenhand.fairlib.methods.comparators.logistic",
        "SklearnBoostingClassifier": "evenhand.fairlib.methods.comparators.sklearn_estimators",
        "SklearnForestClassifier": "evenhand.fairlib.methods.comparators.sklearn_estimators",
        "SenSeIClassifier": "evenhand.fairlib.methods.networks.sensei",
        "SenSeIRegressor": "evenhand.fairlib.methods.networks.regression",
        "SensitiveSubspace": "evenhand.fairlib.distances.sensitive_subspace",
        "SenSRClassifier": "evenhand.fairlib.methods.networks.sensei",
        "SenSRRegressor": "evenhand.fairlib.methods.networks.regression",
        "TableEncoder": "evenhand.fairlib.preprocessing.encoder",
        "transport_audit": "evenhand.fairlib.evaluation.transport_adversary",
        "__version__": "evenhand.fairlib.version",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
