"""Every method, described once: classifiers and proxies by name, their modules imported only when
used.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenhand.fairlib.methods.method_base import Method
    from evenhand.fairlib.proxies.proxy_base import BalancingProxy

# Encoders of sentences by name; a job may also give the folder of one.
TFIDF = "tfidf"
MINILM = "minilm"
DISTRIBUTION = "evenhand"
MODEL_FILE = "model.json"
PROXY_FILE = "proxy.json"
# Learners whose model is an XGBoost booster; other libraries train some of them.
TREE_LEARNERS = ("gbdt", "lightgbm", "catboost")


@dataclass(frozen=True)
class MethodSpec:
    """One method, as jobs, lists, pages and docs see it."""

    name: str  # what a job writes
    module: str  # dotted name of the module of its estimator
    class_name: str
    summary: str  # what the trained model is: a noun phrase with its article
    source: str = ""  # paper or library that it is from
    # name of the method that is the same learner without mitigation, which may be this one; empty
    # for a proxy
    plain: str = ""
    # kinds of label that it can predict; ``("proxy",)`` for one that balances tables and predicts
    # none
    tasks: tuple[str, ...] = ("binary",)
    needs_metric: bool = False  # takes the fair metric (constructor argument ``metric``)
    # takes ``sensitive_features`` at ``fit``; every one must have finitely many groups
    needs_groups: bool = False
    # takes ``counterfactuals`` at ``fit``: changed copies of the training rows
    needs_counterfactuals: bool = False
    # constructor argument with which, unless it is 0, ``fit`` needs ``counterfactuals`` too
    pairs_by: str | None = None
    resumable: bool = False  # takes ``checkpoint`` at ``fit``: a killed training resumes from it
    # takes ``feature_groups`` at ``fit``: matrix columns by table column
    needs_feature_groups: bool = False
    asks: bool = False  # asks people for features one by one
    selects: bool = False  # has ``selection_probabilities``: how likely each feature is used
    # is the learner without mitigation on rows reweighed by group and label, and nothing else
    reweighs: bool = False
    # is a network, so that a certificate of invariance can be computed
    differentiable: bool = False
    # is a linear model, whose coefficients give the contributions of columns
    linear: bool = False
    extra: str | None = None  # optional extra of our distribution that ``fit`` needs
    requires: tuple[str, ...] = ()  # top-level modules that the extra installs
    loads_with: tuple[str, ...] = ()  # packages that a published model needs in addition
    # constructor arguments that the name stands for; a job cannot set them
    fixed: Mapping[str, Any] = field(default_factory=dict)
    # constructor arguments that say how strong the mitigation is. A job that gives none of them
    # gets as much of the first one's default as the table allows.
    strength: tuple[str, ...] = ()
    # Peak memory of a training, as multiples of the encoded training rows (float32). Measured for
    # gbdt, nn, sensei, sensr, clp and budro.
    matrices: float = 5.0  # with all rows in memory
    mapped: float | None = None  # with the rows in a mapped file; None if it needs them in memory
    row_bytes: float = 0.0  # further bytes a training row
    # BuDRO's lists of nearest people: most training rows that have them by default, and the number
    # of people in a list
    lists: tuple[int, int] = (0, 0)

    @property
    def has_trees(self) -> bool:
        """Whether its model is gradient-boosted trees."""
        return self.plain in TREE_LEARNERS

    @property
    def paged(self) -> bool:
        """Whether the binned rows of its trees may be in files too."""
        return self.mapped is not None and self.has_trees

    @property
    def provable(self) -> bool:
        """Whether the change of outputs under comparable treatment can be bounded."""
        return self.differentiable or self.has_trees

    @property
    def gives_reasons(self) -> bool:
        """Whether the contributions of columns to a prediction are known."""
        return self.provable or self.linear

    @property
    def install_command(self) -> str | None:
        """Command that installs the method's extra; None if it needs none."""
        return None if self.extra is None else f"pip install '{DISTRIBUTION}[{self.extra}]'"

    def pairs_copies(self, arguments: Mapping[str, Any]) -> bool:
        """Whether the method trains on counterfactual copies.

        Parameters
        ----------
        arguments : mapping of str to value
            Constructor arguments.

        Returns
        -------
        bool
        """
        return self.needs_counterfactuals or bool(self.pairs_by and arguments.get(self.pairs_by))

    def lacks_strength(self, arguments: Mapping[str, Any]) -> bool:
        """Whether the method's mitigation has a strength and the arguments give none.

        Parameters
        ----------
        arguments : mapping of str to value
            Constructor arguments.

        Returns
        -------
        bool
        """
        return bool(self.strength) and not any(name in arguments for name in self.strength)


