"""The perceptron of the predictor and of the data-dependent selector."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

__all__ = ["selu_network"]


def selu_network(
    n_inputs: int, hidden: Sequence[int], n_outputs: int, generator: torch.Generator | None
) -> nn.Sequential:
    """
    Fully connected network with scaled exponential linear units, linear at the end.

    Weights are normal with variance one over the number of inputs and biases zero, with which SELU layers
    keep mean and variance (Klambauer et al. 2017). No generator leaves them to be loaded.
    """
    layers: list[nn.Module] = []
    width = n_inputs
    for units in (*hidden, n_outputs):
        # without the layer's own first draw, which would come from torch's global generator
        layers += [nn.utils.skip_init(nn.Linear, width, units), nn.SELU()]
        width = units
    network = nn.Sequential(*layers[:-1])
    if generator is not None:
        with torch.no_grad():
            for layer in network:
                if isinstance(layer, nn.Linear):
                    layer.weight.normal_(0.0, layer.in_features**-0.5, generator=generator)
                    layer.bias.zero_()
    return network
