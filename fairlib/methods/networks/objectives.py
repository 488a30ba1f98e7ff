"""Training objectives that compare outputs at each row with outputs elsewhere: SenSeI, SenSR and
CLP.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.auditor.differentiable_model import (
    DifferentiableModel,
    as_differentiable,
    perceptron_layers,
)
from evenhand.fairlib.auditor.worst_case_search import (
    Auditor,
    LogitDistance,
    LogLoss,
    RowObjective,
    SearchBounds,
    SearchObjective,
    WorstCase,
    logit_distance,
)
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.networks.network_training import (
    Batch,
    MeanLoss,
    RowLoss,
    State,
    log_loss,
)

if TYPE_CHECKING:
    from evenhand.fairlib.methods.networks.sensei import AuditedNetwork

# Rows of one search on validation rows.
CHUNK_ROWS = 2048
# Range of a multiplier that is updated relatively.
MULTIPLIER_RANGE = 1e-6, 1e6


def next_multiplier(value: float, rate: float, budget: float, distance: float) -> float:
    r"""Multiplier :math:`\lambda` of the squared fair distance after a mini-batch.

    .. math::
        \lambda_{t+1} =
        \max\{0, \lambda_t - \eta (\epsilon - \tfrac1B \sum_b d_X(x_b, x'_b))\}

    Yurochkin and Sun 2021, Algorithm 1.

    Parameters
    ----------
    value : float
        :math:`\lambda_t`.
    rate : float
        :math:`\eta` (with SenSeI: times :math:`\rho`).
    budget : float
        :math:`\epsilon`, a mean squared fair distance.
    distance : float
        Mean squared fair distance of the mini-batch.

    Returns
    -------
    float
        :math:`\lambda_{t+1}`, at least 0.

    References
    ----------
    Yurochkin and Sun, "SenSeI: Sensitive Set Invariance for Enforcing Individual Fairness", ICLR
    2021.
    """
    return max(0.0, value - rate * (budget - distance))


def next_relative_multiplier(value: float, rate: float, budget: float, distance: float) -> float:
    r"""Multiplier after a mini-batch, by a step that depends on no scale.

    .. math:: \lambda_{t+1} = \lambda_t \exp\left(\eta \min\left\{1, \tfrac{1}{\epsilon B} \sum_b
              d_X(x_b, x'_b) - 1\right\}\right)

    An update by differences (:func:`next_multiplier`) either takes very long or overshoots, because
    the distance spent falls with :math:`1 / \lambda^2`: a multiplier that was pushed up by a few
    early mini-batches ends the search. Here it goes back by a share of itself.

    Parameters
    ----------
    value : float
        :math:`\lambda_t`.
    rate : float
        :math:`\eta`.
    budget : float
        :math:`\epsilon`, a mean squared fair distance. With 0 any distance above 0 counts as twice
        the budget.
    distance : float
        Mean squared fair distance of the mini-batch.

    Returns
    -------
    float
        :math:`\lambda_{t+1}`, within ``MULTIPLIER_RANGE``.
    """
    # without a budget anything that is spent is too much
    excess = min(1.0, distance / budget - 1.0) if budget > 0 else float(np.sign(distance))
    low, high = MULTIPLIER_RANGE
    return min(high, max(low, value * math.exp(rate * excess)))


class IntervalBound:
    r"""Upper bound on the output distance :math:`d_Y` to everybody within a fair distance, by
    intervals.

    .. math:: \frac1K \sum_k \max\{h_k(x) - l_k, u_k - h_k(x)\}^2 \ge \sup_{x'} d_Y(h(x), h(x'))

    The inputs of the first layer's units are linear in :math:`x' = x + P\delta + B t`: their ends
    are those over the box of t and, for :math:`\delta`, the smaller of those over the box and over
    the ellipsoid :math:`\delta^\top \Sigma \delta \le r^2`, which for a row w of the weights is
    :math:`r (w P \Sigma^+ P w^\top)^{1/2}`. Every later layer maps centre c and half-width s of an
    interval to :math:`W c + b` and :math:`|W| s`. The sets are those
    of :class:`evenhand.fairlib.auditor.worst_case_search.SearchBounds`. Rounding in float32 is not
    allowed for: it serves the training, and a certificate is proved afterwards.

    Parameters
    ----------
    metric : Metric
        Fitted.
    radius : float
        r, a fair distance.

    References
    ----------
    Gowal et al., "On the Effectiveness of Interval Bound Propagation for Training Verifiably Robust
    Models", 2018, section 3.
    """

    def __init__(self, metric: Metric, radius: float) -> None:
        self.metric = metric
        self.radius = radius

    def __call__(self, network: nn.Module, x: Tensor, logits: Tensor) -> Tensor:
        """Bound of each row, shape (b,), for rows (b, d) and their logits (b, K).
        ValueError: the network is no chain of linear layers with ReLU between them.
        """
        layers = perceptron_layers(network)
        if layers is None:
            raise ValueError(
                "bound_weight needs a network of linear layers with ReLU between them."
            )
        around = SearchBounds(self.metric, x)
        first = layers[0]
        along = first.weight @ around.basis
        across = first.weight - along @ around.basis.T
        # a squared length below 0 or at 0 is one of rounding: its root would have no gradient
        squared = (self.metric.unweigh(across) * across).sum(1)
        reach = self.radius * squared.clamp_min(torch.finfo(squared.dtype).tiny).sqrt()
        low, high = (
            sign * torch.minimum(reach, largest(sign * across, around.low, around.high))
            + sign * largest(sign * along, around.free_low, around.free_high)
            for sign in (-1.0, 1.0)
        )
        inputs = first(x)
        low = inputs + low
        high = inputs + high
        for layer in layers[1:]:
            low = functional.relu(low)
            high = functional.relu(high)
            centre = layer((low + high) / 2)
            half = ((high - low) / 2) @ layer.weight.abs().T
            low = centre - half
            high = centre + half
        return torch.maximum(high - logits, logits - low).square().mean(1)


def largest(weights: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Largest values of linear functions over boxes.

    Parameters
    ----------
    weights : Tensor, shape (h, d)
        Coefficients of each function.
    low, high : Tensor, shape (b, d)
        Ends of each box.

    Returns
    -------
    Tensor, shape (b, h)
    """
    return high @ functional.relu(weights).T - low @ functional.relu(-weights).T


class Robustness(MeanLoss):
    """The loss at the worst comparable treatment of each row (SenSR).

    Parameters
    ----------
    estimator : AuditedNetwork
        Its parameters of the search and of the multiplier, and its seed, are used.
    metric : Metric
        Fitted.
    budget : float
        Mean squared fair distance that may be spent.
    rho : float, default 1
        Weight of the search's objective, which scales the rate of the absolute update of the
        multiplier.
    """

    def __init__(
        self, estimator: AuditedNetwork, metric: Metric, budget: float, rho: float = 1.0
    ) -> None:
        self.auditor = Auditor(
            metric,
            subspace_steps=estimator.subspace_steps,
            full_steps=estimator.full_steps,
            full_rate=estimator.full_rate,
            tolerance=estimator.tolerance,
        )
        self.rho = rho
        self.multiplier = estimator.multiplier_start
        self.relative = estimator.multiplier_update == "relative"
        self.rate = estimator.multiplier_rate * (1.0 if self.relative else rho)
        self.budget = budget
        self.distance: RowLoss = getattr(estimator, "output_distance", None) or logit_distance
        self.bound_weight = estimator.bound_weight
        self.bound = IntervalBound(metric, math.sqrt(budget))
        self.generator = torch.Generator().manual_seed(
            derive_seed(estimator.random_state, "auditor")
        )
        self.validation_seed = derive_seed(estimator.random_state, "auditor", "validation")

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Loss of a mini-batch with its graph, and its logs."""
        points, logs = self.worst_case(network, batch)
        return self.bounded(network, batch, batch.loss(network(points)), logs)

    def bounded(
        self, network: nn.Module, batch: Batch, loss: Tensor, logs: dict[str, float]
    ) -> tuple[Tensor, dict[str, float]]:
        """Add the weighted mean of the proved bound on the output distance to a loss.

        Parameters
        ----------
        network : torch.nn.Module
            Linear layers with ReLU, where the estimator has a `bound_weight`.
        batch : Batch
        loss : Tensor, shape ()
        logs : dict of str to float
            What the history records of the mini-batch.

        Returns
        -------
        Tensor, shape ()
        dict of str to float
            `logs`, and ``output_bound``. Without a `bound_weight` both results are the arguments.
        """
        if not self.bound_weight:
            return loss, logs
        bound = batch.mean(self.bound(network, batch.x, network(batch.x)))
        return loss + self.bound_weight * bound, logs | {"output_bound": float(bound.detach())}

    def search_objective(self, model: DifferentiableModel, batch: Batch) -> SearchObjective:
        """What the search maximises: the loss of each row at its own label.

        Parameters
        ----------
        model : DifferentiableModel
            The network as it predicts.
        batch : Batch

        Returns
        -------
        SearchObjective
        """
        has_own_loss = batch.row_loss is not log_loss
        return RowObjective(batch.row_loss, batch.labels) if has_own_loss else LogLoss(batch.labels)

    def criterion(self, network: nn.Module, batch: Batch, shift: Tensor) -> float:
        r"""As :meth:`MeanLoss.criterion`: the dual objective, at the current multiplier.

        .. math:: E[\ell(y, h(x'))] + \lambda (\epsilon - E[d_X(x, x')])

        The searches draw the same random numbers every time, and change no state.

        Parameters
        ----------
        network : torch.nn.Module
            As it predicts.
        batch : Batch
            The validation rows.
        shift : Tensor of float64, shape (K,)
            What the training added to the log-odds of each class.

        Returns
        -------
        float
        """
        model = as_differentiable(network)
        random = torch.Generator().manual_seed(self.validation_seed)
        total = 0.0
        for part in batch.parts(CHUNK_ROWS):
            objective = self.search_objective(model, part)
            worst_case = self.auditor.search(model, part.x, objective, self.multiplier, random)
            spent = float(part.mean(worst_case.squared_distance.double()))
            with torch.no_grad():
                value = self.value(network, part, worst_case, shift)
                value = float(self.bounded(network, part, torch.tensor(value), {})[0])
            total += len(part.x) * (value + self.rho * self.multiplier * (self.budget - spent))
        return total / len(batch.x)

    def value(self, network: nn.Module, batch: Batch, found: WorstCase, shift: Tensor) -> float:
        """Give the objective without its multiplier's part: the loss at the points found.

        Parameters
        ----------
        network : torch.nn.Module
            As it predicts.
        batch : Batch
        found : WorstCase
            Result of the search for the rows of the batch.
        shift : Tensor of float64, shape (K,)
            What the training added to the log-odds of each class.

        Returns
        -------
        float
        """
        return float(batch.loss(network(found.points).double() - shift))

    def worst_case(self, network: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Search at the current multiplier, then update it.

        The search sees the network as it predicts: without dropout, and with fixed batch
        statistics.

        Parameters
        ----------
        network : torch.nn.Module
            Afterwards in training mode.
        batch : Batch

        Returns
        -------
        Tensor, shape (b, d)
            The points found.
        dict of str to float
            What to log: ``spent``, the mean squared fair distance, and ``multiplier``, that of the
            search.
        """
        # x' of Algorithm 1 (for SenSR the supremum of equation 2.5)
        network.eval()
        model = as_differentiable(network)
        objective = self.search_objective(model, batch)
        worst_case = self.auditor.search(model, batch.x, objective, self.multiplier, self.generator)
        network.train()
        spent = float(batch.mean(worst_case.squared_distance.double()))
        logs = {"spent": spent, "multiplier": self.multiplier}
        update = next_relative_multiplier if self.relative else next_multiplier
        self.multiplier = update(self.multiplier, self.rate, self.budget, spent)
        return worst_case.points, logs

    def state(self) -> State:
        """Give all that the next mini-batch depends on."""
        return {"multiplier": self.multiplier, "generator": self.generator.get_state()}

    def restore(self, state: State) -> None:
        """Continue from a loaded :meth:`state`.

        Parameters
        ----------
        state : dict
            As a checkpoint loads it.
        """
        self.multiplier = float(state["multiplier"])
        self.generator.set_state(torch.from_numpy(state["generator"]))


class SetInvariance(Robustness):
    """The loss plus rho times the distance of outputs from those at the worst case (SenSeI).

    With `pairing` also its weighted distance of outputs from those of counterfactual copies.
    """

    pairing: LogitPairing | None = None

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Loss of a mini-batch with its graph, and its logs."""
        points, logs = self.worst_case(network, batch)
        loss, distances = _paired_loss(network, batch, points, self.rho, self.distance)
        if self.pairing is not None:
            own_logits, paired = network(torch.cat([batch.x, self.pairing.drawn(batch)])).split(
                len(batch.x)
            )
            distance = batch.mean(self.distance(own_logits, paired))
            loss = loss + self.pairing.rho * distance
            logs["paired_distance"] = float(distance.detach())
        return self.bounded(network, batch, loss, logs | distances)

    def criterion(self, network: nn.Module, batch: Batch, shift: Tensor) -> float:
        """As :meth:`Robustness.criterion`, with the mean over all counterfactuals.

        Parameters
        ----------
        network : torch.nn.Module
            As it predicts.
        batch : Batch
            The validation rows.
        shift : Tensor of float64, shape (K,)
            What the training added to the log-odds of each class.

        Returns
        -------
        float
        """
        criterion = super().criterion(network, batch, shift)
        return (
            criterion
            if self.pairing is None
            else criterion + self.pairing.penalty(network, batch, shift)
        )

    def state(self) -> State:
        """Give all that the next mini-batch depends on."""
        return super().state() | ({} if self.pairing is None else {"pairing": self.pairing.state()})

    def restore(self, state: State) -> None:
        """Continue from a loaded :meth:`state`.

        Parameters
        ----------
        state : dict
            As a checkpoint loads it.
        """
        super().restore(state)
        if self.pairing is not None:
            self.pairing.restore(state["pairing"])

    def search_objective(self, model: DifferentiableModel, batch: Batch) -> SearchObjective:
        """What the search maximises: the distance of the outputs from those at the row itself.

        Parameters
        ----------
        model : DifferentiableModel
            The network as it predicts.
        batch : Batch

        Returns
        -------
        SearchObjective
        """
        outputs = model.logits(batch.x)
        has_own_distance = self.distance is not logit_distance
        return RowObjective(self.distance, outputs) if has_own_distance else LogitDistance(outputs)

    def value(self, network: nn.Module, batch: Batch, found: WorstCase, shift: Tensor) -> float:
        """Give the objective without its multiplier's part: the loss at the rows themselves, plus
        rho times the output distance found.

        Parameters
        ----------
        network : torch.nn.Module
            As it predicts.
        batch : Batch
        found : WorstCase
            Result of the search for the rows of the batch.
        shift : Tensor of float64, shape (K,)
            What the training added to the log-odds of each class.

        Returns
        -------
        float
        """
        own_loss = float(batch.loss(network(batch.x).double() - shift))
        return own_loss + self.rho * float(batch.mean(found.value.double()))


class LogitPairing(MeanLoss):
    """The loss plus rho times the distance of outputs from those of a random counterfactual (CLP).

    Parameters
    ----------
    data : ndarray of float32, shape (n, d)
        Training rows.
    copies : iterable of ndarray, shape (n, d) each
        Counterfactuals of all rows. Each is read once, and the columns that it changes are kept.
    rho : float
        Weight of the distance.
    seed : int or None
        Of the draws.
    distance : callable or None, default None
        Of two tensors of outputs, shape (b, K), that gives shape (b,). None: the mean squared
        difference.
    augmentation : float, default 0
        Weight of the loss at the counterfactual, with the row's own label.
    """

    def __init__(
        self,
        data: Float32,
        copies: Iterable[NDArray[Any]],
        rho: float,
        seed: int | None,
        distance: RowLoss | None = None,
        augmentation: float = 0.0,
    ) -> None:
        self.distance = distance or logit_distance
        self.augmentation = augmentation
        self.copies: list[tuple[Tensor, Tensor]] = []
        for copy in copies:
            changed = np.flatnonzero((copy.astype(np.float32, copy=False) != data).any(axis=0))
            values = copy[:, changed].astype(np.float32)
            self.copies.append((torch.from_numpy(changed), torch.from_numpy(values)))
        self.rho = rho
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "counterfactuals"))

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Loss of a mini-batch with its graph, and its logs."""
        pair_rows = self.drawn(batch)
        return _paired_loss(network, batch, pair_rows, self.rho, self.distance, self.augmentation)

    def drawn(self, batch: Batch) -> Tensor:
        """Draw a counterfactual of each row.

        Parameters
        ----------
        batch : Batch

        Returns
        -------
        Tensor, shape (b, d)
            Each row as in one of its copies, all of which are equally probable.
        """
        drawn = torch.randint(len(self.copies), batch.rows.shape, generator=self.generator)
        pair_rows = batch.x.clone()
        for number, (changed, values) in enumerate(self.copies):
            mine = torch.nonzero(drawn == number)
            pair_rows[mine, changed] = values[batch.rows[mine[:, 0]]].to(pair_rows.device)
        return pair_rows

    def criterion(self, network: nn.Module, batch: Batch, shift: Tensor) -> float:
        """As :meth:`MeanLoss.criterion`, with the mean over all counterfactuals.

        Parameters
        ----------
        network : torch.nn.Module
            As it predicts.
        batch : Batch
            The validation rows.
        shift : Tensor of float64, shape (K,)
            What the training added to the log-odds of each class.

        Returns
        -------
        float
        """
        return super().criterion(network, batch, shift) + self.penalty(network, batch, shift)

    def penalty(self, network: nn.Module, batch: Batch, shift: Tensor) -> float:
        """What all counterfactuals add to the loss, on average.

        Parameters
        ----------
        network : torch.nn.Module
            As it predicts.
        batch : Batch
            Rows of the table from which the copies were read.
        shift : Tensor of float64, shape (K,)
            What the training added to the log-odds of each class; it matters for the loss at the
            copies only.

        Returns
        -------
        float
        """
        with torch.no_grad():
            own_logits = network(batch.x).double()
            total = own_logits.new_zeros(len(batch.x))
            for changed, values in self.copies:
                pair_rows = batch.x.clone()
                pair_rows[:, changed] = values[batch.rows].to(pair_rows.device)
                outputs = network(pair_rows).double()
                total += self.rho * self.distance(own_logits, outputs)
                if self.augmentation:
                    total += self.augmentation * batch.row_loss(outputs - shift, batch.labels)
            return float(batch.mean(total / len(self.copies)))

    def state(self) -> State:
        """Give all that the next mini-batch depends on."""
        return {"generator": self.generator.get_state()}

    def restore(self, state: State) -> None:
        """Continue from a loaded :meth:`state`.

        Parameters
        ----------
        state : dict
            As a checkpoint loads it.
        """
        self.generator.set_state(torch.from_numpy(state["generator"]))


def _paired_loss(
    network: nn.Module,
    batch: Batch,
    others: Tensor,
    rho: float,
    distance_of: RowLoss,
    augmentation: float = 0.0,
) -> tuple[Tensor, dict[str, float]]:
    """The loss, rho times the mean distance d_Y of outputs at the rows and at others, and the loss
    there.
    """
    own_logits, paired = network(torch.cat([batch.x, others])).split(len(batch.x))
    loss = batch.loss(own_logits)
    distance = batch.mean(distance_of(own_logits, paired))
    logs = {
        "classification_loss": float(loss.detach()),
        "output_distance": float(distance.detach()),
    }
    if augmentation:
        loss = loss + augmentation * batch.loss(paired)
    return loss + rho * distance, logs