# kinds of label of a method that predicts two classes or more
_ANY_NUMBER = ("binary", "multiclass")
_METHODS = "evenhand.fairlib.methods"
_PROXIES = "evenhand.fairlib.proxies"

METHODS: dict[str, MethodSpec] = {
    spec.name: spec
    for spec in (
        MethodSpec(
            name="gbdt",
            module=f"{_METHODS}.gbdt",
            class_name="GBDTClassifier",
            summary="gradient-boosted trees without mitigation",
            source="XGBoost",
            plain="gbdt",
            tasks=_ANY_NUMBER,
            matrices=3.0,
            mapped=0.75,
        ),
        MethodSpec(
            name="nn",
            module=f"{_METHODS}.networks.plain",
            class_name="NeuralNetworkClassifier",
            summary="a neural network without mitigation",
            source="PyTorch",
            plain="nn",
            tasks=_ANY_NUMBER,
            resumable=True,
            differentiable=True,
            matrices=3.0,
            mapped=1.0,
        ),
        MethodSpec(
            name="sensei",
            module=f"{_METHODS}.networks.sensei",
            class_name="SenSeIClassifier",
            summary=(
                "a neural network regularised so that comparable people get the same output "
                "(SenSeI)"
            ),
            source="Yurochkin and Sun, ICLR 2021",
            plain="nn",
            tasks=_ANY_NUMBER,
            needs_metric=True,
            resumable=True,
            differentiable=True,
            strength=("rho",),
            pairs_by="pair_weight",
            matrices=7.0,
        ),
        MethodSpec(
            name="sensr",
            module=f"{_METHODS}.networks.sensei",
            class_name="SenSRClassifier",
            summary=(
                "a neural network trained on the worst case within a fair-distance budget (SenSR)"
            ),
            source="Yurochkin, Bower and Sun, ICLR 2020",
            plain="nn",
            tasks=_ANY_NUMBER,
            needs_metric=True,
            resumable=True,
            differentiable=True,
            strength=("budget_share", "perturbation_budget"),
            matrices=7.0,
        ),
        MethodSpec(
            name="clp",
            module=f"{_METHODS}.networks.sensei",
            class_name="CLPClassifier",
            summary=(
                "a neural network whose logits are paired with those of counterfactual copies (CLP)"
            ),
            source="Garg et al., AIES 2019",
            plain="nn",
            tasks=_ANY_NUMBER,
            needs_counterfactuals=True,
            resumable=True,
            differentiable=True,
            strength=("rho",),
            matrices=4.0,
        ),
        MethodSpec(
            name="project",
            module=f"{_METHODS}.preprocessed_gbdt",
            class_name="ProjectedGBDTClassifier",
            summary="gradient-boosted trees on features with the sensitive subspace projected out",
            source="Yurochkin, Bower and Sun, ICLR 2020",
            plain="gbdt",
            tasks=_ANY_NUMBER,
            needs_metric=True,
        ),
        MethodSpec(
            name="reweigh",
            module=f"{_METHODS}.preprocessed_gbdt",
            class_name="ReweighedGBDTClassifier",
            summary="gradient-boosted trees on rows reweighed by group and label",
            source="Kamiran and Calders, 2012",
            plain="gbdt",
            tasks=_ANY_NUMBER,
            needs_groups=True,
            reweighs=True,
            matrices=3.0,
            mapped=0.75,
        ),
        MethodSpec(
            name="budro",
            module=f"{_METHODS}.budro",
            class_name="BudroClassifier",
            summary=(
                "gradient-boosted trees trained on the worst case within a fair-distance budget "
                "(BuDRO)"
            ),
            source="Vargo et al., ICLR 2021",
            plain="gbdt",
            tasks=_ANY_NUMBER,
            needs_metric=True,
            resumable=True,
            strength=("budget_share", "perturbation_budget"),
            matrices=7.0,
            row_bytes=400.0,
            lists=(100_000, 250),
        ),
        MethodSpec(
            name="dadi",
            module=f"{_METHODS}.dadi.dadi_classifier",
            class_name="DADIClassifier",
            summary=(
                "an agent that asks each person only for features that do not reveal the sensitive "
                "group (DADI)"
            ),
            source="Bakker et al., DADI, 2020",
            plain="nn",
            needs_groups=True,
            needs_feature_groups=True,
            asks=True,
            resumable=True,
        ),
        MethodSpec(
            name="faias",
            module=f"{_METHODS}.faias.faias_classifier",
            class_name="FAIASClassifier",
            summary="a neural network trained against an adversarial selector of features (FAIAS)",
            source="FAIAS, section 6.4",
            plain="nn",
            tasks=_ANY_NUMBER,
            needs_groups=True,
            needs_feature_groups=True,
            selects=True,
            resumable=True,
        ),
        MethodSpec(
            name="logistic",
            module=f"{_METHODS}.comparators.logistic",
            class_name="LogisticClassifier",
            summary="a logistic regression without mitigation",
            source="scikit-learn",
            plain="logistic",
            linear=True,
        ),
        MethodSpec(
            name="reweigh-logistic",
            module=f"{_METHODS}.comparators.logistic",
            class_name="ReweighedLogisticClassifier",
            summary=(
                "a logistic regression on rows reweighed by group and label, with a chosen "
                "threshold"
            ),
            source="Kamiran and Calders, 2012",
            plain="logistic",
            linear=True,
            needs_groups=True,
            reweighs=True,
        ),
        MethodSpec(
            name="sklearn:HistGradientBoostingClassifier",
            module=f"{_METHODS}.comparators.sklearn_estimators",
            class_name="SklearnBoostingClassifier",
            summary="gradient-boosted trees of scikit-learn without mitigation",
            source="scikit-learn",
            plain="sklearn:HistGradientBoostingClassifier",
            extra="estimators",
            requires=("skops",),
            loads_with=("skops",),
        ),
        MethodSpec(
            name="sklearn:RandomForestClassifier",
            module=f"{_METHODS}.comparators.sklearn_estimators",
            class_name="SklearnForestClassifier",
            summary="a random forest of scikit-learn without mitigation",
            source="scikit-learn",
            plain="sklearn:RandomForestClassifier",
            extra="estimators",
            requires=("skops",),
            loads_with=("skops",),
        ),
        MethodSpec(
            name="lightgbm",
            module=f"{_METHODS}.boosting_libraries",
            class_name="LightGBMTreesClassifier",
            summary="gradient-boosted trees of LightGBM without mitigation",
            source="LightGBM",
            plain="lightgbm",
            extra="lightgbm",
            requires=("lightgbm",),
        ),
        MethodSpec(
            name="catboost",
            module=f"{_METHODS}.boosting_libraries",
            class_name="CatBoostTreesClassifier",
            summary="gradient-boosted trees of CatBoost without mitigation",
            source="CatBoost",
            plain="catboost",
            extra="catboost",
            requires=("catboost",),
        ),
        MethodSpec(
            name="adversarial-debiasing",
            module=f"{_METHODS}.comparators.adversarial",
            class_name="AdversarialClassifier",
            summary=(
                "a neural network trained against an adversary that predicts the group from its "
                "output"
            ),
            source="Zhang et al., AIES 2018; Fairlearn",
            plain="nn",
            needs_groups=True,
            extra="comparators",
            requires=("fairlearn",),
        ),
        MethodSpec(
            name="exponentiated-gradient",
            module=f"{_METHODS}.comparators.reduction",
            class_name="ExponentiatedGradientClassifier",
            summary="a weighted vote of logistic regressions that meets a constraint on groups",
            source="Agarwal et al., ICML 2018; Fairlearn",
            plain="logistic",
            needs_groups=True,
            extra="comparators",
            requires=("fairlearn",),
        ),
    )
}
"""Classifiers, by the name that a job writes."""


