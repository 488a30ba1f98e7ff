"""FAIAS's selector: gradients against enumeration of all selections, and averages over few
of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from evenhand.fairlib.execution import generator, one_thread
from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier
from evenhand.fairlib.methods.faias.players import (
    Features,
    Players,
    Selector,
    even_levels,
    score_function_gradient,
    selections,
)
from evenhand.fairlib.methods.faias.trainer import sensitivity
from evenhand.fairlib.methods.networks.network_training import build_network

# the sensitive group stands in the middle, and one group has two columns
GROUPS = {"a": [0], "b": [4, 1], "k": [2], "c": [3], "d": [5]}
FEATURES = Features.of(GROUPS, ["k"])
FREE = [0, 1, 3, 4]
ROWS = 3
SELECTIONS = torch.zeros(16, 5)
SELECTIONS[:, FREE] = torch.tensor(list(itertools.product((0.0, 1.0), repeat=4)))
THETA = torch.tensor([0.4, -0.8, 0.0, 1.1, -0.2], dtype=torch.float64)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def _seeds(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


X = torch.randn(ROWS, 6, generator=_seeds(1)).double()
PREDICTOR = build_network(6, (8, 8), 3, _seeds(2), nn.SELU).double()
PROBABILITIES = torch.sigmoid(THETA) * FEATURES.free


def _losses(x: Tensor, selection: Tensor) -> Tensor:
    with torch.no_grad():
        return sensitivity(PREDICTOR, FEATURES.masked(x, selection), x, FEATURES.sensitive)[1]


# loss of every row under every selection
TABLE = torch.stack([_losses(X, s.double()[None]) for s in SELECTIONS])


def _chances(theta: Tensor) -> Tensor:
    """Equation 6.5 of all 16 selections."""
    p, s = torch.sigmoid(theta)[FREE], SELECTIONS[:, FREE].double()
    return (p**s * (1 - p) ** (1 - s)).prod(1)


def _expected(theta: Tensor) -> Tensor:
    return _chances(theta) @ TABLE


def _exact() -> Tensor:
    """Derivative of every row's expected loss, shape (ROWS, 5)."""
    return torch.func.jacrev(_expected)(THETA)


