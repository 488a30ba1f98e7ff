"""Compiled steps of the processing block on sets of known memory vectors, and their gradients.

A set is a list of rows of the memory vectors: the loops visit only what is known. Sums may be
reordered, so that they are computed with vector instructions; a set's result depends on nothing
but the set. The kernels are all in this file, because numba renews a cached function only when its
own file changes. Each releases the interpreter's lock.
"""

# numba infers the types of kernels from their arguments
# mypy: disable-error-code="misc, no-untyped-def"

from __future__ import annotations

import numba
import numpy as np

# Sums may be reordered and fused with products; NaN and infinities are kept.
_RULES = {"reassoc", "contract", "nsz", "arcp"}
_njit = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=_RULES)
_inner = numba.njit(
    nogil=True,
    cache=True,
    error_model="numpy",
    fastmath=_RULES,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)

HALF = np.float32(0.5)
ONE = np.float32(1.0)
ZERO = np.float32(0.0)
LOG2E = np.float32(1.4426950408889634)
# ln 2 in two parts, of which the first one has few bits
LN2_HIGH = np.float32(0.693359375)
LN2_LOW = np.float32(-2.12194440e-4)
LEAST = np.float32(-87.0)
# beyond it, the ratio of polynomials would exceed 1
SATURATED = np.float32(7.90531110763549805)
LOWEST = np.float32(-3.0e38)


@_inner
def _exp(x):
    """Exponential of a float32 of at most 0; of one below -87 a number of about 1e-38."""
    x = max(x, LEAST)
    power = np.floor(x * LOG2E + HALF)
    x = (x - power * LN2_HIGH) - power * LN2_LOW
    y = np.float32(1.9875691500e-4)
    y = y * x + np.float32(1.3981999507e-3)
    y = y * x + np.float32(8.3334519073e-3)
    y = y * x + np.float32(4.1665795894e-2)
    y = y * x + np.float32(1.6666665459e-1)
    y = y * x + np.float32(5.0000001201e-1)
    y = y * (x * x) + x + ONE
    bits = np.int32((np.int32(power) + np.int32(127)) << np.int32(23))
    return y * bits.view(np.float32)


@_inner
def _tanh(x):
    """Hyperbolic tangent of a float32, as a ratio of polynomials; NaN stays NaN."""
    x = min(max(x, -SATURATED), SATURATED)
    s = x * x
    y = np.float32(-2.76076847742355e-16)
    y = y * s + np.float32(2.00018790482477e-13)
    y = y * s + np.float32(-8.60467152213735e-11)
    y = y * s + np.float32(5.12229709037114e-08)
    y = y * s + np.float32(1.48572235717979e-05)
    y = y * s + np.float32(6.37261928875436e-04)
    y = y * s + np.float32(4.89352455891786e-03)
    z = np.float32(1.19825839466702e-06)
    z = z * s + np.float32(1.18534705686654e-04)
    z = z * s + np.float32(2.26843463243900e-03)
    z = z * s + np.float32(4.89352518554385e-03)
    return x * y / z


@_njit
def start(vectors, members, starts, weights, readings):
    """Read the means of all sets, from which the first step starts.

    Parameters
    ----------
    vectors : ndarray of float32, shape (m, D)
        Memory vectors.
    members : ndarray of int32, shape (total,)
        Rows of the vectors in the sets, one set after another.
    starts : ndarray of int32, shape (n + 1,)
        Where each set begins in `members`; the last entry is the total.
    weights : ndarray of float32, shape (total,)
        Written: the same weight for all members of a set.
    readings : ndarray of float32, shape (n, D)
        Written: weighted sums of the vectors; 0 of an empty set.
    """
    width = vectors.shape[1]
    read = np.empty(width, np.float32)
    for i in range(len(starts) - 1):
        size = starts[i + 1] - starts[i]
        weight = ONE / np.float32(max(size, 1))
        for p in range(starts[i], starts[i + 1]):
            weights[p] = weight
        _sum(vectors, members, starts[i], starts[i + 1], weights, read)
        for k in range(width):
            readings[i, k] = read[k]


@_inner
def _sum(vectors, members, first, end, weights, out):
    """Write the weighted sum of a set's vectors, four of them at a time."""
    width = vectors.shape[1]
    out[:] = ZERO
    by_four = end - (end - first) % 4
    for p in range(first, by_four, 4):
        weight1 = weights[p]
        weight2 = weights[p + 1]
        weight3 = weights[p + 2]
        weight4 = weights[p + 3]
        row1 = vectors[members[p]]
        row2 = vectors[members[p + 1]]
        row3 = vectors[members[p + 2]]
        row4 = vectors[members[p + 3]]
        for k in range(width):
            pair = weight1 * row1[k] + weight2 * row2[k]
            out[k] += pair + (weight3 * row3[k] + weight4 * row4[k])
    for p in range(by_four, end):
        weight = weights[p]
        row = vectors[members[p]]
        for k in range(width):
            out[k] += weight * row[k]


