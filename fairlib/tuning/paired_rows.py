r"""Whether one model is as good as another on unseen rows, by the decisions of both about the same
people.

On the same rows the noise of two models is largely the same, and cancels in their difference.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evenhand.fairlib.arrays import Bool, Int
from evenhand.fairlib.catalogue import better
from evenhand.fairlib.evaluation.metrics import OVERALL_METRICS
from evenhand.fairlib.tuning.unseen_rows import DRAWS, PRIOR

INFLATION = 2.0
"""Each validation row counts for one in so many: both models are trained anew on all rows, and
decide about some people otherwise than the models of the folds did.
"""


def chance_no_worse(
    y: Int,
    reference: Bool,
    other: Bool,
    tolerances: Mapping[str, float],
    *,
    unseen: float,
    favourable: int,
    weight: float = 1.0,
    rng: np.random.Generator,
) -> float | None:
    r"""Return the chance that a model is no worse than another by more than so much on unseen rows.

    The shares of the cells of label and both decisions are drawn from their Dirichlet distribution
    given the validation rows, and then those of unseen rows. The metric of both models is computed
    from the same drawn rows.

    Parameters
    ----------
    y : ndarray of int, shape (n,)
        Labels of the validation rows, 0 or 1.
    reference, other : ndarray of bool, shape (n,)
        Whether each model predicts label 1.
    tolerances : mapping of str to float
        By overall metric, by how much it may be worse; those that do not follow from counts of
        decisions are left out. The chance is that of all together.
    unseen : float
        Number of unseen rows over that of the validation rows.
    favourable : int
        The favourable label.
    weight : float, default 1
        People per row where people have several: the rows of a person are alike.
    rng : numpy.random.Generator

    Returns
    -------
    float or None
        None if no metric follows from counts, or none has a value in any draw.

    Examples
    --------
    >>> y = np.repeat([0, 1], 500)
    >>> same = y == 1
    >>> rng = np.random.default_rng(0)
    >>> chance = chance_no_worse(
    ...     y, same, same, {"accuracy": 0.01}, unseen=0.4, favourable=1, rng=rng
    ... )
    >>> chance > 0.9
    True
    """
    counted = {name: by for name, by in tolerances.items() if name in OVERALL_METRICS}
    if not counted:
        return None
    cell = (y * 2 + reference) * 2 + other
    counts = np.bincount(cell, minlength=8) * weight / INFLATION
    shares = rng.dirichlet(counts + PRIOR, size=DRAWS)
    rows = max(1, round(len(y) * weight * unseen))
    drawn = rng.multinomial(rows, shares).reshape(DRAWS, 2, 2, 2)
    if favourable == 0:
        drawn = drawn[:, ::-1, ::-1, ::-1]
    by_other = drawn.sum(axis=2)
    by_reference = drawn.sum(axis=3)
    is_no_worse = np.ones(DRAWS, dtype=bool)
    has_values = np.ones(DRAWS, dtype=bool)
    for name, by in counted.items():
        function = OVERALL_METRICS[name].function
        with np.errstate(all="ignore"):
            difference = function(by_other) - function(by_reference)
        if better(name) == "lower":
            difference = -difference
        has_values &= np.isfinite(difference)
        is_no_worse &= difference >= -by
    if not has_values.any():
        return None
    return float(np.mean(is_no_worse[has_values]))
