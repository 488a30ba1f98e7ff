"""Compiled layers: the exponential, and perceptrons of two hidden ReLU layers, forward and backward."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from evenhand.fairlib.methods.dadi.network import Perceptron

ZERO, HALF, ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
# ln 2 in two parts, so that x - k ln 2 is exact (Cody and Waite)
LN2_HIGH = np.float32(0.693359375)
LN2_LOW = np.float32(-2.12194440e-4)
INVERSE_LN2 = np.float32(1.44269504)
# outside of these bounds exp(x) is not a normal float32 number
LOWEST, HIGHEST = np.float32(-87.3), np.float32(88.3)
# minimax polynomial of (exp(f) - 1 - f) / f^2 on |f| <= ln 2 / 2
C5, C4, C3, C2, C1, C0 = (
    np.float32(c)
    for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
)


class HeadTrace(NamedTuple):
    """Hidden layers and outputs of a head, for every row."""

    hidden1: Any
    hidden2: Any
    outputs: Any


@numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz"})  # type: ignore[misc]
def exponential(values: Any, powers: Any) -> None:
    """Replace a buffer by its exponential, with a relative error of about 1e-7.

    The loops have a form that compilers turn into vector instructions, unlike a call of ``exp``.

    `values`, float32 of shape (n,), are clipped to where the result is a normal number. `powers`, int32 of
    shape (>= n,), is scratch.
    """
    n = values.shape[0]
    # exp(x) = 2^k exp(f), with |f| <= ln 2 / 2
    for i in range(n):
        x = min(max(values[i], LOWEST), HIGHEST)
        k = np.floor(x * INVERSE_LN2 + HALF)
        f = (x - k * LN2_HIGH) - k * LN2_LOW
        p = ((((C5 * f + C4) * f + C3) * f + C2) * f + C1) * f + C0
        values[i] = (p * f) * f + f + ONE
        powers[i] = (np.int32(k) + np.int32(127)) << np.int32(23)
    # 2^k, from its exponent bits
    scale = powers[:n].view(np.float32)
    for i in range(n):
        values[i] *= scale[i]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def add_bias(values: Any, bias: Any, rectify: bool) -> None:
    """Add a bias to every row, and apply a ReLU if `rectify`."""
    rows, width = values.shape
    for i in range(rows):
        for j in range(width):
            x = values[i, j] + bias[j]
            values[i, j] = max(x, ZERO) if rectify else x


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def relu_backward(gradient: Any, outputs: Any) -> None:
    """Set a gradient to 0 where the ReLU's output is 0."""
    rows, width = gradient.shape
    for i in range(rows):
        for j in range(width):
            if outputs[i, j] <= ZERO:
                gradient[i, j] = ZERO


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def sum_rows(values: Any, total: Any) -> None:
    """Add every row to `total`."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            total[j] += values[i, j]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def layer_backward(inputs: Any, weight: Any, outer: Any, d_weight: Any, d_bias: Any) -> Any:
    """Add a linear layer's gradients to `d_weight` and `d_bias`, and return that of its inputs."""
    d_weight += np.dot(inputs.T, outer)
    sum_rows(outer, d_bias)
    return np.dot(outer, weight.T)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def apply_head(head: Perceptron, inputs: Any, trace: HeadTrace) -> None:
    """Compute a head's trace from its inputs, shape (n, D)."""
    np.dot(inputs, head.weight1, trace.hidden1)
    add_bias(trace.hidden1, head.bias1, True)
    np.dot(trace.hidden1, head.weight2, trace.hidden2)
    add_bias(trace.hidden2, head.bias2, True)
    np.dot(trace.hidden2, head.weight3, trace.outputs)
    add_bias(trace.outputs, head.bias3, False)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def head_backward(head: Perceptron, inputs: Any, trace: HeadTrace, outer: Any, gradient: Perceptron) -> Any:
    """Add a head's gradients, given that of its outputs, and return that of its inputs, shape (n, D)."""
    inner = layer_backward(trace.hidden2, head.weight3, outer, gradient.weight3, gradient.bias3)
    relu_backward(inner, trace.hidden2)
    inner = layer_backward(trace.hidden1, head.weight2, inner, gradient.weight2, gradient.bias2)
    relu_backward(inner, trace.hidden1)
    return layer_backward(inputs, head.weight1, inner, gradient.weight1, gradient.bias1)
