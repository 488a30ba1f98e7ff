"""BuDRO against naive renderings of Algorithm 3, early stopping, and degenerate tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss

from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.methods import budro as budro_module
from evenhand.fairlib.methods import gbdt as gbdt_module
from evenhand.fairlib.methods.budro import VALIDATION_METRICS, BudroClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.transport.dual import DualSolver
from evenhand.fairlib.transport.problem import TransportPlan
from tests.fairlib.methods.paper_budro import paper_budro
from tests.oracles.linear_program import largest_loss

People = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]

Rebuild = Callable[[TransportPlan], NDArray[Any]]
Recorded = list[tuple[NDArray[Any], TransportPlan]]

HISTORY = ["adversarial_loss", "gap", "loss", "multiplier", "proven", "spent"]


def bisected_multiplier(gains: NDArray[Any], costs: NDArray[Any], budget: float) -> float:
    """Algorithm 7, step 2, in the plainest way: halve until the sign change of (B.15) is pinned
    down.
    """

    def slope(eta: float) -> float:
        rows = np.argmax(gains - eta * costs, axis=0)
        return budget - float(costs[rows, np.arange(len(rows))].mean())

    if slope(0.0) >= 0:
        return 0.0
    low, high = 0.0, 1.0
    while slope(high) < 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return high


def parameters(model: BudroClassifier, y: NDArray[Any]) -> dict[str, Any]:
    common = {
        "tree_method": "hist",
        "base_score": 0.5,
        "max_depth": model.max_depth,
        "eta": model.eta,
        "lambda": model.reg_lambda,
        "min_child_weight": model.min_child_weight,
        "nthread": 1,
    }
    classes = int(y.max()) + 1
    if classes > 2:
        return common | {"objective": "multi:softprob", "num_class": classes}
    ratio = (y == 0).sum() / (y == 1).sum() if model.balance_classes else 1.0
    return common | {"objective": "binary:logistic", "scale_pos_weight": ratio}


class Boosting:
    """Algorithm 3 with everything made anew at every step: matrix, losses, weights."""

    def __init__(self, model: BudroClassifier, X: NDArray[Any], y: NDArray[Any]) -> None:
        self.model, self.X, self.y = model, X, y
        self.n, self.classes = len(y), int(y.max()) + 1
        self.stacked = np.concatenate([X] * self.classes)
        self.labels = np.repeat(np.arange(float(self.classes)), self.n)
        self.booster: xgb.Booster | None = None
        self.boost(np.stack([(y == k) / self.n for k in range(self.classes)]))

    def boost(self, distribution: NDArray[Any]) -> None:
        # bins without weights: people without mass would lose their bins, and thresholds would
        # shift
        matrix = xgb.QuantileDMatrix(self.stacked, label=self.labels)
        if self.classes > 2 and self.model.balance_classes:
            share = np.array([(self.y == k).mean() for k in range(self.classes)])
            distribution = distribution / (self.classes * share[:, None])
        matrix.set_weight(distribution.ravel())
        self.booster = xgb.train(parameters(self.model, self.y), matrix, 1, xgb_model=self.booster)

    def margin(self) -> NDArray[Any]:
        assert self.booster is not None
        found: NDArray[Any] = self.booster.predict(xgb.DMatrix(self.X), output_margin=True)
        return found.astype(float)

    def losses(self) -> NDArray[Any]:
        """Loss of every row under every label, shape (classes, n)."""
        margin = self.margin()
        if self.classes == 2:
            return np.stack([np.log1p(np.exp(margin)), np.log1p(np.exp(-margin))])
        shares = np.exp(margin) / np.exp(margin).sum(axis=1, keepdims=True)
        return -np.log(shares.T)


def many_classes(people: People, n: int = 90, seed: int = 4) -> tuple[NDArray[Any], NDArray[Any]]:
    X, y, _ = people(n, seed=seed)
    return X, y + ((y == 1) & (X[:, 3] > 0.4))


def squared_distances(X: NDArray[Any]) -> NDArray[Any]:
    """Of all people, the first column left out."""
    return cdist(X[:, 1:].astype(float), X[:, 1:].astype(float), "sqeuclidean")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Every table of losses and plan of the training."""
    plans: Recorded = []
    original = DualSolver.solve

    def solve(solver: DualSolver, losses: Any) -> TransportPlan:
        plan = original(solver, losses)
        plans.append((np.array(losses), plan))
        return plan

    monkeypatch.setattr(DualSolver, "solve", solve)
    return plans


