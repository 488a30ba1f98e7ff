r"""Unseen rows that come as whole people or places, whose rows are alike.

These clusters are drawn in place of rows: first their weights given the validation rows, and then
the unseen clusters. A place that is bad for all groups is so in each draw, and what the rows of a
cluster have in common counts only as far as they have it. Many clusters are merged at random into
a few hundred: their variance is estimated without bias, at a fixed cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation.effective_rows import cell_means

DRAWS = 2000
PRIOR = 0.5
"""Rows that are added to each cell, as for Jeffreys' interval of a rate (Brown, Cai and DasGupta,
"Interval Estimation for a Binomial Proportion", Statistical Science 16, 2001): a rate of few rows
without a single error is not 0.
"""
MOST_CLUSTERS = 200
"""Clusters that are drawn at most. The variance between so many is estimated with a standard error
of a tenth, so that widths of ranges are right to about 5 %.
"""
FEWEST_CLUSTERS = 8
"""Fewer clusters tell too little of how much others differ: drawing them states no chance."""
TAIL = 0.95
"""Level at which a range by few clusters is as wide as Student's distribution has it."""


@dataclass(frozen=True, eq=False)
class UnseenClusters:
    """Draws of the people or places of unseen rows, from those of the validation rows.

    Parameters
    ----------
    of_row : ndarray of int, shape (n,)
        Number of each validation row's cluster, below N.
    times : ndarray of float, shape (draws, N)
        How many unseen clusters are like each of these.
    """

    of_row: Int
    times: Float

    def sums(self, code: Int, size: int, amount: Float | None = None) -> Float:
        """Add up the rows of unseen clusters by a code.

        Parameters
        ----------
        code : ndarray of int, shape (n,)
            Code of each validation row, below `size`.
        size : int
            Number of codes.
        amount : ndarray of float, shape (n,), optional
            What each row adds; default: 1.

        Returns
        -------
        ndarray of float, shape (draws, size)
        """
        clusters = self.times.shape[1]
        places = self.of_row * size + code
        table = np.bincount(places, amount, minlength=clusters * size)
        return np.asarray(self.times @ table.reshape(clusters, size).astype(np.float64))


def merged_clusters(people: Int, rng: np.random.Generator) -> Int:
    """Number people or places from 0; of more than ``MOST_CLUSTERS``, random ones get one number.

    The sum of m clusters that are merged at random has m times the variance of one, so the
    variance of a mean of all rows stays what it is.

    Parameters
    ----------
    people : ndarray of int, shape (n,)
        Number of each row's person or place.
    rng : numpy.random.Generator
        Generator of the merging.

    Returns
    -------
    ndarray of int, shape (n,)
    """
    found, cluster = np.unique(people, return_inverse=True)
    if len(found) <= MOST_CLUSTERS:
        return np.asarray(cluster)
    # as many in each number, but for one
    number = rng.permutation(len(found)) % MOST_CLUSTERS
    return np.asarray(number[cluster])


def draw_clusters(
    of_row: Int,
    *,
    unseen: float,
    inflation: float = 1.0,
    are_shares_known: bool = False,
    rng: np.random.Generator,
) -> UnseenClusters:
    r"""Draw the clusters of unseen rows.

    The shares of the N clusters among all are drawn from a flat Dirichlet distribution, as in the
    Bayesian bootstrap [1]_, and then m clusters from a multinomial distribution with these shares.
    A mean then has the variance

    .. math:: s^2 \frac{N - 1}{N} \left(\frac{1}{N + 1} + \frac{1}{m} \frac{N}{N + 1}\right),

    where :math:`s^2` is the one between clusters, and m is chosen so that it is :math:`s^2 r
    (inflation / N + 1 / u)` for u unseen clusters. With equal shares it is :math:`s^2 r / u`. The
    factor r is the square of a quantile of Student's distribution with :math:`N - 1` degrees of
    freedom over the normal one: the variance between few clusters is not well known. So fewer
    clusters are drawn than there are unseen ones, and each counts for more.

    Parameters
    ----------
    of_row : ndarray of int, shape (n,)
        Cluster of each validation row, as of :func:`merged_clusters`.
    unseen : float
        Number of unseen rows over that of the validation rows, and so for clusters.
    inflation : float, default 1
        By how much the variance of the shares is larger than that of so many clusters.
    are_shares_known : bool, default False
        Whether the clusters have equal shares, so that the unseen ones alone are drawn.
    rng : numpy.random.Generator
        Generator of the draws.

    Returns
    -------
    UnseenClusters

    References
    ----------
    .. [1] D. B. Rubin, "The Bayesian Bootstrap", The Annals of Statistics 9 (1981).
    """
    count = int(of_row.max()) + 1
    number = max(1.0, count * unseen)
    widening = float(student_factor(np.array([count]))[0])
    if count > 1:
        # drawn clusters vary by their squares over N, not over N - 1 as the estimate does
        widening *= count / (count - 1)
    if are_shares_known:
        shares = np.full(count, 1.0 / count)
        inverse = widening / number
    else:
        shares = rng.dirichlet(np.ones(count), size=DRAWS)
        due = widening * (inflation / count + 1.0 / number)
        inverse = (count + 1) / count * (due - 1.0 / (count + 1))
    # rounded at random, so that the number is right in the mean
    drawn = np.floor(1.0 / inverse + rng.random(DRAWS)).astype(np.int64)
    drawn = np.maximum(drawn, 1)
    times = rng.multinomial(drawn, shares) * (number / drawn)[:, np.newaxis]
    return UnseenClusters(of_row, times)


