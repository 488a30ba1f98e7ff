"""The search for worst cases against closed forms and brute force, and its models and
objectives.
"""

from __future__ import annotations

import itertools
from dataclasses import fields
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.auditor import worst_case_search
from evenhand.fairlib.auditor.differentiable_model import (
    DifferentiableModel,
    as_differentiable,
)
from evenhand.fairlib.auditor.worst_case_search import (
    Auditor,
    LogitDistance,
    LogLoss,
    SearchBounds,
    SearchObjective,
    WorstCase,
    logit_distance,
)
from evenhand.fairlib.distances import LearnedDirection, SensitiveSubspace
from evenhand.fairlib.distances.metric_base import FeatureBounds
from evenhand.fairlib.methods.networks.network_training import build_network


def box(low: list[float], high: list[float], free: tuple[int, ...] = (0,)) -> SensitiveSubspace:
    """Metric that ignores some columns, within exactly these bounds."""
    metric = SensitiveSubspace(indicators=free).fit(np.array([low, high]))
    bounds = np.array([low, high])
    metric.feature_bounds_ = FeatureBounds(*bounds, *bounds[:, list(free)])
    return metric


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def linear(weights: list[list[float]], bias: list[float] | None = None) -> nn.Sequential:
    """Network without hidden layer; a row of weights for each logit."""
    layer = nn.Linear(len(weights[0]), len(weights))
    layer.weight.data = torch.tensor(weights)
    layer.bias.data = torch.tensor(bias or [0.0] * len(weights))
    return nn.Sequential(layer)


def within(low: list[float], high: list[float], n: int, seed: int) -> Tensor:
    """Rows anywhere in a box."""
    bottom, top = torch.tensor(low), torch.tensor(high)
    return bottom + torch.rand(n, len(low), generator=seeded(seed)) * (top - bottom)


def total(found: WorstCase, multiplier: float) -> Tensor:
    return found.value - multiplier * found.squared_distance


def brute_force(
    network: nn.Module, x: Tensor, goal: str, labels: Tensor, multiplier: float
) -> Tensor:
    """Best of a fine grid of the domain [-1, 1] x [-2, 2], of which the first side is free."""
    sides = torch.linspace(-1, 1, 41), torch.linspace(-2, 2, 401)
    grid = torch.cartesian_prod(*sides)
    with torch.no_grad():
        logits, own = network(grid), network(x)
    if goal == "distance":
        values = (logits[None] - own[:, None]).square().mean(dim=-1)
    else:
        values = -torch.log_softmax(logits, dim=-1)[:, labels].T
    best: Tensor = (values - multiplier * (grid[None, :, 1] - x[:, None, 1]).square()).amax(dim=1)
    return best


def goal_of(goal: str, network: nn.Module, x: Tensor, labels: Tensor) -> SearchObjective:
    return (
        LogitDistance(as_differentiable(network).logits(x))
        if goal == "distance"
        else LogLoss(labels)
    )


# --- closed forms ---


@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("multiplier", [1.1, 2.0, 20.0])
def test_a_linear_network_in_the_box_has_the_closed_form(multiplier: float, classes: int) -> None:
    # each logit is 0.3 x_0 + 0.8 x_1: the mean over logits is the square of one, whatever K
    x = within([-1.0, -1.0], [1.0, 1.0], 20, seed=1)
    network = linear([[0.3, 0.8]] * classes)
    view = as_differentiable(network)
    metric = box([-1.0, -50.0], [1.0, 50.0])
    found = Auditor(metric, full_steps=200, tolerance=-1.0).search(
        view, x, LogitDistance(view.logits(x)), multiplier, seeded(0)
    )
    free = 0.3 * torch.maximum(1 - x[:, 0], 1 + x[:, 0])
    expected = free**2 * multiplier / (multiplier - 0.8**2)
    torch.testing.assert_close(total(found, multiplier), expected, rtol=1e-4, atol=1e-6)
    moved = (found.points - x)[:, 1].abs()
    torch.testing.assert_close(moved, free * 0.8 / (multiplier - 0.8**2), rtol=2e-2, atol=1e-4)


