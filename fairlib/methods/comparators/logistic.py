"""Logistic regression, without mitigation and reweighed."""

# Annotations are evaluated here for the same reason as in `comparators.base`.

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.methods.comparators.comparator_base import Arrays, Comparator, GroupComparator
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.methods.row_groups import Groups
from evenhand.fairlib.splits import set_aside
from evenhand.fairlib.tuning.space import Real, Space

CHUNK_VALUES = 4_000_000
# with more columns the Hessian, of d x d numbers, costs more than the gradients that it saves
MOST_COLUMNS = 600
# of the gradient: tight enough that solvers agree to four digits of a probability
TOLERANCE = 1e-6
# thresholds that are tried
CANDIDATES = tuple(step / 10 for step in range(11))


@dataclass(frozen=True)
class Linear:
    """A logistic model of label 1."""

    coefficients: Float  # shape (d,)
    intercept: float
    n_iter: int = 0  # steps of the solver

    def logits(self, X: NDArray[Any]) -> Float:
        """:math:`X w + b`.

        Every row is summed by itself. A matrix product rounds a row differently when other rows are
        multiplied with it, and the decision on a row at a threshold would depend on them.

        Parameters
        ----------
        X : ndarray, shape (n, d)

        Returns
        -------
        ndarray of float, shape (n,)
            Log-odds of label 1.
        """
        size = max(1, CHUNK_VALUES // max(1, X.shape[1]))
        parts = [
            (X[at : at + size] * self.coefficients).sum(axis=1) for at in range(0, len(X), size)
        ]
        return np.concatenate(parts) + self.intercept if parts else np.zeros(0)


def logistic_regression(n_columns: int, C: float, max_iter: int) -> Any:
    """scikit-learn's estimator as all comparators use it, not fitted.

    Parameters
    ----------
    n_columns : int
        Number of features, on which the choice of the solver depends.
    C : float
        Inverse of the penalty's strength.
    max_iter : int
        Steps of the solver, at most.

    Returns
    -------
    sklearn.linear_model.LogisticRegression
    """
    from sklearn.linear_model import LogisticRegression

    solver = "newton-cholesky" if n_columns <= MOST_COLUMNS else "lbfgs"
    return LogisticRegression(C=C, max_iter=int(max_iter), tol=TOLERANCE, solver=solver)


def best_threshold(labels: Int, probability: Float) -> float:
    """Threshold among 0, 0.1, ..., 1 of the best balanced accuracy of ``probability >=
    threshold``.

    Of equally good ones that nearest to 1/2, then the lower.

    Parameters
    ----------
    labels : ndarray of int, shape (n,)
        0 or 1.
    probability : ndarray of float, shape (n,)
        Of label 1.

    Returns
    -------
    float
    """
    from sklearn.metrics import balanced_accuracy_score

    def _rank(candidate: float) -> tuple[float, float, float]:
        accuracy = balanced_accuracy_score(labels, probability >= candidate)
        return (-accuracy, abs(candidate - 0.5), candidate)

    return min(CANDIDATES, key=_rank)


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticClassifier(Comparator):
    """l2-penalised logistic regression on all features, the sensitive ones among them included.

    Parameters
    ----------
    C : float
        Inverse of the penalty's strength.
    max_iter : int
        Of the solver.

    Attributes
    ----------
    linear_ : Linear
    n_iter_ : int
        Steps of its solver.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = LogisticClassifier(C=10.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    space: ClassVar[Space] = {"C": Real(0.001, 100.0, log=True)}
    cautious: ClassVar[Mapping[str, Any]] = {"C": 0.01}

    C: float = 1.0
    max_iter: int = 1000

    @property
    def n_iter_(self) -> int:
        """Steps of the solver."""
        return self.linear_.n_iter

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("(0, inf)", "C")
        self._check_counts("max_iter")

    def _fit_linear(self, rows: NDArray[Any], codes: Int, weights: Float | None = None) -> Linear:
        """Fit in float64, on weighted rows."""
        model = logistic_regression(rows.shape[1], self.C, self.max_iter)
        model.fit(rows.astype(np.float64), codes, sample_weight=weights)
        return Linear(model.coef_[0], float(model.intercept_[0]), int(model.n_iter_[0]))

    def _learn(
        self, data: Float32, codes: Int, groups: Groups, weights: Float | None, callback: Callback
    ) -> None:
        self.linear_ = self._fit_linear(data, codes, weights)
        callback(1, 1, {})

    def _positive_probability(self, X: Float32) -> Float:
        return expit(self.linear_.logits(X))

    def _arrays(self) -> Arrays:
        return {name: np.atleast_1d(value) for name, value in asdict(self.linear_).items()}

    def _restore(self, arrays: Arrays) -> None:
        intercept = float(arrays["intercept"][0])
        n_iter = int(arrays["n_iter"][0])
        self.linear_ = Linear(arrays["coefficients"], intercept, n_iter)


@dataclass(kw_only=True, eq=False, repr=False)
class ReweighedLogisticClassifier(GroupComparator, LogisticClassifier):
    """Logistic regression on rows weighted so that group and label are independent.

    The weights are those of
    :func:`evenhand.fairlib.methods.preprocessed_gbdt.kamiran_calders_weights` (Kamiran and Calders
    2011), of the rows that train. With a given threshold all rows train.

    Parameters
    ----------
    threshold : float or None
        Score from which on the second label is predicted. None: the one of 0, 0.1, ..., 1 with the
        best balanced accuracy on the rows set aside.
    validation_share : float
        In (0, 1): share of the rows set aside.

    Attributes
    ----------
    threshold_ : float
        A row is predicted ``classes_[1]`` where that class's probability is at least this.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = ReweighedLogisticClassifier(random_state=0)
    >>> model = model.fit(X, y, sensitive_features={"sex": sex})
    >>> 0 < model.threshold_ < 1
    True
    """

    threshold: float | None = None
    validation_share: float = 0.25

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("(0, 1)", "validation_share")
        self._check_interval("[0, 1]", "threshold", optional=True)

    def _learn(
        self, data: Float32, codes: Int, groups: Groups, weights: Float | None, callback: Callback
    ) -> None:
        from evenhand.fairlib.methods.preprocessed_gbdt import kamiran_calders_weights

        train = held = np.arange(len(codes))
        if self.threshold is None:
            train, held = set_aside(codes, self.validation_share, self.random_state, self.people)
        train_weights = None if weights is None else weights[train]
        balanced = kamiran_calders_weights(groups.codes[train], codes[train], train_weights)
        self.linear_ = self._fit_linear(data[train], codes[train], balanced)
        if self.threshold is None:
            self.threshold_ = best_threshold(codes[held], self._positive_probability(data[held]))
        else:
            self.threshold_ = float(self.threshold)
        callback(1, 1, {})

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """``classes_[1]`` where its probability is at least ``threshold_``. Deterministic.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray, shape (n,)
            Labels as ``classes_`` has them.
        """
        positive = self.predict_proba(X)[:, 1] >= self.threshold_
        return self.classes_[positive.astype(np.int64)]

    def _arrays(self) -> Arrays:
        return {**super()._arrays(), "threshold": np.array([self.threshold_])}

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self.threshold_ = float(arrays["threshold"][0])
