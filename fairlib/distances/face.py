"""FACE: the directions along which comparable people differ do not count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float, Index
from evenhand.fairlib.distances.metric_base import Metric, check_source, group_codes
from evenhand.fairlib.row_order import check_row_order

Blocks = Callable[[], Iterator[Float]]


@dataclass(repr=False, eq=False)
class FACE(Metric):
    r"""Euclidean distance outside the leading directions of the differences within comparable
    groups.

    .. math:: \Sigma = I - B B^\top, \qquad
        B = \text{leading } k \text{ right singular vectors of } \big(x_i - \bar x_{g(i)}\big)_i

    where :math:`\bar x_g` is the mean of group g (factor analysis of comparable embeddings:
    Mukherjee et al. 2020, algorithm 1; Yurochkin and Sun 2021, appendix B). A group is given by the
    user: rows that share an id, or a row with its counterfactual copies. For pairs of a row and one
    copy it is the singular value decomposition of :math:`X - X'`.

    Parameters
    ----------
    n_directions : int or None
        k.
    explained_variance : float or None
        In (0, 1]: the least k whose squared singular values reach this share of their sum. Give
        either this or `n_directions`.

    Attributes
    ----------
    explained_variance_ratio_ : ndarray of float64, shape (k,)
        Share of the squared differences that lies along each column of ``basis_``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 3.0], [1.0, 3.0]])
    >>> metric = FACE(n_directions=1).fit(X, groups=["a", "a", "b", "b"])
    >>> metric.distance(X[:1], X[1:2]).tolist()  # a comparable pair
    [0.0]
    >>> metric.distance(X[:1], X[2:3]).tolist()
    [2.0]
    """

    kind: ClassVar[str] = "face"
    title: ClassVar[str] = "FACE metric"
    saved: ClassVar[tuple[str, ...]] = ("basis", "explained_variance_ratio")

    n_directions: int | None = None
    explained_variance: float | None = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: Any = None,
        groups: ArrayLike | None = None,
        counterfactuals: Sequence[ArrayLike] | None = None,
    ) -> Self:
        """Learn the directions in which comparable training rows differ.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Training rows.
        y, sensitive_features : object, default None
            Ignored; all metrics take them.
        groups : array-like, shape (n,)
            Ids: comparable rows share one. A row that is alone in its group is left out.
        counterfactuals : sequence of array-like, shape (n, d)
            Copies of the rows; each row with its copies is a group.

        Returns
        -------
        Self
            The fitted metric.

        Raises
        ------
        ValueError
            For both or neither of `groups` and `counterfactuals`, or of the two ways to choose k;
            sizes that do not match; numbers that are not finite; no group of two; no difference;
            more directions than the differences span.
        """
        from evenhand.fairlib.preprocessing.counterfactuals import check_copies

        self._check_parameters()
        check_row_order(X=X, groups=groups, counterfactuals=counterfactuals)
        data = self._fit_rows(X)
        check_source("FACE", groups=groups, counterfactuals=counterfactuals)
        if groups is not None:
            centred = _within_groups(data, group_codes(data, groups))

            def _blocks() -> Iterator[Float]:
                return iter([centred])

            count = len(centred)
        else:
            copies = check_copies(data, self._copies(counterfactuals))
            _blocks = _within_copies(data, copies)
            count = len(data) * (len(copies) + 1)
        variances, directions, energy = _spectrum(_blocks, count, data.shape[1])
        size = self._size(variances)
        if size == np.count_nonzero(energy):
            # unit vectors span the same space, and project those columns to exactly 0: a tree would
            # split on the rounding that singular vectors leave
            order = np.argsort(-energy, kind="stable")[:size]
            variances = energy[order]
            directions = np.eye(data.shape[1])[:, order]
        self.explained_variance_ratio_ = variances[:size] / energy.sum()
        self._remember(data, directions[:, :size])
        return self

    def _check_parameters(self) -> None:
        """ValueError for a parameter out of its range, or both or neither of the two."""
        self._check_counts("n_directions", optional=True)
        self._check_interval("(0, 1]", "explained_variance", optional=True)
        size = self.n_directions
        share = self.explained_variance
        if (size is None) == (share is None):
            received = "neither" if size is None else "both"
            raise ValueError(f"give n_directions or explained_variance, got {received}.")

    def _size(self, variances: Float) -> int:
        """Number of directions to keep of those that the differences span."""
        if self.n_directions is not None:
            if self.n_directions > len(variances):
                raise ValueError(
                    f"n_directions is {self.n_directions}, but the differences of comparable "
                    f"samples span {len(variances)}: ask for at most that many."
                )
            return int(self.n_directions)
        assert self.explained_variance is not None
        shares = np.cumsum(variances) / variances.sum()
        # with a margin for rounding, which must not add a direction
        enough = int(np.searchsorted(shares, self.explained_variance - 1e-12)) + 1
        return min(enough, len(variances))


def _within_groups(data: Float, codes: Index) -> Float:
    """Rows minus their group's mean, without the rows that are alone."""
    sizes = np.bincount(codes)
    if sizes.max() < 2:
        raise ValueError(
            "FACE needs groups of at least two comparable samples; every group has one member."
        )
    order = np.argsort(codes, kind="stable")
    order = order[sizes[codes[order]] > 1]
    _, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
    # relative to the first member: equal rows then differ by exactly 0, wherever they lie
    rows = data[order] - np.repeat(data[order[starts]], counts, axis=0)
    means = np.add.reduceat(rows, starts, axis=0) / counts[:, None]
    return np.asarray(rows - np.repeat(means, counts, axis=0))