def test_the_distance_is_a_mean_over_the_logits_and_not_a_sum() -> None:
    # only one of three logits moves: d_Y = (2 z)^2 / 3
    x = torch.zeros(1, 2)
    view = as_differentiable(linear([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    found = Auditor(box([-1.0, -1.0], [0.5, 1.0])).search(
        view, x, LogitDistance(view.logits(x)), 1.0, seeded(0)
    )
    torch.testing.assert_close(found.value, torch.tensor([4 / 3]))
    torch.testing.assert_close(found.points, torch.tensor([[-1.0, 0.0]]))
    torch.testing.assert_close(
        logit_distance(torch.tensor([1.0, 2.0]), torch.tensor([4.0, 6.0])), torch.tensor(12.5)
    )


@pytest.mark.parametrize("multiplier", [0.0, 0.1, 0.5])
def test_the_corner_is_taken_where_moving_pays_more(
    multiplier: float,
) -> None:
    # 0.8^2 > multiplier: the further, the better
    x = torch.zeros(3, 2)
    view = as_differentiable(linear([[0.3, 0.8]] * 2))
    metric = box([-1.0, -2.0], [1.0, 2.0])
    auditor = Auditor(metric, full_steps=40, full_rate=1.0)
    found = auditor.search(view, x, LogitDistance(view.logits(x)), multiplier, seeded(0))
    torch.testing.assert_close(found.points.abs(), torch.tensor([[1.0, 2.0]] * 3))
    expected = torch.full((3,), (0.3 + 1.6) ** 2 - multiplier * 4.0)
    torch.testing.assert_close(total(found, multiplier), expected)


def test_without_a_free_direction_people_move_only_where_it_pays() -> None:
    metric = box([-2.0, -2.0], [2.0, 2.0], free=())
    x = torch.zeros(4, 2)
    view = as_differentiable(linear([[0.0, 0.8]] * 2))
    goal = LogitDistance(view.logits(x))
    stays = Auditor(metric, full_steps=30).search(view, x, goal, 0.65, seeded(0))
    torch.testing.assert_close(stays.points, x, rtol=0, atol=1e-6)
    goes = Auditor(metric, full_steps=30, full_rate=1.0).search(view, x, goal, 0.3, seeded(0))
    torch.testing.assert_close(total(goes, 0.3), torch.full((4,), (0.64 - 0.3) * 4.0))
    # nothing but full space is left to search: steps along no direction find nothing
    none = Auditor(metric, subspace_steps=5, full_steps=0).search(view, x, goal, 0.0, seeded(0))
    assert torch.equal(none.points, x)


@pytest.mark.parametrize("free", [(), (0,)])
def test_without_a_price_everyone_moves_to_the_worst_corner(free: tuple[int, ...]) -> None:
    x = within([-1.0, -2.0, 0.0], [1.0, 2.0, 3.0], 15, seed=2)
    labels = torch.arange(15) % 2
    network = linear([[0.0, 0.0, 0.0], [1.0, -0.5, 0.2]])
    found = Auditor(box([-1.0, -2.0, 0.0], [1.0, 2.0, 3.0], free), full_rate=1.0).search(
        as_differentiable(network), x, LogLoss(labels), 0.0, seeded(0)
    )
    # label 0 fears the largest logit of class 1, label 1 the smallest
    corner = torch.tensor([[1.0, -2.0, 3.0], [-1.0, 2.0, 0.0]])
    torch.testing.assert_close(found.points, corner[labels])


# --- brute force ---


@pytest.mark.parametrize("multiplier", [0.0, 0.6, 1.0, 5.0])
def test_log_loss_of_a_linear_network_equals_brute_force(
    multiplier: float,
) -> None:
    """The network has two classes."""
    # of curvature at most 2^2 / 4 along the paid side: from a multiplier of 1/2 on there is one
    # maximum
    x = within([-1.0, -2.0], [1.0, 2.0], 40, seed=3)
    labels = torch.arange(40) % 2
    network = linear([[0.7, -1.1], [-0.4, 0.9]], [0.1, -0.2])
    found = Auditor(box([-1.0, -2.0], [1.0, 2.0]), full_steps=80, tolerance=-1.0).search(
        as_differentiable(network), x, LogLoss(labels), multiplier, seeded(0)
    )
    expected = brute_force(network, x, "loss", labels, multiplier)
    torch.testing.assert_close(total(found, multiplier), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("goal", ["distance", "loss"])
@pytest.mark.parametrize("classes", [2, 3])
def test_hidden_layers_come_close_to_brute_force(classes: int, goal: str) -> None:
    metric = box([-1.0, -2.0], [1.0, 2.0])
    for multiplier in (5.0, 20.0):
        gained, possible = [], []
        for seed in range(6):
            network = build_network(2, (16,), classes, seeded(seed))
            x = within([-1.0, -2.0], [1.0, 2.0], 30, seed=seed)
            labels = torch.arange(30) % classes
            aim = goal_of(goal, network, x, labels)
            found = Auditor(metric, full_steps=60, tolerance=-1.0).search(
                as_differentiable(network), x, aim, multiplier, seeded(seed)
            )
            best = brute_force(network, x, goal, labels, multiplier)
            staying = aim.value(as_differentiable(network).logits(x))
            # the grid may miss the top by half its width
            assert (total(found, multiplier) <= best + 0.03).all()
            gained.append(float((total(found, multiplier) - staying).mean()))
            possible.append(float((best - staying).mean()))
        assert sum(gained) > 0.9 * sum(possible)


@pytest.mark.parametrize("goal", ["distance", "loss"])
def test_random_starts_find_what_the_best_corner_misses(goal: str) -> None:
    metric = box([-1.0, -2.0], [1.0, 2.0])
    auditor = Auditor(metric, full_steps=30)
    improved = 0
    for seed in range(4):
        network = build_network(2, (16,), 2, seeded(seed))
        view = as_differentiable(network)
        x = within([-1.0, -2.0], [1.0, 2.0], 30, seed=seed)
        aim = goal_of(goal, network, x, torch.arange(30) % 2)
        generator = seeded(seed)
        single = total(auditor.search(view, x, aim, 1.0, generator), 1.0)
        several = torch.stack(
            [
                total(auditor.search(view, x, aim, 1.0, generator, random_start=True), 1.0)
                for _ in range(6)
            ]
        ).amax(dim=0)
        improved += int((several > single + 0.05).sum())
    assert improved >= 3


def test_with_few_corners_all_are_tried() -> None:
    # two free directions; the network's output distance peaks at one corner only
    network = build_network(3, (12,), 2, seeded(4))
    view = as_differentiable(network)
    x = within([-1.0] * 3, [1.0] * 3, 25, seed=4)
    goal = LogitDistance(view.logits(x))
    auditor = Auditor(
        box([-1.0] * 3, [1.0] * 3, free=(0, 1)), subspace_steps=4, full_steps=0, inside=0
    )
    found = auditor.search(view, x, goal, 1.0, seeded(0))
    values = torch.stack([goal.value(view.logits(corner)) for corner in corners(x, 2)])
    torch.testing.assert_close(found.value, values.amax(dim=0))
    assert (found.squared_distance == 0).all()


def tent() -> nn.Sequential:
    """A network whose first logit rises along the free first column to 1 at 0.3, and falls again to
    0.
    """
    network = build_network(2, (3,), 2, seeded(0))
    first, _, last = network
    first.weight.data = torch.tensor([[1.0, 0.0]]).expand(3, 2).clone()
    first.bias.data = torch.tensor([0.0, -0.3, -0.6])
    last.weight.data = torch.tensor([[1.0, -2.0, 1.0], [0.0, 0.0, 0.0]]) / 0.3
    last.bias.data = torch.zeros(2)
    return network


@pytest.mark.parametrize("climbs", [0, 2])
def test_climbs_find_a_narrow_maximum_between_the_corners(climbs: int) -> None:
    view, x = as_differentiable(tent()), torch.full((50, 2), -1.0)
    auditor = Auditor(box([-1.0, -1.0], [1.0, 1.0]), full_steps=0, climbs=climbs)
    found = auditor.search(view, x, LogitDistance(view.logits(x)), 1.0, seeded(0))
    assert (found.squared_distance == 0).all()
    # half of the square of 1; the place is that of the best point
    if climbs:
        assert (found.value > 0.49).float().mean() > 0.8
        torch.testing.assert_close(found.points, x + found.place @ torch.tensor([[1.0, 0.0]]))
    else:
        assert (found.value > 0.49).float().mean() < 0.1


def test_a_known_place_is_not_searched_for() -> None:
    view, x = as_differentiable(tent()), torch.full((3, 2), -1.0)
    auditor = Auditor(box([-1.0, -1.0], [1.0, 1.0]), full_steps=1)
    place = torch.full((3, 1), 1.3)
    found = auditor.search(view, x, LogitDistance(view.logits(x)), 1.0, seeded(0), place=place)
    torch.testing.assert_close(found.value, torch.full((3,), 0.5))
    assert torch.equal(found.place, place)


class First:
    """The first logit."""

    def value(self, logits: Tensor) -> Tensor:
        return logits[..., 0]

    def gradient(self, logits: Tensor) -> Tensor:
        return torch.tensor([1.0, 0.0]).expand_as(logits)


def test_climbs_reach_a_linear_optimum_that_the_box_cuts() -> None:
    # what the corner of the box has along the free direction, about (1, -1, 0), costs nothing
    metric = SensitiveSubspace(learned=[LearnedDirection("a")])
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 3))
    metric.fit(X, sensitive_features={"a": (X @ [1.0, -1.0, 0.0] > 0).astype(int)})
    view = as_differentiable(linear([[4.0, 4.0, 4.0], [0.0, 0.0, 0.0]]))
    x, price = torch.tensor([[0.9, -0.5, 0.0]]), 4.0
    auditor = Auditor(metric, full_steps=60, tolerance=-1.0, climbs=2)
    found = auditor.search(view, x, First(), price, seeded(0))
    bounds = metric.feature_bounds_
    delta, t = cp.Variable(3), cp.Variable(1)
    matrix = metric.weigh(np.eye(3))
    moved = delta - metric.basis_ @ (metric.basis_.T @ delta) + metric.basis_ @ t
    gain = np.array([4.0, 4.0, 4.0]) @ moved - price * cp.quad_form(delta, cp.psd_wrap(matrix))
    own = x[0].double().numpy()
    limits = [own + delta >= bounds.low, own + delta <= bounds.high]
    limits += [
        own @ metric.basis_ + t >= bounds.free_low,
        own @ metric.basis_ + t <= bounds.free_high,
    ]
    best = cp.Problem(cp.Maximize(gain + own @ np.array([4.0, 4.0, 4.0])), limits).solve()
    assert float(total(found, price)) == pytest.approx(best, rel=3e-3)


def corners(x: Tensor, free: int) -> list[Tensor]:
    """Everyone at each corner of the first, free, columns' box [-1, 1]."""
    return [
        torch.cat([torch.tensor(signs).expand(len(x), -1), x[:, free:]], dim=1)
        for signs in itertools.product((-1.0, 1.0), repeat=free)
    ]


def test_many_free_directions_are_searched_by_the_gradient() -> None:
    metric = box([-1.0] * 8, [1.0] * 8, free=tuple(range(6)))
    auditor = Auditor(metric, subspace_steps=8, full_steps=0)
    # a monotone goal: the gradient's corner is the best of all 64
    x = within([-1.0] * 8, [1.0] * 8, 30, seed=5)
    labels = torch.arange(30) % 2
    weights = torch.randn(8, generator=seeded(5)).tolist()
    network = linear([weights, [0.0] * 8])
    view = as_differentiable(network)
    found = auditor.search(view, x, LogLoss(labels), 1.0, seeded(0))
    best = torch.stack(
        [LogLoss(labels).value(view.logits(corner)) for corner in corners(x, 6)]
    ).amax(dim=0)
    torch.testing.assert_close(found.value, best)
    # a distance has no slope where people are: they leave nevertheless, and as far as they can
    centred = x * torch.tensor([0.0] * 6 + [1.0] * 2)
    distance = LogitDistance(view.logits(centred))
    found = auditor.search(view, centred, distance, 1.0, seeded(0))
    best = torch.stack(
        [distance.value(view.logits(corner)) for corner in corners(centred, 6)]
    ).amax(dim=0)
    torch.testing.assert_close(found.value, best, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("goal", ["distance", "loss"])
def test_many_free_directions_come_close_to_the_best_corner(goal: str) -> None:
    """The network has a hidden layer."""
    metric = box([-1.0] * 8, [1.0] * 8, free=tuple(range(6)))
    shares = []
    for seed in range(5):
        network = build_network(8, (24,), 3, seeded(seed))
        view = as_differentiable(network)
        x = within([-1.0] * 8, [1.0] * 8, 30, seed=seed)
        aim = goal_of(goal, network, x, torch.arange(30) % 3)
        best = torch.stack([aim.value(view.logits(corner)) for corner in corners(x, 6)]).amax(dim=0)
        few, many = (
            Auditor(metric, subspace_steps=steps, full_steps=0)
            .search(view, x, aim, 1.0, seeded(0))
            .value
            for steps in (2, 12)
        )
        assert (many >= few).all()
        shares.append(float((many / best).mean()))
    assert np.mean(shares) > 0.8


# --- properties of every search ---


@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("multiplier", [0.0, 0.02, 1.0, 1e4])
@pytest.mark.parametrize("goal", ["distance", "loss"])
def test_the_result_is_what_its_points_give_or_staying(
    goal: str, multiplier: float, random_start: bool
) -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 4))
    metric = SensitiveSubspace(indicators=[0], learned=[LearnedDirection("g", (0,))]).fit(
        X, sensitive_features={"g": X[:, 1] + rng.normal(size=60) > 0}
    )
    x = torch.tensor(X, dtype=torch.float32)
    network = build_network(4, (10,), 3, seeded(6))
    view = as_differentiable(network)
    aim = goal_of(goal, network, x, torch.arange(60) % 3)
    found = Auditor(metric).search(view, x, aim, multiplier, seeded(0), random_start=random_start)
    torch.testing.assert_close(found.value, aim.value(view.logits(found.points)))
    torch.testing.assert_close(
        found.squared_distance, metric.squared(x, found.points), rtol=1e-3, atol=1e-5
    )
    staying = aim.value(view.logits(x))
    assert (total(found, multiplier) >= staying).all()
    assert (found.points != x).any()


@pytest.mark.parametrize("steps", [{"subspace_steps": 0}, {"full_steps": 0}, {"subspace_steps": 1}])
def test_fewer_steps_never_find_worse_cases(steps: dict[str, int]) -> None:
    network = build_network(3, (10,), 2, seeded(7))
    view = as_differentiable(network)
    x = within([-1.0] * 3, [1.0] * 3, 40, seed=7)
    goal = LogitDistance(view.logits(x))
    metric = box([-1.0] * 3, [1.0] * 3)
    few = total(Auditor(metric, **steps).search(view, x, goal, 2.0, seeded(0)), 2.0)
    usual = total(Auditor(metric).search(view, x, goal, 2.0, seeded(0)), 2.0)
    assert (few >= 0).all()
    assert few.mean() < usual.mean()


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    multiplier=st.sampled_from([0.0, 0.01, 0.5, 5.0]),
    steps=st.sampled_from([(8, 10), (0, 5), (3, 0), (1, 1)]),
    goal=st.sampled_from(["distance", "loss"]),
)
def test_points_stay_within_the_domain(
    seed: int, multiplier: float, steps: tuple[int, int], goal: str
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, 4))
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    x = torch.tensor(X, dtype=torch.float32)
    network = build_network(4, (8,), 2, seeded(seed))
    auditor = Auditor(metric, subspace_steps=steps[0], full_steps=steps[1])
    found = auditor.search(
        as_differentiable(network),
        x,
        goal_of(goal, network, x, torch.arange(8) % 2),
        multiplier,
        seeded(seed),
    )
    assert (found.points.numpy() >= metric.feature_bounds_.low - 1e-5).all()
    assert (found.points.numpy() <= metric.feature_bounds_.high + 1e-5).all()


