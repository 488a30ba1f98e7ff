"""SenSeI, SenSR and counterfactual logit pairing, by hand and against plain training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.auditor.differentiable_model import as_differentiable
from evenhand.fairlib.auditor.worst_case_search import Auditor, LogitDistance, LogLoss
from evenhand.fairlib.distances import LearnedDirection, SensitiveSubspace
from evenhand.fairlib.methods import load_model
from evenhand.fairlib.methods.checkpoint import Checkpoint
from evenhand.fairlib.methods.networks import (
    CLPClassifier,
    NeuralNetworkClassifier,
    SenSeIClassifier,
    SenSRClassifier,
)
from evenhand.fairlib.methods.networks.network_training import Batch, build_network
from evenhand.fairlib.methods.networks.objectives import (
    LogitPairing,
    Robustness,
    SetInvariance,
    next_multiplier,
    next_relative_multiplier,
)

People = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]
# All steps, on all rows.
SMALL: dict[str, Any] = {
    "hidden": (8,),
    "n_steps": 30,
    "batch_size": 16,
    "n_iter_no_change": None,
    "random_state": 3,
}
METHODS = [NeuralNetworkClassifier, SenSeIClassifier, SenSRClassifier, CLPClassifier]
WITH_METRIC = [SenSeIClassifier, SenSRClassifier]
# Parameters of the search and of the multiplier, as an estimator has them.
SEARCH = SimpleNamespace(
    bound_weight=0.0,
    multiplier_start=2.0,
    multiplier_update="absolute",
    multiplier_rate=0.5,
    subspace_steps=4,
    full_steps=3,
    full_rate=0.5,
    tolerance=-1.0,
    random_state=5,
)


def first_column(X: NDArray[Any]) -> SensitiveSubspace:
    return SensitiveSubspace(indicators=[0]).fit(X)


def flipped(X: NDArray[Any]) -> NDArray[Any]:
    """Everyone with the other value of the first column."""
    other = X.copy()
    other[:, 0] = 1 - other[:, 0]
    return other


def train(method: Any, X: NDArray[Any], y: NDArray[Any], **arguments: Any) -> Any:
    """Fit any of the methods with the first column as what should not matter."""
    options = {**SMALL, **arguments}
    if method in WITH_METRIC:
        options.setdefault("metric", first_column(X))
    extra = {"counterfactuals": [flipped(X)]} if method is CLPClassifier else {}
    return method(**options).fit(X, y, **extra)


def weights(model: Any) -> dict[str, Tensor]:
    found: dict[str, Tensor] = model.network_.state_dict()
    return found


def same_weights(first: Any, second: Any) -> bool:
    left, right = weights(first), weights(second)
    return left.keys() == right.keys() and all(
        torch.equal(left[name], right[name]) for name in left
    )


def biased(n: int = 400, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """A table whose labels depend on the first column as much as on the second."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[:, 0] = rng.integers(0, 2, n)
    y = (X[:, 0] - 0.5 + 0.7 * X[:, 1] + 0.2 * rng.normal(size=n) > 0).astype(int)
    return X, y


# --- no weight on fairness, and the multiplier ---


@pytest.mark.parametrize(("method", "classes"), [(SenSeIClassifier, 2), (CLPClassifier, 3)])
def test_without_weight_on_fairness_training_is_plain_to_the_bit(
    method: Any, classes: int, people: People
) -> None:
    X, y, _ = people(80)
    y = y + (classes == 3) * (X[:, 3] > 0.5)
    plain = train(NeuralNetworkClassifier, X, y)
    assert same_weights(train(method, X, y, rho=0.0), plain)
    assert train(method, X, y, rho=0.0).history_ == plain.history_
    assert not same_weights(train(method, X, y, rho=0.5), plain)


def test_pairing_needs_no_counterfactuals_without_weight(people: People) -> None:
    X, y, _ = people(80)
    model = CLPClassifier(rho=0.0, **SMALL).fit(X, y)
    assert same_weights(model, train(NeuralNetworkClassifier, X, y))


