"""Bounds of networks against grids, a mixed-integer solver and attacks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix
from torch import nn

from evenhand.fairlib.certificates import branching
from evenhand.fairlib.certificates.branching import MARGIN, Branching, network_rings
from evenhand.fairlib.certificates.measures import Ring
from evenhand.fairlib.certificates.networks import LinearRelaxation, NotProvedError, read_network
from evenhand.fairlib.certificates.region import Region
from evenhand.fairlib.distances import FACE, Metric, SensitiveSubspace
from evenhand.fairlib.methods.networks.network_training import build_network

Float = NDArray[np.float64]
Layers = list[tuple[Float, Float]]
ROWS = np.array([[-1.0, 1.0], [1.0, -1.0]])


def network(seed: int, features: int, hidden: tuple[int, ...]) -> nn.Sequential:
    """A random network whose units cross 0 in the table's range."""
    found = build_network(features, hidden, 2, torch.Generator().manual_seed(seed))
    random = torch.Generator().manual_seed(seed + 1)
    for layer in found:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.bias, 0.0, 0.3, generator=random)
    return found


def metric_of(features: int) -> Metric:
    corners = np.array([-np.ones(features), np.ones(features)])
    return SensitiveSubspace(indicators=(0,)).fit(corners)


def oblique(features: int) -> Metric:
    """One free direction that is no column."""
    X = np.random.default_rng(0).uniform(-1, 1, (40, features))
    return FACE(n_directions=1).fit(X, groups=np.arange(40) // 4)


def people(features: int, n: int = 5, seed: int = 3) -> Float:
    return (
        np.random.default_rng(seed)
        .uniform(-1, 1, (n, features))
        .astype(np.float32)
        .astype(np.float64)
    )


def extremes(layers: Layers, region: Region, parts: int = 5000, inner: float = 0.0) -> Ring:
    return Branching(LinearRelaxation(layers, region), ROWS, inner=inner).run(parts)


def logits(layers: Layers, x: Float) -> Float:
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight.T + bias, 0.0)
    return np.asarray(x @ layers[-1][0].T + layers[-1][1])


@pytest.mark.parametrize("hidden", [(), (6,), (5, 4)], ids=str)
@pytest.mark.parametrize("radius", [0.0, 0.3, np.inf])
def test_the_maximum_of_a_grid_is_between_found_and_proved(
    hidden: tuple[int, ...], radius: float
) -> None:
    layers, X = read_network(network(4, 2, hidden)), people(2, 3)
    region = Region.of(metric_of(2), X, radius)
    found = extremes(layers, region, 300)
    steps = np.linspace(-1.0, 1.0, 301)
    for i, x in enumerate(X):
        first = np.clip(
            1.3 * steps, *(x[0] + end[i, 0] for end in (region.free_low, region.free_high))
        )
        second = x[1] + np.clip(min(radius, 3.0) * steps, region.low[i, 1], region.high[i, 1])
        best = (logits(layers, np.stack(np.meshgrid(first, second), axis=-1)) @ ROWS.T).max(
            axis=(0, 1)
        )
        assert (found.proved[i] >= best - 1e-12).all()
        assert (found.found[i] <= best + 0.03).all()
    if radius == 0.0 or not hidden:
        own = logits(layers, X) @ ROWS.T
        assert (found.proved - found.found <= 0.02 * (found.found - own) + 1e-9).all()


