"""Compiled training of one network, at one of several time steps: losses, gradients and Adam's steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from evenhand.fairlib.methods.dadi._encoder import (
    Memory,
    ProcessingTrace,
    ReadingTrace,
    States,
    as_memory,
    processing_block,
    processing_block_backward,
    read_people,
    reading_block_backward,
)
from evenhand.fairlib.methods.dadi._layers import HeadTrace, apply_head, head_backward
from evenhand.fairlib.methods.dadi.network import Network, Rows
from evenhand.fairlib.methods.dadi.objectives import Outcome

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
ZERO, ONE = np.float32(0.0), np.float32(1.0)


class Adam(NamedTuple):
    """All parameters of a network in one vector, their gradient and Adam's moments; ``steps`` (1,)."""

    parameters: Any
    gradient: Any
    mean: Any
    square: Any
    steps: Any


class Buffers(NamedTuple):
    """Buffers of one iteration of one network; the traces but ``reading`` have a first axis of time steps.

    ``memory`` and ``d_memory``: all memory vectors, those of the table and then those of the people.
    """

    reading: ReadingTrace
    memory: Any
    d_memory: Any
    processing: ProcessingTrace
    classify: HeadTrace
    policy: HeadTrace


class Learner(NamedTuple):
    """A network in training: views of its parameters and of their gradient, optimizer and buffers."""

    network: Network
    gradient: Network
    adam: Adam
    buffers: Buffers


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def adam_step(adam: Adam, rate: float) -> None:
    """One step of Adam; the gradient is 0 afterwards."""
    adam.steps[0] += 1
    k = adam.steps[0]
    # the corrections of both moments for their start at 0, as one factor
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
def cross_entropy(logits: Any, outcome: Outcome, people: Any, losses: Any) -> None:
    """Weighted cross-entropy (nats) of every row; the logits become weighted gradients."""
    n, outputs = logits.shape
    for i in range(n):
        code, weight = outcome.code[people[i]], outcome.weight[people[i]]
        # softmax of the block of logits that belongs to the person
        first = outcome.start[people[i]]
        last = first + outcome.classes
        top = logits[i, first]
        for k in range(first + 1, last):
            top = max(top, logits[i, k])
        total = 0.0
        for k in range(first, last):
            total += np.exp(np.float64(logits[i, k] - top))
        losses[i] = weight * (np.log(total) - np.float64(logits[i, first + code] - top))
        # gradient: softmax minus the indicator of the class, 0 outside of the block
        for k in range(outputs):
            if k < first or k >= last:
                logits[i, k] = ZERO
            else:
                share = np.float32(np.exp(np.float64(logits[i, k] - top)) / total)
                logits[i, k] = weight * (share - (ONE if k == first + code else ZERO))


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _memory(vectors: Any, states: States) -> Memory:
    """Memory vectors in a buffer."""
    return as_memory(vectors, states.upper.shape[1], states.upper.shape[0], states.known_own.shape[-1])


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _processing_at(trace: ProcessingTrace, s: int) -> ProcessingTrace:
    """The trace of one time step."""
    return ProcessingTrace(
        trace.inputs[s],
        trace.gates[s],
        trace.cell[s],
        trace.squashed[s],
        trace.query[s],
        trace.reading[s],
        trace.weights[s],
        trace.inverse_count[s],
    )


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _head_at(trace: HeadTrace, s: int) -> HeadTrace:
    """The trace of one time step."""
    return HeadTrace(trace.hidden1[s], trace.hidden2[s], trace.outputs[s])


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def at_time(states: States, s: int) -> States:
    """The states of one time step."""
    return States(states.person[s], states.upper, states.known_table[s], states.known_own[s])


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def read_batch(learner: Learner, rows: Rows, people: Any) -> None:
    """Memory vectors of the two-valued columns and of the listed people; their gradient becomes 0."""
    buffers = learner.buffers
    read_people(learner.network.encoder, buffers.reading, rows, people, buffers.memory)
    buffers.d_memory[:] = ZERO


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def encode_sets(learner: Learner, states: States, s: int) -> None:
    """Encode the states of a time step."""
    buffers, now = learner.buffers, at_time(states, s)
    trace = _processing_at(buffers.processing, s)
    processing_block(learner.network.encoder, _memory(buffers.memory, now), now, trace)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def class_logits(learner: Learner, s: int) -> Any:
    """Outputs of the classifier for the encoded states of a time step."""
    trace = _head_at(learner.buffers.classify, s)
    apply_head(learner.network.classify, learner.buffers.processing.reading[s, -1], trace)
    return trace.outputs


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def action_values(learner: Learner, s: int) -> Any:
    """Outputs of the policy for the encoded states of a time step."""
    trace = _head_at(learner.buffers.policy, s)
    apply_head(learner.network.policy, learner.buffers.processing.reading[s, -1], trace)
    return trace.outputs


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def add_gradients(learner: Learner, states: States, s: int, d_policy: Any) -> None:
    """Add the gradients of a time step; the classifier's outputs already hold their gradients.

    `d_policy`, float32 of shape (n, actions), is the gradient of the policy's outputs; without columns, the
    policy did not act.
    """
    buffers, network, gradient = learner.buffers, learner.network, learner.gradient
    now, processing = at_time(states, s), _processing_at(buffers.processing, s)
    classify, readings = _head_at(buffers.classify, s), processing.reading[-1]
    outer = head_backward(network.classify, readings, classify, classify.outputs, gradient.classify)
    if d_policy.shape[1] > 0:
        policy = _head_at(buffers.policy, s)
        outer += head_backward(network.policy, readings, policy, d_policy, gradient.policy)
    memory, d_memory = _memory(buffers.memory, now), _memory(buffers.d_memory, now)
    processing_block_backward(network.encoder, memory, now, processing, outer, gradient.encoder, d_memory)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def step(learner: Learner, rate: float) -> None:
    """Take the gradients of the memory vectors through the reading block, then a step of Adam."""
    buffers = learner.buffers
    reading_block_backward(
        learner.network.encoder, buffers.reading, buffers.d_memory, learner.gradient.encoder
    )
    adam_step(learner.adam, rate)
