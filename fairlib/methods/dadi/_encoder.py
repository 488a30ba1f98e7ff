"""The set encoder (appendix B): memory vectors, and an LSTM that reads them with attention.

Every column of the table gives one memory vector per person. A two-valued column has two memory vectors that
all people share: these are computed once per update (`table`), the others once per person (`own`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from evenhand.fairlib.methods.dadi._layers import (
    add_bias,
    exponential,
    layer_backward,
    relu_backward,
    sum_rows,
)
from evenhand.fairlib.methods.dadi.network import Columns, Encoder, Rows

ZERO, ONE, TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)
MINUS_INFINITY = np.float32(-3.0e38)


class ReadingTrace(NamedTuple):
    """Reading block: column and value of every row, and both hidden layers."""

    column: Any
    value: Any
    hidden1: Any
    hidden2: Any


class Memory(NamedTuple):
    """Memory vectors, or their gradients."""

    table: Any  # (2 t, D): those of the t two-valued columns at their lower, then at their upper value
    own: Any  # (people, c, D): those of the c other columns


class States(NamedTuple):
    """Sets of known columns."""

    person: Any  # (n,): row of ``own`` and of ``upper``
    upper: Any  # (people, t): 1 where a two-valued column has its upper value
    # (n, t) and (n, c): 1 where the column is in the set
    known_table: Any
    known_own: Any


class ProcessingTrace(NamedTuple):
    """Processing block, for P steps and n sets."""

    inputs: Any  # (P, n, 2 D): query and reading
    gates: Any  # (P, n, 4 D): input, forget, output gate, candidate
    cell: Any  # (P + 1, n, D)
    squashed: Any  # (P, n, D): tanh of the cell
    query: Any  # (P, n, D)
    reading: Any  # (P, n, D)
    weights: Any  # (P, n, t + c): attention
    inverse_count: Any  # (n,): 1 / known columns, 0 for none


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def new_reading_trace(columns: Columns, people: int, first: int, second: int) -> ReadingTrace:
    """Trace for all memory vectors; the people's own values are not filled in."""
    t, c = columns.table.size, columns.own.size
    rows = 2 * t + people * c
    column, value = np.empty(rows, np.int64), np.zeros(rows, np.float32)
    for j in range(t):
        column[j], value[j] = columns.table[j], columns.low[j]
        column[t + j], value[t + j] = columns.table[j], columns.high[j]
    for i in range(people):
        for k in range(c):
            column[2 * t + i * c + k] = columns.own[k]
    return ReadingTrace(
        column, value, np.empty((rows, first), np.float32), np.empty((rows, second), np.float32)
    )


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def new_processing_trace(steps: int, n: int, width: int, columns: int) -> ProcessingTrace:
    """Trace for n sets, not filled in."""
    return ProcessingTrace(
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
def as_memory(vectors: Any, t: int, people: int, c: int) -> Memory:
    """All memory vectors, shape (2 t + people c, D), as those of the table and those of the people."""
    return Memory(vectors[: 2 * t], vectors[2 * t :].reshape(people, c, vectors.shape[1]))


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def mark_known(states: States, columns: Columns, i: int, known: Any) -> None:
    """Set which columns of state i are known, from the known groups."""
    for j in range(columns.table.size):
        states.known_table[i, j] = known[columns.table_group[j]]
    for k in range(columns.own.size):
        states.known_own[i, k] = known[columns.own_group[k]]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def read_people(encoder: Encoder, trace: ReadingTrace, rows: Rows, people: Any, memory: Any) -> None:
    """Memory vectors m_j (appendix B) of the table and of the listed people."""
    c = rows.own.shape[1]
    start = trace.value.size - people.size * c
    for i in range(people.size):
        for k in range(c):
            trace.value[start + i * c + k] = rows.own[people[i], k]
    # first layer: the indicator I(j) selects a row of its weights
    n, width = trace.hidden1.shape
    for r in range(n):
        x, j = trace.value[r], trace.column[r]
        for k in range(width):
            trace.hidden1[r, k] = max(x * encoder.value[k] + encoder.column[j, k] + encoder.bias1[k], ZERO)
    np.dot(trace.hidden1, encoder.weight2, trace.hidden2)
    add_bias(trace.hidden2, encoder.bias2, True)
    np.dot(trace.hidden2, encoder.weight3, memory)
    add_bias(memory, encoder.bias3, False)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def reading_block_backward(encoder: Encoder, trace: ReadingTrace, outer: Any, gradient: Encoder) -> None:
    """Add the reading block's gradients; `outer` is that of the memory vectors."""
    inner = layer_backward(trace.hidden2, encoder.weight3, outer, gradient.weight3, gradient.bias3)
    relu_backward(inner, trace.hidden2)
    first = layer_backward(trace.hidden1, encoder.weight2, inner, gradient.weight2, gradient.bias2)
    relu_backward(first, trace.hidden1)
    sum_rows(first, gradient.bias1)
    rows, width = first.shape
    for r in range(rows):
        x, j = trace.value[r], trace.column[r]
        for k in range(width):
            gradient.value[k] += x * first[r, k]
            gradient.column[j, k] += first[r, k]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _split_by_value(weights: Any, states: States, by_value: Any) -> None:
    """Weights of the table's memory vectors, (n, 2 t): each column's at the person's value, else 0."""
    n, t = states.known_table.shape
    for i in range(n):
        upper = states.upper[states.person[i]]
        for j in range(t):
            x = weights[i, j]
            by_value[i, j] = x * (ONE - upper[j])
            by_value[i, t + j] = x * upper[j]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _weighted(weights: Any, memory: Memory, states: States, by_value: Any, out: Any) -> None:
    """Weighted sum of the person's memory vectors, (n, D); fills `by_value`."""
    n, t = states.known_table.shape
    c, width = memory.own.shape[1], memory.own.shape[2]
    _split_by_value(weights, states, by_value)
    np.dot(by_value, memory.table, out)
    for i in range(n):
        own = memory.own[states.person[i]]
        for k in range(c):
            x = weights[i, t + k]
            if x != ZERO:
                for j in range(width):
                    out[i, j] += x * own[k, j]


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[misc]
def _products(vectors: Any, memory: Memory, states: States, by_value: Any, out: Any) -> None:
    """Inner products of a vector per state with the person's memory vectors, (n, t + c); fills `by_value`."""
    n, t = states.known_table.shape
    c, width = memory.own.shape[1], memory.own.shape[2]
    np.dot(vectors, memory.table.T, by_value)
    for i in range(n):
        upper = states.upper[states.person[i]]
        for j in range(t):
            low = by_value[i, j]
            out[i, j] = low + upper[j] * (by_value[i, t + j] - low)
        own = memory.own[states.person[i]]
        for k in range(c):
            total = ZERO
            for j in range(width):
                total += own[k, j] * vectors[i, j]
            out[i, t + k] = total


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[misc]
def _attend(scores: Any, states: States, powers: Any) -> None:
    """Softmax over the known columns (equation 6); all weights of the empty set are 0."""
    n, t = states.known_table.shape
    c = states.known_own.shape[1]
    for i in range(n):
        row, known, own = scores[i], states.known_table[i], states.known_own[i]
        # largest score of a known column, subtracted to avoid overflow
        top = MINUS_INFINITY
        for j in range(t):
            top = max(top, row[j] if known[j] > ZERO else MINUS_INFINITY)
        for k in range(c):
            if own[k] > ZERO:
                top = max(top, row[t + k])
        for j in range(t + c):
            row[j] = min(row[j] - top, ZERO)
        exponential(row, powers)
        # unknown columns get no weight
        total = ZERO
        for j in range(t):
            row[j] *= known[j]
            total += row[j]
        for k in range(c):
            row[t + k] *= own[k]
            total += row[t + k]
        scale = ONE / total if total > ZERO else ZERO
        for j in range(t + c):
            row[j] *= scale


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def processing_block(encoder: Encoder, memory: Memory, states: States, trace: ProcessingTrace) -> None:
    """Encode sets (appendix B) into the last of ``trace.reading``."""
    steps, n, width = trace.query.shape
    t, c = states.known_table.shape[1], states.known_own.shape[1]
    # scratch: weights of table memory vectors, and exponents of all gates or of a row of columns
    by_value = np.empty((n, 2 * t), np.float32)
    powers = np.empty(max(4 * n * width, t + c), np.int32)
    # r_0, the mean memory vector; its weights use the room of the first attention
    start = trace.weights[0]
    for i in range(n):
        count = ZERO
        for j in range(t):
            count += states.known_table[i, j]
        for k in range(c):
            count += states.known_own[i, k]
        inverse = ONE / count if count > ZERO else ZERO
        trace.inverse_count[i] = inverse
        for j in range(t):
            start[i, j] = states.known_table[i, j] * inverse
        for k in range(c):
            start[i, t + k] = states.known_own[i, k] * inverse
    reading = trace.reading[0]
    _weighted(start, memory, states, by_value, reading)
    # the first query is 0
    for i in range(n):
        for j in range(width):
            trace.inputs[0, i, j] = ZERO
            trace.inputs[0, i, width + j] = reading[i, j]
            trace.cell[0, i, j] = ZERO
    for p in range(steps):
        # query q_t, attention a_t (equation 6), and reading r_t = sum_j a_jt m_j
        _lstm(encoder, trace, p, powers)
        _products(trace.query[p], memory, states, by_value, trace.weights[p])
        _attend(trace.weights[p], states, powers)
        _weighted(trace.weights[p], memory, states, by_value, trace.reading[p])
        # [q_t r_t] is the input of the next step
        if p + 1 < steps:
            for i in range(n):
                for j in range(width):
                    trace.inputs[p + 1, i, j] = trace.query[p, i, j]
                    trace.inputs[p + 1, i, width + j] = trace.reading[p, i, j]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _lstm(encoder: Encoder, trace: ProcessingTrace, p: int, powers: Any) -> None:
    """One step of the LSTM, whose hidden state is the query."""
    n, width = trace.query.shape[1], trace.query.shape[2]
    gates = trace.gates[p]
    np.dot(trace.inputs[p], encoder.lstm, gates)
    # tanh(x) = 2 sigmoid(2 x) - 1, so one call computes the exponentials of all gates
    for i in range(n):
        for j in range(3 * width):
            gates[i, j] = -(gates[i, j] + encoder.lstm_bias[j])
        for j in range(3 * width, 4 * width):
            gates[i, j] = -TWO * (gates[i, j] + encoder.lstm_bias[j])
    exponential(gates.ravel(), powers)
    squashed, query = trace.squashed[p], trace.query[p]
    before, after = trace.cell[p], trace.cell[p + 1]
    # cell = forget gate * cell before + input gate * candidate
    for i in range(n):
        for j in range(3 * width):
            gates[i, j] = ONE / (ONE + gates[i, j])
        for j in range(3 * width, 4 * width):
            gates[i, j] = TWO / (ONE + gates[i, j]) - ONE
        for j in range(width):
            cell = gates[i, width + j] * before[i, j] + gates[i, j] * gates[i, 3 * width + j]
            after[i, j] = cell
            squashed[i, j] = -TWO * cell
    exponential(squashed.ravel(), powers)
    # query = output gate * tanh(cell)
    for i in range(n):
        for j in range(width):
            squashed[i, j] = TWO / (ONE + squashed[i, j]) - ONE
            query[i, j] = gates[i, 2 * width + j] * squashed[i, j]


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[misc]
def processing_block_backward(
    encoder: Encoder,
    memory: Memory,
    states: States,
    trace: ProcessingTrace,
    outer: Any,
    gradient: Encoder,
    d_memory: Memory,
) -> None:
    """Add the gradients of the processing block and of the memory vectors.

    `outer`, float32 of shape (n, D), is the gradient of the last reading; it is overwritten.
    """
    steps, n, width = trace.query.shape
    t, c = states.known_table.shape[1], states.known_own.shape[1]
    by_value = np.empty((n, 2 * t), np.float32)
    d_scores = np.empty((n, t + c), np.float32)
    d_gates = np.empty((n, 4 * width), np.float32)
    d_query = np.zeros((n, width), np.float32)
    d_cell = np.zeros((n, width), np.float32)
    d_next = np.zeros((n, width), np.float32)
    for step in range(steps):
        p = steps - 1 - step
        weights, query, reading = trace.weights[p], trace.query[p], trace.reading[p]
        # through r_t = sum_j a_jt m_j: gradients of the memory vectors and of the scores
        _split_by_value(weights, states, by_value)
        d_memory.table[:] += np.dot(by_value.T, outer)
        _products(outer, memory, states, by_value, d_scores)
        for i in range(n):
            # softmax: d_score_j = a_j (m_j - r) . d_r
            mean = ZERO
            for j in range(width):
                mean += outer[i, j] * reading[i, j]
            for j in range(t + c):
                d_scores[i, j] = weights[i, j] * (d_scores[i, j] - mean)
            # own memory vectors: through the reading and through the scores m_j . q_t
            own = d_memory.own[states.person[i]]
            for k in range(c):
                if weights[i, t + k] != ZERO:
                    for j in range(width):
                        own[k, j] += weights[i, t + k] * outer[i, j] + d_scores[i, t + k] * query[i, j]
        # through the scores: gradients of the query and of the table's memory vectors
        _weighted(d_scores, memory, states, by_value, d_query)
        d_memory.table[:] += np.dot(by_value.T, query)
        # through the LSTM's gates and cell
        gates = trace.gates[p]
        for i in range(n):
            for j in range(width):
                g_in, g_keep, g_out = gates[i, j], gates[i, width + j], gates[i, 2 * width + j]
                candidate, squashed = gates[i, 3 * width + j], trace.squashed[p, i, j]
                d_q = d_query[i, j] + d_next[i, j]
                d_c = d_cell[i, j] + d_q * g_out * (ONE - squashed * squashed)
                d_gates[i, j] = d_c * candidate * g_in * (ONE - g_in)
                d_gates[i, width + j] = d_c * trace.cell[p, i, j] * g_keep * (ONE - g_keep)
                d_gates[i, 2 * width + j] = d_q * squashed * g_out * (ONE - g_out)
                d_gates[i, 3 * width + j] = d_c * g_in * (ONE - candidate * candidate)
                d_cell[i, j] = d_c * g_keep
        # gradients of the LSTM's parameters, and of its inputs [q_t-1 r_t-1]
        gradient.lstm[:] += np.dot(trace.inputs[p].T, d_gates)
        sum_rows(d_gates, gradient.lstm_bias)
        d_inputs = np.dot(d_gates, encoder.lstm.T)
        for i in range(n):
            for j in range(width):
                d_next[i, j] = d_inputs[i, j]
                outer[i, j] = d_inputs[i, width + j]
    # through r_0, the mean memory vector
    for i in range(n):
        own = d_memory.own[states.person[i]]
        for j in range(t):
            d_scores[i, j] = states.known_table[i, j] * trace.inverse_count[i]
        for k in range(c):
            x = states.known_own[i, k] * trace.inverse_count[i]
            for j in range(width):
                own[k, j] += x * outer[i, j]
    _split_by_value(d_scores, states, by_value)
    d_memory.table[:] += np.dot(by_value.T, outer)
