"""
Exact column searches by branch and bound over cells of neighbouring places.

For every place and cell a lower bound of the least squared distance between them is kept in one byte. These
bounds never change while boosting; a search only needs the largest loss in each cell, and passes over the
cells that cannot reach the envelope even at that bound.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from evenhand.fairlib.transport._kernels import floor_bounds, nearest_cells

__all__ = ["Cells", "build_cells"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Cells per square root of the places: more cells are tighter, and cost more to pass over.
CELLS_PER_ROOT = 7.0
# Bounds kept, one byte for every place and cell.
MAX_BOUNDS = 512 * 2**20
LLOYD_ITERATIONS = 5
BLOCK_BYTES = 64 * 2**20
# A step of the bound is this quantile of all bounds / 255: beyond it every distance counts as that.
RANGE_QUANTILE = 0.9


@dataclass(frozen=True)
class Cells:
    """
    Places grouped into cells, places of a cell side by side.

    Attributes
    ----------
    points : ndarray of float64, shape (m, d)
        Places in cell order.
    place : ndarray of int64, shape (m,)
        Place at each position, and its inverse `position`.
    start : ndarray of int64, shape (cells + 1,)
    bounds : ndarray of uint8, shape (m, cells)
        In units of `unit`: no row of the cell is nearer to the position than this (squared distance).
    """

    points: Float
    place: Int
    position: Int
    start: Int
    bounds: NDArray[np.uint8]
    unit: float

    def order(self, losses: Float) -> tuple[Int, Float]:
        """
        Positions within every cell by descending loss, and the largest loss of every cell.

        Parameters
        ----------
        losses : ndarray, shape (classes, m)
            By position.
        """
        ordered = np.empty(losses.shape, dtype=np.int64)
        cell_of = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        for k, row in enumerate(losses):
            ordered[k] = np.lexsort((-row, cell_of))
        return ordered, np.maximum.reduceat(losses, self.start[:-1], axis=1)


def build_cells(places: Float, jobs: int) -> Cells:
    """
    Group places by k-means and bound the distance of every place to every cell.

    The bounds come from all pairwise distances in single precision, less their rounding, so that a bound
    never exceeds the distance. Memory is that of the bounds and of one block.
    """
    m = len(places)
    wanted = int(min(CELLS_PER_ROOT * np.sqrt(m), MAX_BOUNDS / m))
    # squares of the largest coordinate stay within single precision
    scale = float(np.abs(places).max(initial=0.0)) or 1.0
    cell_of = np.arange(m)
    if wanted < m:
        means = KMeans(max(1, wanted), init="random", n_init=1, max_iter=LLOYD_ITERATIONS, random_state=0)
        # one thread: sums in another order would give other cells on another machine
        with threadpool_limits(1), warnings.catch_warnings():
            # fewer places than cells in single precision: the empty ones are dropped below
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
    cells = len(start) - 1
    sample = np.linspace(0, m - 1, min(m, 256)).astype(np.int64)
    nearest = np.empty((len(sample), cells), dtype=np.float32)
    nearest_cells(single[sample] @ single.T, low[sample], low, start, nearest)
    unit = max(float(np.quantile(nearest, RANGE_QUANTILE)), 1e-30) / 255.0

    bounds = np.empty((m, cells), dtype=np.uint8)
    width = max(1, BLOCK_BYTES // (4 * m))
    with ThreadPoolExecutor(jobs) as pool:
        for first in range(0, m, width):
            block = slice(first, min(first + width, m))
            products = single[block] @ single.T
            parts = np.array_split(np.arange(len(products)), jobs)

            def one(part: Int, products: NDArray[np.float32] = products, first: int = first) -> None:
                if len(part):
                    rows = slice(part[0], part[-1] + 1)
                    kept = slice(first + part[0], first + part[-1] + 1)
                    floor_bounds(products[rows], low[kept], low, start, np.float32(unit), bounds[kept])

            list(pool.map(one, parts))
    return Cells(points, place, position, start, bounds, unit * scale**2)
