"""Sizes and rates of a training: the classifier's parameters, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from evenhand.fairlib.methods.dadi._training import Knobs
from evenhand.fairlib.methods.dadi.parameters import NetworkShape
from evenhand.fairlib.methods.dadi.problem import Problem

__all__ = ["Plan", "make_plan"]

SHARES = ("gamma", "class_balance", "exploration_start", "exploration_end")
POSITIVE = ("learning_rate", "final_learning_rate", "value_scale", "value_weight")
COUNTS = ("memory_size", "processing_steps", "agents", "n_step", "target_every")
ITERATIONS = ("pretrain_iterations", "n_iterations")


@dataclass(frozen=True)
class Plan:
    """Sizes and rates; the parameters of :class:`DADIClassifier` under their names."""

    gamma: float
    hidden: tuple[int, int]
    memory_size: int
    processing_steps: int
    pretrain_iterations: int
    n_iterations: int
    agents: int
    n_step: int
    exploration_start: float
    exploration_end: float
    exploration_iterations: int
    target_every: int
    learning_rate: float
    final_learning_rate: float
    value_scale: float
    value_weight: float

    def shapes(self, problem: Problem) -> tuple[NetworkShape, NetworkShape]:
        """Of the predictor and of the adversary."""
        d = sum(len(columns) for columns in problem.layout.groups.values())
        outputs = int(problem.attribute.start.max()) + problem.attribute.classes
        predictor = NetworkShape(d, 2, problem.allowed.size + 1, self.hidden, self.memory_size)
        return predictor, replace(predictor, classes=outputs, actions=0)

    def knobs(self, problem: Problem) -> Knobs:
        """Numbers of the compiled training, each of one type: another type would be compiled anew."""
        return Knobs(
            float(self.gamma),
            float(self.value_scale),
            float(self.value_weight),
            float(self.learning_rate),
            float(self.final_learning_rate),
            float(self.exploration_start),
            float(self.exploration_end),
            int(self.exploration_iterations),
            int(self.target_every),
            int(self.n_iterations),
            problem.costs,
            problem.allowed,
        )


def make_plan(parameters: Mapping[str, Any]) -> Plan:
    """
    Check the parameters of a classifier.

    Raises
    ------
    ValueError
        One is out of its range.
    """
    for name in SHARES:
        if not 0 <= parameters[name] <= 1:
            raise ValueError(f"{name} must be in [0, 1], got {parameters[name]!r}.")
    for name in POSITIVE:
        if not (math.isfinite(parameters[name]) and parameters[name] > 0):
            raise ValueError(f"{name} must be positive, got {parameters[name]!r}.")
    for name in COUNTS:
        if parameters[name] < 1:
            raise ValueError(f"{name} must be at least 1, got {parameters[name]!r}.")
    for name in ITERATIONS:
        if parameters[name] < 0:
            raise ValueError(f"{name} must not be negative, got {parameters[name]!r}.")
    hidden = parameters["hidden"]
    if len(hidden) != 2 or min(hidden) < 1:
        raise ValueError(f"hidden must be two positive numbers of units, got {hidden!r}.")
    if not 0 <= parameters["validation_share"] < 1:
        raise ValueError(f"validation_share must be in [0, 1), got {parameters['validation_share']!r}.")
    first, second = hidden
    made = {
        "hidden": (int(first), int(second)),
        "exploration_iterations": parameters["n_iterations"] // 2,
    }
    names = [field.name for field in fields(Plan)]
    return Plan(**{name: made[name] if name in made else parameters[name] for name in names})
