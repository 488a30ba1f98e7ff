"""Networks for numbers, and a loss and an output distance of one's own."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_regressor
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.auditor.worst_case_search import (
    LogitDistance,
    LogLoss,
    RowObjective,
    logit_distance,
)
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.methods.networks import (
    NeuralNetworkClassifier,
    SenSeIClassifier,
    SenSRClassifier,
)
from evenhand.fairlib.methods.networks.network_training import (
    Batch,
    MeanLoss,
    build_network,
    log_loss,
    squared_error,
)
from evenhand.fairlib.methods.networks.objectives import LogitPairing, Robustness, SetInvariance
from evenhand.fairlib.methods.networks.regression import (
    CLPRegressor,
    NeuralNetworkRegressor,
    SenSeIRegressor,
    SenSRRegressor,
)
from tests.fairlib import estimator_checks as checks

SMALL: dict[str, Any] = {"hidden": (16,), "learning_rate": 0.01, "n_steps": 300, "random_state": 0}
SEARCH = SimpleNamespace(
    bound_weight=0.0,
    multiplier_start=2.0,
    multiplier_update="absolute",
    multiplier_rate=0.5,
    subspace_steps=4,
    full_steps=0,
    full_rate=0.5,
    tolerance=-1.0,
    random_state=5,
)


def pinball(outputs: Tensor, targets: Tensor) -> Tensor:
    """Quantile loss at .8."""
    rest = targets - outputs[:, 0]
    return torch.maximum(0.8 * rest, -0.2 * rest)


def probability_distance(first: Tensor, second: Tensor) -> Tensor:
    return (first.softmax(-1) - second.softmax(-1)).abs().sum(-1)


def biased_numbers(n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """The target depends on the protected first column, far from 0 and in large units."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 3)).astype(np.float32)
    X[:, 0] = np.sign(X[:, 0])
    return X, 5000.0 + 100.0 * (X[:, 0] + 2 * X[:, 1] + 0.1 * rng.normal(size=n))


def turned(X: np.ndarray) -> np.ndarray:
    other = X.copy()
    other[:, 0] *= -1
    return other


def small_batch() -> tuple[nn.Module, Batch, SensitiveSubspace]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(12, 3, generator=generator)
    network = build_network(3, (6,), 1, generator)
    batch = Batch(x, torch.randn(12, generator=generator), torch.arange(12), None, squared_error)
    return network, batch, SensitiveSubspace(indicators=[0]).fit(x.double().numpy())


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_any_function_is_searched_as_its_own_gradient_says(lead: tuple[int, ...]) -> None:
    logits = torch.randn(
        *lead, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    labels, own = torch.arange(5) % 3, torch.zeros(5, 3, dtype=torch.float64)
    pairs: list[tuple[Any, Any]] = [
        (RowObjective(log_loss, labels), LogLoss(labels)),
        (RowObjective(logit_distance, own), LogitDistance(own)),
    ]
    for found, expected in pairs:
        torch.testing.assert_close(found.value(logits), expected.value(logits))
        torch.testing.assert_close(
            found.gradient(logits), expected.gradient(logits).to(logits.dtype)
        )
    goal = RowObjective(probability_distance, own)
    step = torch.zeros_like(logits)
    step[..., 1] = 1e-6
    slope = (goal.value(logits + step) - goal.value(logits - step)) / 2e-6
    torch.testing.assert_close(goal.gradient(logits)[..., 1], slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("row_loss", [squared_error, pinball])
@pytest.mark.parametrize("kind", ["plain", "sensr", "sensei", "clp"])
def test_training_descends_on_the_loss_and_the_distance_given(kind: str, row_loss: Any) -> None:
    """Gradients beside central differences of the formula, written anew, at the points that were
    found.
    """
    network, batch, metric = small_batch()
    batch = Batch(batch.x, batch.labels, batch.rows, None, row_loss)
    copied = -2 * batch.x
    objective: Any = {
        "plain": MeanLoss,
        "sensr": lambda: Robustness(SEARCH, metric, 0.02),  # type: ignore[arg-type]
        "sensei": lambda: SetInvariance(SEARCH, metric, 0.02, rho=7.0),  # type: ignore[arg-type]
        "clp": lambda: LogitPairing(batch.x.numpy(), [copied.numpy()], 4.0, 0, cubes),
    }[kind]()
    objective.distance = cubes
    seen: list[Tensor] = []
    hook = network.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].detach()))
    loss, _ = objective(network, batch)
    hook.remove()
    loss.backward()
    points = copied if kind == "clp" else seen[-1][-12:]
    if kind in ("sensr", "sensei"):
        # only the protected column is free
        assert (points != batch.x).any(dim=0).tolist() == [True, False, False]

    def formula(net: nn.Module) -> Tensor:
        own, moved = batch.x.double(), points.double()
        outputs = net(moved if kind == "sensr" else own)[:, 0]
        rest = batch.labels - outputs
        each = (
            rest**2 if row_loss is squared_error else torch.where(rest > 0, 0.8 * rest, -0.2 * rest)
        )
        weight = {"sensei": 7.0, "clp": 4.0}.get(kind, 0.0)
        return each.mean() + weight * ((net(own) - net(moved))[:, 0].abs() ** 3).mean()

    exact = copy.deepcopy(network).double()
    assert float(loss.detach()) == pytest.approx(float(formula(exact).detach()), rel=1e-5)
    for parameter, entry in zip(network.parameters(), exact.parameters(), strict=True):
        for index in range(parameter.numel()):
            values = []
            for sign in (1.0, -1.0):
                entry.data.view(-1)[index] += sign * 1e-6
                values.append(float(formula(exact).detach()))
                entry.data.view(-1)[index] -= sign * 1e-6
            slope = (values[0] - values[1]) / 2e-6
            assert parameter.grad is not None
            assert float(parameter.grad.view(-1)[index]) == pytest.approx(slope, rel=1e-3, abs=1e-4)


