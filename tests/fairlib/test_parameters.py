"""Every parameter of every estimator is checked in our own words before a library sees it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.methods.method_base import Method
from evenhand.fairlib.methods.networks.regression import (
    CLPRegressor,
    NeuralNetworkRegressor,
    SenSeIRegressor,
    SenSRRegressor,
)
from evenhand.fairlib.methods.registry import METHODS, method_class

REGRESSORS = (NeuralNetworkRegressor, SenSeIRegressor, SenSRRegressor, CLPRegressor)
ESTIMATORS: tuple[type[Method], ...] = (*map(method_class, METHODS), *REGRESSORS)
# numbers that may be negative
ANY_SIGN = {"random_state", "n_jobs", "margin", "tolerance"}


def wrong_values() -> Iterator[Any]:
    """An estimator, the name of a parameter, and a value that it must refuse."""
    for estimator in ESTIMATORS:
        for name, default in estimator().get_params(deep=False).items():
            values: list[Any] = [NoParameter()]
            is_number = isinstance(default, int | float) and not isinstance(default, bool)
            if is_number and name not in ANY_SIGN:
                values += [-1, float("nan"), "3"]
            for value in values:
                yield pytest.param(
                    estimator, name, value, id=f"{estimator.__name__}-{name}-{value}"
                )


class NoParameter:
    """An object that is no value of any parameter."""

    def __repr__(self) -> str:
        return "NoParameter()"


@pytest.mark.parametrize(("estimator", "name", "value"), list(wrong_values()))
def test_a_wrong_parameter_is_named(estimator: type[Method], name: str, value: Any) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = np.arange(20) % 2
    model = estimator(**{name: value})
    message = rf"^{name} must .*, got {re.escape(repr(value))}\.$"
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_defaults_pass(estimator: type[Method]) -> None:
    estimator()._check_parameters()


def test_what_is_expected_is_said() -> None:
    X, y = np.zeros((4, 1)), np.array([0, 1, 0, 1])
    expected = "eta must be finite and not negative, got -1."
    with pytest.raises(ValueError, match=f"^{expected}$"):
        method_class("budro")(eta=-1).fit(X, y)
