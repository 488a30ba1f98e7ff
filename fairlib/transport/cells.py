"""Cells of neighbouring places, and lower bounds of the distances to them.

One byte for every place and cell holds the root of a lower bound of the squared distance between
them. The bounds stay the same while boosting. Of many places they are computed only between cells
that may matter to each other, when a search needs them (`NearCells`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.execution import generator, map_in_threads
from evenhand.fairlib.transport import _transport_kernels as kernels

# Cells per square root of the places: more cells give tighter bounds, and more bounds to compare.
CELLS_PER_ROOT = 7.0
# Most bytes of bounds.
MAX_BOUNDS = 512 * 2**20
LLOYD_ITERATIONS = 5
# Of more places, distances are computed only between cells that may matter to each other.
ALL_PAIRS = 100_000
# Most cells then, and bytes of bounds that are kept; places in k-means; cells that are known at
# first.
MAX_CELLS = 16_384
MAX_NEAR = 4 * 2**30
SAMPLED = 131_072
FIRST_CELLS = 16
# Of these cells, parts of at most so many places have bounds of their own.
PART_ROWS = 256
BLOCK_BYTES = 64 * 2**20
# Of products that are made and read while they are in the processor's cache.
CACHED_BYTES = 2 * 2**20
# Places in the sample that gives the unit of the bounds.
UNIT_SAMPLE = 256
# The unit of a bound is this quantile of all bounds / 255^2: larger distances have the root 255.
RANGE_QUANTILE = 0.9
# Share of the root of a quotient that single precision may round up to the next whole number.
ROOT_ROUNDING = np.float32(1.0 - 1e-6)


class Lead(NamedTuple):
    """Principal coordinates in single precision.

    A squared distance is at least theirs times `square` less `slack`; they are not used if
    `square` is 0.
    """

    coordinates: Float32  # (LEADING, m), in the order of the cells
    square: float
    slack: float


@dataclass(frozen=True)
class Cells:
    """Places in cell order: those of one cell follow one another.

    Attributes
    ----------
    lead : Lead
        Principal coordinates of the places.
    place, position : ndarray of int, shape (m,)
        Place at each position, and position of each place.
    start : ndarray of int, shape (cells + 1,)
        First position of every cell, or of every part of one if there is a `near`.
    bounds : ndarray of uint8, shape (m, cells)
        Roots of lower bounds of the squared distance from a position to all places of a cell, in
        units; no columns where these are computed when they are needed, in `near`.
    unit : float
        Squared distance that a bound of 1 means.
    near : NearCells or None
        Bounds that are computed when a search needs them.
    """

    lead: Lead
    place: Int
    position: Int
    start: Int
    bounds: NDArray[np.uint8]
    unit: float
    near: NearCells | None = None


class NearParts(NamedTuple):
    """Parts of cells whose bounds are known to the places of one cell."""

    part: Int  # (parts,): their numbers
    begin: Int  # (parts,): first position of each
    end: Int  # (parts,): position after the last of each
    bounds: NDArray[np.uint8]  # (places of the cell, parts): as in `Cells.bounds`
    offset: int  # first position of the cell


class NearCells:
    """Bounds between cells, and from the places of a cell to those that its envelopes needed.

    The latter are by the parts of cells, ``part[c]:part[c + 1]``.

    Parameters
    ----------
    distances : Distances
        Of the parts.
    part : ndarray of int, shape (cells + 1,)
        First part of every cell.
    unit : float
        Of the bounds, as in :class:`Cells` but for the scale of the distances.
    jobs : int
        Threads; the bounds do not depend on it.

    Attributes
    ----------
    start : ndarray of int, shape (cells + 1,)
        First position of every cell.
    apart : ndarray of uint8, shape (cells, cells)
        Roots of lower bounds of the squared distance, in units.
    listed : list of ndarray of int
        By cell, the parts whose bounds are known.
    known : ndarray of bool, shape (cells, cells)
        By cell, the cells whose parts these are.
    bounds : list of ndarray of uint8
        By cell, the bounds of `listed`, by place.
    kept : int
        Bytes of all `bounds`.
    """

    def __init__(self, distances: Distances, part: Int, unit: float, jobs: int) -> None:
        self.distances = distances
        self.part = part
        self.unit = unit
        self.start = distances.start[part]
        self.apart = distances.gaps(self.start, unit, jobs)
        self.listed = [np.empty(0, dtype=np.int64)] * len(self.apart)
        self.known = np.zeros(self.apart.shape, dtype=bool)
        self.bounds = [np.empty((size, 0), dtype=np.uint8) for size in np.diff(self.start)]
        self.kept = 0

    def load(self, top: Float) -> None:
        """Take the largest losses of a step.

        Parameters
        ----------
        top : ndarray of float, shape (classes, parts)
            Largest loss of every part (nats).
        """
        self.top = np.maximum.reduceat(top, self.part[:-1], axis=1)

    def of(self, cell: int, done: int) -> NearParts:
        """Give the parts whose bounds to a cell are known.

        Parameters
        ----------
        cell : int
        done : int
            So many of the first ones are left out.

        Returns
        -------
        NearParts
        """
        if not len(self.listed[cell]):
            nearest = np.argsort(self.apart[cell], kind="stable")[:FIRST_CELLS]
            self._extend(cell, np.union1d(nearest, [cell]))
        listed = self.listed[cell][done:]
        start = self.distances.start
        bounds = np.ascontiguousarray(self.bounds[cell][:, done:])
        return NearParts(listed, start[listed], start[listed + 1], bounds, self.start[cell])

    def add(self, cell: int, unit: float, limits: kernels.Limits, least: Float) -> bool:
        """Compute the bounds to all cells that can reach the least values.

        Parameters
        ----------
        cell : int
        unit : float
            Squared distance that a bound of 1 means.
        limits : Limits
            With the bracket of multipliers.
        least : ndarray of float, shape (classes, 2)
            Least value with which a row may change an envelope, at both ends of the bracket (nats).

        Returns
        -------
        bool
            Whether there were any.
        """
        rates = limits.low * unit, limits.high * unit
        missing = kernels.reaching(self.apart[cell], self.known[cell], self.top, rates, least)
        if len(missing):
            self._extend(cell, missing)
        return len(missing) > 0

    def release(self, cell: int) -> None:
        """Drop the bounds of a cell if those of all take too much memory.

        A search that needs them computes them again.

        Parameters
        ----------
        cell : int
        """
        if self.kept <= MAX_NEAR:
            return
        self.kept -= self.bounds[cell].nbytes
        self.known[cell] = False
        self.listed[cell] = self.listed[cell][:0]
        self.bounds[cell] = self.bounds[cell][:, :0].copy()

    def _extend(self, cell: int, others: Int) -> None:
        """Compute the bounds from the places of a cell to the parts of other cells."""
        others = others[np.argsort(self.apart[cell, others], kind="stable")]
        parts = _ranges(self.part[others], self.part[others + 1])
        start = self.distances.start
        rows = slice(self.start[cell], self.start[cell + 1])
        # blocks of parts whose products stay in the processor's cache
        sizes = np.cumsum(start[parts + 1] - start[parts])
        width = max(1, CACHED_BYTES // (4 * (rows.stop - rows.start)))
        blocks = np.split(parts, np.flatnonzero(np.diff(sizes // width)) + 1)
        added = [in_units(self.distances.nearest(rows, block), self.unit) for block in blocks]
        self.kept += sum(block.nbytes for block in added)
        self.bounds[cell] = np.concatenate([self.bounds[cell], *added], axis=1)
        self.listed[cell] = np.append(self.listed[cell], parts)
        # last: what is interrupted before counts as missing
        self.known[cell, others] = True


class Distances:
    """Lower bounds of squared distances from products in single precision, less their rounding.

    Parameters
    ----------
    scaled : ScaledPlaces
        In the order of the cells.
    start : ndarray of int, shape (cells + 1,)
        First position of every cell.
    """

    def __init__(self, scaled: ScaledPlaces, start: Int) -> None:
        self.start = start
        self.single = np.empty(scaled.places.shape, dtype=np.float32)
        norms = np.empty(len(self.single))
        for rows, points in scaled.blocks():
            self.single[rows] = points
            norms[rows] = np.einsum("ij,ij->i", points, points)
        # |a|^2 + |b|^2 - 2ab in single precision is off by less than this share of |a|^2 + |b|^2
        self.slack = 2.0 * (scaled.places.shape[1] + 8) * float(np.finfo(np.float32).eps)
        self.low = (norms * (1.0 - self.slack)).astype(np.float32)
        self.largest = float(norms.max(initial=0.0))

    def nearest(
        self, rows: Int | slice, cells: Int | None = None, products: Float32 | None = None
    ) -> Float32:
        """Lower bounds of the squared distances of some rows to some cells.

        Parameters
        ----------
        rows : ndarray of int or slice
            Positions of r rows.
        cells : ndarray of int, shape (c,), or None
            None: all cells.
        products : ndarray of float32, shape (r, positions), or None
            Inner products of the rows with all positions of the cells; None computes them.

        Returns
        -------
        ndarray of float32, shape (r, c)
            In squares of the scale.
        """
        start = self.start
        low = self.low
        single = self.single
        if cells is not None:
            columns = _ranges(start[cells], start[cells + 1])
            start = np.concatenate([[0], np.cumsum(start[cells + 1] - start[cells])])
            low = low[columns]
            single = single[columns]
        if products is None:
            products = self.single[rows] @ single.T
        bounds = np.empty((len(products), len(start) - 1), dtype=np.float32)
        kernels.nearest_cells(products, self.low[rows], low, start, bounds)
        return bounds

    def gaps(self, start: Int, unit: float, jobs: int) -> NDArray[np.uint8]:
        """Roots of lower bounds of the squared distances between cells.

        Two cells are apart by at least the gap between the intervals that they cover on the line
        through their centres.

        Parameters
        ----------
        start : ndarray of int, shape (cells + 1,)
            First position of every cell.
        unit : float
            Of the bounds.
        jobs : int
            Threads; the result does not depend on it.

        Returns
        -------
        ndarray of uint8, shape (cells, cells)
            In units, rounded down.
        """
        sizes = np.diff(start)
        counts = sizes[:, None].astype(np.float32)
        sums = np.add.reduceat(self.single, start[:-1], axis=0)
        single_centres: Float32 = (sums / counts).astype(np.float32, copy=False)
        least = self._least_margins(start, single_centres, jobs)
        centres = single_centres.astype(np.float64)
        squared = np.einsum("ij,ij->i", centres, centres)
        rounding = np.float32(2.0 * self.slack * self.largest)
        roots = np.empty(least.shape, dtype=np.uint8)
        for rows in _slices(len(sizes), BLOCK_BYTES // (8 * len(sizes))):
            # between the centres, by |a|^2 + |b|^2 - 2ab
            apart = squared[rows, None] + squared - 2.0 * (centres[rows] @ centres.T)
            gap = least[rows] + least[:, rows].T - rounding
            gap = np.maximum(gap, np.float32(0.0))
            bounds = gap * gap / (apart + 1e-12 * self.largest + 1e-30).astype(np.float32)
            roots[rows] = in_units(bounds, unit)
        return roots

    def _least_margins(self, start: Int, centres: Float32, jobs: int) -> Float32:
        """By cell, how much the product of its rows with its own centre exceeds those with others.

        The least over its rows, shape (cells, cells).
        """
        cells = len(centres)
        least = np.full((cells, cells), np.inf, dtype=np.float32)
        owner = np.repeat(np.arange(cells), np.diff(start))

        def _fill(first: int, last: int) -> None:
            for block in _slices(start[last] - start[first], CACHED_BYTES // (4 * cells)):
                rows = slice(start[first] + block.start, start[first] + block.stop)
                kernels.lower_margins(self.single[rows] @ centres.T, owner[rows], least)

        block_rows = max(1, BLOCK_BYTES // (4 * cells))
        edges = np.searchsorted(start, np.arange(0, start[-1], block_rows))
        edges = np.unique(np.append(edges, cells))
        map_in_threads(jobs, _fill, edges[:-1], edges[1:])
        return least


@dataclass(frozen=True)
class ScaledPlaces:
    """Places in some order, divided by a scale.

    They are given in blocks, because a copy of all takes as much memory as they.

    Attributes
    ----------
    places : ndarray of float, shape (m, d)
    order : ndarray of int, shape (m,)
    scale : float
    """

    places: Float
    order: Int
    scale: float

    def blocks(self) -> Iterator[tuple[slice, Float]]:
        """Go over the places in their order.

        Yields
        ------
        slice
            Of the order.
        ndarray of float, shape (rows of the block, d)
            The scaled places there.
        """
        for rows in _slices(len(self.order), BLOCK_BYTES // (8 * max(1, self.places.shape[1]))):
            yield rows, self.places[self.order[rows]] / self.scale


def in_units(bounds: Float32, unit: float) -> NDArray[np.uint8]:
    """Roots of bounds of squared distances in units, rounded down.

    Parameters
    ----------
    bounds : ndarray of float32
    unit : float
        Squared distance that a root of 1 means.

    Returns
    -------
    ndarray of uint8, of the same shape
        At most 255.
    """
    roots = np.sqrt(bounds / np.float32(unit)) * ROOT_ROUNDING
    return np.minimum(roots, np.float32(255.0)).astype(np.uint8)


def build_cells(places: Float, jobs: int) -> Cells:
    """Group places by k-means and bound the distance of every place to every cell.

    The bounds are computed from all pairwise distances in single precision, less their rounding, so
    that no bound exceeds a distance. Memory: the bounds and one block of distances. Of more than
    `ALL_PAIRS` places the distances are computed only between cells that are not proven to be too
    far apart.

    Parameters
    ----------
    places : ndarray of float, shape (m, d)
    jobs : int
        Threads; the result does not depend on it.

    Returns
    -------
    Cells
    """
    m = len(places)
    lazy = m > ALL_PAIRS
    # scaled by the largest coordinate, squares stay within single precision
    scale = float(np.abs(places).max(initial=0.0)) or 1.0
    most = MAX_CELLS if lazy else MAX_BOUNDS / m
    cell_of = _cluster(places, scale, int(min(CELLS_PER_ROOT * np.sqrt(m), most)), jobs)
    place = np.argsort(cell_of, kind="stable")
    start = np.append(np.flatnonzero(np.diff(cell_of[place], prepend=-1)), m)
    lead = Lead(np.zeros((kernels.LEADING, 1), dtype=np.float32), 0.0, 0.0)
    if lazy:
        by_place = _leading(ScaledPlaces(places, np.arange(m), scale))
        place, start, part = _divide(place, start, by_place.coordinates)
        lead = by_place._replace(coordinates=by_place.coordinates[:, place])
    position = np.empty(m, dtype=np.int64)
    position[place] = np.arange(m)
    distances = Distances(ScaledPlaces(places, place, scale), start)
    unit = _unit(distances)
    if lazy:
        with threadpool_limits(1, "blas"):
            near = NearCells(distances, part, unit, jobs)
        no_bounds = np.empty((m, 0), np.uint8)
        return Cells(lead, place, position, start, no_bounds, unit * scale**2, near)
    bounds = _all_bounds(distances, unit, jobs)
    return Cells(lead, place, position, start, bounds, unit * scale**2)


def _cluster(places: Float, scale: float, count: int, jobs: int) -> Int:
    """Number of every place's cell, by k-means; each place its own where there are that many."""
    m = len(places)
    if count >= m:
        return np.arange(m)
    means = KMeans(
        max(1, count), init="random", n_init=1, max_iter=LLOYD_ITERATIONS, random_state=0
    )

    def _scaled(rows: Int | slice) -> Float32:
        return (places[rows] / scale).astype(np.float32)

    def _assigned(rows: slice) -> Int:
        labels: Int = means.predict(_scaled(rows))
        return labels

    sample: Int | slice = slice(None)
    if m > SAMPLED:
        sample = generator(0, "cells").choice(m, SAMPLED, replace=False)
    # one thread: sums in another order would give other cells on another machine
    with threadpool_limits(1), warnings.catch_warnings():
        # fewer places than cells in single precision: a caller drops empty cells
        warnings.simplefilter("ignore", ConvergenceWarning)
        cell_of: Int = means.fit(_scaled(sample)).labels_
        if m > SAMPLED:
            cell_of = np.concatenate(map_in_threads(jobs, _assigned, _slices(m, SAMPLED)))
    return cell_of


