"""Perceptron of two hidden ReLU layers: forward into a trace, and backward out of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

__all__ = ["HeadTrace", "Perceptron", "add_bias", "apply_head", "head_backward", "relu_backward"]

ZERO = np.float32(0.0)


class Perceptron(NamedTuple):
    """Weights (inputs, outputs) and biases of three layers, or their gradients."""

    weight1: Any
    bias1: Any
    weight2: Any
    bias2: Any
    weight3: Any
    bias3: Any


class HeadTrace(NamedTuple):
    """What a head computed for every row: both hidden layers and the outputs."""

    hidden1: Any
    hidden2: Any
    outputs: Any


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def add_bias(values: Any, bias: Any, rectify: bool) -> None:
    """Add a bias to every row; with `rectify`, no value stays below 0."""
    rows, width = values.shape
    for i in range(rows):
        for j in range(width):
            x = values[i, j] + bias[j]
            values[i, j] = max(x, ZERO) if rectify else x


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def relu_backward(gradient: Any, outputs: Any) -> None:
    """Set a gradient to 0 where the unit was off."""
    rows, width = gradient.shape
    for i in range(rows):
        for j in range(width):
            if outputs[i, j] <= ZERO:
                gradient[i, j] = ZERO


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def apply_head(head: Perceptron, inputs: Any, trace: HeadTrace) -> None:
    """Forward; `inputs` has shape (n, D)."""
    np.dot(inputs, head.weight1, trace.hidden1)
    add_bias(trace.hidden1, head.bias1, True)
    np.dot(trace.hidden1, head.weight2, trace.hidden2)
    add_bias(trace.hidden2, head.bias2, True)
    np.dot(trace.hidden2, head.weight3, trace.outputs)
    add_bias(trace.outputs, head.bias3, False)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _layer_backward(inputs: Any, weight: Any, outer: Any, d_weight: Any, d_bias: Any) -> Any:
    """Add a layer's gradients to what is there, and give that of its inputs."""
    d_weight += np.dot(inputs.T, outer)
    for i in range(outer.shape[0]):
        for j in range(outer.shape[1]):
            d_bias[j] += outer[i, j]
    return np.dot(outer, weight.T)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def head_backward(head: Perceptron, inputs: Any, trace: HeadTrace, outer: Any, gradient: Perceptron) -> Any:
    """
    Add the gradients of a head to `gradient`.

    Parameters
    ----------
    outer : float32, shape (n, outputs)
        Gradient with respect to the outputs.

    Returns
    -------
    float32, shape (n, D)
        Gradient with respect to the inputs.
    """
    inner = _layer_backward(trace.hidden2, head.weight3, outer, gradient.weight3, gradient.bias3)
    relu_backward(inner, trace.hidden2)
    inner = _layer_backward(trace.hidden1, head.weight2, inner, gradient.weight2, gradient.bias2)
    relu_backward(inner, trace.hidden1)
    return _layer_backward(inputs, head.weight1, inner, gradient.weight1, gradient.bias1)