def _draws(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Selections of each row, n times, and their losses."""
    draws = torch.rand(n * ROWS, 5, generator=_seeds(seed), dtype=torch.float64)
    selection = (draws < PROBABILITIES).double()
    return selection, _losses(X.repeat(n, 1), selection)


def _close_to_exact(estimates: Tensor) -> None:
    """Means within four standard errors, which are small enough to tell the gradient from zero."""
    each = estimates.reshape(-1, ROWS, 5)
    error = each.std(0) / len(each) ** 0.5
    exact = _exact()
    assert ((each.mean(0) - exact).abs() <= 4 * error + 1e-12).all()
    assert (exact.abs() > 8 * error)[:, FREE].any(1).all()


# --- gradients
# -----------------------------------------------------------------------------------------


def test_enumeration_agrees_with_finite_differences() -> None:
    assert _chances(THETA).sum().item() == pytest.approx(1.0, abs=1e-12)
    step, exact = 1e-5, _exact()
    for j in range(5):
        move = step * torch.eye(5, dtype=torch.float64)[j]
        quotient = (_expected(THETA + move) - _expected(THETA - move)) / (2 * step)
        np.testing.assert_allclose(exact[:, j], quotient, rtol=1e-6, atol=1e-11)
    assert (exact[:, FREE].abs() > 1e-4).all()


def test_score_function_is_unbiased() -> None:
    """Over all pairs of selections of two rows: a baseline that saw its own row would be biased."""
    chances, total = _chances(THETA), torch.zeros(2, 5, dtype=torch.float64)
    for first, second in itertools.product(range(16), repeat=2):
        selection = SELECTIONS[[first, second]].double()
        losses = torch.stack([TABLE[first, 0], TABLE[second, 1]])
        estimate = score_function_gradient(losses, selection, PROBABILITIES[None])
        total += chances[first] * chances[second] * estimate
    np.testing.assert_allclose(total, _exact()[:2], rtol=1e-10, atol=1e-14)


def test_score_function_of_draws_and_what_the_baseline_is_for() -> None:
    selection, losses = _draws(20_000, 3)
    estimates = score_function_gradient(losses, selection, PROBABILITIES[None])
    _close_to_exact(estimates)
    # equation 6.10 as it stands
    plain = losses[:, None] * (selection - PROBABILITIES)
    _close_to_exact(plain)
    assert (estimates[:, FREE].var(0) < 0.7 * plain[:, FREE].var(0)).all()


def test_a_row_on_its_own_has_no_baseline() -> None:
    estimate = score_function_gradient(
        torch.tensor([2.0]), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.25, 0.5]])
    )
    assert estimate.tolist() == [[1.5, -1.0]]


def test_the_baseline_is_the_mean_of_the_other_rows() -> None:
    losses, p = torch.tensor([1.0, 2.0, 6.0]), torch.full((1, 1), 0.5)
    estimate = score_function_gradient(losses, torch.ones(3, 1), p)
    np.testing.assert_allclose(estimate[:, 0], [0.5 * (1 - 4), 0.5 * (2 - 3.5), 0.5 * (6 - 1.5)])


def test_nothing_moves_where_all_is_certain() -> None:
    p = torch.tensor([[1.0, 0.0]])
    s, losses = p.repeat(4, 1), torch.arange(4.0)
    estimate = score_function_gradient(losses, s, p)
    assert estimate.shape == (4, 2)
    assert (estimate == 0).all()


# --- the selector
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.98, 1.0])
def test_first_probabilities_are_those_given(probability: float) -> None:
    selector = Selector(FEATURES, probability)
    found = selector.probabilities(selector.logits(X.float()))
    np.testing.assert_allclose(
        found.detach(), [[probability * (j in FREE) for j in range(5)]], rtol=1e-6
    )
    assert (found[0, FREE] == 1.0).all() == (probability == 1.0)


def test_probabilities_depend_on_readable_features_only() -> None:
    selector = Selector(FEATURES, 0.5, build_network(6, (8,), 5, _seeds(), torch.nn.SELU))
    x = X.float()
    other, moved = x.clone(), x.clone()
    other[:, 2] = 1e6
    moved[:, 1] += 1
    found = selector.probabilities(selector.logits(x))
    assert found.shape == (ROWS, 5)
    assert (found[:, 2] == 0).all()
    assert torch.equal(selector.probabilities(selector.logits(other)), found)
    assert not torch.equal(selector.probabilities(selector.logits(moved)), found)


def test_groups_of_columns_are_masked_together() -> None:
    assert FEATURES.hidden.tolist() == [False, False, True, False, False, False]
    assert FEATURES.free.tolist() == [True, True, False, True, True]
    shown = FEATURES.masked(torch.ones(1, 6), torch.tensor([[0.0, 1.0, 0.0, 1.0, 0.0]]))
    assert shown.tolist() == [[0, 1, 0, 1, 1, 0]]
    two = Features.of(GROUPS, ["d", "b"])
    assert two.sensitive.long().tolist() == [[0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 1, 0]]


def test_the_network_keeps_mean_and_variance() -> None:
    network = build_network(200, (200, 200, 200), 50, _seeds(3), nn.SELU)
    with torch.no_grad():
        outputs = network(torch.randn(500, 200, generator=_seeds(4)))
    assert abs(outputs.mean().item()) < 0.1
    assert outputs.var().item() == pytest.approx(1.0, abs=0.15)
    assert [type(layer).__name__ for layer in network] == ["Linear", "SELU"] * 3 + ["Linear"]


# --- averages over selections
# ---------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    n_masks=st.integers(1, 200),
    probabilities=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=8),
    seed=st.integers(0, 2**31 - 1),
)
def test_shares_of_even_levels_are_within_one(
    n_masks: int, probabilities: list[float], seed: int
) -> None:
    levels = even_levels(n_masks, len(probabilities), np.random.default_rng(seed))
    assert levels.dtype == np.float32
    assert levels.shape == (n_masks, len(probabilities))
    p = np.array(probabilities, dtype=np.float32)
    shares = (levels < p).sum(axis=0)
    assert (np.abs(shares - p.astype(np.float64) * n_masks) <= 1 + 1e-4).all()
    assert (shares[p == 1] == n_masks).all()
    assert (shares[p == 0] == 0).all()


def test_distinct_selections_are_counted() -> None:
    levels = np.array([[0.1, 0.9], [0.2, 0.8], [0.6, 0.1], [0.3, 0.7]], dtype=np.float32)
    masks, counts = selections(levels, np.array([0.5, 0.5], dtype=np.float32))
    assert masks.tolist() == [[False, True], [True, False]]
    assert counts.tolist() == [1, 3]
    # what is never selected is not selected by a level of zero either
    masks, _ = selections(
        np.zeros((1, 2), dtype=np.float32), np.array([0.0, 0.5], dtype=np.float32)
    )
    assert masks.tolist() == [[False, True]]


def _mean(levels: np.ndarray, selector: Selector) -> np.ndarray:
    players = Players(FEATURES, 3, FAIASClassifier(hidden=(8, 8)), _seeds(2))
    players.selector = selector
    return players.mean_over_selections(levels, X.float().numpy())


def _selectors() -> dict[str, Selector]:
    vector = Selector(FEATURES, 0.5)
    network = Selector(FEATURES, 0.5, build_network(6, (8,), 5, _seeds(7), torch.nn.SELU))
    with torch.no_grad():
        assert vector.theta is not None
        vector.theta.copy_(THETA)
    return {"vector": vector, "network": network}


@pytest.mark.parametrize("kind", ["vector", "network"])
def test_many_selections_come_near_the_expectation(kind: str) -> None:
    selector = _selectors()[kind]
    with torch.no_grad():
        p = (
            selector.probabilities(selector.logits(X.float()))
            .double()
            .expand(ROWS, 5)[:, None, FREE]
        )
        s = SELECTIONS[None][:, :, FREE].double()
        chances = (p**s * (1 - p) ** (1 - s)).prod(2)
        outputs = [
            PREDICTOR(FEATURES.masked(X, each.double()[None])).softmax(1) for each in SELECTIONS
        ]
        exact = torch.einsum("ns,snk->nk", chances, torch.stack(outputs)).numpy()
    many = _mean(even_levels(2000, 5, generator(0, "masks")), selector)
    np.testing.assert_allclose(many.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(many, exact, atol=5e-3)
    assert np.ptp(exact, axis=0).max() > 0.1  # rows differ by far more
    even, independent = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        even.append(_mean(even_levels(32, 5, rng), selector) - exact)
        independent.append(_mean(rng.random((32, 5), dtype=np.float32), selector) - exact)
    assert np.square(even).mean() < 0.7 * np.square(independent).mean()
