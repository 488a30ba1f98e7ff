r"""Thresholds per group that minimise the expected cost under a limit on differences between groups.

Hardt, Price and Srebro, "Equality of Opportunity in Supervised Learning", NeurIPS 2016, section 4, with a
tolerance in place of equality. A randomised threshold reaches every point of the convex hull of a group's
ROC curve. Cost and rates are linear in that point, so the best points are a linear program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.evaluation.evaluate import reading_json
from evenhand.fairlib.evaluation.outcomes import encode_groups

Criterion = Literal["equalized_odds", "equal_opportunity", "demographic_parity"]
Floats = NDArray[np.float64]

NOBODY = 2.0
"""Threshold above every probability."""

ABOVE_ONE = float(np.nextafter(1.0, 2.0))

LEAST_WEIGHT = 1e-9
"""Smaller weights are rounding of the solver."""


@dataclass(frozen=True)
class RuleRates:
    """Rows of a group and its rates under the rule: false positive, true positive and selection rate."""

    n: int
    fpr: float
    tpr: float
    selection: float


@dataclass(frozen=True)
class GroupThresholds:
    """
    A randomised threshold per group.

    Parameters
    ----------
    attribute : str
        The attribute that defines the groups; it is needed for every decision.
    criterion : {"equalized_odds", "equal_opportunity", "demographic_parity"}
        Which rates are limited: both error rates, the true positive rate, or the selection rate.
    tolerance : float
        Largest allowed difference of a limited rate between two groups.
    false_positive, false_negative : float
        Costs of the two errors.
    thresholds : mapping of str to tuple of (float, float)
        Group to (threshold, weight), thresholds falling; a group's weights sum to 1. The decision is 1 for a
        probability at or above the threshold. ``NOBODY`` is above every probability.
    rates : mapping of str to RuleRates
        Rates on the rows of the fit.
    cost : float
        Mean cost per person on the rows of the fit.
    cost_without_limit : float
        Mean cost of the best thresholds per group without a limit.
    """

    attribute: str
    criterion: Criterion
    tolerance: float
    false_positive: float
    false_negative: float
    thresholds: Mapping[str, tuple[tuple[float, float], ...]]
    rates: Mapping[str, RuleRates]
    cost: float
    cost_without_limit: float

    def decide(self, probability: ArrayLike, group: ArrayLike, uniform: ArrayLike) -> NDArray[np.int64]:
        """
        Decide 0 or 1 for every person, shape (n,).

        Parameters
        ----------
        probability : array-like, shape (n,)
            Probability of label 1.
        group : array-like of str, shape (n,)
        uniform : array-like, shape (n,)
            One number in [0, 1) per person, such as
            :func:`evenhand.fairlib.proxies.hash_uniform.hash_uniforms` gives; it chooses among the
            thresholds of the person's group, so equal numbers give equal decisions.

        Raises
        ------
        ValueError
            Columns of different lengths, numbers out of range, or a group without thresholds.
        """
        p = _in_range("probability", probability)
        names = np.asarray(group, dtype=object)
        u = _in_range("uniform", uniform, len(p), below=1.0)
        if names.shape != p.shape:
            raise ValueError(f"group must have one value per row, got {names.shape} for {len(p)} rows.")
        decided = np.full(len(p), -1, dtype=np.int64)
        for name, mixture in self.thresholds.items():
            rows = names == name
            thresholds, weights = np.array(mixture).T
            # the last bound is left out: it is 1, but for rounding
            chosen = np.searchsorted(np.cumsum(weights)[:-1], u[rows], side="right")
            decided[rows] = p[rows] >= thresholds[chosen]
        if unknown := int((decided < 0).sum()):
            raise ValueError(
                f"{self.attribute!r}: {unknown} of {len(p)} rows have no group with thresholds; "
                f"give one of the {len(self.thresholds)} groups that the thresholds were chosen for."
            )
        return decided

    def to_json(self) -> dict[str, Any]:
        """Give the rule as plain JSON types; ``from_json`` reads it."""
        whole = asdict(self)
        whole["thresholds"] = {name: [list(pair) for pair in rule] for name, rule in self.thresholds.items()}
        return whole

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GroupThresholds:
        """
        Read the result of ``to_json``.

        Raises
        ------
        ValueError
            A part is missing or malformed.
        """
        with reading_json("group thresholds"):
            parts = dict(data)
            parts["thresholds"] = {
                name: tuple((float(threshold), float(weight)) for threshold, weight in rule)
                for name, rule in data["thresholds"].items()
            }
            parts["rates"] = {name: RuleRates(**rates) for name, rates in data["rates"].items()}
            found = cls(**parts)
        for rule in found.thresholds.values():
            weights = [weight for _, weight in rule]
            if not weights or min(weights) < 0 or abs(sum(weights) - 1.0) > 1e-6:
                raise ValueError(
                    "group thresholds: weights must not be negative and sum to 1 in every group."
                )
        return found


@dataclass(frozen=True, eq=False)
class RocHull:
    """Vertices of the upper convex hull of a ROC curve from (0, 0) to (1, 1), each of shape (k,)."""

    thresholds: Floats
    fpr: Floats
    tpr: Floats


def roc_hull(probability: ArrayLike, label: ArrayLike) -> RocHull:
    """
    Upper convex hull of the ROC curve of the rule "probability at or above the threshold".

    Thresholds are halfway between two neighbouring probabilities; the first is ``NOBODY``, the last 0.

    Raises
    ------
    ValueError
        Probabilities outside [0, 1], labels other than 0 and 1, or only one of them.
    """
    p = _in_range("probability", probability)
    y = _labels(label, len(p))
    values, place = np.unique(p, return_inverse=True)
    positives, negatives = (np.bincount(place, weights=y == value)[::-1] for value in (1, 0))
    tp, fp = (np.concatenate([[0.0], np.cumsum(counts)]) for counts in (positives, negatives))
    if not tp[-1] or not fp[-1]:
        raise ValueError("label: a ROC curve needs rows of both labels.")
    falling = values[::-1]
    middle = (falling[:-1] + falling[1:]) / 2
    # between neighbouring floats the middle may round to the lower one, which must stay below the threshold
    middle = np.where(middle > falling[1:], middle, falling[:-1])
    thresholds = np.concatenate([[NOBODY], middle, [0.0]])
    vertices: list[int] = []
    for k in range(len(tp)):
        # counts are whole numbers, so the side of a vertex is found without rounding
        while len(vertices) > 1 and _not_above(fp, tp, vertices[-2], vertices[-1], k):
            vertices.pop()
        vertices.append(k)
    return RocHull(thresholds[vertices], fp[vertices] / fp[-1], tp[vertices] / tp[-1])


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
) -> GroupThresholds:
    r"""
    Choose the randomised thresholds of least expected cost whose rates differ little between groups.

    .. math::
        \min \sum_g \frac{n_g}{n} \left[ c_{FP} (1 - \pi_g)\, \mathrm{FPR}_g
        + c_{FN}\, \pi_g (1 - \mathrm{TPR}_g) \right] \quad \text{s.t.} \quad
        \max_{g,h} |r_g - r_h| \le t \text{ for every limited rate } r

    over points :math:`(\mathrm{FPR}_g, \mathrm{TPR}_g)` between the diagonal and the hull of each group's ROC
    curve, with the share of positives :math:`\pi_g`. A point below the diagonal is never better: raising all
    such points onto it lowers the cost and no difference grows. With a tolerance of 1 or more, every group
    gets the thresholds of least cost of its own.

    Parameters
    ----------
    probability : array-like, shape (n,)
        Calibrated probability of label 1 on rows that the model was not trained on.
    label : array-like of 0 and 1, shape (n,)
    group : array-like of str, shape (n,)
    attribute : str
        Name of the column of groups, for messages.
    criterion : {"equalized_odds", "equal_opportunity", "demographic_parity"}
    tolerance : float
        :math:`t`, at least 0.
    false_positive, false_negative : float
        :math:`c_{FP}` and :math:`c_{FN}`, at least 0 and not both 0.

    Returns
    -------
    GroupThresholds

    Raises
    ------
    ValueError
        Columns of different lengths, no row, numbers out of range, an unknown criterion, or a group without
        rows of both labels.
    """
    if criterion not in get_args(Criterion):
        raise ValueError(f"criterion: got {criterion!r}, expected one of {', '.join(get_args(Criterion))}.")
    if not (np.isfinite(tolerance) and tolerance >= 0):
        raise ValueError(f"tolerance: got {tolerance!r}, expected a number of at least 0, such as 0.05.")
    costs = np.array([false_positive, false_negative], dtype=np.float64)
    if not np.isfinite(costs).all() or (costs < 0).any() or not costs.any():
        raise ValueError("costs: expected two finite numbers of at least 0, and not both 0.")
    p = _in_range("probability", probability)
    y = _labels(label, len(p))
    column = np.asarray(group, dtype=object)
    if column.shape != p.shape or not len(p):
        raise ValueError(f"group must have one value per row, got {column.shape} for {len(p)} rows.")
    names, code = encode_groups(column)
    counts = np.bincount(code * 2 + y, minlength=2 * len(names)).reshape(-1, 2)
    if short := int((counts == 0).any(axis=1).sum()):
        raise ValueError(
            f"{attribute!r}: {short} of {len(names)} groups lack rows of one label, so their error rates are "
            "unknown; merge them with other groups or use more rows."
        )
    hulls = [roc_hull(p[code == k], y[code == k]) for k in range(len(names))]
    # cost per person of all groups at every vertex
    prices = [
        (false_positive * negative * hull.fpr + false_negative * positive * (1.0 - hull.tpr)) / len(p)
        for hull, (negative, positive) in zip(hulls, counts, strict=True)
    ]
    limited = [
        {
            "equalized_odds": [hull.fpr, hull.tpr],
            "equal_opportunity": [hull.tpr],
            "demographic_parity": [_selection(hull, *row)],
        }[criterion]
        for hull, row in zip(hulls, counts.tolist(), strict=True)
    ]
    mixtures = _solve(prices, limited, tolerance)
    return GroupThresholds(
        attribute,
        criterion,
        float(tolerance),
        float(false_positive),
        float(false_negative),
        {
            name: tuple(
                (float(threshold), float(weight))
                for threshold, weight in zip(hull.thresholds, weights, strict=True)
                if weight > 0
            )
            for name, hull, weights in zip(names, hulls, mixtures, strict=True)
        },
        {
            name: RuleRates(
                int(row.sum()),
                *(float(weights @ rate) for rate in (hull.fpr, hull.tpr, _selection(hull, *row.tolist()))),
            )
            for name, hull, weights, row in zip(names, hulls, mixtures, counts, strict=True)
        },
        float(sum(weights @ price for weights, price in zip(mixtures, prices, strict=True))),
        float(sum(price.min() for price in prices)),
    )


def _solve(prices: list[Floats], limited: list[list[Floats]], tolerance: float) -> list[Floats]:
    """Weights of every group's vertices: the linear program by HiGHS, whose solution is a vertex."""
    import cvxpy

    mixtures = [cvxpy.Variable(len(price), nonneg=True) for price in prices]
    limits = [cvxpy.sum(weights) == 1 for weights in mixtures]
    for rates in zip(*limited, strict=True):
        # all differences are within the tolerance if all rates lie in one interval of this length
        lowest = cvxpy.Variable()
        for weights, rate in zip(mixtures, rates, strict=True):
            limits += [weights @ rate >= lowest, weights @ rate <= lowest + tolerance]
    cost = sum(weights @ price for weights, price in zip(mixtures, prices, strict=True))
    program = cvxpy.Problem(cvxpy.Minimize(cost), limits)
    exact = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    program.solve(solver=cvxpy.HIGHS, highs_options={"solver": "simplex", **exact})
    if program.status != cvxpy.OPTIMAL:
        raise FloatingPointError(f"HiGHS ended with status {program.status}.")
    found = []
    for weights in mixtures:
        value = np.asarray(weights.value, dtype=np.float64)
        kept = np.where(value > LEAST_WEIGHT, value, 0.0)
        found.append(kept / kept.sum())
    return found


def _selection(hull: RocHull, negatives: int, positives: int) -> Floats:
    """Share of the group's rows at or above each threshold."""
    return (negatives * hull.fpr + positives * hull.tpr) / (negatives + positives)


def _not_above(x: Floats, y: Floats, a: int, b: int, c: int) -> bool:
    """Whether vertex b lies on or below the line from a to c."""
    return bool((x[b] - x[a]) * (y[c] - y[a]) >= (x[c] - x[a]) * (y[b] - y[a]))


def _in_range(argument: str, values: ArrayLike, n: int | None = None, *, below: float = ABOVE_ONE) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or (n is not None and len(numbers) != n):
        raise ValueError(f"{argument} must have one number per row, got the shape {numbers.shape}.")
    if not ((numbers >= 0) & (numbers < below)).all():
        raise ValueError(f"{argument}: some numbers are negative, too large or NaN; give numbers in [0, 1].")
    return numbers


def _labels(values: ArrayLike, n: int) -> NDArray[np.int64]:
    label = np.asarray(values)
    if label.shape != (n,) or not np.isin(label, (0, 1)).all():
        raise ValueError(f"label must hold {n} values, each 0 or 1.")
    return label.astype(np.int64)
