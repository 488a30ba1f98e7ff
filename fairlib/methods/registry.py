"""The methods by name; a method's own module is imported only when it is used."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from pathlib import Path

from fairlib.methods.base import MODEL_FILE, Method

__all__ = ["METHODS", "MethodSpec", "load_model", "method_class"]


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
        Takes ``feature_groups`` at ``fit``: matrix columns by table column, which it asks for one by one.
    differentiable : bool
        Is a network, so that a certificate of invariance can be had.
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
    differentiable: bool = False


METHODS: dict[str, MethodSpec] = {
    spec.name: spec
    for spec in (
        MethodSpec("gbdt", "fairlib.methods.gbdt", "GBDTClassifier", "gradient boosted trees, no mitigation"),
        MethodSpec(
            "nn",
            "fairlib.methods.networks.plain",
            "NeuralNetworkClassifier",
            "one hidden layer, balanced mini-batches, no mitigation",
            tasks=("binary", "multiclass"),
            resumable=True,
            differentiable=True,
        ),
        MethodSpec(
            "sensei",
            "fairlib.methods.networks.sensei",
            "SenSeIClassifier",
            "network made invariant on sensitive sets, with one knob against accuracy (SenSeI)",
            tasks=("binary", "multiclass"),
            needs_metric=True,
            resumable=True,
            differentiable=True,
        ),
        MethodSpec(
            "sensr",
            "fairlib.methods.networks.sensr",
            "SenSRClassifier",
            "network trained on the worst case within a fair-metric budget (SenSR)",
            tasks=("binary", "multiclass"),
            needs_metric=True,
            resumable=True,
            differentiable=True,
        ),
        MethodSpec(
            "clp",
            "fairlib.methods.networks.clp",
            "CLPClassifier",
            "network whose logits are paired with those of the job's counterfactuals (CLP)",
            tasks=("binary", "multiclass"),
            needs_counterfactuals=True,
            resumable=True,
            differentiable=True,
        ),
        MethodSpec(
            "project",
            "fairlib.methods.projection",
            "ProjectedGBDTClassifier",
            "project the sensitive subspace out, then gradient boosted trees",
            needs_metric=True,
        ),
        MethodSpec(
            "reweigh",
            "fairlib.methods.reweighing",
            "ReweighedGBDTClassifier",
            "Kamiran-Calders weights, then gradient boosted trees",
            needs_groups=True,
        ),
        MethodSpec(
            "budro",
            "fairlib.methods.budro",
            "BudroClassifier",
            "gradient boosting on the worst-case distribution within a fair-metric budget (BuDRO)",
            tasks=("binary", "multiclass"),
            needs_metric=True,
            resumable=True,
        ),
        MethodSpec(
            "dadi",
            "fairlib.methods.dadi.classifier",
            "DADIClassifier",
            "agent that asks each person only for features that an adversary cannot use (DADI)",
            needs_groups=True,
            needs_feature_groups=True,
            resumable=True,
        ),
    )
}


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
