"""Search spaces: the parameters of a method, their defaults, and what a job restricts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from evenhand.fairlib.methods.registry import METHODS, installed, method_class
from evenhand.fairlib.tuning.space import (
    Choice,
    Real,
    Whole,
    restricted,
    rows_of,
    space_of,
    with_default,
)

# spaces


@pytest.mark.parametrize("name", [name for name, spec in METHODS.items() if installed(spec)])
def test_a_space_has_its_methods_parameters_and_defaults(name: str) -> None:
    cls = method_class(name)
    for key, dimension in space_of(cls).items():
        assert key in cls._get_param_names()
        assert dimension.holds(dimension.default)
    assert [row[0] for row in rows_of(space_of(cls))] == list(cls.space)


def test_a_method_that_has_parameters_to_tune_declares_them() -> None:
    assert all(method_class(name).space for name in METHODS if installed(METHODS[name]))


def test_a_default_outside_a_range_widens_it() -> None:
    assert with_default(Real(0.01, 0.3, log=True), 0.5) == Real(0.01, 0.5, True, 0.5)
    assert with_default(Whole(2, 8), 1) == Whole(1, 8, False, 1)
    assert with_default(Choice((1, 2)), 3) == Choice((1, 2, 3), 3)
    assert with_default(Real(0.0, 1.0, default=0.2), 5.0) == Real(0.0, 1.0, default=0.2)


def test_a_default_that_a_scale_cannot_have_is_its_middle() -> None:
    assert with_default(Real(0.01, 1.0, log=True), 0.0).default == pytest.approx(0.1)
    assert with_default(Real(0.0, 1.0), None).default == 0.5
    assert with_default(Whole(1, 4), None).default == 2


@pytest.mark.parametrize(
    ("dimension", "wanted", "default", "expected"),
    [
        (Real(0.01, 0.3, True, 0.05), 0.1, 0.05, Choice((0.1,), 0.1)),
        (Real(0.01, 0.3, True, 0.05), [0.02, 0.1], 0.05, Real(0.02, 0.1, True, 0.05)),
        (Real(0.01, 0.3, True, 0.05), [0.1, 0.4], 0.05, Real(0.1, 0.4, True, math.sqrt(0.04))),
        (Real(0.01, 0.3, True, 0.05), {"low": 0.0, "high": 1.0}, 0.05, Real(0.0, 1.0, False, 0.05)),
        (Real(0.01, 0.3, True, 0.05), [0.1, 0.2, 0.3], 0.05, Choice((0.1, 0.2, 0.3), 0.1)),
        (Choice((None, 2, 3), None), [2, 3], None, Choice((2, 3), 2)),
        (Choice(((50,), (100,)), (100,)), [[50], [100]], (100,), Choice(([50], [100]), [100])),
        (None, [10, 20], 15, Whole(10, 20, False, 15)),
        (Choice((None, 2, 3), None), {"low": 3, "high": 6}, None, Whole(3, 6, False, 4)),
        (Choice((0.1, 2), 2), {"low": 1, "high": 3}, 2, Real(1, 3, False, 2)),
        (None, [0.5, 0.9], 0.7, Real(0.5, 0.9, False, 0.7)),
        (None, [True, False], False, Choice((True, False), False)),
    ],
)
def test_a_job_restricts_and_widens(
    dimension: Any, wanted: Any, default: Any, expected: Any
) -> None:
    found = restricted(dimension, wanted, default)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("dimension", "wanted", "message"),
    [
        (Real(0.0, 1.0), [2.0, 1.0], "is empty"),
        (Real(0.1, 1.0, log=True), [0.0, 1.0], "begin above 0"),
        (Whole(1, 5), [0.5, 3], "whole ends"),
        (Real(0.0, 1.0), [], "list is empty"),
        (Real(0.0, 1.0), {"low": 0.0, "top": 1.0}, "has the keys"),
        (Real(0.1, 1.0), {"low": 0.1, "high": 1.0, "log": "false"}, "log is 'false', expected"),
        (Real(0.0, 1.0), {"low": 0.0, "high": math.inf}, "finite numbers"),
    ],
)
def test_an_impossible_range_is_refused(dimension: Any, wanted: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        restricted(dimension, wanted)
