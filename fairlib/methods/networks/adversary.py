"""What SenSeI and SenSR share: the auditor and the price of its moves, from an estimator's parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from fairlib.auditor import Auditor, Goal, NetworkView, WorstCase, view_of
from fairlib.distances.base import Metric
from fairlib.methods.networks.training import Arrays
from fairlib.randomness import derive_seed

__all__ = ["Adversary", "Multiplier", "check_not_negative"]


class _Parameters(Protocol):
    perturbation_budget: float
    multiplier_start: float
    multiplier_rate: float
    subspace_steps: int
    full_steps: int
    full_rate: float
    tolerance: float


def check_not_negative(**values: float) -> None:
    """ValueError naming the first that is negative or not finite."""
    for name, value in values.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be finite and not negative, got {value!r}.")


class Multiplier:
    r"""
    The price :math:`\lambda` of a squared distance, kept where people move :math:`\epsilon` on average.

    .. math:: \lambda_{t+1} = \max\{0, \lambda_t - \eta (\epsilon - \tfrac1B \sum_b d_X(x_b, x'_b))\}

    Yurochkin and Sun 2021, Algorithm 1.

    Parameters
    ----------
    start, rate, budget : float
        :math:`\lambda_0`, :math:`\eta` (with SenSeI: times :math:`\rho`) and :math:`\epsilon`.
    """

    def __init__(self, start: float, rate: float, budget: float) -> None:
        self.value = start
        self.rate = rate
        self.budget = budget

    def update(self, spent: float) -> None:
        """Take a step, given the mean squared distance of a mini-batch."""
        self.value = max(0.0, self.value - self.rate * (self.budget - spent))


class Adversary:
    """
    Auditor, price and random choices of one training.

    Parameters
    ----------
    parameters : estimator
        Has the knobs of the search and of the price; they are checked here.
    metric : fitted fair metric
    scale : float
        The price's rate is ``multiplier_rate`` times this.
    seed : int
    """

    def __init__(self, parameters: _Parameters, metric: Metric, scale: float, seed: int) -> None:
        check_not_negative(
            perturbation_budget=parameters.perturbation_budget,
            multiplier_start=parameters.multiplier_start,
            multiplier_rate=parameters.multiplier_rate,
        )
        self.auditor = Auditor(
            metric,
            subspace_steps=parameters.subspace_steps,
            full_steps=parameters.full_steps,
            full_rate=parameters.full_rate,
            tolerance=parameters.tolerance,
        )
        self.price = Multiplier(
            parameters.multiplier_start, parameters.multiplier_rate * scale, parameters.perturbation_budget
        )
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "auditor"))

    def worst_case(
        self, network: nn.Module, x: Tensor, goal_of: Callable[[NetworkView], Goal]
    ) -> tuple[WorstCase, dict[str, float]]:
        """
        Search at the present price, then update it; also gives what the history records of that.

        The network is looked at as it would predict: without dropout, and with batch statistics as they are.
        """
        network.eval()
        view = view_of(network)
        found = self.auditor.search(view, x, goal_of(view), self.price.value, self.generator)
        network.train()
        told = {
            "spent": float(found.squared_distance.mean(dtype=torch.float64)),
            "multiplier": self.price.value,
        }
        self.price.update(told["spent"])
        return found, told

    def state(self) -> Arrays:
        """What the next mini-batch builds on."""
        return {"multiplier": np.array(self.price.value), "generator": self.generator.get_state().numpy()}

    def restore(self, arrays: Arrays) -> None:
        """Take up what :meth:`state` gave."""
        self.price.value = float(arrays["multiplier"])
        self.generator.set_state(torch.from_numpy(arrays["generator"]))
