"""The network that reads sets of known feature groups (appendix B): inputs, gradients, and its
file.

Gradients are written out, because the networks are small: most of the time would be a library's
calls.
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

    values: Float32  # shape (n, c)
    # hidden layers of all vectors, those of the people first
    hidden1: Float32
    hidden2: Float32
    own: Float32  # shape (n, c, D)
    table: Float32  # shape (2 t, D): of the columns at their lower, then at their upper value


class Step(NamedTuple):
    """What one step of the processing block computed for n sets."""

    inputs: Float32  # shape (n, 2 D): query and reading before
    gates: Float32  # shape (n, 4 D): input, forget, output gate, candidate
    before: Float32  # shape (n, D): cell
    squashed: Float32  # shape (n, D): tanh of the cell after
    query: Float32  # shape (n, D)
    attention: Float32  # shape (n, 2 t + c)
    reading: Float32  # shape (n, D)


class Sets(NamedTuple):
    """Sets of known memory vectors as the network read them."""

    people: Int  # shape (n,): position in the memory
    own: Float32  # shape (n, c, D)
    table: Float32  # shape (2 t, D)
    start: Float32  # shape (n, 2 t + c): weights of the first reading
    steps: list[Step]

    @classmethod
    def joined(cls, parts: Sequence[Sets]) -> Sets:
        """Sets of one memory, one after another.

        Parameters
        ----------
        parts : sequence of Sets
            At least one, all with the same number of steps.

        Returns
        -------
        Sets
        """
        steps = zip(*(part.steps for part in parts), strict=True)
        return cls(
            people=np.concatenate([part.people for part in parts]),
            own=np.concatenate([part.own for part in parts]),
            table=parts[0].table,
            start=np.concatenate([part.start for part in parts]),
            steps=[Step(*map(np.concatenate, zip(*step, strict=True))) for step in steps],
        )

    def first(self, n: int) -> Sets:
        """The first n of them.

        Parameters
        ----------
        n : int

        Returns
        -------
        Sets
        """
        steps = [Step(*(part[:n] for part in step)) for step in self.steps]
        return Sets(self.people[:n], self.own[:n], self.table, self.start[:n], steps)

    @property
    def readings(self) -> Float32:
        """The last readings, shape (n, D); of an empty set 0."""
        return self.steps[-1].reading

    def weighted(self, weights: Float32) -> Float32:
        """Weighted sums of the memory vectors.

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
        """Inner products with the memory vectors.

        Parameters
        ----------
        vectors : ndarray of float32, shape (n, D)

        Returns
        -------
        ndarray of float32, shape (n, 2 t + c)
        """
        mine = np.matmul(self.own, vectors[:, :, None])[:, :, 0]
        return np.concatenate([vectors @ self.table.T, mine], axis=1)