def _proxy(name: str, summary: str, module: str, class_name: str, **fixed: Any) -> MethodSpec:
    """Entry of a balancing proxy."""
    return MethodSpec(
        name=name,
        module=f"{_PROXIES}.{module}",
        class_name=class_name,
        summary=summary,
        source="Deng et al., 2023",
        tasks=("proxy",),
        fixed=fixed,
    )


_TREE = ("tree", "ProxyTree")
_PREDICTED = ("predicted", "PredictedGroupProxy")

PROXIES: dict[str, MethodSpec] = {
    spec.name: spec
    for spec in (
        _proxy(
            "proxy",
            "a proxy tree whose leaves stay within a disclosivity limit",
            *_TREE,
            relaxed=False,
        ),
        _proxy(
            "relaxed-proxy", "a proxy tree with unconstrained mixture weights", *_TREE, relaxed=True
        ),
        _proxy(
            "qp-tree",
            "a decision tree that predicts the group, sampled by a quadratic programme",
            *_PREDICTED,
            model="tree",
            sampling="program",
        ),
        _proxy(
            "qp-regression",
            "a logistic regression that predicts the group, sampled by a quadratic programme",
            *_PREDICTED,
            model="regression",
            sampling="program",
        ),
        _proxy(
            "naive-tree",
            "a decision tree that predicts the group, sampled equally",
            *_PREDICTED,
            model="tree",
            sampling="equal",
        ),
        _proxy(
            "naive-regression",
            "a logistic regression that predicts the group, sampled equally",
            *_PREDICTED,
            model="regression",
            sampling="equal",
        ),
    )
}
"""Balancing proxies, by the name that a job writes."""


