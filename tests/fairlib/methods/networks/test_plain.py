"""The plain network: what it learns, its seed, its threads, and losses that are not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from evenhand.fairlib.methods.networks import NeuralNetworkClassifier
from evenhand.fairlib.methods.networks import network_training as training_module

People = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]


# --- neural network ---


def test_mini_batches_carry_both_labels_equally(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.05).astype(int)
    X = np.column_stack([y, rng.normal(size=300)])
    batches: list[torch.Tensor] = []

    class Recorder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            batches.append(rows[:, 0].clone())
            return self.layer(rows)

    monkeypatch.setattr(training_module, "build_network", lambda *_: Recorder())
    NeuralNetworkClassifier(
        n_steps=20, batch_size=16, class_balance=1.0, n_iter_no_change=None
    ).fit(X, y)
    assert len(batches) == 20
    for batch in batches:
        assert (len(batch), float(batch.sum())) == (16, 8.0)


def test_network_learns_what_no_line_can_tell(people: People) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = NeuralNetworkClassifier(n_steps=800, learning_rate=0.01, random_state=0).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.95


def test_network_follows_its_seed_and_not_the_global_one(people: People) -> None:
    X, y, _ = people(60)
    state = torch.get_rng_state()
    first = NeuralNetworkClassifier(n_steps=20, random_state=1).fit(X, y).predict_proba(X)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    again = NeuralNetworkClassifier(n_steps=20, random_state=1).fit(X, y).predict_proba(X)
    other = NeuralNetworkClassifier(n_steps=20, random_state=2).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_network_trains_on_one_thread_and_gives_the_others_back(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    X, y, _ = people(60)
    NeuralNetworkClassifier(n_steps=2).fit(X, y)
    with pytest.raises(FloatingPointError):
        NeuralNetworkClassifier(n_steps=50, learning_rate=1e30, random_state=0).fit(X, y)
    assert calls == [1, 5, 1, 5]


def test_network_reports_the_mean_loss_of_the_last_steps(people: People) -> None:
    X, y, _ = people(60)
    seen: list[tuple[int, int, float]] = []
    NeuralNetworkClassifier(n_steps=120, random_state=0).fit(
        X, y, callback=lambda step, steps, progress: seen.append((step, steps, progress["loss"]))
    )
    assert [entry[:2] for entry in seen] == [(50, 120), (100, 120), (120, 120)]
    assert seen[2][2] < seen[0][2] < 1.0
    # without learning, the mean is the same over 50 steps and over the last 20
    frozen: list[float] = []
    NeuralNetworkClassifier(n_steps=120, learning_rate=1e-12, random_state=0).fit(
        X, y, callback=lambda step, steps, progress: frozen.append(progress["loss"])
    )
    np.testing.assert_allclose(frozen, frozen[0], rtol=0.1)
    model = NeuralNetworkClassifier(n_steps=1, learning_rate=1e-12, random_state=0).fit(X, y)
    positive = model.predict_proba(X)[:, 1]
    balanced = -(np.log(positive[y == 1]).mean() + np.log1p(-positive[y == 0]).mean()) / 2
    assert frozen[0] == pytest.approx(balanced, rel=0.1)


def test_network_stops_at_a_loss_that_is_not_finite(people: People) -> None:
    X, y, _ = people(60)
    with pytest.raises(FloatingPointError, match=r"step 50: lower learning_rate \(now 1e\+30\)"):
        NeuralNetworkClassifier(n_steps=200, learning_rate=1e30, random_state=0).fit(X, y)


def test_network_probabilities_survive_extreme_logits(people: People) -> None:
    X, y, _ = people(60)
    model = NeuralNetworkClassifier(n_steps=50, random_state=0).fit(X, y)
    got = model.predict_proba(np.vstack([X * 1e6, -X * 1e6]))
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got.sum(axis=1), 1.0, rtol=1e-12)


def test_network_refuses_a_batch_of_one(people: People) -> None:
    X, y, _ = people(60)
    with pytest.raises(ValueError, match=r"at least the number of classes \(2\), got 1"):
        NeuralNetworkClassifier(batch_size=1).fit(X, y)