def largest(layers: Layers, low: Float, high: Float, row: Float) -> float:
    """The maximum over a box by HiGHS; units are in big-M form with bounds from interval
    arithmetic.
    """
    spans, ends = [], (low, high)
    for weight, bias in layers[:-1]:
        up, down = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
        spans.append((up @ ends[0] + down @ ends[1] + bias, up @ ends[1] + down @ ends[0] + bias))
        ends = tuple(np.maximum(end, 0.0) for end in spans[-1])  # type: ignore[assignment]
    units = sum(len(span[0]) for span in spans)
    d = len(low)
    total = d + 2 * units  # x, outputs, switches
    rows, limits = lil_matrix((3 * units, total)), []
    before, start, at = slice(0, d), d, 0
    lower, upper = np.zeros(total), np.ones(total)
    lower[:d], upper[:d] = low, high
    for (weight, bias), (least, most) in zip(layers[:-1], spans, strict=True):
        for j in range(len(bias)):
            y, switch = start + j, start + j + units
            upper[y] = max(most[j], 0.0)
            # y >= z, y <= z - l (1 - s), y <= u s
            for sign, extra, limit in ((-1, 0.0, -bias[j]), (1, -least[j], bias[j] - least[j])):
                rows[at, y], rows[at, before], rows[at, switch] = sign, -sign * weight[j], extra
                limits.append(limit)
                at += 1
            rows[at, y], rows[at, switch] = 1, -max(most[j], 0.0)
            limits.append(0.0)
            at += 1
        before, start = slice(start, start + len(bias)), start + len(bias)
    cost = np.zeros(total)
    cost[before] = -(row @ layers[-1][0])
    whole = np.r_[np.zeros(d + units), np.ones(units)]
    found = milp(
        cost,
        constraints=LinearConstraint(rows.tocsr(), ub=limits),
        bounds=Bounds(lower, upper),
        integrality=whole,
        options={"mip_rel_gap": 1e-9},
    )
    return float(-found.fun + row @ layers[-1][1])


def against_highs(seed: int, radius: float) -> float:
    """Check one network on a box, of free columns or of all; the gap as a share of the change."""
    random = np.random.default_rng(seed)
    features, hidden = (
        int(random.integers(2, 5)),
        tuple(random.integers(3, 7, size=random.integers(1, 3))),
    )
    layers, X = read_network(network(seed, features, hidden)), people(features, 1, seed)
    free = list(range(min(features - 1, 2)))
    metric = SensitiveSubspace(indicators=free).fit(
        np.array([-np.ones(features), np.ones(features)])
    )
    region = Region.of(metric, X, radius)
    found = extremes(layers, region, parts=200)
    low, high = (X[0] + end[0] * (radius > 0) for end in (region.low, region.high))
    low[free], high[free] = X[0, free] + region.free_low[0], X[0, free] + region.free_high[0]
    gaps = []
    for j, row in enumerate(ROWS):
        optimum = largest(layers, low, high, row)
        assert found.proved[0, j] >= optimum - 1e-7
        assert found.found[0, j] <= optimum + 1e-7
        gaps.append(
            (found.proved[0, j] - optimum) / max(optimum - float(row @ logits(layers, X)[0]), 1e-6)
        )
    return max(gaps)


def test_no_bound_is_below_the_optimum_of_a_mixed_integer_solver() -> None:
    assert np.median([against_highs(seed, 0.0) for seed in range(15)]) <= 0.05
    for seed in range(15, 20):
        against_highs(seed, np.inf)


@pytest.mark.long
def test_no_bound_of_500_networks_is_below_the_optimum() -> None:
    assert np.median([against_highs(seed, 0.0) for seed in range(1000, 1250)]) <= 0.05
    assert np.median([against_highs(seed, np.inf) for seed in range(1250, 1500)]) <= 0.5


