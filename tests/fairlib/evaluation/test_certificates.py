"""Certificates against closed forms, linear programs and brute force over the domain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.distances.metric_base import FeatureBounds
from evenhand.fairlib.evaluation.budget_allocation import concave_hulls
from evenhand.fairlib.evaluation.certificates import Certificate, certify
from evenhand.fairlib.methods.networks import NeuralNetworkClassifier, SenSeIClassifier
from evenhand.fairlib.methods.networks.network_training import build_network

Float = NDArray[np.float64]
BUDGETS = np.array([0.001, 0.01, 0.1, 0.5])


def box(low: list[float], high: list[float], free: tuple[int, ...] = (0,)) -> SensitiveSubspace:
    """Metric that ignores some columns, within exactly these bounds."""
    metric = SensitiveSubspace(indicators=free).fit(np.array([low, high]))
    bounds = np.array([low, high])
    metric.feature_bounds_ = FeatureBounds(*bounds, *bounds[:, list(free)])
    return metric


SQUARE = box([-1.0, -2.0], [1.0, 2.0])


def linear(weights: list[list[float]]) -> nn.Sequential:
    layer = nn.Linear(len(weights[0]), len(weights))
    layer.weight.data = torch.tensor(weights)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(layer)


def hidden_layer(seed: int, classes: int = 2, features: int = 2) -> nn.Sequential:
    return build_network(features, (16,), classes, torch.Generator().manual_seed(seed))


def rows(seed: int, n: int = 40) -> Float:
    return np.random.default_rng(seed).uniform([-1, -2], [1, 2], (n, 2))


def everywhere(network: nn.Module, X: Float) -> tuple[Float, Float]:
    """Output distance and squared fair distance of each person to a fine grid of the square."""
    x = torch.tensor(X, dtype=torch.float32)
    grid = torch.cartesian_prod(torch.linspace(-1, 1, 21), torch.linspace(-2, 2, 401))
    with torch.no_grad():
        values: Tensor = (network(grid)[None] - network(x)[:, None]).square().mean(dim=-1)
    return values.double().numpy(), (grid[None, :, 1] - x[:, None, 1]).square().double().numpy()


def brute_force(network: nn.Module, X: Float) -> Float:
    """The regulariser with the whole grid as treatments, at each of the budgets."""
    values, distances = everywhere(network, X)
    prices = np.geomspace(0.1, 200, 80)
    inner = np.array([(values - price * distances).max(axis=1).mean() for price in prices])
    least: Float = (prices * BUDGETS[:, None] + inner).min(axis=1)
    return least


def primal(values: Float, distances: Float, budget: float) -> float:
    """Largest mean output distance of any random choice of treatments within the budget."""
    n, m = values.shape
    owners = np.kron(np.eye(n), np.ones(m))
    found = linprog(
        -values.ravel() / n,
        A_ub=distances.reshape(1, -1) / n,
        b_ub=[budget],
        A_eq=owners,
        b_eq=np.ones(n),
    )
    return -float(found.fun)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tables this small take longer on more threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# --- closed forms ---


@pytest.mark.parametrize(
    "weights",
    [[[2.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [-1.0, 0.5]], [[2.0, 0.0], [0.0, 1.0], [0.3, 0.3]]],
    ids=str,
)
def test_a_linear_network_has_its_largest_singular_value(
    weights: list[list[float]],
) -> None:
    """No direction is free."""
    budgets = np.array([0.01, 0.1, 1.0])
    metric = box([-50.0, -50.0], [50.0, 50.0], free=())
    found = certify(linear(weights), rows(0), metric, budgets, draws=0)
    largest = np.linalg.svd(np.array(weights), compute_uv=False)[0]
    np.testing.assert_allclose(found.values, budgets * largest**2 / len(weights), rtol=5e-3)
    np.testing.assert_allclose(found.multipliers, largest**2 / len(weights), rtol=2e-2)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_a_free_direction_gives_the_closed_form(classes: int) -> None:
    """The network is linear."""
    # one logit moves by a_i + s t: inf_lambda lambda eps + mean(a^2) lambda / (lambda - s^2)
    budgets = np.array([0.0, 0.01, 0.1, 1.0, 10.0])
    X = rows(1)
    found = certify(
        linear([[0.3, 0.8]] * classes), X, box([-1.0, -50.0], [1.0, 50.0]), budgets, draws=0
    )
    a = 0.3 * np.sqrt(np.mean((1 + np.abs(X[:, 0])) ** 2))
    expected = (a + 0.8 * np.sqrt(budgets)) ** 2
    np.testing.assert_allclose(found.values, expected, rtol=1.5e-2)
    # slope of the value in the budget, where it is finite
    slopes = 0.64 + a * 0.8 / np.sqrt(budgets[1:])
    np.testing.assert_allclose(found.multipliers[1:], slopes, rtol=0.15)


@pytest.mark.parametrize("budget", [1e-8, 1e-6, 1e-4])
def test_prices_are_looked_for_at_any_scale_of_the_budget(budget: float) -> None:
    X = rows(2)
    found = certify(linear([[0.3, 0.8]] * 2), X, box([-1.0, -50.0], [1.0, 50.0]), [budget], draws=0)
    a = 0.3 * np.sqrt(np.mean((1 + np.abs(X[:, 0])) ** 2))
    gained, possible = found.values[0] - a**2, (a + 0.8 * np.sqrt(budget)) ** 2 - a**2
    assert 0.8 * possible < gained < 1.01 * possible


def test_a_budget_of_zero_allows_moves_that_cost_nothing() -> None:
    network, X = hidden_layer(3), rows(3)
    once, more = (certify(network, X, SQUARE, [0.0], draws=0, restarts=k).values[0] for k in (1, 6))
    sides = np.linspace(-1, 1, 401)
    places = np.stack([np.repeat(sides[:, None], 40, axis=1), np.tile(X[:, 1], (401, 1))], axis=-1)
    with torch.no_grad():
        own = network(torch.tensor(X, dtype=torch.float32))
        moved = network(torch.tensor(places, dtype=torch.float32))
    values = (moved - own).square().mean(dim=-1).double().numpy()
    # all corners are tried, and places between that may be better
    assert (
        values[[0, -1]].max(axis=0).mean() * (1 - 1e-6) <= once <= values.max(axis=0).mean() * 1.001
    )
    assert once < more <= values.max(axis=0).mean() * (1 + 1e-4)


def test_an_invariant_network_is_certified_at_zero() -> None:
    constant = linear([[0.0, 0.0], [0.0, 0.0]])
    found = certify(constant, rows(4), SQUARE, [0.0, 0.1, 10.0], draws=100)
    assert found.low is not None
    assert found.high is not None
    for values in (found.values, found.low, found.high):
        np.testing.assert_allclose(values, 0.0, atol=1e-12)
    # invariant along the free direction alone: nothing without a budget, the paid slope with one
    blind = certify(linear([[0.0, 0.5]] * 2), rows(4), SQUARE, [0.0, 0.1], draws=0)
    np.testing.assert_allclose(blind.values, [0.0, 0.1 * 0.25], rtol=5e-3, atol=1e-9)


# --- brute force and linear programs ---


@pytest.mark.parametrize("classes", [2, pytest.param(3, marks=pytest.mark.long)])
def test_certificates_come_close_to_brute_force(classes: int) -> None:
    """They never exceed it."""
    shares = []
    for seed in range(5):
        network, X = hidden_layer(seed, classes), rows(seed)
        found = certify(network, X, SQUARE, BUDGETS, draws=0).values
        true = brute_force(network, X)
        # the grid misses a person's own place by half its width
        assert (found <= true * 1.02).all()
        shares.append(found / true)
    assert np.mean(shares) > 0.95
    assert np.min(shares) > 0.85


def test_certificates_with_restarts_never_exceed_brute_force() -> None:
    for seed in range(3):
        network, X = hidden_layer(seed), rows(seed)
        found = certify(network, X, SQUARE, BUDGETS, draws=0, restarts=4).values
        assert (found <= brute_force(network, X) * 1.02).all()


def test_restarts_never_make_the_certificate_smaller() -> None:
    for seed in range(3):
        network, X = hidden_layer(seed), rows(seed)
        once, more = (
            certify(network, X, SQUARE, [0.5], draws=0, restarts=k).values for k in (1, 3)
        )
        assert more[0] >= once[0] * (1 - 5e-3)


@pytest.mark.parametrize("seed", range(12))
def test_the_allocation_is_the_linear_program_over_the_options(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 8)), int(rng.integers(2, 9))
    gains, costs = rng.exponential(size=(n, m)), rng.exponential(size=(n, m))
    if seed % 3 == 0:  # many ties and equal treatments
        gains, costs = np.round(gains), np.round(costs)
    gains[:, 0] = costs[:, 0] = 0.0
    gains[seed % n, 1:], costs[0, 1] = 0.0, 0.0
    hulls = concave_hulls(gains, costs)
    budgets = np.array([0.0, 0.01, 0.1, 0.3, 1.0, 100.0])
    values, prices = hulls.allocate(budgets)
    for budget, value, price in zip(budgets, values, prices, strict=True):
        assert value == pytest.approx(primal(gains, costs, budget), rel=1e-7, abs=1e-9)
        # no other price makes the dual smaller, and this one makes it the same
        dual = [
            other * budget + (gains - other * costs).max(axis=1).mean()
            for other in (price, *rng.exponential(size=20))
        ]
        assert value == pytest.approx(dual[0], rel=1e-9, abs=1e-12)
        assert min(dual) >= value - 1e-9
    # people who count twice, or not at all, are as people who are there twice or not
    weights: Float = rng.multinomial(n, np.full(n, 1 / n)).astype(float)
    copies = np.repeat(np.arange(n), weights.astype(int))
    repeated = concave_hulls(gains[copies], costs[copies]).allocate(budgets)[0]
    np.testing.assert_allclose(hulls.allocate(budgets, weights)[0], repeated, rtol=1e-9, atol=1e-12)


def test_the_allocation_by_hand() -> None:
    # one has 1 for nothing, and 2 more at a cost of 4; the other 3 at 1 and 4 at 3; 0.5 at 2 is for
    # no one
    gains = np.array([[0.0, 1.0, 3.0, 0.0], [0.0, 3.0, 4.0, 0.5]])
    costs = np.array([[0.0, 0.0, 4.0, 0.0], [0.0, 1.0, 3.0, 2.0]])
    values, prices = concave_hulls(gains, costs).allocate(np.array([0.0, 0.25, 0.5, 1.5, 10.0]))
    # for two people: 1 free, then 3 per 1, then two pieces of 1 per 2
    np.testing.assert_allclose(values, [0.5, 1.25, 2.0, 2.5, 3.5])
    # what one more unit buys
    np.testing.assert_allclose(prices, [3.0, 3.0, 0.5, 0.5, 0.0])


@pytest.mark.long
def test_certificates_grow_with_the_budget_ever_more_slowly() -> None:
    budgets = np.array([0.0, 0.001, 0.01, 0.05, 0.1, 0.3, 1.0, 3.0])
    for seed in range(3):
        found = certify(hidden_layer(seed), rows(seed), SQUARE, budgets, draws=0)
        assert found.budgets.tolist() == budgets.tolist()
        assert (np.diff(found.values) >= -1e-9).all()
        assert found.values[-1] > 1.5 * found.values[0]
        slopes = np.diff(found.values) / np.diff(budgets)
        assert (slopes[1:] <= slopes[:-1] * 1.01 + 1e-9).all()
        assert (found.multipliers >= 0).all()
        assert (np.diff(found.multipliers[1:]) <= 1e-2 * found.multipliers[1]).all()


# --- people ---


def test_the_interval_holds_the_value_and_follows_its_seed() -> None:
    network, X = hidden_layer(7), rows(7)
    first, again, other = (
        certify(network, X, SQUARE, BUDGETS, draws=200, seed=seed, level=0.9) for seed in (1, 1, 2)
    )
    assert first.low is not None
    assert first.high is not None
    assert (first.low <= first.values).all()
    assert (first.values <= first.high).all()
    assert (first.low < first.high).all()
    np.testing.assert_array_equal(first.low, again.low)
    np.testing.assert_array_equal(first.high, again.high)
    assert other.low is not None
    assert not np.array_equal(first.low, other.low)
    wider = certify(network, X, SQUARE, BUDGETS, draws=200, seed=1, level=0.99)
    assert wider.low is not None
    assert (wider.low < first.low).all()
    none = certify(network, X, SQUARE, BUDGETS, draws=0)
    assert (none.low, none.high, none.people) == (None, None, 40)


@pytest.mark.long
def test_the_interval_is_as_wide_as_the_spread_of_fresh_samples() -> None:
    network = linear([[0.3, 0.8]] * 2)
    metric = box([-1.0, -50.0], [1.0, 50.0])
    budgets = [0.1, 10.0]
    values = [
        certify(network, rows(seed, 60), metric, budgets, draws=0).values for seed in range(24)
    ]
    found = certify(network, rows(50, 60), metric, budgets, draws=200)
    assert found.low is not None
    assert found.high is not None
    ratios = (found.high - found.low) / (2 * 1.96) / np.std(values, axis=0)
    assert (ratios > 0.65).all()
    assert (ratios < 1.5).all()
    np.testing.assert_allclose((found.low + found.high) / 2, found.values, rtol=1e-2)


def test_people_are_weighed_alike_in_any_order_and_number() -> None:
    network, X = hidden_layer(8), rows(8)
    once = certify(network, X, SQUARE, BUDGETS, draws=0).values
    twice = certify(network, np.r_[X, X][::-1], SQUARE, BUDGETS, draws=0).values
    np.testing.assert_allclose(twice, once, rtol=2e-2)


@pytest.mark.long
def test_an_invariant_training_is_certified_lower() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    X[:, 0] = rng.integers(0, 2, 300)
    y = (X[:, 0] - 0.5 + X[:, 1] > 0).astype(int)
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    options: dict[str, Any] = {"hidden": (16,), "n_steps": 300, "batch_size": 32, "random_state": 0}
    plain = NeuralNetworkClassifier(**options).fit(X, y)
    fair = SenSeIClassifier(metric, rho=20.0, **options).fit(X, y)
    unseen = rng.normal(size=(100, 3)).astype(np.float32)
    unseen[:, 0] = rng.integers(0, 2, 100)
    values = [
        certify(model.network_, unseen, metric, [0.0, 0.01], draws=0).values
        for model in (fair, plain)
    ]
    assert (values[0] < 0.2 * values[1]).all()


# --- bounds on the share of people ---


def made(values: list[float], classes: int = 2) -> Certificate:
    found = np.array(values)
    return Certificate(np.zeros_like(found), found, None, None, np.zeros_like(found), 10, classes)


def test_shares_of_people_by_hand() -> None:
    certificate = made([0.2, 0.5])
    assert certificate.share_bound(0.4) == pytest.approx(0.5)
    assert certificate.share_bound(2.0, index=1) == pytest.approx(0.25)
    assert certificate.share_bound(0.1) == 1.0
    # odds by e^2: log-odds by 2, so two logits by 1 each, a mean square of 1
    assert certificate.share_bound_of_odds(np.e**2) == pytest.approx(0.2)
    assert certificate.share_bound_of_odds(np.e**4, index=1) == pytest.approx(0.5 / 4)
    # of three logits the third may stay: 1 + 1 + 0 over 3
    assert made([0.2], classes=3).share_bound_of_odds(np.e**2) == pytest.approx(0.3)


def test_one_logit_has_no_odds() -> None:
    with pytest.raises(ValueError, match="odds need two logits at least"):
        made([0.2], classes=1).share_bound_of_odds(2.0)


@pytest.mark.parametrize("threshold", [0.0, -1.0, float("nan")])
def test_a_threshold_must_be_positive(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold must be positive, got"):
        made([0.2]).share_bound(threshold)


@pytest.mark.parametrize("factor", [1.0, 0.5, float("nan")])
def test_a_factor_of_odds_must_be_above_one(factor: float) -> None:
    with pytest.raises(ValueError, match="factor must be above 1, got"):
        made([0.2]).share_bound_of_odds(factor)


@pytest.mark.long
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_no_more_people_than_the_bound_are_that_far_away(seed: int, classes: int) -> None:
    """The distance is that to a comparable other person."""
    network, X = hidden_layer(seed, classes), rows(seed, 60)
    certificate = certify(network, X, SQUARE, BUDGETS, draws=0)
    assert certificate.classes == classes
    values, distances = everywhere(network, X)
    grid = torch.cartesian_prod(torch.linspace(-1, 1, 21), torch.linspace(-2, 2, 401))
    with torch.no_grad():
        moved = network(grid)[None] - network(torch.tensor(X, dtype=torch.float32))[:, None]
    log_odds = (moved.amax(dim=2) - moved.amin(dim=2)).numpy()
    tight = 0.0
    for index, budget in enumerate(BUDGETS):
        worst = np.where(distances <= budget, values, 0.0).max(axis=1)
        for threshold in np.quantile(worst, [0.1, 0.3, 0.5, 0.8, 0.95]):
            share = float((worst >= threshold).mean())
            assert share <= certificate.share_bound(float(threshold), index)
            tight = max(tight, share / certificate.share_bound(float(threshold), index))
        odds = np.exp(np.where(distances <= budget, log_odds, 0.0).max(axis=1))
        for factor in (2.0, 5.0, 20.0):
            assert (odds >= factor).mean() <= certificate.share_bound_of_odds(factor, index)
    # the bound is not empty either
    assert tight > 0.3


# --- bad input ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budgets": []}, "budgets must be finite and not negative, at least one"),
        ({"budgets": [0.1, -0.1]}, "budgets must be finite and not negative"),
        ({"budgets": [float("nan")]}, "budgets must be finite and not negative"),
        ({"budgets": [float("inf")]}, "budgets must be finite and not negative"),
        ({"restarts": 0}, "restarts must be at least 1, got 0"),
        ({"draws": 5}, "draws: got 5, expected 0 or at least 20"),
        ({"draws": -5}, "draws: got -5, expected 0 or at least 20"),
        ({"full_steps": -1}, "no negative number"),
        ({"level": 1.0}, "level: got 1.0, expected a share between 0 and 1"),
        ({"level": float("nan")}, "level: got nan, expected a share between 0 and 1"),
        ({"X": np.zeros((0, 2))}, "X has no row"),
        (
            {"network": nn.Sequential(linear([[1.0, 0.0]]), nn.Flatten(0))},
            r"shape \(n, K\), got \(40,\)",
        ),
        ({"X": np.zeros((4, 3))}, r"X has the shape \(4, 3\), but this metric was fitted on 2"),
        ({"X": np.zeros(2)}, r"X has the shape \(2,\)"),
        ({"X": np.full((4, 2), np.nan)}, "not finite"),
        ({"network": linear([[float("inf"), 0.0], [0.0, 1.0]])}, "logits are not finite"),
    ],
    ids=str,
)
def test_bad_input_is_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    given = {"network": linear([[1.0, 0.0]] * 2), "X": rows(0), "metric": SQUARE, "budgets": [0.1]}
    with pytest.raises(ValueError, match=message) as caught:
        certify(**{**given, **arguments})
    assert "\n" not in str(caught.value)


def test_a_metric_that_is_not_fitted_is_refused() -> None:
    with pytest.raises(NotFittedError):
        certify(linear([[1.0, 0.0]] * 2), rows(0), SensitiveSubspace(indicators=[0]), [0.1])


@pytest.mark.parametrize("training", [False, True])
def test_the_network_is_given_back_in_the_mode_that_it_was_in(training: bool) -> None:
    network = nn.Sequential(nn.BatchNorm1d(2), linear([[1.0, 0.0]] * 2)).train(training)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    certify(network, rows(0), SQUARE, [0.1], draws=0)
    assert network.training == network[0].training == training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_more_restarts_never_find_less() -> None:
    metric, network, budgets = box([-1.0, -2.0], [1.0, 2.0]), hidden_layer(3), [0.0, 0.01, 0.3]
    several = [
        certify(network, rows(2), metric, budgets, restarts=restarts, draws=0).values
        for restarts in (1, 2, 3, 4)
    ]
    for fewer, more in zip(several, several[1:], strict=False):
        assert (more >= fewer).all()
    assert (several[-1] > several[0]).any()
