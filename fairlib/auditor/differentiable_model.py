"""A network as a function of its input: logits, and gradients with respect to the input alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DifferentiableModel:
    """Any differentiable module from (n, d) to (n, K), through autograd.

    It follows later updates of the network's parameters, and gives them no gradient.

    Parameters
    ----------
    network : nn.Module
        Module from (n, d) to (n, K).
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.frozen = {}
        for name, value in [*network.named_parameters(), *network.named_buffers()]:
            self.frozen[name] = value.detach()

    def logits(self, x: Tensor) -> Tensor:
        """Logits, shape (n, K), without any gradient.

        Parameters
        ----------
        x : torch.Tensor, shape (n, d)
            Rows.

        Returns
        -------
        torch.Tensor, shape (n, K)
            Logits.
        """
        with torch.no_grad():
            return self._call(x)

    def _call(self, x: Tensor) -> Tensor:
        logits: Tensor = torch.func.functional_call(self.network, self.frozen, (x,))
        return logits

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (n, K); stores the values for the next :meth:`backward`.

        Parameters
        ----------
        x : torch.Tensor, shape (n, d)
            Rows.

        Returns
        -------
        torch.Tensor, shape (n, K)
            Logits.
        """
        with torch.inference_mode(False), torch.enable_grad():
            self.input = x.clone().requires_grad_()
            self.output = self._call(self.input)
        return self.output.detach()

    def backward(self, weights: Tensor) -> Tensor:
        """Gradient of ``(weights * logits).sum()`` at the rows of the last :meth:`forward`, shape
        (n, d).

        Parameters
        ----------
        weights : torch.Tensor, shape (n, K)
            Weight of each logit.

        Returns
        -------
        torch.Tensor, shape (n, d)
            Gradients.
        """
        if not self.output.requires_grad:  # the logits do not depend on the rows
            return torch.zeros_like(self.input)
        with torch.inference_mode(False):
            (gradient,) = torch.autograd.grad(
                self.output, self.input, weights.clone(), allow_unused=True
            )
        return torch.zeros_like(self.input) if gradient is None else gradient


class PerceptronModel(DifferentiableModel):
    """A chain of linear layers with ReLU between them, differentiated by hand.

    For the mini-batch of a table, building autograd's graph takes longer than the arithmetic.

    Parameters
    ----------
    layers : sequence
        Linear layers with a bias, in order.
    """

    def __init__(self, layers: list[nn.Linear]) -> None:
        # detached tensors build no graph, and share the memory that the training updates
        self.weights = [layer.weight.detach() for layer in layers]
        self.biases = [layer.bias.detach() for layer in layers]
        self.active: list[Tensor] = []

    def logits(self, x: Tensor) -> Tensor:
        """As :meth:`DifferentiableModel.logits`.

        Parameters
        ----------
        x : torch.Tensor, shape (n, d)
            Rows.

        Returns
        -------
        torch.Tensor, shape (n, K)
            Logits.
        """
        return self._outputs(x)[-1]

    def _outputs(self, x: Tensor) -> list[Tensor]:
        """Output of every layer; after ReLU, but for the last."""
        outputs = []
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = torch.addmm(bias, x, weight.T).relu_()
            outputs.append(x)
        return [*outputs, torch.addmm(self.biases[-1], x, self.weights[-1].T)]

    def forward(self, x: Tensor) -> Tensor:
        """As :meth:`DifferentiableModel.forward`.

        Parameters
        ----------
        x : torch.Tensor, shape (n, d)
            Rows.

        Returns
        -------
        torch.Tensor, shape (n, K)
            Logits.
        """
        *self.active, logits = self._outputs(x)
        return logits

    def backward(self, weights: Tensor) -> Tensor:
        """As :meth:`DifferentiableModel.backward`.

        Parameters
        ----------
        weights : torch.Tensor, shape (n, K)
            Weight of each logit.

        Returns
        -------
        torch.Tensor, shape (n, d)
            Gradients.
        """
        gradient = weights @ self.weights[-1]
        for weight, active in zip(self.weights[-2::-1], self.active[::-1], strict=True):
            # derivative of ReLU: 0 where the output is 0
            gradient = torch.ops.aten.threshold_backward(gradient, active, 0) @ weight
        return gradient


def as_differentiable(network: nn.Module) -> DifferentiableModel:
    """The fastest differentiable model that fits the network.

    Parameters
    ----------
    network : nn.Module
        Module from (n, d) to (n, K).

    Returns
    -------
    DifferentiableModel
        It follows later updates of the network's parameters.
    """
    layers = perceptron_layers(network)
    return DifferentiableModel(network) if layers is None else PerceptronModel(layers)


def perceptron_layers(network: nn.Module) -> list[nn.Linear] | None:
    """The linear layers of a chain with ReLU between them; None for any other network.

    Parameters
    ----------
    network : nn.Module
        Any module.

    Returns
    -------
    list of torch.nn.Linear or None
        In order.
    """
    # a subclass, a hook or a parametrisation may compute something else than its layers
    if type(network) is not nn.Sequential or _hooked(network):
        return None
    layers = list(network)
    linear = [layer for layer in layers[::2] if type(layer) is nn.Linear and layer.bias is not None]
    between = [layer for layer in layers[1::2] if type(layer) is nn.ReLU]
    if len(layers) % 2 == 1 and len(linear) + len(between) == len(layers):
        return linear
    return None


def _hooked(network: nn.Module) -> bool:
    """Whether a hook may change what a module of the network computes."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
