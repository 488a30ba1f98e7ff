from __future__ import annotations

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

from fairlib.distances import SensitiveSubspace
from fairlib.methods import budro as budro_module
from fairlib.methods.budro import BudroClassifier
from fairlib.transport import TransportPlan

People = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]


def bisected_multiplier(gains: NDArray[Any], costs: NDArray[Any], budget: float) -> float:
    """Algorithm 7, step 2, in the plainest way: halve until the sign change of (B.15) is pinned down."""

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
    return {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "base_score": 0.5,
        "max_depth": model.max_depth,
        "eta": model.eta,
        "lambda": model.reg_lambda,
        "min_child_weight": model.min_child_weight,
        "scale_pos_weight": (y == 0).sum() / (y == 1).sum(),
        "nthread": 1,
    }


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[TransportPlan]:
    """Every plan that training asks for."""
    plans: list[TransportPlan] = []
    original = budro_module.solve_dual

    def record(*args: Any, **kwargs: Any) -> TransportPlan:
        plans.append(original(*args, **kwargs))
        return plans[-1]

    monkeypatch.setattr(budro_module, "solve_dual", record)
    return plans


@pytest.mark.parametrize("budget", [0.05, 0.6, 50.0])
def test_same_as_rebuilding_everything_at_every_step(
    budget: float, people: People, recorded: list[TransportPlan]
) -> None:
    X, y, _ = people(90, seed=4)
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    model = BudroClassifier(
        metric,
        perturbation_budget=budget,
        n_steps=6,
        max_depth=3,
        eta=0.3,
        min_child_weight=0.01,
        random_state=1,
    ).fit(X, y)
    assert len(recorded) == 6

    n = len(y)
    projected = np.delete(X.astype(float), 0, axis=1)
    costs = np.square(projected[:, None] - projected[None]).sum(axis=2)
    doubled = np.concatenate([X, X])
    labels = np.repeat([0.0, 1.0], n)
    weights = np.concatenate([(y == 0) / n, (y == 1) / n])
    naive: xgb.Booster | None = None
    for step in range(7):
        # bins without weights: people whom no mass reaches would else lose theirs, and thresholds shift
        matrix = xgb.QuantileDMatrix(doubled, label=labels)
        matrix.set_weight(weights)
        naive = xgb.train(parameters(model, y), matrix, 1, xgb_model=naive)
        if step == 6:
            break
        margin = naive.predict(xgb.DMatrix(X), output_margin=True).astype(float)
        losses = np.stack([np.log1p(np.exp(margin)), np.log1p(np.exp(-margin))])
        gains = losses[y].T  # R_ij: loss at i under the label of j
        eta = bisected_multiplier(gains, costs, budget)
        plan = recorded[step]
        assert plan.multiplier == pytest.approx(eta, rel=1e-4, abs=1e-7)
        worth = gains - eta * costs
        assert (worth[plan.target, np.arange(n)] >= worth.max(axis=0) - 1e-6).all()
        # Pi y_0 and Pi y_1, with mass 1/n at (target of j, j)
        transport = np.zeros((n, n))
        transport[plan.target, np.arange(n)] = 1 / n
        weights = np.concatenate([transport @ (y == 0), transport @ (y == 1)])
    assert naive is not None
    got = model.booster_.predict(xgb.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(got, naive.predict(xgb.DMatrix(X), output_margin=True), atol=1e-5)
    assert np.ptp(got) > 0.3


def test_no_budget_is_plain_boosting_on_weighted_rows(people: People) -> None:
    X, y, _ = people(120, seed=2)
    model = BudroClassifier(perturbation_budget=0.0, n_steps=5, max_depth=3, eta=0.3).fit(X, y)
    matrix = xgb.DMatrix(X, label=y, weight=np.full(120, 1 / 120))
    plain = xgb.train(parameters(model, y), matrix, 6)
    expected = plain.predict(xgb.DMatrix(X))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, atol=1e-6)
    assert model.history_["spent"] == [0.0] * 5
    np.testing.assert_allclose(model.history_["adversarial_loss"], model.history_["loss"], rtol=1e-12)


