"""From a matrix to what one training works with: its rows, what is to be learned, and what may be asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.base import Float32, Float64, check_feature_groups
from evenhand.fairlib.methods.checkpoint import fingerprint
from evenhand.fairlib.methods.dadi._inference import Rows
from evenhand.fairlib.methods.dadi._learner import Outcome
from evenhand.fairlib.methods.dadi.inference import HeldOut
from evenhand.fairlib.methods.dadi.layout import Layout
from evenhand.fairlib.methods.dadi.objectives import attribute_outcome, group_codes, label_outcome

__all__ = ["Problem", "Setup", "generator_for", "prepare"]


@dataclass(frozen=True)
class Problem:
    """Training rows and what is to be learned of them; ``allowed`` and ``costs`` (G,) are per group."""

    layout: Layout
    rows: Rows
    label: Outcome
    attribute: Outcome
    allowed: NDArray[np.bool_]
    costs: Float64


@dataclass(frozen=True)
class Setup:
    """
    What one training works with.

    Attributes
    ----------
    problem : Problem
    held : HeldOut
        Rows that are set aside.
    attributes : list of str
        What the adversary guesses.
    training : str
        Fingerprint of all that the training depends on.
    """

    problem: Problem
    held: HeldOut
    attributes: list[str]
    training: str


def generator_for(parameters: Mapping[str, Any], purpose: str) -> np.random.Generator:
    """Random numbers for one purpose, from ``random_state``."""
    seed = parameters["random_state"]
    return generator(0 if seed is None else int(seed), purpose)


def prepare(
    X: Float32,
    codes: NDArray[np.int64],
    sensitive_features: Mapping[str, ArrayLike] | None,
    feature_groups: Mapping[str, Sequence[int]] | None,
    parameters: Mapping[str, Any],
) -> Setup:
    """
    Set rows aside, and encode the others.

    Parameters
    ----------
    X : float32, shape (n, d)
    codes : int64, shape (n,)
        Labels, 0 or 1.
    sensitive_features, feature_groups
        As :meth:`evenhand.fairlib.methods.dadi.DADIClassifier.fit` takes them.
    parameters : mapping
        Of the classifier, as :func:`evenhand.fairlib.methods.dadi.config.make_plan` has checked them.

    Raises
    ------
    ValueError
        No sensitive feature or one with a single group, an unknown criterion, groups that miss or repeat a
        column, no group left to ask, a cost that is none, or too few rows left to train on.
    """
    groups = check_feature_groups(feature_groups, X.shape[1])
    attributes, group = group_codes(sensitive_features, parameters["attributes"], len(codes))
    layout = Layout.fit(X, groups)
    never = {*layout.constant, *attributes}
    allowed = np.array([name not in never for name in groups])
    if not allowed.any():
        raise ValueError("no feature group is left to ask: all are constant or sensitive.")
    attribute = attribute_outcome(group, codes, parameters["criterion"])
    held = generator_for(parameters, "validation").random(len(codes)) < parameters["validation_share"]
    train = ~held
    if np.unique(codes[train]).size < 2:
        raise ValueError(
            f"of {len(codes)} rows {train.sum()} are left to train on, not of both labels: give more "
            "rows or a smaller validation_share."
        )
    problem = Problem(
        layout,
        layout.rows(X[train]),
        label_outcome(codes[train], parameters["class_balance"]),
        attribute._replace(code=group[train], weight=attribute.weight[train], start=attribute.start[train]),
        allowed,
        _costs(parameters["costs"], list(groups)),
    )
    judged = (codes == 1) | (parameters["criterion"] != "equal_opportunity")
    held_out = HeldOut(X[held], codes[held], group[held], attribute.classes, judged[held])
    training = fingerprint(
        X,
        codes,
        group,
        list(groups.items()),
        attributes,
        [(name, repr(value)) for name, value in sorted(parameters.items())],
        # another compiler or BLAS rounds otherwise, and the rest would not be that of an unbroken training
        [(module.__name__, module.__version__) for module in (numba, np, scipy)],
    )
    return Setup(problem, held_out, attributes, training)


def _costs(given: Mapping[str, float] | None, groups: Sequence[str]) -> Float64:
    """Cost of asking each group."""
    costs = dict(given or {})
    for name, cost in costs.items():
        if name not in groups:
            raise ValueError(f"costs names {name!r}, which is no feature group: {', '.join(groups)}.")
        if not (math.isfinite(cost) and cost >= 0):
            raise ValueError(f"costs[{name!r}] must be finite and not negative, got {cost!r}.")
    return np.array([float(costs.get(name, 0.0)) for name in groups])
