"""Calibration on held-out rows: a probability that equals the share of positives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from evenhand.fairlib.arrays import Float, Int

Kind = Literal["none", "sigmoid", "isotonic", "beta"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FOLDS = 5
# A probability of exactly 0 or 1 would make the loss of one wrong prediction infinite.
SMALLEST = 1e-6
# Isotonic regression of fewer rows follows single people.
LEAST_ISOTONIC = 1000


@dataclass(frozen=True)
class Calibration:
    r"""A map from a model's probability of the positive label to a calibrated one.

    First the log-odds lose what class weights in training added to them, :math:`z =
    \mathrm{logit}(p) - s`. Then, by kind,

    - ``none``: :math:`\sigma(z)`;
    - ``sigmoid``: :math:`\sigma(a z + b)` (Platt 1999);
    - ``beta``: :math:`\sigma(a \ln q - b \ln(1 - q) + c)` with :math:`q = \sigma(z)` and a, b not negative
      (Kull, Silva Filho and Flach, AISTATS 2017);
    - ``isotonic``: a non-decreasing, piecewise linear function of :math:`\sigma(z)`, within
      [1e-6, 1 - 1e-6] (Zadrozny and Elkan, KDD 2002).
    """

    kind: Kind = "none"
    shift: float = 0.0  # s, in log-odds
    parameters: tuple[float, ...] = ()  # (a, b) of ``sigmoid``; (a, b, c) of ``beta``
    # knots, values: of ``isotonic``
    knots: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def __call__(self, probability: ArrayLike) -> Float:
        """Calibrated probabilities of model probabilities, both of shape (n,)."""
        given = np.asarray(probability, dtype=np.float64)
        if self.kind == "none" and self.shift == 0.0:
            return given
        z = _log_odds(given) - self.shift
        if self.kind == "sigmoid":
            a, b = self.parameters
            return _inside(expit(a * z + b))
        if self.kind == "beta":
            a, b, c = self.parameters
            low, high = _beta_features(z).T
            return _inside(expit(a * low + b * high + c))
        if self.kind == "isotonic":
            return _inside(np.interp(expit(z), self.knots, self.values))
        return _inside(expit(z))

    def to_json(self) -> dict[str, Any]:
        """Give the calibration as plain JSON types."""
        return {
            name: list(item) if isinstance(item, tuple) else item
            for name, item in asdict(self).items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the result of :meth:`to_json`."""
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items()
        }
        return cls(**values)


def fit_calibration(
    probability: ArrayLike,
    y: ArrayLike,
    kind: Kind | Literal["auto"] = "auto",
    *,
    shift: float = 0.0,
) -> tuple[Calibration, dict[Kind, float]]:
    """Fit a calibration to rows that the model was not trained on.

    `probability`, shape (m,), is the model's of label 1, y, shape (m,), holds 0 and 1, and `shift`
    is the log-odds that class weights added in training. The `kind` ``auto`` is that of the
    smallest cross-validated log loss; the first of equals, in the order of ``KINDS``. ``isotonic``
    takes part from 1,000 rows on.

    The losses are the cross-validated log loss (nats) of each kind that took part; empty for a
    given kind, and where a label has fewer rows than there are folds, which are too few for any
    kind but ``none``.
    """
    from sklearn.model_selection import StratifiedKFold

    p = np.asarray(probability, dtype=np.float64)
    labels = np.asarray(y, dtype=np.int64)
    if np.bincount(labels, minlength=2).min() < FOLDS:
        return Calibration(shift=shift), {}
    if kind != "auto":
        return _fit(kind, p, labels, shift), {}
    kinds = [one for one in KINDS if one != "isotonic" or len(p) >= LEAST_ISOTONIC]
    losses: dict[Kind, float] = dict.fromkeys(kinds, 0.0)
    # Rows come in the table's order, so the folds are of shuffled rows; the seed only has to be
    # fixed.
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(p, labels):
        for one in kinds:
            found = _fit(one, p[train], labels[train], shift)(p[test])
            losses[one] += float(_losses(found, labels[test]).sum()) / len(p)
    best = min(kinds, key=losses.__getitem__)
    return _fit(best, p, labels, shift), losses


def _fit(kind: Kind, p: Float, y: Int, shift: float) -> Calibration:
    z = _log_odds(p) - shift
    if kind == "sigmoid":
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator
        from sklearn.linear_model import LogisticRegression

        # the scores themselves, as a classifier that needs no fit
        scores = LogisticRegression()
        scores.classes_ = np.array([0, 1])
        scores.coef_ = np.ones((1, 1))
        scores.intercept_ = np.zeros(1)
        fitted = CalibratedClassifierCV(FrozenEstimator(scores), method="sigmoid").fit(
            z[:, None], y
        )
        found = fitted.calibrated_classifiers_[0].calibrators[0]
        # scikit-learn writes the sigmoid of -(a z + b)
        return Calibration(kind, shift, (-float(found.a_), -float(found.b_)))
    if kind == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        isotonic = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(expit(z), y)
        knots = isotonic.X_thresholds_
        values = isotonic.y_thresholds_
        return Calibration(kind, shift, (), tuple(knots.tolist()), tuple(values.tolist()))
    if kind == "beta":
        return Calibration(kind, shift, _fit_beta(z, y))
    return Calibration(kind, shift)


def _fit_beta(z: Float, y: Int) -> tuple[float, float, float]:
    """Maximum likelihood; a coefficient that would be negative is 0, so that the map does not
    decrease.
    """
    from sklearn.linear_model import LogisticRegression

    features = _beta_features(z)
    used = [0, 1]
    while used:
        model = LogisticRegression(C=1e6, max_iter=1000).fit(features[:, used], y)
        found = dict(zip(used, model.coef_[0].tolist(), strict=True))
        negative = [index for index in used if found[index] < 0]
        if not negative:
            return found.get(0, 0.0), found.get(1, 0.0), float(model.intercept_[0])
        used.remove(min(negative, key=found.__getitem__))
    return 0.0, 0.0, float(logit(y.mean()))


def _log_odds(p: Float) -> Float:
    return np.asarray(logit(np.clip(p, 1e-12, 1.0 - 1e-12)), dtype=np.float64)


def _beta_features(z: Float) -> Float:
    r""":math:`(\ln q, -\ln(1 - q))` of log-odds, without forming q."""
    return np.stack([-np.logaddexp(0.0, -z), np.logaddexp(0.0, z)], axis=1)


def _inside(p: Float) -> Float:
    return np.clip(p, SMALLEST, 1.0 - SMALLEST)


def _losses(p: Float, y: Int) -> Float:
    return -np.log(np.where(y == 1, p, 1.0 - p))
