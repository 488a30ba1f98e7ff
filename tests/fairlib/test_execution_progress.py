"""Callbacks of long loops count to their total, and change no number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.evaluation import bootstrap
from evenhand.fairlib.evaluation.bootstrap import multinomial_chunks
from evenhand.fairlib.evaluation.certificates import ROUNDS, certify
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.transport_adversary import audit_losses
from evenhand.fairlib.execution import shifted
from evenhand.fairlib.proxies import proxy_evaluation as measuring
from evenhand.fairlib.proxies.tree import ProxyTree

Told = list[tuple[int, int]]


def counted(told: Told, total: int) -> bool:
    """Whether the calls are in order, about one total, and end there."""
    return told == sorted(told) and {whole for _, whole in told} == {total} and told[-1][0] == total


def outcomes(n: int = 300, *, positives: bool = True) -> Outcomes:
    rng = np.random.default_rng(0)
    label = (rng.random(n) < 0.4).astype(int) if positives else np.zeros(n, int)
    score = rng.random(n)
    return Outcomes(label, (score > 0.5).astype(int), score, {"sex": rng.choice(["F", "M"], n)})


def test_a_part_counts_on_from_what_was_before() -> None:
    told: Told = []
    part = shifted(lambda done, total: told.append((done, total)), 10, 25)
    assert part is not None
    part(1, 15)
    part(15, 15)
    assert told == [(11, 25), (25, 25)]
    assert shifted(None, 10, 25) is None


def test_weights_are_counted_when_their_chunk_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    told: Told = []
    weights = np.array([3, 1, 2])
    monkeypatch.setattr(bootstrap, "CHUNK_BYTES", 4 * weights.nbytes)
    chunks = multinomial_chunks(
        weights,
        10,
        np.random.default_rng(0),
        callback=lambda done, total: told.append((done, total)),
    )
    assert len(next(chunks)) == 4
    assert told == []
    assert [len(chunk) for chunk in chunks] == [4, 2]
    assert told == [(4, 10), (8, 10), (10, 10)]


@pytest.mark.parametrize(("positives", "total"), [(True, 120), (False, 60)])
def test_an_evaluation_counts_its_draws(positives: bool, total: int) -> None:
    told: Told = []
    rows = outcomes(positives=positives)
    found = evaluate(rows, draws=60, callback=lambda done, whole: told.append((done, whole)))
    assert counted(told, total)
    assert found == evaluate(rows, draws=60)


def test_without_draws_an_evaluation_counts_nothing() -> None:
    told: Told = []
    evaluate(outcomes(), draws=0, callback=lambda done, total: told.append((done, total)))
    assert told == []


def test_an_audit_counts_its_search_and_its_draws() -> None:
    rng = np.random.default_rng(1)
    losses, points, labels = (
        rng.exponential(size=(2, 60)),
        rng.normal(size=(60, 2)),
        rng.integers(0, 2, 60),
    )
    told: Told = []

    def audited(**more: Any) -> Any:
        return audit_losses(losses, points, labels, 0.1, draws=30, **more)

    found = audited(callback=lambda done, total: told.append((done, total)))
    assert counted(told, 31)
    assert [done for done, _ in told] == list(range(1, 32))
    plain = audited()
    assert (found.gap, found.low, found.high) == (plain.gap, plain.low, plain.high)


def test_a_certificate_counts_its_rounds() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3)).astype(np.float32)
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    told: Told = []
    found = certify(
        network,
        X,
        metric,
        [0.01],
        draws=20,
        callback=lambda done, total: told.append((done, total)),
    )
    # three searches by default
    assert counted(told, 3 * ROUNDS + 2)
    np.testing.assert_array_equal(
        found.values, certify(network, X, metric, [0.01], draws=20).values
    )


@pytest.mark.long
def test_measures_of_a_proxy_count_their_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "CHUNK_DRAWS", 16)
    rng = np.random.default_rng(3)
    X, sex = rng.normal(size=(200, 2)), rng.choice(["F", "M"], 200)
    proxy = ProxyTree().fit(X, sensitive_features={"sex": sex})
    told: Told = []

    def measured(callback: Callable[[int, int], None] | None = None) -> Any:
        drawn = np.random.default_rng(4)
        return measuring.measure_proxy(
            proxy, X, {"sex": sex}, draws=40, rng=drawn, callback=callback
        )

    found = measured(lambda done, total: told.append((done, total)))
    assert told == [(16, 40), (32, 40), (40, 40)]
    assert found.lows == measured().lows
