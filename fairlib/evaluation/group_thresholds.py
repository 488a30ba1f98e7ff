r"""Thresholds per group that minimise the expected cost under a limit on differences between
groups.

Hardt, Price and Srebro, "Equality of Opportunity in Supervised Learning", NeurIPS 2016, section 4,
with a tolerance in place of equality. A randomised threshold reaches every point of the convex hull
of a group's ROC curve. Cost and rates are linear in that point, so the best points are a linear
program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation.evaluate import reading_json
from evenhand.fairlib.evaluation.metrics import ratio
from evenhand.fairlib.evaluation.outcomes import Outcomes, encode_groups

Criterion = Literal["equalized_odds", "equal_opportunity", "demographic_parity"]

LIMITED: dict[Criterion, tuple[str, ...]] = {
    "equalized_odds": ("fpr", "tpr"),
    "equal_opportunity": ("tpr",),
    "demographic_parity": ("selection",),
}
"""Rates that each criterion limits."""

ABOVE_EVERY_SCORE = 2.0
"""Threshold that no probability reaches."""

LEAST_WEIGHT = 1e-9
"""Smaller weights are rounding of the solver."""

SMOOTHED_ROWS = 2000.0
"""Rows from which on labels count more than probabilities where the smoothing is ``"auto"``."""

MOST_SMOOTHED_ROWS = 5000
"""More rows are not smoothed by ``"auto"``: the gain was measured up to here, and on the whole of
Adult six of ten limits were kept with it where eight were without.
"""


@dataclass(frozen=True)
class GroupThresholds:
    """A randomised threshold per group."""

    attribute: str  # the attribute that defines the groups; it is needed for every decision
    # which rates are limited: both error rates, the true positive rate, or the selection rate
    criterion: Criterion
    tolerance: float  # largest allowed difference of a limited rate between two groups
    # false_positive, false_negative: costs of the two errors
    false_positive: float
    false_negative: float
    # group to (threshold, weight), thresholds falling; a group's weights sum to 1. The decision is
    # 1 for a probability at or above the threshold. ``ABOVE_EVERY_SCORE``
    # selects nobody.
    thresholds: Mapping[str, tuple[tuple[float, float], ...]]
    # group to ``n``, ``fpr``, ``tpr`` and ``selection`` (rate) on the rows of the fit
    rates: Mapping[str, Mapping[str, float]]
    cost: float  # mean cost per person on the rows of the fit
    cost_without_limit: float  # mean cost of the best thresholds per group without a limit

    def decide(self, probability: ArrayLike, group: ArrayLike, uniform: ArrayLike) -> Int:
        """Decide 0 or 1 for every person, shape (n,), from probabilities of label 1 and groups.

        Parameters
        ----------
        probability : array-like, shape (n,)
            Probabilities of label 1.
        group : array-like, shape (n,)
            Group of every person.
        uniform : array-like, shape (n,)
            One number in [0, 1) per person, such as
            :func:`evenhand.fairlib.proxies.hash_uniform.hash_uniforms` gives. It chooses among the
            thresholds of the person's group, so equal numbers give equal decisions.

        Returns
        -------
        ndarray of int64, shape (n,)
            Decisions, 0 or 1.

        Raises
        ------
        ValueError
            For columns of different lengths, numbers out of range, or a group without thresholds.
        """
        p = np.asarray(probability, dtype=np.float64)
        u = np.asarray(uniform, dtype=np.float64)
        names = np.asarray(group, dtype=object)
        if p.ndim != 1 or not p.shape == names.shape == u.shape:
            raise ValueError("probability, group and uniform must have one value per row each.")
        if not ((p >= 0) & (p <= 1) & (u >= 0) & (u < 1)).all():
            raise ValueError(
                "probability must be in [0, 1] and uniform in [0, 1): some numbers are not."
            )
        decided = np.full(len(p), -1, dtype=np.int64)
        for name, mixture in self.thresholds.items():
            rows = names == name
            thresholds, weights = np.array(mixture).T
            # the last bound is left out: it is 1, but for rounding
            chosen = np.searchsorted(np.cumsum(weights)[:-1], u[rows], side="right")
            decided[rows] = p[rows] >= thresholds[chosen]
        unknown = int((decided < 0).sum())
        if unknown:
            raise ValueError(
                f"{self.attribute!r}: {unknown} of {len(p)} rows have no group with thresholds; "
                f"give one of the {len(self.thresholds)} groups that the thresholds were chosen "
                "for."
            )
        return decided

    def to_json(self) -> dict[str, Any]:
        """Give the rule as plain JSON types; ``from_json`` reads it."""
        whole = asdict(self)
        whole["thresholds"] = {}
        for name, rule in self.thresholds.items():
            whole["thresholds"][name] = [list(pair) for pair in rule]
        return whole

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GroupThresholds:
        """Read the result of ``to_json``.
        ValueError: a part is missing or malformed.

        Parameters
        ----------
        data : mapping
            Result of :meth:`to_json`.

        Returns
        -------
        GroupThresholds
            An equal rule.

        Raises
        ------
        ValueError
            If a part is missing or malformed.
        """
        with reading_json("group thresholds"):
            parts = dict(data)
            parts["thresholds"] = {}
            for name, pairs in data["thresholds"].items():
                rule = tuple((float(threshold), float(weight)) for threshold, weight in pairs)
                parts["thresholds"][name] = rule
            loaded = cls(**parts)
        for rule in loaded.thresholds.values():
            weights = [weight for _, weight in rule]
            if not weights or min(weights) < 0 or abs(sum(weights) - 1.0) > 1e-6:
                raise ValueError(
                    "group thresholds: weights must not be negative and sum to 1 in every group."
                )
        return loaded


class RocHull(NamedTuple):
    """Vertices of the upper convex hull of a ROC curve from (0, 0) to (1, 1), each of shape
    (k,).
    """

    thresholds: Float
    fpr: Float
    tpr: Float


def roc_hull(probability: Float, label: Int | Float) -> RocHull:
    """Upper convex hull of the ROC curve of probabilities in [0, 1], shape (n,), of labels 0 and 1.

    Thresholds are halfway between two neighbouring probabilities; the first is
    ``ABOVE_EVERY_SCORE``, the last 0. A rate without rows of its label is NaN.

    Parameters
    ----------
    probability : ndarray of float64, shape (n,)
        Probabilities of label 1, in [0, 1].
    label : ndarray of int64 or float64, shape (n,)
        Labels, 0 or 1; or numbers between them, which count in part for either.

    Returns
    -------
    RocHull
        The vertices, thresholds falling.
    """
    values, place = np.unique(probability, return_inverse=True)
    positives = np.bincount(place, weights=label)[::-1]
    negatives = np.bincount(place, weights=1 - label)[::-1]
    tp = np.concatenate([[0.0], np.cumsum(positives)])
    fp = np.concatenate([[0.0], np.cumsum(negatives)])
    falling = values[::-1]
    middle = (falling[:-1] + falling[1:]) / 2
    # between neighbouring floats the middle may round to the lower one, which must stay below the
    # threshold
    middle = np.where(middle > falling[1:], middle, falling[:-1])
    thresholds = np.concatenate([[ABOVE_EVERY_SCORE], middle, [0.0]])
    vertices = np.arange(len(tp))
    while True:
        # a point on or below the line between its neighbours is no vertex; this is exact where
        # counts are whole
        x = fp[vertices]
        y = tp[vertices]
        above = (x[1:-1] - x[:-2]) * (y[2:] - y[:-2]) < (x[2:] - x[:-2]) * (y[1:-1] - y[:-2])
        if above.all():
            break
        vertices = vertices[np.concatenate([[True], above, [True]])]
    return RocHull(
        thresholds=thresholds[vertices],
        fpr=ratio(fp[vertices], fp[-1]),
        tpr=ratio(tp[vertices], tp[-1]),
    )


def fit_group_thresholds(
    probability: ArrayLike,
    label: ArrayLike,
    group: ArrayLike,
    *,
    attribute: str,
    criterion: Criterion = "equalized_odds",
    tolerance: float = 0.0,
    false_positive: float = 1.0,
    false_negative: float = 1.0,
    favourable: int = 1,
    smoothing: float | Literal["auto"] = 0.0,
) -> GroupThresholds:
    r"""Choose the randomised thresholds of least expected cost whose rates differ little between
    groups.

    .. math::
        \min \sum_g \frac{n_g}{n} \left[ c_{FP} (1 - \pi_g)\, \mathrm{FPR}_g
        + c_{FN}\, \pi_g (1 - \mathrm{TPR}_g) \right] \quad \text{s.t.} \quad
        \max_{g,h} |r_g - r_h| \le t \text{ for every limited rate } r

    over points :math:`(\mathrm{FPR}_g, \mathrm{TPR}_g)` between the diagonal and the hull of each
    group's ROC curve, with the share of positives :math:`\pi_g`. Points below the diagonal need not
    be tried: moved onto it, with FPR held fixed (for demographic parity the selection rate), they
    cost no more and no difference of a limited rate grows. With a tolerance of 1 or more, every
    group gets its own thresholds of least cost.

    The thresholds of few rows follow the labels of single people. With a smoothing :math:`s`, a row
    of label :math:`y` and probability :math:`p` counts as :math:`(1 - s) y + s p` rows of label 1,
    and as so many less than one of label 0: the ROC curves are shrunk to those that the calibrated
    probabilities have. Differences on these rows may then be larger than the tolerance, and are no
    larger on new ones.

    Parameters
    ----------
    probability : array-like, shape (n,)
        Calibrated probabilities of label 1 on rows that the model was not trained on.
    label : array-like, shape (n,)
        True labels, 0 or 1.
    group : array-like, shape (n,)
        Group of every row.
    attribute : str
        Name of the column of groups, for messages.
    criterion : Criterion, default "equalized_odds"
        Rates whose differences are limited: both error rates, the true positive rate, or the
        selection rate.
    tolerance : float, default 0.0
        Largest allowed difference :math:`t`, at least 0.
    false_positive : float, default 1.0
        Cost :math:`c_{FP}`, at least 0.
    false_negative : float, default 1.0
        Cost :math:`c_{FN}`, at least 0; not both are 0.
    favourable : int, default 1
        Label, 1 or 0, that is the good outcome for a person: equal opportunity limits the
        differences of the share of its people who are predicted so, for label 0 :math:`1 -
        \mathrm{FPR}`.
    smoothing : float or "auto", default 0.0
        :math:`s`, from 0 to 1. ``"auto"`` is :math:`2000 / (2000 + n)` up to 5,000
        rows, and 0 with more.

    Returns
    -------
    GroupThresholds
        The rule.

    Raises
    ------
    ValueError
        For columns of different lengths, no row, numbers out of range, an unknown criterion, or a
        group without rows of both labels.

    References
    ----------
    .. [1] M. Hardt, E. Price and N. Srebro, "Equality of Opportunity in Supervised Learning",
       NeurIPS 2016, section 4.

    Examples
    --------
    >>> rule = fit_group_thresholds(
    ...     [0.2, 0.8, 0.1, 0.6], [0, 1, 0, 1], ["a", "a", "b", "b"], attribute="team"
    ... )
    >>> rule.cost
    0.0
    """
    _check_settings(criterion, tolerance, false_positive, false_negative)
    y = np.asarray(label)
    # Outcomes checks the columns
    rows = Outcomes(y, y, np.asarray(probability), {attribute: np.asarray(group)})
    names, code = encode_groups(rows.sensitive[attribute])
    counts = np.bincount(code * 2 + rows.y_true, minlength=2 * len(names)).reshape(-1, 2)
    short = int((counts == 0).any(axis=1).sum())
    if short:
        raise ValueError(
            f"{attribute!r}: {short} of {len(names)} groups lack rows of one label, so their error "
            "rates are unknown; merge them with other groups or use more rows."
        )
    weight = rows.y_true.astype(np.float64)
    share = _smoothing_of(smoothing, rows.n)
    if share:
        weight = (1.0 - share) * weight + share * rows.score
    hulls = [roc_hull(rows.score[code == k], weight[code == k]) for k in range(len(names))]
    rates: list[dict[str, Float]] = []
    prices: list[Float] = []  # of every vertex, as cost per person of all groups
    costs = (false_positive, false_negative)
    for k, hull in enumerate(hulls):
        positive = float(weight[code == k].sum())
        negative = float(counts[k].sum()) - positive
        rates.append(_rates_of(hull.fpr, hull.tpr, negative, positive))
        prices.append(_prices_of(hull.fpr, hull.tpr, negative, positive, costs) / rows.n)
    limited = LIMITED[criterion]
    if criterion == "equal_opportunity" and favourable == 0:
        limited = ("fpr",)
    limited_rates = []
    for rates_of_group in rates:
        limited_rates.append([rates_of_group[name] for name in limited])
    mixtures = _solve(prices, limited_rates, tolerance)
    if share:
        # what is stated of these rows follows from their labels
        for k, hull in enumerate(hulls):
            here = code == k
            negative, positive = (float(count) for count in counts[k])
            fpr, tpr = _rates_at(hull.thresholds, rows.score[here], rows.y_true[here])
            rates[k] = _rates_of(fpr, tpr, negative, positive)
            prices[k] = _prices_of(fpr, tpr, negative, positive, costs) / rows.n
    thresholds = {}
    mixed_rates = {}
    for k, name in enumerate(names):
        thresholds[name] = _mixture_of(hulls[k], mixtures[k])
        mixed_rates[name] = {"n": int(counts[k].sum())} | _mixed(rates[k], mixtures[k])
    return GroupThresholds(
        attribute=attribute,
        criterion=criterion,
        tolerance=float(tolerance),
        false_positive=float(false_positive),
        false_negative=float(false_negative),
        thresholds=thresholds,
        rates=mixed_rates,
        cost=float(sum(weights @ price for weights, price in zip(mixtures, prices, strict=True))),
        cost_without_limit=float(sum(price.min() for price in prices)),
    )


def _smoothing_of(smoothing: float | str, rows: int) -> float:
    """Share of the probabilities in what a row counts for."""
    if smoothing == "auto":
        if rows > MOST_SMOOTHED_ROWS:
            return 0.0
        return SMOOTHED_ROWS / (SMOOTHED_ROWS + rows)
    if isinstance(smoothing, str) or not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing: got {smoothing!r}, expected 'auto' or a number from 0 to 1.")
    return float(smoothing)


def _rates_of(fpr: Float, tpr: Float, negative: float, positive: float) -> dict[str, Float]:
    """The rates that may be limited, of thresholds for so many rows of each label."""
    selection = (negative * fpr + positive * tpr) / (negative + positive)
    return {"fpr": fpr, "tpr": tpr, "selection": selection}


def _prices_of(
    fpr: Float, tpr: Float, negative: float, positive: float, costs: tuple[float, float]
) -> Float:
    """Cost of the errors with each threshold, for false positives and false negatives."""
    false_positive, false_negative = costs
    return false_positive * negative * fpr + false_negative * positive * (1.0 - tpr)


def _rates_at(thresholds: Float, probability: Float, label: Int) -> tuple[Float, Float]:
    """False and true positive rates of thresholds on rows."""
    rates = []
    for value in (0, 1):
        ordered = np.sort(probability[label == value])
        below = np.searchsorted(ordered, thresholds, side="left")
        rates.append(1.0 - below / len(ordered))
    return rates[0], rates[1]


def _check_settings(
    criterion: str, tolerance: float, false_positive: float, false_negative: float
) -> None:
    """ValueError for a setting of :func:`fit_group_thresholds` that is out of its range."""
    if criterion not in LIMITED:
        raise ValueError(f"criterion: got {criterion!r}, expected one of {', '.join(LIMITED)}.")
    if not (np.isfinite(tolerance) and tolerance >= 0):
        raise ValueError(
            f"tolerance: got {tolerance!r}, expected a number of at least 0, such as 0.05."
        )
    costs = np.array([false_positive, false_negative], dtype=np.float64)
    if not np.isfinite(costs).all() or (costs < 0).any() or not costs.any():
        raise ValueError("costs: expected two finite numbers of at least 0, and not both 0.")


def _mixture_of(hull: RocHull, weights: Float) -> tuple[tuple[float, float], ...]:
    """Thresholds with a positive weight, each with its weight."""
    used = weights > 0
    return tuple(zip(hull.thresholds[used].tolist(), weights[used].tolist(), strict=True))


def _mixed(rates: Mapping[str, Float], weights: Float) -> dict[str, float]:
    """Each rate of a randomised threshold: the mean over the vertices by weight."""
    return {name: float(weights @ rate) for name, rate in rates.items()}


def _solve(prices: list[Float], limited: list[list[Float]], tolerance: float) -> list[Float]:
    """Weights of every group's vertices: the linear program by HiGHS, whose solution is a
    vertex.
    """
    from scipy.optimize import linprog

    sizes = [len(price) for price in prices]
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    rates = len(limited[0])
    # the columns are the weights of all groups, then the lowest rate of each kind
    sums = np.zeros((len(prices), total + rates))
    rows = []
    bounds = []
    for group, (start, end) in enumerate(zip(ends - sizes, ends, strict=True)):
        sums[group, start:end] = 1.0
        for k in range(rates):
            # all differences are within the tolerance if all rates lie in one interval of this
            # length
            row = np.zeros(total + rates)
            row[start:end] = limited[group][k]
            row[total + k] = -1.0
            rows += [row, -row]
            bounds += [tolerance, 0.0]
    # the solver's tolerances are absolute, so the largest price becomes 1
    cost = np.concatenate([*prices, np.zeros(rates)])
    solution = linprog(
        cost / cost.max(),
        A_ub=np.array(rows),
        b_ub=np.array(bounds),
        A_eq=sums,
        b_eq=np.ones(len(prices)),
        bounds=[(0.0, None)] * total + [(None, None)] * rates,
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.status != 0:
        raise FloatingPointError(f"HiGHS ended with: {solution.message}")
    mixtures = []
    for start, end in zip(ends - sizes, ends, strict=True):
        weights = solution.x[start:end]
        weights = np.where(weights > LEAST_WEIGHT, weights, 0.0)
        mixtures.append(weights / weights.sum())
    return mixtures