def _divide(place: Int, start: Int, lead: Float32) -> tuple[Int, Int, Int]:
    """Divide cells into parts of at most `PART_ROWS` places.

    `place` and `start` are as in `Cells`, and so are the first two results, of parts; the third is
    the first part of every cell.
    """
    parts: list[Int] = []
    part = [0]
    for first, last in zip(start[:-1], start[1:], strict=True):
        parts += _halved(place[first:last], lead)
        part.append(len(parts))
    sizes = [len(rows) for rows in parts]
    return np.concatenate(parts), np.cumsum([0, *sizes]), np.array(part)


def _halved(places: Int, lead: Float32) -> list[Int]:
    """Places in parts of at most `PART_ROWS`, halved where a coordinate of `lead` varies most."""
    if len(places) <= PART_ROWS:
        return [places]
    here = lead[:, places]
    places = places[np.argsort(here[here.var(axis=1).argmax()], kind="stable")]
    half = len(places) // 2
    return _halved(places[:half], lead) + _halved(places[half:], lead)


def _leading(scaled: ScaledPlaces) -> Lead:
    """Principal coordinates, in the order of the scaled places."""
    products = sum(points.T @ points for _, points in scaled.blocks())
    axes = np.linalg.eigh(products)[1][:, ::-1][:, : kernels.LEADING]
    scale = scaled.scale
    lead = np.zeros((kernels.LEADING, len(scaled.order)), dtype=np.float32)
    for rows, points in scaled.blocks():
        lead[: axes.shape[1], rows] = (points @ axes).T
    # single precision rounds each difference; (a + b)^2 <= 1.0005 a^2 + 2001 b^2
    rounding = 2.0 * float(np.finfo(np.float32).eps * np.abs(lead).max(initial=0.0))
    return Lead(lead, 0.999 * scale**2, 2001.0 * kernels.LEADING * (scale * rounding) ** 2)