def test_the_multiplier_follows_the_budget_and_is_not_negative() -> None:
    # 1 - 0.5 (0.2 - 1) = 1.4; 1.4 - 0.5 (0.2 - 0.2) = 1.4; 1.4 - 0.5 (0.2 - 0) = 1.3; then to the
    # floor
    value = 1.0
    for spent, expected in [(1.0, 1.4), (0.2, 1.4), (0.0, 1.3)]:
        value = next_multiplier(value, rate=0.5, budget=0.2, distance=spent)
        assert value == pytest.approx(expected)
    steep = next_multiplier(0.05, rate=1.0, budget=0.2, distance=0.1)
    assert steep == 0.0
    assert next_multiplier(steep, rate=1.0, budget=0.2, distance=0.5) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("method", "options", "scale"),
    [(SenSeIClassifier, {"rho": 3.0}, 3.0), (SenSRClassifier, {}, 1.0)],
)
def test_training_updates_the_multiplier_as_algorithm_1_does(
    method: Any, options: dict[str, float], scale: float, people: People
) -> None:
    X, y, _ = people(80)
    options = {
        **options,
        "perturbation_budget": 0.02,
        "multiplier_start": 0.3,
        "multiplier_rate": 0.4,
    }
    one, two = (
        train(method, X, y, multiplier_update="absolute", **{**options, "n_steps": steps}).history_
        for steps in (1, 2)
    )
    assert one["multiplier"] == [0.3]
    second = max(0.0, 0.3 - scale * 0.4 * (0.02 - one["spent"][0]))
    assert second != 0.3
    assert two["multiplier"] == [pytest.approx((0.3 + second) / 2)]


# --- one mini-batch by hand ---


def mini_batch(classes: int) -> tuple[nn.Sequential, Batch, SensitiveSubspace]:
    generator = torch.Generator().manual_seed(classes)
    x = torch.randn(12, 3, generator=generator)
    x[:, 0] = x[:, 0].sign()
    network = build_network(3, (6,), classes, generator)
    batch = Batch(x, torch.arange(12) % classes, torch.arange(12))
    return network, batch, first_column(x.double().numpy())


def worst_points(
    network: nn.Sequential, batch: Batch, metric: SensitiveSubspace, goal: Any
) -> Tensor:
    auditor = Auditor(metric, subspace_steps=4, full_steps=3, full_rate=0.5, tolerance=-1.0)
    generator = Robustness(SEARCH, metric, 0.02).generator
    return auditor.search(as_differentiable(network), batch.x, goal, 2.0, generator).points


def check_gradient(network: nn.Module, formula: Callable[[nn.Module], Tensor]) -> None:
    """Compare the parameters' gradients with finite differences of a formula, in float64."""
    double = copy.deepcopy(network).double()
    for (name, parameter), exact in zip(
        network.named_parameters(), double.parameters(), strict=True
    ):
        assert parameter.grad is not None
        for index in range(0, parameter.numel(), 3):
            entry = exact.data.view(-1)
            kept = float(entry[index])
            values = []
            for sign in (1.0, -1.0):
                entry[index] = kept + sign * 1e-6
                with torch.no_grad():
                    values.append(float(formula(double)))
            entry[index] = kept
            slope = (values[0] - values[1]) / 2e-6
            assert float(parameter.grad.view(-1)[index]) == pytest.approx(
                slope, rel=1e-3, abs=1e-4
            ), name


@pytest.mark.parametrize("classes", [2, 3])
def test_sensei_descends_on_the_loss_plus_the_worst_distance(classes: int) -> None:
    """The output distance is multiplied by rho."""
    network, batch, metric = mini_batch(classes)
    other = worst_points(
        network, batch, metric, LogitDistance(as_differentiable(network).logits(batch.x))
    )
    assert (other != batch.x).any(dim=1).all()

    def formula(net: nn.Module) -> Tensor:
        dtype = next(net.parameters()).dtype
        own, moved = net(batch.x.to(dtype)), net(other.to(dtype))
        log_likelihood = torch.log_softmax(own, dim=1)[torch.arange(12), batch.labels]
        return -log_likelihood.mean() + 7.0 * (own - moved).square().sum(dim=1).mean() / classes

    objective = SetInvariance(SEARCH, metric, 0.02, rho=7.0)
    loss, logs = objective(network, batch)
    assert float(loss.detach()) == pytest.approx(float(formula(network).detach()), rel=1e-5)
    assert logs["classification_loss"] + 7.0 * logs["output_distance"] == pytest.approx(
        float(loss.detach())
    )
    assert logs["spent"] == pytest.approx(
        float(metric.squared(batch.x, other).mean()), rel=1e-4, abs=1e-8
    )
    assert logs["multiplier"] == 2.0
    loss.backward()
    check_gradient(network, formula)