def cubes(first: Tensor, second: Tensor) -> Tensor:
    return (first - second).abs().pow(3).mean(-1)


@pytest.mark.parametrize("kind", ["plain", "sensr", "sensei", "clp"])
def test_a_row_of_weight_two_is_two_rows(kind: str) -> None:
    _, batch, metric = small_batch()
    # of a linear network the worst case is a corner, which draws of random numbers do not change
    network = build_network(3, (), 1, torch.Generator().manual_seed(2))
    counts = torch.tensor([2, 1, 3] + [1] * 9)
    twice = torch.arange(12).repeat_interleave(counts)
    weighted = Batch(batch.x, batch.labels, batch.rows, counts * 12 / counts.sum(), squared_error)
    repeated = Batch(batch.x[twice], batch.labels[twice], twice, None, squared_error)
    slopes = []
    for rows in (weighted, repeated):
        objective: Any = {
            "plain": MeanLoss,
            "sensr": lambda: Robustness(SEARCH, metric, 0.02),  # type: ignore[arg-type]
            "sensei": lambda: SetInvariance(SEARCH, metric, 0.02, rho=7.0),  # type: ignore[arg-type]
            "clp": lambda: LogitPairing(batch.x.numpy(), [-2 * batch.x.numpy()], 4.0, 0),
        }[kind]()
        network.zero_grad()
        loss, _ = objective(network, rows)
        loss.backward()
        criterion = objective.criterion(network, rows, torch.zeros(1))
        slopes.append((float(loss.detach()), criterion, network[0].weight.grad.clone()))
    assert slopes[0][:2] == pytest.approx(slopes[1][:2], rel=1e-5)
    torch.testing.assert_close(slopes[0][2], slopes[1][2], rtol=1e-4, atol=1e-5)


def test_numbers_are_predicted_in_their_own_units(tmp_path: Path) -> None:
    X, y = biased_numbers()
    model = NeuralNetworkRegressor(**SMALL).fit(X, y)
    assert is_regressor(model)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "classes_")
    assert model.validation_ is None
    assert model.score(X, y) > 0.98
    assert model.predict(X).dtype == np.float64
    assert model.target_mean_ == pytest.approx(y.mean())
    model.save(tmp_path)
    loaded = NeuralNetworkRegressor.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert set(tmp_path.iterdir()) >= {tmp_path / "target.json", tmp_path / "network.safetensors"}
    # a change of units changes the predictions' units alone, but for rounding
    other = clone(model).fit(X, 0.01 * y - 3.0)
    np.testing.assert_allclose(
        other.predict(X), 0.01 * model.predict(X) - 3.0, rtol=1e-4, atol=1e-4
    )


@pytest.mark.long
@pytest.mark.parametrize("method", [SenSeIRegressor, SenSRRegressor, CLPRegressor])
def test_predictions_hardly_change_with_what_should_not_count(method: Any) -> None:
    X, y = biased_numbers()
    given = {"counterfactuals": [turned(X)]} if method is CLPRegressor else {}
    metric = {} if method is CLPRegressor else {"metric": SensitiveSubspace(indicators=[0]).fit(X)}
    rho = {} if method is SenSRRegressor else {"rho": 30.0}
    model = method(**SMALL, **metric, **rho).fit(X, y, **given)
    plain = NeuralNetworkRegressor(**SMALL).fit(X, y)
    moved = [np.abs(each.predict(X) - each.predict(turned(X))).mean() for each in (model, plain)]
    assert moved[1] > 180
    assert moved[0] < 0.1 * moved[1]
    # the other column tells 2^2 / (2^2 + 3) of the variance
    assert 0.4 < model.score(X, y) < 0.65
    without = {} if method is SenSRRegressor else {"rho": 0.0}
    if without:
        same = method(**{**SMALL, **metric, **without}).fit(X, y)
        np.testing.assert_array_equal(same.predict(X), plain.predict(X))


