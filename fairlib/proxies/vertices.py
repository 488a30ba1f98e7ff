"""Vertices of a growing tree, and the graph of those whose scores come from fitted estimators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.proxies.oracle import Scores
from evenhand.fairlib.proxies.splitting import Hypotheses

__all__ = ["OracleGraph", "Vertex", "split_vertices"]

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]


@dataclass(eq=False)
class Vertex:
    """A leaf, or a split one: its rows with their weights, and what became of it."""

    rows: NDArray[np.intp]
    weights: Float
    tally: Float
    depth: int
    scores: Scores | None = None
    pool: Hypotheses | None = None
    halfspaces: list[tuple[Float, float, float]] | None = None
    children: tuple[Vertex, Vertex] | None = None

    @property
    def composition(self) -> Float:
        """Shares of the groups."""
        return self.tally[:-1] / self.tally[-1]


class OracleGraph:
    """A splitting graph whose scores come from fitted estimators; it can carry rows, and cannot be saved."""

    def __init__(self, vertices: list[Vertex], links: list[NDArray[np.int64]], groups: int) -> None:
        self.vertices, self.links, self.groups = vertices, links, groups

    def shares(self, X: Float32) -> Float:
        """Share of every row in every proxy group, shape (n, groups)."""
        found = np.zeros((len(X), self.groups))
        weights = np.zeros((len(self.vertices), len(X)))
        weights[0] = 1.0
        for node, vertex in enumerate(self.vertices):
            scores = vertex.scores.of(X)  # type: ignore[union-attr]
            share = np.zeros(len(X))
            for direction, cut, weight in vertex.halfspaces or []:
                share += weight * (scores @ direction > cut)
            one = weights[node] * np.minimum(share, 1.0)
            for side, part in enumerate((one, weights[node] - one)):
                child = self.links[side][node]
                if child >= 0:
                    weights[child] += part
                else:
                    found[:, -1 - child] += part
        return found


def split_vertices(root: Vertex) -> list[Vertex]:
    """Vertices with children, parents before children."""
    found: list[Vertex] = []
    _collect(root, found)
    return found


def _collect(vertex: Vertex, found: list[Vertex]) -> None:
    """Split vertices, parents before children."""
    if vertex.children is None:
        return
    found.append(vertex)
    for child in vertex.children:
        _collect(child, found)