@pytest.mark.parametrize("hidden", [(20,), (10, 8)], ids=str)
@pytest.mark.parametrize("parts", [0, 30])
def test_no_attack_is_above_the_bounds_at_any_time(hidden: tuple[int, ...], parts: int) -> None:
    layers, X, metric = read_network(network(1, 6, hidden)), people(6, 8), oblique(6)
    region, random = Region.of(metric, X, 0.4), np.random.default_rng(0)
    found = extremes(layers, region, parts * 8, inner=0.2)
    assert (found.found <= found.proved).all()
    moves = random.normal(size=(1000, 8, 6))
    moves *= random.choice([0.0, 0.1, 1.0, 20.0], size=(1000, 8, 1))
    ends = random.choice([-9.0, 0.0, 0.3, 9.0], size=(1000, 8, 1))
    points = region.points(moves, ends)
    values = logits(layers, points) @ ROWS.T
    assert (values <= found.proved).all()
    # the straight line between both radii bounds all points between them
    distance = np.sqrt(metric.squared(points.reshape(-1, 6), np.tile(X, (1000, 1)))).reshape(
        1000, 8, 1
    )
    share = np.clip((distance - 0.2) / 0.2, 0.0, 1.0)
    assert ((distance > 0.25) & (distance < 0.35)).any()
    assert (values <= found.inner_proved + share * (found.proved - found.inner_proved) + 1e-9).all()
    assert (found.inner_proved < found.proved - 0.01).mean() > 0.5


@pytest.mark.parametrize("hidden", [(12,), (6, 6)], ids=str)
def test_a_parts_bound_holds_for_all_points_of_its_signs(
    hidden: tuple[int, ...],
) -> None:
    layers, X, random = read_network(network(7, 3, hidden)), people(3, 6), np.random.default_rng(4)
    region = Region.of(oblique(3), X, 0.8)
    relaxation = LinearRelaxation(layers, region)
    points = region.points(random.normal(size=(1500, 6, 3)), random.normal(size=(1500, 6, 1)))
    inputs, x = [], points
    for weight, bias in layers[:-1]:
        inputs.append(x @ weight.T + bias)
        x = np.maximum(inputs[-1], 0.0)
    positive = np.concatenate(inputs, axis=2) > 0
    values = logits(layers, points) @ ROWS[0]
    tight = 0.0
    for _ in range(25):
        # the signs of some point at a few units
        signs = np.where(positive[random.integers(1500)], 1, -1).astype(np.int8)
        signs[:, random.permutation(signs.shape[1])[3:]] = 0
        rows = np.repeat(ROWS[:1], 6, axis=0)
        bound = relaxation.bound(np.arange(6), region, signs, rows, 8)[0]
        inside = ((np.where(positive, 1, -1) == signs) | (signs == 0)).all(axis=2)
        best = np.where(inside, values, -np.inf).max(axis=0)
        assert (best <= bound).all()
        tight += (
            bound < relaxation.bound(np.arange(6), region, 0 * signs, rows, 8)[0] - 1e-3
        ).mean()
    # the conditions are used
    assert tight > 0.3 * 25


def test_more_parts_never_widen_the_bounds() -> None:
    layers, region = read_network(network(2, 5, (25,))), Region.of(oblique(5), people(5), 0.5)
    several = [extremes(layers, region, parts) for parts in (0, 40, 400)]
    for less, more in zip(several, several[1:], strict=False):
        assert (more.proved <= less.proved + 1e-12).all()
        assert (more.found >= less.found).all()
    assert several[-1].proved.mean() < several[0].proved.mean() - 0.01
    again = extremes(layers, region, 400)
    np.testing.assert_array_equal(again.proved, several[-1].proved)


def test_a_linear_network_has_the_hand_computed_bound() -> None:
    layer = nn.Linear(2, 2)
    layer.weight.data = torch.tensor([[0.0, 0.0], [2.0, 3.0]])
    nn.init.zeros_(layer.bias)
    # the first column is free in [-1.2, 1.2]; the second may move by 0.1
    X = np.array([[0.5, 0.0]])
    (ring,) = network_rings(nn.Sequential(layer), metric_of(2), X, [0.1])
    margins = np.sqrt(2.0) * ring.proved[0, list(MARGIN)]
    edge = float(metric_of(2).feature_bounds_.high[0])
    np.testing.assert_allclose(margins, [2.0 * edge + 0.3, 2.0 * edge + 0.3], rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(2.0) * ring.own[0, list(MARGIN)], [1.0, -1.0])