SETTINGS: dict[str, Any] = {"n_steps": 6, "max_depth": 3, "eta": 0.3, "min_child_weight": 0.01}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize("budget", [0.05, 0.6, 50.0])
def test_same_as_rebuilding_everything_at_every_step(
    budget: float,
    balance: bool,
    classes: int,
    people: People,
    recorded: Recorded,
    transport_matrix: Rebuild,
) -> None:
    X, y = many_classes(people)
    y = np.minimum(y, classes - 1)
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    model = paper_budro(
        metric, perturbation_budget=budget, balance_classes=balance, random_state=1, **SETTINGS
    ).fit(X, y)
    assert len(recorded) == 6

    n = len(y)
    costs = squared_distances(X)
    naive = Boosting(model, X, y)
    for losses, plan in recorded:
        expected = naive.losses()
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        gains = expected[y].T  # R_ij: loss at i under the label of j
        eta = bisected_multiplier(gains, costs, budget)
        assert plan.multiplier == pytest.approx(eta, rel=1e-4, abs=1e-7)
        transport = transport_matrix(plan)
        worth = gains - plan.multiplier * costs
        assert ((transport == 0) | (worth >= worth.max(axis=0) - 1e-6)).all()
        if plan.multiplier > 0:
            assert (costs * transport).sum() == pytest.approx(budget, rel=1e-9)
        else:
            assert (costs * transport).sum() <= budget
        # Pi y_k for every label k
        naive.boost(np.stack([transport @ (y == k) for k in range(classes)]))
    got = model.booster_.predict(xgb.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(got, naive.margin(), atol=1e-5)
    assert np.ptp(got) > 0.1
    shares = model.predict_proba(X)
    assert shares.shape == (n, classes)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("solver", ["dual", "entropic", "lp"])
def test_a_model_that_names_a_solver_predicts_and_trains(
    solver: str, people: People, tmp_path: Path
) -> None:
    X, y, _ = people(60)
    model = paper_budro(perturbation_budget=0.3, n_steps=2, random_state=0).fit(X, y)
    model.save(tmp_path)
    # earlier versions had several solvers, and saved which
    path = tmp_path / "model.json"
    saved = json.loads(path.read_text())
    saved["parameters"] |= {"solver": solver, "entropy": 0.1 if solver == "entropic" else None}
    path.write_text(json.dumps(saved))
    loaded = BudroClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.fit(X, y).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("listed", "gap"), [(range(121), True), (range(120), False), (range(121, 200), False)]
)
def test_the_nearest_are_listed_of_some_numbers_of_points(
    people: People, monkeypatch: pytest.MonkeyPatch, listed: range, gap: bool
) -> None:
    X, y, _ = people(120, seed=6)
    monkeypatch.setattr(budro_module, "LISTED", listed)
    monkeypatch.setattr(budro_module, "NEIGHBOURS", 3)
    model = paper_budro(perturbation_budget=0.3, neighbours="auto", **SETTINGS).fit(X, y)
    assert (max(model.history_["gap"]) > 1e-6) == gap


def test_as_many_neighbours_as_people_are_no_restriction(people: People) -> None:
    X, y, _ = people(120, seed=6)
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    settings: dict[str, Any] = {"perturbation_budget": 0.3, "random_state": 0, **SETTINGS}
    whole = paper_budro(metric, **settings).fit(X, y)
    listed = paper_budro(metric, neighbours=120, **settings).fit(X, y)
    np.testing.assert_allclose(listed.predict_proba(X), whole.predict_proba(X), atol=1e-6)
    assert whole.history_["proven"] == listed.history_["proven"] == [1.0] * 6
    few = paper_budro(metric, neighbours=4, **settings).fit(X, y)
    assert few.history_["adversarial_loss"][0] < whole.history_["adversarial_loss"][0]
    assert all(0 <= share < 1 for share in few.history_["proven"])


