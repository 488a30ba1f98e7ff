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


class AlongDirections:
    """A network's logits at x + B z, as a function of z alone.

    Parameters
    ----------
    model : DifferentiableModel
        The network.
    x : torch.Tensor, shape (n, d)
        Rows.
    basis : torch.Tensor, shape (d, k)
        Directions B.
    """

    def __init__(self, model: DifferentiableModel, x: Tensor, basis: Tensor) -> None:
        self.model = model
        self.x = x
        self.basis = basis

    def forward(self, z: Tensor) -> Tensor:
        """Logits, shape (n, K); stores the values for the next :meth:`backward`.

        Parameters
        ----------
        z : torch.Tensor, shape (n, k)
            Moves of the rows.

        Returns
        -------
        torch.Tensor, shape (n, K)
            Logits.
        """
        return self.model.forward(self.x + z @ self.basis.T)

    def backward(self, weights: Tensor) -> Tensor:
        """Gradient of ``(weights * logits).sum()`` by the moves of the last :meth:`forward`.

        Parameters
        ----------
        weights : torch.Tensor, shape (n, K)
            Weight of each logit.

        Returns
        -------
        torch.Tensor, shape (n, k)
            Gradients.
        """
        return self.model.backward(weights) @ self.basis


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
        return self._outputs(self.first_inputs(x))[-1]

    def first_inputs(self, x: Tensor) -> Tensor:
        """Inputs of the first layer's units, a new tensor of shape (n, h).

        Parameters
        ----------
        x : torch.Tensor, shape (n, d)
            Rows.

        Returns
        -------
        torch.Tensor, shape (n, h)
            Before ReLU.
        """
        return torch.addmm(self.biases[0], x, self.weights[0].T)

    def _outputs(self, inputs: Tensor) -> list[Tensor]:
        """Output of every layer; after ReLU, but for the last. Changes the first layer's inputs."""
        outputs = [inputs]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            outputs[-1].relu_()
            outputs.append(torch.addmm(bias, outputs[-1], weight.T))
        return outputs

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
        return self.forward_from(self.first_inputs(x))

    def forward_from(self, inputs: Tensor) -> Tensor:
        """As :meth:`forward`, from the inputs of the first layer's units, which are changed.

        Parameters
        ----------
        inputs : torch.Tensor, shape (n, h)
            As :meth:`first_inputs` gives them.

        Returns
        -------
        torch.Tensor, shape (n, K)
            Logits.
        """
        *self.active, logits = self._outputs(inputs)
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
        return self.backward_to_first(weights) @ self.weights[0]

    def backward_to_first(self, weights: Tensor) -> Tensor:
        """As :meth:`backward`, but by the inputs of the first layer's units.

        Parameters
        ----------
        weights : torch.Tensor, shape (n, K)
            Weight of each logit.

        Returns
        -------
        torch.Tensor, shape (n, h)
            Gradients.
        """
        gradient = weights
        for weight, active in zip(self.weights[:0:-1], self.active[::-1], strict=True):
            # derivative of ReLU: 0 where the output is 0
            gradient = torch.ops.aten.threshold_backward(gradient @ weight, active, 0)
        return gradient


class PerceptronAlongDirections(AlongDirections):
    r"""A perceptron at x + B z, with the first layer's product by B in advance.

    With W the first layer's weights, its inputs are those at x plus :math:`z (W B)^\top`: a
    product of k columns instead of two of d. The same holds for the gradient.

    Parameters
    ----------
    model : PerceptronModel
        The network.
    x : torch.Tensor, shape (n, d)
        Rows.
    basis : torch.Tensor, shape (d, k)
        Directions B.
    """

    model: PerceptronModel

    def __init__(self, model: PerceptronModel, x: Tensor, basis: Tensor) -> None:
        super().__init__(model, x, basis)
        self.at_rows = model.first_inputs(x)
        self.first_weights = model.weights[0] @ basis

    def forward(self, z: Tensor) -> Tensor:
        """As :meth:`AlongDirections.forward`.

        Parameters
        ----------
        z : torch.Tensor, shape (n, k)
            Moves of the rows.

        Returns
        -------
        torch.Tensor, shape (n, K)
            Logits.
        """
        return self.model.forward_from(torch.addmm(self.at_rows, z, self.first_weights.T))

    def backward(self, weights: Tensor) -> Tensor:
        """As :meth:`AlongDirections.backward`.

        Parameters
        ----------
        weights : torch.Tensor, shape (n, K)
            Weight of each logit.

        Returns
        -------
        torch.Tensor, shape (n, k)
            Gradients.
        """
        return self.model.backward_to_first(weights) @ self.first_weights


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


def along_directions(model: DifferentiableModel, x: Tensor, basis: Tensor) -> AlongDirections:
    """The network as a function of moves from some rows along a few directions.

    Parameters
    ----------
    model : DifferentiableModel
        The network.
    x : torch.Tensor, shape (n, d)
        Rows.
    basis : torch.Tensor, shape (d, k)
        Directions.

    Returns
    -------
    AlongDirections
        The fastest that fits the model.
    """
    if isinstance(model, PerceptronModel):
        return PerceptronAlongDirections(model, x, basis)
    return AlongDirections(model, x, basis)


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
