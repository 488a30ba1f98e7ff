r"""Contributions of columns to the log-odds of a prediction, which add up to its distance from a
reference.

Trees have the exact Shapley values of XGBoost's ``pred_contribs`` (Lundberg et al., "From local
explanations to global understanding with explainable AI for trees", Nature Machine Intelligence
2020); their reference is the mean log-odds of the training rows. A method that changes rows first
(``project``) is explained by the changed rows. Networks have integrated gradients from a reference
row r (Sundararajan, Taly and Yan, "Axiomatic attribution for deep networks", ICML 2017, equation
1),

.. math:: c_j = (x_j - r_j) \int_0^1 \frac{\partial f}{\partial x_j}(r + t (x - r)) dt

with f the log-odds, by the midpoint rule. Of a linear model this is :math:`w_j (x_j - r_j)`,
exactly. The log-odds are the model's own: a calibration changes them monotonically afterwards.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Float32
from evenhand.fairlib.methods.registry import METHODS, spec_of_class
from evenhand.fairlib.preprocessing.encoder import MISSING, TableEncoder

STEPS = 64


def contributions(
    model: Any, X: Float32, encoder: TableEncoder, reference: Float, *, steps: int = STEPS
) -> Float:
    """Contribution of every table column, shape (n, columns), in the order of the encoder's
    ``groups_``.

    `X`, shape (n, d), are encoded rows, and `reference`, shape (d,), is the result of
    :func:`mean_row`, which trees do not use. `steps` are points of the integral. ValueError: the
    method gives no reasons.
    """
    base = getattr(model, "base", model)
    spec = spec_of_class(type(base))
    if not spec.gives_reasons:
        known = ", ".join(other.name for other in METHODS.values() if other.gives_reasons)
        raise ValueError(f"the method {spec.name} gives no reasons; these do: {known}.")
    if spec.plain == "gbdt":
        found = base.log_odds_by_column(X)[:, :-1].astype(np.float64)
    elif spec.differentiable:
        found = _integrated_gradients(base.network_, X, reference, steps)
    else:
        found = (X - reference) * base.linear_.coefficients
    return np.stack([found[:, columns].sum(axis=1) for columns in encoder.groups_.values()], axis=1)


def reasons_kept(before: Float, after: Sequence[Float], changed: Sequence[int], most: int) -> Float:
    """Share of each row's reasons that are reasons of its changed copies too, shape (n,).

    The reasons are the `most` largest contributions, without those of the columns that copies
    change, whose positions are `changed`. `before`, shape (n, columns), is of the rows, and `after`
    of each copy.
    """

    def reasons(found: Float) -> Bool:
        weight = np.abs(np.delete(found, list(changed), axis=1))
        order = np.argsort(-weight, axis=1, kind="stable")[:, :most]
        chosen = np.zeros(weight.shape, dtype=np.bool_)
        np.put_along_axis(chosen, order, True, axis=1)
        return chosen & (weight > 0)

    own = reasons(before)
    count = np.maximum(own.sum(axis=1), 1)
    shares = [(own & reasons(found)).sum(axis=1) / count for found in after]
    return np.where(own.any(axis=1), np.mean(shares, axis=0), 1.0)


def _integrated_gradients(network: Any, X: Float32, reference: Float, steps: int) -> Float:
    import torch

    from evenhand.fairlib.auditor.differentiable_model import as_differentiable

    # a network of its own: float32 gradients would depend on the other rows of a batch
    found = as_differentiable(copy.deepcopy(network).double())
    start = torch.from_numpy(reference)
    way = torch.from_numpy(X.astype(np.float64)) - start
    sign = torch.tensor([[-1.0, 1.0]], dtype=torch.float64).expand(len(X), 2)
    total = torch.zeros_like(way)
    for step in range(steps):
        found.forward(start + (step + 0.5) / steps * way)
        total += found.backward(sign)
    return np.asarray((way * total / steps).numpy())


def mean_row(encoder: TableEncoder, counts: Mapping[str, Mapping[str, Any]]) -> Float:
    """Mean of the encoded training rows, shape (d,), from the counts of each column in
    ``reference.json``.

    Standardised numbers have mean 0, month and weekday of a date are taken as 0, and categories
    that are counted together have equal shares.
    """
    row = np.zeros(len(encoder.feature_names_))
    for item in encoder.fitted_:
        columns = encoder.groups_[item.name]
        known = counts[item.name]
        other = int(known.get("other", 0))
        total = max(sum(known["counts"]) + other + known["missing"], 1)
        if item.kind in ("onehot", "binary"):
            named = dict(zip(known["names"], known["counts"], strict=True)) | {
                MISSING: known["missing"]
            }
            rest = other / max(sum(name not in named for name in item.categories), 1)
            shares = [named.get(name, rest) / total for name in item.categories]
            row[columns] = shares if item.kind == "onehot" else shares[1]
            continue
        if item.kind == "unit":
            row[columns[0]] = (item.mean - item.minimum) / item.scale
        if item.indicates_missing:
            row[columns[-1]] = known["missing"] / total
    return row