def test_one_neighbour_is_no_adversary(people: People) -> None:
    X, y, _ = people(100, seed=7)
    alone = paper_budro(perturbation_budget=1.0, neighbours=1, **SETTINGS).fit(X, y)
    without = paper_budro(perturbation_budget=0.0, **SETTINGS).fit(X, y)
    assert alone.history_["spent"] == [0.0] * 6
    np.testing.assert_allclose(alone.predict_proba(X), without.predict_proba(X), atol=1e-6)


def test_no_budget_is_plain_boosting_on_weighted_rows(people: People) -> None:
    X, y, _ = people(120, seed=2)
    model = paper_budro(perturbation_budget=0.0, n_steps=5, max_depth=3, eta=0.3).fit(X, y)
    matrix = xgb.DMatrix(X, label=y, weight=np.full(120, 1 / 120))
    plain = xgb.train(parameters(model, y), matrix, 6)
    expected = plain.predict(xgb.DMatrix(X))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, atol=1e-6)
    assert model.history_["spent"] == [0.0] * 5
    np.testing.assert_allclose(
        model.history_["adversarial_loss"], model.history_["loss"], rtol=1e-12
    )


@pytest.mark.parametrize(
    "options", [{}, {"balance_classes": False}, {"scale_pos_weight": 3.0}, {"reg_lambda": 0.05}]
)
@pytest.mark.parametrize("min_child_weight", [0.0, 0.03])
def test_plain_is_what_no_budget_gives(
    min_child_weight: float, options: dict[str, Any], people: People
) -> None:
    X, y, _ = people(150, seed=8)
    model = paper_budro(
        perturbation_budget=0.0,
        n_steps=7,
        max_depth=4,
        eta=0.3,
        min_child_weight=min_child_weight,
        random_state=0,
        **options,
    )
    plain = model.plain(150)
    assert isinstance(plain, GBDTClassifier)
    got, expected = plain.fit(X, y).predict_proba(X), model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(got, expected, atol=2e-5)
    assert np.ptp(got[:, 1]) > 0.1


def test_history_records_every_fair_step(people: People) -> None:
    X, y, _ = people(100)
    seen: list[tuple[int, int, dict[str, float]]] = []
    model = paper_budro(perturbation_budget=0.5, n_steps=8, eta=0.1, random_state=0).fit(
        X, y, callback=lambda step, steps, progress: seen.append((step, steps, dict(progress)))
    )
    assert {name: len(values) for name, values in model.history_.items()} == dict.fromkeys(
        HISTORY, 8
    )
    assert model.best_step_ == 8
    assert model.booster_.num_boosted_rounds() == 9
    assert [entry[:2] for entry in seen] == [(step, 8) for step in range(1, 9)]
    for step, (_, _, progress) in enumerate(seen):
        assert progress.pop("seconds") > 0
        assert progress == {name: values[step] for name, values in model.history_.items()}
    history = {name: np.array(values) for name, values in model.history_.items()}
    # f_0 is one step at rate 0.1, so its loss is still near log 2; the adversary can only raise it
    assert history["loss"][0] == pytest.approx(np.log(2), abs=0.1)
    assert (history["adversarial_loss"] > history["loss"]).all()
    np.testing.assert_allclose(history["spent"], 0.5, rtol=1e-9)
    assert (history["multiplier"] > 0).all()
    assert history["adversarial_loss"][-1] < history["adversarial_loss"][0]


@pytest.mark.parametrize("classes", [2, 3])
def test_history_is_plain_json(classes: int, people: People) -> None:
    X, y = many_classes(people, n=60)
    y = np.minimum(y, classes - 1)
    for budget in (0.0, 1e6):
        model = paper_budro(perturbation_budget=budget, n_steps=2).fit(X, y)
        text = json.dumps(model.history_, allow_nan=False)
        again = json.loads(text)
        assert sorted(again) == HISTORY
        assert again == model.history_
        assert all(isinstance(value, float) for values in again.values() for value in values)
        assert all(0 <= value <= 1 for value in again["proven"])


