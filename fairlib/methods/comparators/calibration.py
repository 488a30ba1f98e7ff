"""Calibrated equalized odds: scores of the better-served group are mixed with its base rate."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.methods.comparators.base import Arrays, Codes, optional_import
from evenhand.fairlib.methods.comparators.logistic import ThresholdMethod, TwoGroupsLogistic

CostConstraint = Literal["weighted", "fpr", "fnr"]


@dataclass(kw_only=True, eq=False, repr=False)
class CalibratedOddsClassifier(ThresholdMethod, TwoGroupsLogistic):
    r"""Calibrated equalized odds on logistic scores (Pleiss et al. 2017), with aif360's mix rates.

    The cost of a group is its generalized false positive rate, false negative rate, or both weighted by its
    shares of the labels. In the group of the lower cost a share :math:`\alpha` of the people gets the group's
    base rate :math:`\mu` for a score, so that both groups cost the same (their algorithm 1):

    .. math:: \alpha = \frac{c_{\text{other}} - c}{c_{\mu} - c}

    The rates are fitted on rows that the regression has not seen, and the threshold after mixing. Whether a
    row is in that share is drawn from a hash of the row and the seed: equal rows get equal scores, whatever
    the other rows are.

    Parameters
    ----------
    cost_constraint : {"weighted", "fpr", "fnr"}

    Attributes
    ----------
    mix_rates_, base_rates_ : ndarray of float64, shape (2,)
        Of the other group and of the privileged one.
    feasible_ : bool
        Whether some mix makes the costs equal. If even the base rate costs less than the other group's
        scores, the whole group gets it, and so the same prediction.
    """

    method = "calibrated-equalized-odds"

    cost_constraint: CostConstraint = "weighted"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("cost_constraint", get_args(CostConstraint))

    def _post_process(self, rows: Float32, codes: Codes, groups: Codes) -> None:
        rates, self.base_rates_ = _mix_rates(
            self.linear_.probability(rows), codes, groups, self.cost_constraint
        )
        # above 1 no mix is enough, and all scores are replaced; below 0 the base rate costs less than them
        self.mix_rates_ = np.clip(rates, 0.0, 1.0)
        self.feasible_ = bool((rates == self.mix_rates_).all())
        self._set_threshold(codes, rows)

    def _positive_probability(self, X: Float32) -> Float:
        group = self._reader.read(X)
        mixed = row_draws(X, self.random_state) < self.mix_rates_[group]
        return np.where(mixed, self.base_rates_[group], self.linear_.probability(X))

    def _arrays(self) -> Arrays:
        return {
            **super()._arrays(),
            "mix_rates": self.mix_rates_,
            "base_rates": self.base_rates_,
            "feasible": np.array([self.feasible_]),
        }

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self.mix_rates_, self.base_rates_ = arrays["mix_rates"], arrays["base_rates"]
        self.feasible_ = bool(arrays["feasible"][0])


def row_draws(X: Float32, seed: int | None) -> Float:
    """A number in [0, 1) for each row, shape (n,), from a hash of the bytes of the row of X, shape (n, d).

    The seed None is 0.
    """
    # adding 0 turns -0 into 0: equal numbers get equal bytes
    rows = np.ascontiguousarray(X, dtype="<f4") + np.float32(0)
    key = str(int(seed or 0)).encode()
    digests = b"".join(hashlib.blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in rows)
    # a float holds 53 bits exactly; with more, rounding could reach 1
    bits = np.frombuffer(digests, "<u8") >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _mix_rates(scores: Float, labels: Int, privileged: Int, cost_constraint: str) -> tuple[Float, Float]:
    """Mix and base rates of the other and of the privileged group, by aif360."""
    with optional_import(CalibratedOddsClassifier.method):
        import pandas as pd
        from aif360.algorithms.postprocessing import CalibratedEqOddsPostprocessing
        from aif360.datasets import BinaryLabelDataset
    frame = pd.DataFrame({"group": privileged.astype(np.float64), "label": labels.astype(np.float64)})
    true = BinaryLabelDataset(df=frame, label_names=["label"], protected_attribute_names=["group"])
    scored = true.copy(deepcopy=True)
    scored.scores = scores[:, None]
    fitted = CalibratedEqOddsPostprocessing([{"group": 0}], [{"group": 1}], cost_constraint=cost_constraint)
    # costs that are equal for every mix give 0 / 0, and no score is changed
    with np.errstate(divide="ignore", invalid="ignore"):
        fitted.fit(true, scored)
    rates = np.nan_to_num([fitted.unpriv_mix_rate, fitted.priv_mix_rate], nan=0.0)
    return rates, np.array([fitted.base_rate_unpriv, fitted.base_rate_priv], np.float64)
