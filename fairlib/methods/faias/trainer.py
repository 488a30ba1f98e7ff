"""Adversarial training: the predictor descends, the selector ascends (FAIAS, algorithm 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.methods.checkpoint import Checkpoint
from evenhand.fairlib.methods.faias.players import Players, score_function_gradient
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.methods.networks.network_training import (
    State,
    default_batch_size,
    load_moments,
)
from evenhand.fairlib.numerics import log_losses, softmax_losses

if TYPE_CHECKING:
    from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier

# Default learning rates of the selector: one step of a network moves the probabilities of all rows.
VECTOR_RATE = 1e-2
NETWORK_RATE = 1e-3
Score = tuple[float, float]


def sensitivity(
    predictor: nn.Module, shown: Tensor, x: Tensor, sensitive: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Logits, and how much the sensitive features would change the prediction, for every row.

    .. math:: \sum_k \| f(x, s \cup \{k\}) - f(x, s) \|_2

    (FAIAS, equations 6.6 and 6.8, for each sensitive feature on its own; f are probabilities.)
    Where the two are equal the norm's subgradient 0 is taken.

    Parameters
    ----------
    predictor : torch.nn.Module
        (n, d) to (n, K) logits.
    shown : Tensor, shape (n, d)
        The selected features; the others are 0.
    x : Tensor, shape (n, d)
        All features.
    sensitive : Tensor of bool, shape (Q, d)
        Columns of each sensitive feature.

    Returns
    -------
    Tensor, shape (n, K)
        Logits from what is shown.
    Tensor, shape (n,)
        The sums of norms.
    """
    inputs = [shown, *(torch.where(columns, x, shown) for columns in sensitive)]
    logits, *other_logits = predictor(torch.cat(inputs)).split(len(x))
    probabilities = logits.softmax(1)
    losses = [
        torch.linalg.vector_norm(other.softmax(1) - probabilities, dim=1) for other in other_logits
    ]
    return logits, torch.stack(losses).sum(0)


def class_weights(counts: Sequence[int], balance: float) -> Tensor:
    r"""Weights of the classes, of mean 1 over the rows.

    Parameters
    ----------
    counts : sequence of int
        Rows :math:`n_k` of each class, all above 0.
    balance : float
        :math:`\beta`: the weights are proportional to :math:`n_k^{-\beta}`.

    Returns
    -------
    Tensor of float32, shape (K,)
    """
    numbers = np.asarray(counts, dtype=np.float64)
    weights = numbers**-balance
    return torch.tensor(weights * numbers.sum() / (weights * numbers).sum(), dtype=torch.float32)


def score_of(probabilities: Float, codes: Int) -> Score:
    """Balanced accuracy (mean recall), and minus the mean over the classes of their log loss.

    Parameters
    ----------
    probabilities : ndarray of float, shape (n, K)
    codes : ndarray of int, shape (n,)
        Class positions; every class occurs.

    Returns
    -------
    (float, float)
        The higher the better.
    """
    counts = np.bincount(codes, minlength=probabilities.shape[1])
    is_correct = probabilities.argmax(axis=1) == codes
    losses = log_losses(probabilities)[codes, np.arange(len(codes))]
    recalls = np.bincount(codes, weights=is_correct, minlength=len(counts)) / counts
    means = np.bincount(codes, weights=losses, minlength=len(counts)) / counts
    return float(recalls.mean()), -float(means.mean())


def log_loss_of(
    probabilities: Float, codes: Int, weights: Tensor, row_weights: Float | None = None
) -> Score:
    """Minus the mean log loss (nats), corrected for the training's class weights; and 0.

    The probabilities are divided by the class weights and normalised.

    Parameters
    ----------
    probabilities : ndarray of float, shape (n, K)
    codes : ndarray of int, shape (n,)
        Class positions.
    weights : Tensor, shape (K,)
        Class weights of the training's loss.
    row_weights : ndarray of float, shape (n,), or None

    Returns
    -------
    (float, float)
        The higher the better.
    """
    margins = -log_losses(probabilities).T - np.log(weights.double().numpy())
    losses = softmax_losses(margins)[codes, np.arange(len(codes))]
    return -float(np.average(losses, weights=row_weights)), 0.0


