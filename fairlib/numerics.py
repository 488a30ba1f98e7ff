"""Stable numerical primitives: the one place for anything that can overflow, cancel or divide by
zero.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float

MAX_LOG_LOSS = -float(np.log(np.finfo(np.float64).eps))
"""Log loss (nats) of a model that is certain and wrong, as :func:`log_losses` counts it."""


def logistic_losses(margin: ArrayLike) -> Float:
    r"""Logistic loss (nats) of n log-odds of label 1 under both labels, shape (2, n); exact for any
    size.

    .. math:: \ell(m, 0) = \log(1 + e^{m}), \qquad \ell(m, 1) = \log(1 + e^{-m})

    Parameters
    ----------
    margin : array-like, shape (n,)
        Log-odds of label 1.

    Returns
    -------
    ndarray of float64, shape (2, n)
        Loss under label 0 and under label 1.

    Examples
    --------
    >>> logistic_losses([0.0]).round(4).tolist()
    [[0.6931], [0.6931]]
    """
    # log(1 + exp(m)) overflows above 709, logaddexp does not
    m = np.asarray(margin, dtype=np.float64)
    return np.stack([np.logaddexp(0.0, m), np.logaddexp(0.0, -m)])


def log_losses(probabilities: ArrayLike) -> Float:
    r"""Log loss :math:`-\log p_k` (nats) of probabilities, shape (n, K), under every label, shape
    (K, n).

    A probability below the machine epsilon (2.2e-16) counts as that, so that a model which is
    certain and wrong has a large loss, not an infinite one.

    Parameters
    ----------
    probabilities : array-like, shape (n, K)
        Probabilities of each label.

    Returns
    -------
    ndarray of float64, shape (K, n)
        Losses, at most :data:`MAX_LOG_LOSS`.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    return np.ascontiguousarray(-np.log(np.clip(p, np.finfo(np.float64).eps, 1.0)).T)


def softmax_losses(margins: ArrayLike) -> Float:
    r"""Multinomial logistic loss (nats) of margins, shape (n, K), under every label, shape (K, n).

    .. math:: \ell(m, k) = \log \sum_c e^{m_c} - m_k

    Margins are unnormalised log-probabilities of any size.

    Parameters
    ----------
    margins : array-like, shape (n, K)
        Unnormalised log-probabilities of any size.

    Returns
    -------
    ndarray of float64, shape (K, n)
        Losses.
    """
    from scipy.special import logsumexp

    m = np.asarray(margins, dtype=np.float64)
    return np.ascontiguousarray((logsumexp(m, axis=1)[:, None] - m).T)


def orthonormal_basis(directions: ArrayLike) -> Float:
    """Orthonormal basis, shape (d, r), of the span of k directions, shape (k, d), which must be
    finite.

    Zero rows and linearly dependent rows are allowed: r is the rank. Rows are scaled to unit length
    first, so that the rank (singular values above ``max(k, d) * eps``) does not depend on their
    scale.

    Parameters
    ----------
    directions : array-like, shape (k, d)
        Finite directions.

    Returns
    -------
    ndarray of float64, shape (d, r)
        Orthonormal columns.

    Raises
    ------
    ValueError
        If a direction is not finite.
    """
    rows = np.atleast_2d(np.asarray(directions, dtype=np.float64))
    if not np.isfinite(rows).all():
        raise ValueError("directions must be finite: one of them holds NaN or infinity.")
    width = rows.shape[1]
    # dividing by the largest entry first: squares overflow beyond 1e154 and vanish below 1e-162
    peaks = np.abs(rows).max(axis=1, initial=0.0)
    rows = rows[peaks > 0] / peaks[peaks > 0, None]
    if rows.size == 0:
        return np.zeros((width, 0))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    _, singular, vt = np.linalg.svd(rows, full_matrices=False)
    tolerance = max(rows.shape) * np.finfo(np.float64).eps * singular[0]
    return np.ascontiguousarray(vt[singular > tolerance].T)


def wilson_interval(count: int, n: int, level: float) -> tuple[float, float]:
    r"""Score interval of a share (Wilson 1927).

    .. math:: \frac{\hat p + \frac{z^2}{2n}
              \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n} + \frac{z^2}{4n^2}}}
              {1 + z^2 / n}

    Parameters
    ----------
    count : int
        People with the property.
    n : int
        All people, at least 1.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    tuple of two floats
        Ends within [0, 1], around ``count / n``.

    Raises
    ------
    ValueError
        If `count` is no part of `n`.

    References
    ----------
    .. [1] E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference",
       Journal of the American Statistical Association 22 (1927).
    """
    if not 0 <= count <= n or n < 1:
        raise ValueError(f"count: got {count} of {n}, expected a part of at least one row")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = count / n
    middle = share + z * z / (2 * n)
    half = z * (share * (1.0 - share) / n + (z / (2 * n)) ** 2) ** 0.5
    low = (middle - half) / (1 + z * z / n)
    high = (middle + half) / (1 + z * z / n)
    # at the ends rounding may leave the share just outside
    return max(0.0, min(low, share)), min(1.0, max(high, share))
