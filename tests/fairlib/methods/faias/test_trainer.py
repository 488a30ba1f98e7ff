"""FAIAS's training against plain PyTorch, and its parts by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evenhand.fairlib.execution import one_thread
from evenhand.fairlib.methods.checkpoint import Checkpoint
from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier
from evenhand.fairlib.methods.faias.players import Features, Players
from evenhand.fairlib.methods.faias.trainer import Trainer, class_weights, score_of, sensitivity
from evenhand.fairlib.methods.networks.network_training import build_network

GROUPS = {"a": [0], "k": [2], "b": [4, 1], "c": [3], "m": [5]}
FEATURES = Features.of(GROUPS, ["k", "m"])
CONFIG: dict[str, Any] = {
    "sensitivity_weight": 0.7,
    "batch_size": 16,
    "learning_rate": 3e-3,
    "selector_learning_rate": 2e-2,
    "averaging": 0.0,
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def _seeds(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _rows(n: int = 50) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 6, generator=_seeds(0), dtype=torch.float64)
    x[:, 2] = (x[:, 2] > 0).double()
    return x, (x[:, 0] + x[:, 2] > 0.5).long() + (x[:, 1] > 1).long()


def _predictor() -> nn.Sequential:
    return build_network(6, (8, 8), 3, _seeds(1), nn.SELU).double()


def _trainer(
    probability: float = 0.6, weights: Tensor | None = None, dependent: bool = False, **config: Any
) -> Trainer:
    x, labels = _rows()
    estimator = FAIASClassifier(
        **CONFIG | config,
        hidden=(8, 8),
        initial_probability=probability,
        data_dependent=dependent,
        selector_hidden=(5,),
    )
    players = Players(FEATURES, 3, estimator, _seeds(4))
    players.predictor = _predictor()
    trainer = Trainer(estimator, players.double(), x, labels, _seeds(2))
    trainer.class_weights = torch.ones(3, dtype=torch.float64) if weights is None else weights
    return trainer


def _loaded(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A state as it comes back from a file."""
    Checkpoint(folder, "test").save(state)
    found = Checkpoint(folder, "test").load()
    assert found is not None
    return found


# --- sensitivity
# ---------------------------------------------------------------------------------------


def _linear(weight: list[list[float]], bias: list[float]) -> nn.Linear:
    layer = nn.Linear(len(weight[0]), len(weight)).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        layer.bias.copy_(torch.tensor(bias))
    return layer


def test_sensitivity_of_a_linear_model_by_hand() -> None:
    # logit of class 1 over class 0: x0 + 2 x1 - 3 x2; columns 1 and 2 are sensitive, each on its
    # own
    predictor = _linear([[0.0, 0.0, 0.0], [1.0, 2.0, -3.0]], [0.0, 0.0])
    x = torch.tensor([[1.0, 0.5, 0.25], [1.0, 0.0, -1.0]], dtype=torch.float64)
    shown = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    sensitive = torch.tensor([[False, True, False], [False, False, True]])
    logits, losses = sensitivity(predictor, shown, x, sensitive)
    np.testing.assert_allclose(logits.detach(), [[0, 1], [0, 0]])

    def sigmoid(z: float) -> float:
        return float(1 / (1 + np.exp(-z)))

    # both probabilities change by the same amount: the norm is its root of two-fold
    first = abs(sigmoid(2.0) - sigmoid(1.0)) + abs(sigmoid(0.25) - sigmoid(1.0))
    second = 0.0 + abs(sigmoid(3.0) - sigmoid(0.0))
    np.testing.assert_allclose(losses.detach(), np.sqrt(2) * np.array([first, second]), rtol=1e-12)
    alone = sensitivity(predictor, shown, x, sensitive[:1])[1]
    np.testing.assert_allclose(
        alone.detach(), np.sqrt(2) * np.array([sigmoid(2.0) - sigmoid(1.0), 0.0])
    )


def test_a_constant_output_has_gradient_zero_and_not_infinite() -> None:
    predictor = build_network(6, (8,), 3, _seeds(3), nn.SELU).double()
    x, _ = _rows()
    x[:, FEATURES.hidden] = 0.0
    _, losses = sensitivity(predictor, x, x, FEATURES.sensitive)
    assert (losses == 0).all()
    losses.sum().backward()  # type: ignore[no-untyped-call]
    for value in predictor.parameters():
        assert value.grad is not None
        assert (value.grad == 0).all()


