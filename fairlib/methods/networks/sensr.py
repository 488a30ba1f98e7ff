"""SenSR: a network trained on the worst case within a fair-metric budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.auditor import LogLoss
from evenhand.fairlib.methods.networks.adversary import Adversary, AuditedNetwork
from evenhand.fairlib.methods.networks.training import Batch, Objective

__all__ = ["SenSRClassifier"]


class _Robustness:
    """Cross-entropy at the worst comparable treatment of each row."""

    def __init__(self, adversary: Adversary) -> None:
        self.adversary = adversary
        self.state = adversary.state
        self.restore = adversary.restore

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        worst, told = self.adversary.worst_case(network, batch.x, lambda view: LogLoss(batch.labels))
        return functional.cross_entropy(network(worst.points), batch.labels), told


class SenSRClassifier(AuditedNetwork):
    r"""
    Sensitive subspace robustness (Yurochkin et al. 2020), for any number of classes.

    .. math::
        \min_\theta \; \sup_{P: W_{d_X}(P, P_n) \le \epsilon} E_P[\ell(y, h_\theta(x))]
        = \min_\theta \inf_{\lambda \ge 0} \lambda \epsilon
        + E[\sup_{x'} \; \ell(y, h_\theta(x')) - \lambda d_X(x, x')]

    with :math:`d_X` the squared fair distance: equation 2.5 of Yurochkin and Sun 2021, to which their SenSeI
    is compared. One mini-batch: the auditor finds the worst :math:`x'` of every row, the network descends on
    the loss there, and :math:`\lambda` moves towards the budget.

    Parameters
    ----------
    metric : fair metric or None
        Fitted, or a template that is fitted on X and ``sensitive_features``. None: a
        :class:`evenhand.fairlib.distances.SensitiveSubspace` of ``sensitive_features``.
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
        Means over the 50 steps up to each ``step``: ``loss`` (nats, in the worst case), ``spent`` (mean
        squared distance) and ``multiplier``.
    """

    def __init__(
        self,
        metric: Any = None,
        *,
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
        return _Robustness(Adversary(self, self.metric_, 1.0, seed))
