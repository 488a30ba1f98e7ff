"""Stable numerical primitives: the one place for anything that can overflow, cancel or divide by zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["logistic_losses", "orthonormal_basis", "pairwise_squared_distances"]

Float = NDArray[np.float64]


def logistic_losses(margin: ArrayLike) -> Float:
    r"""
    Logistic loss of every margin under both labels.

    .. math:: \ell(m, 0) = \log(1 + e^{m}), \qquad \ell(m, 1) = \log(1 + e^{-m})

    Parameters
    ----------
    margin : array-like, shape (n,)
        Log-odds of label 1.

    Returns
    -------
    ndarray of float64, shape (2, n)
        Row ``k`` holds the losses (nats) had every row the label ``k``. ``logaddexp`` keeps them exact for
        margins of any size, where ``log(1 + exp(m))`` overflows beyond 709.
    """
    m = np.asarray(margin, dtype=np.float64)
    return np.stack([np.logaddexp(0.0, m), np.logaddexp(0.0, -m)])


def orthonormal_basis(directions: ArrayLike) -> Float:
    """
    Orthonormal basis of the span of some vectors.

    Parameters
    ----------
    directions : array-like, shape (k, d)
        One direction a row; zero rows and linearly dependent rows are allowed.

    Returns
    -------
    ndarray of float64, shape (d, r)
        Columns span the same space, ``r = rank <= min(k, d)``. Rows are scaled to unit length first, so that
        the rank decision (singular values above ``max(k, d) * eps``) does not depend on their scale.
    """
    rows = np.atleast_2d(np.asarray(directions, dtype=np.float64))
    norms = np.linalg.norm(rows, axis=1)
    rows = rows[norms > 0] / norms[norms > 0, None]
    if rows.size == 0:
        return np.zeros((np.atleast_2d(np.asarray(directions)).shape[1], 0))
    _, singular, vt = np.linalg.svd(rows, full_matrices=False)
    tolerance = max(rows.shape) * np.finfo(np.float64).eps * singular[0]
    return np.ascontiguousarray(vt[singular > tolerance].T)


def pairwise_squared_distances(a: ArrayLike, b: ArrayLike) -> Float:
    r"""
    Squared Euclidean distances by the Gram expansion, clipped at zero.

    .. math:: D_{ij} = \|a_i\|^2 + \|b_j\|^2 - 2 \langle a_i, b_j \rangle

    Parameters
    ----------
    a : array-like, shape (n, d)
    b : array-like, shape (m, d)

    Returns
    -------
    ndarray of float64, shape (n, m)
        The expansion cancels for near points, which can leave tiny negative values: they become 0.
    """
    left = np.asarray(a, dtype=np.float64)
    right = np.asarray(b, dtype=np.float64)
    squared = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)[None, :]
    squared -= 2.0 * (left @ right.T)
    return np.maximum(squared, 0.0, out=squared)