def test_gradient_of_the_sensitivity_loss() -> None:
    """Against finite differences, and equation 6.11 as it is written."""
    predictor = build_network(6, (5,), 3, _seeds(3), nn.SELU).double()
    x, _ = _rows(8)
    x[:, 2] += 0.5  # the written equation has no value where nothing changes
    shown = x.clone()
    shown[:, FEATURES.hidden] = 0.0
    shown[:, 3] = 0.0
    sensitivity(predictor, shown, x, FEATURES.sensitive)[1].mean().backward()  # type: ignore[no-untyped-call]
    found = torch.cat(
        [value.grad.flatten() for value in predictor.parameters() if value.grad is not None]
    )
    parameters = dict(predictor.named_parameters())

    def outputs(vector: Tensor, rows: Tensor) -> Tensor:
        parts = vector.split([value.numel() for value in parameters.values()])
        named = {
            name: part.view_as(value)
            for (name, value), part in zip(parameters.items(), parts, strict=True)
        }
        return torch.func.functional_call(predictor, named, rows).softmax(1)

    def loss(vector: Tensor) -> float:
        total = 0.0
        for column in (2, 5):
            added = shown.clone()
            added[:, column] = x[:, column]
            total += float((outputs(vector, added) - outputs(vector, shown)).norm(dim=1).mean())
        return total

    start = torch.cat([value.detach().flatten() for value in predictor.parameters()])
    step = 1e-6
    quotients = [
        (loss(start + step * unit) - loss(start - step * unit)) / (2 * step)
        for unit in torch.eye(len(start), dtype=torch.float64)
    ]
    np.testing.assert_allclose(found, quotients, rtol=1e-5, atol=1e-8)
    written = torch.zeros_like(start)
    for column in (2, 5):
        added = shown.clone()
        added[:, column] = x[:, column]
        change = (outputs(start, added) - outputs(start, shown)).detach()
        slope = torch.func.jacrev(outputs)(start, added) - torch.func.jacrev(outputs)(start, shown)
        written += (torch.einsum("nk,nkp->np", change, slope) / change.norm(dim=1)[:, None]).mean(0)
    np.testing.assert_allclose(found, written, rtol=1e-10, atol=1e-14)
    assert written.abs().max() > 1e-3


# --- training
# ------------------------------------------------------------------------------------------


def _plain_training(
    config: FAIASClassifier, probability: float, epochs: int, weights: Tensor
) -> list[np.ndarray]:
    """Algorithm 4 written out: the parameters of both players, the predictor's first."""
    x, labels = _rows()
    predictor = nn.Sequential(
        nn.Linear(6, 8), nn.SELU(), nn.Linear(8, 8), nn.SELU(), nn.Linear(8, 3)
    ).double()
    predictor.load_state_dict(_predictor().state_dict())
    theta = torch.full((5,), probability).logit().clamp(max=30).double().requires_grad_()
    descent = torch.optim.Adam(
        predictor.parameters(),
        config.learning_rate,
        weight_decay=config.weight_decay,
        foreach=False,
    )
    ascent = torch.optim.Adam([theta], config.selector_learning_rate, foreach=False)
    seeds = _seeds(2)
    for _ in range(epochs):
        for rows in torch.randperm(50, generator=seeds).split(config.batch_size):
            draws = torch.rand(len(rows), 5, generator=seeds)
            prediction, sensitive, score = [], [], []
            p = torch.sigmoid(theta)
            for i, row in enumerate(rows.tolist()):
                s = [bool(draws[i, g] < p[g]) and name not in "km" for g, name in enumerate(GROUPS)]
                shown = torch.zeros(6, dtype=torch.float64)
                for g, columns in enumerate(GROUPS.values()):
                    for column in columns:
                        if s[g]:
                            shown[column] = x[row, column]
                output = predictor(shown)
                prediction.append(-output.log_softmax(0)[labels[row]])
                change = torch.zeros((), dtype=torch.float64)
                for column in (2, 5):
                    added = shown.clone()
                    added[column] = x[row, column]
                    change = change + (predictor(added).softmax(0) - output.softmax(0)).norm()
                sensitive.append(change)
                chosen = torch.tensor(s)
                log_chance = torch.where(chosen, torch.log(p), torch.log1p(-p))
                score.append(log_chance[[0, 2, 3]].sum())
            w = weights[labels[rows]]
            lasts = torch.stack(sensitive)
            loss = (w * torch.stack(prediction)).mean() + config.sensitivity_weight * lasts.mean()
            fixed = lasts.detach()
            others = (fixed.sum() - fixed) / max(1, len(rows) - 1)
            gain = ((fixed - (others if len(rows) > 1 else 0)) * torch.stack(score)).mean()
            descent.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if probability < 1:  # of certain selections log pi is constant
                ascent.zero_grad()
                (-gain).backward()
                ascent.step()
            descent.step()
    return [value.detach().numpy() for value in (*predictor.parameters(), theta)]


