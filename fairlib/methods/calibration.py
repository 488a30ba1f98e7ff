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
# The log loss reads a probability of 0 as this one, as scikit-learn's does.
LEAST_LIKELY = float(np.finfo(np.float64).eps)
# Isotonic regression of fewer rows follows single people.
LEAST_ISOTONIC = 1000
# Newton's method for two coefficients needs about ten steps. It ends where a step would lower the
# loss by no more than this a row (nats), or where even a small part of a step lowers nothing.
NEWTON_STEPS = 100
NEWTON_TOLERANCE = 1e-15
LEAST_NEWTON_STEP = 1e-6


@dataclass(frozen=True)
class Calibration:
    r"""A map from a model's probability of the positive label to a calibrated one.

    First the log-odds lose what class weights in training added to them, :math:`z =
    \mathrm{logit}(p) - s`. Then, by kind,

    - ``none``: :math:`\sigma(z)`;
    - ``sigmoid``: :math:`\sigma(a z + b)` (Platt 1999);
    - ``beta``: :math:`\sigma(a \ln q - b \ln(1 - q) + c)` with :math:`q = \sigma(z)` and a, b not
      negative (Kull, Silva Filho and Flach, AISTATS 2017);
    - ``isotonic``: a non-decreasing, piecewise linear function of :math:`\sigma(z)`, within
      [1e-6, 1 - 1e-6] (Zadrozny and Elkan, KDD 2002).

    Attributes
    ----------
    kind : {"none", "sigmoid", "isotonic", "beta"}
    shift : float
        s, in log-odds.
    parameters : tuple of float
        (a, b) of ``sigmoid``; (a, b, c) of ``beta``.
    knots, values : tuple of float
        Of ``isotonic``: probabilities, and the calibrated ones there.
    """

    kind: Kind = "none"
    shift: float = 0.0
    parameters: tuple[float, ...] = ()
    knots: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def __call__(self, probability: ArrayLike) -> Float:
        """Calibrate probabilities.

        Parameters
        ----------
        probability : array-like, shape (n,)
            The model's, of the positive label.

        Returns
        -------
        ndarray of float, shape (n,)
        """
        p = np.asarray(probability, dtype=np.float64)
        if self.kind == "none" and self.shift == 0.0:
            return p
        z = _log_odds(p) - self.shift
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
        """Give the calibration as plain JSON types.

        Returns
        -------
        dict
            Its fields; tuples as lists.
        """
        content: dict[str, Any] = {}
        for name, value in asdict(self).items():
            content[name] = list(value) if isinstance(value, tuple) else value
        return content

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the result of :meth:`to_json`.

        Parameters
        ----------
        data : mapping of str to value

        Returns
        -------
        Calibration
        """
        fields: dict[str, Any] = {}
        for name, value in data.items():
            fields[name] = tuple(value) if isinstance(value, list) else value
        return cls(**fields)


def fit_calibration(
    probability: ArrayLike,
    y: ArrayLike,
    kind: Kind | Literal["auto"] = "auto",
    *,
    shift: float = 0.0,
    is_increasing: bool = False,
) -> tuple[Calibration, dict[Kind, float]]:
    """Fit a calibration to rows that the model was not trained on.

    Parameters
    ----------
    probability : array-like, shape (m,)
        The model's, of label 1.
    y : array-like, shape (m,)
        Labels, 0 and 1.
    kind : {"auto", "none", "sigmoid", "isotonic", "beta"}, default "auto"
        ``auto`` takes the kind of the smallest cross-validated log loss; the first of equals, in
        the order of ``KINDS``. ``isotonic`` takes part from 1,000 rows on.
    shift : float, default 0
        Log-odds that class weights added in training.
    is_increasing : bool, default False
        Whether ``auto`` leaves out ``isotonic``, which gives many people the same probability.

    Returns
    -------
    Calibration
    dict of str to float
        Cross-validated log loss (nats) of each kind that took part; empty for a given kind, and
        where a label has fewer rows than there are folds, which are too few for any kind but
        ``none``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> probability = rng.uniform(size=500)
    >>> y = rng.uniform(size=500) < probability**2  # the model overestimates
    >>> calibration, losses = fit_calibration(probability, y, "beta")
    >>> bool(calibration(np.array([0.5]))[0] < 0.4)
    True
    """
    from sklearn.model_selection import StratifiedKFold

    p = np.asarray(probability, dtype=np.float64)
    labels = np.asarray(y, dtype=np.int64)
    if np.bincount(labels, minlength=2).min() < FOLDS:
        return Calibration(shift=shift), {}
    if kind != "auto":
        return _fit(kind, p, labels, shift), {}
    kinds = list(KINDS)
    if is_increasing or len(p) < LEAST_ISOTONIC:
        kinds.remove("isotonic")
    losses: dict[Kind, float] = dict.fromkeys(kinds, 0.0)
    # Rows come in the table's order, so the folds are of shuffled rows; the seed only has to be
    # fixed.
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for train, test in folds.split(p, labels):
        for candidate in kinds:
            calibration = _fit(candidate, p[train], labels[train], shift)
            fold_losses = _losses(calibration(p[test]), labels[test])
            losses[candidate] += float(fold_losses.sum()) / len(p)
    best = min(kinds, key=losses.__getitem__)
    return _fit(best, p, labels, shift), losses


def _fit(kind: Kind, p: Float, y: Int, shift: float) -> Calibration:
    """Calibration of one kind."""
    z = _log_odds(p) - shift
    if kind == "sigmoid":
        return Calibration(kind, shift, _fit_sigmoid(z, y))
    if kind == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        isotonic = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(expit(z), y)
        knots = tuple(isotonic.X_thresholds_.tolist())
        values = tuple(isotonic.y_thresholds_.tolist())
        return Calibration(kind, shift, knots=knots, values=values)
    if kind == "beta":
        return Calibration(kind, shift, _fit_beta(z, y))
    return Calibration(kind, shift)


def _fit_sigmoid(z: Float, y: Int) -> tuple[float, float]:
    """Coefficients (a, b) of Platt's sigmoid of log-odds, by Newton's method.

    His targets are a little inside 0 and 1 (Platt 2000, section 2.2), so the minimum is finite. The
    loss is convex; a step that does not make it smaller is halved.
    """
    positive = float(y.sum())
    negative = float(len(y)) - positive
    target = np.where(y > 0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
    features = np.stack([z, np.ones_like(z)])
    coefficients = np.array([0.0, np.log((positive + 1.0) / (negative + 1.0))])
    loss = _target_loss(coefficients @ features, target)
    for _ in range(NEWTON_STEPS):
        p = expit(coefficients @ features)
        gradient = features @ (p - target)
        curvature = (features * (p * (1.0 - p))) @ features.T
        # equal log-odds of all rows have no slope
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        if float(gradient @ step) <= NEWTON_TOLERANCE * len(z):
            break
        size = 1.0
        while size > LEAST_NEWTON_STEP:
            moved = coefficients - size * step
            moved_loss = _target_loss(moved @ features, target)
            if moved_loss < loss:
                break
            size /= 2.0
        if moved_loss >= loss:
            break
        coefficients = moved
        loss = moved_loss
    return float(coefficients[0]), float(coefficients[1])


def _target_loss(log_odds: Float, target: Float) -> float:
    """Sum of the cross entropies (nats) of targets in [0, 1]."""
    return float((np.logaddexp(0.0, log_odds) - target * log_odds).sum())


def _fit_beta(z: Float, y: Int) -> tuple[float, float, float]:
    """Maximum likelihood; a coefficient that would be negative is 0, so that the map does not
    decrease.
    """
    from sklearn.linear_model import LogisticRegression

    features = _beta_features(z)
    used = [0, 1]
    while used:
        model = LogisticRegression(C=1e6, max_iter=1000).fit(features[:, used], y)
        coefficients = dict(zip(used, model.coef_[0].tolist(), strict=True))
        negative = [index for index in used if coefficients[index] < 0]
        if not negative:
            intercept = float(model.intercept_[0])
            return coefficients.get(0, 0.0), coefficients.get(1, 0.0), intercept
        used.remove(min(negative, key=coefficients.__getitem__))
    return 0.0, 0.0, float(logit(y.mean()))


def _log_odds(p: Float) -> Float:
    """Finite log-odds, also of 0 and 1."""
    return np.asarray(logit(np.clip(p, 1e-12, 1.0 - 1e-12)), dtype=np.float64)


def _beta_features(z: Float) -> Float:
    r""":math:`(\ln q, -\ln(1 - q))` of log-odds, without forming q."""
    return np.stack([-np.logaddexp(0.0, -z), np.logaddexp(0.0, z)], axis=1)


def _inside(p: Float) -> Float:
    """Probabilities that are neither 0 nor 1."""
    return np.clip(p, SMALLEST, 1.0 - SMALLEST)


def _losses(p: Float, y: Int) -> Float:
    """Log loss of every row (nats), finite also where a probability is 0 or 1."""
    inside = np.clip(p, LEAST_LIKELY, 1.0 - LEAST_LIKELY)
    return -np.log(np.where(y == 1, inside, 1.0 - inside))
