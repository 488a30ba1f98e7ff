"""Calibrated equalized odds: scores of the better-served group are mixed with its base rate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.methods.base import Callback, Float32, Float64
from evenhand.fairlib.methods.comparators._checks import check_share
from evenhand.fairlib.methods.comparators._libraries import optional_import
from evenhand.fairlib.methods.comparators._stored import Arrays, ThresholdMethod
from evenhand.fairlib.methods.comparators.groups import check_labels, read_groups, two_groups
from evenhand.fairlib.methods.comparators.linear import Linear, fit_logistic
from evenhand.fairlib.methods.comparators.validation import best_threshold, set_aside
from evenhand.fairlib.methods.group_reader import GroupReader

__all__ = ["CalibratedOddsClassifier", "row_draws"]

METHOD = "calibrated-equalized-odds"


class CalibratedOddsClassifier(ThresholdMethod):
    r"""
    Calibrated equalized odds on logistic scores (Pleiss et al. 2017), with aif360's mix rates.

    The cost of a group is its generalized false positive rate, false negative rate, or both weighted by its
    shares of the labels. In the group of the lower cost a share :math:`\alpha` of the people gets the group's
    base rate :math:`\mu` for a score, so that both groups cost the same (their algorithm 1):

    .. math:: \alpha = \frac{c_{\text{other}} - c}{c_{\mu} - c}

    The rates are fitted on rows that the regression has not seen. Who is among that share is drawn from a
    hash of the person's own row and the seed: equal rows get equal scores, whoever else is asked about.

    Parameters
    ----------
    cost_constraint : {"weighted", "fpr", "fnr"}
    attribute : str or None
        The sensitive feature to compare by. None: the only one.
    privileged : str or None
        Name of the privileged group; all others are the other. None: of two groups, that with the larger
        share of the second label.
    threshold : float or None
        From which score on the second label is predicted. None: the one of 0, 0.1, ..., 1 with the best
        balanced accuracy on the rows set aside, after mixing.
    validation_share : float
        Share of the rows set aside for mix rates and threshold.
    C : float
        Inverse of the penalty's strength.
    max_iter : int
        Of the solver.
    random_state : int or None

    Attributes
    ----------
    linear_ : Linear
    n_iter_ : int
        Steps of its solver.
    mix_rates_, base_rates_ : ndarray of float64, shape (2,)
        Of the other group and of the privileged one.
    feasible_ : bool
        Whether some mix makes the costs equal. If even the base rate costs less than the other group's
        scores, all of its group have it, and so one and the same prediction.
    threshold_ : float
    """

    _reader: GroupReader

    def __init__(
        self,
        *,
        cost_constraint: Literal["weighted", "fpr", "fnr"] = "weighted",
        attribute: str | None = None,
        privileged: str | None = None,
        threshold: float | None = None,
        validation_share: float = 0.25,
        C: float = 1.0,
        max_iter: int = 1000,
        random_state: int | None = None,
    ) -> None:
        self.cost_constraint = cost_constraint
        self.attribute = attribute
        self.privileged = privileged
        self.threshold = threshold
        self.validation_share = validation_share
        self.C = C
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        feature_groups: Mapping[str, Sequence[int]] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """
        Train, and fit mix rates and threshold on rows set aside.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
            Two distinct values.
        sensitive_features : mapping of str to array-like, shape (n,)
            Group of every row, per attribute. To predict, it is read from X.
        feature_groups : mapping of str to sequence of int, or None
            Columns of X by attribute. None names every column by itself: x0, x1, and so on.
        callback : callable or None
            Called once, with (1, 1, {}).

        Raises
        ------
        ValueError
            No sensitive features, an unknown attribute or group, more than two groups and none named, a group
            without one of the labels, columns that do not tell the group, or a parameter out of its range.
        ImportError
            The optional extra is not installed.
        """
        data, codes = self._check_training(X, y)
        if self.cost_constraint not in ("weighted", "fpr", "fnr"):
            raise ValueError(f"cost_constraint must be weighted, fpr or fnr, got {self.cost_constraint!r}.")
        groups = read_groups(sensitive_features, self.attribute, len(codes), crossed=False)
        privileged = two_groups(groups, codes, self.privileged)
        self._reader = GroupReader.fit(data, privileged, groups.attributes, feature_groups, METHOD)
        train, held = set_aside(codes, self.validation_share, self.random_state, privileged)
        names = (
            ("all others", self.privileged)
            if self.privileged
            else _by_side(groups.names, groups.codes, privileged)
        )
        for rows, where in ((train, "training"), (held, "validation")):
            check_labels(privileged[rows], codes[rows], names, groups.subject, where)
        self.linear_ = fit_logistic(data[train], codes[train], C=self.C, max_iter=self.max_iter)
        rates, self.base_rates_ = _mix_rates(
            self.linear_.probability(data[held]), codes[held], privileged[held], self.cost_constraint
        )
        # beyond 1 no mix is enough, and all are mixed; below 0 the base rate costs less than the scores
        self.mix_rates_ = np.clip(rates, 0.0, 1.0)
        self.feasible_ = bool((rates == self.mix_rates_).all())
        if self.threshold is None:
            self.threshold_ = best_threshold(codes[held], self._positive_probability(data[held]))
        else:
            self.threshold_ = check_share("threshold", self.threshold)
        if callback is not None:
            callback(1, 1, {})
        return self

    def _positive_probability(self, X: Float32) -> Float64:
        group = self._reader.read(X)
        mixed = row_draws(X, self.random_state) < self.mix_rates_[group]
        return np.where(mixed, self.base_rates_[group], self.linear_.probability(X))

    def _arrays(self) -> Arrays:
        return {
            **self.linear_.arrays(),
            **self._reader.arrays(),
            "mix_rates": self.mix_rates_,
            "base_rates": self.base_rates_,
            "feasible": np.array([self.feasible_]),
            "threshold": np.array([self.threshold_]),
        }

    def _restore(self, arrays: Arrays) -> None:
        self.linear_ = Linear.restore(arrays)
        self._reader = GroupReader.restore(arrays)
        self.mix_rates_, self.base_rates_ = arrays["mix_rates"], arrays["base_rates"]
        self.feasible_ = bool(arrays["feasible"][0])
        self.threshold_ = float(arrays["threshold"][0])


def row_draws(X: Float32, seed: int | None) -> Float64:
    """
    A number of [0, 1) for each row, drawn from the row's own bytes.

    Parameters
    ----------
    X : ndarray of float32, shape (n, d)
    seed : int or None
        None is 0.

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    # plus zero: of the two zeros, equal numbers with unequal bytes, one is left
    rows = np.ascontiguousarray(X, dtype="<f4") + np.float32(0)
    key = str(0 if seed is None else int(seed)).encode()
    digests = b"".join(hashlib.blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in rows)
    # the 53 bits that a float holds exactly: rounding would otherwise reach 1
    bits = np.frombuffer(digests, "<u8") >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _by_side(
    names: Sequence[str], codes: NDArray[np.int64], privileged: NDArray[np.int64]
) -> tuple[str, str]:
    """Names of the other and of the privileged one of two groups."""
    side = int(codes[privileged.argmax()])
    return names[1 - side], names[side]


def _mix_rates(
    scores: Float64, labels: NDArray[np.int64], privileged: NDArray[np.int64], cost_constraint: str
) -> tuple[Float64, Float64]:
    """Mix and base rates of the other and of the privileged group, by aif360."""
    with optional_import(METHOD):
        import pandas as pd
        from aif360.algorithms.postprocessing import CalibratedEqOddsPostprocessing
        from aif360.datasets import BinaryLabelDataset
    frame = pd.DataFrame({"group": privileged.astype(np.float64), "label": labels.astype(np.float64)})
    true = BinaryLabelDataset(df=frame, label_names=["label"], protected_attribute_names=["group"])
    scored = true.copy(deepcopy=True)
    scored.scores = scores[:, None]
    fitted = CalibratedEqOddsPostprocessing([{"group": 0}], [{"group": 1}], cost_constraint=cost_constraint)
    # costs that are equal whatever the mix: 0 / 0, and nobody's score is changed
    with np.errstate(divide="ignore", invalid="ignore"):
        fitted.fit(true, scored)
    rates = np.nan_to_num([fitted.unpriv_mix_rate, fitted.priv_mix_rate], nan=0.0)
    return rates, np.array([fitted.base_rate_unpriv, fitted.base_rate_priv], np.float64)