def test_a_column_that_the_metric_ignores_is_used_less() -> None:
    rng = np.random.default_rng(0)
    n = 400
    group = rng.integers(0, 2, n)
    merit = rng.normal(size=n)
    y = (merit + 1.5 * group + 0.3 * rng.normal(size=n) > 0.75).astype(int)
    X = np.column_stack([group, merit])
    flipped = X.copy()
    flipped[:, 0] = 1 - group
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    settings: dict[str, Any] = {"n_steps": 40, "max_depth": 3, "eta": 0.2, "random_state": 0}

    def changed(model: BudroClassifier) -> float:
        fitted = model.fit(X, y)
        assert (fitted.predict(X) == y).mean() > 0.8
        return float(np.abs(fitted.predict_proba(X) - fitted.predict_proba(flipped))[:, 1].mean())

    plain = changed(paper_budro(perturbation_budget=0.0, **settings))
    fair = changed(paper_budro(metric, perturbation_budget=0.05, **settings))
    assert plain > 0.2
    assert fair < plain / 10


def test_seed_decides_between_equal_transports_alone() -> None:
    # few distinct people: nearly all transports tie
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (120, 3)).astype(float)
    y = (X[:, 0] + rng.random(120) > 0.8).astype(int)
    fits = [
        paper_budro(perturbation_budget=0.2, n_steps=6, eta=0.3, random_state=seed)
        .fit(X, y)
        .predict_proba(X)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])
    steps = [
        paper_budro(perturbation_budget=0.2, n_steps=1, eta=0.3, random_state=seed)
        .fit(X, y)
        .history_
        for seed in (1, 2)
    ]
    assert steps[0]["adversarial_loss"] == pytest.approx(steps[1]["adversarial_loss"], rel=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 3, -1])
@pytest.mark.parametrize("classes", [2, 3])
def test_number_of_threads_does_not_matter(n_jobs: int, classes: int, people: People) -> None:
    X, y = many_classes(people, n=150)
    y = np.minimum(y, classes - 1)
    settings: dict[str, Any] = {"perturbation_budget": 0.3, "n_steps": 4, "random_state": 0}
    one = paper_budro(**settings, n_jobs=1).fit(X, y)
    many = paper_budro(**settings, n_jobs=n_jobs).fit(X, y)
    np.testing.assert_allclose(many.predict_proba(X), one.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("n_jobs", "rows", "expected"),
    [(None, 100, 1), (None, 10_000, 4), (2, 100, 2), (-1, 100, 4), (-2, 100, 3), (-9, 100, 1)],
)
def test_threads(
    n_jobs: int | None, rows: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gbdt_module, "available_cores", lambda: 4)
    assert gbdt_module.thread_count(n_jobs, rows) == expected


