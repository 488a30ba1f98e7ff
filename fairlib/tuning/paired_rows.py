r"""Whether one model is as good as another on unseen rows, by the decisions of both about the same
people.

On the same rows the noise of two models is largely the same, and cancels in their difference. So
does what a place with several rows adds to the errors of both.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.catalogue import better
from evenhand.fairlib.evaluation.metrics import OVERALL_METRICS
from evenhand.fairlib.tuning.unseen_clusters import (
    DRAWS,
    FEWEST_CLUSTERS,
    PRIOR,
    design_effects,
    draw_clusters,
    merged_clusters,
    prior_rows,
)

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
    people: Int | None = None,
    rng: np.random.Generator,
) -> float | None:
    r"""Return the chance that a model is no worse than another by more than so much on unseen rows.

    The shares of the cells of label and both decisions are drawn from their Dirichlet distribution
    given the validation rows, and then those of unseen rows. The metric of both models is computed
    from the same drawn rows. With `people` these are drawn whole in place of rows, see
    :func:`evenhand.fairlib.tuning.unseen_clusters.draw_clusters`.

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
    people : ndarray of int, shape (n,), optional
        Number of each row's person or place, where one has several rows; default: rows are
        independent.
    rng : numpy.random.Generator

    Returns
    -------
    float or None
        None if no metric follows from counts, none has a value in any draw, or there are fewer
        than ``FEWEST_CLUSTERS`` people or places.

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
    if people is not None and len(np.unique(people)) < FEWEST_CLUSTERS:
        return None
    cell = (y * 2 + reference) * 2 + other
    if people is None:
        counts = np.bincount(cell, minlength=8) / INFLATION
        shares = rng.dirichlet(counts + PRIOR, size=DRAWS)
        rows = max(1, round(len(y) * unseen))
        drawn = rng.multinomial(rows, shares).astype(np.float64)
    else:
        drawn = _drawn_with_people(cell, people, unseen, rng)
    drawn = drawn.reshape(DRAWS, 2, 2, 2)
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


def _drawn_with_people(cell: Int, people: Int, unseen: float, rng: np.random.Generator) -> Float:
    """Unseen rows of drawn people or places in cells of label and both decisions, shape
    (draws, 8).
    """
    clusters = draw_clusters(
        merged_clusters(people, rng), unseen=unseen, inflation=INFLATION, rng=rng
    )
    effects = design_effects(cell // 4, 2, cell % 4, 4, people)
    # of the four pairs of decisions
    effects = np.repeat(effects, 4)
    prior = prior_rows(effects, unseen=unseen, inflation=INFLATION, rng=rng)
    return clusters.sums(cell, 8) + prior