class Head(NamedTuple):
    """Inputs, both hidden layers and outputs of a head."""

    inputs: Float32
    hidden1: Float32
    hidden2: Float32
    outputs: Float32

    def first(self, n: int) -> Head:
        """What was computed for the first n inputs.

        Parameters
        ----------
        n : int

        Returns
        -------
        Head
        """
        return Head(*(part[:n] for part in self))


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
        hidden1, hidden2, vectors = self._layers("encoder", first)
        return Memory(
            rows.own,
            hidden1,
            hidden2,
            vectors[: n * c].reshape(n, c, self.shape.memory),
            vectors[n * c :],
        )

    def read(self, memory: Memory, people: Int, known: Bool) -> Sets:
        """Read sets of known memory vectors.

        Parameters
        ----------
        memory : Memory
        people : ndarray of int, shape (n,)
            Place in the memory of the person of each set.
        known : ndarray of bool, shape (n, 2 t + c)
            Memory vectors in each set.

        Returns
        -------
        Sets
        """
        lstm = self.parts["encoder.lstm"]
        bias = self.parts["encoder.lstm_bias"]
        width = self.shape.memory
        # r_0 is the mean of the known memory vectors
        mask = known.astype(np.float32)
        start = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1.0)
        sets = Sets(people, memory.own[people], memory.table, start, [])
        penalty = np.where(known, np.float32(0.0), np.float32(UNKNOWN))
        some = mask.max(axis=1, keepdims=True)
        reading = sets.weighted(start)
        query = cell = np.zeros_like(reading)
        for _ in range(self.steps):
            # query q_t, the hidden state of an LSTM; sigmoid(x) = (1 + tanh(x / 2)) / 2 cannot
            # overflow
            inputs = np.concatenate([query, reading], axis=1)
            gates = inputs @ lstm + bias
            gates[:, : 3 * width] *= 0.5
            np.tanh(gates, out=gates)
            gates[:, : 3 * width] *= 0.5
            gates[:, : 3 * width] += 0.5
            enter, keep, leave, candidate = _quarters(gates)
            before = cell
            cell = keep * cell + enter * candidate
            squashed = np.tanh(cell)
            query = leave * squashed
            # attention a_t over the known ones (equation 6), and the reading r_t = sum_j a_jt m_j
            attention = sets.products(query)
            attention += penalty
            attention -= attention.max(axis=1, keepdims=True)
            np.exp(attention, out=attention)
            attention *= some / attention.sum(axis=1, keepdims=True)
            reading = sets.weighted(attention)
            sets.steps.append(Step(inputs, gates, before, squashed, query, attention, reading))
        return sets

    def head(self, name: str, readings: Float32) -> Head:
        """Apply a head to readings.

        Parameters
        ----------
        name : {"classify", "policy"}
        readings : ndarray of float32, shape (n, D)

        Returns
        -------
        Head
        """
        first = readings @ self.parts[f"{name}.weight1"] + self.parts[f"{name}.bias1"]
        return Head(readings, *self._layers(name, first))

    def _layers(self, name: str, first: Float32) -> tuple[Float32, Float32, Float32]:
        """Hidden layers and outputs of a perceptron, from what its first layer gives before the
        ReLU.
        """
        hidden1: Float32 = np.maximum(first, 0.0, out=first)
        hidden2: Float32 = hidden1 @ self.parts[f"{name}.weight2"] + self.parts[f"{name}.bias2"]
        np.maximum(hidden2, 0.0, out=hidden2)
        return (
            hidden1,
            hidden2,
            hidden2 @ self.parts[f"{name}.weight3"] + self.parts[f"{name}.bias3"],
        )

    def _layers_gradient(
        self,
        name: str,
        hidden1: Float32,
        hidden2: Float32,
        outer: Float32,
        gradient: dict[str, Float32],
    ) -> Float32:
        """Add the gradients of a perceptron's later layers; the result is that before the first
        ReLU.
        """
        for layer, inputs in ((3, hidden2), (2, hidden1)):
            gradient[f"{name}.weight{layer}"] += inputs.T @ outer
            gradient[f"{name}.bias{layer}"] += outer.sum(axis=0)
            outer = (outer @ self.parts[f"{name}.weight{layer}"].T) * (inputs > 0)
        gradient[f"{name}.bias1"] += outer.sum(axis=0)
        return outer

    def head_gradient(
        self, name: str, head: Head, outer: Float32, gradient: dict[str, Float32]
    ) -> Float32:
        """Add a head's gradients, given that of its outputs.

        Parameters
        ----------
        name : {"classify", "policy"}
        head : Head
            What :meth:`head` computed.
        outer : ndarray of float32, shape (n, outputs)
            Gradient of the loss by its outputs.
        gradient : dict of str to ndarray of float32
            By name of the part; those of the head are changed in place.

        Returns
        -------
        ndarray of float32, shape (n, D)
            Gradient of the loss by the readings.
        """
        first = self._layers_gradient(name, head.hidden1, head.hidden2, outer, gradient)
        gradient[f"{name}.weight1"] += head.inputs.T @ first
        return first @ self.parts[f"{name}.weight1"].T

    def encoder_gradient(
        self, memory: Memory, sets: Sets, outer: Float32, gradient: dict[str, Float32]
    ) -> None:
        """Add the encoder's gradients, given that of the readings.

        Parameters
        ----------
        memory : Memory
        sets : Sets
            What :meth:`read` computed from it, n sets.
        outer : ndarray of float32, shape (n, D)
            Gradient of the loss by the last readings.
        gradient : dict of str to ndarray of float32
            By name of the part; those of the encoder are changed in place.
        """
        shared = len(memory.table)
        width = self.shape.memory
        table: Float32 = np.zeros_like(memory.table)
        own: Float32 = np.zeros_like(sets.own)

        def add(weights: Float32, vectors: Float32) -> None:
            """Add gradients of memory vectors, through sums of products of weights and vectors.

            Parameters
            ----------
            weights : ndarray of float32, shape (n, 2 t + c)
            vectors : ndarray of float32, shape (n, D)
            """
            nonlocal table, own
            table += weights[:, :shared].T @ vectors
            own += weights[:, shared:, None] * vectors[:, None]

        later_query = later_cell = np.zeros_like(outer)
        for step in reversed(sets.steps):
            # through r_t = sum_j a_jt m_j and the softmax: d_score_j = a_j (m_j - r) . d_r
            mean = (outer * step.reading).sum(axis=1, keepdims=True)
            d_scores = step.attention * (sets.products(outer) - mean)
            add(step.attention, outer)
            add(d_scores, step.query)
            # through the LSTM's gates and cell
            d_query = sets.weighted(d_scores) + later_query
            enter, keep, leave, candidate = _quarters(step.gates)
            d_cell = later_cell + d_query * leave * (1.0 - step.squashed**2)
            d_gates = np.concatenate(
                [
                    d_cell * candidate * enter * (1.0 - enter),
                    d_cell * step.before * keep * (1.0 - keep),
                    d_query * step.squashed * leave * (1.0 - leave),
                    d_cell * enter * (1.0 - candidate**2),
                ],
                axis=1,
            )
            gradient["encoder.lstm"] += step.inputs.T @ d_gates
            gradient["encoder.lstm_bias"] += d_gates.sum(axis=0)
            d_inputs = d_gates @ self.parts["encoder.lstm"].T
            later_query = d_inputs[:, :width]
            outer = d_inputs[:, width:]
            later_cell = d_cell * keep
        add(sets.start, outer)
        # sum over the sets of every person, then through the reading block
        n, c = memory.values.shape
        of_person = (np.arange(n)[:, None] == sets.people).astype(np.float32)
        mine = (of_person @ own.reshape(len(own), c * width)).reshape(n * c, width)
        first = self._layers_gradient(
            "encoder", memory.hidden1, memory.hidden2, np.concatenate([mine, table]), gradient
        )
        by_person = first[: n * c].reshape(n, c, first.shape[1])
        by_table = first[n * c :]
        gradient["encoder.value"] += self.layout.two_values @ by_table
        gradient["encoder.value"] += memory.values.reshape(-1) @ first[: n * c]
        gradient["encoder.column"][self.layout.own] += by_person.sum(axis=0)
        gradient["encoder.column"][self.layout.two] += by_table.reshape(2, -1, first.shape[1]).sum(
            axis=0
        )

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
            everybody = np.arange(len(rows.own))
            sets = self.read(self.memory(rows), everybody, self.layout.known(rows, known[part]))
            outputs.append(self.head(head, sets.readings).outputs)
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
                readings = self.read(
                    memory, at, self.layout.known(rows.take(at), known[people])
                ).readings
                action = best_actions(
                    self.head("policy", readings).outputs, allowed & ~known[people]
                )
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


def _quarters(gates: Float32) -> tuple[Float32, ...]:
    """Input, forget, output gate and candidate."""
    width = gates.shape[1] // 4
    return tuple(gates[:, k * width : (k + 1) * width] for k in range(4))


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
