"""Thresholds per group: by hand, against SciPy's linear program and a grid, and their
properties.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from scipy.spatial import ConvexHull
from sklearn.metrics import roc_curve

from evenhand.fairlib.evaluation.group_thresholds import (
    ABOVE_EVERY_SCORE,
    GroupThresholds,
    fit_group_thresholds,
    roc_hull,
)

CRITERIA = ("equalized_odds", "equal_opportunity", "demographic_parity")
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def people(n: int, seed: int, groups: int = 3, decimals: int = 2) -> Rows:
    rng = np.random.default_rng(seed)
    code = rng.integers(0, groups, n)
    noise = 1.2 * rng.standard_normal(n) * (1 + 0.4 * code)
    probability = np.round(1 / (1 + np.exp(-(noise - 0.6 + 0.5 * code))), decimals)
    label = (rng.random(n) < probability).astype(int)
    return probability, label, np.array(list("ABC"))[code]


def all_points(probability: np.ndarray, label: np.ndarray) -> np.ndarray:
    """False and true positive rate of every threshold."""
    cuts = np.append(np.unique(probability), 2.0)
    chosen = probability[None] >= cuts[:, None]
    return np.stack([chosen[:, label == y].mean(axis=1) for y in (0, 1)], axis=1)


def lowest_cost(rows: Rows, criterion: str, tolerance: float, fp: float, fn: float) -> float:
    """The same program over all thresholds, not only those of the upper hull, with pairwise
    limits.
    """
    probability, label, group = rows
    blocks, costs, rates, offset = [], [], [], 0.0
    for name in sorted(set(group)):
        own = group == name
        points, base, share = (
            all_points(probability[own], label[own]),
            label[own].mean(),
            own.mean(),
        )
        selected = (1 - base) * points[:, 0] + base * points[:, 1]
        blocks.append(len(points))
        costs.append(share * (fp * (1 - base) * points[:, 0] - fn * base * points[:, 1]))
        offset += share * fn * base
        rates.append(
            {
                "equalized_odds": [points[:, 0], points[:, 1]],
                "equal_opportunity": [points[:, 1]],
                "demographic_parity": [selected],
            }[criterion]
        )
    ends = np.cumsum([0, *blocks])
    sums = np.zeros((len(blocks), ends[-1]))
    for k in range(len(blocks)):
        sums[k, ends[k] : ends[k + 1]] = 1
    limits = []
    for a, b in product(range(len(blocks)), repeat=2):
        for r in range(len(rates[0])):
            row = np.zeros(ends[-1])
            if a != b:
                row[ends[a] : ends[a + 1]], row[ends[b] : ends[b + 1]] = rates[a][r], -rates[b][r]
                limits.append(row)
    found = linprog(
        np.concatenate(costs),
        A_ub=np.array(limits),
        b_ub=np.full(len(limits), tolerance),
        A_eq=sums,
        b_eq=np.ones(len(blocks)),
    )
    assert found.success
    return found.fun + offset


def measured(
    rule: GroupThresholds, rows: Rows, uniform: np.ndarray
) -> dict[str, tuple[float, float, float]]:
    probability, label, group = rows
    decided = rule.decide(probability, group, uniform)
    return {
        name: (
            decided[(group == name) & (label == 0)].mean(),
            decided[(group == name) & (label == 1)].mean(),
            decided[group == name].mean(),
        )
        for name in rule.thresholds
    }


def test_hull_by_hand() -> None:
    # by falling probability: 1, 0, 1, 0; the point after the first 0 lies below the hull
    hull = roc_hull(np.array([0.9, 0.7, 0.5, 0.1]), np.array([1, 0, 1, 0]))
    assert_allclose(hull.thresholds, [ABOVE_EVERY_SCORE, 0.8, 0.3, 0.0])
    assert_allclose(hull.fpr, [0, 0, 0.5, 1])
    assert_allclose(hull.tpr, [0, 0.5, 1, 1])
    # equal probabilities cannot be told apart
    flat = roc_hull(np.full(4, 0.4), np.array([1, 0, 1, 0]))
    assert_allclose([flat.thresholds, flat.fpr, flat.tpr], [[ABOVE_EVERY_SCORE, 0], [0, 1], [0, 1]])


def test_hull_is_that_of_the_roc_curve() -> None:
    probability, label, _ = people(500, 1, decimals=4)
    hull = roc_hull(probability, label)
    fpr, tpr, _ = roc_curve(label, probability, drop_intermediate=False)
    points = np.stack([fpr, tpr], axis=1)
    # with (1, 0) the lower side of the hull has no vertex of the curve
    points = np.vstack([points, [1.0, 0.0]])
    expected = np.array(sorted(points[ConvexHull(points).vertices].tolist()))
    found = np.array(sorted([*zip(hull.fpr, hull.tpr, strict=True), (1.0, 0.0)]))
    assert_allclose(found, expected, atol=1e-12)
    # no point of the curve lies above the hull, and every vertex is on the curve
    assert (tpr <= np.interp(fpr, hull.fpr, hull.tpr) + 1e-12).all()
    for threshold, x, y in zip(hull.thresholds, hull.fpr, hull.tpr, strict=True):
        chosen = probability >= threshold
        assert (chosen[label == 0].mean(), chosen[label == 1].mean()) == pytest.approx((x, y))
    slopes = np.diff(hull.tpr) / np.maximum(np.diff(hull.fpr), 1e-300)
    assert (np.diff(slopes) < 0).all()


def test_neighbouring_floats_are_told_apart() -> None:
    low = 0.3
    high = float(np.nextafter(low, 1.0))
    hull = roc_hull(np.array([high, low]), np.array([1, 0]))
    assert_array_equal(np.array([high, low]) >= hull.thresholds[1], [True, False])


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.3])
@pytest.mark.parametrize(("fp", "fn"), [(1.0, 1.0), (1.0, 5.0)])
def test_cost_is_that_of_scipys_linear_program(
    criterion: Any, tolerance: float, fp: float, fn: float
) -> None:
    rows = people(300, 2)
    rule = fit_group_thresholds(
        *rows,
        attribute="race",
        criterion=criterion,
        tolerance=tolerance,
        false_positive=fp,
        false_negative=fn,
    )
    assert rule.cost == pytest.approx(lowest_cost(rows, criterion, tolerance, fp, fn), abs=1e-8)
    limited = {
        "equalized_odds": ("fpr", "tpr"),
        "equal_opportunity": ("tpr",),
        "demographic_parity": ("selection",),
    }[criterion]
    for rate in limited:
        values = [rates[rate] for rates in rule.rates.values()]
        assert max(values) - min(values) <= tolerance + 1e-8
    for mixture in rule.thresholds.values():
        assert 1 <= len(mixture) <= 3
        assert sum(weight for _, weight in mixture) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_points_below_the_diagonal_are_not_needed(criterion: Any) -> None:
    # probabilities that say nothing or the opposite: many thresholds lie below the diagonal
    for seed in range(12):
        rng = np.random.default_rng(seed)
        probability, group = np.round(rng.random(40), 1), np.array(["A", "B", "C", "D"] * 10)
        label = (rng.random(40) < np.where(group < "C", 0.5, 1 - probability)).astype(int)
        label[:4], label[4:8] = 0, 1
        rows = probability, label, group
        for tolerance, fp, fn in ((0.0, 1.0, 1.0), (0.1, 1.0, 300.0), (0.1, 2.0, 1.0)):
            costs = {"false_positive": fp, "false_negative": fn}
            rule = fit_group_thresholds(
                *rows, attribute="g", criterion=criterion, tolerance=tolerance, **costs
            )
            assert rule.cost == pytest.approx(
                lowest_cost(rows, criterion, tolerance, fp, fn), abs=1e-6 * fn
            )


def test_no_rule_on_a_grid_is_cheaper() -> None:
    probability, label, group = rows = people(60, 5, groups=2, decimals=1)
    rule = fit_group_thresholds(
        *rows, attribute="sex", criterion="equal_opportunity", tolerance=0.1
    )
    options = []
    for name in "AB":
        own = group == name
        points, base, share = (
            all_points(probability[own], label[own]),
            label[own].mean(),
            own.mean(),
        )
        steps = np.linspace(0, 1, 11)
        mixed = np.concatenate(
            [[t * a + (1 - t) * b for t in steps] for a, b in product(points, points)]
        )
        cost = share * ((1 - base) * mixed[:, 0] + base * (1 - mixed[:, 1]))
        options.append((mixed[:, 1], cost))
    (tpr_a, cost_a), (tpr_b, cost_b) = options
    allowed = np.abs(tpr_a[:, None] - tpr_b) <= 0.1
    best = np.where(allowed, cost_a[:, None] + cost_b, np.inf).min()
    assert rule.cost <= best + 1e-9
    assert best - rule.cost < 0.02


@pytest.mark.parametrize("criterion", CRITERIA)
def test_cost_falls_with_the_tolerance_to_the_groups_optimum(criterion: Any) -> None:
    probability, label, group = rows = people(400, 7)
    rules = [
        fit_group_thresholds(
            *rows, attribute="g", criterion=criterion, tolerance=t, false_negative=3.0
        )
        for t in (0.0, 0.02, 0.1, 0.4, 1.0, 7.0)
    ]
    costs = [rule.cost for rule in rules]
    assert (np.diff(costs) <= 1e-9).all()
    assert costs[0] > costs[-1] + 0.001
    own = 0.0
    for name in set(group):
        y, p = label[group == name], probability[group == name]
        own += min(np.sum((p >= t) & (y == 0)) + 3 * np.sum((p < t) & (y == 1)) for t in [*p, 2.0])
    assert costs[-1] == costs[-2] == pytest.approx(own / 400)
    assert all(rule.cost_without_limit == pytest.approx(own / 400) for rule in rules)


def test_calibrated_probabilities_get_the_threshold_of_the_costs() -> None:
    rows = people(60_000, 3, groups=2)
    rule = fit_group_thresholds(*rows, attribute="g", tolerance=1.0, false_negative=3.0)
    for mixture in rule.thresholds.values():
        assert mixture[0][0] == pytest.approx(0.25, abs=0.05)


def test_decisions_have_the_rates_of_the_fit() -> None:
    rows = people(20_000, 4)
    rule = fit_group_thresholds(*rows, attribute="race", tolerance=0.01)
    found = measured(rule, rows, np.random.default_rng(0).random(20_000))
    for name, rates in rule.rates.items():
        assert found[name] == pytest.approx(
            (rates["fpr"], rates["tpr"], rates["selection"]), abs=0.02
        )
        assert rates["n"] == (rows[2] == name).sum()
    assert any(len(mixture) > 1 for mixture in rule.thresholds.values())


def test_smoothed_labels_are_those_rows_in_part() -> None:
    """Each row is as several rows: of its own label, and of the labels by its probability."""
    rows = people(300, 6, groups=2, decimals=1)
    probability, label, group = rows
    share = 0.5
    rule = fit_group_thresholds(*rows, attribute="g", tolerance=0.05, smoothing=share)
    of_ten = np.round(10 * probability).astype(int)
    expected_labels = np.arange(10)[None] < of_ten[:, None]
    repeated = np.concatenate([np.tile(label[:, None], 10), expected_labels], axis=1)
    expected = fit_group_thresholds(
        np.repeat(probability, 20),
        repeated.ravel().astype(int),
        np.repeat(group, 20),
        attribute="g",
        tolerance=0.05,
    )
    for name, mixture in expected.thresholds.items():
        assert_allclose(rule.thresholds[name], mixture, atol=1e-7)
    many = (np.repeat(probability, 200), np.repeat(label, 200), np.repeat(group, 200))
    found = measured(rule, many, np.random.default_rng(0).random(60_000))
    for name, rates in rule.rates.items():
        assert rates["n"] == (group == name).sum()
        assert found[name] == pytest.approx(
            (rates["fpr"], rates["tpr"], rates["selection"]), abs=0.02
        )


def test_labels_count_for_more_the_more_rows_there_are() -> None:
    rows = people(500, 7)
    given: dict[str, Any] = {"attribute": "g", "tolerance": 0.05}
    auto = fit_group_thresholds(*rows, **given, smoothing="auto")
    assert auto == fit_group_thresholds(*rows, **given, smoothing=2000 / 2500)
    assert auto != fit_group_thresholds(*rows, **given)
    assert fit_group_thresholds(*rows, **given) == fit_group_thresholds(*rows, **given, smoothing=0)
    many = people(5001, 7)
    by_labels = fit_group_thresholds(*many, **given)
    assert fit_group_thresholds(*many, **given, smoothing="auto") == by_labels
    assert fit_group_thresholds(*many, **given, smoothing=0.5) != by_labels


def test_a_decision_rises_with_the_probability() -> None:
    """It depends on the person alone."""
    rule = GroupThresholds(
        "sex",
        "equalized_odds",
        0.0,
        1.0,
        1.0,
        {"F": ((0.8, 0.25), (0.4, 0.75)), "M": ((0.5, 1.0),)},
        {},
        0,
        0,
    )
    p, u = [0.9, 0.6, 0.6, 0.3, 0.5, 0.49], [0.99, 0.24, 0.25, 0.99, 0.0, 0.0]
    group = ["F"] * 4 + ["M"] * 2
    assert rule.decide(p, group, u).tolist() == [1, 0, 1, 0, 1, 0]
    order = [3, 5, 0, 4, 1, 2]
    shuffled = rule.decide(*(np.array(column)[order] for column in (p, group, u)))
    assert shuffled.tolist() == [[1, 0, 1, 0, 1, 0][i] for i in order]
    rising = rule.decide(np.linspace(0, 1, 50), ["F"] * 50, [0.1] * 50)
    assert (np.diff(rising) >= 0).all()
    assert rule.decide([], [], []).tolist() == []


def test_json_round_trip() -> None:
    rows = people(300, 6)
    rule = fit_group_thresholds(*rows, attribute="race", tolerance=0.02, false_negative=2.0)
    text = json.dumps(rule.to_json(), allow_nan=False)
    again = GroupThresholds.from_json(json.loads(text))
    assert again == rule
    u = np.random.default_rng(1).random(300)
    assert_array_equal(again.decide(rows[0], rows[2], u), rule.decide(rows[0], rows[2], u))
    for key in rule.to_json():
        with pytest.raises(ValueError, match="malformed JSON"):
            GroupThresholds.from_json({k: v for k, v in rule.to_json().items() if k != key})
    with pytest.raises(ValueError, match="sum to 1"):
        GroupThresholds.from_json(rule.to_json() | {"thresholds": {"A": [[0.5, 0.7]]}})


def test_unknown_group_is_named_by_its_attribute() -> None:
    rows = people(300, 6)
    rule = fit_group_thresholds(*rows, attribute="race", tolerance=1.0)
    with pytest.raises(ValueError, match="'race': 1 of 2 rows have no group") as caught:
        rule.decide([0.5, 0.5], ["A", "secret"], [0.1, 0.2])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"criterion": "parity"}, "criterion: got 'parity'"),
        ({"tolerance": -0.1}, "tolerance: got -0.1"),
        ({"tolerance": float("nan")}, "tolerance: got nan"),
        ({"smoothing": 1.5}, "smoothing: got 1.5"),
        ({"smoothing": "much"}, "smoothing: got 'much'"),
        ({"false_positive": -1.0}, "costs: expected"),
        ({"false_positive": 0.0, "false_negative": 0.0}, "costs: expected"),
        ({"probability": [0.1, 1.2, 0.3, 0.4]}, "score: 1 of 4 values lie outside"),
        ({"probability": [0.1, float("nan"), 0.3, 0.4]}, "score: 1 of 4 values are NaN"),
        ({"probability": [[0.1, 0.2, 0.3, 0.4]]}, "score: got 2 dimensions"),
        ({"label": [0, 1, 2, 1]}, "y_true: 1 of 4 values are not 0 or 1"),
        ({"label": [0, 1]}, "got 4 rows, expected 2"),
        ({"group": ["A", "B"]}, "'sex'.*got 2 rows, expected 4"),
        ({"probability": [], "label": [], "group": []}, "got 0 rows"),
        ({"label": [0, 1, 1, 1]}, "'sex': 1 of 2 groups lack rows of one label"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], words: str) -> None:
    columns = {
        "probability": [0.1, 0.2, 0.3, 0.4],
        "label": [0, 1, 0, 1],
        "group": ["A", "A", "B", "B"],
    }
    with pytest.raises(ValueError, match=words):
        fit_group_thresholds(**(columns | {"attribute": "sex"} | changes))


@pytest.mark.parametrize("uniform", [[1.0], [-0.1], [0.5, 0.5]])
def test_bad_uniform_numbers_are_refused(uniform: list[float]) -> None:
    rule = fit_group_thresholds(*people(60, 1), attribute="g", tolerance=1.0)
    with pytest.raises(ValueError, match="uniform"):
        rule.decide([0.5], ["A"], uniform)
