"""Derivatives of models against autograd."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from evenhand.fairlib.auditor.differentiable_model import (
    DifferentiableModel,
    PerceptronModel,
    along_directions,
    as_differentiable,
)
from evenhand.fairlib.methods.networks.network_training import build_network


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- views and goals ---


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_the_perceptrons_own_derivative_is_that_of_autograd(
    hidden: tuple[int, ...], classes: int
) -> None:
    network = build_network(4, hidden, classes, seeded(11))
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.bias, generator=seeded(12))
    quick, general = as_differentiable(network), DifferentiableModel(network)
    assert type(quick) is PerceptronModel
    x = torch.randn(9, 4, generator=seeded(13))
    weights = torch.randn(9, classes, generator=seeded(14))
    expected_input = x.clone().requires_grad_()
    expected = network(expected_input)
    (gradient,) = torch.autograd.grad((expected * weights).sum(), expected_input)
    for view in (quick, general):
        torch.testing.assert_close(view.logits(x), expected.detach())
        torch.testing.assert_close(view.forward(x), expected.detach())
        torch.testing.assert_close(view.backward(weights), gradient)
        assert not view.logits(x).requires_grad


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
@pytest.mark.parametrize("directions", [0, 2])
def test_moves_along_directions_are_those_of_the_rows(
    hidden: tuple[int, ...], directions: int
) -> None:
    network = build_network(4, hidden, 3, seeded(11))
    x = torch.randn(9, 4, generator=seeded(13))
    basis = torch.linalg.qr(torch.randn(4, directions, generator=seeded(17)))[0]
    z = torch.randn(9, directions, generator=seeded(18))
    weights = torch.randn(9, 3, generator=seeded(14))
    points = (x + z @ basis.T).requires_grad_()
    expected = network(points)
    (gradient,) = torch.autograd.grad((expected * weights).sum(), points)
    for view in (as_differentiable(network), DifferentiableModel(network)):
        moved = along_directions(view, x, basis)
        for _ in range(2):
            # the rows' own values are not changed by a move
            torch.testing.assert_close(moved.forward(z), expected.detach())
        torch.testing.assert_close(moved.backward(weights), gradient @ basis)


def hooked() -> nn.Sequential:
    """A chain of layers that gives something else than its layers do."""
    network = build_network(3, (4,), 2, seeded(24))
    network[0].register_forward_hook(lambda layer, given, output: output + 1)
    return network


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 2), nn.ReLU()),
        nn.Sequential(nn.ReLU(), nn.Linear(3, 2)),
        nn.Sequential(
            nn.Linear(3, 4), nn.ReLU(), nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))
        ),
        nn.Sequential(),
        hooked(),
        nn.Linear(3, 2),
    ],
    ids=str,
)
def test_only_linear_layers_and_relu_have_own_derivatives(
    network: nn.Module,
) -> None:
    assert type(as_differentiable(network)) is DifferentiableModel


def test_views_follow_the_networks_training() -> None:
    network = build_network(3, (5,), 2, seeded(15))
    x = torch.randn(4, 3, generator=seeded(16))
    views = [as_differentiable(network), DifferentiableModel(network)]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.5)
    for view in views:
        torch.testing.assert_close(view.logits(x), network(x).detach())
