r"""Whether one model is as good as another on unseen rows, by the decisions of both about the same
people.

On the same rows the noise of two models is largely the same, and cancels in their difference.
"""

from __future__ import annotations

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
    metric: str,
    by: float,
    *,
    unseen: float,
    favourable: int,
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
    metric : str
        An overall metric that follows from counts of decisions.
    by : float
        By how much it may be worse.
    unseen : float
        Number of unseen rows over that of the validation rows.
    favourable : int
        The favourable label.
    rng : numpy.random.Generator

    Returns
    -------
    float or None
        None for another kind of metric.

    Examples
    --------
    >>> y = np.repeat([0, 1], 500)
    >>> same = y == 1
    >>> rng = np.random.default_rng(0)
    >>> chance = chance_no_worse(
    ...     y, same, same, "accuracy", 0.01, unseen=0.4, favourable=1, rng=rng
    ... )
    >>> chance > 0.9
    True
    """
    if metric not in OVERALL_METRICS:
        return None
    cell = (y * 2 + reference) * 2 + other
    counts = np.bincount(cell, minlength=8) / INFLATION
    shares = rng.dirichlet(counts + PRIOR, size=DRAWS)
    drawn = rng.multinomial(max(1, round(len(y) * unseen)), shares).reshape(DRAWS, 2, 2, 2)
    if favourable == 0:
        drawn = drawn[:, ::-1, ::-1, ::-1]
    function = OVERALL_METRICS[metric].function
    with np.errstate(all="ignore"):
        difference = function(drawn.sum(axis=2)) - function(drawn.sum(axis=3))
    difference = difference[np.isfinite(difference)]
    if not len(difference):
        return None
    if better(metric) == "lower":
        difference = -difference
    return float(np.mean(difference >= -by))
