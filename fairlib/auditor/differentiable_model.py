"""A network as the auditor sees it: logits, and gradients with respect to the input alone."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

__all__ = ["AutogradModel", "DifferentiableModel", "PerceptronModel", "as_differentiable"]


class DifferentiableModel(Protocol):
    """Logits of rows, and the gradient of a weighted sum of them with respect to the rows."""

    def logits(self, x: Tensor) -> Tensor:
        """Logits, shape (n, K), without any gradient."""

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, K), and remember what the next :meth:`backward` needs."""

    def backward(self, weights: Tensor) -> Tensor:
        """Gradient of ``(weights * logits).sum()`` at the rows of the last :meth:`forward`, shape (n, d)."""


class AutogradModel:
    """
    Any differentiable module, through autograd with respect to its input.

    Parameters
    ----------
    network : torch.nn.Module
        Maps (n, d) to (n, K). Its parameters get no gradient.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.frozen = {
            name: value.detach() for name, value in [*network.named_parameters(), *network.named_buffers()]
        }

    def logits(self, x: Tensor) -> Tensor:
        """Logits, shape (n, K), without any gradient."""
        with torch.no_grad():
            return self._call(x)

    def _call(self, x: Tensor) -> Tensor:
        logits: Tensor = torch.func.functional_call(self.network, self.frozen, (x,))
        return logits

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, K), and remember what the next :meth:`backward` needs."""
        with torch.inference_mode(False), torch.enable_grad():
            self.input = x.clone().requires_grad_()
            self.output = self._call(self.input)
        return self.output.detach()

    def backward(self, weights: Tensor) -> Tensor:
        """Gradient of the weighted sum of logits at the last rows, shape (n, d)."""
        if not self.output.requires_grad:  # it does not depend on the rows
            return torch.zeros_like(self.input)
        with torch.inference_mode(False):
            (gradient,) = torch.autograd.grad(self.output, self.input, weights.clone(), allow_unused=True)
        return torch.zeros_like(self.input) if gradient is None else gradient


class PerceptronModel:
    """
    A chain of linear layers with ReLU between them, differentiated by hand.

    At the sizes of a table's mini-batch, building autograd's graph takes longer than the arithmetic.

    Parameters
    ----------
    layers : sequence of torch.nn.Linear
    """

    def __init__(self, layers: list[nn.Linear]) -> None:
        self.weights = [layer.weight.detach() for layer in layers]
        self.biases = [layer.bias.detach() for layer in layers]
        # detached, so that no graph is built; the same memory, so that they stay in step with the training
        self.active: list[Tensor] = []

    def logits(self, x: Tensor) -> Tensor:
        """Logits, shape (n, K), without any gradient."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = torch.addmm(bias, x, weight.T).relu_()
        return torch.addmm(self.biases[-1], x, self.weights[-1].T)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, K), and remember what the next :meth:`backward` needs."""
        self.active = []
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = torch.addmm(bias, x, weight.T).relu_()
            self.active.append(x)
        return torch.addmm(self.biases[-1], x, self.weights[-1].T)

    def backward(self, weights: Tensor) -> Tensor:
        """Gradient of the weighted sum of logits at the last rows, shape (n, d)."""
        gradient = weights @ self.weights[-1]
        for weight, active in zip(self.weights[-2::-1], self.active[::-1], strict=True):
            # derivative of ReLU: 0 where the output is 0
            gradient = torch.ops.aten.threshold_backward(gradient, active, 0) @ weight
        return gradient


def as_differentiable(network: nn.Module) -> DifferentiableModel:
    """The quickest view that fits the network; it follows later updates of the network's parameters."""
    # a subclass, a hook or a parametrisation may compute something else than its layers say
    layers = list(network) if type(network) is nn.Sequential and not _hooked(network) else []
    linear = [layer for layer in layers[::2] if type(layer) is nn.Linear and layer.bias is not None]
    between = [layer for layer in layers[1::2] if type(layer) is nn.ReLU]
    if len(layers) % 2 == 1 and len(linear) + len(between) == len(layers):
        return PerceptronModel(linear)
    return AutogradModel(network)


def _hooked(network: nn.Module) -> bool:
    return any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