@pytest.mark.parametrize("classes", [2, 3])
def test_sensr_descends_on_the_loss_at_the_worst_points_alone(classes: int) -> None:
    network, batch, metric = mini_batch(classes)
    other = worst_points(network, batch, metric, LogLoss(batch.labels))

    def formula(net: nn.Module) -> Tensor:
        moved = net(other.to(next(net.parameters()).dtype))
        return -torch.log_softmax(moved, dim=1)[torch.arange(12), batch.labels].mean()

    loss, logs = Robustness(SEARCH, metric, 0.02)(network, batch)
    assert float(loss.detach()) == pytest.approx(float(formula(network).detach()), rel=1e-5)
    staying = functional.cross_entropy(network(batch.x), batch.labels)
    assert float((loss - staying).detach()) > 1e-3
    assert logs["spent"] == pytest.approx(
        float(metric.squared(batch.x, other).mean()), rel=1e-4, abs=1e-8
    )
    loss.backward()
    check_gradient(network, formula)


@pytest.mark.parametrize("classes", [2, 3])
def test_pairing_descends_on_the_loss_plus_output_distances(classes: int) -> None:
    """They are multiplied by rho."""
    network, batch, _ = mini_batch(classes)
    everyone = torch.randn(30, 3, generator=torch.Generator().manual_seed(9))
    rows = torch.arange(12) * 2
    batch = Batch(everyone[rows], batch.labels, rows)
    changed = -2 * everyone

    def formula(net: nn.Module) -> Tensor:
        dtype = next(net.parameters()).dtype
        own, paired = net(batch.x.to(dtype)), net(changed[rows].to(dtype))
        log_likelihood = torch.log_softmax(own, dim=1)[torch.arange(12), batch.labels]
        return -log_likelihood.mean() + 4.0 * (own - paired).square().sum(dim=1).mean() / classes

    loss, logs = LogitPairing(everyone.numpy(), [changed.numpy()], 4.0, seed=0)(network, batch)
    assert float(loss.detach()) == pytest.approx(float(formula(network).detach()), rel=1e-5)
    assert logs["classification_loss"] + 4.0 * logs["output_distance"] == pytest.approx(
        float(loss.detach())
    )
    loss.backward()
    check_gradient(network, formula)


def test_sensei_adds_the_weighted_distance_from_copies() -> None:
    """With one copy of each row, loss and criterion grow by exactly the weighted distance."""
    network, batch, metric = mini_batch(2)
    everyone = torch.randn(30, 3, generator=torch.Generator().manual_seed(9))
    rows = torch.arange(12) * 2
    batch = Batch(everyone[rows], batch.labels, rows)
    paired, alone = (SetInvariance(SEARCH, metric, 0.02, rho=7.0) for _ in range(2))
    paired.pairing = LogitPairing(everyone.numpy(), [-2 * everyone.numpy()], 4.0, seed=0)
    shift = torch.zeros(2)
    with torch.no_grad():
        distance = (network(batch.x) - network(-2 * batch.x)).square().mean(dim=1).mean()
    found, without = (each.criterion(network, batch, shift) for each in (paired, alone))
    assert found - without == pytest.approx(4.0 * float(distance), rel=1e-5)
    (loss, logs), (other, _) = (each(network, batch) for each in (paired, alone))
    assert float((loss - other).detach()) == pytest.approx(4.0 * float(distance), rel=1e-5)
    assert logs["paired_distance"] == pytest.approx(float(distance), rel=1e-5)