def _within_copies(data: Float, copies: list[NDArray[Any]]) -> Blocks:
    """Rows and copies minus the mean of the row and its copies, one block at a time."""
    if len(copies) == 1:
        # both are half the difference from their mean: once, with the same sum of squares
        return lambda: iter([(copies[0] - data) * np.sqrt(0.5)])
    mean = np.zeros_like(data)
    for copy in copies:
        mean += copy - data
    mean /= len(copies) + 1

    def _blocks() -> Iterator[Float]:
        yield -mean
        for copy in copies:
            yield (copy - data) - mean

    return _blocks


def _spectrum(blocks: Blocks, count: int, width: int) -> tuple[Float, Float, Float]:
    """Squared singular values and right singular vectors of the stacked blocks to their rank,
    largest first.

    Also each column's sum of squares. Many rows are never stacked: their d x d Gram matrix is
    summed up.
    """
    if count > width:
        gram = np.zeros((width, width))
        for block in blocks():
            gram += block.T @ block
        energy = np.diag(gram).copy()
        active = _changing(energy)
        squared, vectors = np.linalg.eigh(gram[np.ix_(active, active)])
        squared = squared[::-1]
        vectors = vectors[:, ::-1]
        limit = max(count, width) * np.finfo(np.float64).eps
    else:
        stacked = np.concatenate(list(blocks()))
        energy = np.square(stacked).sum(axis=0)
        active = _changing(energy)
        _, singular, vt = np.linalg.svd(stacked[:, active], full_matrices=False)
        squared = np.square(singular)
        vectors = vt.T
        limit = np.square(max(count, width) * np.finfo(np.float64).eps)
    rank = int(np.count_nonzero(squared > limit * squared[0]))
    directions = np.zeros((width, rank))
    directions[active] = vectors[:, :rank]
    return squared[:rank], directions, energy


def _changing(energy: Float) -> Index:
    """Columns in which comparable samples differ: in the others every direction is exactly 0."""
    active = np.flatnonzero(energy)
    if active.size == 0:
        raise ValueError(
            "the comparable samples of every group are equal: no direction can be learned."
        )
    return active
