"""Training rows of a matrix, targets of both classifiers, and the groups that may be asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.checkpoint import fingerprint
from evenhand.fairlib.methods.dadi.feature_report import HeldOut
from evenhand.fairlib.methods.dadi.network import Layout, Rows
from evenhand.fairlib.methods.dadi.objectives import Outcome, attribute_outcome, label_outcome, with_weights
from evenhand.fairlib.methods.groups import Groups

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.classifier import DADIClassifier


@dataclass(frozen=True)
class Problem:
    """Training rows, targets of both classifiers, and by group ``allowed`` (G,) and ``costs`` (G,)."""

    layout: Layout
    rows: Rows
    label: Outcome
    attribute: Outcome
    allowed: Bool
    costs: Float


def prepare(
    config: DADIClassifier,
    X: Float32,
    codes: Int,
    sensitive: Groups,
    feature_groups: Mapping[str, Sequence[int]],
    weights: Float | None = None,
) -> tuple[Problem, HeldOut, str]:
    """Hold rows out, and encode the others; also the fingerprint of everything that the training depends on.

    X has the shape (n, d), `codes` are labels 0 and 1, shape (n,), and `weights`, shape (n,), those of the
    rows in both classifiers' losses. ValueError if no group is left to ask, a cost is negative or of an
    unknown group, or too few rows are left to train on.
    """
    layout, group = Layout.fit(X, feature_groups), sensitive.codes
    never = {*layout.constant, *sensitive.attributes}
    allowed = np.array([name not in never for name in feature_groups])
    if not allowed.any():
        raise ValueError("no feature group is left to ask: all are constant or sensitive.")
    attribute = attribute_outcome(group, codes, config.criterion)
    held = generator(config.random_state, "validation").random(len(codes)) < config.validation_share
    train = ~held
    if np.unique(codes[train]).size < 2:
        raise ValueError(
            f"of {len(codes)} rows {train.sum()} are left to train on, not of both labels: give more "
            "rows or a smaller validation_share."
        )
    own = None if weights is None else weights[train]
    attribute_of_rows = attribute._replace(
        code=group[train], weight=attribute.weight[train], start=attribute.start[train]
    )
    problem = Problem(
        layout,
        layout.rows(X[train]),
        with_weights(label_outcome(codes[train], config.class_balance), own),
        with_weights(attribute_of_rows, own),
        allowed,
        _costs(config.costs, list(feature_groups)),
    )
    judged = (codes == 1) | (config.criterion != "equal_opportunity")
    held_out = HeldOut(
        np.flatnonzero(held), X[held], codes[held], group[held], attribute.classes, judged[held]
    )
    training = fingerprint(
        X,
        codes,
        group,
        list(feature_groups.items()),
        list(sensitive.attributes),
        [(name, repr(value)) for name, value in sorted(config.get_params(deep=False).items())],
        # another version may round differently: the result would not be that of an unbroken training
        np.__version__,
        *([] if weights is None else ["weights", weights]),
    )
    return problem, held_out, training


def _costs(given: Mapping[str, float] | None, groups: Sequence[str]) -> Float:
    """Cost of asking each group."""
    costs = dict(given or {})
    for name, cost in costs.items():
        if name not in groups:
            raise ValueError(f"costs names {name!r}, which is no feature group: {', '.join(groups)}.")
        if not (math.isfinite(cost) and cost >= 0):
            raise ValueError(f"costs[{name!r}] must be finite and not negative, got {cost!r}.")
    return np.array([float(costs.get(name, 0.0)) for name in groups])