def test_copies_make_sensei_invariant_where_its_metric_is_not() -> None:
    """The metric ignores the last column; copies change the first one."""
    X, y = biased()
    options: dict[str, Any] = {"n_steps": 250, "batch_size": 32, "learning_rate": 0.01, "rho": 0.1}
    options |= {"metric": SensitiveSubspace(indicators=[3]).fit(X), "perturbation_budget": 0.0}
    alone = train(SenSeIClassifier, X, y, **options)
    paired = SenSeIClassifier(**{**SMALL, **options}, pair_weight=20.0)
    paired.fit(X, y, counterfactuals=[flipped(X)])
    assert consistency(alone, X) < 0.7
    assert consistency(paired, X) > 0.95
    with pytest.raises(ValueError, match="counterfactuals are missing"):
        SenSeIClassifier(**{**SMALL, **options}, pair_weight=1.0).fit(X, y)


def recorder(inputs: list[Tensor], width: int, classes: int) -> nn.Module:
    """A linear network that keeps what it is given, its copies too."""

    class Recorder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(width, classes)

        def forward(self, rows: Tensor) -> Tensor:
            inputs.append(rows.detach().clone())
            logits: Tensor = self.layer(rows)
            return logits

    return Recorder()


def test_pairs_are_drawn_among_copies_of_the_same_row() -> None:
    # the second column tells which row it is, the first which copy: 0 is the row itself
    X = np.column_stack([np.zeros(20), np.arange(20)]).astype(np.float32)
    copies = [X + np.array([number, 0], dtype=np.float32) for number in (1, 2, 3)]
    seen: list[Tensor] = []
    network = recorder(seen, 2, 2)
    CLPClassifier(network=network, n_steps=20, batch_size=16, n_iter_no_change=None).fit(
        X, np.arange(20) % 2, counterfactuals=copies
    )
    own, paired = (
        torch.cat(part) for part in zip(*(rows.split(16) for rows in seen[1:]), strict=True)
    )
    assert len(own) == 20 * 16
    assert (own[:, 0] == 0).all()
    assert torch.equal(own[:, 1], paired[:, 1])
    drawn = torch.bincount(paired[:, 0].long(), minlength=4)
    assert drawn[0] == 0
    # 320 draws of three copies: about 107 each
    assert (drawn[1:] > 70).all()


def test_only_changed_columns_of_a_copy_are_kept() -> None:
    X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    one, two = X.copy(), X.astype(float)
    one[:, 2] = 1.0
    two[7, [0, 5]] += 1.0
    # any iterable is read once: no two copies need exist at a time
    pairing = LogitPairing(X, iter([one, two]), 1.0, seed=0)
    assert [changed.tolist() for changed, _ in pairing.copies] == [[2], [0, 5]]
    assert [tuple(values.shape) for _, values in pairing.copies] == [(50, 1), (50, 2)]


def test_a_callback_ends_the_training(people: People) -> None:
    X, y, _ = people(100)
    seen: list[int] = []

    def enough(step: int, steps: int, progress: Mapping[str, float]) -> bool:
        seen.append(step)
        return step >= 150

    options: dict[str, Any] = {"n_iter_no_change": None, "random_state": 0}
    stopped = NeuralNetworkClassifier(n_steps=1000, **options).fit(X, y, callback=enough)
    assert seen == [50, 100, 150]
    short = NeuralNetworkClassifier(n_steps=150, **options).fit(X, y)
    np.testing.assert_array_equal(stopped.predict_proba(X), short.predict_proba(X))
    assert stopped.best_step_ == 150


# --- what the methods are for ---


def consistency(model: Any, X: NDArray[Any]) -> float:
    return float((model.predict(X) == model.predict(flipped(X))).mean())


@pytest.mark.long
@pytest.mark.parametrize("method", [SenSeIClassifier, CLPClassifier])
def test_more_weight_on_invariance_gives_more_consistency(method: Any) -> None:
    """Outputs are closer, too."""
    X, y = biased()
    options = {"n_steps": 400, "batch_size": 32, "learning_rate": 0.01}
    slight, strong = (train(method, X, y, rho=rho, **options) for rho in (0.001, 20.0))
    assert strong.history_["output_distance"][-1] < 0.1 * slight.history_["output_distance"][-1]
    assert consistency(slight, X) < 0.7
    assert consistency(strong, X) > 0.95


