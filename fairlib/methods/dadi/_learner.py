"""One network in training: its losses, its gradients and Adam's steps, at one of several time steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from evenhand.fairlib.methods.dadi._encoder import (
    Memory,
    ReadTrace,
    SetTrace,
    States,
    encode,
    encode_backward,
    read,
    read_backward,
)
from evenhand.fairlib.methods.dadi._inference import Columns, Rows
from evenhand.fairlib.methods.dadi._network import network_of
from evenhand.fairlib.methods.dadi._perceptron import HeadTrace, apply_head, head_backward

__all__ = [
    "Adam",
    "Learner",
    "Outcome",
    "Room",
    "act",
    "adam_step",
    "at_time",
    "classify",
    "cross_entropy",
    "learn",
    "look",
    "mark",
    "read_people",
    "update",
]

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
ZERO, ONE = np.float32(0.0), np.float32(1.0)


class Adam(NamedTuple):
    """All parameters of a network in one vector, and what Adam keeps of each; ``steps`` (1,)."""

    parameters: Any
    gradient: Any
    mean: Any
    square: Any
    steps: Any


class Outcome(NamedTuple):
    """
    What is to be predicted of every person.

    ``code`` and ``weight`` (n,): the class, and the person's weight in the loss. The logits that compete are
    those from ``start`` (n,) on, ``classes`` of them.
    """

    code: Any
    weight: Any
    start: Any
    classes: int


class Room(NamedTuple):
    """
    Room for one iteration of one network: of each trace, as many as there are time steps (first axis).

    ``memory`` and ``d_memory``: all memory vectors, those of the table and then those of the people.
    """

    reading: ReadTrace
    memory: Any
    d_memory: Any
    sets: SetTrace
    classify: HeadTrace
    policy: HeadTrace


class Learner(NamedTuple):
    """A network: its sizes (see :func:`network_of`), its parameters with their optimiser, and its room."""

    sizes: Any
    adam: Adam
    room: Room


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def adam_step(adam: Adam, rate: float) -> None:
    """One step of Adam; the gradient is 0 afterwards."""
    adam.steps[0] += 1
    k = adam.steps[0]
    scale = np.float32(rate * np.sqrt(1.0 - BETA2**k) / (1.0 - BETA1**k))
    floor = np.float32(EPSILON * np.sqrt(1.0 - BETA2**k))
    b1, b2 = np.float32(BETA1), np.float32(BETA2)
    for i in range(adam.parameters.size):
        g = adam.gradient[i]
        m = b1 * adam.mean[i] + (ONE - b1) * g
        s = b2 * adam.square[i] + (ONE - b2) * g * g
        adam.mean[i], adam.square[i] = m, s
        adam.parameters[i] -= scale * m / (np.sqrt(s) + floor)
        adam.gradient[i] = ZERO


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def read_people(learner: Learner, rows: Rows, people: Any) -> None:
    """Memory vectors of the two-valued columns and of the people listed."""
    room = learner.room
    c = rows.own.shape[1]
    start = room.reading.value.size - people.size * c
    for i in range(people.size):
        for k in range(c):
            room.reading.value[start + i * c + k] = rows.own[people[i], k]
    read(network_of(learner.adam.parameters, learner.sizes).encoder, room.reading, room.memory)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def cross_entropy(logits: Any, outcome: Outcome, people: Any, losses: Any) -> None:
    """Weighted cross-entropy (nats) of every row; the logits become weighted gradients."""
    n, outputs = logits.shape
    for i in range(n):
        code, weight = outcome.code[people[i]], outcome.weight[people[i]]
        first = outcome.start[people[i]]
        last = first + outcome.classes
        top = logits[i, first]
        for k in range(first + 1, last):
            top = max(top, logits[i, k])
        total = 0.0
        for k in range(first, last):
            total += np.exp(np.float64(logits[i, k] - top))
        losses[i] = weight * (np.log(total) - np.float64(logits[i, first + code] - top))
        for k in range(outputs):
            if k < first or k >= last:
                logits[i, k] = ZERO
            else:
                share = np.float32(np.exp(np.float64(logits[i, k] - top)) / total)
                logits[i, k] = weight * (share - (ONE if k == first + code else ZERO))


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _vectors(memory: Any, states: States) -> Memory:
    """All memory vectors as those of the table and those of the people."""
    t2, width = 2 * states.known_table.shape[1], memory.shape[1]
    people, c = states.upper.shape[0], states.known_own.shape[1]
    return Memory(memory[:t2], memory[t2:].reshape(people, c, width))


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _sets(trace: SetTrace, s: int) -> SetTrace:
    """The trace of one time step."""
    return SetTrace(
        trace.inputs[s],
        trace.gates[s],
        trace.cell[s],
        trace.squashed[s],
        trace.query[s],
        trace.reading[s],
        trace.weights[s],
        trace.share[s],
    )


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _head(trace: HeadTrace, s: int) -> HeadTrace:
    """The trace of one time step."""
    return HeadTrace(trace.hidden1[s], trace.hidden2[s], trace.outputs[s])


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def at_time(states: States, s: int) -> States:
    """The states of one time step."""
    return States(states.person[s], states.upper, states.known_table[s], states.known_own[s])


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def look(learner: Learner, states: States, s: int, scratch: Any, powers: Any) -> None:
    """Encode the states of a time step."""
    room, network = learner.room, network_of(learner.adam.parameters, learner.sizes)
    now = at_time(states, s)
    encode(network.encoder, _vectors(room.memory, now), now, _sets(room.sets, s), scratch, powers)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def classify(learner: Learner, s: int) -> Any:
    """Outputs of the classifier for what was encoded at a time step."""
    head, trace = network_of(learner.adam.parameters, learner.sizes).classify, _head(learner.room.classify, s)
    apply_head(head, learner.room.sets.reading[s, -1], trace)
    return trace.outputs


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def act(learner: Learner, s: int) -> Any:
    """Outputs of the policy for what was encoded at a time step."""
    head, trace = network_of(learner.adam.parameters, learner.sizes).policy, _head(learner.room.policy, s)
    apply_head(head, learner.room.sets.reading[s, -1], trace)
    return trace.outputs


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def learn(learner: Learner, states: States, s: int, scratch: Any, d_policy: Any) -> None:
    """
    Add the gradients of a time step; the classifier's outputs already hold their gradients.

    Parameters
    ----------
    d_policy : float32, shape (n, actions)
        Gradient with respect to the policy's outputs; without columns, the policy did not act.
    """
    room, network = learner.room, network_of(learner.adam.parameters, learner.sizes)
    gradient = network_of(learner.adam.gradient, learner.sizes)
    now, sets, judged = at_time(states, s), _sets(room.sets, s), _head(room.classify, s)
    vectors = sets.reading[-1]
    outer = head_backward(network.classify, vectors, judged, judged.outputs, gradient.classify)
    if d_policy.shape[1] > 0:
        policy = _head(room.policy, s)
        outer += head_backward(network.policy, vectors, policy, d_policy, gradient.policy)
    memory, d_memory = _vectors(room.memory, now), _vectors(room.d_memory, now)
    encode_backward(network.encoder, memory, now, sets, outer, gradient.encoder, d_memory, scratch)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def update(learner: Learner, rate: float) -> None:
    """Take the gradients of the memory vectors through the reading block, and step."""
    encoder = network_of(learner.adam.parameters, learner.sizes).encoder
    gradient = network_of(learner.adam.gradient, learner.sizes).encoder
    read_backward(encoder, learner.room.reading, learner.room.d_memory, gradient)
    adam_step(learner.adam, rate)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def mark(states: States, columns: Columns, i: int, known: Any) -> None:
    """Set which columns of one state are known, from the groups."""
    for j in range(columns.table.size):
        states.known_table[i, j] = known[columns.table_group[j]]
    for k in range(columns.own.size):
        states.known_own[i, k] = known[columns.own_group[k]]
