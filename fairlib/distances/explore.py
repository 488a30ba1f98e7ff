"""EXPLORE: a metric under which comparable pairs are close and incomparable ones far apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from evenhand.fairlib.arrays import Float, Index
from evenhand.fairlib.distances.metric_base import Metric, check_source, group_codes
from evenhand.fairlib.execution import sample_rows
from evenhand.fairlib.row_order import check_row_order

# Eigenvalues below this share of the largest one are 0 up to the accuracy of the search.
NEGLIGIBLE = 1e-6
# Most rounds of random draws for incomparable pairs.
ROUNDS = 20


def log_likelihood(sigma: ArrayLike, comparable: ArrayLike, incomparable: ArrayLike) -> float:
    r"""Mean log-likelihood of a metric's matrix.

    .. math:: \frac1m \Big[ \sum_{\delta \in C} \big( \log 2 - \log(1 + e^{D(\delta)}) \big)
        + \sum_{\delta \in I} \log \tanh \tfrac{D(\delta)}{2} \Big],
        \qquad D(\delta) = \delta^\top \Sigma \delta

    in nats, concave in the symmetric `sigma`, shape (d, d), and ``-inf`` where an incomparable pair
    is at distance 0. `comparable` and `incomparable`, shapes (m1, d) and (m2, d), are differences
    of pairs; m = m1 + m2.

    Parameters
    ----------
    sigma : array-like, shape (d, d)
        Symmetric matrix.
    comparable : array-like, shape (m1, d)
        Differences of comparable pairs.
    incomparable : array-like, shape (m2, d)
        Differences of incomparable pairs.

    Returns
    -------
    float
        In nats, at most log 2.
    """
    near = _lengths(sigma, comparable)
    far = _lengths(sigma, incomparable)
    if (far <= 0).any():
        return -np.inf
    total = (np.log(2.0) - np.logaddexp(0.0, near)).sum()
    total += (np.log(-np.expm1(-far)) - np.log1p(np.exp(-far))).sum()
    return float(total / (len(near) + len(far)))


def log_likelihood_gradient(
    sigma: ArrayLike, comparable: ArrayLike, incomparable: ArrayLike
) -> Float:
    r"""Gradient of :func:`log_likelihood`, shape (d, d), where that is finite.

    .. math:: \frac1m \Big[ -\sum_{\delta \in C} \sigma(D(\delta))\, \delta\delta^\top
        + \sum_{\delta \in I} \frac{1}{\sinh D(\delta)}\, \delta\delta^\top \Big]

    Parameters
    ----------
    sigma : array-like, shape (d, d)
        Symmetric matrix.
    comparable : array-like, shape (m1, d)
        Differences of comparable pairs.
    incomparable : array-like, shape (m2, d)
        Differences of incomparable pairs.

    Returns
    -------
    ndarray of float64, shape (d, d)
        The gradient.
    """
    from scipy.special import expit

    near = _lengths(sigma, comparable)
    far = _lengths(sigma, incomparable)
    weights = 2 * np.exp(-far) / -np.expm1(-2 * far)
    gradient = _outer(incomparable, weights) - _outer(comparable, expit(near))
    return gradient / (len(near) + len(far))


def _lengths(sigma: ArrayLike, differences: ArrayLike) -> Float:
    rows = np.asarray(differences, dtype=np.float64)
    return np.asarray(((rows @ np.asarray(sigma)) * rows).sum(axis=1))


def _outer(differences: ArrayLike, weights: Float) -> Float:
    rows = np.asarray(differences, dtype=np.float64)
    return np.asarray((rows * weights[:, None]).T @ rows)


@dataclass(repr=False, eq=False)
class EXPLORE(Metric):
    r"""A Mahalanobis distance learned from pairs that are comparable and pairs that are not.

    .. math:: P(\text{comparable} \mid x_1, x_2) = 2\,\sigma(-d_x^2(x_1, x_2)), \qquad
        \max_{\Sigma \succeq 0} \; \ell(\Sigma) - \lambda \operatorname{tr} \Sigma

    where :math:`\sigma` is the logistic function and :math:`\ell` the mean log-likelihood
    (Mukherjee et al. 2020, with a penalty that makes the maximum unique in scale and of low rank).
    The search is accelerated projected gradient ascent. It is fastest where columns have similar
    scales, as the encoder's have.

    Parameters
    ----------
    strength : float
        :math:`\lambda`, per squared unit of X.
    max_iter : int
        Most iterations of the search.
    tol : float
        Limit for the norm of the projected gradient, with differences scaled to a mean square of 1.
    max_pairs : int
        Most pairs of each sort that are drawn from groups or copies; given pairs are all used.
    random_state : int
        Seed of the drawn pairs.

    Attributes
    ----------
    factor_ : ndarray of float64, shape (n_features, r)
        Orthogonal columns :math:`L` with :math:`\Sigma = L L^\top`.
    basis_ : ndarray of float64, shape (n_features, n_features - r)
        Orthonormal columns that span the null space of :math:`\Sigma`; there may be none.
    log_likelihood_ : float
        Mean log-likelihood reached, without the penalty. Not saved, like the next two.
    n_iter_ : int
    converged_ : bool

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> flipped = X * [-1.0, 1.0]
    >>> metric = EXPLORE().fit(X, counterfactuals=[flipped])
    >>> comparable = metric.squared(X, flipped).mean()
    >>> bool(comparable < metric.squared(X, X[::-1]).mean())
    True
    """

    kind: ClassVar[str] = "explore"
    title: ClassVar[str] = "EXPLORE metric"
    is_projection: ClassVar[bool] = False
    saved: ClassVar[tuple[str, ...]] = ("basis", "factor")

    strength: float = 0.01
    _: KW_ONLY
    max_iter: int = 1000
    tol: float = 1e-7
    max_pairs: int = 20_000
    random_state: int = 0

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: Any = None,
        comparable: Sequence[ArrayLike] | None = None,
        incomparable: Sequence[ArrayLike] | None = None,
        groups: ArrayLike | None = None,
        counterfactuals: Sequence[ArrayLike] | None = None,
    ) -> Self:
        """Learn the matrix from pairs of training rows.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Training rows.
        y, sensitive_features : object, default None
            Ignored; all metrics take them.
        comparable, incomparable : pairs of array-like, each of one shape (m, d)
            Rows ``i`` of the two arrays are a pair. Both sorts are needed.
        groups : array-like, shape (n,)
            Instead: rows that share an id are comparable, rows of different groups are not.
        counterfactuals : sequence of array-like, shape (n, d)
            Instead: rows are comparable with their copies, and not with other rows, unless these
            differ only where copies do.

        Returns
        -------
        Self
            The fitted metric.

        Raises
        ------
        ValueError
            Not one of these three; one sort of pairs without the other; no pair; comparable pairs
            that do not differ, or an incomparable one that does not; sizes that do not match;
            numbers that are not finite; parameters out of range.
        """
        from evenhand.fairlib.preprocessing.counterfactuals import check_copies

        self._check_parameters()
        check_row_order(X=X, groups=groups, counterfactuals=counterfactuals)
        data = self._fit_rows(X)
        if (comparable is None) != (incomparable is None):
            missing_kind = "comparable" if comparable is None else "incomparable"
            raise ValueError(f"EXPLORE needs both sorts of pairs: {missing_kind} is missing.")
        check_source(
            "EXPLORE", comparable=comparable, groups=groups, counterfactuals=counterfactuals
        )
        # differences of comparable and of incomparable pairs
        rng = np.random.default_rng(self.random_state)
        if comparable is not None and incomparable is not None:
            near = given_pairs("comparable", self._copies(comparable), data.shape[1])
            far = given_pairs("incomparable", self._copies(incomparable), data.shape[1])
        elif groups is not None:
            near, far = pairs_of_groups(data, group_codes(data, groups), self.max_pairs, rng)
        else:
            copies = check_copies(data, self._copies(counterfactuals))
            near, far = pairs_of_copies(data, copies, self.max_pairs, rng)
        if not near.any():
            raise ValueError(
                "the comparable pairs do not differ: no direction can be learned from them."
            )
        if not far.any(axis=1).all():
            raise ValueError(
                "incomparable holds a pair of equal rows, which no metric can separate."
            )
        # scaled to a mean squared difference of 1, so that `tol` and the first step fit any table
        scale = float(np.square(far).sum(axis=1).mean())
        near = near / np.sqrt(scale)
        far = far / np.sqrt(scale)
        penalty = self.strength / scale
        identity = np.eye(data.shape[1])
        maximum = maximise(
            lambda sigma: log_likelihood(sigma, near, far) - penalty * float(np.trace(sigma)),
            lambda sigma: log_likelihood_gradient(sigma, near, far) - penalty * identity,
            identity,
            step=1.0,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        if not maximum.converged:
            warnings.warn(
                f"EXPLORE has not converged within {maximum.n_iter} iterations: raise max_iter.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.n_iter_ = maximum.n_iter
        self.converged_ = maximum.converged
        self.log_likelihood_ = log_likelihood(maximum.matrix, near, far)
        values, vectors = np.linalg.eigh(maximum.matrix / scale)
        positive = values > NEGLIGIBLE * values[-1]
        self.factor_ = np.ascontiguousarray(vectors[:, positive] * np.sqrt(values[positive]))
        self._remember(data, vectors[:, ~positive])
        return self

    def _check_parameters(self) -> None:
        """ValueError for a parameter out of its range."""
        self._check_interval("(0, inf)", "strength", "tol")
        self._check_counts("max_iter", "max_pairs")
        self._check_seed("random_state")

    def _project(self, V: Any) -> Any:
        return V @ self._array_like(V, "factor")

    def _weigh(self, V: Any) -> Any:
        factor = self._array_like(V, "factor")
        return (V @ factor) @ factor.T

    def _unweigh(self, V: Any) -> Any:
        factor = self._array_like(V, "factor")
        # the columns are eigenvectors, as long as the roots of their eigenvalues
        return ((V @ factor) / (factor * factor).sum(0) ** 2) @ factor.T


# The step grows a little after every iteration, so that one bad region does not slow down the rest.
GROWTH = 1.25
SHRINKAGE = 0.5
# Steps below this share of the first change the matrix by rounding only.
SMALLEST = 1e-18
# Gains below this share of the value are lost in its rounding.
RESOLUTION = 1e-9


class Maximum(NamedTuple):
    """The matrix found, the iterations, and whether the projected gradient became small enough."""

    matrix: Float
    n_iter: int
    converged: bool


def nearest_psd(matrix: Float) -> Float:
    """Projection onto the positive semi-definite matrices: negative eigenvalues are cut.

    Parameters
    ----------
    matrix : ndarray of float64, shape (d, d)
        Matrix, of which the symmetric part counts.

    Returns
    -------
    ndarray of float64, shape (d, d)
        Symmetric matrix.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    positive = values > 0
    return np.asarray((vectors[:, positive] * values[positive]) @ vectors[:, positive].T)


