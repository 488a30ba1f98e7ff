"""The methods by name; a method's own module is imported only when it is used."""

from __future__ import annotations

import importlib
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

from evenhand.fairlib.methods.base import MODEL_FILE, Method

__all__ = ["METHODS", "MethodSpec", "installed", "load_model", "method_class", "needed_extra"]

DISTRIBUTION = "evenhand"


@dataclass(frozen=True)
class MethodSpec:
    """
    One method, as jobs and tables of methods see it.

    Parameters
    ----------
    name : str
        What a job writes.
    module, class_name : str
        Where its estimator lives.
    summary : str
    tasks : tuple of str
        Kinds of label it can predict.
    needs_metric : bool
        Takes the fair metric (constructor argument ``metric``).
    needs_groups : bool
        Takes ``sensitive_features`` at ``fit``; every one must have finitely many groups.
    needs_counterfactuals : bool
        Takes ``counterfactuals`` at ``fit``: changed copies of the training rows.
    resumable : bool
        Takes ``checkpoint`` at ``fit``: a killed training goes on where it was.
    needs_feature_groups : bool
        Takes ``feature_groups`` at ``fit``: matrix columns by table column.
    asks : bool
        Asks people for features one by one.
    selects : bool
        Has ``selection_probabilities``: how likely each feature is used.
    differentiable : bool
        Is a network, so that a certificate of invariance can be had.
    extra : str or None
        Optional extra of our distribution without which ``fit`` cannot work.
    requires : tuple of str
        Top-level modules that the extra brings.
    """

    name: str
    module: str
    class_name: str
    summary: str
    tasks: tuple[str, ...] = ("binary",)
    needs_metric: bool = False
    needs_groups: bool = False
    needs_counterfactuals: bool = False
    resumable: bool = False
    needs_feature_groups: bool = False
    asks: bool = False
    selects: bool = False
    differentiable: bool = False
    extra: str | None = None
    requires: tuple[str, ...] = ()

    @property
    def install_command(self) -> str | None:
        """What installs the method's extra; none if it needs none."""
        return None if self.extra is None else f"pip install '{DISTRIBUTION}[{self.extra}]'"


