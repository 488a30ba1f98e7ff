"""The paper's two-player game (Deng et al. 2023, Algorithm 3) in place of the proxy tree's linear
program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.splitting import Hypotheses, Limits
from evenhand.fairlib.proxies.tree import ProxyTree
from evenhand.fairlib.proxies.tree_builder import TreeBuilder, Vertex

# The game meets its limits only asymptotically: it is played under limits this much stricter.
GAME_MARGIN = 0.05


def add_halfspace(pool: Hypotheses, direction: Float, cut: float) -> None:
    """Add one halfspace to a pool."""
    chosen = pool.scores @ direction > cut
    pool.tallies = np.vstack([pool.tallies, pool.counted[chosen].sum(axis=0)])
    pool.directions.append(direction)
    pool.cuts.append(cut)


def play_game(
    pool: Hypotheses, limits: Limits, direction: Float, offset: float, rounds: int
) -> Float | None:
    r"""Find the uniform mixture over the rounds of the two-player game (Deng et al. 2023, Algorithm
    3).

    In every round the learner answers the duals by its oracle, the halfspace on which the
    regression of the costs is negative. The auditor takes a projected gradient step of :math:`1 /
    \sqrt t`, in units of the vertex's rows. The hypotheses are added to the pool. The mixture has
    the shape (T,); it is None if the limits do not allow it.
    """
    base, total = limits.base_rates, pool.total
    alpha = limits.alpha * (1.0 - GAME_MARGIN)
    mean = direction @ total[:-1] / total[-1]
    whole = limits.excess(total / total[-1], alpha)
    duals = np.zeros((4, len(base)))
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    first = len(pool.cuts)
    for t in range(1, rounds + 1):
        # the cost of selecting a row of group k is prices[k] + constant
        prices = signs @ duals - direction
        constant = mean + offset - signs @ duals @ base
        constant += alpha * (duals[2:].sum() - duals[:2].sum())
        add_halfspace(pool, -prices, constant)
        selected = limits.excess(pool.tallies[-1] / total[-1], alpha)
        broken = np.concatenate([selected, whole - selected]).reshape(duals.shape)
        duals = np.maximum(duals + broken / np.sqrt(t), 0.0)
    mixture = np.zeros(len(pool.cuts))
    mixture[first:] = 1.0 / rounds
    one = mixture @ pool.tallies
    return mixture if limits.allow(one) and limits.allow(total - one) else None


@dataclass(repr=False, eq=False)
class GameTree(ProxyTree):
    """A proxy tree whose splits are the game's, of so many rounds."""

    rounds: int = 100

    def _fit_graph(
        self, rows: Float32, indicators: Float, callback: Callback | None
    ) -> SplittingGraph:
        builder = GameBuilder(rows, indicators, self.target_, self)
        builder.grow(callback)
        self.distances_, self.least_alpha_ = builder.distances, None
        return builder.graph()


class GameBuilder(TreeBuilder):
    """Builder of such a tree."""

    config: GameTree

    def _mixture(
        self, pool: Hypotheses, limits: Limits, direction: Float, offset: float
    ) -> Float | None:
        return play_game(pool, limits, direction, offset, self.config.rounds)

    def _pool(self, leaf: Vertex, direction: Float) -> Hypotheses:
        pool = super()._pool(leaf, direction)
        # a halfspace of the game can be empty
        pool.keep(np.flatnonzero(pool.tallies[:, -1] > 0))
        return pool