@pytest.mark.parametrize(
    ("scores", "patience", "taken", "best"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], 2, 8, 8),
        ([5, 4, 3, 9, 9, 9, 9, 9], 2, 3, 1),
        (
            [5, 4, 9, 8, 9, 9, 9, 9],
            2,
            5,
            3,
        ),  # an equal score is none better, and the first of them is kept
        ([5, 5, 5, 5, 5, 5, 5, 5], 1, 2, 1),
        ([1, 2, 1, 3, 1, 4, 1, 1], 2, 8, 6),
        ([5, 4, 4, 4, 4, 4, 4, 4], 100, 8, 1),
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_training_stops_when_nothing_gets_better(
    scores: list[float],
    patience: int,
    taken: int,
    best: int,
    classes: int,
    people: People,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = iter(scores)
    monkeypatch.setattr(
        budro_module._Validation, "score", lambda self, booster: float(next(script))
    )
    X, y = many_classes(people)
    y = np.minimum(y, classes - 1)
    model = paper_budro(perturbation_budget=0.3, n_steps=8, n_iter_no_change=patience).fit(X, y)
    assert {name: len(values) for name, values in model.history_.items()} == dict.fromkeys(
        [*HISTORY, "validation"], taken
    )
    assert model.history_["validation"] == scores[:taken]
    assert model.best_step_ == best
    # and the plain step
    assert model.booster_.num_boosted_rounds() == best + 1
    assert len(model.booster_.get_dump()) == (best + 1) * (1 if classes == 2 else classes)


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Rows kept for training and rows held out, of every fit."""
    seen: list[tuple[NDArray[Any], NDArray[Any]]] = []
    original = gbdt_module.hold_out

    def record(*args: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        seen.append(original(*args))
        return seen[-1]

    monkeypatch.setattr(gbdt_module, "hold_out", record)
    return seen


@pytest.mark.parametrize("classes", [2, 3])
def test_a_stopped_model_is_one_of_that_many_steps(
    classes: int, people: People, halves: list[tuple[NDArray[Any], NDArray[Any]]]
) -> None:
    """It is trained on the rows that were kept."""
    X, y = many_classes(people, n=200)
    y = np.minimum(y, classes - 1)
    # eager trees, which soon fit the kept rows better than the others
    settings: dict[str, Any] = {
        "perturbation_budget": 0.01,
        "eta": 1.0,
        "reg_lambda": 0.01,
        "random_state": 3,
    }
    stopped = paper_budro(
        n_steps=40,
        n_iter_no_change=3,
        validation_metric="log_loss",
        validation_fraction=0.25,
        **settings,
    ).fit(X, y)
    taken = len(stopped.history_["validation"])
    assert stopped.best_step_ == int(np.argmax(stopped.history_["validation"])) + 1
    assert taken == min(40, stopped.best_step_ + 3)
    assert stopped.best_step_ < 40
    kept, held = halves[0]
    plain = paper_budro(n_steps=stopped.best_step_, **settings).fit(X[kept], y[kept])
    # thresholds lie between the values of all rows of a training, so other rows may go another way
    np.testing.assert_array_equal(stopped.predict_proba(X[kept]), plain.predict_proba(X[kept]))
    for name in HISTORY:
        assert stopped.history_[name][: stopped.best_step_] == plain.history_[name]
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, held])), np.arange(200))
    assert len(held) == 50
    np.testing.assert_allclose(np.bincount(y[held]) / 50, np.bincount(y) / 200, atol=0.02)


@pytest.mark.parametrize("metric", VALIDATION_METRICS)
@pytest.mark.parametrize("classes", [2, 3])
def test_validation_scores_are_those_of_the_held_out_rows(
    metric: Any, classes: int, people: People, halves: list[tuple[NDArray[Any], NDArray[Any]]]
) -> None:
    X, y = many_classes(people, n=150)
    y = np.minimum(y, classes - 1)
    subspace = SensitiveSubspace(indicators=[0]).fit(X)
    model = paper_budro(
        subspace,
        perturbation_budget=0.3,
        n_steps=6,
        eta=0.3,
        n_iter_no_change=6,
        validation_metric=metric,
        validation_fraction=0.3,
        # the log loss is that of probabilities without the class weights' effect
        balance_classes=metric != "log_loss",
        random_state=2,
    ).fit(X, y)
    _, held = halves[0]
    assert len(model.history_["validation"]) == 6
    assert len(set(model.history_["validation"])) > 1
    for step in range(model.best_step_):
        shares = model.booster_[: step + 2].predict(xgb.DMatrix(X[held])).astype(float)
        if classes == 2:
            shares = np.stack([1 - shares, shares], axis=1)
        shares /= shares.sum(axis=1, keepdims=True)
        guess = shares.argmax(axis=1)
        if metric == "adversarial_loss":
            points = subspace.project(X[held])
            expected = -largest_loss(
                cdist(points, points, "sqeuclidean"), -np.log(shares[:, y[held]]), 0.3
            )
        else:
            expected = {
                "balanced_accuracy": balanced_accuracy_score(y[held], guess),
                "accuracy": accuracy_score(y[held], guess),
                "log_loss": -log_loss(y[held], shares, labels=np.arange(classes)),
            }[metric]
        assert model.history_["validation"][step] == pytest.approx(expected, rel=1e-5)


def test_held_out_rows_follow_the_seed(
    people: People, halves: list[tuple[NDArray[Any], NDArray[Any]]]
) -> None:
    X, y, _ = people(100)
    for seed in (1, 1, 2):
        paper_budro(n_steps=1, n_iter_no_change=1, random_state=seed).fit(X, y)
    np.testing.assert_array_equal(halves[0][1], halves[1][1])
    assert not np.array_equal(halves[0][1], halves[2][1])
    assert len(halves[0][1]) == 10


@pytest.mark.parametrize("classes", [2, 3])
def test_degenerate_tables_train(classes: int) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(30) % classes
    tables = {
        "constant feature": (np.column_stack([labels, np.ones(30), rng.normal(size=30)]), labels),
        "identical rows": (np.tile([0.1, 7.3, -2.7], (30, 1)), labels),
        "few distinct rows": (rng.integers(0, 2, (30, 3)) * 1.0, labels),
        "one row of each class": (rng.normal(size=(classes, 3)), np.arange(classes)),
        "one row of the last class": (
            rng.normal(size=(30, 3)),
            np.where(np.arange(30) == 29, classes - 1, labels % (classes - 1)),
        ),
    }
    for name, (X, y) in tables.items():
        subspace = SensitiveSubspace(indicators=[0]).fit(X)
        for metric, budget in ((None, 0.2), (subspace, 0.0), (subspace, 0.2)):
            model = paper_budro(metric, perturbation_budget=budget, n_steps=2).fit(X, y)
            shares = model.predict_proba(X)
            assert shares.shape == (len(y), classes), name
            assert np.isfinite(shares).all(), name
            np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
            json.dumps(model.history_, allow_nan=False)
            if name == "identical rows":
                assert model.history_["spent"] == [0.0, 0.0]
                assert np.ptp(shares, axis=0).max() == 0.0


def test_labels_of_three_classes_come_back_and_survive_saving(
    people: People, tmp_path: Path
) -> None:
    X, y = many_classes(people)
    names = np.array(["late", "never", "soon"])
    model = paper_budro(perturbation_budget=0.2, n_steps=5, eta=0.5).fit(X, names[y])
    np.testing.assert_array_equal(model.classes_, names)
    guess = model.predict(X)
    assert (guess == names[y]).mean() > 0.7
    np.testing.assert_array_equal(guess, names[model.predict_proba(X).argmax(axis=1)])
    model.save(tmp_path)
    loaded = BudroClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), guess)


def test_scale_pos_weight_is_what_balancing_does_by_itself(people: People) -> None:
    X, y, _ = people(120, seed=9)
    ratio = float((y == 0).sum() / (y == 1).sum())
    assert abs(ratio - 1) > 0.1
    settings: dict[str, Any] = {"perturbation_budget": 0.2, "random_state": 0, **SETTINGS}

    def shares(**options: Any) -> NDArray[Any]:
        return paper_budro(**settings, **options).fit(X, y).predict_proba(X)

    balanced = shares()
    np.testing.assert_array_equal(shares(balance_classes=False, scale_pos_weight=ratio), balanced)
    # an explicit weight replaces the balancing one
    np.testing.assert_array_equal(shares(scale_pos_weight=1.0), shares(balance_classes=False))
    assert not np.allclose(shares(balance_classes=False), balanced, atol=1e-3)
    more = shares(scale_pos_weight=10.0)
    assert more[:, 1].mean() > balanced[:, 1].mean()


@pytest.mark.parametrize("absent", [pytest.param(False, marks=pytest.mark.long), True])
def test_missing_numbers_have_a_branch_and_the_mean(absent: bool, recorded: Recorded) -> None:
    """The mean is their coordinate."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 3))
    y = ((X[:, 0] > 0) ^ (rng.random(300) < 0.1)).astype(int)
    X[rng.random((300, 3)) < 0.2] = np.nan
    # that a number is missing tells the label
    X[y == 1, 1] = np.nan
    if absent:
        X[:, 2] = np.nan
    model = paper_budro(SensitiveSubspace(indicators=[2]), perturbation_budget=1e-3, **SETTINGS)
    model.set_params(reg_lambda=1e-3, min_child_weight=1e-3).fit(X, y)
    shares = model.predict_proba(X)
    assert np.isfinite(shares).all()
    assert (shares.argmax(axis=1) == y).mean() > 0.8
    np.testing.assert_array_equal(clone(model).fit(X, y).predict_proba(X), shares)
    # the adversary's problem is that of the rows with the means filled in
    points = np.where(np.isnan(X[:, :2]), np.nanmean(X[:, :2], axis=0), X[:, :2])
    losses, plan = recorded[0]
    best = largest_loss(cdist(points, points, "sqeuclidean"), losses[y].T, 1e-3)
    assert plan.value == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_scale_pos_weight_must_be_positive_and_finite(value: float, people: People) -> None:
    X, y, _ = people(30)
    with pytest.raises(ValueError, match="scale_pos_weight must be positive and finite"):
        paper_budro(scale_pos_weight=value, n_steps=1).fit(X, y)


def test_scale_pos_weight_is_for_two_classes(people: People) -> None:
    X, y = many_classes(people, n=60)
    with pytest.raises(ValueError, match="scale_pos_weight is for two classes"):
        paper_budro(scale_pos_weight=2.0, n_steps=1).fit(X, y)


@pytest.mark.parametrize("budget", [-0.1, float("nan"), float("inf")])
def test_budget_must_be_a_number_of_at_least_zero(budget: float, people: People) -> None:
    X, y, _ = people(30)
    with pytest.raises(ValueError, match="perturbation_budget must be finite and not negative"):
        paper_budro(perturbation_budget=budget, n_steps=1).fit(X, y)


def test_metric_must_fit_the_rows(people: People) -> None:
    X, y, _ = people(30)
    metric = SensitiveSubspace(indicators=[0]).fit(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="X has 5 features, but the metric was fitted on 3"):
        paper_budro(metric, n_steps=1).fit(X, y)


@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_metric_may_not_make_everybody_alike(shift: float, people: People) -> None:
    X, y, _ = people(30)
    X = X + np.float32(shift)
    metric = SensitiveSubspace(indicators=[0, 1, 2, 3, 4]).fit(X)
    with pytest.raises(ValueError, match="metric puts all people at distance 0"):
        paper_budro(metric, n_steps=1).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_steps": 0}, "n_steps must be a whole number, at least 1"),
        ({"neighbours": 0}, "neighbours must be a whole number, at least 1"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be a whole number, at least 1 or None"),
        (
            {"n_iter_no_change": 1, "validation_fraction": 0.0},
            r"validation_fraction must be in \(0, 1\)",
        ),
        (
            {"n_iter_no_change": 1, "validation_fraction": 1.0},
            r"validation_fraction must be in \(0, 1\)",
        ),
        (
            {"n_iter_no_change": 1, "validation_fraction": float("nan")},
            r"validation_fraction must be in \(0, 1\)",
        ),
        (
            {"n_iter_no_change": 1, "validation_fraction": 0.01},
            "validation_fraction 0.01 of 30 rows cannot hold every class on both sides",
        ),
        (
            {"n_iter_no_change": 1, "validation_metric": "auc"},
            "validation_metric must be one of balanced_accuracy",
        ),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], message: str, people: People) -> None:
    X, y, _ = people(30)
    with pytest.raises(ValueError, match=message):
        paper_budro(**{"n_steps": 1, **options}).fit(X, y)


SCRIPT = """
import sys
import numpy as np
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.methods.budro import BudroClassifier
rng = np.random.default_rng(7)
X = rng.integers(0, 3, (150, 4)).astype(np.float32)
y = (X[:, 0] + X[:, 1] + rng.random(150) > 2.5).astype(int)
metric = SensitiveSubspace(indicators=[3]).fit(X)
model = BudroClassifier(metric, perturbation_budget=0.3, n_steps=8, eta=0.2, random_state=5)
model.fit(X, y).save(sys.argv[1])
"""


@pytest.mark.long
def test_two_processes_write_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "here", tmp_path / "there"]
    monkeypatch.setattr(sys, "argv", ["script", str(folders[0])])
    exec(compile(SCRIPT, "script", "exec"), {})
    subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folders[1])],
        check=True,
        cwd=Path(budro_module.__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )
    written = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert sorted(written[0]) == ["booster.ubj", "model.json"]
    assert written[0] == written[1]
