"""Bounds of tree models' margins: hand-computed trees, grids, an exact solver, and properties."""

from __future__ import annotations

import json
from typing import Any, Self

import numpy as np
import pytest
import xgboost as xgb
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.special import expit

from evenhand.fairlib.certificates._tree_kernels import Moves, Person, States, _separates
from evenhand.fairlib.certificates.measures import decision_radii, flipped_share, score_change
from evenhand.fairlib.certificates.networks import NotProvedError
from evenhand.fairlib.certificates.proof import prove
from evenhand.fairlib.certificates.region import Region
from evenhand.fairlib.certificates.tree_rings import tree_rings
from evenhand.fairlib.certificates.trees import MarginBounds, TreeProver, read_trees
from evenhand.fairlib.distances import EXPLORE, Metric, SensitiveSubspace
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import ProjectedGBDTClassifier
from tests.oracles.enumerated_trees import Choice, over_values

Float = NDArray[np.float64]


class GivenMetric(Metric):
    """A metric with given free directions, the columns of `basis`."""

    kind, title = "given", "given metric"

    def __init__(self, basis: Any = None) -> None:
        self.basis = basis

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        rows = np.asarray(X, dtype=np.float64)
        self._remember(rows, np.asarray(self.basis, dtype=np.float64).reshape(rows.shape[1], -1))
        return self


def drawn(seed: int, d: int, k: int, *, depth: int = 3, trees: int = 4, n: int = 60) -> TreeProver:
    """A small model of random labels, and a metric with k random free directions."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)).astype(np.float32)
    X[:, 0] = X[:, 0] > 0
    model = GBDTClassifier(
        n_steps=trees,
        max_depth=depth,
        eta=1.0,
        reg_lambda=0.1,
        min_child_weight=0.1,
        n_iter_no_change=None,
        n_jobs=1,
    ).fit(X, random.integers(2, size=n))
    basis = np.linalg.qr(random.normal(size=(d, max(k, 1))))[0][:, :k]
    prover = TreeProver(model, GivenMetric(basis).fit(X))
    prover.X = X  # type: ignore[attr-defined]
    return prover


def check(bounds: MarginBounds, prover: TreeProver) -> None:
    """Bounds in their order, and points with the margins found in XGBoost's own sums."""
    assert (bounds.low <= bounds.found_low).all()
    assert (bounds.found_low <= bounds.found_high).all()
    assert (bounds.found_high <= bounds.high).all()
    for points, margins in ((bounds.lowest, bounds.found_low), (bounds.highest, bounds.found_high)):
        assert np.array_equal(
            prover.booster.inplace_predict(points, predict_type="margin"), margins
        )


def stump() -> TreeProver:
    """One split of the first column at 0.5 with the margins 0 and 2; the second column is a free
    direction.

    The labels are 0, 1 on the left and 1, 1 on the right: -G / H is 0 and 1 / 0.5.
    """
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32)
    model = GBDTClassifier(
        n_steps=1,
        max_depth=1,
        eta=1.0,
        reg_lambda=0.0,
        min_child_weight=0.0,
        base_score=0.5,
        n_iter_no_change=None,
        n_jobs=1,
    ).fit(X, [0, 1, 1, 1])
    return TreeProver(model, GivenMetric([0.0, 1.0]).fit(X))


def test_one_split_by_hand() -> None:
    prover = stump()
    X = np.array([[0.25, 0], [0.25, 0], [0.75, 1], [0.75, 1], [0.0, 0]], dtype=np.float32)
    # the threshold is 0.25 away from the first four, and 0.5 from the last
    bounds = prover.margins(X, np.array([0.24, 0.26, 0.24, 0.26, 0.4]))
    assert bounds.low.tolist() == [0, 0, 2, 0, 0]
    assert bounds.high.tolist() == [0, 2, 2, 2, 0]
    assert bounds.found_high.tolist() == bounds.high.tolist()
    assert bounds.found_low.tolist() == bounds.low.tolist()
    check(bounds, prover)


def test_values_of_a_column_by_hand() -> None:
    choice = Choice([0], np.array([[0.0], [1.0]], dtype=np.float32))
    bounds = over_values(stump(), [[0.0, 1.0], [1.0, 0.0]], [choice])
    assert bounds.low.tolist() == [0, 0]
    assert bounds.high.tolist() == [2, 2]
    assert bounds.highest.tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("radius", [0.0, 0.1, 0.45])
