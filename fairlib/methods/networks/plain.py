"""A neural network trained on mini-batches: the baseline and base of SenSeI, SenSR and CLP."""

# Annotations are evaluated here, without `from __future__ import annotations`: constructors that
# subclasses in other modules inherit show them as types, and jobs are checked against these.

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.execution import DEVICES, derive_seed, one_thread
from evenhand.fairlib.methods.method_base import Callback, Method, binary_shift, read_tensors
from evenhand.fairlib.preprocessing.input_tables import read_table, with_columns_of
from evenhand.fairlib.row_order import check_row_order
from evenhand.fairlib.splits import set_aside
from evenhand.fairlib.tuning.space import Choice, Real, Space

if TYPE_CHECKING:
    from evenhand.fairlib.methods.networks.network_training import MeanLoss

WEIGHTS_FILE = "network.safetensors"
CHUNK_ROWS = 65_536
# values of "architecture" in the file's metadata
DEFAULT_NETWORK = "perceptron"
GIVEN_NETWORK = "module"


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralNetworkClassifier(Method):
    r"""Network on the multinomial logistic loss.

    By default a part of the rows is held out, and the training ends where the objective on them no
    longer improves. So one set of defaults serves small and large tables.

    Parameters
    ----------
    hidden : sequence of int
        Units of each hidden layer.
    network : torch.nn.Module or None
        Your own network, (n, d) to (n, K) logits; training starts from a copy of it. None: a fully
        connected one with ReLU.
    loss : callable or None
        Your own: a differentiable function of outputs (b, K) and labels (b,), as positions in
        ``classes_``, that gives the loss of each row (b,). Probabilities are the softmax of the
        outputs. None: the multinomial logistic loss.
    n_steps : int
        Mini-batches, at most.
    batch_size : int or None
        Rows per mini-batch, at least one per class, drawn with replacement. None: one in 64 of the
        training rows, within 32 and 256.
    class_balance : float
        From 1, equally many rows of each class in a mini-batch, to 0, as many as the table has;
        between, in proportion to :math:`n_k^{1 - \beta}`.
    learning_rate, weight_decay : float
        Of Adam.
    n_iter_no_change : int or None
        Evaluations without a better one that end the training. There is one after every pass over
        the training rows, rounded up to 50 steps, and at least one in 500 steps. None: all steps
        are taken, on all rows, and the last weights are kept.
    validation_fraction : float
        Share of the rows, stratified by label, that the evaluations use; no effect if
        `n_iter_no_change` is None.
    random_state : int or None
    device : {"cpu", "cuda", "auto"}
        Where torch trains; ``"auto"``: a GPU, if it finds one. Random numbers do not depend on it,
        weights do by rounding. The fitted network is on the processor. With small mini-batches the
        processor is faster.

    Attributes
    ----------
    network_ : torch.nn.Module
        With the weights of the best evaluation.
    best_step_ : int
        Mini-batches that these weights have seen.
    history_ : dict of str to list of float
        Means over the 50 steps up to each ``step``: ``loss``, the minimised objective. With
        validation rows also ``validation_loss``, the objective on them at the last evaluation, with
        log-odds corrected for the class balance of the mini-batches.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = NeuralNetworkClassifier(hidden=(8,), n_steps=200, learning_rate=0.01)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    """

    multiclass = True
    space: ClassVar[Space] = {
        "learning_rate": Real(1e-4, 1e-2, log=True),
        "hidden": Choice(((50,), (100,), (200,), (100, 100))),
        "weight_decay": Choice((0.0, 1e-5, 1e-4, 1e-3)),
        "class_balance": Real(0.0, 1.0),
    }

    hidden: Sequence[int] = (100,)
    network: Any = None
    loss: Any = None
    n_steps: int = 10_000
    batch_size: int | None = None
    class_balance: float = 0.0
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    n_iter_no_change: int | None = 10
    validation_fraction: float = 0.2
    random_state: int | None = None
    device: str = "cpu"

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        counterfactuals: Sequence[ArrayLike] | None = None,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Train; as in :class:`evenhand.fairlib.methods.method_base.Method`.

        X may be a ``torch.utils.data.DataLoader`` of (rows, labels) or (rows, labels, weights). It
        is read once, into a temporary file: the rows need no memory, and what its dataset draws at
        random is drawn once. The mini-batches are drawn here, whatever its batch size and order.

        Parameters
        ----------
        X : array-like, shape (n, d), or DataLoader
            Training rows.
        y : array-like, shape (n,), or None
            Labels; None with a loader, which gives them.
        counterfactuals : sequence of array-like, shape (n, d) each, or None
            Copies of all rows, in their order, with changes that should not matter; a row may equal
            its copy. Only methods that pair use them.
        sensitive_features : mapping, DataFrame, Series or array of n rows, or names of columns of X
            Used only to fit a fair metric that is not fitted, by methods that take one.
        sample_weight : array-like, shape (n,), or None
            Weight of every row, at least 0; None: all count the same. None with a loader.
        callback : callable or None
            Called every 50 steps with (step, steps, last entries of ``history_``). True ends the
            training.
        checkpoint : path or None
            Folder of a file from which a later call with the same data and parameters continues.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            For a batch below one row per class, a network or loss of another shape, no fair metric
            or one of another dimension, or too few rows to hold some out; where copies are used,
            for none, one of another shape than X or not finite, or all equal to X; for a loader of
            other batches, or one that shuffles where other arguments have a value for every row.
        FloatingPointError
            If the loss or a weight became NaN or infinite.
        """
        import torch

        from evenhand.fairlib.methods.networks.network_training import (
            Training,
            rows_of,
            start_network,
            torch_device,
        )

        if y is None:
            # before a loader is read
            self._check_parameters()
        sensitive_features = with_columns_of(X, sensitive_features)
        check_row_order(X=X, counterfactuals=counterfactuals)
        by_row = counterfactuals, sensitive_features, self.people
        data, codes, weights = self._begin_fit(*rows_of(X, y, sample_weight, *by_row))
        if self.batch_size is not None and self.batch_size < self._n_outputs:
            raise ValueError(
                f"batch_size must be at least the number of classes ({self._n_outputs}), "
                f"got {self.batch_size!r}."
            )
        if counterfactuals is not None:
            counterfactuals = [self._copy_of_rows(copy) for copy in counterfactuals]
        held = None if self.n_iter_no_change is None else self._held_out(codes)
        objective = self._objective(data, sensitive_features, counterfactuals)
        rows = data
        data = self._training_inputs(rows)
        # layers such as dropout draw from torch's global generator, whose state belongs to the
        # caller
        cuda = torch_device(self.device).type == "cuda"
        with one_thread(), torch.random.fork_rng([torch.cuda.current_device()] if cuda else []):
            torch.manual_seed(derive_seed(self.random_state, "layers"))
            network = start_network(self, data)
            if self.starts_from is not None:
                network.load_state_dict(self.starts_from.network_.state_dict())
            training = Training(self, network, data, codes, objective, held, weights)
            metric = getattr(self, "metric_", None)
            # a metric counts by what it learned
            learned = [] if metric is None else [metric.kind, *metric.arrays().values()]
            copies = map(np.asarray, () if counterfactuals is None else counterfactuals)
            start = (value.cpu().numpy() for value in network.state_dict().values())
            stored = self._checkpoint(
                checkpoint, torch.__version__, data, codes, weights, *learned, *copies, *start
            )
            arrays = stored.load()
            if arrays is not None:
                training.restore(arrays)
            training.run(self.n_steps, callback, stored)
        self.network_ = network.cpu().eval()
        self.history_ = training.history
        self.best_step_ = training.best_step or training.step
        self.prior_shift_ = binary_shift(training.shift.tolist())
        self.validation_ = None
        # a regressor has no probabilities, which a calibration could use
        if held is not None and is_classifier(self):
            self.validation_ = self._validation_of(rows, held)
        stored.remove()
        return self

    def _copy_of_rows(self, copy: Any) -> Any:
        """A counterfactual copy of the training rows: a table as numbers, an array as it is."""
        if read_table(copy) is None:
            return copy
        return self._validated(copy, reset=False)

    @property
    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _held_out(self, codes: Int) -> Int:
        """Positions of the validation rows."""
        try:
            return set_aside(codes, self.validation_fraction, self.random_state, self.people)[1]
        except ValueError as error:
            raise ValueError(f"{error} Give more rows, or n_iter_no_change=None.") from None

    def _check_parameters(self) -> None:
        self._check_choice("device", DEVICES)
        self._check_counts("n_steps")
        self._check_counts("batch_size", "n_iter_no_change", optional=True)
        self._check_widths("hidden")
        self._check_has("network", "parameters", "a network")
        self._check_callable("loss")
        self._check_whole_numbers("random_state")
        self._check_interval("[0, inf)", "learning_rate", "weight_decay")
        self._check_interval("[0, 1]", "class_balance")
        self._check_interval("(0, 1)", "validation_fraction")

    def _objective(
        self, data: Float32, sensitive_features: Any, counterfactuals: Any
    ) -> "MeanLoss":
        """Objective that the training minimises."""
        from evenhand.fairlib.methods.networks.network_training import MeanLoss

        return MeanLoss()

    def _training_inputs(self, data: Float32) -> Float32:
        """Rows that the network is trained on, of those of X."""
        return data

    def decision_logits(self, X: ArrayLike) -> Float32:
        """Outputs of the network.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float32, shape (n, K)
            Logits of all classes.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the model is not fitted.
        """
        check_is_fitted(self)
        if read_table(X) is not None:
            X = self._validated(X, reset=False)
        return self._outputs(np.asarray(X, dtype=np.float32))

    def _outputs(self, data: Float32) -> Float32:
        """Outputs of the network for its inputs."""
        import torch

        parts = []
        with torch.no_grad():
            for start in range(0, max(len(data), 1), CHUNK_ROWS):
                parts.append(self.network_(torch.tensor(data[start : start + CHUNK_ROWS])).numpy())
        return np.concatenate(parts)

    def _probabilities(self, X: Float32) -> Float:
        return softmax(self.decision_logits(X).astype(np.float64), axis=1)

    def _write(self, folder: Path) -> None:
        from safetensors.torch import save_file

        kind = DEFAULT_NETWORK if self.network is None else GIVEN_NETWORK
        # safetensors refuses tensors that share their memory
        tensors = {
            name: value.contiguous().clone() for name, value in self.network_.state_dict().items()
        }
        save_file(tensors, str(folder / WEIGHTS_FILE), metadata={"architecture": kind})

    def _read(self, folder: Path) -> None:
        from evenhand.fairlib.methods.networks.network_training import build_network

        metadata, tensors = read_tensors(folder / WEIGHTS_FILE, "pt")
        if metadata["architecture"] == GIVEN_NETWORK and self.network is None:
            raise ValueError(
                f"{folder} was trained with a network of your own: give it, as in load(folder, "
                "network=...)."
            )
        network = (
            build_network(self._width, self.hidden, self._n_outputs, None)
            if self.network is None
            else copy.deepcopy(self.network)
        )
        network.load_state_dict(tensors)
        self.network_ = network.eval()
