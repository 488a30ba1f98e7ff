"""Every parameter of every estimator, proxy and fair metric is checked in our own words.

The classes are found by their base, so that a new one is tested without an entry here.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from evenhand import fairlib
from evenhand.fairlib.distances.explore import EXPLORE
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.fairlib.parameters import ParameterChecks
from evenhand.fairlib.proxies.proxy_base import BalancingProxy
from evenhand.fairlib.proxies.tree import ProxyTree

# Numbers that may be negative, with a number that each must refuse.
ANY_SIGN = {"random_state": 0.5, "n_jobs": 0.5, "margin": np.inf, "tolerance": np.inf}
# Values of a right type that their parameter must refuse, where it takes no number.
OUT_OF_RANGE: dict[str, Any] = {
    "attributes": [3],
    "attribute": 3,
    "indicators": [-1],
    "learned": ["sex"],
    "costs": [("x0", 1.0)],
    "target": ["sex"],
    "neighbours": "all",
    "metric": SensitiveSubspace,
    "network": dict,
}


def _subclasses(base: type) -> Iterator[type]:
    """All subclasses of a class, direct and indirect."""
    for child in base.__subclasses__():
        yield child
        yield from _subclasses(child)


def _is_abstract(estimator: type) -> bool:
    """Whether a class has abstract methods; scikit-learn's base has no such metaclass."""
    members = inspect.getmembers(estimator)
    return any(getattr(member, "__isabstractmethod__", False) for _, member in members)


def public_estimators() -> list[type[Any]]:
    """All classes of fairlib with parameters that can be fitted."""
    for module in pkgutil.walk_packages(fairlib.__path__, fairlib.__name__ + "."):
        importlib.import_module(module.name)
    estimators = set()
    for estimator in _subclasses(ParameterChecks):
        is_ours = estimator.__module__.startswith(fairlib.__name__)
        is_public = not estimator.__name__.startswith("_")
        is_base = _is_abstract(estimator) or not hasattr(estimator, "fit")
        is_estimator = issubclass(estimator, BaseEstimator)
        if is_ours and is_public and is_estimator and not is_base and estimator is not Metric:
            estimators.add(estimator)
    return sorted(estimators, key=lambda estimator: estimator.__name__)


ESTIMATORS = public_estimators()


class NoParameter:
    """An object that is no value of any parameter."""

    def __repr__(self) -> str:
        return "NoParameter()"


def _refused(name: str, annotation: str) -> list[Any]:
    """Values that a parameter must refuse: of a wrong type, then out of its range."""
    values: list[Any] = [NoParameter()]
    if name in OUT_OF_RANGE:
        values.append(OUT_OF_RANGE[name])
    if "Sequence[int]" in annotation:
        values += ["3", [-1]]
    elif "int" in annotation or "float" in annotation:
        values += ["3", float("nan"), ANY_SIGN.get(name, -1)]
    elif "bool" in annotation:
        values += ["yes", 2]
    elif annotation == "str" or "Literal" in annotation or annotation.isidentifier():
        values += ["no-such-option"]
    return values


def wrong_values() -> Iterator[Any]:
    """An estimator, the name of a parameter, and a value that it must refuse."""
    for estimator in ESTIMATORS:
        for field in fields(estimator):
            if not field.init:
                continue
            annotation = field.type if isinstance(field.type, str) else str(field.type)
            annotation = annotation.removeprefix("<class '").removesuffix("'>")
            if field.name in OUT_OF_RANGE or annotation in ("Any", "typing.Any", "Metric | None"):
                annotation = ""
            for value in _refused(field.name, annotation):
                name = f"{estimator.__name__}-{field.name}-{value}"
                yield pytest.param(estimator, field.name, value, id=name)


def fit(model: Any) -> None:
    """Fit any estimator on a small table."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = np.arange(40) % 2
    sex = np.where(np.arange(40) % 4 < 2, "f", "m")
    if isinstance(model, FACE | EXPLORE):
        model.fit(X, groups=np.arange(40) // 2)
        return
    if isinstance(model, BalancingProxy | Metric):
        model.fit(X, sensitive_features={"sex": sex})
        return
    taken = inspect.signature(model.fit).parameters
    given: dict[str, Any] = {"sensitive_features": {"x0": sex}, "counterfactuals": [X + 1.0]}
    model.fit(X, y, **{name: value for name, value in given.items() if name in taken})


def test_all_families_are_tested() -> None:
    methods = {method_class(name) for name in METHODS}
    assert methods < set(ESTIMATORS)
    names = {estimator.__name__ for estimator in ESTIMATORS}
    others = {"SensitiveSubspace", "FACE", "EXPLORE", "ProxyTree", "PredictedGroupProxy"}
    regressors = {name for name in names if name.endswith("Regressor")}
    assert others < names
    assert len(regressors) >= 4


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_has_a_field(estimator: type[Any]) -> None:
    """`wrong_values` reads the fields: no parameter may come from elsewhere."""
    assert {field.name for field in fields(estimator) if field.init} == set(
        inspect.signature(estimator).parameters
    )


@pytest.mark.parametrize(("estimator", "name", "value"), list(wrong_values()))
def test_a_wrong_parameter_is_named(estimator: type[Any], name: str, value: Any) -> None:
    message = rf"^{name} must .*, got {re.escape(repr(value))}\.$"
    with pytest.raises(ValueError, match=message):
        fit(estimator(**{name: value}))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_defaults_pass(estimator: type[Any]) -> None:
    model = estimator(n_directions=1) if estimator is FACE else estimator()
    model._check_parameters()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_negative_and_large_seeds_raise_nothing_else(estimator: type[Any]) -> None:
    """A seed that a library cannot take is refused in our words, or it works."""
    if "random_state" not in inspect.signature(estimator).parameters:
        return
    for seed in (-1, 2**40):
        model = estimator(random_state=seed)
        for name in ("n_steps", "n_epochs", "n_iterations", "pretrain_iterations"):
            if name in model.get_params():
                model.set_params(**{name: 1})
        refusal = ""
        try:
            fit(model)
        except ValueError as error:
            refusal = str(error)
        assert not refusal or refusal.startswith("random_state must")


def test_what_is_expected_is_said() -> None:
    X, y = np.zeros((4, 1)), np.array([0, 1, 0, 1])
    expected = "eta must be finite and not negative, got -1."
    with pytest.raises(ValueError, match=f"^{expected}$"):
        method_class("budro")(eta=-1).fit(X, y)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"sex": 3}, "target must map the groups of 'sex' to their shares, got 3."),
        ({"sex": {"f": "1"}}, "the target share of 'f' must be a number, got '1'."),
        ({"sex": {"f": 2.0, "m": -1.0}}, "the target shares of 'sex' must be at least 0"),
    ],
)
def test_target_shares_are_checked(target: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        fit(ProxyTree(target=target))


def test_a_column_that_x_lacks_is_named() -> None:
    with pytest.raises(ValueError, match=r"columns of X, 0 to 2, got \[7\]\.$"):
        fit(SensitiveSubspace(indicators=[7]))
