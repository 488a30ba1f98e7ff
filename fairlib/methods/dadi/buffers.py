"""Arrays of the right shapes for the compiled training."""

from __future__ import annotations

import numpy as np

from evenhand.fairlib.methods.dadi._encoder import ReadTrace, SetTrace, States
from evenhand.fairlib.methods.dadi._inference import Columns
from evenhand.fairlib.methods.dadi._learner import Adam, Learner, Room
from evenhand.fairlib.methods.dadi._perceptron import HeadTrace
from evenhand.fairlib.methods.dadi.parameters import Float32, NetworkShape

__all__ = ["make_learner", "make_states"]


def make_states(agents: int, times: int, columns: Columns) -> States:
    """Room for sets of known columns at several times (first axis); there are two people per agent."""
    t, c = columns.table.size, columns.own.size
    return States(
        np.zeros((times, agents), np.int64),
        np.zeros((2 * agents, t), np.float32),
        np.zeros((times, agents, t), np.float32),
        np.zeros((times, agents, c), np.float32),
    )


def make_learner(
    shape: NetworkShape, vector: Float32, columns: Columns, *, agents: int, times: int, steps: int
) -> Learner:
    """A network of the given parameters (they stay in `vector`) with what its training needs."""
    gradient, mean, square = (np.zeros(shape.size, np.float32) for _ in range(3))
    adam = Adam(vector, gradient, mean, square, np.zeros(1, np.int64))
    return Learner(shape.sizes, adam, _room(shape, columns, agents, times, steps))


def _room(shape: NetworkShape, columns: Columns, agents: int, times: int, steps: int) -> Room:
    t, c, width = columns.table.size, columns.own.size, shape.memory
    rows = 2 * t + 2 * agents * c
    first, second = shape.hidden

    def zeros(*sizes: int) -> Float32:
        return np.zeros(sizes, np.float32)

    def head(outputs: int) -> HeadTrace:
        return HeadTrace(*(zeros(times, agents, units) for units in (first, second, outputs)))

    reading = ReadTrace(
        np.concatenate([columns.table, columns.table, np.tile(columns.own, 2 * agents)]),
        np.concatenate([columns.low, columns.high, zeros(2 * agents * c)]),
        zeros(rows, first),
        zeros(rows, second),
    )
    sets = SetTrace(
        zeros(times, steps, agents, 2 * width),
        zeros(times, steps, agents, 4 * width),
        zeros(times, steps + 1, agents, width),
        zeros(times, steps, agents, width),
        zeros(times, steps, agents, width),
        zeros(times, steps, agents, width),
        zeros(times, steps, agents, t + c),
        zeros(times, agents),
    )
    return Room(
        reading, zeros(rows, width), zeros(rows, width), sets, head(shape.classes), head(shape.actions)
    )