def spec_of(name: str) -> MethodSpec:
    """Give the entry of a classifier or proxy.

    Parameters
    ----------
    name : str
        As a job writes it.

    Returns
    -------
    MethodSpec

    Raises
    ------
    KeyError
        For an unknown name.
    """
    if name in METHODS:
        return METHODS[name]
    return PROXIES[name]


def installed(spec: MethodSpec) -> bool:
    """Whether all modules that a method requires can be found; none is imported.

    Parameters
    ----------
    spec : MethodSpec

    Returns
    -------
    bool
    """
    try:
        return all(importlib.util.find_spec(module) is not None for module in spec.requires)
    except (ImportError, ValueError):  # a module that blocks the lookup, or one without a spec
        return False


def needed_extra(spec: MethodSpec) -> str:
    """Message about a method that is not installed.

    Parameters
    ----------
    spec : MethodSpec

    Returns
    -------
    str
        With the command that installs it.
    """
    return f"method {spec.name} needs an optional extra: {spec.install_command}"


def method_class(name: str) -> type[Method]:
    """Estimator class of a classifier or proxy.

    Parameters
    ----------
    name : str
        As a job writes it.

    Returns
    -------
    type

    Raises
    ------
    KeyError
        For an unknown name.
    """
    spec = spec_of(name)
    return getattr(importlib.import_module(spec.module), spec.class_name)


def proxy_class(name: str) -> type[BalancingProxy]:
    """Estimator class of a proxy.

    Parameters
    ----------
    name : str
        As a job writes it.

    Returns
    -------
    type

    Raises
    ------
    KeyError
        For an unknown name.
    """
    spec = PROXIES[name]
    return getattr(importlib.import_module(spec.module), spec.class_name)


def spec_of_class(cls: type) -> MethodSpec:
    """Entry of a classifier's class, or of the nearest base that has one.

    Parameters
    ----------
    cls : type

    Returns
    -------
    MethodSpec

    Raises
    ------
    KeyError
        If neither the class nor a base is a method of the registry.
    """
    entries = {spec.class_name: spec for spec in METHODS.values()}
    for base in cls.__mro__:
        if base.__name__ in entries:
            return entries[base.__name__]
    raise KeyError(cls.__name__)


def load_model(folder: str | Path) -> Any:
    """Load any saved classifier, with its calibration and decision rule if it has them.

    Only classes of this registry are ever instantiated, whatever the file says.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    Method or DecidedModel

    Raises
    ------
    ValueError
        If the folder names a class that is no method of ours.
    """
    # imported by name: a step's key has the code of the modules that it imports, and most steps
    # that read this registry make no decisions
    decided = importlib.import_module("evenhand.fairlib.methods.decided")
    name = json.loads((Path(folder) / MODEL_FILE).read_text()).get("class")
    for spec in METHODS.values():
        if spec.class_name == name:
            model = method_class(spec.name).load(folder)
            if (Path(folder) / decided.DECISION_FILE).is_file():
                return decided.DecidedModel.wrap(model, folder)
            return model
    raise ValueError(f"{folder} names the class {name!r}, which is not a method of this version.")


def load_proxy(folder: str | Path) -> BalancingProxy:
    """Load any saved proxy.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    BalancingProxy

    Raises
    ------
    ValueError
        If the folder holds no proxy, or one of an unknown class.
    """
    try:
        name = json.loads((Path(folder) / PROXY_FILE).read_text())["class"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder} holds no proxy.") from None
    for spec in PROXIES.values():
        if spec.class_name == name:
            return proxy_class(spec.name).load(folder)
    raise ValueError(f"{folder} holds a proxy of the unknown class {name!r}.")