def test_no_point_of_a_grid_is_outside_the_bounds(k: int, radius: float) -> None:
    prover = drawn(k, 3, k, depth=4, trees=8)
    X = prover.X[:6]  # type: ignore[attr-defined]
    bounds = prover.margins(X, radius)
    check(bounds, prover)
    region = Region.of(prover.metric, X, radius)
    steps = np.linspace(-1, 1, 15)
    delta = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 1, 3) * radius
    random = np.random.default_rng(0)
    t = random.uniform(region.free_low, region.free_high, size=(len(delta), *region.free_low.shape))
    points = region.points(np.broadcast_to(delta, (len(delta), 6, 3)), t).astype(np.float32)
    margins = prover.booster.inplace_predict(points.reshape(-1, 3), predict_type="margin").reshape(
        -1, 6
    )
    assert (margins.min(axis=0) >= bounds.low).all()
    assert (margins.max(axis=0) <= bounds.high).all()
    # and the branch and bound finds at least as much as the grid
    assert (margins.min(axis=0) >= bounds.found_low).all()
    assert (margins.max(axis=0) <= bounds.found_high).all()
    distances = prover.metric.distance(bounds.highest, X)
    assert distances.max() <= radius + 1e-6


def test_a_region_without_moves_has_the_prediction() -> None:
    prover = drawn(5, 4, 0, trees=20)
    X = prover.X  # type: ignore[attr-defined]
    own = prover.booster.inplace_predict(X, predict_type="margin")
    bounds = prover.margins(X, 0.0)
    for found in (bounds.low, bounds.high, bounds.found_low, bounds.found_high):
        assert np.array_equal(found, own)


@pytest.mark.parametrize("k", [0, 2])
def test_a_larger_radius_never_has_a_smaller_bound(k: int) -> None:
    prover = drawn(6, 4, k, trees=6)
    X = prover.X[:20]  # type: ignore[attr-defined]
    exact = [prover.margins(X, radius) for radius in (0.0, 0.05, 0.2, 0.8, np.inf)]
    for near, far in zip(exact, exact[1:], strict=False):
        assert (near.found_high <= far.high).all()
        assert (near.found_low >= far.low).all()
        assert near.high.mean() <= far.high.mean()
        assert near.low.mean() >= far.low.mean()


def test_limits_of_states_and_of_time_only_widen_the_bounds() -> None:
    prover = drawn(7, 5, 1, depth=5, trees=15, n=200)
    X = prover.X[:20]  # type: ignore[attr-defined]
    exact = prover.margins(X, 0.3)
    early = prover.margins(X, 0.3, seconds=0.0)
    check(early, prover)
    assert (early.high >= exact.found_high).all()
    assert (early.low <= exact.found_low).all()
    assert early.high.sum() > exact.high.sum()
    few = prover.margins(X, 0.3, rounds=(1, 8))
    assert (few.high <= early.high).all()
    assert few.high.sum() >= exact.high.sum()
    again = prover.margins(X, 0.3, rounds=(1, 8), jobs=1)
    assert np.array_equal(again.high, few.high)


def test_a_projected_model_is_constant_along_the_projection() -> None:
    random = np.random.default_rng(8)
    X = random.normal(size=(200, 4)).astype(np.float32)
    basis = np.linalg.qr(random.normal(size=(4, 1)))[0]
    metric = GivenMetric(basis).fit(X)
    options = {"n_steps": 6, "max_depth": 3, "eta": 0.5, "n_iter_no_change": None, "n_jobs": 1}
    y = X[:, 0] + X[:, 1] > 0.5
    projected = ProjectedGBDTClassifier(metric, **options).fit(X, y)
    plain = GBDTClassifier(**options).fit(X, y)
    own = projected.booster_.inplace_predict(projected._project(X[:50]), predict_type="margin")
    bounds, others = (
        TreeProver(model, metric).margins(X[:50], 0.0) for model in (projected, plain)
    )
    assert (bounds.high == own).mean() > 0.9  # others are within rounding of a threshold
    assert (bounds.high >= own).all()
    assert (others.high - others.low).mean() > 10 * (bounds.high - bounds.low).mean()
    far = TreeProver(projected, metric).margins(X[:50], 0.2)
    region = Region.of(metric, X[:50], 0.2)
    delta = random.normal(size=(2000, 50, 4)) * random.choice([0.05, 0.5], size=(2000, 1, 1))
    points = (
        region.points(delta, random.normal(size=(2000, 50, 1))).reshape(-1, 4).astype(np.float32)
    )
    margins = projected.booster_.inplace_predict(projected._project(points), predict_type="margin")
    assert (margins.reshape(2000, 50).max(axis=0) <= far.high).all()
    assert (margins.reshape(2000, 50).min(axis=0) >= far.low).all()


