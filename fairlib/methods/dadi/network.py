"""The network that reads sets of known feature groups (appendix B): inputs, outputs, and its file.

:mod:`.set_training` reads the sets in training, with their gradients.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.execution import Progress
from evenhand.fairlib.methods.method_base import read_tensors

CHUNK_ROWS = 1024
UNKNOWN = -1e30  # a finite score: a softmax of infinities alone is no number


class Rows(NamedTuple):
    """People: ``upper`` (n, t), whether a value is the upper of two, and ``own`` (n, c), other
    values.
    """

    upper: Bool
    own: Float32

    def take(self, people: NDArray[Any] | slice) -> Rows:
        """Some of the people.

        Parameters
        ----------
        people : ndarray of int or bool, or slice
            Their positions.

        Returns
        -------
        Rows
        """
        return Rows(self.upper[people], self.own[people])


class Memory(NamedTuple):
    """Memory vectors of n people, and those of t two-valued columns, which all people share."""

    own: Float32  # shape (n, c, D)
    table: Float32  # shape (2 t, D): of the columns at their lower, then at their upper value

    def weighted(self, weights: Float32) -> Float32:
        """Weighted sums of everybody's memory vectors.

        Parameters
        ----------
        weights : ndarray of float32, shape (n, 2 t + c)

        Returns
        -------
        ndarray of float32, shape (n, D)
        """
        shared = len(self.table)
        mine = np.matmul(weights[:, None, shared:], self.own)[:, 0]
        return weights[:, :shared] @ self.table + mine

    def products(self, vectors: Float32) -> Float32:
        """Inner products of everybody's memory vectors with one vector of each.

        Parameters
        ----------
        vectors : ndarray of float32, shape (n, D)

        Returns
        -------
        ndarray of float32, shape (n, 2 t + c)
        """
        mine = np.matmul(self.own, vectors[:, :, None])[:, :, 0]
        return np.concatenate([vectors @ self.table.T, mine], axis=1)


@dataclass(frozen=True)
class Layout:
    """Groups of the matrix columns, and the columns that take only two values in the training rows.

    A two-valued column (or a constant one) has two memory vectors, which all people share. Another
    value is read as the nearer of the two. The others have one memory vector a person.
    """

    groups: Mapping[str, Sequence[int]]  # columns of each group, in the order of the actions
    two: Int  # shape (t,): two-valued columns, and their values
    low: Float32
    high: Float32
    own: Int  # shape (c,): the other columns
    group_of: Int  # shape (d,): group of every column

    @classmethod
    def fit(cls, X: Float32, groups: Mapping[str, Sequence[int]]) -> Layout:
        """Find the two-valued columns of the training rows.

        Parameters
        ----------
        X : ndarray of float32, shape (n, d)
        groups : mapping of str to sequence of int
            Columns of each group, in the order of the actions.

        Returns
        -------
        Layout
        """
        low = X.min(axis=0)
        high = X.max(axis=0)
        two = np.equal(X, np.where(low < X, high, low)).all(axis=0)
        return cls.restore(groups, {"two": np.flatnonzero(two), "low": low[two], "high": high[two]})

    @classmethod
    def restore(cls, groups: Mapping[str, Sequence[int]], state: Mapping[str, Any]) -> Layout:
        """Layout of a :meth:`state`.

        Parameters
        ----------
        groups : mapping of str to sequence of int
            Columns of each group, in the order of the actions.
        state : mapping of str to any
            ``two``, ``low`` and ``high``.

        Returns
        -------
        Layout
        """
        d = sum(len(columns) for columns in groups.values())
        group_of = np.empty(d, np.int64)
        for g, listed in enumerate(groups.values()):
            group_of[list(listed)] = g
        two = np.asarray(state["two"], dtype=np.int64)
        low, high = (np.asarray(state[name], dtype=np.float32) for name in ("low", "high"))
        return cls(dict(groups), two, low, high, np.setdiff1d(np.arange(d), two), group_of)

    @property
    def two_values(self) -> Float32:
        """Lower, then upper values of the two-valued columns, shape (2 t,)."""
        return np.concatenate([self.low, self.high])

    @property
    def constant(self) -> list[str]:
        """Groups whose columns are all constant: their answers are known beforehand."""
        fixed = set(self.two[self.low == self.high])
        return [name for name, columns in self.groups.items() if fixed.issuperset(columns)]

    def state(self) -> dict[str, Any]:
        """What a saved model needs, as plain JSON types."""
        return {
            "two": self.two.tolist(),
            "low": self.low.astype(float).tolist(),
            "high": self.high.astype(float).tolist(),
            "constant": self.constant,
        }

    def rows(self, X: Float32) -> Rows:
        """People as the network reads them.

        Parameters
        ----------
        X : ndarray of float32, shape (n, d)

        Returns
        -------
        Rows
        """
        values = X[:, self.two]
        upper = np.abs(values - self.high) < np.abs(values - self.low)
        return Rows(upper, X[:, self.own])

    def answers(self, X: Float32, groups: Bool) -> Float32:
        """Values of known groups in a matrix.

        Parameters
        ----------
        X : ndarray of float32, shape (n, d)
        groups : ndarray of bool, shape (n, G)
            Known groups.

        Returns
        -------
        ndarray of float32, shape (n, d)
            NaN for unknown values.
        """
        return np.where(groups[:, self.group_of], X, np.float32(np.nan))

    def known(self, rows: Rows, groups: Bool) -> Bool:
        """Known memory vectors of people.

        Parameters
        ----------
        rows : Rows
            n people.
        groups : ndarray of bool, shape (n, G)
            Groups that are known of each.

        Returns
        -------
        ndarray of bool, shape (n, 2 t + c)
        """
        known = groups[:, self.group_of]
        two = known[:, self.two]
        return np.concatenate([two & ~rows.upper, two & rows.upper, known[:, self.own]], axis=1)


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
        """Name, shape and fan-in of every part; biases have fan-in 0.

        ``encoder.value`` and ``encoder.column`` are the first layer's weights of a column's value
        and of its indicator. The LSTM's inputs are query and reading; its gates are input, forget,
        output, candidate.
        """
        first, second = self.hidden
        memory = self.memory
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
            for layer in (1, 2, 3) if outputs else ():
                yield f"{head}.weight{layer}", (widths[layer - 1], widths[layer]), widths[layer - 1]
                yield f"{head}.bias{layer}", (widths[layer],), 0

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(math.prod(shape) for _, shape, _ in self.parts())

    def named(self, vector: Float32) -> dict[str, Float32]:
        """Views of a vector's parts.

        Parameters
        ----------
        vector : ndarray of float32, shape (size,)

        Returns
        -------
        dict of str to ndarray of float32
            By name of the part, in the order of :meth:`parts`.
        """
        views = {}
        start = 0
        for name, shape, _ in self.parts():
            end = start + math.prod(shape)
            views[name] = vector[start:end].reshape(shape)
            start = end
        return views

    def draw(self, random: np.random.Generator) -> Float32:
        r"""First parameters: weights uniform in :math:`\pm 1/\sqrt{\text{fan-in}}`, biases 0.

        The first layer's fan-in is 2: a value, and the one entry of the columns' indicator that is
        1.

        Parameters
        ----------
        random : numpy.random.Generator

        Returns
        -------
        ndarray of float32, shape (size,)
        """
        vector = np.zeros(self.size, np.float32)
        views = self.named(vector)
        for name, shape, fan in self.parts():
            if fan:
                bound = 1.0 / math.sqrt(fan)
                views[name][...] = random.uniform(-bound, bound, shape)
        return vector


class SetNetwork:
    """Encoder, classifier and policy, with all parameters in one vector; the adversary has no
    policy.

    Parameters
    ----------
    shape : NetworkShape
    vector : ndarray of float32, shape (shape.size,)
        The parameters, of which ``parts`` are views.
    layout : Layout
    steps : int
        Of the processing block.
    """

    def __init__(self, shape: NetworkShape, vector: Float32, layout: Layout, steps: int) -> None:
        self.shape = shape
        self.vector = vector
        self.layout = layout
        self.steps = steps  # of the processing block
        self.parts = shape.named(vector)

    def copy(self) -> SetNetwork:
        """A network with its own parameters of the same values."""
        return SetNetwork(self.shape, self.vector.copy(), self.layout, self.steps)

    def memory(self, rows: Rows) -> Memory:
        """Memory vectors m_j (appendix B): those of the table once, the others for every person.

        Parameters
        ----------
        rows : Rows

        Returns
        -------
        Memory
        """
        layout = self.layout
        n, c = rows.own.shape
        value = self.parts["encoder.value"]
        column = self.parts["encoder.column"]
        # the indicator I(j) selects a row of the first layer's weights
        own = rows.own[:, :, None] * value + column[layout.own]
        table = layout.two_values[:, None] * value + column[np.tile(layout.two, 2)]
        first = (
            np.concatenate([own.reshape(n * c, value.size), table]) + self.parts["encoder.bias1"]
        )
        vectors = self._layers("encoder", first)
        return Memory(
            vectors[: n * c].reshape(n, c, self.shape.memory),
            vectors[n * c :],
        )

    def read(self, memory: Memory, known: Bool) -> Float32:
        """Read sets of known memory vectors.

        Parameters
        ----------
        memory : Memory
            Of n people.
        known : ndarray of bool, shape (n, 2 t + c)
            Memory vectors in the set of each.

        Returns
        -------
        ndarray of float32, shape (n, D)
            The last readings; of an empty set 0.
        """
        lstm = self.parts["encoder.lstm"]
        bias = self.parts["encoder.lstm_bias"]
        width = self.shape.memory
        # r_0 is the mean of the known memory vectors
        mask = known.astype(np.float32)
        reading = memory.weighted(mask / np.maximum(mask.sum(axis=1, keepdims=True), 1.0))
        penalty = np.where(known, np.float32(0.0), np.float32(UNKNOWN))
        some = mask.max(axis=1, keepdims=True)
        query = cell = np.zeros_like(reading)
        for _ in range(self.steps):
            # query q_t, the hidden state of an LSTM; sigmoid(x) = (1 + tanh(x / 2)) / 2 cannot
            # overflow
            gates = np.concatenate([query, reading], axis=1) @ lstm + bias
            gates[:, : 3 * width] *= 0.5
            np.tanh(gates, out=gates)
            gates[:, : 3 * width] *= 0.5
            gates[:, : 3 * width] += 0.5
            enter, keep, leave, candidate = np.split(gates, 4, axis=1)
            cell = keep * cell + enter * candidate
            query = leave * np.tanh(cell)
            # attention a_t over the known ones (equation 6), and the reading r_t = sum_j a_jt m_j
            attention = memory.products(query)
            attention += penalty
            attention -= attention.max(axis=1, keepdims=True)
            np.exp(attention, out=attention)
            attention *= some / attention.sum(axis=1, keepdims=True)
            reading = memory.weighted(attention)
        return reading

    def head(self, name: str, readings: Float32) -> Float32:
        """Outputs of a head for readings.

        Parameters
        ----------
        name : {"classify", "policy"}
        readings : ndarray of float32, shape (n, D)

        Returns
        -------
        ndarray of float32, shape (n, outputs)
        """
        first = readings @ self.parts[f"{name}.weight1"] + self.parts[f"{name}.bias1"]
        return self._layers(name, first)

    def _layers(self, name: str, first: Float32) -> Float32:
        """Outputs of a perceptron, from what its first layer gives before the ReLU."""
        hidden: Float32 = np.maximum(first, 0.0, out=first)
        hidden = hidden @ self.parts[f"{name}.weight2"] + self.parts[f"{name}.bias2"]
        np.maximum(hidden, 0.0, out=hidden)
        return hidden @ self.parts[f"{name}.weight3"] + self.parts[f"{name}.bias3"]

    def outputs(self, head: str, X: Float32, known: Bool) -> Float32:
        """Outputs of a head for rows of a matrix.

        Parameters
        ----------
        head : {"classify", "policy"}
        X : ndarray of float32, shape (n, d)
        known : ndarray of bool, shape (n, G)
            Groups that are known of each row.

        Returns
        -------
        ndarray of float32, shape (n, outputs)
        """
        outputs = []
        for part in _chunks(len(X)):
            rows = self.layout.rows(X[part])
            readings = self.read(self.memory(rows), self.layout.known(rows, known[part]))
            outputs.append(self.head(head, readings))
        return np.concatenate(outputs)

    def acquire(
        self, allowed: Bool, X: Float32, known: Bool, callback: Progress | None = None
    ) -> Int:
        """Ask group after group until the policy stops.

        Parameters
        ----------
        allowed : ndarray of bool, shape (G,)
            Groups that may be asked.
        X : ndarray of float32, shape (n, d)
            The answers.
        known : ndarray of bool, shape (n, G)
            Groups known at first; changed in place: afterwards also those asked.
        callback : callable or None, default None
            Called with (done, total), which count rows.

        Returns
        -------
        ndarray of int, shape (n, G)
            The groups in the order in which they were asked, then -1.
        """
        n = len(X)
        stop = allowed.size
        order = np.full(known.shape, -1, np.int64)
        for part in _chunks(n):
            people = np.arange(part.start, min(part.stop, n))
            rows = self.layout.rows(X[part])
            memory = self.memory(rows)
            # one question to everybody whom the policy asked before
            for step in range(stop + 1):
                at = people - part.start
                asking = Memory(memory.own[at], memory.table)
                readings = self.read(asking, self.layout.known(rows.take(at), known[people]))
                action = best_actions(self.head("policy", readings), allowed & ~known[people])
                asked = action < stop
                people = people[asked]
                action = action[asked]
                if not people.size:
                    break
                known[people, action] = True
                order[people, step] = action
            if callback is not None:
                callback(min(part.stop, n), n)
        return order

    def save(self, path: Path, more: Mapping[str, Any]) -> None:
        """Write parameters, layout and more into one safetensors file.

        Parameters
        ----------
        path : Path
        more : mapping of str to any
            Plain JSON types, added to the description.
        """
        from safetensors.numpy import save_file

        description = {
            "groups": list(self.layout.groups.items()),  # their order is that of the actions
            "layout": self.layout.state(),
            "hidden": list(self.shape.hidden),
            "memory_size": self.shape.memory,
            **more,
        }
        tensors = {name: np.ascontiguousarray(part) for name, part in self.parts.items()}
        save_file(tensors, str(path), metadata={"dadi": json.dumps(description, sort_keys=True)})

    @classmethod
    def load(cls, path: Path, steps: int) -> tuple[SetNetwork, dict[str, Any]]:
        """Read the network and the description that :meth:`save` wrote.

        Parameters
        ----------
        path : Path
        steps : int
            Of the processing block; the file does not hold them.

        Returns
        -------
        SetNetwork
        dict of str to any
        """
        metadata, tensors = read_tensors(path, "numpy")
        description = json.loads(metadata["dadi"])
        layout = Layout.restore(dict(description["groups"]), description["layout"])
        first, second = description["hidden"]
        actions = len(layout.groups) + 1
        shape = NetworkShape(
            layout.group_of.size, 2, actions, (first, second), description["memory_size"]
        )
        network = cls(shape, np.zeros(shape.size, np.float32), layout, steps)
        for name, part in network.parts.items():
            part[...] = tensors[name]
        return network, description


def best_actions(values: Float32, open_groups: Bool) -> Int:
    """Action of the highest value among the groups left to ask and stopping, the last.

    Parameters
    ----------
    values : ndarray of float32, shape (n, G + 1)
    open_groups : ndarray of bool, shape (n, G)
        Groups left to ask.

    Returns
    -------
    ndarray of int, shape (n,)
        G where no group has a higher value than stopping.
    """
    possible = np.where(open_groups, values[:, :-1], -np.inf)
    best = possible.argmax(axis=1)
    higher = possible[np.arange(len(best)), best] > values[:, -1]
    return np.where(higher, best, values.shape[1] - 1)


def _chunks(n: int) -> Iterator[slice]:
    """Parts of n rows."""
    return (slice(start, start + CHUNK_ROWS) for start in range(0, n, CHUNK_ROWS))


def probabilities(logits: Float32) -> Float:
    """Softmax of each row, in float64.

    Parameters
    ----------
    logits : ndarray of float32, shape (n, K)

    Returns
    -------
    ndarray of float, shape (n, K)
    """
    return softmax(logits.astype(np.float64), axis=1)
