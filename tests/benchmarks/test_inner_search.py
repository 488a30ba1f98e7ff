"""The supremum of SenSeI's search on a grid, and how the shares of a search are counted."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.studies import inner_search
from evenhand.fairlib.distances import SensitiveSubspace


def linear(weights: list[float]) -> nn.Linear:
    """A network whose two outputs are minus and plus a linear function."""
    layer = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-w for w in weights], weights]))
    return layer


def test_supremum_of_a_linear_network_by_hand() -> None:
    # d_Y = (w . (x' - x))^2, with the first feature free: from a corner the far corner is worst,
    # 2 w1 = 2 sideways, and at multiplier 10 nobody moves upwards (w2 = 1: gain below the price)
    X = torch.tensor([[-1.0, -1.0], [1.0, 1.0]])
    found = inner_search.supremum_on_square(linear([1.0, 0.0]), X, multiplier=10.0)
    torch.testing.assert_close(found, torch.tensor([4.0, 4.0]))
    free = inner_search.supremum_on_square(linear([1.0, 1.0]), X, multiplier=0.0)
    torch.testing.assert_close(free, torch.tensor([16.0, 16.0]))


def test_more_steps_reach_no_less_and_the_grid_no_more(monkeypatch) -> None:
    monkeypatch.setattr(inner_search, "MULTIPLIERS", (1.0, 0.01))
    monkeypatch.setattr(inner_search, "STEPS", (0, 10))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    x = torch.rand(20, 2) * 2 - 1
    metric = SensitiveSubspace(indicators=[0]).fit(x.numpy())
    rows = inner_search.shares(
        network,
        metric,
        x,
        lambda multiplier: inner_search.supremum_on_square(network, x, multiplier),
    )
    for row in rows:
        assert 0 < row["share"]["0"] <= row["share"]["10"] <= 1
