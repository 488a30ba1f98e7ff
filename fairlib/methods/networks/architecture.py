"""The default network, and the thread that it runs on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["build_network", "one_thread"]


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


@contextmanager
def one_thread() -> Iterator[None]:
    """
    Run torch on one thread, and as before afterwards.

    Mini-batches are far too small to share out: two threads took ten times as long as one on two cores. The
    sums, and so the weights, then do not depend on the number of cores either.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