@settings(deadline=None, max_examples=8)
@given(
    seed=st.integers(0, 10_000), multiplier=st.sampled_from([0.0, 0.5]), random_start=st.booleans()
)
def test_points_along_a_learned_direction_stay_within_bounds(
    seed: int, multiplier: float, random_start: bool
) -> None:
    """They keep to its range and to the features' bounds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10, 3))
    metric = SensitiveSubspace().fit(X, sensitive_features={"g": X[:, 0] + X[:, 1]})
    x = torch.tensor(X, dtype=torch.float32)
    network = build_network(3, (8,), 2, seeded(seed))
    found = Auditor(metric).search(
        as_differentiable(network),
        x,
        goal_of("distance", network, x, x),
        multiplier,
        seeded(0),
        random_start=random_start,
    )
    points = found.points.double().numpy()
    along = points @ metric.basis_
    assert (along >= metric.feature_bounds_.free_low - 1e-5).all()
    assert (along <= metric.feature_bounds_.free_high + 1e-5).all()
    moved = points - X
    for i in range(len(X)):
        assert least_violation(metric, X[i], moved[i]) < 1e-5
    # a move of more than the range is detected
    assert least_violation(metric, X[0], 100 * metric.basis_[:, 0]) > 1


def least_violation(metric: Any, row: np.ndarray, move: np.ndarray) -> float:
    """By how much no z and delta within their bounds add up to a move."""
    domain, basis = metric.feature_bounds_, metric.basis_
    own, (d, k) = row @ basis, basis.shape
    parts = np.concatenate([basis, np.eye(d)], axis=1)
    slack = np.ones((d, 1))
    found = linprog(
        np.r_[np.zeros(k + d), 1.0],
        A_ub=np.block([[parts, -slack], [-parts, -slack]]),
        b_ub=np.r_[move, -move],
        bounds=[
            *zip(domain.free_low - own, domain.free_high - own, strict=True),
            *zip(domain.low - row, domain.high - row, strict=True),
            (0, None),
        ],
    )
    return float(found.fun)


def test_random_starts_stay_within_the_domain_too() -> None:
    metric = box([-1.0, -2.0], [1.0, 2.0])
    network = build_network(2, (8,), 2, seeded(0))
    view = as_differentiable(network)
    x = within([-1.0, -2.0], [1.0, 2.0], 50, seed=0)
    goal = LogitDistance(view.logits(x))
    for seed in range(5):
        found = Auditor(metric).search(view, x, goal, 10.0, seeded(seed), random_start=True)
        assert (found.points[:, 0].abs() <= 1 + 1e-5).all()
        best = brute_force(network, x, "distance", torch.zeros(50), 10.0)
        assert (total(found, 10.0) <= best + 0.03).all()


def test_rows_outside_the_domain_may_stay_and_may_come_back() -> None:
    # a larger first column hurts label 0, a smaller one label 1
    x = torch.tensor([[5.0, 9.0], [5.0, 9.0], [-5.0, -9.0], [-5.0, -9.0]])
    labels = torch.tensor([0, 1, 0, 1])
    network = linear([[0.0, 0.0], [1.0, 0.5]])
    found = Auditor(box([-1.0, -2.0], [1.0, 2.0]), full_rate=1.0).search(
        as_differentiable(network), x, LogLoss(labels), 0.0, seeded(0)
    )
    expected = torch.tensor([[5.0, 9.0], [-1.0, -2.0], [1.0, 2.0], [-5.0, -9.0]])
    torch.testing.assert_close(found.points, expected)


def test_the_same_seed_searches_alike_and_another_one_elsewhere() -> None:
    network = build_network(3, (10,), 2, seeded(8))
    view = as_differentiable(network)
    x = within([-1.0] * 3, [1.0] * 3, 30, seed=8)
    auditor = Auditor(box([-1.0] * 3, [1.0] * 3), subspace_steps=1, full_steps=2)

    def points(seed: int, random_start: bool) -> Tensor:
        goal = LogLoss(torch.arange(30) % 2)
        return auditor.search(view, x, goal, 0.1, seeded(seed), random_start=random_start).points

    assert torch.equal(points(1, True), points(1, True))
    assert not torch.equal(points(1, True), points(2, True))
    # from the best corner nothing is drawn
    assert torch.equal(points(1, False), points(2, False))


def test_random_starts_spread_over_the_range_of_a_free_direction() -> None:
    x = torch.zeros(400, 2)
    view = as_differentiable(linear([[1.0, 0.0]] * 2))
    auditor = Auditor(box([-1.0, -1.0], [3.0, 1.0]), subspace_steps=1, full_steps=0)
    found = auditor.search(
        view, x, LogitDistance(view.logits(x)), 1.0, seeded(3), random_start=True
    )
    counts = torch.histc(found.points[:, 0], bins=4, min=-1.0, max=3.0)
    # 100 each, give or take four standard deviations
    assert ((counts - 100).abs() < 36).all()


class Counting:
    """A view that counts how often the network is evaluated."""

    def __init__(self, network: nn.Module) -> None:
        self.view = as_differentiable(network)
        self.backward = self.view.backward
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.view.forward(x)

    def logits(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.view.logits(x)


def test_a_search_ends_where_more_steps_add_nothing_to_speak_of() -> None:
    network = build_network(3, (10,), 2, seeded(23))
    x = within([-1.0] * 3, [1.0] * 3, 30, seed=23)
    goal = LogitDistance(as_differentiable(network).logits(x))
    metric = box([-1.0] * 3, [1.0] * 3)
    calls, totals = [], []
    for tolerance in (-1.0, 1e-4, 1e9):
        view = Counting(network)
        auditor = Auditor(metric, full_steps=100, tolerance=tolerance)
        totals.append(total(auditor.search(view, x, goal, 5.0, seeded(0)), 5.0))
        calls.append(view.calls)
    assert calls[0] > 100 > calls[1] >= calls[2]
    # people themselves, corners, the lengths of the first move, and then: 100 steps and their end,
    # or steps up to the second comparison after the first
    assert calls[0] == 3 + 101
    assert calls[2] == 3 + 11
    assert float(totals[1].mean()) == pytest.approx(float(totals[0].mean()), rel=1e-2)


class Towards:
    """Wants the first logit to be near a target; the slopes that it gives are set by hand."""

    def __init__(self, target: float, *slopes: float) -> None:
        self.target, self.slopes = target, list(slopes)

    def value(self, logits: Tensor) -> Tensor:
        return -10 * (logits[..., 0] - self.target).abs()

    def gradient(self, logits: Tensor) -> Tensor:
        return torch.tensor([self.slopes.pop(0), 0.0]).expand_as(logits)


@pytest.mark.parametrize(
    ("target", "slope"), [(0.1, 0.004), (1.0, 0.004), (0.02, 0.004), (2.0, 0.4)]
)
def test_the_first_move_is_the_best_of_three_lengths(target: float, slope: float) -> None:
    """One is the length of the gradient itself."""
    # the stationary point of a slope is slope / (2 multiplier): 0.02 or 2; the other lengths are
    # 0.1 and 1
    view = as_differentiable(linear([[1.0, 0.0], [0.0, 0.0]]))
    auditor = Auditor(box([-5.0] * 2, [5.0] * 2, free=()), full_steps=1)
    found = auditor.search(view, torch.zeros(2, 2), Towards(target, slope), 0.1, seeded(0))
    torch.testing.assert_close(found.points, torch.tensor([[target, 0.0]] * 2))
    torch.testing.assert_close(found.squared_distance, torch.full((2,), target**2))
    # a length that costs more than it gains is not chosen: 10 a unit against 5000 a squared unit
    goal = Towards(1.0, 200.0)
    found = auditor.search(view, torch.zeros(2, 2), goal, 5000.0, seeded(0))
    torch.testing.assert_close(found.points, torch.tensor([[0.0, 0.0]] * 2))


@pytest.mark.parametrize(("rate", "ends"), [(0.5, 1.5), (0.25, 1.25), (1.0, 2.0)])
def test_later_steps_go_their_share_of_the_way(rate: float, ends: float) -> None:
    # from the stationary point of the first slope, 0.2 / (2 * 0.1), towards that of the second
    view = as_differentiable(linear([[1.0, 0.0], [0.0, 0.0]]))
    auditor = Auditor(box([-5.0] * 2, [5.0] * 2, free=()), full_steps=2, full_rate=rate)
    found = auditor.search(view, torch.zeros(1, 2), Towards(3.0, 0.2, 0.4), 0.1, seeded(0))
    torch.testing.assert_close(found.points, torch.tensor([[ends, 0.0]]))
    # and no further than the features' bounds
    near = Auditor(box([-5.0] * 2, [1.2, 5.0], free=()), full_steps=2, full_rate=rate)
    found = near.search(view, torch.zeros(1, 2), Towards(3.0, 0.2, 0.4), 0.1, seeded(0))
    torch.testing.assert_close(found.points, torch.tensor([[1.0 + 0.2 * rate, 0.0]]))


def test_a_random_start_is_free_along_the_free_direction() -> None:
    """In the full space it is near the row."""
    bounds = SearchBounds(
        box([-2.0, -3.0, -0.05], [6.0, 3.0, 0.02], free=(0,)), torch.zeros(4000, 3)
    )
    z, delta = bounds.random_start(seeded(0))
    for values, low, high in ((z[:, 0], -2.0, 6.0), (delta[:, 1], -1.0, 1.0)):
        assert low <= float(values.min()) < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < float(values.max()) <= high
        # five standard deviations of the mean of a uniform distribution
        assert float(values.mean()) == pytest.approx((low + high) / 2, abs=5 * (high - low) / 219)
    # the features' own ranges cut it
    assert (float(delta[:, 2].min()), float(delta[:, 2].max())) == pytest.approx((-0.05, 0.02))


def test_bounds_of_moves_are_ranges_less_the_row() -> None:
    """They never exclude the row."""
    x = torch.tensor([[0.5, 1.0], [5.0, 9.0], [-5.0, -9.0]])
    bounds = SearchBounds(box([-1.0, -2.0], [1.0, 2.0], free=(0,)), x)
    torch.testing.assert_close(bounds.low, torch.tensor([[-1.5, -3.0], [-6.0, -11.0], [0.0, 0.0]]))
    torch.testing.assert_close(bounds.high, torch.tensor([[0.5, 1.0], [0.0, 0.0], [6.0, 11.0]]))
    if bounds.basis.sum() > 0:
        torch.testing.assert_close(bounds.free_low, torch.tensor([[-1.5], [-6.0], [0.0]]))
        torch.testing.assert_close(bounds.free_high, torch.tensor([[0.5], [0.0], [6.0]]))


def test_moves_along_the_free_direction_count_as_delta_does() -> None:
    bounds = SearchBounds(box([-1.0, -1.0], [1.0, 1.0], free=(0,)), torch.tensor([[0.5, 0.25]]))
    assert bounds.free == 1
    delta = torch.tensor([[0.25, 0.5]])
    up = bounds.basis.sum()  # 1 or -1: the direction's own sign
    # 0.5 + 0.25 - 1, and 0.25 + 0.5
    torch.testing.assert_close(bounds.points(-up[None, None], delta), torch.tensor([[-0.25, 0.75]]))
    # z and delta together would go too far, to either side
    for z, end in ((2.0, 1.0), (-3.0, -1.0)):
        torch.testing.assert_close(
            bounds.points(z * up[None, None], delta), torch.tensor([[end, 0.75]])
        )


class Fixed(nn.Module):
    """Gives logits of its own, whatever the rows are."""

    def __init__(self, trains: bool) -> None:
        super().__init__()
        self.kept = [torch.tensor([1.0, 2.0], requires_grad=trains)]

    def forward(self, x: Tensor) -> Tensor:
        return self.kept[0].expand(len(x), 2)


@pytest.mark.parametrize("trains", [False, True])
def test_logits_that_do_not_depend_on_the_rows_have_no_slope(trains: bool) -> None:
    view = DifferentiableModel(Fixed(trains))
    x = torch.ones(3, 4)
    torch.testing.assert_close(view.forward(x), torch.tensor([[1.0, 2.0]] * 3))
    assert torch.equal(view.backward(torch.ones(3, 2)), torch.zeros(3, 4))
    found = Auditor(box([-1.0] * 4, [1.0] * 4)).search(
        view, x, LogLoss(torch.zeros(3, dtype=torch.long)), 0.1, seeded(0)
    )
    assert torch.equal(found.points, x)


def test_a_search_without_any_change_ends_early_too() -> None:
    # all distances are 0: no share of them can be added
    view = Counting(linear([[0.0, 0.0]] * 2))
    x = torch.zeros(3, 2)
    found = Auditor(box([-1.0] * 2, [1.0] * 2), full_steps=100).search(
        view, x, LogitDistance(torch.zeros(3, 2)), 1.0, seeded(0)
    )
    assert view.calls == 3 + 11
    assert torch.equal(found.points, x)


def test_the_default_search_is_that_of_the_published_models() -> None:
    given = {
        item.name: item.default for item in fields(Auditor) if item.name not in ("metric", "_")
    }
    assert given == {
        "subspace_steps": 8,
        "full_steps": 10,
        "full_rate": 0.5,
        "tolerance": 1e-4,
        "inside": 2,
        "climbs": 0,
    }


@pytest.mark.parametrize(("free", "calls"), [(3, 2), (4, 9)])
def test_all_corners_are_tried_where_they_are_few(free: int, calls: int) -> None:
    """Few means no more than the steps."""
    # eight corners at once, or eight steps from corner to corner; and the people themselves
    network = build_network(5, (6,), 2, seeded(25))
    view, x = Counting(network), within([-1.0] * 5, [1.0] * 5, 10, seed=25)
    auditor = Auditor(box([-1.0] * 5, [1.0] * 5, free=tuple(range(free))), full_steps=0)
    auditor.search(view, x, LogLoss(torch.arange(10) % 2), 1.0, seeded(0))
    assert view.calls == calls


def test_a_search_follows_its_generator_and_not_the_global_one() -> None:
    network = build_network(3, (10,), 2, seeded(9))
    view = as_differentiable(network)
    x = within([-1.0] * 3, [1.0] * 3, 10, seed=9)
    state = torch.get_rng_state()
    Auditor(box([-1.0] * 3, [1.0] * 3)).search(
        view, x, LogitDistance(view.logits(x)), 0.1, seeded(0), random_start=True
    )
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("view", [DifferentiableModel, as_differentiable])
def test_the_network_is_neither_changed_nor_given_a_gradient(view: Any) -> None:
    network = build_network(3, (6,), 2, seeded(10))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    x = within([-1.0] * 3, [1.0] * 3, 10, seed=10).requires_grad_()
    found = Auditor(box([-1.0] * 3, [1.0] * 3)).search(
        view(network), x.detach(), LogLoss(torch.arange(10) % 2), 0.5, seeded(0)
    )
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not any(
        part.requires_grad for part in (found.points, found.value, found.squared_distance)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"subspace_steps": 0, "full_steps": 0}, "at least one step in all"),
        ({"subspace_steps": -1}, "no negative number .*subspace_steps=-1"),
        ({"full_steps": -2}, "no negative number .*full_steps=-2"),
        ({"full_rate": 0.0}, "full_rate must be above 0 and at most 1, got 0.0"),
        ({"full_rate": 1.01}, "full_rate must be above 0 and at most 1, got 1.01"),
        ({"full_rate": float("nan")}, "full_rate must be above 0 and at most 1, got nan"),
    ],
)
def test_bad_parameters_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Auditor(box([0.0], [1.0]), **arguments)


def test_a_multiplier_that_is_no_number_is_refused() -> None:
    network = linear([[1.0]])
    view, x = as_differentiable(network), torch.zeros(2, 1)
    goal = goal_of("distance", network, x, torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match="multiplier must be a number, .*, got nan") as told:
        Auditor(box([0.0], [1.0])).search(view, x, goal, float("nan"), seeded(0))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("classes", [2, 3])
def test_gradients_of_the_goals_are_their_finite_differences(classes: int) -> None:
    logits = torch.randn(5, classes, generator=seeded(17), dtype=torch.float64)
    own = torch.randn(5, classes, generator=seeded(18), dtype=torch.float64)
    for goal in (LogitDistance(own), LogLoss(torch.arange(5) % classes)):
        gradient = goal.gradient(logits)
        for k in range(classes):
            step = torch.zeros(classes, dtype=torch.float64)
            step[k] = 1e-6
            slope = (goal.value(logits + step) - goal.value(logits - step)) / 2e-6
            torch.testing.assert_close(gradient[:, k], slope, rtol=1e-7, atol=1e-8)


def test_goals_by_hand() -> None:
    logits = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    torch.testing.assert_close(
        LogitDistance(torch.tensor([[0.0, 0.0], [0.0, -1.0]])).value(logits),
        torch.tensor([5.0, 0.5]),
    )
    expected = torch.tensor([np.log1p(np.exp(2.0)), np.log(2.0)], dtype=torch.float32)
    torch.testing.assert_close(LogLoss(torch.tensor([0, 1])).value(logits), expected)


def test_values_of_several_points_of_a_row_are_those_of_each() -> None:
    logits = torch.randn(3, 2, 3, generator=seeded(19))
    for goal in (
        LogitDistance(torch.randn(2, 3, generator=seeded(20))),
        LogLoss(torch.tensor([2, 0])),
    ):
        torch.testing.assert_close(
            goal.value(logits), torch.stack([goal.value(part) for part in logits])
        )


def test_steps_in_full_space_minimise_what_a_descent_would() -> None:
    """The stationary point by torch's own optimiser, for a smooth network and a dense metric."""
    rng = np.random.default_rng(21)
    X = rng.normal(size=(5, 3))
    metric = SensitiveSubspace().fit(X, sensitive_features={"g": X[:, 0] - X[:, 2]})
    network = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5, generator=seeded(22))
    x = torch.tensor(0.1 * X, dtype=torch.float32)
    labels = torch.arange(5) % 2
    found = Auditor(metric, subspace_steps=0, full_steps=100, tolerance=-1.0).search(
        as_differentiable(network), x, LogLoss(labels), 5.0, seeded(0)
    )
    delta = torch.zeros_like(x, requires_grad=True)
    optimiser = torch.optim.LBFGS([delta], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        point = x + metric.project(delta)
        loss = functional.cross_entropy(network(point), labels, reduction="sum")
        objective = 5.0 * metric.squared(point, x).sum() - loss
        objective.backward()
        return objective

    optimiser.step(closure)
    expected = (x + metric.project(delta)).detach()
    torch.testing.assert_close(found.points, expected, rtol=0, atol=1e-3)


def test_moves_that_overflow_keep_their_sign() -> None:
    moves = torch.tensor([float("inf"), -float("inf"), float("nan"), 2.0])
    largest = torch.finfo(moves.dtype).max
    cut = worst_case_search._finite(moves.clone(), worst_case_search.LARGE)
    assert cut.tolist() == [largest, -largest, 0.0, 2.0]