def test_a_metric_that_stretches() -> None:
    prover = drawn(9, 3, 0, trees=8)
    X = prover.X  # type: ignore[attr-defined]
    metric = EXPLORE(strength=0.01).fit(X, groups=np.arange(len(X)) // 20)
    wide = TreeProver(type("Model", (), {"booster_": prover.booster})(), metric)
    bounds = wide.margins(X[:10], 0.4)
    check(bounds, wide)
    region, random = Region.of(metric, X[:10], 0.4), np.random.default_rng(0)
    delta = random.normal(size=(5000, 10, 3)) * random.choice([0.1, 2.0], size=(5000, 1, 1))
    t = random.normal(size=(5000, 10, metric.basis_.shape[1]))
    points = region.points(delta, t).reshape(-1, 3).astype(np.float32)
    margins = wide.booster.inplace_predict(points, predict_type="margin").reshape(-1, 10)
    assert (margins.max(axis=0) <= bounds.high).all()
    assert (margins.min(axis=0) >= bounds.low).all()
    assert (bounds.found_high - bounds.found_low).max() > 0


def optimum(prover: TreeProver, region: Region, sign: int, inner: float) -> float:
    """The largest `sign` times margin by a mixed-integer solver, from XGBoost's own JSON.

    For metrics of rank one, whose distance is linear. A binary of each threshold says that u is
    below it by `inner`, or above it by that much; a binary of each leaf that its tree is there
    (Kantchelian et al. 2016)."""
    d, k = region.basis.shape
    trees = json.loads(prover.booster.save_raw("json"))["learner"]["gradient_booster"]["model"][
        "trees"
    ]
    unit = region.factor[:, -1] / np.linalg.norm(region.factor[:, -1])  # others are rounding
    move = np.concatenate([np.outer(unit, unit), region.basis], axis=1)  # of (delta, t) to x' - x
    cuts = sorted(
        {
            (f, np.float32(c))
            for tree in trees
            for left, f, c in zip(
                tree["left_children"], tree["split_indices"], tree["split_conditions"], strict=True
            )
            if left >= 0
        }
    )
    leaves = [
        (tree, node)
        for tree in trees
        for node, left in enumerate(tree["left_children"])
        if left < 0
    ]
    size, first = d + k + len(cuts) + len(leaves), d + k + len(cuts)
    rows, low, high = [], [], []

    def add(entries: dict[int, float], least: float, most: float) -> None:
        row = np.zeros(size)
        for place, value in entries.items():
            row[place] += value
        rows.append(row), low.append(least), high.append(most)

    add(dict(enumerate(unit)), -region.radius[0] * np.linalg.norm(region.factor), np.inf)
    add(dict(enumerate(unit)), -np.inf, region.radius[0] * np.linalg.norm(region.factor))
    big = 100.0
    for place, (f, cut) in enumerate(cuts):
        shift, binary = dict(enumerate(move[f])), d + k + place
        add(shift | {binary: big}, -np.inf, cut - inner - region.x[0, f] + big)  # 1: below
        add(shift | {binary: big}, cut + inner - region.x[0, f], np.inf)  # 0: above
    value = np.zeros(size)
    for tree in trees:
        own = [first + i for i, (other, _) in enumerate(leaves) if other is tree]
        add(dict.fromkeys(own, 1.0), 1.0, 1.0)
    for i, (tree, node) in enumerate(leaves):
        value[first + i] = tree["split_conditions"][node]
        while node:
            parent = tree["parents"][node]
            cut = tree["split_indices"][parent], np.float32(tree["split_conditions"][parent])
            below = d + k + cuts.index(cut)
            if tree["left_children"][parent] == node:
                add({first + i: 1.0, below: -1.0}, -np.inf, 0.0)
            else:
                add({first + i: 1.0, below: 1.0}, -np.inf, 1.0)
            node = parent
    ends = (
        np.concatenate([region.low[0], region.free_low[0], np.zeros(size - d - k)]),
        np.concatenate([region.high[0], region.free_high[0], np.ones(size - d - k)]),
    )
    found = milp(
        -sign * value,
        constraints=LinearConstraint(np.array(rows), low, high),
        bounds=Bounds(*ends),
        integrality=np.r_[np.zeros(d + k), np.ones(size - d - k)],
        options={"mip_rel_gap": 0.0},
    )
    assert found.status == 0, found.message
    return -float(found.fun) + sign * float(prover.trees.base)


def test_changes_of_scores_and_decisions_by_hand() -> None:
    prover = stump()
    model = type("Model", (), {"booster_": prover.booster})()
    # at distances of 0.25, 0.45 and 0.05 from the threshold, where the margin jumps from 0 to 2
    X = np.array([[0.25, 0], [0.05, 0], [0.55, 1]], dtype=np.float32)
    rings = tree_rings(model, prover.metric, X, [0.0, 0.1, 0.3, 0.4])
    proved, found = decision_radii(rings, 1.0)
    np.testing.assert_allclose(proved, [0.1, 0.4, 0.0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found, [0.3, np.inf, 0.1], rtol=0, atol=1e-9)
    change = 1 / (1 + np.exp(-2)) - 0.5
    for ring, expected in zip(rings, (0.0, change, change, change), strict=True):
        interval = score_change(ring, expit)
        assert interval.found == pytest.approx(expected, abs=1e-7)
        assert interval.proved == pytest.approx(expected, abs=1e-7)
    # a mean squared distance of .035 pays for .3 and .1, not for three people; proved costs are .1
    # and 0
    flipped = flipped_share(proved, found, 0.035)
    assert flipped.found == pytest.approx(2 / 3)
    assert flipped.proved >= flipped.found


def belongs(region: Region, point: Float) -> bool:
    """Whether a point is in a region but for rounding, by the definition and a linear program."""
    basis, move = region.basis, point - region.x[0]
    t = move @ basis
    along = np.linalg.pinv(region.factor[:, -1:])  # the part of delta that counts, in fair distance
    far = np.linalg.norm(along @ move) > region.radius[0] + 1e-5
    outside = ((t < region.free_low[0] - 1e-5) | (t > region.free_high[0] + 1e-5)).any()
    limits = np.stack([region.low[0] - 1e-5, region.high[0] + 1e-5], axis=1)
    found = linprog(np.zeros(len(move)), A_eq=along, b_eq=along @ move, bounds=limits)
    return not far and not outside and found.status == 0


def compared(seed: int) -> tuple[float, float, float]:
    """The largest margin of a person of a small model: proved, found, and the optimum."""
    random = np.random.default_rng(seed)
    d = int(random.integers(2, 5))
    prover = drawn(
        seed, d, d - 1, depth=int(random.integers(1, 4)), trees=int(random.integers(1, 6))
    )
    x, radius = prover.X[:1], float(random.choice([0.0, 0.05, 0.3, 1.0]))  # type: ignore[attr-defined]
    bounds = prover.margins(x, radius)
    region = Region.of(prover.metric, x, radius)
    sign, proved, seen, point = 1, bounds.high, bounds.found_high, bounds.highest
    if seed % 2:
        sign, proved, seen, point = -1, -bounds.low, -bounds.found_low, bounds.lowest
    assert belongs(region, point[0].astype(np.float64))
    # the solver's tolerance is 1e-6: a threshold is kept away from by more
    return float(proved[0]), float(seen[0]), optimum(prover, region, sign, 1e-5)


def check_against_the_solver(seeds: range) -> None:
    """No bound below the optimum, and none far above."""
    proved, seen, best = np.array([compared(seed) for seed in seeds]).T
    assert (proved >= best - 1e-5).all()  # float32 sums
    gap = (proved - best) / np.maximum(np.abs(best), 0.1)
    assert (seen >= best - 1e-5).mean() >= 0.98
    assert np.median(gap) <= 1e-5
    assert (gap > 0.05).mean() <= 0.02


def test_against_a_mixed_integer_solver() -> None:
    check_against_the_solver(range(50))


@pytest.mark.long
def test_more_models_against_a_mixed_integer_solver() -> None:
    check_against_the_solver(range(50, 550))


def test_values_are_those_of_predicted_copies() -> None:
    prover = drawn(11, 5, 1, trees=10)
    X = prover.X[:30]  # type: ignore[attr-defined]
    first = Choice([1, 2], np.eye(2, dtype=np.float32))
    second = Choice([4], np.array([[-1.0], [0.0], [1.0]], dtype=np.float32))
    bounds = over_values(prover, X, [first, second])
    check(bounds, prover)
    copies = [X]
    for pair in ([1, 0], [0, 1]):
        for value in (-1, 0, 1):
            copy = X.copy()
            copy[:, [1, 2]], copy[:, 4] = pair, value
            copies.append(copy)
    margins = np.stack(
        [prover.booster.inplace_predict(copy, predict_type="margin") for copy in copies]
    )
    assert np.array_equal(bounds.low, margins.min(axis=0))
    assert np.array_equal(bounds.high, margins.max(axis=0))
    many = Choice([3], np.zeros((5000, 1), dtype=np.float32))
    with pytest.raises(ValueError, match="5000 combinations"):
        over_values(prover, X, [many])


@pytest.mark.parametrize("k", [1, 2])
def test_no_multipliers_prove_a_box_with_a_point_empty(k: int) -> None:
    random, radius = np.random.default_rng(k), 0.3
    X = random.normal(size=(40, 4))
    metric = GivenMetric(np.linalg.qr(random.normal(size=(4, k)))[0]).fit(X)
    region = Region.of(metric, X[:1], radius)
    basis, sigma, eye, none = region.basis, metric.weigh(np.eye(4)), np.eye(4), np.zeros(4)
    rows = (region.x[0], region.low[0], region.high[0], region.free_low[0], region.free_high[0])
    moves = Moves(
        *map(np.ascontiguousarray, (*rows, sigma, basis, eye, eye - basis @ basis.T, basis))
    )
    person = Person(none, none, none, none, none, basis, none, none, none, sigma, radius, radius**2)
    proofs = 0
    for _ in range(300):
        delta, t = random.normal(size=(1, 4)), random.normal(size=(1, k)) * 2
        point, y = region.points(delta, t)[0], random.normal(size=4)
        weighed = sigma @ delta[0]
        length = float(np.sqrt(delta[0] @ weighed))
        for shift in (0.0, -8.0):  # against the direction -y of the proof, out of the region
            box = [(point + shift * y + side)[None] for side in (-0.01, 0.01)]
            states = States(*box, *np.zeros((5, 1, 4)), np.zeros(1))
            empty = _separates(person, moves, states, 0, region.x[0], y, weighed, length)
            proofs += empty
            assert not (empty and shift == 0.0)
    assert proofs > 100


def test_models_without_a_proof_are_refused() -> None:
    random = np.random.default_rng(12)
    X = random.normal(size=(60, 2)).astype(np.float32)
    metric = GivenMetric([1.0, 0.0]).fit(X)
    options = {"n_steps": 2, "n_iter_no_change": None, "n_jobs": 1}
    three = GBDTClassifier(**options).fit(X, np.arange(60) % 3)
    with pytest.raises(NotProvedError, match="two classes"):
        TreeProver(three, metric)
    with pytest.raises(NotProvedError, match="no XGBoost model"):
        TreeProver(object(), metric)
    dart = xgb.train(
        {"booster": "dart", "objective": "binary:logistic"}, xgb.DMatrix(X, X[:, 0] > 0), 2
    )
    with pytest.raises(NotProvedError, match="dart"):
        TreeProver(type("Model", (), {"booster_": dart})(), metric)
    import pandas as pd

    table = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.where(X[:, 1] > 0, "x", "y"))})
    sets = GBDTClassifier(**options, min_child_weight=0.1).fit(table, X[:, 1] > 0)
    with pytest.raises(NotProvedError, match="sets of categories"):
        TreeProver(sets, metric)