@_inner
def _products(vectors, members, first, end, vector, out):
    """Write the inner products of a vector with those of a set, four of them at a time."""
    width = vectors.shape[1]
    by_four = end - (end - first) % 4
    for p in range(first, by_four, 4):
        row1 = vectors[members[p]]
        row2 = vectors[members[p + 1]]
        row3 = vectors[members[p + 2]]
        row4 = vectors[members[p + 3]]
        product1 = ZERO
        product2 = ZERO
        product3 = ZERO
        product4 = ZERO
        for k in range(width):
            product1 += vector[k] * row1[k]
            product2 += vector[k] * row2[k]
            product3 += vector[k] * row3[k]
            product4 += vector[k] * row4[k]
        out[p] = product1
        out[p + 1] = product2
        out[p + 2] = product3
        out[p + 3] = product4
    for p in range(by_four, end):
        row = vectors[members[p]]
        product = ZERO
        for k in range(width):
            product += vector[k] * row[k]
        out[p] = product


@_njit
def step(vectors, members, starts, gates, bias, before, cell, squashed, weights, query, reading):
    """Take one step of the processing block with all sets.

    Parameters
    ----------
    vectors, members, starts
        As of :func:`start`.
    gates : ndarray of float32, shape (n, 4 D)
        Inputs times the weights of the LSTM; afterwards input, forget, output gate, candidate.
    bias : ndarray of float32, shape (4 D,)
    before : ndarray of float32, shape (n, D)
        Cells.
    cell, squashed, query, reading : ndarray of float32, shape (n, D)
        Written: cells after the step, their hyperbolic tangents, queries and readings.
    weights : ndarray of float32, shape (total,)
        Written: the attention.
    """
    n, width = reading.shape
    # contiguous, for vector instructions
    asked = np.empty(width, np.float32)
    read = np.empty(width, np.float32)
    for i in range(n):
        # query q_t, the hidden state of an LSTM; sigmoid(x) = (1 + tanh(x / 2)) / 2
        gate = gates[i]
        for k in range(3 * width):
            gate[k] = HALF * _tanh(HALF * (gate[k] + bias[k])) + HALF
        for k in range(3 * width, 4 * width):
            gate[k] = _tanh(gate[k] + bias[k])
        for k in range(width):
            after = gate[width + k] * before[i, k] + gate[k] * gate[3 * width + k]
            bent = _tanh(after)
            cell[i, k] = after
            squashed[i, k] = bent
            asked[k] = gate[2 * width + k] * bent
        # attention a_t over the known ones (equation 6)
        first = starts[i]
        end = starts[i + 1]
        largest = LOWEST
        _products(vectors, members, first, end, asked, weights)
        for p in range(first, end):
            largest = max(largest, weights[p])
        total = ZERO
        for p in range(first, end):
            share = _exp(weights[p] - largest)
            weights[p] = share
            total += share
        scale = ONE / total
        for p in range(first, end):
            weights[p] *= scale
        # the reading r_t = sum_j a_jt m_j
        _sum(vectors, members, first, end, weights, read)
        for k in range(width):
            query[i, k] = asked[k]
            reading[i, k] = read[k]


@_njit
def step_gradient(
    vectors,
    members,
    starts,
    gates,
    before,
    squashed,
    weights,
    query,
    reading,
    outer,
    later_query,
    later_cell,
    d_vectors,
    d_gates,
    d_bias,
):
    """Propagate gradients back through one step.

    Parameters
    ----------
    vectors, members, starts
        As of :func:`start`.
    gates, before, squashed, weights, query, reading
        As :func:`step` wrote them.
    outer : ndarray of float32, shape (n, D)
        Gradient of the loss by the readings.
    later_query : ndarray of float32, shape (n, D)
        Gradient by the queries through later steps.
    later_cell : ndarray of float32, shape (n, D)
        Gradient by the cells through later steps; afterwards that by the cells before this step.
    d_vectors : ndarray of float32, shape (m, D)
        Gradient by the vectors, which is added to.
    d_gates : ndarray of float32, shape (n, 4 D)
        Written: gradient by what the gates are computed from.
    d_bias : ndarray of float32, shape (4 D,)
        Its sum over the sets is added.
    """
    n, width = reading.shape
    # contiguous, for vector instructions
    d_query = np.empty(width, np.float32)
    d_read = np.empty(width, np.float32)
    asked = np.empty(width, np.float32)
    for i in range(n):
        # through r_t = sum_j a_jt m_j and the softmax: d_score_j = a_j (m_j - r) . d_r
        mean = ZERO
        for k in range(width):
            d_query[k] = later_query[i, k]
            d_read[k] = outer[i, k]
            asked[k] = query[i, k]
            mean += d_read[k] * reading[i, k]
        for p in range(starts[i], starts[i + 1]):
            row = vectors[members[p]]
            product = ZERO
            for k in range(width):
                product += d_read[k] * row[k]
            weight = weights[p]
            d_score = weight * (product - mean)
            d_row = d_vectors[members[p]]
            for k in range(width):
                d_query[k] += d_score * row[k]
                d_row[k] += weight * d_read[k] + d_score * asked[k]
        # through the LSTM's gates and cell
        for k in range(width):
            enter = gates[i, k]
            keep = gates[i, width + k]
            leave = gates[i, 2 * width + k]
            candidate = gates[i, 3 * width + k]
            bent = squashed[i, k]
            d_cell = later_cell[i, k] + d_query[k] * leave * (ONE - bent * bent)
            d_gates[i, k] = d_cell * candidate * enter * (ONE - enter)
            d_gates[i, width + k] = d_cell * before[i, k] * keep * (ONE - keep)
            d_gates[i, 2 * width + k] = d_query[k] * bent * leave * (ONE - leave)
            d_gates[i, 3 * width + k] = d_cell * enter * (ONE - candidate * candidate)
            later_cell[i, k] = d_cell * keep
        for k in range(4 * width):
            d_bias[k] += d_gates[i, k]


