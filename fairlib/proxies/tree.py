"""The proxy tree: grown leaf by leaf until the wanted shares are within reach, each leaf within its limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.methods.base import Callback
from evenhand.fairlib.proxies.base import BalancingProxy
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.groups import Groups, Target
from evenhand.fairlib.proxies.oracle import EstimatorOracle, LinearOracle
from evenhand.fairlib.proxies.sampling import SamplingPlan, sampling_plan
from evenhand.fairlib.proxies.tree_builder import Growth, Settings

__all__ = ["ProxyTree"]

Float32 = NDArray[np.float32]


class ProxyTree(BalancingProxy):
    r"""
    A tree of randomised halfspaces whose leaves balance and tell little (Deng et al. 2023, Algorithm 4).

    Leaves are split while the target t is farther than `tolerance` from the hull of their compositions. A
    split must bring it nearer by the factor :math:`1 - \gamma`, and within each leaf j
    :math:`|A_{jk} - r_k| \le \alpha` for every group k. Of the splits of all leaves that do, the one is made
    after which most people can be kept: the paper takes any, and the nearest hull alone comes from leaves of
    a few people.

    Parameters
    ----------
    alpha : float
        :math:`\alpha` in [0, 1], the disclosivity that no leaf exceeds on the training rows.
    relaxed : bool
        Leave out :math:`\sum_j q_j = 1`: the distance is then that to the cone of the compositions. With a
        uniform target the nearest point of the cone is the nearest of the hull, scaled, so that the two
        differ in what counts as progress only.
    progress : float
        :math:`\gamma` in (0, 1).
    tolerance : float
        :math:`\beta`, the imbalance at which growing stops.
    max_height : int
    min_leaf : float
        Expected training rows that every leaf must have. Small leaves are what they should be in sample and
        not out of it, and their compositions, which are saved, are about few people.
    target : mapping of str to mapping of str to float, or None
        Wanted shares by attribute and group; None wants them equal.
    solver : {"program", "game"}
        ``"program"``: the linear program over the halfspaces found, which meets the constraints exactly.
        ``"game"``: the uniform mixture over the rounds of the two-player game (Algorithm 3).
    rounds : int
        Rounds of the game.
    ridge : float
        Of the regressions, above 0; the features should be of like scale.
    oracle : scikit-learn estimator or None
        Takes the place of the linear regressions. Such a proxy cannot be saved.

    Attributes
    ----------
    distances_ : list of float
        Distance of the target before the first split and after each.
    least_alpha_ : float or None
        If no split was found: the smallest alpha (to .001) under which one is found, None if there is none.
    """

    def __init__(
        self,
        alpha: float = 0.2,
        relaxed: bool = False,
        progress: float = 0.1,
        tolerance: float = 0.1,
        max_height: int = 20,
        min_leaf: float = 20.0,
        target: Mapping[str, Mapping[str, float]] | None = None,
        solver: Literal["program", "game"] = "program",
        rounds: int = 100,
        ridge: float = 1.0,
        oracle: Any = None,
    ) -> None:
        self.alpha = alpha
        self.relaxed = relaxed
        self.progress = progress
        self.tolerance = tolerance
        self.max_height = max_height
        self.min_leaf = min_leaf
        self.target: Target | None = target
        self.solver = solver
        self.rounds = rounds
        self.ridge = ridge
        self.oracle = oracle

    def _check_parameters(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must lie between 0 and 1, got {self.alpha!r}.")
        if not 0 < self.progress < 1:
            raise ValueError(f"progress must lie between 0 and 1, both excluded, got {self.progress!r}.")
        for name in ("tolerance", "min_leaf"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be at least 0, got {value!r}.")
        if not (self.ridge > 0 and math.isfinite(self.ridge)):
            raise ValueError(f"ridge must be above 0, got {self.ridge!r}.")
        for name in ("max_height", "rounds"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number, at least 1, got {value!r}.")
        if self.solver not in ("program", "game"):
            raise ValueError(f"solver must be program or game, got {self.solver!r}.")

    def _learn(self, rows: Float32, groups: Groups, callback: Callback | None) -> SplittingGraph:
        settings = Settings(
            alpha=self.alpha,
            relaxed=self.relaxed,
            progress=self.progress,
            tolerance=self.tolerance,
            max_height=int(self.max_height),
            min_leaf=float(max(self.min_leaf, 1e-6)),
            rounds=int(self.rounds) if self.solver == "game" else None,
        )
        oracle = LinearOracle(self.ridge) if self.oracle is None else EstimatorOracle(self.oracle)
        growth = Growth(rows, groups.indicators, self.target_, settings, oracle)
        growth.grow(callback)
        self.distances_ = growth.distances
        self.least_alpha_ = growth.least_alpha() if len(growth.distances) == 1 else None
        return growth.graph()

    def _plan(self, compositions: NDArray[np.float64], masses: NDArray[np.float64]) -> SamplingPlan:
        return sampling_plan(compositions, masses, self.target_, relaxed=self.relaxed)

    def _facts(self) -> dict[str, Any]:
        return {"distances": self.distances_, "least_alpha": self.least_alpha_}

    def _take_up(self, content: Mapping[str, Any]) -> None:
        self.distances_ = content["distances"]
        self.least_alpha_ = content["least_alpha"]
