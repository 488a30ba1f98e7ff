"""A small neural network, the unmitigated baseline of the network methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from torch import nn

from evenhand.fairlib.methods.base import Callback, Float32
from evenhand.fairlib.methods.networks.base import NetworkMethod
from evenhand.fairlib.methods.networks.training import CrossEntropy, Objective

__all__ = ["NeuralNetworkClassifier"]


class NeuralNetworkClassifier(NetworkMethod):
    r"""
    Network on the multinomial logistic loss, by default with equally many rows per class in a mini-batch.

    Parameters
    ----------
    hidden : sequence of int
        Units of each hidden layer.
    network : torch.nn.Module or None
        A network of one's own, (n, d) to (n, K) logits, instead; training starts from a copy of it.
    n_steps : int
        Mini-batches.
    batch_size : int
        Rows per mini-batch, at least one per class, drawn with replacement.
    class_balance : float
        From 1, equally many rows of each class in a mini-batch, to 0, as many as the table has; between, in
        proportion to :math:`n_k^{1 - \beta}`.
    learning_rate, weight_decay : float
        Of Adam.
    random_state : int or None

    Attributes
    ----------
    network_ : torch.nn.Module
    history_ : dict of str to list of float
        ``loss``, means over the 50 steps up to each ``step``.
    """

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (100,),
        network: nn.Module | None = None,
        n_steps: int = 2000,
        batch_size: int = 64,
        class_balance: float = 1.0,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.network = network
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.class_balance = class_balance
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> NeuralNetworkClassifier:
        """
        Train.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
        sensitive_features : ignored
        callback : callable or None
            Called every 50 steps with (step, steps, {"loss": mean over these steps}).
        checkpoint : path or None
            Folder of a file from which a later call with the same data and parameters goes on, to the same
            model, bit for bit. It is removed at the end.

        Raises
        ------
        ValueError
            A batch below one row per class, fewer than one step, or a network of another shape.
        FloatingPointError
            The loss became NaN or infinite; the message names the step.
        """
        return self._fit(X, y, callback=callback, checkpoint=checkpoint)

    def _objective(
        self,
        data: Float32,
        sensitive_features: Mapping[str, ArrayLike] | None,
        counterfactuals: Sequence[ArrayLike] | None,
        seed: int,
    ) -> Objective:
        return CrossEntropy()
