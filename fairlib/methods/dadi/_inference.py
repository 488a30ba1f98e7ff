"""Reading given sets of columns, and acquiring column after column."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from evenhand.fairlib.methods.dadi._encoder import Encoder, Memory, ReadTrace, SetTrace, States, encode, read
from evenhand.fairlib.methods.dadi._perceptron import HeadTrace, Perceptron, apply_head

__all__ = ["Columns", "Rows", "acquire", "best_action", "head_outputs", "new_trace", "read_sets"]

ONE = np.float32(1.0)


class Columns(NamedTuple):
    """
    Which matrix column and which group the t two-valued and the c other columns are.

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


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def new_trace(steps: int, n: int, width: int, columns: int) -> SetTrace:
    """Room for what the processing block computes of n sets."""
    return SetTrace(
        np.empty((steps, n, 2 * width), np.float32),
        np.empty((steps, n, 4 * width), np.float32),
        np.empty((steps + 1, n, width), np.float32),
        np.empty((steps, n, width), np.float32),
        np.empty((steps, n, width), np.float32),
        np.empty((steps, n, width), np.float32),
        np.empty((steps, n, columns), np.float32),
        np.empty(n, np.float32),
    )


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _read_columns(encoder: Encoder, columns: Columns, own: Any) -> Memory:
    """Memory vectors of the two-valued columns and of the people's other values."""
    t, (n, c) = columns.table.size, own.shape
    rows = 2 * t + n * c
    (first, second), width = encoder.weight2.shape, encoder.weight3.shape[1]
    column, value = np.empty(rows, np.int64), np.empty(rows, np.float32)
    for j in range(t):
        column[j], value[j] = columns.table[j], columns.low[j]
        column[t + j], value[t + j] = columns.table[j], columns.high[j]
    for i in range(n):
        for k in range(c):
            column[2 * t + i * c + k] = columns.own[k]
            value[2 * t + i * c + k] = own[i, k]
    hidden = ReadTrace(
        column, value, np.empty((rows, first), np.float32), np.empty((rows, second), np.float32)
    )
    memory = np.empty((rows, width), np.float32)
    read(encoder, hidden, memory)
    return Memory(memory[: 2 * t], memory[2 * t :].copy().reshape(n, c, width))


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _known(columns: Columns, known: Any, people: Any, upper: Any) -> States:
    """States of the people listed, from the groups known of them."""
    n, t, c = people.size, columns.table.size, columns.own.size
    states = States(people, upper, np.empty((n, t), np.float32), np.empty((n, c), np.float32))
    for i in range(n):
        row = known[people[i]]
        for j in range(t):
            states.known_table[i, j] = row[columns.table_group[j]]
        for k in range(c):
            states.known_own[i, k] = row[columns.own_group[k]]
    return states


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def read_sets(encoder: Encoder, columns: Columns, rows: Rows, known: Any, steps: int) -> Any:
    """
    Reading vectors of people of whom groups are known.

    Parameters
    ----------
    known : uint8, shape (n, groups)
    steps : int
        Of the processing block.

    Returns
    -------
    float32, shape (n, D)
    """
    n, width = known.shape[0], encoder.weight3.shape[1]
    memory = _read_columns(encoder, columns, rows.own)
    states = _known(columns, known, np.arange(n), rows.upper.astype(np.float32))
    return _encoded(encoder, memory, states, steps, width)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _encoded(encoder: Encoder, memory: Memory, states: States, steps: int, width: int) -> Any:
    n, t = states.known_table.shape
    columns = t + states.known_own.shape[1]
    trace = new_trace(steps, n, width, columns)
    encode(
        encoder,
        memory,
        states,
        trace,
        np.empty((n, 2 * t), np.float32),
        np.empty(max(4 * n * width, columns), np.int32),
    )
    return trace.reading[steps - 1]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def head_outputs(head: Perceptron, vectors: Any) -> Any:
    """Outputs of a head, (n, outputs)."""
    n, units = vectors.shape[0], head.bias1.size
    trace = HeadTrace(
        np.empty((n, units), np.float32),
        np.empty((n, head.bias2.size), np.float32),
        np.empty((n, head.bias3.size), np.float32),
    )
    apply_head(head, vectors, trace)
    return trace.outputs


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def best_action(values: Any, known: Any, allowed: Any) -> int:
    """Action of the highest value among the groups that may still be asked, and to stop (the last one)."""
    stop = values.size - 1
    best = stop
    for g in range(stop):
        if allowed[g] and not known[g] and values[g] > values[best]:
            best = g
    return int(best)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def acquire(
    encoder: Encoder,
    policy: Perceptron,
    classify: Perceptron,
    columns: Columns,
    rows: Rows,
    allowed: Any,
    steps: int,
    known: Any,
    order: Any,
    logits: Any,
) -> None:
    """
    Ask group after group until the policy stops.

    Parameters
    ----------
    known : uint8, shape (n, groups)
        What is known at first; afterwards also what was asked.
    order : int64, shape (n, groups)
        Gets the groups in the order in which they were asked, then -1.
    logits : float32, shape (n, classes)
        Gets the classifier's outputs at the end.
    """
    width = encoder.weight3.shape[1]
    memory = _read_columns(encoder, columns, rows.own)
    upper = rows.upper.astype(np.float32)
    people = np.arange(known.shape[0])
    step = 0
    order[:] = -1
    while people.size > 0:
        states = _known(columns, known, people, upper)
        vectors = _encoded(encoder, memory, states, steps, width)
        values = head_outputs(policy, vectors)
        classes = head_outputs(classify, vectors)
        going = np.zeros(people.size, np.bool_)
        for i in range(people.size):
            person = people[i]
            action = best_action(values[i], known[person], allowed)
            if action == values.shape[1] - 1:
                logits[person] = classes[i]
            else:
                going[i] = True
                known[person, action] = 1
                order[person, step] = action
        people = people[going]
        step += 1
