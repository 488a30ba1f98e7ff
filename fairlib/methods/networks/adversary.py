"""What SenSeI and SenSR share: the fair metric, the auditor and the price of its moves."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from evenhand.fairlib.auditor import (
    Auditor,
    DifferentiableModel,
    SearchObjective,
    WorstCase,
    as_differentiable,
)
from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.distances.registry import fitted_metric
from evenhand.fairlib.methods.base import Callback, Float32
from evenhand.fairlib.methods.networks.base import MitigatedNetwork
from evenhand.fairlib.methods.networks.training import Arrays, Objective
from evenhand.fairlib.randomness import derive_seed

__all__ = ["Adversary", "AuditedNetwork", "Multiplier", "check_not_negative"]


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
    parameters : AuditedNetwork
        Has the knobs of the search and of the price; they are checked here.
    metric : fitted fair metric
    scale : float
        The price's rate is ``multiplier_rate`` times this.
    seed : int
    """

    def __init__(self, parameters: AuditedNetwork, metric: Metric, scale: float, seed: int) -> None:
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
        self, network: nn.Module, x: Tensor, goal_of: Callable[[DifferentiableModel], SearchObjective]
    ) -> tuple[WorstCase, dict[str, float]]:
        """
        Search at the present price, then update it; also gives what the history records of that.

        The network is looked at as it would predict: without dropout, and with batch statistics as they are.
        """
        network.eval()
        view = as_differentiable(network)
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


class AuditedNetwork(MitigatedNetwork):
    """Base of the estimators that train against an adversary; one implements ``_against``."""

    metric: Any
    perturbation_budget: float
    multiplier_start: float
    multiplier_rate: float
    subspace_steps: int
    full_steps: int
    full_rate: float
    tolerance: float

    @abstractmethod
    def _against(self, seed: int) -> Objective:
        """What to minimise, with ``metric_`` set; checks the method's own parameters."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """
        Train.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
        sensitive_features : mapping of str to array-like, shape (n,), or None
            Only to fit a metric that is not fitted.
        callback : callable or None
            Called every 50 steps with (step, steps, last entries of ``history_``).
        checkpoint : path or None
            Folder of a file from which a later call with the same data and parameters goes on, to the same
            model, bit for bit. It is removed at the end.

        Raises
        ------
        ValueError
            A negative parameter where the class says that none is, no metric or one of another dimension, no
            auditor step, a batch below one row per class, fewer than one step, or a network of another shape.
        FloatingPointError
            The loss became NaN or infinite; the message names the step, and the last checkpoint stays.
        """
        return self._fit(
            X, y, sensitive_features=sensitive_features, callback=callback, checkpoint=checkpoint
        )

    def _objective(
        self,
        data: Float32,
        sensitive_features: Mapping[str, ArrayLike] | None,
        counterfactuals: Sequence[ArrayLike] | None,
        seed: int,
    ) -> Objective:
        self.metric_ = fitted_metric(self.metric, data, sensitive_features)
        return self._against(seed)