class Trainer:
    """The players, their optimizers, and the parameters of the best epoch so far.

    Parameters
    ----------
    config : FAIASClassifier
        Its constructor parameters are used.
    players : Players
        Trained in place.
    x : Tensor of float32, shape (n, d)
    labels : Tensor of int64, shape (n,)
        Class positions.
    generator : torch.Generator
        Of the shuffles and the selections.
    weights : Tensor, shape (n,), or None, default None
        Those of the rows in both losses, of mean 1; None: all count the same.
    """

    def __init__(
        self,
        config: FAIASClassifier,
        players: Players,
        x: Tensor,
        labels: Tensor,
        generator: torch.Generator,
        weights: Tensor | None = None,
    ) -> None:
        self.config = config
        self.players = players
        self.x = x
        self.labels = labels
        self.generator = generator
        self.weights = weights
        self.batch_size = config.batch_size
        if self.batch_size is None:
            self.batch_size = default_batch_size(len(x))
        # of the prediction loss
        self.class_weights = class_weights(torch.bincount(labels).tolist(), config.class_balance)
        self.selector_rate = config.selector_learning_rate
        if not self.selector_rate:
            self.selector_rate = NETWORK_RATE if config.data_dependent else VECTOR_RATE
        self.optimizers = {
            "predictor": torch.optim.Adam(
                players.predictor.parameters(),
                config.learning_rate,
                weight_decay=config.weight_decay,
                fused=True,
            ),
            "selector": torch.optim.Adam(
                players.selector.parameters(), self.selector_rate, maximize=True, fused=True
            ),
        }
        # steps of Adam that take a selection probability from its start to one half
        start = abs(torch.tensor(config.initial_probability, dtype=torch.float64).logit().item())
        self.warm_up = 0.0
        if config.validation_criterion == "log_loss" and not math.isinf(start):
            self.warm_up = start / self.selector_rate
        self.step = 0
        self.averages = [value.detach().clone() for value in players.parameters()]
        self.best_epoch = 0
        self.best_score = (-math.inf, -math.inf)
        self.best_parameters: list[Float32] = []

    def run(
        self, score: Callable[[], Score] | None, callback: Callback | None, checkpoint: Checkpoint
    ) -> dict[str, list[float]]:
        """Train all epochs, or up to the patience's end, and install the averages of the best one.

        Parameters
        ----------
        score : callable or None
            Gives the score of the current parameters on validation rows. None: later epochs are
            better.
        callback : callable or None
            Called every epoch with (epoch, epochs, what the history records of it).
        checkpoint : Checkpoint

        Returns
        -------
        dict of str to list of float
            The history, by epoch.

        Raises
        ------
        FloatingPointError
            If a loss or parameter is NaN or infinite.
        """
        config = self.config
        history: dict[str, list[float]] = {}
        state = checkpoint.load()
        if state is not None:
            history = {name: values.tolist() for name, values in state["history"].items()}
            self.restore(state)
        epoch = len(history.get("epoch", []))
        while epoch < config.n_epochs and not self.is_stale(epoch, config.patience):
            logs = self.epoch()
            epoch += 1
            self._check_finite(epoch, logs)
            enough = self._evaluate(epoch, score, callback, logs)
            for name, value in {"epoch": float(epoch), **logs}.items():
                history.setdefault(name, []).append(value)
            if enough:
                break
            if checkpoint.due():
                checkpoint.save(self.state() | {"history": history})
        self.set_parameters(self.best_parameters)
        return history

    def _check_finite(self, epoch: int, logs: dict[str, float]) -> None:
        """FloatingPointError unless all losses and parameters are numbers."""
        if self.is_finite() and all(map(math.isfinite, logs.values())):
            return
        raise FloatingPointError(
            f"the losses or weights are no longer finite at epoch {epoch}: lower learning_rate "
            f"(now {self.config.learning_rate}) or selector_learning_rate (now "
            f"{self.selector_rate})."
        )

    def _evaluate(
        self,
        epoch: int,
        score: Callable[[], Score] | None,
        callback: Callback | None,
        logs: dict[str, float],
    ) -> bool:
        """Score the averages after an epoch, and keep them if they are the best so far.

        Adds the score to `logs`; whether the callback ends the training.
        """
        config = self.config
        self.exchange()
        reached = (float(epoch), 0.0)
        if score is not None:
            reached = score()
            sign = -1.0 if config.validation_criterion == "log_loss" else 1.0
            logs[f"validation_{config.validation_criterion}"] = sign * reached[0]
        enough = callback is not None and bool(callback(epoch, config.n_epochs, logs))
        if self.step >= self.warm_up or epoch == config.n_epochs or enough:
            self.keep_if_best(epoch, reached)
        self.exchange()
        return enough

    def is_stale(self, epoch: int, patience: int | None) -> bool:
        """Whether the last `patience` epochs were no better than the best one.

        Parameters
        ----------
        epoch : int
            Number of epochs so far.
        patience : int or None
            None: never.

        Returns
        -------
        bool
        """
        return patience is not None and self.best_epoch > 0 and epoch - self.best_epoch >= patience

    def keep_if_best(self, epoch: int, score: Score) -> None:
        """Keep a copy of the parameters if the score is the highest so far.

        Parameters
        ----------
        epoch : int
            Number of the epoch of the score.
        score : (float, float)
            The higher the better; the second number decides among equals in the first.
        """
        if score > self.best_score:
            self.best_epoch = epoch
            self.best_score = score
            self.best_parameters = self.parameters()

    def epoch(self) -> dict[str, float]:
        """Take every row once, in mini-batches of a random order.

        Returns the means of ``prediction_loss`` (nats, equation 6.9) and ``sensitivity_loss``
        (equation 6.8).
        """
        totals = {"prediction_loss": 0.0, "sensitivity_loss": 0.0}
        order = torch.randperm(len(self.x), generator=self.generator)
        for rows in order.split(self.batch_size):
            weights = None if self.weights is None else self.weights[rows]
            prediction, change = self._step(self.x[rows], self.labels[rows], weights)
            totals["prediction_loss"] += prediction * len(rows)
            totals["sensitivity_loss"] += change * len(rows)
        return {name: total / len(self.x) for name, total in totals.items()}

    def _step(
        self, x: Tensor, labels: Tensor, weights: Tensor | None = None
    ) -> tuple[float, float]:
        """Take one mini-batch: both players move from their current parameters."""
        players = self.players
        # selections s of the mini-batch, drawn from the selector (equation 6.5)
        logits = players.selector.logits(x)
        probabilities = players.selector.probabilities(logits.detach())
        draws = torch.rand(len(x), probabilities.shape[1], generator=self.generator)
        selection = (draws < probabilities).to(x.dtype)
        # prediction loss (6.9) and sensitivity loss (6.8) of every row
        features = players.features
        masked_rows = features.masked(x, selection)
        outputs, changes = sensitivity(players.predictor, masked_rows, x, features.sensitive)
        # a weighted mean would count a small class by its share of the batch
        row_losses = functional.cross_entropy(outputs, labels, reduction="none")
        row_losses = row_losses * self.class_weights[labels]
        if weights is not None:
            row_losses = row_losses * weights
            changes = changes * weights
        prediction = row_losses.mean()
        losses = changes.detach()
        gradient = score_function_gradient(losses, selection, probabilities)
        self._apply("predictor", prediction + self.config.sensitivity_weight * changes.mean())
        # the derivative of this sum by the log-odds is the estimate
        self._apply("selector", (logits * (gradient * features.free)).sum(1).mean())
        self._average()
        return float(prediction.detach()), float(losses.mean())

    def _apply(self, player: str, loss: Tensor) -> None:
        """Take a step of a player's optimizer along the gradient of its loss."""
        self.optimizers[player].zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizers[player].step()

    def _average(self) -> None:
        """Update the exponential moving averages, over fewer steps at first (Polyak averaging)."""
        self.step += 1
        decay = self.config.averaging
        old_share = min(decay, self.step / (self.step + 9)) if decay else 0.0
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, list(self.players.parameters()), 1.0 - old_share)

    def exchange(self) -> None:
        """Exchange the parameters and their averages; a second call undoes it."""
        with torch.no_grad():
            for value, average in zip(self.players.parameters(), self.averages, strict=True):
                current = value.clone()
                value.copy_(average)
                average.copy_(current)

    def parameters(self) -> list[Float32]:
        """Copies of the parameters of both players."""
        return [value.detach().numpy().copy() for value in self.players.parameters()]

    def set_parameters(self, values: Sequence[Float32]) -> None:
        """Load copies that :meth:`parameters` gave.

        Parameters
        ----------
        values : sequence of ndarray of float32
            One for each parameter of the players, in their order.
        """
        with torch.no_grad():
            for value, copied in zip(self.players.parameters(), values, strict=True):
                value.copy_(torch.from_numpy(copied))

    def is_finite(self) -> bool:
        """Whether all parameters are numbers: the losses are those before the last step."""
        return all(bool(torch.isfinite(value).all()) for value in self.players.parameters())

    def state(self) -> State:
        """Give all that the next epoch depends on."""
        return {
            "step": self.step,
            "generator": self.generator.get_state(),
            "parameters": dict(enumerate(self.parameters())),
            "averages": dict(enumerate(self.averages)),
            "best": dict(enumerate(self.best_parameters)),
            "best_epoch": self.best_epoch,
            "best_score": self.best_score,
            "moments": {
                player: optimizer.state_dict()["state"]
                for player, optimizer in self.optimizers.items()
            },
        }

    def restore(self, state: State) -> None:
        """Continue from a loaded :meth:`state`: the rest of the training is the same, bit for bit.

        Parameters
        ----------
        state : dict
            As a checkpoint loads it.
        """
        self.step = int(state["step"])
        self.generator.set_state(torch.from_numpy(state["generator"]))
        self.set_parameters(list(state["parameters"].values()))
        self.averages = list(map(torch.from_numpy, state["averages"].values()))
        self.best_parameters = list(state.get("best", {}).values())
        self.best_epoch = int(state["best_epoch"])
        self.best_score = tuple(state["best_score"].tolist())
        for name, optimizer in self.optimizers.items():
            load_moments(optimizer, state["moments"][name])
