"""A network as named views of one vector."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba

from evenhand.fairlib.methods.dadi._encoder import Encoder
from evenhand.fairlib.methods.dadi._perceptron import Perceptron

__all__ = ["Network", "network_of"]


class Network(NamedTuple):
    """An encoder with its heads; the adversary's policy has no outputs."""

    encoder: Encoder
    classify: Perceptron
    policy: Perceptron


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _perceptron(vector: Any, start: int, inputs: int, first: int, second: int, outputs: int) -> Perceptron:
    a = start + inputs * first
    b = a + first
    c = b + first * second
    d = c + second
    e = d + second * outputs
    return Perceptron(
        vector[start:a].reshape(inputs, first),
        vector[a:b],
        vector[b:c].reshape(first, second),
        vector[c:d],
        vector[d:e].reshape(second, outputs),
        vector[e : e + outputs],
    )


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def network_of(vector: Any, sizes: Any) -> Network:
    """
    Views of a vector's parts, in the order of the fields.

    Parameters
    ----------
    vector : float32, shape (parameters,)
    sizes : int64, shape (6,)
        Matrix columns, both hidden layers, length of memory vectors, classes, actions.
    """
    columns, first, second, width = sizes[0], sizes[1], sizes[2], sizes[3]
    a = first
    b = a + columns * first
    c = b + first
    d = c + first * second
    e = d + second
    f = e + second * width
    g = f + width
    h = g + 8 * width * width
    i = h + 4 * width
    encoder = Encoder(
        vector[:a],
        vector[a:b].reshape(columns, first),
        vector[b:c],
        vector[c:d].reshape(first, second),
        vector[d:e],
        vector[e:f].reshape(second, width),
        vector[f:g],
        vector[g:h].reshape(2 * width, 4 * width),
        vector[h:i],
    )
    j = i + width * first + first + first * second + second + second * sizes[4] + sizes[4]
    return Network(
        encoder,
        _perceptron(vector, i, width, first, second, sizes[4]),
        _perceptron(vector, j, width, first, second, sizes[5]),
    )