def student_factor(count: Int) -> Float:
    """Square of a quantile of Student's distribution over the normal one, by the number of
    clusters.
    """
    from scipy.special import ndtri, stdtrit

    degrees = np.maximum(count - 1.0, 1.0)
    return np.asarray((stdtrit(degrees, TAIL) / ndtri(TAIL)) ** 2)


def design_effects(block: Int, blocks: int, option: Int, options: int, people: Int) -> Float:
    r"""Return how many rows tell as much as one independent row would about shares of options.

    In a block of n rows it is

    .. math:: \frac{n}{J - 1} \sum_j \frac{\hat v_j}{\hat p_j}

    of the J options that occur there, with the variances :math:`\hat v_j` of their shares
    :math:`\hat p_j` between people: the mean of the generalised design effects [1]_. For two
    options it is the variance over that of a binomial share. With one option alone it is
    :math:`\sum_i n_i^2 / n`, as if all rows of a person had to agree.

    Parameters
    ----------
    block : ndarray of int, shape (n,)
        Block of each row, such as its group and label.
    blocks : int
        Number of blocks.
    option : ndarray of int, shape (n,)
        Option of each row, such as its decision.
    options : int
        Number of options.
    people : ndarray of int, shape (n,)
        Number of each row's person or place.

    Returns
    -------
    ndarray of float, shape (blocks,)
        At least 1, and at most the rows of the block; 1 for a block without a row.

    References
    ----------
    .. [1] J. N. K. Rao and A. J. Scott, "The Analysis of Categorical Data From Complex Sample
       Surveys", Journal of the American Statistical Association 76 (1981).
    """
    order = np.lexsort([people, block])
    total = np.zeros(blocks)
    occurring = np.zeros(blocks)
    rows = np.zeros(blocks)
    alike = np.ones(blocks)
    for number in range(options):
        has_option = (option == number).astype(np.float64)
        means = cell_means(block, blocks, has_option, people=people, order=order)
        rows = means.rows
        is_present = (means.mean > 0) & (means.people > 1)
        occurring += is_present
        ratio = np.zeros(blocks)
        np.divide(means.variance, means.mean, out=ratio, where=is_present)
        total += ratio
        np.divide(rows, means.equal_people, out=alike, where=rows > 0)
    effects = alike.copy()
    np.divide(rows * total, occurring - 1.0, out=effects, where=occurring > 1)
    return np.asarray(np.clip(effects, 1.0, np.maximum(rows, 1.0)))


def prior_rows(
    effects: Float,
    *,
    unseen: float,
    inflation: float,
    is_rate_known: bool = False,
    rng: np.random.Generator,
) -> Float:
    """Draw the unseen rows by which the prior makes a rate of few rows uncertain.

    Parameters
    ----------
    effects : ndarray of float, shape (C,)
        Design effect of each cell: the prior is ``PRIOR`` independent rows, each of so many.
    unseen : float
        Number of unseen rows over that of the validation rows.
    inflation : float
        By how much the variance is larger than that of so many validation rows.
    is_rate_known : bool, default False
        Whether the rate of such rows is their mean; else it is drawn from a gamma distribution,
        which gives Jeffreys' prior of the shares.
    rng : numpy.random.Generator
        Generator of the draws.

    Returns
    -------
    ndarray of float, shape (draws, C)
    """
    shape = (DRAWS, len(effects))
    rate = np.full(shape, PRIOR)
    if not is_rate_known:
        rate = rng.standard_gamma(PRIOR, size=shape) * inflation
    return np.asarray(rng.poisson(rate * unseen) * effects)