def test_history_records_every_fair_step(people: People) -> None:
    X, y, _ = people(100)
    seen: list[tuple[int, int, dict[str, float]]] = []
    model = BudroClassifier(perturbation_budget=0.5, n_steps=8, eta=0.1, random_state=0).fit(
        X, y, callback=lambda step, steps, progress: seen.append((step, steps, dict(progress)))
    )
    assert {name: len(values) for name, values in model.history_.items()} == {
        "multiplier": 8,
        "spent": 8,
        "adversarial_loss": 8,
        "loss": 8,
    }
    assert [entry[:2] for entry in seen] == [(step, 8) for step in range(1, 9)]
    for step, (_, _, progress) in enumerate(seen):
        assert progress == {name: values[step] for name, values in model.history_.items()}
    history = {name: np.array(values) for name, values in model.history_.items()}
    # f_0 is one step at rate 0.1, so its loss is still near log 2; the adversary can only raise it
    assert history["loss"][0] == pytest.approx(np.log(2), abs=0.1)
    assert (history["adversarial_loss"] > history["loss"]).all()
    # whole columns move: the budget is met up to the columns that tie, and never left unused
    np.testing.assert_allclose(history["spent"], 0.5, rtol=0.5)
    assert history["adversarial_loss"][-1] < history["adversarial_loss"][0]


def test_a_metric_that_ignores_a_column_makes_the_model_use_it_less(people: People) -> None:
    rng = np.random.default_rng(0)
    n = 400
    group = rng.integers(0, 2, n)
    merit = rng.normal(size=n)
    y = (merit + 1.5 * group + 0.3 * rng.normal(size=n) > 0.75).astype(int)
    X = np.column_stack([group, merit])
    flipped = X.copy()
    flipped[:, 0] = 1 - group
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    settings = {"n_steps": 40, "max_depth": 3, "eta": 0.2, "random_state": 0}

    def changed(model: BudroClassifier) -> float:
        fitted = model.fit(X, y)
        assert (fitted.predict(X) == y).mean() > 0.8
        return float(np.abs(fitted.predict_proba(X) - fitted.predict_proba(flipped))[:, 1].mean())

    plain = changed(BudroClassifier(perturbation_budget=0.0, **settings))
    fair = changed(BudroClassifier(metric, perturbation_budget=0.05, **settings))
    assert plain > 0.2
    assert fair < plain / 10


def test_seed_decides_between_equal_transports_alone() -> None:
    # few distinct people: nearly all transports tie
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (120, 3)).astype(float)
    y = (X[:, 0] + rng.random(120) > 0.8).astype(int)
    fits = [
        BudroClassifier(perturbation_budget=0.2, n_steps=6, eta=0.3, random_state=seed)
        .fit(X, y)
        .predict_proba(X)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


@pytest.mark.parametrize("n_jobs", [1, 3, -1])
def test_number_of_threads_does_not_matter(n_jobs: int, people: People) -> None:
    X, y, _ = people(150)
    settings = {"perturbation_budget": 0.3, "n_steps": 4, "random_state": 0}
    one = BudroClassifier(**settings, n_jobs=1).fit(X, y)
    many = BudroClassifier(**settings, n_jobs=n_jobs).fit(X, y)
    np.testing.assert_allclose(many.predict_proba(X), one.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("n_jobs", "rows", "expected"),
    [(None, 100, 1), (None, 10_000, 4), (2, 100, 2), (-1, 100, 4), (-2, 100, 3), (-9, 100, 1)],
)
def test_threads(n_jobs: int | None, rows: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budro_module.os, "sched_getaffinity", lambda _: range(4), raising=False)
    assert budro_module._threads(n_jobs, rows) == expected


@pytest.mark.parametrize("budget", [-0.1, float("nan"), float("inf")])
def test_budget_must_be_a_number_of_at_least_zero(budget: float, people: People) -> None:
    X, y, _ = people(30)
    with pytest.raises(ValueError, match="perturbation_budget must be finite and at least 0"):
        BudroClassifier(perturbation_budget=budget, n_steps=1).fit(X, y)


def test_metric_must_fit_the_rows(people: People) -> None:
    X, y, _ = people(30)
    metric = SensitiveSubspace(indicators=[0]).fit(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="X has 5 features, but this metric was fitted on 3"):
        BudroClassifier(metric, n_steps=1).fit(X, y)


SCRIPT = """
import sys
import numpy as np
from fairlib.distances import SensitiveSubspace
from fairlib.methods.budro import BudroClassifier
rng = np.random.default_rng(7)
X = rng.integers(0, 3, (150, 4)).astype(np.float32)
y = (X[:, 0] + X[:, 1] + rng.random(150) > 2.5).astype(int)
metric = SensitiveSubspace(indicators=[3]).fit(X)
model = BudroClassifier(metric, perturbation_budget=0.3, n_steps=8, eta=0.2, random_state=5)
model.fit(X, y).save(sys.argv[1])
"""


def test_two_processes_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
