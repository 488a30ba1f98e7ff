"""Weights that make groups alike in the columns that do not differ between them.

By chance the members of one group have a little more merit in a sample than those of another. In
columns whose distribution is the same in every group this can be seen, and weights remove it. What
is then measured of another column, such as the difference of its means, has a smaller sampling
error (calibration weights, Deville and Särndal 1992).
"""

from __future__ import annotations

import numpy as np

from evenhand.fairlib.arrays import Float, Index

# Least people of a group for each moment.
ROWS_PER_MOMENT = 20
# Limits of a weight, so that no few people stand for a group.
LEAST_WEIGHT = 0.2
LARGEST_WEIGHT = 3.0


def balance_weights(moments: Float, codes: Index, n_groups: int) -> Float:
    r"""Weights of rows under which every group has the means of all rows.

    With a row's moments :math:`\phi_i`, their mean :math:`\bar\phi_g` and covariance :math:`S_g` in
    its group:

    .. math:: w_i = 1 + (\phi_i - \bar\phi_g)^\top S_g^{-1} (\bar\phi - \bar\phi_g)

    within .2 and 3. This is the change of the weights with the least squares.

    Parameters
    ----------
    moments : ndarray of float, shape (n, k)
        Values whose expectation is the same in every group. As many are used, the first ones, as
        the smallest group has 20 rows for each.
    codes : ndarray of int, shape (n,)
        Group of every row.
    n_groups : int

    Returns
    -------
    ndarray of float, shape (n,)
        With mean 1 in each group; all 1 without moments.

    References
    ----------
    J.-C. Deville and C.-E. Särndal, "Calibration Estimators in Survey Sampling", Journal of the
    American Statistical Association 87 (1992).

    Examples
    --------
    >>> moments = np.tile([[0.0], [1.0], [1.0], [2.0]], (20, 1))
    >>> moments[:40] += 0.1
    >>> codes = np.repeat([0, 1], 40)
    >>> weights = balance_weights(moments, codes, 2)
    >>> means = [np.average(moments[codes == g, 0], weights=weights[codes == g]) for g in (0, 1)]
    >>> np.round(means, 3).tolist()
    [1.05, 1.05]
    """
    weights = np.ones(len(codes))
    smallest = int(np.bincount(codes, minlength=n_groups).min())
    used = moments[:, : smallest // ROWS_PER_MOMENT]
    if used.shape[1] == 0:
        return weights
    target = used.mean(axis=0)
    for group in range(n_groups):
        members = np.flatnonzero(codes == group)
        part = used[members]
        centred = part - part.mean(axis=0)
        covariance = centred.T @ centred / len(part)
        # constant moments change nothing
        change = np.linalg.pinv(covariance, hermitian=True) @ (target - part.mean(axis=0))
        changed = np.clip(1.0 + centred @ change, LEAST_WEIGHT, LARGEST_WEIGHT)
        weights[members] = changed / changed.mean()
    return weights


def moments_of(residuals: list[Float]) -> Float:
    """Moments of columns: first the values of all, then their squares.

    Parameters
    ----------
    residuals : list of ndarray of float, shape (n,)
        Columns less what is expected of them.

    Returns
    -------
    ndarray of float, shape (n, k)
        Standardised; constant columns are left out, as are squares of columns with two values.
    """
    values = []
    squares = []
    for residual in residuals:
        spread = residual.std()
        if spread == 0:
            continue
        standardised = (residual - residual.mean()) / spread
        values.append(standardised)
        if len(np.unique(residual[:1000])) > 2:
            # within three standard deviations, so that single people do not decide
            squares.append(np.minimum(standardised**2, 9.0))
    if not values:
        return np.empty((len(residuals[0]) if residuals else 0, 0))
    return np.column_stack(values + squares)
