"""Parameters of a network in one vector, with named views of its parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.methods.dadi._network import Network, network_of

__all__ = ["NetworkShape"]

Float32 = NDArray[np.float32]
Shapes = Iterator[tuple[str, tuple[int, ...], int]]


@dataclass(frozen=True)
class NetworkShape:
    """
    Sizes of a set encoder with its heads (appendices B and C).

    Parameters
    ----------
    columns, classes, actions : int
        Matrix columns, outputs of the classifier and of the policy (0: no policy).
    hidden : tuple of int
        Units of both hidden layers of the reading block and of the heads.
    memory : int
        Length of memory vectors, and units of the LSTM.
    """

    columns: int
    classes: int
    actions: int
    hidden: tuple[int, int]
    memory: int

    def parts(self) -> Shapes:
        """Name, shape and fan-in of every part; biases have fan-in 0."""
        first, second = self.hidden
        yield "encoder.value", (first,), 2
        yield "encoder.column", (self.columns, first), 2
        yield "encoder.bias1", (first,), 0
        yield "encoder.weight2", (first, second), first
        yield "encoder.bias2", (second,), 0
        yield "encoder.weight3", (second, self.memory), second
        yield "encoder.bias3", (self.memory,), 0
        yield "encoder.lstm", (2 * self.memory, 4 * self.memory), self.memory
        yield "encoder.lstm_bias", (4 * self.memory,), 0
        for head, outputs in (("classify", self.classes), ("policy", self.actions)):
            yield f"{head}.weight1", (self.memory, first), self.memory
            yield f"{head}.bias1", (first,), 0
            yield f"{head}.weight2", (first, second), first
            yield f"{head}.bias2", (second,), 0
            yield f"{head}.weight3", (second, outputs), second
            yield f"{head}.bias3", (outputs,), 0

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(math.prod(shape) for _, shape, _ in self.parts())

    def named(self, vector: Float32) -> dict[str, Float32]:
        """Views of a vector's parts."""
        views, start = {}, 0
        for name, shape, _ in self.parts():
            end = start + math.prod(shape)
            views[name] = vector[start:end].reshape(shape)
            start = end
        return views

    @property
    def sizes(self) -> NDArray[np.int64]:
        """What the compiled code needs to find the parts."""
        return np.array([self.columns, *self.hidden, self.memory, self.classes, self.actions])

    def network(self, vector: Float32) -> Network:
        """The vector as a network of views."""
        network: Network = network_of(vector, self.sizes)
        return network

    def draw(self, random: np.random.Generator) -> Float32:
        r"""
        Start: uniform in :math:`\pm 1/\sqrt{\text{fan-in}}`, biases 0.

        The first layer's fan-in is 2: a value, and the one entry of the columns' indicator that is 1.
        """
        vector = np.zeros(self.size, np.float32)
        views = self.named(vector)
        for name, shape, fan in self.parts():
            if fan:
                bound = 1.0 / math.sqrt(fan)
                views[name][...] = random.uniform(-bound, bound, shape)
        return vector
