"""Compiled inference: reading given sets of columns, and acquiring group after group."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from evenhand.fairlib.methods.dadi._encoder import (
    Memory,
    States,
    as_memory,
    mark_known,
    new_processing_trace,
    new_reading_trace,
    processing_block,
    read_people,
)
from evenhand.fairlib.methods.dadi._layers import HeadTrace, apply_head
from evenhand.fairlib.methods.dadi.network import Columns, Encoder, Network, Perceptron, Rows


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _memory(encoder: Encoder, columns: Columns, rows: Rows) -> Memory:
    """Memory vectors of all people."""
    n, c = rows.own.shape
    trace = new_reading_trace(columns, n, encoder.bias1.size, encoder.bias2.size)
    vectors = np.empty((trace.value.size, encoder.bias3.size), np.float32)
    read_people(encoder, trace, rows, np.arange(n), vectors)
    return as_memory(vectors, columns.table.size, n, c)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _encode(
    encoder: Encoder, columns: Columns, memory: Memory, known: Any, people: Any, upper: Any, steps: int
) -> Any:
    """Readings of the listed people, (n, D), from the groups known of them."""
    n, t, c = people.size, columns.table.size, columns.own.size
    states = States(people, upper, np.empty((n, t), np.float32), np.empty((n, c), np.float32))
    for i in range(n):
        mark_known(states, columns, i, known[people[i]])
    trace = new_processing_trace(steps, n, encoder.bias3.size, t + c)
    processing_block(encoder, memory, states, trace)
    return trace.reading[steps - 1]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def read_sets(encoder: Encoder, columns: Columns, rows: Rows, known: Any, steps: int) -> Any:
    """Readings, float32 of shape (n, D), of people of whom groups are known.

    `known` is uint8 of shape (n, G), and `steps` are those of the processing block.
    """
    memory = _memory(encoder, columns, rows)
    people = np.arange(known.shape[0])
    return _encode(encoder, columns, memory, known, people, rows.upper.astype(np.float32), steps)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def head_outputs(head: Perceptron, readings: Any) -> Any:
    """Outputs of a head, (n, outputs)."""
    n = readings.shape[0]
    trace = HeadTrace(
        np.empty((n, head.bias1.size), np.float32),
        np.empty((n, head.bias2.size), np.float32),
        np.empty((n, head.bias3.size), np.float32),
    )
    apply_head(head, readings, trace)
    return trace.outputs


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def best_action(values: Any, known: Any, allowed: Any) -> int:
    """Action of the highest value among the groups that may still be asked, and stopping (the last one)."""
    stop = values.size - 1
    best = stop
    for g in range(stop):
        if allowed[g] and not known[g] and values[g] > values[best]:
            best = g
    return int(best)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def acquire(
    network: Network,
    columns: Columns,
    rows: Rows,
    allowed: Any,
    steps: int,
    known: Any,
    order: Any,
    logits: Any,
) -> None:
    """Ask group after group until the policy stops.

    `known`, uint8 of shape (n, G), are groups known at first, and afterwards also those asked. `order`, int64
    of shape (n, G), gets the groups in the order in which they were asked, then -1. `logits`, float32 of
    shape (n, classes), gets the classifier's outputs at the end.
    """
    memory = _memory(network.encoder, columns, rows)
    upper = rows.upper.astype(np.float32)
    people = np.arange(known.shape[0])
    step = 0
    order[:] = -1
    while people.size > 0:
        # one question to everybody whose episode goes on
        readings = _encode(network.encoder, columns, memory, known, people, upper, steps)
        values = head_outputs(network.policy, readings)
        classes = head_outputs(network.classify, readings)
        asked = np.zeros(people.size, np.bool_)
        for i in range(people.size):
            person = people[i]
            action = best_action(values[i], known[person], allowed)
            if action == values.shape[1] - 1:
                logits[person] = classes[i]
            else:
                asked[i] = True
                known[person, action] = 1
                order[person, step] = action
        people = people[asked]
        step += 1