@_njit
def start_gradient(members, starts, weights, outer, d_vectors):
    """Add the gradient of the first readings to that of the vectors.

    Parameters
    ----------
    members, starts
        As of :func:`start`.
    weights : ndarray of float32, shape (total,)
        As :func:`start` wrote them.
    outer : ndarray of float32, shape (n, D)
        Gradient of the loss by the first readings.
    d_vectors : ndarray of float32, shape (m, D)
        Gradient by the vectors, which is added to.
    """
    width = d_vectors.shape[1]
    d_read = np.empty(width, np.float32)
    for i in range(len(starts) - 1):
        for k in range(width):
            d_read[k] = outer[i, k]
        for p in range(starts[i], starts[i + 1]):
            weight = weights[p]
            d_row = d_vectors[members[p]]
            for k in range(width):
                d_row[k] += weight * d_read[k]


@_njit
def relu(inputs, bias):
    """Add a bias to every row and replace what is negative by 0, in place.

    Parameters
    ----------
    inputs : ndarray of float32, shape (n, H)
    bias : ndarray of float32, shape (H,)
    """
    for i in range(len(inputs)):
        for k in range(len(bias)):
            value = inputs[i, k] + bias[k]
            # NaN stays NaN
            inputs[i, k] = ZERO if value <= ZERO else value


@_njit
def relu_gradient(outer, activations, d_bias):
    """Set the gradient to 0 where a unit is off, in place, and add its sums to that of the bias.

    Parameters
    ----------
    outer, activations : ndarray of float32, shape (n, H)
    d_bias : ndarray of float32, shape (H,)
    """
    for i in range(len(outer)):
        for k in range(len(d_bias)):
            if activations[i, k] <= ZERO:
                outer[i, k] = ZERO
            d_bias[k] += outer[i, k]


@_njit
def first_layer(columns, values, by_value, by_column, bias):
    """Activations of the reading block's first layer.

    Parameters
    ----------
    columns : ndarray of int64, shape (m,)
        Matrix column of each memory vector; the indicator I(j) selects a row of `by_column`.
    values : ndarray of float32, shape (m,)
    by_value : ndarray of float32, shape (H,)
    by_column : ndarray of float32, shape (d, H)
    bias : ndarray of float32, shape (H,)

    Returns
    -------
    ndarray of float32, shape (m, H)
    """
    out = np.empty((len(columns), len(bias)), np.float32)
    for i in range(len(columns)):
        row = by_column[columns[i]]
        for k in range(len(bias)):
            value = values[i] * by_value[k] + row[k] + bias[k]
            out[i, k] = ZERO if value <= ZERO else value
    return out


@_njit
def add_rows(rows, places, sums):
    """Add rows to those of another matrix; several may go to the same place.

    Parameters
    ----------
    rows : ndarray of float32, shape (n, H)
    places : ndarray of int64, shape (n,)
        Where each row is added.
    sums : ndarray of float32, shape (m, H)
        Added to.
    """
    for i in range(len(places)):
        place = places[i]
        for k in range(rows.shape[1]):
            sums[place, k] += rows[i, k]


@_njit
def adam(vector, gradient, mean, square, keep1, keep2, scale, epsilon):
    """Take a step of Adam in place.

    Parameters
    ----------
    vector, gradient, mean, square : ndarray of float32, shape (size,)
    keep1, keep2 : float32
        One less the decay of either moment.
    scale, epsilon : float32
        Learning rate and smallest root, with the corrections for the moments' start at 0.
    """
    for i in range(len(vector)):
        g = gradient[i]
        mean[i] += keep1 * (g - mean[i])
        square[i] += keep2 * (g * g - square[i])
        vector[i] -= scale * mean[i] / (np.sqrt(square[i]) + epsilon)
