"""Reading sets of known memory vectors in training, with what their gradients need.

A memory vector is that of a column at a value: people who share the value share the vector. So each
distinct pair of a column and a value is encoded once, each distinct set of pairs is read once, and
attention visits only the known pairs.
:class:`.network.SetNetwork` computes the same outputs without compiled kernels, which would take
longer to load than a model to predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float32, Int
from evenhand.fairlib.methods.dadi import _attention_kernels as kernels
from evenhand.fairlib.methods.dadi.network import Layout, Rows, SetNetwork

Int32 = NDArray[np.int32]


class Pairs(NamedTuple):
    """Distinct pairs of a column and a value among n people, and which of them each person has."""

    columns: Int  # shape (P,)
    values: Float32  # shape (P,)
    of_person: Int32  # shape (n, d): the pair of every column

    @classmethod
    def fit(cls, layout: Layout, rows: Rows) -> Pairs:
        """Find the pairs of some people.

        Parameters
        ----------
        layout : Layout
        rows : Rows
            n people.

        Returns
        -------
        Pairs
            Those of the two-valued columns first: lower, then upper values.
        """
        t = layout.two.size
        columns = [np.tile(layout.two, 2)]
        values = [layout.two_values]
        of_person = np.empty((len(rows.own), layout.group_of.size), np.int32)
        of_person[:, layout.two] = np.arange(t) + t * rows.upper
        count = 2 * t
        for position, column in enumerate(layout.own):
            distinct, place = np.unique(rows.own[:, position], return_inverse=True)
            of_person[:, column] = count + place
            columns.append(np.full(distinct.size, column))
            values.append(distinct)
            count += distinct.size
        return cls(np.concatenate(columns), np.concatenate(values), of_person)


class Sets(NamedTuple):
    """Sets of pairs, one after another."""

    members: Int32  # shape (total,): positions of the pairs
    starts: Int32  # shape (n + 1,): where each set begins among the members, and the total

    @classmethod
    def of_columns(cls, pairs: Int32, known: Bool) -> Sets:
        """Sets of the pairs of known columns.

        Parameters
        ----------
        pairs : ndarray of int32, shape (n, d)
            The pair of every column.
        known : ndarray of bool, shape (n, d)
            Known columns.

        Returns
        -------
        Sets
        """
        starts = np.zeros(len(known) + 1, np.int32)
        np.cumsum(known.sum(axis=1), out=starts[1:])
        return cls(pairs[known], starts)

    @classmethod
    def joined(cls, parts: Sequence[Sets]) -> Sets:
        """Several sets of sets, one after another.

        Parameters
        ----------
        parts : sequence of Sets

        Returns
        -------
        Sets
        """
        starts = [np.zeros(1, np.int32)]
        total = 0
        for part in parts:
            starts.append(part.starts[1:] + np.int32(total))
            total += part.members.size
        return cls(np.concatenate([part.members for part in parts]), np.concatenate(starts))

    def first(self, n: int) -> Sets:
        """The first n of them.

        Parameters
        ----------
        n : int

        Returns
        -------
        Sets
        """
        return Sets(self.members[: self.starts[n]], self.starts[: n + 1])

    def numbered(self, numbers: dict[bytes, int]) -> tuple[Int, Bool]:
        """Number the sets: equal ones have the same number.

        Parameters
        ----------
        numbers : dict of bytes to int
            Number of every set so far; new ones are added.

        Returns
        -------
        ndarray of int, shape (n,)
        ndarray of bool, shape (n,)
            Whether a set is a new one, and the first of its equals.
        """
        content = self.members.tobytes()
        ends = (self.members.itemsize * self.starts).tolist()
        listed: list[int] = []
        new: list[int] = []
        for start, end in pairwise(ends):
            key = content[start:end]
            number = numbers.get(key)
            if number is None:
                number = len(numbers)
                numbers[key] = number
                new.append(len(listed))
            listed.append(number)
        is_new = np.zeros(len(listed), bool)
        is_new[new] = True
        return np.array(listed), is_new

    def take(self, some: Bool) -> Sets:
        """Some of them.

        Parameters
        ----------
        some : ndarray of bool, shape (n,)

        Returns
        -------
        Sets
        """
        sizes = np.diff(self.starts)
        starts = np.zeros(np.count_nonzero(some) + 1, np.int32)
        np.cumsum(sizes[some], out=starts[1:])
        return Sets(self.members[np.repeat(some, sizes)], starts)


class Memory(NamedTuple):
    """Memory vectors of m pairs."""

    columns: Int  # shape (m,)
    values: Float32  # shape (m,)
    # hidden layers, and the vectors
    hidden1: Float32
    hidden2: Float32
    vectors: Float32  # shape (m, D)
    place: Int32  # shape (P,): position of each of all pairs, where it is one of the m

    @classmethod
    def of_pairs(cls, network: SetNetwork, pairs: Pairs, used: Int32) -> Memory:
        """Compute the memory vectors of some pairs.

        Parameters
        ----------
        network : SetNetwork
        pairs : Pairs
        used : ndarray of int32
            Positions of the pairs, repeated or not.

        Returns
        -------
        Memory
        """
        parts = network.parts
        is_used = np.zeros(len(pairs.columns), bool)
        is_used[used] = True
        distinct = np.flatnonzero(is_used)
        place = np.empty(len(is_used), np.int32)
        place[distinct] = np.arange(distinct.size, dtype=np.int32)
        columns = pairs.columns[distinct]
        values = pairs.values[distinct]
        hidden1 = kernels.first_layer(
            columns,
            values,
            parts["encoder.value"],
            parts["encoder.column"],
            parts["encoder.bias1"],
        )
        hidden2 = hidden1 @ parts["encoder.weight2"]
        kernels.relu(hidden2, parts["encoder.bias2"])
        vectors = hidden2 @ parts["encoder.weight3"] + parts["encoder.bias3"]
        return cls(columns, values, hidden1, hidden2, vectors, place)


class Readings(NamedTuple):
    """What a network computed for n sets in its steps, for the gradient."""

    sets: Sets  # of positions in the memory
    inputs: Float32  # shape (steps + 1, n, 2 D): query and reading before each step, and after all
    gates: Float32  # shape (steps, n, 4 D): input, forget, output gate, candidate
    cells: Float32  # shape (steps + 1, n, D): before each step, and after all
    squashed: Float32  # shape (steps, n, D): tanh of the cell after each step
    weights: Float32  # shape (steps + 1, total): of the mean, and the attention of each step

    @classmethod
    def joined(cls, parts: Sequence[Readings]) -> Readings:
        """Readings from one memory, one after another.

        Parameters
        ----------
        parts : sequence of Readings
            At least one, all with the same number of steps.

        Returns
        -------
        Readings
        """
        return cls(
            sets=Sets.joined([part.sets for part in parts]),
            inputs=np.concatenate([part.inputs for part in parts], axis=1),
            gates=np.concatenate([part.gates for part in parts], axis=1),
            cells=np.concatenate([part.cells for part in parts], axis=1),
            squashed=np.concatenate([part.squashed for part in parts], axis=1),
            weights=np.concatenate([part.weights for part in parts], axis=1),
        )

    def first(self, n: int) -> Readings:
        """Those of the first n sets.

        Parameters
        ----------
        n : int

        Returns
        -------
        Readings
        """
        sets = self.sets.first(n)
        return Readings(
            sets=sets,
            inputs=self.inputs[:, :n],
            gates=self.gates[:, :n],
            cells=self.cells[:, :n],
            squashed=self.squashed[:, :n],
            weights=self.weights[:, : sets.members.size],
        )

    @property
    def last(self) -> Float32:
        """The last readings, shape (n, D); of an empty set 0."""
        return self.inputs[-1, :, self.inputs.shape[2] // 2 :]


def read(network: SetNetwork, memory: Memory, sets: Sets) -> Readings:
    """Read sets of known memory vectors.

    Parameters
    ----------
    network : SetNetwork
    memory : Memory
        Of this network; it holds all pairs of the sets.
    sets : Sets
        n sets, of positions among all pairs.

    Returns
    -------
    Readings
    """
    lstm = network.parts["encoder.lstm"]
    bias = network.parts["encoder.lstm_bias"]
    width = network.shape.memory
    steps = network.steps
    n = len(sets.starts) - 1
    members = memory.place[sets.members]
    inputs = np.empty((steps + 1, n, 2 * width), np.float32)
    gates = np.empty((steps, n, 4 * width), np.float32)
    cells = np.empty((steps + 1, n, width), np.float32)
    squashed = np.empty((steps, n, width), np.float32)
    weights = np.empty((steps + 1, members.size), np.float32)
    inputs[0, :, :width] = 0.0
    cells[0] = 0.0
    # r_0 is the mean of the known memory vectors
    kernels.start(memory.vectors, members, sets.starts, weights[0], inputs[0, :, width:])
    for step in range(steps):
        # the first query is 0
        since = width if step == 0 else 0
        np.dot(inputs[step, :, since:], lstm[since:], out=gates[step])
        kernels.step(
            memory.vectors,
            members,
            sets.starts,
            gates[step],
            bias,
            cells[step],
            cells[step + 1],
            squashed[step],
            weights[step + 1],
            inputs[step + 1, :, :width],
            inputs[step + 1, :, width:],
        )
    return Readings(Sets(members, sets.starts), inputs, gates, cells, squashed, weights)


def add_encoder_gradient(
    network: SetNetwork,
    memory: Memory,
    readings: Readings,
    outer: Float32,
    gradient: dict[str, Float32],
) -> None:
    """Add the encoder's gradients, given that of the readings.

    Parameters
    ----------
    network : SetNetwork
    memory : Memory
    readings : Readings
        What :func:`read` computed from it, of n sets.
    outer : ndarray of float32, shape (n, D)
        Gradient of the loss by the last readings.
    gradient : dict of str to ndarray of float32
        By name of the part; those of the encoder are changed in place.
    """
    parts = network.parts
    width = network.shape.memory
    members, starts = readings.sets
    inputs = readings.inputs
    d_vectors = np.zeros_like(memory.vectors)
    d_gates = np.empty(readings.gates.shape[1:], np.float32)
    later_query = np.zeros_like(outer)
    later_cell = np.zeros_like(outer)
    for step in reversed(range(network.steps)):
        kernels.step_gradient(
            memory.vectors,
            members,
            starts,
            readings.gates[step],
            readings.cells[step],
            readings.squashed[step],
            readings.weights[step + 1],
            inputs[step + 1, :, :width],
            inputs[step + 1, :, width:],
            outer,
            later_query,
            later_cell,
            d_vectors,
            d_gates,
            gradient["encoder.lstm_bias"],
        )
        # the first query is 0
        since = width if step == 0 else 0
        gradient["encoder.lstm"][since:] += inputs[step, :, since:].T @ d_gates
        d_inputs = d_gates @ parts["encoder.lstm"][since:].T
        outer = d_inputs[:, width - since :]
        later_query = d_inputs[:, : width - since]
    kernels.start_gradient(members, starts, readings.weights[0], outer, d_vectors)
    # through the reading block
    outer = _add_layers_gradient(
        network, "encoder", memory.hidden1, memory.hidden2, d_vectors, gradient
    )
    gradient["encoder.value"] += memory.values @ outer
    kernels.add_rows(outer, memory.columns, gradient["encoder.column"])


class Head(NamedTuple):
    """Inputs, both hidden layers and outputs of a head."""

    inputs: Float32
    hidden1: Float32
    hidden2: Float32
    outputs: Float32

    @classmethod
    def of_readings(cls, network: SetNetwork, name: str, readings: Float32) -> Head:
        """Apply a head to readings.

        Parameters
        ----------
        network : SetNetwork
        name : {"classify", "policy"}
        readings : ndarray of float32, shape (n, D)

        Returns
        -------
        Head
        """
        parts = network.parts
        hidden1: Float32 = readings @ parts[f"{name}.weight1"]
        kernels.relu(hidden1, parts[f"{name}.bias1"])
        hidden2: Float32 = hidden1 @ parts[f"{name}.weight2"]
        kernels.relu(hidden2, parts[f"{name}.bias2"])
        outputs = hidden2 @ parts[f"{name}.weight3"] + parts[f"{name}.bias3"]
        return cls(readings, hidden1, hidden2, outputs)

    @classmethod
    def joined(cls, parts: Sequence[Head]) -> Head:
        """What a head computed for several inputs, one after another.

        Parameters
        ----------
        parts : sequence of Head
            At least one.

        Returns
        -------
        Head
        """
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

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


def add_head_gradient(
    network: SetNetwork, name: str, head: Head, outer: Float32, gradient: dict[str, Float32]
) -> Float32:
    """Add a head's gradients, given that of its outputs.

    Parameters
    ----------
    network : SetNetwork
    name : {"classify", "policy"}
    head : Head
        What was computed with this network.
    outer : ndarray of float32, shape (n, outputs)
        Gradient of the loss by the head's outputs.
    gradient : dict of str to ndarray of float32
        By name of the part; those of the head are changed in place.

    Returns
    -------
    ndarray of float32, shape (n, D)
        Gradient of the loss by the readings.
    """
    parts = network.parts
    outer = _add_layers_gradient(network, name, head.hidden1, head.hidden2, outer, gradient)
    gradient[f"{name}.weight1"] += head.inputs.T @ outer
    return outer @ parts[f"{name}.weight1"].T


def _add_layers_gradient(
    network: SetNetwork,
    name: str,
    hidden1: Float32,
    hidden2: Float32,
    outer: Float32,
    gradient: dict[str, Float32],
) -> Float32:
    """Add the gradients of a perceptron's later layers and of its first bias; the result is the
    gradient before the first ReLU.
    """
    parts = network.parts
    gradient[f"{name}.weight3"] += hidden2.T @ outer
    gradient[f"{name}.bias3"] += outer.sum(axis=0)
    outer = outer @ parts[f"{name}.weight3"].T
    kernels.relu_gradient(outer, hidden2, gradient[f"{name}.bias2"])
    gradient[f"{name}.weight2"] += hidden1.T @ outer
    outer = outer @ parts[f"{name}.weight2"].T
    kernels.relu_gradient(outer, hidden1, gradient[f"{name}.bias1"])
    return outer