def test_training_on_the_worst_case_gives_more_consistency() -> None:
    X, y = biased()
    options = {"n_steps": 250, "batch_size": 32, "learning_rate": 0.01}
    plain = train(NeuralNetworkClassifier, X, y, **options)
    robust = train(SenSRClassifier, X, y, **options, perturbation_budget=0.01)
    assert consistency(plain, X) < 0.7
    assert consistency(robust, X) > 0.9


@pytest.mark.long
def test_the_auditor_spends_about_its_budget_in_the_end() -> None:
    X, y = biased()
    options: dict[str, Any] = {"rho": 1.0, "perturbation_budget": 0.05, "n_steps": 800}
    for update in ({}, {"multiplier_update": "absolute", "multiplier_rate": 0.5}):
        history = train(SenSeIClassifier, X, y, **options, **update).history_
        assert np.mean(history["spent"][-8:]) == pytest.approx(0.05, rel=0.3)
        assert history["multiplier"][-1] > 0


def test_a_relative_multiplier_comes_back_from_afar() -> None:
    # by hand: spent twice the budget or more is a rise by e^0.5, nothing spent a fall by as much
    assert next_relative_multiplier(2.0, 0.5, 0.1, 0.2) == pytest.approx(2.0 * np.exp(0.5))
    assert next_relative_multiplier(2.0, 0.5, 0.1, 9.0) == pytest.approx(2.0 * np.exp(0.5))
    assert next_relative_multiplier(2.0, 0.5, 0.1, 0.15) == pytest.approx(2.0 * np.exp(0.25))
    assert next_relative_multiplier(2.0, 0.5, 0.1, 0.0) == pytest.approx(2.0 * np.exp(-0.5))
    assert next_relative_multiplier(2.0, 0.5, 0.0, 0.1) == pytest.approx(2.0 * np.exp(0.5))
    assert next_relative_multiplier(2.0, 0.5, 0.0, 0.0) == 2.0
    assert next_relative_multiplier(1e6, 0.5, 0.1, 1.0) == 1e6
    X, y = biased()
    start = {"perturbation_budget": 0.05, "multiplier_start": 520.0, "n_steps": 400}
    relative, absolute = (
        train(SenSeIClassifier, X, y, rho=1.0, multiplier_update=update, **start).history_
        for update in ("relative", "absolute")
    )
    # by differences the search stays shut off
    assert absolute["multiplier"][-1] > 500
    assert absolute["spent"][-1] < 1e-3
    assert np.mean(relative["spent"][-3:]) == pytest.approx(0.05, rel=0.4)


@pytest.mark.parametrize("method", METHODS)
def test_three_classes_are_learned(method: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    X[:, 0] = rng.integers(0, 2, 300)
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 1], [-0.5, 0.5])]
    options = {} if method is NeuralNetworkClassifier else {"perturbation_budget": 1e-3}
    options = {"rho": 0.1} if method is CLPClassifier else options
    model = train(method, X, y, n_steps=200, learning_rate=0.02, **options)
    assert (model.predict(X) == y).mean() > 0.85
    assert model.decision_logits(X).shape == (300, 3)


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_decides_the_network(method: Any, people: People) -> None:
    X, y, _ = people(80)
    first, again, other = (train(method, X, y, random_state=seed) for seed in (1, 1, 2))
    assert same_weights(first, again)
    assert first.history_ == again.history_
    assert not same_weights(first, other)


@pytest.mark.parametrize("method", METHODS)
def test_training_leaves_the_global_generator_alone(method: Any, people: People) -> None:
    X, y, _ = people(80)
    state = torch.get_rng_state()
    train(method, X, y)
    assert torch.equal(torch.get_rng_state(), state)


