"""Targets of the classifier and of the adversary: classes, and the weights of every row in the loss."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Int

Criterion = Literal["demographic_parity", "equal_opportunity", "equalized_odds"]
CRITERIA: tuple[str, ...] = get_args(Criterion)
Codes = Int


class Outcome(NamedTuple):
    """Target of a classifier: a person's logits are the ``classes`` outputs from ``start`` on."""

    # (n,): class of every person, and weight in the loss
    code: Any
    weight: Any
    start: Any  # (n,)
    classes: int


def with_weights(outcome: Outcome, weights: Float | None) -> Outcome:
    """The outcome with its weights times those of the rows, shape (n,), of mean 1 again; None: as it is."""
    if weights is None:
        return outcome
    product = outcome.weight.astype(np.float64) * weights
    total = product.mean()
    if total == 0:
        raise ValueError("sample_weight is 0 in all rows that count in a loss.")
    return outcome._replace(weight=(product / total).astype(np.float32))


def label_outcome(y: Codes, class_balance: float) -> Outcome:
    r"""Target of the classifier: weights :math:`\propto n_y^{-\beta}` of mean 1, beta = ``class_balance``."""
    counts = np.bincount(y, minlength=2).astype(np.float64)
    weights = counts[y] ** -class_balance
    return Outcome(y, (weights / weights.mean()).astype(np.float32), np.zeros(y.size, np.int64), 2)


def attribute_outcome(groups: Codes, y: Codes, criterion: str) -> Outcome:
    r"""Target of the adversary (Madras et al. 2018, section 4.2): all groups have the same total weight.

    Demographic parity: :math:`w_i \propto 1 / n_b`. Equalised odds: :math:`w_i \propto 1 / n_{by}`, and the
    adversary has a block of outputs for each label, so that it may use the label. Equal opportunity: only
    rows of the positive label have a weight, :math:`w_i \propto 1 / n_{b1}`. Weights have mean 1. ValueError
    for a group without people of a label that counts.
    """
    n, k = groups.size, int(groups.max()) + 1
    start = np.zeros(n, np.int64)
    if criterion == "demographic_parity":
        return Outcome(groups, _balanced(groups, k), start, k)
    counts = np.bincount(groups * 2 + y, minlength=2 * k).reshape(k, 2)
    needed = counts if criterion == "equalized_odds" else counts[:, 1:]
    if (needed == 0).any():
        raise ValueError(
            f"criterion {criterion} needs people of every group with each label that counts, and a group "
            "has none: merge small groups, or take demographic_parity."
        )
    if criterion == "equalized_odds":
        return Outcome(groups, _balanced(groups * 2 + y, 2 * k), y * k, k)
    weight = np.zeros(n, np.float32)
    positive = y == 1
    weight[positive] = _balanced(groups[positive], k) * (n / positive.sum())
    return Outcome(groups, weight, start, k)


def _balanced(codes: Codes, k: int) -> Float32:
    """Weights of mean 1, with the same sum in every class."""
    counts = np.bincount(codes, minlength=k)
    return (codes.size / (k * counts[codes])).astype(np.float32)
