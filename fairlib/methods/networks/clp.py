"""CLP: counterfactual logit pairing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.auditor.objectives import logit_distance
from evenhand.fairlib.methods.base import Callback, Float32
from evenhand.fairlib.methods.networks.adversary import check_not_negative
from evenhand.fairlib.methods.networks.base import MitigatedNetwork
from evenhand.fairlib.methods.networks.training import Arrays, Batch, CrossEntropy, Objective
from evenhand.fairlib.preprocessing.counterfactuals import check_copies
from evenhand.fairlib.randomness import derive_seed

__all__ = ["CLPClassifier"]


class _Pairing:
    """Cross-entropy plus rho times the distance of outputs from those of a random counterfactual."""

    def __init__(self, copies: Sequence[Float32], rho: float, seed: int) -> None:
        self.copies = torch.tensor(np.stack(copies))
        self.rho = rho
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "counterfactuals"))

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        which = torch.randint(len(self.copies), batch.rows.shape, generator=self.generator)
        other = self.copies[which, batch.rows]
        own, paired = network(torch.cat([batch.x, other])).split(len(batch.x))
        loss = functional.cross_entropy(own, batch.labels)
        distance = logit_distance(own, paired).mean()
        told = {"classification_loss": float(loss.detach()), "output_distance": float(distance.detach())}
        return loss + self.rho * distance, told

    def state(self) -> Arrays:
        return {"generator": self.generator.get_state().numpy()}

    def restore(self, arrays: Arrays) -> None:
        self.generator.set_state(torch.from_numpy(arrays["generator"]))


class CLPClassifier(MitigatedNetwork):
    r"""
    Counterfactual logit pairing (Garg et al. 2018), for any number of classes.

    .. math:: \min_\theta E[\ell(y, h_\theta(x))] + \rho E[d_Y(h_\theta(x), h_\theta(x^c))]

    with :math:`d_Y` the mean squared difference of logits and :math:`x^c` a counterfactual copy of the row,
    drawn at random among those given (Yurochkin and Sun 2021, section 4 and appendix B).

    Parameters
    ----------
    rho : float
        :math:`\rho`, weight of the pairing against accuracy. 0 is plain training, to the bit.
    hidden, network, n_steps, batch_size, class_balance, learning_rate, weight_decay,
    random_state
        As in :class:`evenhand.fairlib.methods.networks.NeuralNetworkClassifier`.

    Attributes
    ----------
    network_ : torch.nn.Module
    history_ : dict of str to list of float
        Means over the 50 steps up to each ``step``: ``loss`` (all of it), ``classification_loss`` (nats) and
        ``output_distance``.
    """

    def __init__(
        self,
        *,
        rho: float = 5.0,
        hidden: Sequence[int] = (100,),
        network: nn.Module | None = None,
        n_steps: int = 2000,
        batch_size: int = 64,
        class_balance: float = 1.0,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.rho = rho
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
        counterfactuals: Sequence[ArrayLike] | None = None,
        sensitive_features: Any = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> CLPClassifier:
        """
        Train.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
        counterfactuals : sequence of array-like, each of shape (n, d)
            Copies of all rows, in their order, with what should not matter changed. A row may equal its copy.
        sensitive_features : ignored
        callback : callable or None
            Called every 50 steps with (step, steps, last entries of ``history_``).
        checkpoint : path or None
            Folder of a file from which a later call with the same data and parameters goes on, to the same
            model, bit for bit. It is removed at the end.

        Raises
        ------
        ValueError
            A negative rho, no counterfactuals with a positive one, one of another shape than X, one that is
            not finite, all equal to X; a batch below one row per class, fewer than one step, or a network of
            another shape.
        FloatingPointError
            The loss became NaN or infinite; the message names the step, and the last checkpoint stays.
        """
        return self._fit(X, y, counterfactuals=counterfactuals, callback=callback, checkpoint=checkpoint)

    def _objective(
        self,
        data: Float32,
        sensitive_features: Mapping[str, ArrayLike] | None,
        counterfactuals: Sequence[ArrayLike] | None,
        seed: int,
    ) -> Objective:
        check_not_negative(rho=self.rho)
        if self.rho == 0:
            return CrossEntropy()
        if counterfactuals is None or len(counterfactuals) == 0:
            raise ValueError("counterfactuals are missing: give at least one changed copy of X.")
        copies = [copy.astype(np.float32) for copy in check_copies(data, counterfactuals)]
        return _Pairing(copies, self.rho, seed)