def test_probabilities_of_a_row_do_not_depend_on_other_rows(people: People) -> None:
    X, y, _ = people(80)
    model = train(NeuralNetworkClassifier, X, y, hidden=(100,), n_steps=100)
    single = np.concatenate([model.predict_proba(row[None]) for row in X])
    np.testing.assert_allclose(single, model.predict_proba(X), rtol=1e-5, atol=1e-6)


# --- metrics ---


@pytest.mark.parametrize("method", WITH_METRIC)
def test_a_template_is_fitted_and_a_fitted_metric_used_as_it_is(
    method: Any, people: People
) -> None:
    X, y, group = people(80)
    template = SensitiveSubspace(indicators=[0], learned=[LearnedDirection("g", (0,))])
    model = method(template, **SMALL).fit(X, y, sensitive_features={"g": group})
    assert not hasattr(template, "basis_")
    fitted = SensitiveSubspace(indicators=[0], learned=[LearnedDirection("g", (0,))]).fit(
        X, sensitive_features={"g": group}
    )
    np.testing.assert_array_equal(model.metric_.basis_, fitted.basis_)
    before = copy.deepcopy(fitted)
    # other groups do not matter to a metric that is fitted
    same = method(fitted, **SMALL).fit(X, y, sensitive_features={"g": group[::-1]})
    assert same.metric_ is fitted
    np.testing.assert_array_equal(fitted.basis_, before.basis_)
    assert fitted.feature_bounds_.low.tolist() == before.feature_bounds_.low.tolist()
    assert same_weights(same, model)


@pytest.mark.parametrize("method", WITH_METRIC)
def test_the_default_metric_is_learned_from_sensitive_features(method: Any, people: People) -> None:
    X, y, group = people(80)
    model = method(**SMALL).fit(X, y, sensitive_features={"g": group})
    expected = SensitiveSubspace().fit(X, sensitive_features={"g": group})
    np.testing.assert_array_equal(model.metric_.basis_, expected.basis_)


# --- a network of one's own ---


def own_network(classes: int = 2) -> nn.Sequential:
    network = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, classes))
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(1))
    return network


@pytest.mark.parametrize("method", METHODS)
def test_a_given_network_is_trained_as_a_copy_saved_and_loaded(
    method: Any, people: People, tmp_path: Path
) -> None:
    X, y, _ = people(80)
    network = own_network()
    before = copy.deepcopy(network.state_dict())
    model = train(method, X, y, network=network)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert isinstance(model.network_[1], nn.Tanh)
    assert not torch.equal(weights(model)["0.weight"], before["0.weight"])
    assert same_weights(model, train(method, X, y, network=network))

    model.save(tmp_path)
    loaded = method.load(tmp_path, network=network)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    for load in (method.load, load_model):
        with pytest.raises(
            ValueError, match=r"network of your own: give it, as in load\(folder, network="
        ):
            load(tmp_path)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Linear(5, 3), r"one logit per class, shape \(n, 2\), got \(2, 3\)"),
        (nn.Linear(5, 1), r"one logit per class, shape \(n, 2\), got \(2, 1\)"),
        (nn.Sequential(nn.Linear(5, 2), nn.Flatten(0)), r"got \(4,\) for two rows"),
        (nn.Linear(4, 2), "network does not take rows of 5 features"),
    ],
    ids=["three", "one", "flat", "narrow"],
)
def test_a_network_of_another_shape_is_refused(
    network: nn.Module, message: str, people: People
) -> None:
    X, y, _ = people(40)
    with pytest.raises(ValueError, match=message):
        train(NeuralNetworkClassifier, X, y, network=network)