def test_a_loss_of_ones_own_moves_the_predictions_to_its_optimum() -> None:
    """The quantile loss at .8 has a fifth of the targets above the prediction."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(800, 2)), rng.exponential(size=800)
    given = {**SMALL, "n_iter_no_change": None, "n_steps": 600}
    above = (y > NeuralNetworkRegressor(loss=pinball, **given).fit(X, y).predict(X)).mean()
    assert above == pytest.approx(0.2, abs=0.04)


def test_a_classifier_takes_a_loss_and_a_distance() -> None:
    X, y = biased_numbers(300)
    labels = (y > np.median(y)).astype(int)

    def doubled(logits: Tensor, codes: Tensor) -> Tensor:
        return 2 * functional.cross_entropy(logits, codes, reduction="none")

    given = {**SMALL, "n_steps": 100, "n_iter_no_change": None}
    own = NeuralNetworkClassifier(loss=doubled, **given).fit(X, labels)
    plain = NeuralNetworkClassifier(**given).fit(X, labels)
    assert own.history_["loss"][0] == pytest.approx(2 * plain.history_["loss"][0], rel=0.05)
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    model = SenSeIClassifier(metric, output_distance=probability_distance, rho=30.0, **given).fit(
        X, labels
    )
    assert max(model.history_["output_distance"]) <= 2.0
    changed = np.abs(model.predict_proba(X) - model.predict_proba(turned(X))).max(axis=1)
    assert (
        changed.mean()
        < 0.3 * np.abs(plain.predict_proba(X) - plain.predict_proba(turned(X))).max(1).mean()
    )
    # the search goes by the loss given: of a constant one nobody is moved
    still = SenSRClassifier(metric, loss=lambda logits, codes: 0.0 * logits.sum(-1), **given).fit(
        X, labels
    )
    assert max(still.history_["spent"]) == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: NeuralNetworkRegressor(loss=lambda outputs, y: outputs.sum(), **SMALL),
            "one value per row",
        ),
        (
            lambda: SenSeIRegressor(output_distance=cubes, bound_weight=1.0, **SMALL),
            "leave output_distance None",
        ),
    ],
)
def test_a_bad_loss_is_named_in_one_line(make: Any, message: str) -> None:
    X, y = biased_numbers(100)
    with pytest.raises(ValueError, match=message) as error:
        make().fit(X, y, sensitive_features={"first": X[:, 0]})
    assert "\n" not in str(error.value)


def test_targets_that_are_no_numbers_or_too_few_are_refused() -> None:
    X, y = biased_numbers(100)
    with pytest.raises(ValueError, match="NaN"):
        NeuralNetworkRegressor(**SMALL).fit(X, np.where(np.arange(100) == 3, np.nan, y))
    with pytest.raises(ValueError, match="one sample is too few"):
        NeuralNetworkRegressor(**SMALL).fit(X[:1], y[:1])
    constant = NeuralNetworkRegressor(**{**SMALL, "n_steps": 50}).fit(X, np.full(100, 7.0))
    assert constant.target_scale_ == 1.0
    np.testing.assert_allclose(constant.predict(X), 7.0, atol=1.0)


@pytest.mark.long
@parametrize_with_checks(checks.REGRESSION)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    checks.run_check(estimator, check)


def test_augmentation_adds_the_loss_at_the_copy() -> None:
    """With one copy of each row, loss and criterion grow by exactly the loss there."""
    network, batch, _ = small_batch()
    copied = -2 * batch.x
    pairing = LogitPairing(batch.x.numpy(), [copied.numpy()], 0.0, 0, augmentation=3.0)
    with torch.no_grad():
        own, there = (
            float(squared_error(network(x), batch.labels).mean()) for x in (batch.x, copied)
        )
    loss, _ = pairing(network, batch)
    assert float(loss.detach()) == pytest.approx(own + 3.0 * there, rel=1e-5)
    assert pairing.criterion(network, batch, torch.zeros(1)) == pytest.approx(
        own + 3.0 * there, rel=1e-5
    )


def test_augmentation_alone_makes_answers_alike() -> None:
    X, y = biased_numbers()
    plain = NeuralNetworkRegressor(**SMALL).fit(X, y)
    model = CLPRegressor(rho=0.0, augmentation=1.0, **SMALL).fit(X, y, counterfactuals=[turned(X)])
    moved = [np.abs(each.predict(X) - each.predict(turned(X))).mean() for each in (model, plain)]
    assert moved[0] < 0.15 * moved[1]
