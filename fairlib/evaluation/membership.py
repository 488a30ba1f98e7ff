r"""Membership inference: how well an attacker separates a model's training rows from other rows.

The likelihood-ratio attack with shadow models of Carlini et al., "Membership Inference Attacks From
First Principles", IEEE S&P 2022. The attacker knows a row x with its label y, and scales the
probability
:math:`f(x)_y` that a model gives to this label:

.. math:: \phi = \log \frac{f(x)_y}{1 - f(x)_y} .

Shadow models are trained as the attacked one was, each on random rows. Those that were trained on
x, and those that were not, have nearly Gaussian values of :math:`\phi`, with the means
:math:`\mu_{in}`, :math:`\mu_{out}` and the standard deviations :math:`\sigma_{in}`,
:math:`\sigma_{out}`. A row is the more probably a member, the larger its score is for the attacked
model's :math:`\phi`:

.. math:: \Lambda_{online} = \log \mathcal N(\phi; \mu_{in}, \sigma_{in}^2)
          - \log \mathcal N(\phi; \mu_{out}, \sigma_{out}^2), \qquad
          \Lambda_{offline} = \frac{\phi - \mu_{out}}{\sigma_{out}} .

The means are of each row. With fewer than ``MANY_MODELS`` shadow models the variances are common to
all rows. The paper's offline score, :math:`\Pr[\mathcal N(\mu_{out}, \sigma_{out}^2) \le \phi]`,
has the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.bootstrap import auc_draws, percentile_interval, score_table
from evenhand.fairlib.evaluation.closed_intervals import auc_interval
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.metrics import auc
from evenhand.fairlib.execution import generator

WARNED_AUC = 0.55
"""A larger AUC is reported as a warning."""
MANY_MODELS = 64
"""Shadow models from which on every row has variances of its own."""
FALSE_POSITIVE_RATE = 0.01
# Probabilities come from 32-bit numbers, in which all above 1 - 6e-8 are 1.
LEAST_PROBABILITY = float(np.finfo(np.float32).eps)
# Shadow models that agree exactly have no variance; the scores must stay finite.
LEAST_VARIANCE = 1e-12


def confidences(probability: ArrayLike, label: ArrayLike) -> Float:
    """Log-odds of the true label, shape (..., n), from probabilities of label 1, shape (..., n).

    Parameters
    ----------
    probability : array-like, shape (..., n)
        Probabilities of label 1.
    label : array-like, shape (n,)
        True labels, 0 or 1.

    Returns
    -------
    ndarray of float64, shape (..., n)
        Finite: probabilities are at least 1.2e-7 and at most 1 less that.
    """
    p = np.clip(
        np.asarray(probability, dtype=np.float64), LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY
    )
    odds: Float = np.where(np.asarray(label) == 1, 1.0, -1.0) * (np.log(p) - np.log1p(-p))
    return odds


def balanced_pool(label: Int, member: Bool, rng: np.random.Generator) -> Int:
    """Positions, sorted, of as many random members as others of each label: the rows that are
    attacked.

    Parameters
    ----------
    label : ndarray of int64, shape (n,)
        True labels.
    member : ndarray of bool, shape (n,)
        Whether the model was trained on the row.
    rng : np.random.Generator
        Generator of the choice.

    Returns
    -------
    ndarray of int64, shape (m,)
        Ascending positions.
    """
    drawn = []
    for value in np.unique(label):
        sides = [np.flatnonzero((label == value) & (member == side)) for side in (True, False)]
        size = min(map(len, sides))
        drawn += [rng.choice(side, size, replace=False) for side in sides]
    return np.sort(np.concatenate(drawn))


def random_halves(label: Int, models: int, rng: np.random.Generator) -> Bool:
    """Rows that each of an even number of shadow models is trained on, shape (models, n).

    Every row is in exactly half of the models. A model gets half of the rows of each label, one
    more or less where their number is odd.

    Parameters
    ----------
    label : ndarray of int64, shape (n,)
        True labels.
    models : int
        Number of shadow models, even and at least 2.
    rng : np.random.Generator
        Generator of the choice.

    Returns
    -------
    ndarray of bool, shape (models, n)
        True for rows of the model.

    Raises
    ------
    ValueError
        If the number of models is odd or below 2.
    """
    if models < 2 or models % 2:
        raise ValueError(f"models: got {models}, expected an even number of at least 2")
    included = np.zeros((models, len(label)), dtype=np.bool_)
    for pair in range(0, models, 2):
        order = rng.permutation(len(label))
        order = order[np.argsort(label[order], kind="stable")]
        included[pair, order[::2]] = True
        included[pair + 1] = ~included[pair]
    return included


def likelihood_ratios(observed: Float, shadows: Float, included: Bool) -> tuple[Float, Float]:
    """Scores of the online and of the offline attack, each of shape (n,): larger for probable
    members.

    Parameters
    ----------
    observed : ndarray of float64, shape (n,)
        Confidence of the attacked model in each row's label, as :func:`confidences` scales it.
    shadows : ndarray of float64, shape (k, n)
        The same of every shadow model.
    included : ndarray of bool, shape (k, n)
        Whether the shadow model was trained on the row.

    Returns
    -------
    tuple of two ndarrays, shape (n,)
        Online and offline scores.

    Raises
    ------
    ValueError
        If the shapes differ, or a row is in all shadow models or in none.

    References
    ----------
    .. [1] N. Carlini et al., "Membership Inference Attacks From First Principles", IEEE S&P 2022.
    """
    if shadows.shape != included.shape or shadows.shape[1:] != observed.shape:
        raise ValueError(
            f"shadows: got shape {shadows.shape}, expected that of included, {included.shape}, (k, "
            "n)"
        )
    if not (included.any(axis=0) & ~included.all(axis=0)).all():
        raise ValueError(
            "included: expected every row in one shadow model at least, and not in all"
        )
    # deviations are exactly 0 where all models agree, so that rounding breaks no ties
    deviations = shadows - observed
    near_in, var_in = _moments(deviations, included)
    near_out, var_out = _moments(deviations, ~included)
    online = near_out**2 / var_out - near_in**2 / var_in + np.log(var_out) - np.log(var_in)
    return online / 2.0, -near_out / np.sqrt(var_out)


def _moments(deviations: Float, side: Bool) -> tuple[Float, Float]:
    """Mean of each row over the models of one side, and the variance within rows."""
    count = side.sum(axis=0)
    mean = np.sum(deviations, axis=0, where=side) / count
    squares = np.sum((deviations - mean) ** 2, axis=0, where=side)
    if len(side) < MANY_MODELS:
        squares = squares.sum()
        count = count.sum() - count.size + 1
    return mean, np.maximum(squares / np.maximum(count - 1, 1), LEAST_VARIANCE)


def true_positive_rate(
    score: Float, member: Bool, false_positive_rate: float = FALSE_POSITIVE_RATE
) -> float:
    """Largest share of members above a threshold that at most this share of the others is above.

    Equal scores are on one side of it.

    Parameters
    ----------
    score : ndarray of float64, shape (n,)
        Larger for probable members.
    member : ndarray of bool, shape (n,)
        Whether the model was trained on the row.
    false_positive_rate : float, default FALSE_POSITIVE_RATE
        Largest allowed share of the others above the threshold.

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> score = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    >>> member = np.array([True, True, False, True, False])
    >>> round(true_positive_rate(score, member, 0.0), 4)
    0.6667
    """
    members, non_members = score_table(member.astype(np.int64), score)
    members = members[::-1]
    non_members = non_members[::-1]
    # a count may be below a limit of whole rows by rounding alone
    allowed = np.cumsum(non_members) <= false_positive_rate * non_members.sum() + 1e-9
    return float(members[allowed].sum() / members.sum())


def measure_attack(
    score: Float, member: Bool, *, draws: int, level: float, min_cell: int, seed: int
) -> dict[str, Any]:
    """AUC of an attack with its bootstrap interval, and its true positive rate, as plain JSON
    types.

    Parameters
    ----------
    score : ndarray of float64, shape (n,)
        Larger for probable members.
    member : ndarray of bool, shape (n,)
        Whether the model was trained on the row.
    draws : int
        Bootstrap draws of all n rows; 0 for no interval.
    level : float
        Coverage of the interval, in (0, 1).
    min_cell : int
        Fewest members, and others.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    dict
        ``auc``, the fields of a `MetricValue`, and ``true_positive_rate`` at
        ``FALSE_POSITIVE_RATE``, None without enough rows.
    """
    truth = member.astype(np.int64)
    least = int(np.bincount(truth, minlength=2).min())
    if least < min_cell:
        short = MetricValue.insufficient(
            f"{least} members or others of the training rows, fewer than {min_cell}"
        )
        return {"auc": vars(short), "true_positive_rate": None}
    value = float(auc(*score_table(truth, score)))
    (drawn,) = auc_draws(truth, [score], draws, generator(seed, "bootstrap", "membership"))
    low, high = percentile_interval(drawn, level, value)
    if low is not None and high is not None and low == high:
        ends = auc_interval(value, float(member.sum()), float((~member).sum()), level)
        low = min(ends[0], value)
        high = max(ends[1], value)
    return {
        "auc": vars(MetricValue(value, low, high)),
        "true_positive_rate": true_positive_rate(score, member),
    }


def stronger_attack(attacks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of :func:`measure_attack` with the larger AUC: ``online`` or ``offline``.

    With few shadow models either can be the stronger one, and an attacker would use it.

    Parameters
    ----------
    attacks : mapping
        Results of :func:`measure_attack`, named ``online`` and ``offline``.

    Returns
    -------
    dict
        The result with the larger AUC.
    """
    two_attacks = (attacks["online"], attacks["offline"])
    stronger = max(two_attacks, key=lambda attack: attack["auc"]["value"] or 0.0)
    return dict(stronger)