class Normalised(nn.Module):
    """Has running statistics, which every row that it sees in training moves."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.BatchNorm1d(5)
        self.layer = nn.Linear(5, 2)

    def forward(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.layer(self.scale(rows))
        return logits


@pytest.mark.parametrize("method", WITH_METRIC)
def test_the_search_leaves_running_statistics_alone(method: Any, people: People) -> None:
    X, y, _ = people(40)
    model = train(method, X, y, network=Normalised(), n_steps=10)
    assert int(model.network_.scale.num_batches_tracked) == 10


@pytest.mark.parametrize("method", METHODS)
def test_dropout_follows_the_seed_and_not_the_global_generator(method: Any, people: People) -> None:
    X, y, _ = people(60)
    network = nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.Linear(6, 2))
    state = torch.get_rng_state()
    first = train(method, X, y, network=network)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    assert same_weights(train(method, X, y, network=network), first)
    assert not same_weights(train(method, X, y, network=network, random_state=4), first)


def test_layers_that_share_their_weights_are_saved_and_loaded(
    people: People, tmp_path: Path
) -> None:
    X, y, _ = people(60)
    shared = nn.Linear(5, 5)
    network = nn.Sequential(shared, nn.ReLU(), shared, nn.ReLU(), nn.Linear(5, 2))
    model = train(NeuralNetworkClassifier, X, y, network=network)
    model.save(tmp_path)
    loaded = NeuralNetworkClassifier.load(tmp_path, network=network)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(("balance", "expected"), [(1.0, [8, 8]), (0.5, [12, 4]), (0.0, [14, 2])])
def test_mini_batches_hold_the_shares_of_their_classes(balance: float, expected: list[int]) -> None:
    y = np.repeat([0, 1], [90, 10])
    X = np.column_stack([y, np.arange(100)]).astype(np.float32)
    seen: list[Tensor] = []
    NeuralNetworkClassifier(
        network=recorder(seen, 2, 2),
        n_steps=40,
        batch_size=16,
        class_balance=balance,
        n_iter_no_change=None,
    ).fit(X, y)
    for rows in seen[1:]:
        assert torch.bincount(rows[:, 0].long()).tolist() == expected
    # with replacement, from all of a class
    assert len(torch.cat(seen[1:])[:, 1].unique()) > 60


# --- a loss that is not finite ---


class Failing(nn.Module):
    """Gives NaN from some mini-batch on, as training that diverges."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 2)
        nn.init.normal_(self.layer.weight, generator=torch.Generator().manual_seed(0))
        nn.init.zeros_(self.layer.bias)
        self.left = good

    def forward(self, rows: Tensor) -> Tensor:
        self.left -= self.training
        logits: Tensor = self.layer(rows)
        return logits if self.left >= 0 else logits * float("nan")


