"""SenSeI: a network that is invariant on sensitive sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.auditor import LogitDistance
from evenhand.fairlib.auditor.objectives import logit_distance
from evenhand.fairlib.methods.networks.adversary import Adversary, AuditedNetwork, check_not_negative
from evenhand.fairlib.methods.networks.training import Batch, CrossEntropy, Objective

__all__ = ["SenSeIClassifier"]


class _Invariance:
    """Cross-entropy plus rho times the worst distance of outputs within the budget."""

    def __init__(self, adversary: Adversary, rho: float) -> None:
        self.adversary = adversary
        self.rho = rho
        self.state = adversary.state
        self.restore = adversary.restore

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        worst, told = self.adversary.worst_case(
            network, batch.x, lambda view: LogitDistance(view.logits(batch.x))
        )
        own, other = network(torch.cat([batch.x, worst.points])).split(len(batch.x))
        loss = functional.cross_entropy(own, batch.labels)
        distance = logit_distance(own, other).mean()
        told |= {
            "classification_loss": float(loss.detach()),
            "output_distance": float(distance.detach()),
        }
        return loss + self.rho * distance, told


class SenSeIClassifier(AuditedNetwork):
    r"""
    Sensitive set invariance (Yurochkin and Sun 2021, Algorithm 1), for any number of classes.

    .. math::
        \min_\theta \inf_{\lambda \ge 0} E[\ell(y, h_\theta(x))] + \rho \left( \lambda \epsilon
        + E[\sup_{x'} \; d_Y(h_\theta(x), h_\theta(x')) - \lambda d_X(x, x')] \right)

    with :math:`d_Y` the mean squared difference of logits and :math:`d_X` the squared fair distance. One
    mini-batch: the auditor finds the worst :math:`x'` of every row, the network descends on the loss plus
    :math:`\rho` times the distance of the outputs, and :math:`\lambda` moves towards the budget.

    Parameters
    ----------
    metric : fair metric or None
        Fitted, or a template that is fitted on X and ``sensitive_features``. None: a
        :class:`evenhand.fairlib.distances.SensitiveSubspace` of ``sensitive_features``.
    rho : float
        :math:`\rho`, weight of invariance against accuracy. 0 is plain training, to the bit.
    perturbation_budget : float
        :math:`\epsilon`, mean squared fair distance that the auditor may move people.
    multiplier_start, multiplier_rate : float
        :math:`\lambda_0`, and :math:`\eta` of its update.
    subspace_steps, full_steps, full_rate, tolerance
        Of the search for the worst case: :class:`evenhand.fairlib.auditor.Auditor`.
    hidden, network, n_steps, batch_size, class_balance, learning_rate, weight_decay,
    random_state
        As in :class:`evenhand.fairlib.methods.networks.NeuralNetworkClassifier`.

    Attributes
    ----------
    network_ : torch.nn.Module
    metric_ : fair metric
    history_ : dict of str to list of float
        Means over the 50 steps up to each ``step``: ``loss`` (all of it), ``classification_loss`` (nats),
        ``output_distance``, ``spent`` (mean squared distance) and ``multiplier``.
    """

    def __init__(
        self,
        metric: Any = None,
        *,
        rho: float = 5.0,
        perturbation_budget: float = 0.01,
        multiplier_start: float = 1.0,
        multiplier_rate: float = 0.1,
        subspace_steps: int = 8,
        full_steps: int = 2,
        full_rate: float = 0.5,
        tolerance: float = 1e-4,
        hidden: Sequence[int] = (100,),
        network: nn.Module | None = None,
        n_steps: int = 2000,
        batch_size: int = 64,
        class_balance: float = 1.0,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.metric = metric
        self.rho = rho
        self.perturbation_budget = perturbation_budget
        self.multiplier_start = multiplier_start
        self.multiplier_rate = multiplier_rate
        self.subspace_steps = subspace_steps
        self.full_steps = full_steps
        self.full_rate = full_rate
        self.tolerance = tolerance
        self.hidden = hidden
        self.network = network
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.class_balance = class_balance
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

    def _against(self, seed: int) -> Objective:
        check_not_negative(rho=self.rho)
        adversary = Adversary(self, self.metric_, self.rho, seed)
        return _Invariance(adversary, self.rho) if self.rho > 0 else CrossEntropy()