def maximise(
    value: Callable[[Float], float],
    gradient: Callable[[Float], Float],
    start: Float,
    *,
    step: float,
    max_iter: int,
    tol: float,
) -> Maximum:
    r"""Accelerated projected gradient ascent with backtracking and restarts.

    Beck and Teboulle 2009 (FISTA), restarted where the momentum points downhill (O'Donoghue and
    Candes 2015).

    Parameters
    ----------
    value : callable
        Concave function of a symmetric matrix, ``-inf`` outside its domain.
    gradient : callable
        Its gradient within the domain, shape (d, d).
    start : ndarray of float64, shape (d, d)
        Positive semi-definite matrix of finite value.
    step : float
        First step length.
    max_iter : int
        Most iterations, at least 1.
    tol : float
        Limit of the Frobenius norm of the projected gradient :math:`\Pi(\Sigma + \nabla f(\Sigma))
        - \Sigma`, which is 0 at a maximum and nowhere else.

    Returns
    -------
    Maximum
        The best matrix found.

    References
    ----------
    .. [1] A. Beck and M. Teboulle, "A Fast Iterative Shrinkage-Thresholding Algorithm for Linear
       Inverse Problems", SIAM Journal on Imaging Sciences 2 (2009).
    .. [2] B. O'Donoghue and E. Candes, "Adaptive Restart for Accelerated Gradient Schemes",
       Foundations of Computational Mathematics 15 (2015).
    """
    current = ahead = start
    height = value(start)
    momentum = 1.0
    smallest = SMALLEST * step
    for iteration in range(1, max_iter + 1):
        slope = gradient(ahead)
        # backtracking: shorten the step until the quadratic model is a lower bound
        while True:
            candidate = nearest_psd(ahead + step * slope)
            moved = candidate - ahead
            gain = float((slope * moved).sum() - (moved * moved).sum() / (2 * step))
            reached = value(candidate)
            if gain > RESOLUTION * abs(height):
                enough = reached >= height + gain
            else:
                # near the maximum values are alike: the slopes show the curvature
                bend = np.inf
                if np.isfinite(reached):
                    bend = ((slope - gradient(candidate)) * moved).sum()
                enough = bend <= (moved * moved).sum() / step
            if enough or step < smallest:
                break
            step *= SHRINKAGE
        # stop where the projected gradient is small
        small = np.linalg.norm(moved) <= tol * max(step, 1.0)
        if small and _projected_gradient(candidate, gradient) <= tol:
            return Maximum(candidate, iteration, converged=True)
        if step < smallest:
            break
        step *= GROWTH
        # FISTA's extrapolation; without it where the momentum points downhill or out of the domain
        onwards = candidate - current
        downhill = (moved * onwards).sum() < 0
        following = float(1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = candidate + (momentum - 1) / following * onwards
        current = candidate
        momentum = following
        height = value(ahead)
        if downhill or not np.isfinite(height):
            ahead = candidate
            momentum = 1.0
            height = reached
    return Maximum(candidate, iteration, converged=False)


def _projected_gradient(matrix: Float, gradient: Callable[[Float], Float]) -> float:
    """Frobenius norm of the projected gradient, which is 0 at a maximum and nowhere else."""
    return float(np.linalg.norm(nearest_psd(matrix + gradient(matrix)) - matrix))


def given_pairs(name: str, pairs: Sequence[ArrayLike], width: int) -> Float:
    """Differences of the pairs that a user lists as two arrays of one shape.
    ValueError: other than two arrays, shapes that differ or do not fit X, no pair, numbers that are
    not finite.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    pairs : sequence of array-like
        Two arrays of one shape, (m, d).
    width : int
        Number of features, d.

    Returns
    -------
    ndarray of float64, shape (m, d)
        Differences.

    Raises
    ------
    ValueError
        For other than two arrays, shapes that differ or do not fit X, no pair, numbers that are not
        finite.
    """
    arrays = [np.asarray(rows, dtype=np.float64) for rows in pairs]
    if len(arrays) != 2 or arrays[0].shape != arrays[1].shape:
        shapes = ", ".join(str(rows.shape) for rows in arrays)
        raise ValueError(f"{name} must be two arrays of one shape, got {shapes}.")
    first, second = arrays
    if first.ndim != 2 or first.shape[1] != width:
        raise ValueError(
            f"{name} must be pairs of rows with {width} features, got shape {first.shape}."
        )
    if len(first) == 0:
        raise ValueError(f"{name} holds no pair: give at least one.")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError(f"{name} must be finite: a pair holds NaN or infinity.")
    return first - second


def pairs_of_copies(
    data: Float, copies: Sequence[NDArray[Any]], most: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Differences of rows and changed copies, and of as many random pairs of rows, both at most
    `most`.

    Two people who differ only in columns that copies change are comparable too, and no incomparable
    pair; unless the copies change every column.

    Parameters
    ----------
    data : ndarray of float64, shape (n, d)
        Rows.
    copies : sequence
        Changed copies of all rows, each of shape (n, d).
    most : int
        Most pairs of each sort.
    rng : np.random.Generator
        Generator of the choice of pairs.

    Returns
    -------
    tuple of two ndarrays, shape (m, d)
        Differences of comparable and of incomparable pairs.
    """
    changed = np.stack([(copy != data).any(axis=1) for copy in copies])
    copy, row = (index[sample_rows(len(index), most, rng)] for index in np.nonzero(changed))
    comparable = np.empty((len(row), data.shape[1]))
    for number, rows in enumerate(copies):
        mine = copy == number
        comparable[mine] = rows[row[mine]] - data[row[mine]]
    unchanged = data[:, ~(comparable != 0).any(axis=0)]
    features = unchanged if unchanged.shape[1] else data
    return comparable, _random_pairs(data, features, np.arange(len(data)), len(comparable), rng)


def pairs_of_groups(
    data: Float, codes: Index, most: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Differences of rows and another member of their group, and of as many rows of different
    groups.

    Parameters
    ----------
    data : ndarray of float64, shape (n, d)
        Rows.
    codes : ndarray of intp, shape (n,)
        Group of every row.
    most : int
        Most pairs of each sort.
    rng : np.random.Generator
        Generator of the choice of pairs.

    Returns
    -------
    tuple of two ndarrays, shape (m, d)
        Differences of comparable and of incomparable pairs.

    Raises
    ------
    ValueError
        If no two comparable rows differ.
    """
    order = rng.permutation(len(data))
    order = order[np.argsort(codes[order], kind="stable")]
    # each member is paired with the next one of the group, the last with the first
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    following = np.arange(1, len(order) + 1)
    following[np.append(starts[1:], len(order)) - 1] = starts
    comparable = data[order] - data[order[following]]
    comparable = comparable[(comparable != 0).any(axis=1)]
    if len(comparable) == 0:
        raise ValueError("no two comparable rows differ: no direction can be learned from groups.")
    comparable = comparable[sample_rows(len(comparable), most, rng)]
    return comparable, _random_pairs(data, data, codes, len(comparable), rng)


def _random_pairs(
    data: Float, features: Float, codes: Index, count: int, rng: np.random.Generator
) -> Float:
    """Differences of up to `count` random pairs of rows that differ in group and features."""
    differences: list[Float] = []
    missing = count
    for _ in range(ROUNDS):
        i, j = rng.integers(0, len(data), size=(2, missing))
        differ = (codes[i] != codes[j]) & (features[i] != features[j]).any(axis=1)
        differences.append(data[i[differ]] - data[j[differ]])
        missing -= int(np.count_nonzero(differ))
        if missing == 0:
            break
    if missing == count:
        raise ValueError("no two rows are incomparable: all differ only as comparable ones do.")
    return np.concatenate(differences)