def test_a_diverging_training_names_the_step(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps the last good checkpoint."""
    monkeypatch.setattr(
        "evenhand.fairlib.methods.method_base.Checkpoint", partial(Checkpoint, every_s=0.0)
    )
    X, y, _ = people(80)
    options: dict[str, Any] = {"n_steps": 200, "batch_size": 16, "random_state": 0}
    with pytest.raises(
        FloatingPointError, match="no longer finite at step 150: lower learning_rate"
    ):
        NeuralNetworkClassifier(network=Failing(120), **options).fit(X, y, checkpoint=tmp_path)
    seen: list[int] = []
    resumed = NeuralNetworkClassifier(network=Failing(1000), **options).fit(
        X, y, checkpoint=tmp_path, callback=lambda step, steps, progress: seen.append(step)
    )
    assert seen == [150, 200]
    whole = NeuralNetworkClassifier(network=Failing(1000), **options).fit(X, y)
    assert same_weights(resumed, whole)


@pytest.mark.parametrize("method", METHODS)
def test_a_huge_learning_rate_is_named_by_every_method(method: Any, people: People) -> None:
    X, y, _ = people(60)
    with pytest.raises(FloatingPointError, match=r"at step 50: lower learning_rate \(now 1e\+30\)"):
        train(method, X, y, learning_rate=1e30, n_steps=100)


def test_a_network_that_its_last_step_broke_is_not_handed_out(people: People) -> None:
    X, y, _ = people(60)
    with pytest.raises(
        FloatingPointError, match="weights are no longer finite at step 1: lower learning_rate"
    ):
        train(NeuralNetworkClassifier, X, y, learning_rate=1e39, n_steps=1)


# --- bad input ---


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        (SenSeIClassifier, {"rho": -1.0}, "rho must be finite and not negative, got -1.0"),
        (SenSeIClassifier, {"rho": float("nan")}, "rho must be finite and not negative, got nan"),
        (CLPClassifier, {"rho": -0.1}, "rho must be finite and not negative, got -0.1"),
        (CLPClassifier, {"rho": float("inf")}, "rho must be finite and not negative, got inf"),
        *(
            (method, arguments, message)
            for method in WITH_METRIC
            for arguments, message in (
                (
                    {"perturbation_budget": -0.1},
                    "perturbation_budget must be .* not negative.*, got -0.1",
                ),
                ({"perturbation_budget": float("nan")}, "perturbation_budget must be finite"),
                ({"multiplier_start": -1.0}, "multiplier_start must be .* not negative, got -1.0"),
                ({"multiplier_rate": float("inf")}, "multiplier_rate must be finite"),
                ({"subspace_steps": 0, "full_steps": 0}, "at least one step in all"),
                ({"full_rate": 2.0}, r"full_rate must be in \(0, 1\], got 2.0"),
                ({"metric": None}, "metric is None: give a fair metric, or sensitive_features"),
            )
        ),
        *(
            (method, {"n_steps": 0}, "n_steps must be a whole number, at least 1")
            for method in METHODS
        ),
        *(
            (NeuralNetworkClassifier, arguments, message)
            for arguments, message in (
                ({"n_steps": 0}, "n_steps must be a whole number, at least 1, got 0"),
                ({"n_steps": 1.5}, "n_steps must be a whole number, at least 1, got 1.5"),
                (
                    {"batch_size": 2.5},
                    "batch_size must be a whole number, at least 1 or None, got 2.5",
                ),
                (
                    {"hidden": (-1,)},
                    r"hidden must list whole numbers of units, at least 1, got \(-1,\)",
                ),
                (
                    {"hidden": (2.5,)},
                    r"hidden must list whole numbers of units, at least 1, got \(2.5,\)",
                ),
                ({"batch_size": 1}, r"at least the number of classes \(2\), got 1"),
                ({"class_balance": 1.1}, r"class_balance must be in \[0, 1\], got 1.1"),
                ({"class_balance": -0.1}, r"class_balance must be in \[0, 1\], got -0.1"),
                ({"class_balance": float("nan")}, r"class_balance must be in \[0, 1\], got nan"),
            )
        ),
    ],
)
def test_bad_parameters_are_named_in_one_line(
    method: Any, arguments: Mapping[str, Any], message: str, people: People
) -> None:
    X, y, _ = people(40)
    with pytest.raises(ValueError, match=message) as refused:
        train(method, X, y, **arguments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("method", WITH_METRIC)
def test_a_metric_of_another_dimension_is_refused(method: Any, people: People) -> None:
    X, y, _ = people(40)
    with pytest.raises(ValueError, match="X has 5 features, but the metric was fitted on 4"):
        train(method, X, y, metric=first_column(X[:, :4]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: None, "counterfactuals are missing"),
        (lambda X: [], "counterfactuals are missing"),
        (lambda X: [X.copy(), X.astype(float)], "counterfactual changes nothing"),
        (lambda X: [X + 1, X[:-1]], r"copies of X, of shape \(40, 5\), got shape \(39, 5\)"),
        (lambda X: [X[:, :4]], r"copies of X, of shape \(40, 5\), got shape \(40, 4\)"),
        (
            lambda X: [np.where(X > 1, np.nan, X)],
            "counterfactuals must be finite: a copy holds NaN",
        ),
        (
            lambda X: [np.where(X > 1, np.inf, X)],
            "counterfactuals must be finite: a copy holds NaN",
        ),
    ],
    ids=["none", "empty", "unchanged", "short", "narrow", "nan", "infinite"],
)
def test_counterfactuals_that_are_none_are_refused(
    change: Callable[[NDArray[Any]], Any], message: str, people: People
) -> None:
    X, y, _ = people(40)
    with pytest.raises(ValueError, match=message):
        CLPClassifier(**SMALL).fit(X, y, counterfactuals=change(X))
    # one changed copy is enough, beside others that are not
    CLPClassifier(**SMALL).fit(X, y, counterfactuals=[X, flipped(X)])
