"""The training loop of all networks: balanced mini-batches, Adam, checkpoints, and a stop at NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from evenhand.fairlib.methods.base import Callback, Float32
from evenhand.fairlib.methods.checkpoint import Checkpoint
from evenhand.fairlib.randomness import derive_seed

__all__ = ["REPORT_EVERY", "Batch", "CrossEntropy", "Objective", "Training"]

# Steps over which progress is averaged; the loss is looked at for NaN as often.
REPORT_EVERY = 50
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Batch:
    """A mini-batch: features (b, d), class positions (b,), and which training rows they are (b,)."""

    x: Tensor
    labels: Tensor
    rows: Tensor


class Objective(Protocol):
    """What a mini-batch is to make small."""

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        """Loss with its graph, and what the history records of it beside ``loss``."""

    def state(self) -> Arrays:
        """Everything that the next mini-batch builds on."""

    def restore(self, arrays: Arrays) -> None:
        """Take up what :meth:`state` gave."""


class CrossEntropy:
    """Multinomial logistic loss, nothing else."""

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        """Loss of a mini-batch."""
        return functional.cross_entropy(network(batch.x), batch.labels), {}

    def state(self) -> Arrays:
        """Nothing: no mini-batch leaves anything behind."""
        return {}

    def restore(self, arrays: Arrays) -> None:
        """Nothing to take up."""


class Training:
    """
    Network, optimiser and history of one training, mini-batch by mini-batch.

    Every mini-batch holds as many rows of each class as the others do, drawn with replacement.

    Parameters
    ----------
    network : torch.nn.Module
        Trained in place.
    data : ndarray of float32, shape (n, d)
    codes : ndarray of int64, shape (n,)
        Class positions.
    objective : Objective
    batch_size, class_balance, learning_rate, weight_decay
        As in the estimators.
    seed : int
    """

    def __init__(
        self,
        network: nn.Module,
        data: Float32,
        codes: NDArray[np.int64],
        objective: Objective,
        *,
        batch_size: int,
        class_balance: float,
        learning_rate: float,
        weight_decay: float,
        seed: int,
    ) -> None:
        self.network = network
        self.objective = objective
        self.features = torch.tensor(data)
        self.by_label = [torch.from_numpy(np.flatnonzero(codes == k)) for k in range(int(codes.max()) + 1)]
        self.shares = class_shares([len(rows) for rows in self.by_label], batch_size, class_balance)
        self.labels = torch.arange(len(self.by_label)).repeat_interleave(torch.tensor(self.shares))
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "batches"))
        self.optimiser = torch.optim.Adam(
            network.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True
        )
        self.step = 0
        self.history: dict[str, list[float]] = {"step": [], "loss": []}
        self._sums: dict[str, float] = {}

    def run(self, steps: int, callback: Callback | None, stored: Checkpoint) -> None:
        """
        Train up to that many steps in all.

        Raises
        ------
        FloatingPointError
            The loss became NaN or infinite; the last checkpoint before it stays.
        """
        while self.step < steps:
            for name, value in self.advance().items():
                self._sums[name] = self._sums.get(name, 0.0) + value
            if self.step % REPORT_EVERY and self.step != steps:
                continue
            progress = self._record()
            self._check_weights()
            if callback is not None:
                callback(self.step, steps, progress)
            if stored.due():
                stored.save(self.state())

    def advance(self) -> dict[str, float]:
        """One mini-batch; gives its loss and what the objective says of it."""
        rows = torch.cat(
            [
                pool[torch.randint(len(pool), (share,), generator=self.generator)]
                for pool, share in zip(self.by_label, self.shares, strict=True)
            ]
        )
        loss, told = self.objective(self.network, Batch(self.features[rows], self.labels, rows))
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.step += 1
        return {"loss": float(loss.detach()), **told}

    def _record(self) -> dict[str, float]:
        """Means since the last record."""
        taken = (self.step - 1) % REPORT_EVERY + 1
        progress = {name: total / taken for name, total in self._sums.items()}
        self._sums = {}
        if not all(np.isfinite(value) for value in progress.values()):
            raise FloatingPointError(self._broken("loss is"))
        for name, value in {"step": float(self.step), **progress}.items():
            self.history.setdefault(name, []).append(value)
        return progress

    def _check_weights(self) -> None:
        """The loss is that before the step: the step itself may have been the one too many."""
        if not all(torch.isfinite(weights).all() for weights in self.network.parameters()):
            raise FloatingPointError(self._broken("weights are"))

    def _broken(self, what: str) -> str:
        rate = self.optimiser.param_groups[0]["lr"]
        return f"the {what} no longer finite at step {self.step}: lower learning_rate (now {rate})."

    def state(self) -> Arrays:
        """Everything that the next mini-batch builds on, as plain arrays; call it right after a record."""
        arrays = {f"network.{name}": value.numpy() for name, value in self.network.state_dict().items()}
        for name, value in self._moments().items():
            arrays[f"moments.{name}"] = value.numpy()
        arrays |= {f"history.{name}": np.array(values) for name, values in self.history.items()}
        arrays |= {f"objective.{name}": value for name, value in self.objective.state().items()}
        return arrays | {
            "step": np.array(self.step),
            "generator": self.generator.get_state().numpy(),
            "layers": torch.get_rng_state().numpy(),
        }

    def _moments(self) -> dict[str, Tensor]:
        return {
            f"{index}.{name}": value
            for index, moments in self.optimiser.state_dict()["state"].items()
            for name, value in moments.items()
        }

    def restore(self, arrays: Arrays) -> None:
        """Take up what :meth:`state` gave: the rest of the training is the same, bit for bit."""
        self.network.load_state_dict(_tensors(arrays, "network."))
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _tensors(arrays, "moments.").items():
            index, _, kind = name.partition(".")
            moments.setdefault(int(index), {})[kind] = value
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})
        self.history = {
            name.removeprefix("history."): values.tolist()
            for name, values in arrays.items()
            if name.startswith("history.")
        }
        self.objective.restore(
            {k.removeprefix("objective."): v for k, v in arrays.items() if k.startswith("objective.")}
        )
        self.step = int(arrays["step"])
        self.generator.set_state(torch.from_numpy(arrays["generator"]))
        torch.set_rng_state(torch.from_numpy(arrays["layers"]))


def class_shares(counts: Sequence[int], batch_size: int, balance: float) -> list[int]:
    r"""
    Rows of each class in a mini-batch, proportional to :math:`n_k^{1 - \beta}`.

    Parameters
    ----------
    counts : sequence of int
        Training rows :math:`n_k` of each class.
    batch_size : int
        At least the number of classes.
    balance : float
        :math:`\beta` in [0, 1]: 1 gives every class as many rows, 0 as many as it has in the table.

    Returns
    -------
    list of int
        At least 1 each; they sum to at most `batch_size`, and are all equal if `balance` is 1.
    """
    weights = np.asarray(counts, dtype=np.float64) ** (1.0 - balance)
    if balance == 1:
        return [batch_size // len(counts)] * len(counts)
    # one row each, and the others by the largest remainders
    exact = batch_size * weights / weights.sum()
    shares = np.maximum(1, np.floor(exact)).astype(int)
    while shares.sum() > batch_size:
        shares[(shares - exact - (shares == 1) * batch_size).argmax()] -= 1
    for k in np.argsort(-(exact - shares), kind="stable")[: batch_size - int(shares.sum())]:
        shares[k] += 1
    return [int(share) for share in shares]


def _tensors(arrays: Arrays, prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): torch.from_numpy(value.copy())
        for name, value in arrays.items()
        if name.startswith(prefix)
    }
