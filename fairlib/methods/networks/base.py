"""What the network estimators share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted
from torch import nn

from evenhand.fairlib.cores import one_thread
from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.methods.base import Callback, Float32, Float64, Method
from evenhand.fairlib.methods.checkpoint import Checkpoint, fingerprint
from evenhand.fairlib.methods.networks.architecture import build_network
from evenhand.fairlib.methods.networks.training import Objective, Training
from evenhand.fairlib.randomness import derive_seed

__all__ = ["MitigatedNetwork", "NetworkMethod"]

WEIGHTS_FILE = "network.safetensors"
CHUNK_ROWS = 65_536
OWN, GIVEN = "perceptron", "module"


class NetworkMethod(Method):
    r"""
    Base of the estimators that train a network; one implements ``_objective``.

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
    """

    multiclass = True

    hidden: Sequence[int]
    network: nn.Module | None
    n_steps: int
    batch_size: int
    class_balance: float
    learning_rate: float
    weight_decay: float
    random_state: int | None

    @abstractmethod
    def _objective(
        self,
        data: Float32,
        sensitive_features: Mapping[str, ArrayLike] | None,
        counterfactuals: Sequence[ArrayLike] | None,
        seed: int,
    ) -> Objective:
        """What to minimise; checks the method's own parameters."""

    def _described(self) -> list[Any]:
        """What the training depends on beside the data and the metric."""
        parameters = self.get_params(deep=False)
        named = sorted(set(parameters) - {"metric"})
        return [torch.__version__, type(self).__name__, *((name, parameters[name]) for name in named)]

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        counterfactuals: Sequence[ArrayLike] | None = None,
        callback: Callback | None,
        checkpoint: str | Path | None,
    ) -> Self:
        data, codes = self._check_training(X, y)
        self._check_steps()
        seed = 0 if self.random_state is None else int(self.random_state)
        objective = self._objective(data, sensitive_features, counterfactuals, seed)
        # dropout and the like draw from torch's global generator, which is the caller's
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, "layers"))
            network = self._start(data, seed)
            training = Training(
                network,
                data,
                codes,
                objective,
                batch_size=self.batch_size,
                class_balance=self.class_balance,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                seed=seed,
            )
            metric: Metric | None = getattr(self, "metric_", None)
            learned = [] if metric is None else [metric.kind, *metric.arrays().values()]
            copies = [] if counterfactuals is None else [np.asarray(item) for item in counterfactuals]
            start = [value.numpy() for value in network.state_dict().values()]
            stored = Checkpoint(
                checkpoint, fingerprint(self._described(), data, codes, *learned, *copies, *start)
            )
            arrays = stored.load()
            if arrays is not None:
                training.restore(arrays)
            training.run(self.n_steps, callback, stored)
        self.network_ = network.eval()
        self.history_ = training.history
        stored.remove()
        return self

    def _check_steps(self) -> None:
        for name, value in (("n_steps", self.n_steps), ("batch_size", self.batch_size)):
            if not isinstance(value, Integral):
                raise ValueError(f"{name} must be a whole number, got {value!r}.")
        if any(not isinstance(units, Integral) or units < 1 for units in self.hidden):
            raise ValueError(f"hidden must list whole numbers of units, at least 1, got {self.hidden!r}.")
        if self.n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {self.n_steps!r}.")
        if self.batch_size < len(self.classes_):
            raise ValueError(
                f"batch_size must be at least the number of classes ({len(self.classes_)}), "
                f"got {self.batch_size!r}."
            )
        if not 0 <= self.class_balance <= 1:
            raise ValueError(f"class_balance must be between 0 and 1, got {self.class_balance!r}.")

    def _start(self, data: Float32, seed: int) -> nn.Module:
        """The network before its first mini-batch."""
        classes = len(self.classes_)
        if self.network is None:
            generator = torch.Generator().manual_seed(derive_seed(seed, "network"))
            return build_network(data.shape[1], self.hidden, classes, generator)
        network = copy.deepcopy(self.network).train()
        try:
            with torch.no_grad():
                shape = tuple(network.eval()(torch.tensor(data[:2])).shape)
        except (RuntimeError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"network does not take rows of {data.shape[1]} features: {reason}") from None
        if shape != (len(data[:2]), classes):
            raise ValueError(
                f"network must give one logit per class, shape (n, {classes}), got {shape} for two rows."
            )
        return network.train()

    def decision_logits(self, X: ArrayLike) -> Float32:
        """
        Logits of all classes.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float32, shape (n, K)
        """
        check_is_fitted(self)
        data = torch.tensor(np.asarray(X, dtype=np.float32))
        with torch.no_grad():
            parts: list[NDArray[np.float32]] = [
                self.network_(part).numpy() for part in data.split(CHUNK_ROWS)
            ]
        return np.concatenate(parts)

    def _probabilities(self, X: Float32) -> Float64:
        probabilities: Float64 = softmax(self.decision_logits(X).astype(np.float64), axis=1)
        return probabilities

    def _write(self, folder: Path) -> None:
        from safetensors.torch import save_file

        kind = OWN if self.network is None else GIVEN
        # a file has no room for tensors that share their memory
        tensors = {name: value.contiguous().clone() for name, value in self.network_.state_dict().items()}
        save_file(tensors, str(folder / WEIGHTS_FILE), metadata={"architecture": kind})

    def _read(self, folder: Path) -> None:
        from safetensors import safe_open

        with safe_open(str(folder / WEIGHTS_FILE), "pt") as stored:
            kind = stored.metadata()["architecture"]
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
        if kind == GIVEN and self.network is None:
            raise ValueError(
                f"{folder} was trained with a network of your own: give it, as in load(folder, network=...)."
            )
        network = (
            build_network(self.n_features_in_, self.hidden, len(self.classes_), None)
            if self.network is None
            else copy.deepcopy(self.network)
        )
        network.load_state_dict(tensors)
        self.network_ = network.eval()

    @classmethod
    def load(cls, folder: str | Path, network: nn.Module | None = None) -> Self:
        """Read a model written by ``save``; `network` is needed if it was trained with one of your own."""
        return cls._load(folder, network=network)


class MitigatedNetwork(NetworkMethod):
    """Base of the estimators that train for more than accuracy."""

    def without_adversary(self, n_rows: int) -> NetworkMethod:
        """
        Plain training of the same network, to measure what the rest costs.

        Parameters
        ----------
        n_rows : int
            Training rows; they do not matter here.
        """
        from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier

        shared = NeuralNetworkClassifier._get_param_names()
        return NeuralNetworkClassifier(**{name: getattr(self, name) for name in shared})
