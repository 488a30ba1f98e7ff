"""
Places grouped into cells, for exact column searches by branch and bound.

One byte for every place and cell holds a lower bound of the squared distance between them. The bounds stay
the same while boosting. A search needs only the largest loss in each cell, and skips every cell that cannot
reach the envelope even at its bound.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from evenhand.fairlib.cores import map_in_threads
from evenhand.fairlib.transport._kernels import nearest_cells

__all__ = ["Cells", "build_cells"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Cells per square root of the places: more cells give tighter bounds, and more bounds to compare.
CELLS_PER_ROOT = 7.0
# Most bytes of bounds.
MAX_BOUNDS = 512 * 2**20
LLOYD_ITERATIONS = 5
BLOCK_BYTES = 64 * 2**20
# The unit of a bound is this quantile of all bounds / 255: larger distances have the bound 255.
RANGE_QUANTILE = 0.9
# Share of a quotient that single precision may round up to the next whole number.
DIVISION_ROUNDING = np.float32(1.0 - 1e-6)


@dataclass(frozen=True)
class Cells:
    """Places in cell order: those of one cell are neighbours in memory."""

    # (m, d): places in cell order
    points: Float
    # (m,): place at each position, and position of each place
    place: Int
    position: Int
    # (cells + 1,): first position of every cell
    start: Int
    # (m, cells): lower bounds of the squared distance from a position to all places of a cell, in units
    bounds: NDArray[np.uint8]
    unit: float

    def order(self, losses: Float) -> tuple[Int, Float]:
        """Positions of every cell by descending loss, and its largest loss, from losses (classes, m)."""
        ordered = np.empty(losses.shape, dtype=np.int64)
        cell_of = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        for k, row in enumerate(losses):
            ordered[k] = np.lexsort((-row, cell_of))
        return ordered, np.maximum.reduceat(losses, self.start[:-1], axis=1)


def build_cells(places: Float, jobs: int) -> Cells:
    """
    Group places by k-means and bound the distance of every place to every cell.

    The bounds are computed from all pairwise distances in single precision, less their rounding, so that no
    bound exceeds a distance. Memory: the bounds and one block of distances.
    """
    m = len(places)
    wanted = int(min(CELLS_PER_ROOT * np.sqrt(m), MAX_BOUNDS / m))
    # scaled by the largest coordinate, squares stay within single precision
    scale = float(np.abs(places).max(initial=0.0)) or 1.0
    cell_of = np.arange(m)
    if wanted < m:
        means = KMeans(max(1, wanted), init="random", n_init=1, max_iter=LLOYD_ITERATIONS, random_state=0)
        # one thread: sums in another order would give other cells on another machine
        with threadpool_limits(1), warnings.catch_warnings():
            # fewer places than cells in single precision: empty cells are dropped below
            warnings.simplefilter("ignore", ConvergenceWarning)
            cell_of = means.fit((places / scale).astype(np.float32)).labels_
    place = np.argsort(cell_of, kind="stable")
    position = np.empty(m, dtype=np.int64)
    position[place] = np.arange(m)
    start = np.append(np.flatnonzero(np.diff(cell_of[place], prepend=-1)), m)
    points = np.ascontiguousarray(places[place])

    scaled = points / scale
    single = scaled.astype(np.float32)
    norms = np.einsum("ij,ij->i", scaled, scaled)
    # |a|^2 + |b|^2 - 2ab in single precision is off by less than this share of |a|^2 + |b|^2
    slack = 2.0 * (points.shape[1] + 8) * float(np.finfo(np.float32).eps)
    low = (norms * (1.0 - slack)).astype(np.float32)

    def nearest(rows: Int | slice, products: NDArray[np.float32]) -> NDArray[np.float32]:
        """Lower bounds of the squared distances of some rows to every cell."""
        found = np.empty((len(products), len(start) - 1), dtype=np.float32)
        nearest_cells(products, low[rows], low, start, found)
        return found

    sample = np.linspace(0, m - 1, min(m, 256)).astype(np.int64)
    sampled = nearest(sample, single[sample] @ single.T)
    unit = max(float(np.quantile(sampled, RANGE_QUANTILE)), 1e-30) / 255.0
    bounds = np.empty((m, len(start) - 1), dtype=np.uint8)

    def fill(first: int, products: NDArray[np.float32]) -> None:
        rows = slice(first, first + len(products))
        units = nearest(rows, products) / np.float32(unit) * DIVISION_ROUNDING
        bounds[rows] = np.minimum(units, np.float32(255.0))

    width = max(1, BLOCK_BYTES // (4 * m))
    for first in range(0, m, width):
        parts = np.array_split(single[first : first + width] @ single.T, jobs)
        starts = first + np.cumsum([0, *(len(part) for part in parts[:-1])])
        map_in_threads(jobs, fill, starts, parts)
    return Cells(points, place, position, start, bounds, unit * scale**2)
