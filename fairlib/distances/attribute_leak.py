"""How well a sensitive attribute can be predicted from rows: what a fair metric leaves of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float32, Index
from evenhand.fairlib.execution import sample_rows

Predictor = Literal["linear", "trees", "neighbours"]
FOLDS = 4
# Rows that are read at most: more make the interval narrower than a gate needs.
MOST_ROWS = 6000
# Half the width of a 95 % interval, in standard errors.
TWO_SIDED = 1.959963984540054
TREES = {"n_estimators": 60, "max_depth": 3, "learning_rate": 0.1, "tree_method": "hist"}
NEIGHBOURS = 25


class AttributeLeak(NamedTuple):
    """AUC of the best-predicted group on rows that the predictor was not fitted on.

    `low` and `high` are its 95 % interval, and `predictor` names the best predictor.
    """

    auc: float
    low: float
    high: float
    predictor: str

    @property
    def above_chance(self) -> bool:
        """Whether the whole interval is above .5."""
        return self.low > 0.5


def attribute_leak(
    X: ArrayLike,
    groups: ArrayLike,
    *,
    predictors: tuple[Predictor, ...] = ("linear", "trees"),
    seed: int = 0,
) -> AttributeLeak:
    """Cross-validated AUC of an attribute from rows, by the predictor that finds most.

    The AUC is that of the group that is predicted best, each against the rest. Groups of fewer than
    10 rows are left out.

    Parameters
    ----------
    X : array-like, shape (n, d)
        Rows; with no column the AUC is .5.
    groups : array-like, shape (n,)
        Group of every row.
    predictors : tuple of {"linear", "trees", "neighbours"}
        Logistic regression, XGBoost, and the 25 nearest rows in Euclidean distance, which respects
        the scale of X.
    seed : int, default 0
        Of the folds and of the rows that are drawn from a large table.

    Returns
    -------
    AttributeLeak

    Raises
    ------
    ValueError
        If fewer than two groups have 10 rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 2)) + (group == "b")[:, None] * [2.0, 0.0]
    >>> attribute_leak(X, group).auc > 0.8
    True
    >>> attribute_leak(X[:, 1:], group).above_chance
    False
    """
    rows = np.asarray(X, dtype=np.float32)
    codes, sizes = _codes(groups)
    if len(codes) > MOST_ROWS:
        drawn = sample_rows(len(codes), MOST_ROWS, np.random.default_rng(seed))
        rows = rows[drawn]
        codes = codes[drawn]
    nothing = AttributeLeak(0.5, 0.5, 0.5, predictors[0])
    if rows.shape[1] == 0 or not np.ptp(rows, axis=0).any():
        return nothing
    leaks = []
    for code in range(len(sizes)):
        is_member = (codes == code).astype(np.int64)
        if len(sizes) == 2 and code == 0:
            continue
        if min(is_member.sum(), len(is_member) - is_member.sum()) < 2 * FOLDS:
            continue
        for predictor in predictors:
            leaks.append(_leak_of_group(rows, is_member, predictor, seed))
    return max(leaks, key=lambda leak: leak.auc, default=nothing)


def _codes(groups: ArrayLike) -> tuple[Index, Index]:
    """Codes of the groups of at least 10 rows, -1 for others, and the groups' sizes."""
    _, codes, counts = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    large = np.flatnonzero(counts >= 10)
    if len(large) < 2:
        raise ValueError(
            f"the attribute has {len(large)} groups of at least 10 rows: two are needed."
        )
    numbers = np.full(len(counts), -1)
    numbers[large] = np.arange(len(large))
    return numbers[codes], counts[large]


def _leak_of_group(
    rows: Float32, is_member: Index, predictor: Predictor, seed: int
) -> AttributeLeak:
    """Cross-validated AUC of one group against the rest, with its interval."""
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    predicted = cross_val_predict(
        PREDICTORS[predictor](), rows, is_member, cv=folds, method="predict_proba"
    )[:, 1]
    auc = float(roc_auc_score(is_member, predicted))
    error = auc_error(auc, int(is_member.sum()), int(len(is_member) - is_member.sum()))
    low = max(auc - TWO_SIDED * error, 0.0)
    high = min(auc + TWO_SIDED * error, 1.0)
    return AttributeLeak(auc, low, high, predictor)


def auc_error(auc: float, positives: int, negatives: int) -> float:
    """Standard error of an AUC (Hanley and McNeil 1982).

    Parameters
    ----------
    auc : float
    positives, negatives : int
        Rows of both kinds, at least 1.

    Returns
    -------
    float

    References
    ----------
    J. A. Hanley and B. J. McNeil, "The meaning and use of the area under a receiver operating
    characteristic (ROC) curve", Radiology 143 (1982).
    """
    between_positives = auc / (2 - auc)
    between_negatives = 2 * auc * auc / (1 + auc)
    variance = auc * (1 - auc)
    variance += (positives - 1) * (between_positives - auc * auc)
    variance += (negatives - 1) * (between_negatives - auc * auc)
    return float(np.sqrt(max(variance, 0.0) / (positives * negatives)))


def _linear() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1.0, max_iter=500)


def _trees() -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(**TREES, n_jobs=1, random_state=0)


def _neighbours() -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(NEIGHBOURS)


PREDICTORS: dict[str, Callable[[], Any]] = {
    "linear": _linear,
    "trees": _trees,
    "neighbours": _neighbours,
}
"""Makers of the predictors, by name."""
