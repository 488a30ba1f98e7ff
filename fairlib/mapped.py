"""Matrices in memory-mapped files: rows that a computation passes over in blocks need no memory."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float32

# Rows that are in memory at a time.
BLOCK_ROWS = 65_536
# Of rows that are far apart in a file.
SPREAD_ROWS = 1024


class MappedFile(mmap.mmap):
    """A mapped file, the folder for further temporary files, and whether these take what trees make
    of it.
    """

    folder: Path
    paged: bool


def new_matrix(shape: tuple[int, int], folder: Path | None = None, paged: bool = False) -> Float32:
    """A float32 matrix without values: in memory, or in a temporary file in `folder`.

    The file has no name any more, so that nothing is left of a process that is killed. OSError if
    the disk has no room for it.

    Parameters
    ----------
    shape : tuple
        Rows and columns.
    folder : Path, optional
        Folder of the temporary file; default: in memory.
    paged : bool, default False
        Whether the bins of trees shall be in files, too.

    Returns
    -------
    ndarray of float32
        Values are not set.

    Raises
    ------
    OSError
        If the disk has no room for the file.
    """
    if folder is None or not all(shape):
        return np.empty(shape, dtype=np.float32)
    with tempfile.TemporaryFile(dir=folder) as file:
        size = shape[0] * shape[1] * 4
        # a full disk is an error here, and later it would end the process without a word
        if size > shutil.disk_usage(folder).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        file.truncate(size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        mapped = MappedFile(file.fileno(), 0)
    mapped.folder = folder
    mapped.paged = paged
    return np.ndarray(shape, dtype=np.float32, buffer=mapped)


def matrix_of(blocks: Iterable[Float32], folder: Path | None = None) -> Float32:
    """The rows of blocks, shape (b, d) each, in a temporary file in `folder`, by default the
    system's.

    Parameters
    ----------
    blocks : sequence of ndarray of float32
        Rows of shape (b, d) each.
    folder : Path, optional
        Folder of the temporary file; default: the system's.

    Returns
    -------
    ndarray of float32, shape (n, d)
        All rows.

    Raises
    ------
    ValueError
        If there are no rows, or blocks of another width.
    OSError
        If the disk has no room for the rows.
    """
    n = 0
    width = -1
    with tempfile.TemporaryFile(dir=folder) as file:
        for block in blocks:
            if width < 0 and block.ndim == 2:
                width = block.shape[-1]
            if block.ndim != 2 or block.shape[1] != width:
                raise ValueError(f"rows must have the shape (b, d), with one d, got {block.shape}.")
            file.write(np.ascontiguousarray(block, dtype=np.float32).data)
            n += len(block)
        if not n * width > 0:
            raise ValueError("there are no rows.")
        file.flush()
        mapped = MappedFile(file.fileno(), 0)
    mapped.folder = Path(folder or tempfile.gettempdir())
    mapped.paged = False
    return np.ndarray((n, width), dtype=np.float32, buffer=mapped)


def mapped_file(matrix: NDArray[Any]) -> MappedFile | None:
    """The file of which an array is a view; None for an array in memory.

    Parameters
    ----------
    matrix : ndarray
        Any array.

    Returns
    -------
    MappedFile or None
        None for an array in memory.
    """
    base: Any = matrix
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, MappedFile) else None


def new_like(matrix: Float32, rows: int | None = None, columns: int | None = None) -> Float32:
    """A matrix without values in the same kind of place; with as many `rows` and `columns` unless
    given.

    Parameters
    ----------
    matrix : ndarray of float32, shape (n, d)
        Matrix in memory, or in a mapped file.
    rows : int, optional
        Rows of the new matrix; default: as many.
    columns : int, optional
        Columns of the new matrix; default: as many.

    Returns
    -------
    ndarray of float32
        Values are not set.
    """
    if rows is None:
        rows = len(matrix)
    if columns is None:
        columns = matrix.shape[1]
    file = mapped_file(matrix)
    if file is None:
        return new_matrix((rows, columns))
    return new_matrix((rows, columns), file.folder, file.paged)


def rows_at(matrix: Float32, positions: NDArray[np.int64]) -> Float32:
    """Copy of the rows at these sorted positions, in the same kind of place.

    Parameters
    ----------
    matrix : ndarray of float32, shape (n, d)
        Matrix in memory, or in a mapped file.
    positions : ndarray, shape (m,)
        Ascending positions of rows.

    Returns
    -------
    ndarray of float32, shape (m, d)
        Copy.
    """
    if mapped_file(matrix) is None:
        return matrix[positions]
    copy = new_like(matrix, len(positions))
    for block in row_blocks(copy):
        copy[block] = gathered(matrix, positions[block])
    return copy


def gathered(matrix: Float32, positions: NDArray[np.int64]) -> Float32:
    """Copy in memory of the rows at these sorted positions.

    Parameters
    ----------
    matrix : ndarray of float32, shape (n, d)
        Matrix in memory, or in a mapped file.
    positions : ndarray, shape (m,)
        Ascending positions of rows.

    Returns
    -------
    ndarray of float32, shape (m, d)
        Copy.
    """
    copy = np.empty((len(positions), matrix.shape[1]), dtype=np.float32)
    span = 0
    if len(positions):
        span = positions[-1] - positions[0]
    size = max(len(positions), 1)
    if span > 4 * len(positions):
        # the system maps 64 KB around each row: rows far apart are given back a few at a time
        size = SPREAD_ROWS
    for start in range(0, len(positions), size):
        part = slice(start, start + size)
        copy[part] = matrix[positions[part]]
        release(matrix)
    return copy


def is_paged(matrix: NDArray[Any]) -> bool:
    """Whether the bins of trees shall be in files.

    Parameters
    ----------
    matrix : ndarray
        Any array.

    Returns
    -------
    bool
        False for an array in memory.
    """
    file = mapped_file(matrix)
    return file is not None and file.paged


def release(matrix: NDArray[Any]) -> None:
    """Give the memory of a mapped file back, which the system would do later; its values stay.

    Parameters
    ----------
    matrix : ndarray
        Any array.
    """
    file = mapped_file(matrix)
    if file is not None and hasattr(mmap, "MADV_DONTNEED"):
        file.madvise(mmap.MADV_DONTNEED)


def give_back() -> None:
    """Give the system the memory back that was freed, where the C library keeps it for later
    (glibc).
    """
    if os.name != "posix":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def row_blocks(matrix: NDArray[Any], rows: int | None = None) -> Iterator[slice]:
    """Places of the blocks of a mapped matrix; a matrix in memory is one block.

    Parameters
    ----------
    matrix : ndarray, shape (n, d)
        Matrix in memory, or in a mapped file.
    rows : int, optional
        Rows of a block; default: :data:`BLOCK_ROWS`.
    """
    rows = rows or BLOCK_ROWS
    if mapped_file(matrix) is None:
        rows = max(len(matrix), 1)
    for start in range(0, len(matrix), rows):
        yield slice(start, min(start + rows, len(matrix)))
        release(matrix)
