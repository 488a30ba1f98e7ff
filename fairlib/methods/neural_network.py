"""A small neural network, the unmitigated baseline of the network methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from fairlib.methods.base import BinaryMethod, Callback, Float32, Float64
from fairlib.randomness import derive_seed

__all__ = ["NeuralNetworkClassifier"]

WEIGHTS_FILE = "network.safetensors"


def build_network(n_features: int, hidden: Sequence[int], generator: torch.Generator | None) -> nn.Sequential:
    """Fully connected ReLU network with one logit, initialised from `generator` (He uniform, zero bias)."""
    layers: list[nn.Module] = []
    width = n_features
    for units in hidden:
        layers += [_linear(width, units), nn.ReLU()]
        width = units
    layers.append(_linear(width, 1))
    network = nn.Sequential(*layers)
    if generator is not None:
        for layer in network:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
                nn.init.zeros_(layer.bias)
    return network


def _linear(width: int, units: int) -> nn.Module:
    """Layer without its first draw of weights, which would come from torch's global generator."""
    return nn.utils.skip_init(nn.Linear, width, units)


@contextmanager
def one_thread() -> Iterator[None]:
    """
    Run torch on one thread, and as before afterwards.

    Mini-batches are far too small to share out: two threads took ten times as long as one on two cores. The
    sums, and so the weights, then do not depend on the number of cores either.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class NeuralNetworkClassifier(BinaryMethod):
    """
    Fully connected network on the logistic loss, with mini-batches of equally many rows per label.

    Parameters
    ----------
    hidden : sequence of int
        Units of each hidden layer.
    n_steps : int
        Mini-batches.
    batch_size : int
        Rows per mini-batch, at least 2; half of them carry each label, drawn with replacement.
    learning_rate, weight_decay : float
        Of Adam.
    random_state : int or None

    Attributes
    ----------
    network_ : torch.nn.Sequential
    """

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (100,),
        n_steps: int = 2000,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.n_steps = n_steps
        self.batch_size = batch_size
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

        Raises
        ------
        ValueError
            A batch below 2 rows or fewer than one step.
        FloatingPointError
            The loss became NaN or infinite; the message names the step.
        """
        data, codes = self._check_training(X, y)
        if self.batch_size < 2 or self.n_steps < 1:
            raise ValueError(
                "batch_size must be at least 2 and n_steps at least 1, "
                f"got {self.batch_size} and {self.n_steps}."
            )
        with one_thread():
            self.network_ = self._train(data, codes, callback).eval()
        return self

    def _train(self, data: Float32, codes: NDArray[np.int64], callback: Callback | None) -> nn.Sequential:
        """Adam on balanced mini-batches."""
        seed = 0 if self.random_state is None else int(self.random_state)
        generator = torch.Generator().manual_seed(derive_seed(seed, "network"))
        network = build_network(data.shape[1], self.hidden, generator)
        optimiser = torch.optim.Adam(
            network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay
        )
        features = torch.tensor(data)
        by_label = [torch.from_numpy(np.flatnonzero(codes == code)) for code in (0, 1)]
        half = self.batch_size // 2
        target = torch.cat([torch.zeros(half), torch.ones(half)])
        running = 0.0
        for step in range(1, self.n_steps + 1):
            rows = torch.cat(
                [pool[torch.randint(len(pool), (half,), generator=generator)] for pool in by_label]
            )
            loss = nn.functional.binary_cross_entropy_with_logits(network(features[rows]).squeeze(1), target)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            running += float(loss.detach())
            if step % 50 == 0 or step == self.n_steps:
                if not np.isfinite(running):
                    raise FloatingPointError(
                        f"the loss is no longer finite at step {step}: lower learning_rate "
                        f"(now {self.learning_rate})."
                    )
                if callback is not None:
                    callback(step, self.n_steps, {"loss": running / ((step - 1) % 50 + 1)})
                running = 0.0
        return network

    def _positive_probability(self, X: Float32) -> Float64:
        with torch.no_grad():
            logits: NDArray[np.float32] = self.network_(torch.tensor(X)).squeeze(1).numpy()
        return 1.0 / (1.0 + np.exp(-logits.astype(np.float64).clip(-700, 700)))

    def _write(self, folder: Path) -> None:
        from safetensors.torch import save_file

        save_file(self.network_.state_dict(), str(folder / WEIGHTS_FILE))

    def _read(self, folder: Path) -> None:
        from safetensors.torch import load_file

        network = build_network(self.n_features_in_, self.hidden, None)
        network.load_state_dict(load_file(str(folder / WEIGHTS_FILE)))
        self.network_ = network.eval()