@pytest.mark.parametrize("probability", [1.0, 0.6])
@pytest.mark.parametrize("variant", ["paper", "prediction only", "weights"])
def test_training_is_the_plain_loop(probability: float, variant: str) -> None:
    config: dict[str, Any] = {}
    weights = torch.ones(3, dtype=torch.float64)
    if variant == "prediction only":
        config = {"sensitivity_weight": 0.0}
    elif variant == "weights":
        config, weights = (
            {"weight_decay": 0.05, "batch_size": 7},
            torch.tensor([0.5, 1.0, 3.0]).double(),
        )
    trainer = _trainer(probability, weights, **config)
    start = trainer.parameters()
    for _ in range(4):
        trainer.epoch()
    expected = _plain_training(trainer.config, probability, 4, weights)
    for mine, theirs, before in zip(trainer.parameters(), expected, start, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
        assert np.abs(theirs - before).max() > 1e-3 or (probability == 1 and mine.shape == (5,))
    if probability == 1:
        assert (torch.sigmoid(trainer.players.selector.logits(trainer.x)) > 1 - 1e-12).all()


def test_without_sensitivity_weight_it_is_cross_entropy_alone() -> None:
    trainer = _trainer(1.0, sensitivity_weight=0.0)
    x, labels = _rows()
    x[:, FEATURES.hidden] = 0.0
    predictor = _predictor()
    optimiser = torch.optim.Adam(predictor.parameters(), CONFIG["learning_rate"], foreach=False)
    seeds, logs = _seeds(2), []
    for _ in range(3):
        losses = []
        for rows in torch.randperm(50, generator=seeds).split(16):
            torch.rand(len(rows), 5, generator=seeds)  # the selections, all certain
            loss = nn.functional.cross_entropy(predictor(x[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(float(loss.detach()) * len(rows))
        logs.append(sum(losses) / 50)
    found = [trainer.epoch()["prediction_loss"] for _ in range(3)]
    np.testing.assert_allclose(found, logs, rtol=1e-9)
    for mine, theirs in zip(
        trainer.players.predictor.parameters(), predictor.parameters(), strict=True
    ):
        np.testing.assert_allclose(mine.detach(), theirs.detach(), atol=1e-9)


def test_an_epoch_returns_the_means_over_its_rows() -> None:
    trainer = _trainer(1.0, learning_rate=1e-12, selector_learning_rate=1e-12)
    x, labels = _rows()
    shown = x.clone()
    shown[:, FEATURES.hidden] = 0.0
    with torch.no_grad():
        logits, losses = sensitivity(trainer.players.predictor, shown, x, FEATURES.sensitive)
        expected = float(nn.functional.cross_entropy(logits, labels)), float(losses.mean())
    logs = trainer.epoch()
    assert logs["prediction_loss"] == pytest.approx(expected[0], rel=1e-6)
    assert logs["sensitivity_loss"] == pytest.approx(expected[1], rel=1e-6)


@pytest.mark.parametrize("dependent", [False, True])
def test_the_selector_ascends(dependent: bool) -> None:
    """With a predictor that stands still, the expected sensitivity grows."""
    trainer = _trainer(
        0.5,
        dependent=dependent,
        learning_rate=1e-12,
        selector_learning_rate=0.02,
    )
    with torch.no_grad():
        for value in trainer.players.predictor.parameters():
            value.mul_(1.5)

    def probabilities() -> Tensor:
        selector = trainer.players.selector
        return selector.probabilities(selector.logits(trainer.x)).detach()

    def expected() -> float:
        total = 0.0
        with torch.no_grad():
            p = trainer.players.selector.probabilities(
                trainer.players.selector.logits(trainer.x)
            ).expand(50, 5)[:, [0, 2, 3]]
            for number in range(8):
                s = torch.zeros(1, 5, dtype=torch.float64)
                s[0, [0, 2, 3]] = torch.tensor([number & 1, number >> 1 & 1, number >> 2]).double()
                kept = s[:, [0, 2, 3]]
                chance = (p**kept * (1 - p) ** (1 - kept)).prod(1)
                shown = FEATURES.masked(trainer.x, s)
                total += float(
                    (
                        chance
                        * sensitivity(
                            trainer.players.predictor, shown, trainer.x, FEATURES.sensitive
                        )[1]
                    ).mean()
                )
        return total

    before = expected()
    hidden = trainer.players.selector.probabilities(
        trainer.players.selector.logits(trainer.x)
    ).detach()[:, [1, 4]]
    assert (hidden == 0).all()
    for _ in range(60):
        trainer.epoch()
    assert expected() > before * 1.02


def test_log_odds_of_groups_that_are_never_selected_stay() -> None:
    trainer = _trainer()
    assert trainer.players.selector.theta is not None
    before = trainer.players.selector.theta.detach().clone()
    trainer.epoch()
    moved = trainer.players.selector.theta.detach() != before
    assert moved.tolist() == [True, False, True, True, False]


def test_averages_are_over_fewer_steps_at_first() -> None:
    trainer = _trainer(averaging=0.6, batch_size=50)
    expected = trainer.parameters()
    for step in range(1, 31):
        trainer.epoch()
        kept = min(0.6, step / (step + 9))
        expected = [
            kept * mean + (1 - kept) * now
            for mean, now in zip(expected, trainer.parameters(), strict=True)
        ]
    last = trainer.parameters()
    trainer.exchange()
    for mine, theirs, now in zip(trainer.parameters(), expected, last, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
        assert not np.allclose(theirs, now, atol=1e-6), "the last ones are no average"
    trainer.exchange()
    for mine, theirs in zip(trainer.parameters(), last, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_without_averaging_the_last_parameters_are_evaluated() -> None:
    trainer = _trainer()
    trainer.epoch()
    last = trainer.parameters()
    trainer.exchange()
    for mine, theirs in zip(trainer.parameters(), last, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("dependent", [False, True])
def test_a_restored_training_continues_as_the_first(dependent: bool, tmp_path: Path) -> None:
    trainer, again = (_trainer(dependent=dependent, averaging=0.9) for _ in range(2))
    trainer.epoch()
    state = _loaded(trainer.state(), tmp_path)
    logs = [trainer.epoch() for _ in range(2)]
    again.restore(state)
    assert [again.epoch() for _ in range(2)] == logs
    for _ in range(2):
        for mine, theirs in zip(again.parameters(), trainer.parameters(), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        trainer.exchange()
        again.exchange()
    # nothing of the people is kept
    groups = [value for value in state.values() if isinstance(value, dict)]
    arrays = [
        value for group in (state, *groups, *state["moments"].values()) for value in group.values()
    ]
    sizes = [
        value.size for value in arrays if not isinstance(value, dict) and value.dtype.kind == "f"
    ]
    assert max(sizes) <= 64


def test_a_parameter_that_is_no_number_is_noticed() -> None:
    for player in ("predictor", "selector"):
        trainer = _trainer()
        assert trainer.is_finite()
        with torch.no_grad():
            next(getattr(trainer.players, player).parameters()).view(-1)[-1] = float("inf")
        assert not trainer.is_finite()


# --- weights and scores
# --------------------------------------------------------------------------------


def test_class_weights_by_hand() -> None:
    np.testing.assert_array_equal(class_weights([1, 3], 0.0), [1, 1])
    np.testing.assert_allclose(class_weights([1, 3], 1.0), [2, 2 / 3], rtol=1e-6)
    np.testing.assert_allclose(class_weights([2, 4, 6], 1.0), [2, 1, 2 / 3], rtol=1e-6)
    # 1 and 1/2, times 5 over 1 + 4 / 2
    np.testing.assert_allclose(class_weights([1, 4], 0.5), [5 / 3, 5 / 6], rtol=1e-6)


def test_scores_by_hand() -> None:
    p = np.array([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5], [0.9, 0.1]])
    # class 0: right, wrong, right (a tie is the first class); class 1: wrong
    accuracy, log_loss = score_of(p, np.array([0, 0, 0, 1]))
    assert accuracy == pytest.approx((2 / 3 + 0) / 2)
    assert log_loss == pytest.approx((np.log(0.8 * 0.4 * 0.5) / 3 + np.log(0.1)) / 2)
    three = np.array([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0.6, 0.2, 0.2], [0.2, 0.6, 0.2]])
    assert score_of(three, np.array([2, 1, 0, 0]))[0] == pytest.approx((0.5 + 1 + 1) / 3)
    # certain and wrong: a large loss, not an infinite one
    assert np.isfinite(score_of(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1, 0]))[1])


def test_the_first_of_the_best_epochs_is_kept(tmp_path: Path) -> None:
    trainer = _trainer()
    scores = [(0.5, -1.0), (0.7, -0.9), (0.7, -0.9), (0.7, -1.1), (0.6, -0.1)]
    seen = []
    for epoch, score in enumerate(scores, start=1):
        trainer.epoch()
        seen.append(trainer.parameters())
        trainer.keep_if_best(epoch, score)
    assert (trainer.best_epoch, trainer.best_score) == (2, (0.7, -0.9))
    assert not trainer.is_stale(4, 3)
    assert trainer.is_stale(5, 3)
    assert not trainer.is_stale(500, None)
    again = _trainer()
    again.restore(_loaded(trainer.state(), tmp_path))
    assert (again.best_epoch, again.best_score) == (2, (0.7, -0.9))
    for mine, theirs in zip(again.best_parameters, seen[1], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    # among equals the smaller loss
    trainer.keep_if_best(6, (0.7, -0.8))
    assert trainer.best_epoch == 6
