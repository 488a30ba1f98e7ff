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
    """Contribution of every table column to the log-odds.

    Parameters
    ----------
    model : Method or DecidedModel
    X : ndarray of float32, shape (n, d)
        Encoded rows.
    encoder : TableEncoder
    reference : ndarray of float, shape (d,)
        Result of :func:`mean_row`, which trees do not use.
    steps : int, default 64
        Points of the integral.

    Returns
    -------
    ndarray of float, shape (n, columns)
        In the order of the encoder's ``groups_``.

    Raises
    ------
    ValueError
        If the method gives no reasons.
    """
    base = getattr(model, "base", model)
    spec = spec_of_class(type(base))
    if not spec.gives_reasons:
        names = ", ".join(method.name for method in METHODS.values() if method.gives_reasons)
        raise ValueError(f"the method {spec.name} gives no reasons; these do: {names}.")
    if spec.has_trees:
        by_column = base.log_odds_by_column(X)[:, :-1].astype(np.float64)
    elif spec.differentiable:
        by_column = _network_reasons(base, X, reference, steps)
    else:
        by_column = (X - reference) * base.linear_.coefficients
    by_group = [by_column[:, columns].sum(axis=1) for columns in encoder.groups_.values()]
    return np.stack(by_group, axis=1)


def reasons_kept(before: Float, after: Sequence[Float], changed: Sequence[int], most: int) -> Float:
    """Share of each row's reasons that are reasons of its changed copies too.

    The reasons are the largest contributions, without those of the columns that copies change.

    Parameters
    ----------
    before : ndarray of float, shape (n, columns)
        Contributions of the rows.
    after : sequence of ndarray of float, shape (n, columns)
        Contributions of each copy.
    changed : sequence of int
        Positions of the columns that copies change.
    most : int
        Number of reasons.

    Returns
    -------
    ndarray of float, shape (n,)
        1 where a row has no reasons.
    """

    def _reasons(contribution: Float) -> Bool:
        weight = np.abs(np.delete(contribution, list(changed), axis=1))
        order = np.argsort(-weight, axis=1, kind="stable")[:, :most]
        chosen = np.zeros(weight.shape, dtype=np.bool_)
        np.put_along_axis(chosen, order, True, axis=1)
        return chosen & (weight > 0)

    of_rows = _reasons(before)
    count = np.maximum(of_rows.sum(axis=1), 1)
    shares = [(of_rows & _reasons(copy_)).sum(axis=1) / count for copy_ in after]
    return np.where(of_rows.any(axis=1), np.mean(shares, axis=0), 1.0)


def _network_reasons(base: Any, X: Float32, reference: Float, steps: int) -> Float:
    """Integrated gradients of a network; of adapted columns the mean over all draws."""
    if not getattr(base, "adapts_inputs", False):
        return _integrated_gradients(base.network_, X, reference, steps)
    parts = []
    for rows in base.network_inputs(X):
        # sensitive and removed columns are 0 in all adapted rows
        start = np.where(base.metric_.hidden, 0.0, reference)
        parts.append(_integrated_gradients(base.network_, rows, start, steps))
    return np.asarray(np.mean(parts, axis=0))


def _integrated_gradients(network: Any, X: Float32, reference: Float, steps: int) -> Float:
    """Integral of the gradient of the log-odds on the way from the reference, by midpoints."""
    import torch

    from evenhand.fairlib.auditor.differentiable_model import as_differentiable

    # a network of its own: float32 gradients would depend on the other rows of a batch
    differentiable = as_differentiable(copy.deepcopy(network).double())
    start = torch.from_numpy(reference)
    way = torch.from_numpy(X.astype(np.float64)) - start
    sign = torch.tensor([[-1.0, 1.0]], dtype=torch.float64).expand(len(X), 2)
    total = torch.zeros_like(way)
    for step in range(steps):
        differentiable.forward(start + (step + 0.5) / steps * way)
        total += differentiable.backward(sign)
    return np.asarray((way * total / steps).numpy())


def mean_row(encoder: TableEncoder, counts: Mapping[str, Mapping[str, Any]]) -> Float:
    """Mean of the encoded training rows, from the counts of each column in ``reference.json``.

    Standardised numbers have mean 0, month and weekday of a date are taken as 0, and categories
    that are counted together have equal shares.

    Parameters
    ----------
    encoder : TableEncoder
    counts : mapping of str to mapping
        By column of the table.

    Returns
    -------
    ndarray of float, shape (d,)
    """
    row = np.zeros(len(encoder.feature_names_))
    for item in encoder.fitted_:
        columns = encoder.groups_[item.name]
        of_column = counts[item.name]
        other_count = int(of_column.get("other", 0))
        total = max(sum(of_column["counts"]) + other_count + of_column["missing"], 1)
        if item.kind in ("onehot", "binary"):
            count_of_name = dict(zip(of_column["names"], of_column["counts"], strict=True)) | {
                MISSING: of_column["missing"]
            }
            other_share = other_count / max(
                sum(name not in count_of_name for name in item.categories), 1
            )
            shares = [count_of_name.get(name, other_share) / total for name in item.categories]
            row[columns] = shares if item.kind == "onehot" else shares[1]
            continue
        if item.kind == "unit":
            row[columns[0]] = (item.mean - item.minimum) / item.scale
        if item.indicates_missing:
            row[columns[-1]] = of_column["missing"] / total
    return row