METHODS: dict[str, MethodSpec] = {
    spec.name: spec
    for spec in (
        MethodSpec(
            "gbdt", "evenhand.fairlib.methods.gbdt", "GBDTClassifier", "gradient boosted trees, no mitigation"
        ),
        MethodSpec(
            "nn",
            "evenhand.fairlib.methods.networks.plain",
            "NeuralNetworkClassifier",
            "one hidden layer, balanced mini-batches, no mitigation",
            tasks=("binary", "multiclass"),
            resumable=True,
            differentiable=True,
        ),
        MethodSpec(
            "sensei",
            "evenhand.fairlib.methods.networks.sensei",
            "SenSeIClassifier",
            "network made invariant on sensitive sets, with one knob against accuracy (SenSeI)",
            tasks=("binary", "multiclass"),
            needs_metric=True,
            resumable=True,
            differentiable=True,
        ),
        MethodSpec(
            "sensr",
            "evenhand.fairlib.methods.networks.sensr",
            "SenSRClassifier",
            "network trained on the worst case within a fair-metric budget (SenSR)",
            tasks=("binary", "multiclass"),
            needs_metric=True,
            resumable=True,
            differentiable=True,
        ),
        MethodSpec(
            "clp",
            "evenhand.fairlib.methods.networks.clp",
            "CLPClassifier",
            "network whose logits are paired with those of the job's counterfactuals (CLP)",
            tasks=("binary", "multiclass"),
            needs_counterfactuals=True,
            resumable=True,
            differentiable=True,
        ),
        MethodSpec(
            "project",
            "evenhand.fairlib.methods.projection",
            "ProjectedGBDTClassifier",
            "project the sensitive subspace out, then gradient boosted trees",
            needs_metric=True,
        ),
        MethodSpec(
            "reweigh",
            "evenhand.fairlib.methods.reweighing",
            "ReweighedGBDTClassifier",
            "Kamiran-Calders weights, then gradient boosted trees",
            needs_groups=True,
        ),
        MethodSpec(
            "budro",
            "evenhand.fairlib.methods.budro",
            "BudroClassifier",
            "gradient boosting on the worst-case distribution within a fair-metric budget (BuDRO)",
            tasks=("binary", "multiclass"),
            needs_metric=True,
            resumable=True,
        ),
        MethodSpec(
            "dadi",
            "evenhand.fairlib.methods.dadi.classifier",
            "DADIClassifier",
            "agent that asks each person only for features that an adversary cannot use (DADI)",
            needs_groups=True,
            needs_feature_groups=True,
            asks=True,
            resumable=True,
        ),
        MethodSpec(
            "faias",
            "evenhand.fairlib.methods.faias.classifier",
            "FAIASClassifier",
            "network trained against a selector of features that tell the sensitive one (FAIAS)",
            tasks=("binary", "multiclass"),
            needs_groups=True,
            needs_feature_groups=True,
            selects=True,
            resumable=True,
        ),
        MethodSpec(
            "logistic",
            "evenhand.fairlib.methods.comparators.logistic",
            "LogisticClassifier",
            "logistic regression, no mitigation",
        ),
        MethodSpec(
            "reweigh-logistic",
            "evenhand.fairlib.methods.comparators.reweighing",
            "ReweighedLogisticClassifier",
            "Kamiran-Calders weights, then logistic regression and a chosen threshold",
            needs_groups=True,
        ),
        MethodSpec(
            "disparate-impact-remover",
            "evenhand.fairlib.methods.comparators.repair",
            "RepairedLogisticClassifier",
            "features repaired until two groups have them alike, then logistic regression",
            needs_groups=True,
            needs_feature_groups=True,
            extra="comparators",
            requires=("aif360", "BlackBoxAuditing"),
        ),
        MethodSpec(
            "calibrated-equalized-odds",
            "evenhand.fairlib.methods.comparators.calibration",
            "CalibratedOddsClassifier",
            "logistic regression, scores of the better-served of two groups mixed with its base rate",
            needs_groups=True,
            needs_feature_groups=True,
            extra="comparators",
            requires=("aif360",),
        ),
        MethodSpec(
            "adversarial-debiasing",
            "evenhand.fairlib.methods.comparators.adversarial",
            "AdversarialClassifier",
            "network trained against an adversary that guesses the group from its output",
            needs_groups=True,
            extra="comparators",
            requires=("fairlearn",),
        ),
        MethodSpec(
            "threshold-optimizer",
            "evenhand.fairlib.methods.comparators.thresholds",
            "GroupThresholdsClassifier",
            "logistic regression with thresholds per group that equalise a rate",
            needs_groups=True,
            needs_feature_groups=True,
            extra="comparators",
            requires=("fairlearn",),
        ),
        MethodSpec(
            "exponentiated-gradient",
            "evenhand.fairlib.methods.comparators.reduction",
            "ExponentiatedGradientClassifier",
            "weighted vote of logistic regressions that meets a constraint on groups",
            needs_groups=True,
            extra="comparators",
            requires=("fairlearn",),
        ),
    )
}


def installed(spec: MethodSpec) -> bool:
    """Whether all modules that a method requires can be found; none is imported."""
    return all(_is_found(module) for module in spec.requires)


def needed_extra(spec: MethodSpec) -> str:
    """What to tell of a method that is not installed."""
    return f"method {spec.name} needs an optional extra: {spec.install_command}"


def _is_found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # a module that blocks it, or that was put in place without a spec
        return False


def method_class(name: str) -> type[Method]:
    """Estimator class of a method; KeyError for an unknown name."""
    spec = METHODS[name]
    cls: type[Method] = getattr(importlib.import_module(spec.module), spec.class_name)
    return cls


def load_model(folder: str | Path) -> Method:
    """
    Load any saved model.

    Raises
    ------
    ValueError
        The folder names a class that is no method of ours: only classes of this registry are ever
        instantiated, whatever the file says.
    """
    name = json.loads((Path(folder) / MODEL_FILE).read_text()).get("class")
    for spec in METHODS.values():
        if spec.class_name == name:
            return method_class(spec.name).load(folder)
    raise ValueError(f"{folder} names the class {name!r}, which is not a method of this version.")
