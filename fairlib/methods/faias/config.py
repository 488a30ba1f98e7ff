"""The parameters of a training, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any

from evenhand.fairlib.methods.faias.selector import ESTIMATORS, Estimator

__all__ = ["Plan", "checked_plan"]

# Defaults of the selector: one step of a network moves all probabilities of everybody.
VECTOR_RATE, NETWORK_RATE = 1e-2, 1e-3


@dataclass(frozen=True)
class Plan:
    """What the game itself needs of the estimator's parameters, which has their meaning."""

    sensitivity_weight: float
    gradient_estimator: Estimator
    batch_size: int
    learning_rate: float
    selector_learning_rate: float
    weight_decay: float
    averaging: float


def checked_plan(given: Any) -> Plan:
    """
    Check all parameters of an estimator.

    Raises
    ------
    ValueError
        One is out of its range.
    """
    for name in ("n_epochs", "batch_size", "n_masks"):
        value = getattr(given, name)
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be at least 1, a whole number, got {value!r}.")
    if given.patience is not None and (not isinstance(given.patience, int) or given.patience < 1):
        raise ValueError(f"patience must be at least 1 or None, got {given.patience!r}.")
    rate = given.selector_learning_rate
    if rate is None:
        rate = NETWORK_RATE if given.data_dependent else VECTOR_RATE
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"selector_learning_rate must be positive or None, got {rate!r}.")
    if not (math.isfinite(given.learning_rate) and given.learning_rate > 0):
        raise ValueError(f"learning_rate must be positive, got {given.learning_rate!r}.")
    for name in ("sensitivity_weight", "weight_decay"):
        value = getattr(given, name)
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be finite and not negative, got {value!r}.")
    for name in ("hidden", "selector_hidden"):
        value = getattr(given, name)
        if any(not isinstance(units, Integral) or units < 1 for units in value):
            raise ValueError(f"{name} must list whole numbers of units, at least 1, got {value!r}.")
    if not 0 < given.initial_probability <= 1:
        raise ValueError(f"initial_probability must be in (0, 1], got {given.initial_probability!r}.")
    if not 0 <= given.class_balance <= 1:
        raise ValueError(f"class_balance must be in [0, 1], got {given.class_balance!r}.")
    for name in ("averaging", "validation_share"):
        value = getattr(given, name)
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be in [0, 1), got {value!r}.")
    if given.gradient_estimator not in ESTIMATORS:
        raise ValueError(
            f"gradient_estimator must be one of {', '.join(ESTIMATORS)}, got {given.gradient_estimator!r}."
        )
    values = {field.name: getattr(given, field.name) for field in fields(Plan)}
    return Plan(**values | {"selector_learning_rate": float(rate)})
