"""Layout of the matrix, and the parameters of a network: one vector with named parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenhand.fairlib.arrays import Float32


class Columns(NamedTuple):
    """Matrix columns and groups of the t two-valued columns (table) and of the c other columns (own).

    ``low``, ``high`` (t,): the two values.
    """

    table: Any
    table_group: Any
    low: Any
    high: Any
    own: Any
    own_group: Any


class Rows(NamedTuple):
    """People: ``upper`` (n, t) uint8, 1 for the upper of two values, and ``own`` (n, c), other values."""

    upper: Any
    own: Any


class Encoder(NamedTuple):
    r"""Parameters of a set encoder, or their gradients; d columns, H units, D memory values.

    ``value`` (H,) and ``column`` (d, H) are the first layer's weights of :math:`u_j = [x_j\; I(j)]`.
    """

    value: Any
    column: Any
    bias1: Any
    weight2: Any
    bias2: Any
    weight3: Any
    bias3: Any
    lstm: Any
    lstm_bias: Any


class Perceptron(NamedTuple):
    """Weights (inputs, outputs) and biases of three layers, or their gradients."""

    weight1: Any
    bias1: Any
    weight2: Any
    bias2: Any
    weight3: Any
    bias3: Any


class Network(NamedTuple):
    """An encoder with its heads; the adversary's policy has no outputs."""

    encoder: Encoder
    classify: Perceptron
    policy: Perceptron


@dataclass(frozen=True)
class Layout:
    """Groups of the matrix columns, and the columns that take only two values in the training rows.

    A two-valued column (or a constant one) has two memory vectors, which all people share. Another value is
    read as the nearer of the two.
    """

    groups: Mapping[str, Sequence[int]]  # columns of each group, in the order of the actions
    columns: Columns

    @classmethod
    def fit(cls, X: Float32, groups: Mapping[str, Sequence[int]]) -> Layout:
        """Find the two-valued columns of the training rows, shape (n, d)."""
        low, high = X.min(axis=0), X.max(axis=0)
        two = np.equal(X, np.where(low < X, high, low)).all(axis=0)
        return cls.restore(groups, {"two": np.flatnonzero(two), "low": low[two], "high": high[two]})

    @classmethod
    def restore(cls, groups: Mapping[str, Sequence[int]], state: Mapping[str, Any]) -> Layout:
        """Layout of a :meth:`state`."""
        d = sum(len(columns) for columns in groups.values())
        group = np.empty(d, np.int64)
        for g, listed in enumerate(groups.values()):
            group[list(listed)] = g
        two = np.asarray(state["two"], dtype=np.int64)
        low, high = (np.asarray(state[name], dtype=np.float32) for name in ("low", "high"))
        own = np.setdiff1d(np.arange(d), two)
        return cls(dict(groups), Columns(two, group[two], low, high, own, group[own]))

    @property
    def constant(self) -> list[str]:
        """Groups whose columns are all constant: asking them tells nothing."""
        fixed = set(self.columns.table[self.columns.low == self.columns.high])
        return [name for name, columns in self.groups.items() if fixed.issuperset(columns)]

    def state(self) -> dict[str, Any]:
        """What a saved model needs, as plain JSON types."""
        columns = self.columns
        return {
            "two": columns.table.tolist(),
            "low": columns.low.astype(float).tolist(),
            "high": columns.high.astype(float).tolist(),
            "constant": self.constant,
        }

    def rows(self, X: Float32) -> Rows:
        """People as the encoder reads them, from a matrix of shape (n, d)."""
        columns = self.columns
        values = X[:, columns.table]
        upper = np.abs(values - columns.high) < np.abs(values - columns.low)
        # always the same memory layout: kernels are compiled anew for every other one
        return Rows(np.ascontiguousarray(upper, np.uint8), np.ascontiguousarray(X[:, columns.own]))


@dataclass(frozen=True)
class NetworkShape:
    """Sizes of a set encoder with its heads (appendices B and C)."""

    # matrix columns, outputs of the classifier and of the policy (0: no policy)
    columns: int
    classes: int
    actions: int
    hidden: tuple[int, int]  # units of both hidden layers of the reading block and of the heads
    memory: int  # length of memory vectors, and units of the LSTM

    def parts(self) -> Iterator[tuple[str, tuple[int, ...], int]]:
        """Name, shape and fan-in of every part; biases have fan-in 0."""
        (first, second), memory = self.hidden, self.memory
        yield "encoder.value", (first,), 2
        yield "encoder.column", (self.columns, first), 2
        yield "encoder.bias1", (first,), 0
        yield "encoder.weight2", (first, second), first
        yield "encoder.bias2", (second,), 0
        yield "encoder.weight3", (second, memory), second
        yield "encoder.bias3", (memory,), 0
        yield "encoder.lstm", (2 * memory, 4 * memory), memory
        yield "encoder.lstm_bias", (4 * memory,), 0
        for head, outputs in (("classify", self.classes), ("policy", self.actions)):
            widths = (memory, first, second, outputs)
            for layer in (1, 2, 3):
                yield f"{head}.weight{layer}", (widths[layer - 1], widths[layer]), widths[layer - 1]
                yield f"{head}.bias{layer}", (widths[layer],), 0

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

    def network(self, vector: Float32) -> Network:
        """Views of a vector's parts, as kernels take them."""
        views = list(self.named(vector).values())
        return Network(Encoder(*views[:9]), Perceptron(*views[9:15]), Perceptron(*views[15:]))

    def draw(self, random: np.random.Generator) -> Float32:
        r"""First parameters: weights uniform in :math:`\pm 1/\sqrt{\text{fan-in}}`, biases 0.

        The first layer's fan-in is 2: a value, and the one entry of the columns' indicator that is 1.
        """
        vector = np.zeros(self.size, np.float32)
        views = self.named(vector)
        for name, shape, fan in self.parts():
            if fan:
                bound = 1.0 / math.sqrt(fan)
                views[name][...] = random.uniform(-bound, bound, shape)
        return vector
