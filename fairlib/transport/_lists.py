"""
Column searches over lists of neighbours, nearest first.

With every row in the list the search is exact; with the k nearest it is exact among them, and a column is
proven where no row outside the list could do better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from evenhand.fairlib.transport._kernels import listed_distances

__all__ = ["Lists", "nearest_lists", "sorted_lists"]

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Lists:
    """
    Places by ascending cost.

    Attributes
    ----------
    place : ndarray of int32, shape (m, k)
    cost : ndarray of float64, shape (m, k)
    whole : bool
        Whether every list holds all places.
    """

    place: NDArray[np.int32]
    cost: Float
    whole: bool

    def nearest(self, k: int) -> Lists:
        """The first k places of every list."""
        return Lists(np.ascontiguousarray(self.place[:, :k]), np.ascontiguousarray(self.cost[:, :k]), False)


def sorted_lists(costs: Float) -> Lists:
    """All rows of a cost matrix in order of what it costs to move a column there."""
    columns = np.ascontiguousarray(costs.T)
    order = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
    return Lists(order, np.take_along_axis(columns, order.astype(np.int64), axis=1), True)


def nearest_lists(places: Float, neighbours: int, jobs: int) -> Lists:
    """The nearest places of every place, itself included, with their exact squared distances."""
    k = min(neighbours, len(places))
    search = NearestNeighbors(n_neighbors=k, n_jobs=jobs).fit(places)
    found = search.kneighbors(places, return_distance=False)
    costs = np.empty(found.shape)
    listed_distances(places, found, costs)
    order = np.argsort(costs, axis=1, kind="stable")
    return Lists(
        np.take_along_axis(found, order, axis=1).astype(np.int32),
        np.take_along_axis(costs, order, axis=1),
        k == len(places),
    )
