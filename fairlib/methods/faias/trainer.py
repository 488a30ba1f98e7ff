"""The adversarial game: a predictor descends, a selector ascends, epoch by epoch (FAIAS, algorithm 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.methods.faias.config import Plan
from evenhand.fairlib.methods.faias.features import Features
from evenhand.fairlib.methods.faias.selector import (
    Selector,
    one_flip_gradient,
    score_function_gradient,
    straight_through_gradient,
)

__all__ = ["Game", "class_weights", "sensitivity"]

Arrays = dict[str, NDArray[Any]]


def sensitivity(predictor: nn.Module, shown: Tensor, x: Tensor, sensitive: Tensor) -> tuple[Tensor, Tensor]:
    r"""
    Logits, and how much the sensitive features would change the prediction, for every row.

    .. math:: \sum_k \| f(x, s \cup \{k\}) - f(x, s) \|_2

    (FAIAS, equations 6.6 and 6.8, for each sensitive feature on its own; f are probabilities.) Where the
    two are equal the norm's subgradient 0 is taken.

    Parameters
    ----------
    shown : Tensor, shape (n, d)
        Selected features, the others 0.
    x : Tensor, shape (n, d)
    sensitive : Tensor of bool, shape (Q, d)

    Returns
    -------
    logits, losses : Tensor, shapes (n, K) and (n,)
    """
    inputs = [shown, *(torch.where(columns, x, shown) for columns in sensitive)]
    logits, *others = predictor(torch.cat(inputs)).split(len(x))
    probabilities = logits.softmax(1)
    losses = [torch.linalg.vector_norm(other.softmax(1) - probabilities, dim=1) for other in others]
    return logits, torch.stack(losses).sum(0)


class Game:
    """
    Predictor, selector and their optimisers.

    Parameters
    ----------
    predictor : torch.nn.Module
        (n, d) to (n, K) logits; trained in place, as is the selector.
    selector : Selector
    features : Features
    x : Tensor of float32, shape (n, d)
    labels : Tensor of int64, shape (n,)
    class_weights : Tensor of float32, shape (K,)
        Of the prediction loss.
    plan : Plan
    generator : torch.Generator
        Of the shuffles and the selections.
    """

    def __init__(
        self,
        predictor: nn.Module,
        selector: Selector,
        features: Features,
        x: Tensor,
        labels: Tensor,
        class_weights: Tensor,
        plan: Plan,
        generator: torch.Generator,
    ) -> None:
        self.predictor, self.selector, self.features = predictor, selector, features
        self.x, self.labels, self.class_weights = x, labels, class_weights
        self.plan, self.generator = plan, generator
        self.optimisers = {
            "predictor": torch.optim.Adam(
                predictor.parameters(), lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True
            ),
            "selector": torch.optim.Adam(
                selector.parameters(), lr=plan.selector_learning_rate, maximize=True, fused=True
            ),
        }
        self.step = 0
        self.averages = [value.detach().clone() for value in self._parameters()]

    def _parameters(self) -> list[Tensor]:
        return [*self.predictor.parameters(), *self.selector.parameters()]

    def epoch(self) -> dict[str, float]:
        """
        Every row once, in mini-batches of a random order.

        Returns
        -------
        dict
            Means of ``prediction_loss`` (nats, equation 6.9) and ``sensitivity_loss`` (equation 6.8).
        """
        totals = {"prediction_loss": 0.0, "sensitivity_loss": 0.0}
        order = torch.randperm(len(self.x), generator=self.generator)
        for rows in order.split(self.plan.batch_size):
            prediction, change = self._step(self.x[rows], self.labels[rows])
            totals["prediction_loss"] += prediction * len(rows)
            totals["sensitivity_loss"] += change * len(rows)
        return {name: total / len(self.x) for name, total in totals.items()}

    def _step(self, x: Tensor, labels: Tensor) -> tuple[float, float]:
        """One mini-batch: both players move from where they stand."""
        plan, features = self.plan, self.features
        logits = self.selector.logits(x)
        probabilities = self.selector.probabilities(logits.detach())
        draws = torch.rand(len(x), probabilities.shape[1], generator=self.generator)
        selection = (draws < probabilities).to(x.dtype)
        through = plan.gradient_estimator == "straight_through"
        selection.requires_grad_(through)
        shown = features.masked(x, selection)
        outputs, changes = sensitivity(self.predictor, shown, x, features.sensitive)
        # the mean over a batch's own weights would count a small class by how often it is in the batch
        own = functional.cross_entropy(outputs, labels, reduction="none")
        prediction = (own * self.class_weights[labels]).mean()
        losses = changes.detach()
        if through:
            (slopes,) = torch.autograd.grad(changes.sum(), selection, retain_graph=True)
            gradient = straight_through_gradient(slopes, probabilities)
        elif plan.gradient_estimator == "one_flip":

            def loss_of(other: Tensor) -> Tensor:
                return sensitivity(self.predictor, features.masked(x, other), x, features.sensitive)[1]

            gradient = one_flip_gradient(
                losses, selection, probabilities, features.free, loss_of, self.generator
            )
        else:
            gradient = score_function_gradient(losses, selection, probabilities)
        self._descend(prediction + plan.sensitivity_weight * changes.mean())
        self._ascend(logits, gradient * features.free)
        self._average()
        return float(prediction.detach()), float(losses.mean())

    def _descend(self, loss: Tensor) -> None:
        optimiser = self.optimisers["predictor"]
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    def _ascend(self, logits: Tensor, gradient: Tensor) -> None:
        """Pass the estimate for the log-odds on to whatever gave these."""
        optimiser = self.optimisers["selector"]
        optimiser.zero_grad()
        (logits * gradient).sum(1).mean().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    def _average(self) -> None:
        """Exponential moving average of all parameters, over fewer steps at first (Polyak averaging)."""
        self.step += 1
        kept = min(self.plan.averaging, self.step / (self.step + 9)) if self.plan.averaging else 0.0
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, self._parameters(), 1.0 - kept)

    def exchange(self) -> None:
        """Put the averages in the place of the parameters, and these aside; again, to go on."""
        with torch.no_grad():
            for value, average in zip(self._parameters(), self.averages, strict=True):
                held = value.clone()
                value.copy_(average)
                average.copy_(held)

    def parameters(self) -> list[NDArray[np.float32]]:
        """Copies of the parameters of both players."""
        return [value.detach().numpy().copy() for value in self._parameters()]

    def set_parameters(self, values: Sequence[NDArray[np.float32]]) -> None:
        """Put such copies in their place."""
        with torch.no_grad():
            for value, given in zip(self._parameters(), values, strict=True):
                value.copy_(torch.from_numpy(given))

    def is_finite(self) -> bool:
        """Whether all parameters are numbers: the losses are those before the last step."""
        return all(bool(torch.isfinite(value).all()) for value in self._parameters())

    def state(self) -> Arrays:
        """Everything that the next epoch builds on, as plain arrays."""
        arrays: Arrays = {"step": np.array(self.step), "generator": self.generator.get_state().numpy()}
        arrays |= _arrays("parameters", dict(enumerate(self._parameters())))
        arrays |= _arrays("averages", dict(enumerate(self.averages)))
        for player, optimiser in self.optimisers.items():
            for index, moments in optimiser.state_dict()["state"].items():
                arrays |= _arrays(f"{player}.{index}", moments)
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take up what :meth:`state` gave: the rest of the game is the same, bit for bit."""
        self.step = int(arrays["step"])
        self.generator.set_state(torch.from_numpy(arrays["generator"].copy()))
        with torch.no_grad():
            for name, values in (("parameters", self._parameters()), ("averages", self.averages)):
                for position, value in enumerate(values):
                    value.copy_(torch.from_numpy(arrays[f"{name}.{position}"]))
        for player, optimiser in self.optimisers.items():
            moments: dict[int, dict[str, Tensor]] = {}
            for name, array in arrays.items():
                owner, _, rest = name.partition(".")
                if owner == player:
                    index, _, kind = rest.partition(".")
                    moments.setdefault(int(index), {})[kind] = torch.from_numpy(array.copy())
            optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})


def _arrays(prefix: str, tensors: Mapping[Any, Tensor]) -> Arrays:
    return {f"{prefix}.{name}": value.detach().numpy().copy() for name, value in tensors.items()}


def class_weights(counts: Sequence[int], balance: float) -> Tensor:
    r"""Weights proportional to :math:`n_k^{-\beta}`, of mean 1 over the rows."""
    numbers = np.asarray(counts, dtype=np.float64)
    weights = numbers**-balance
    return torch.tensor(weights * numbers.sum() / (weights * numbers).sum(), dtype=torch.float32)
