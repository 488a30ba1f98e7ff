"""The default network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

__all__ = ["build_network"]


def build_network(
    n_features: int, hidden: Sequence[int], n_classes: int, generator: torch.Generator | None
) -> nn.Sequential:
    """Fully connected ReLU network, a logit per class, drawn from `generator` (He uniform, zero bias)."""
    layers: list[nn.Module] = []
    width = n_features
    for units in hidden:
        layers += [_linear(width, units), nn.ReLU()]
        width = units
    layers.append(_linear(width, n_classes))
    network = nn.Sequential(*layers)
    if generator is not None:
        for layer in network:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
                nn.init.zeros_(layer.bias)
    return network


def _linear(width: int, units: int) -> nn.Module:
    """Layer without its first draw of weights, which would come from torch's global generator."""
    return nn.utils.skip_init(nn.Linear, width, units)
