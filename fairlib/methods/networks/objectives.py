"""Training objectives that compare outputs at each row with outputs elsewhere: SenSeI, SenSR and CLP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.auditor.differentiable_model import DifferentiableModel, as_differentiable
from evenhand.fairlib.auditor.objectives import LogitDistance, LogLoss, SearchObjective, logit_distance
from evenhand.fairlib.auditor.search import Auditor
from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.base import Float32
from evenhand.fairlib.methods.networks.training import Arrays, Batch, CrossEntropy

if TYPE_CHECKING:
    from evenhand.fairlib.methods.networks.sensei import AuditedNetwork


def next_multiplier(value: float, rate: float, budget: float, distance: float) -> float:
    r"""
    Multiplier :math:`\lambda` of the squared fair distance after a mini-batch.

    .. math:: \lambda_{t+1} = \max\{0, \lambda_t - \eta (\epsilon - \tfrac1B \sum_b d_X(x_b, x'_b))\}

    Yurochkin and Sun 2021, Algorithm 1.

    Parameters
    ----------
    value, rate, budget : float
        :math:`\lambda_t`, :math:`\eta` (with SenSeI: times :math:`\rho`) and :math:`\epsilon`.
    distance : float
        Mean squared fair distance of the mini-batch.
    """
    return max(0.0, value - rate * (budget - distance))


class Robustness(CrossEntropy):
    """
    Cross-entropy at the worst comparable treatment of each row (SenSR).

    Parameters
    ----------
    estimator : AuditedNetwork
        Its parameters of the search and of the multiplier, and its seed, are used.
    metric : fitted fair metric
    rho : float
        Weight of the search's objective, which scales the multiplier's rate.
    """

    def __init__(self, estimator: AuditedNetwork, metric: Metric, rho: float = 1.0) -> None:
        self.auditor = Auditor(
            metric,
            subspace_steps=estimator.subspace_steps,
            full_steps=estimator.full_steps,
            full_rate=estimator.full_rate,
            tolerance=estimator.tolerance,
        )
        self.rho = rho
        self.multiplier = estimator.multiplier_start
        self.rate = estimator.multiplier_rate * rho
        self.budget = estimator.perturbation_budget
        self.generator = torch.Generator().manual_seed(derive_seed(estimator.random_state, "auditor"))

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Loss of a mini-batch with its graph, and its logs."""
        points, logs = self.worst_case(network, batch.x, lambda model: LogLoss(batch.labels))
        return functional.cross_entropy(network(points), batch.labels), logs

    def worst_case(
        self, network: nn.Module, x: Tensor, objective_of: Callable[[DifferentiableModel], SearchObjective]
    ) -> tuple[Tensor, dict[str, float]]:
        """
        Search at the current multiplier, then update it; returns the points found and what to log.

        The search sees the network as it predicts: without dropout, and with fixed batch statistics.
        """
        # x' of Algorithm 1 (for SenSR the supremum of equation 2.5)
        network.eval()
        model = as_differentiable(network)
        found = self.auditor.search(model, x, objective_of(model), self.multiplier, self.generator)
        network.train()
        spent = float(found.squared_distance.mean(dtype=torch.float64))
        logs = {"spent": spent, "multiplier": self.multiplier}
        self.multiplier = next_multiplier(self.multiplier, self.rate, self.budget, spent)
        return found.points, logs

    def state(self) -> Arrays:
        """Give all that the next mini-batch depends on."""
        return {"multiplier": np.array(self.multiplier), "generator": self.generator.get_state().numpy()}

    def restore(self, arrays: Arrays) -> None:
        """Continue from arrays that :meth:`state` gave."""
        self.multiplier = float(arrays["multiplier"])
        self.generator.set_state(torch.from_numpy(arrays["generator"]))


class SetInvariance(Robustness):
    """Cross-entropy plus rho times the distance of outputs from those at the worst case (SenSeI)."""

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Loss of a mini-batch with its graph, and its logs."""
        points, logs = self.worst_case(network, batch.x, lambda model: LogitDistance(model.logits(batch.x)))
        loss, distances = _paired_loss(network, batch, points, self.rho)
        return loss, logs | distances


class LogitPairing(CrossEntropy):
    """Cross-entropy plus rho times the distance of outputs from those of a random counterfactual (CLP)."""

    def __init__(self, copies: Sequence[Float32], rho: float, seed: int | None) -> None:
        self.copies = torch.tensor(np.stack(copies))
        self.rho = rho
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "counterfactuals"))

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Loss of a mini-batch with its graph, and its logs."""
        drawn = torch.randint(len(self.copies), batch.rows.shape, generator=self.generator)
        return _paired_loss(network, batch, self.copies[drawn, batch.rows], self.rho)

    def state(self) -> Arrays:
        """Give all that the next mini-batch depends on."""
        return {"generator": self.generator.get_state().numpy()}

    def restore(self, arrays: Arrays) -> None:
        """Continue from arrays that :meth:`state` gave."""
        self.generator.set_state(torch.from_numpy(arrays["generator"]))


def _paired_loss(
    network: nn.Module, batch: Batch, others: Tensor, rho: float
) -> tuple[Tensor, dict[str, float]]:
    """Cross-entropy plus rho times the mean distance d_Y of outputs at the rows and at others."""
    own, paired = network(torch.cat([batch.x, others])).split(len(batch.x))
    loss = functional.cross_entropy(own, batch.labels)
    distance = logit_distance(own, paired).mean()
    logs = {"classification_loss": float(loss.detach()), "output_distance": float(distance.detach())}
    return loss + rho * distance, logs