@pytest.mark.parametrize("tolerance", [0.01, 0.5, 1e9])
def test_rings_that_are_not_run_hold_all_points(
    monkeypatch: pytest.MonkeyPatch, tolerance: float
) -> None:
    monkeypatch.setattr(branching, "TOLERANCE", tolerance)
    runs: list[float] = []
    run = Branching.run

    def counted(self: Branching, most_parts: int) -> Ring:
        runs.append(self.radius)
        return run(self, most_parts)

    monkeypatch.setattr(Branching, "run", counted)
    model, X, metric = network(3, 5, (16,)), people(5, 6), oblique(5)
    radii = [0.0, 0.01, 0.02, 0.05, 0.2, 0.8, 3.0]
    rings = network_rings(model, metric, X, radii, parts=4)
    # the first and the last alone, or those where the bounds differ
    assert sorted(runs) == ([0.0, 3.0] if tolerance == 1e9 else sorted(set(runs)))
    assert (len(runs) < len(radii)) is (tolerance > 0.4)
    angles = np.arange(8) * np.pi / 4
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    random = np.random.default_rng(1)
    layers = read_network(model)
    for before, ring in zip([rings[0], *rings], rings, strict=False):
        points = Region.of(metric, X, ring.radius).points(
            random.normal(size=(400, 6, 5)), random.choice([-9.0, 0.1, 9.0], size=(400, 6, 1))
        )
        values = logits(layers, points) @ directions.T
        assert (values <= ring.proved).all()
        assert (ring.found <= ring.proved).all()
        assert (ring.found >= before.found).all()
        # the line between both ends bounds what is between them
        distance = np.sqrt(metric.squared(points.reshape(-1, 5), np.tile(X, (400, 1))))
        share = (distance.reshape(400, 6, 1) - ring.inner) / max(ring.radius - ring.inner, 1e-12)
        line = ring.inner_proved + np.clip(share, 0.0, 1.0) * (ring.proved - ring.inner_proved)
        assert (values <= line + 1e-9).all()


def test_a_network_without_a_known_bound_is_refused() -> None:
    for layers, reason in (
        ([nn.Linear(2, 3), nn.SELU(), nn.Linear(3, 2)], "the layer SELU"),
        ([nn.BatchNorm1d(2), nn.Linear(2, 2)], "the layer BatchNorm1d"),
        ([nn.Linear(2, 3), nn.Linear(3, 2)], "this order of layers"),
    ):
        with pytest.raises(NotProvedError, match=reason):
            read_network(nn.Sequential(*layers))
    with pytest.raises(NotProvedError, match="two logits"):
        network_rings(nn.Sequential(nn.Linear(2, 3)), metric_of(2), people(2), [0.0])
    broken = nn.Linear(2, 2)
    nn.init.constant_(broken.weight, torch.inf)
    with pytest.raises(NotProvedError, match="not finite"):
        read_network(nn.Sequential(broken))


@pytest.mark.parametrize("radius", [0.0, 0.3])
def test_the_search_alone_reaches_what_many_random_points_reach(radius: float) -> None:
    layers, X = read_network(network(2, 4, (24,))), people(4, 6)
    region, random = Region.of(oblique(4), X, radius), np.random.default_rng(5)
    search = Branching(LinearRelaxation(layers, region), ROWS)
    search.attack()
    moves = random.normal(size=(20_000, 6, 4)) * random.choice([0.1, 0.5, 3.0], size=(20_000, 6, 1))
    values = logits(layers, region.points(moves, random.uniform(-3, 3, (20_000, 6, 1))))
    own = logits(layers, X)
    change, longest = (values - own) @ ROWS.T, np.linalg.norm(values - own, axis=2).max(axis=0)
    found = search.found.reshape(6, 2) - own @ ROWS.T
    assert found.mean() >= 0.97 * change.max(axis=0).mean()
    assert search.longest.mean() >= 0.97 * longest.mean()