def test_the_mean_loss_counts_moves_beyond_the_radii() -> None:
    # all are five times the budget's root away from the only threshold, and radii up to four times
    # it are looked at; but the mean budget pays for two of the 50 people who move there
    random = np.random.default_rng(0)
    X = random.choice([-0.9, -0.5, 0.1, 0.5, 0.9], size=(400, 2)).astype(np.float32)
    model = GBDTClassifier(n_steps=1, max_depth=1, n_iter_no_change=None).fit(X, X[:, 1] > 0)
    metric = SensitiveSubspace(indicators=(0,)).fit(X)
    people, y = (
        np.tile(np.array([[0.0, 0.1]], dtype=np.float32), (50, 1)),
        np.ones(50, dtype=np.int64),
    )
    threshold = float(read_trees(model.booster_)[0].cuts[0])
    distance, budget = 0.1 - threshold, ((0.1 - threshold) / 5) ** 2
    assert distance > 4 * np.sqrt(budget)
    found = prove(model, people, metric, budget, y=y, parts=50).intervals["certificate.loss"]
    margins = model.booster_.inplace_predict(
        np.array([[0.0, 0.1], [0.0, threshold - 0.01]]), predict_type="margin"
    )
    rise = np.logaddexp(0.0, -margins[1]) - np.logaddexp(0.0, -margins[0])
    assert found.found == 0.0
    assert found.proved >= 2 * rise / 50 > 0.001