def _unit(distances: Distances) -> float:
    """Squared distance that a bound of 1 means, by the bounds of a sample of the places."""
    m = len(distances.single)
    sample = np.linspace(0, m - 1, min(m, UNIT_SAMPLE)).astype(np.int64)
    # all at once, their products with ten million places would take 10 GB
    blocks = _slices(len(sample), BLOCK_BYTES // (4 * m))
    bounds = np.concatenate([distances.nearest(sample[block]) for block in blocks])
    return max(float(np.quantile(bounds, RANGE_QUANTILE)), 1e-30) / 255.0**2


def _all_bounds(distances: Distances, unit: float, jobs: int) -> NDArray[np.uint8]:
    """Bounds from all places to all cells, as in `Cells.bounds`."""
    m = len(distances.single)
    bounds = np.empty((m, len(distances.start) - 1), dtype=np.uint8)

    def _fill(first: int, products: Float32) -> None:
        rows = slice(first, first + len(products))
        bounds[rows] = in_units(distances.nearest(rows, products=products), unit)

    width = max(1, BLOCK_BYTES // (4 * m))
    for first in range(0, m, width):
        products = distances.single[first : first + width] @ distances.single.T
        parts = np.array_split(products, jobs)
        sizes = [len(part) for part in parts[:-1]]
        map_in_threads(jobs, _fill, first + np.cumsum([0, *sizes]), parts)
    return bounds


def _ranges(first: Int, last: Int) -> Int:
    """Numbers from each `first` to before its `last`, one range after another."""
    sizes = last - first
    before = np.cumsum(sizes) - sizes
    return np.arange(sizes.sum()) + np.repeat(first - before, sizes)


def _slices(rows: int, size: int) -> list[slice]:
    """Slices of so many rows, at least one, that cover all rows."""
    size = max(1, size)
    return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]
