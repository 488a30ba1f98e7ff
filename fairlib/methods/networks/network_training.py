"""The training loop of all networks: balanced mini-batches, Adam, checkpoints, and an error
at NaN.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.mapped import mapped_file, matrix_of
from evenhand.fairlib.methods.checkpoint import Checkpoint
from evenhand.fairlib.methods.method_base import Callback

if TYPE_CHECKING:
    from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier

# Progress is averaged over this many steps, and the loss is checked for NaN as often.
REPORT_EVERY = 50
# Validation rows are evaluated once in an epoch, rounded to reports, and at least once in so many
# reports.
MOST_REPORTS = 10
WRONG_BATCH = "the DataLoader must give (rows, labels) or (rows, labels, weights)."
# What a training continues from, as a checkpoint saves and loads it.
State = dict[str, Any]
# From outputs (b, K) and labels or targets (b,) to one value per row (b,).
RowLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def log_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Multinomial logistic loss (nats) of each row.

    Parameters
    ----------
    logits : Tensor, shape (b, K)
    labels : Tensor of int64, shape (b,)
        Positions of the classes.

    Returns
    -------
    Tensor, shape (b,)
    """
    return functional.cross_entropy(logits, labels, reduction="none")


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared error of each row's single output.

    Parameters
    ----------
    outputs : Tensor, shape (b, 1)
    targets : Tensor, shape (b,)

    Returns
    -------
    Tensor, shape (b,)
    """
    return (outputs[:, 0] - targets).square()


@dataclass(frozen=True)
class Batch:
    """A mini-batch: features (b, d), class positions or targets (b,), and positions of its rows
    (b,).

    All are on the training's device, but for `rows`, which are on the processor. ``weights`` (b,)
    are the rows' weights, of mean 1 over the training rows; None: all count the same.
    """

    x: Tensor
    labels: Tensor
    rows: Tensor
    weights: Tensor | None = None
    row_loss: RowLoss = log_loss

    def mean(self, values: Tensor) -> Tensor:
        """Mean of one value per row, weighted.

        Parameters
        ----------
        values : Tensor, shape (b,)

        Returns
        -------
        Tensor, shape ()
            Mean of the values times ``weights``; the plain mean without weights.
        """
        return values.mean() if self.weights is None else (values * self.weights).mean()

    def loss(self, outputs: Tensor) -> Tensor:
        """Weighted mean loss of outputs.

        Parameters
        ----------
        outputs : Tensor, shape (b, K)
            The network's, for the rows of the batch.

        Returns
        -------
        Tensor, shape ()
            In the units of ``row_loss``: nats with the log loss.
        """
        return self.mean(self.row_loss(outputs, self.labels))

    def parts(self, rows: int) -> Iterator[Batch]:
        """Divide the batch into consecutive parts.

        Parameters
        ----------
        rows : int
            Most rows of a part.

        Yields
        ------
        Batch
            Its weights are those of the whole batch, whose mean in a part need not be 1.
        """
        for start in range(0, len(self.x), rows):
            part = slice(start, start + rows)
            weights = None if self.weights is None else self.weights[part]
            yield replace(
                self,
                x=self.x[part],
                labels=self.labels[part],
                rows=self.rows[part],
                weights=weights,
            )


class MeanLoss:
    """The mean of the rows' loss, and the base of the other training objectives."""

    def __call__(self, network: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Loss of a mini-batch with its graph, and what the history records besides ``loss``."""
        return batch.loss(network(batch.x)), {}

    def criterion(self, network: nn.Module, batch: Batch, shift: Tensor) -> float:
        """Value of the objective on rows that the training does not see: what early stopping
        minimises.

        Parameters
        ----------
        network : torch.nn.Module
            As it predicts: without dropout, and with fixed batch statistics.
        batch : Batch
            The validation rows.
        shift : Tensor of float64, shape (K,)
            What the training added to the log-odds of each class, which is taken off again.

        Returns
        -------
        float
            In the units of the loss (nats with the log loss).
        """
        with torch.no_grad():
            return float(batch.loss(network(batch.x).double() - shift))

    def state(self) -> State:
        """Give all that the next mini-batch depends on."""
        return {}

    def restore(self, state: State) -> None:
        """Continue from a loaded :meth:`state`.

        Parameters
        ----------
        state : dict
            As a checkpoint loads it.
        """


def build_network(
    n_inputs: int,
    hidden: Sequence[int],
    n_outputs: int,
    generator: torch.Generator | None,
    activation: type[nn.Module] = nn.ReLU,
) -> nn.Sequential:
    """Fully connected network, linear at the end.

    Biases start at 0. Weights are drawn as the activation needs it: He uniform for ReLU; for SELU
    normal with variance one over the number of inputs, with which its layers keep mean and variance
    (Klambauer et al. 2017).

    Parameters
    ----------
    n_inputs : int
        Number of features.
    hidden : sequence of int
        Units of each hidden layer; empty for a linear model.
    n_outputs : int
        Number of outputs.
    generator : torch.Generator or None
        Weights are drawn from it. None: they are left undefined, to be loaded.
    activation : type of torch.nn.Module, default torch.nn.ReLU
        Follows every layer but the last.

    Returns
    -------
    torch.nn.Sequential
        (n, n_inputs) to (n, n_outputs).

    References
    ----------
    Klambauer et al., "Self-Normalizing Neural Networks", NeurIPS 2017.
    """
    layers: list[nn.Module] = []
    for width, units in itertools.pairwise((n_inputs, *hidden, n_outputs)):
        # the default initialisation would draw from torch's global generator
        layers += [nn.utils.skip_init(nn.Linear, width, units), activation()]
    network = nn.Sequential(*layers[:-1])
    for layer in network:
        if generator is None or not isinstance(layer, nn.Linear):
            continue
        if activation is nn.SELU:
            nn.init.normal_(layer.weight, 0.0, layer.in_features**-0.5, generator=generator)
        else:
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
        nn.init.zeros_(layer.bias)
    return network


def start_network(estimator: NeuralNetworkClassifier, data: Float32) -> nn.Module:
    """Network before its first mini-batch: drawn from the seed, or a copy of the given one.

    Parameters
    ----------
    estimator : NeuralNetworkClassifier
    data : ndarray of float32, shape (n, d)
        Training rows.

    Returns
    -------
    torch.nn.Module
        (n, d) to (n, K).

    Raises
    ------
    ValueError
        If the given network does not map rows of this width to a logit per class.
    """
    outputs = estimator._n_outputs
    if estimator.network is None:
        generator = torch.Generator().manual_seed(derive_seed(estimator.random_state, "network"))
        return build_network(data.shape[1], estimator.hidden, outputs, generator)
    network: nn.Module = copy.deepcopy(estimator.network).train()
    try:
        with torch.no_grad():
            shape = tuple(network.eval()(torch.tensor(data[:2])).shape)
    except (RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"network does not take rows of {data.shape[1]} features: {reason}"
        ) from None
    if shape != (len(data[:2]), outputs):
        raise ValueError(
            f"network must give one logit per class, shape (n, {outputs}), got {shape} for two "
            "rows."
        )
    return network.train()


def rows_of(X: Any, y: Any, weights: Any, *others: Any) -> tuple[Any, Any, Any]:
    """Rows, labels and weights of a DataLoader; other arguments as they are.

    The loader is read in one pass into a temporary file.

    Parameters
    ----------
    X : DataLoader or any
    y, weights : any
        None with a loader, which gives both.
    *others : any
        Further arguments with a value for every row, or None.

    Returns
    -------
    rows, labels, weights

    Raises
    ------
    ValueError
        If labels or weights are given with a loader, or further arguments with one in whose order
        they may not be; for batches that are not (rows, labels) or (rows, labels, weights).
    """
    if not isinstance(X, DataLoader):
        return X, y, weights
    if y is not None or weights is not None:
        raise ValueError(
            "the DataLoader gives labels and weights itself: leave out y and sample_weight."
        )
    has_others = any(values is not None for values in others)
    if has_others and not isinstance(_sampler_of(X), SequentialSampler):
        raise ValueError(
            "a DataLoader together with further values by row must give its rows in order: no "
            "shuffle."
        )
    # labels, and weights if any, of every batch
    targets: list[list[NDArray[Any]]] = []

    def _rows() -> Iterator[Float32]:
        for batch in X:
            features, batch_targets = _parts_of(batch)
            if targets and len(batch_targets) != len(targets[0]):
                raise ValueError(WRONG_BATCH)
            targets.append(batch_targets)
            yield features

    # the loader draws from torch's global generator, whose state belongs to the caller
    with torch.random.fork_rng([]):
        data = matrix_of(_rows())
    joined = [np.concatenate(parts) for parts in zip(*targets, strict=True)]
    labels = joined[0]
    row_weights = joined[1] if len(joined) == 2 else None
    return data, labels, row_weights


def _sampler_of(loader: DataLoader[Any]) -> Any:
    """Sampler of a loader's rows; None where a sampler of batches hides their order."""
    batches = loader.batch_sampler
    if batches is None:
        return loader.sampler
    # with another sampler of batches the loader's own sampler is not used
    if type(batches) is BatchSampler:
        return batches.sampler
    return None


def _parts_of(batch: Any) -> tuple[Float32, list[NDArray[Any]]]:
    """Rows of a batch, and its labels and weights, if it has any."""
    if not isinstance(batch, list | tuple) or len(batch) not in (2, 3):
        raise ValueError(WRONG_BATCH)
    features = torch.as_tensor(batch[0], dtype=torch.float32).detach().cpu().numpy()
    targets = [_array(part) for part in batch[1:]]
    if any(part.shape != features.shape[:1] for part in targets):
        raise ValueError("the DataLoader must give a label, and a weight if any, for every row.")
    return features, targets


def _array(values: Any) -> NDArray[Any]:
    """Values of a tensor, or of anything else that numpy takes."""
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    return np.asarray(values)


class Training:
    """Network, optimizer and history of one training.

    A mini-batch has a fixed number of rows of each class, drawn with replacement. With validation
    rows, the objective's value on them decides when to stop, and the weights of its best value are
    kept.

    Parameters
    ----------
    estimator : NeuralNetworkClassifier
        Its batch size, class balance, learning rate, weight decay, patience, seed, device and loss
        are used.
    network : torch.nn.Module
        Trained in place.
    data : ndarray of float32, shape (n, d)
    targets : ndarray of int or float, shape (n,)
        Class positions as whole numbers, or numbers of a regression, whose mini-batches are drawn
        from all rows alike.
    objective : MeanLoss
    held : ndarray of int or None, default None
        Positions of the validation rows, which no mini-batch has.
    weights : ndarray of float, shape (n,), or None, default None
        Those of the rows in the loss; None: all count the same.

    Raises
    ------
    ValueError
        For a loss that does not give one value per row, or no such device.
    """

    def __init__(
        self,
        estimator: NeuralNetworkClassifier,
        network: nn.Module,
        data: Float32,
        targets: Int | Float,
        objective: MeanLoss,
        held: Int | None = None,
        weights: Float | None = None,
    ) -> None:
        self.network = network
        self.objective = objective
        self.device = torch_device(estimator.device)
        network.to(self.device)
        if mapped_file(data) is not None:
            # rows of a mapped file are read as the mini-batches ask for them
            self.features = torch.from_numpy(data)
        else:
            self.features = torch.tensor(data, device=self.device)
        is_classes = np.issubdtype(targets.dtype, np.integer)
        kind = torch.int64 if is_classes else torch.float32
        self.targets = torch.tensor(targets, dtype=kind, device=self.device)
        self.row_loss = self._row_loss(estimator, log_loss if is_classes else squared_error)
        codes = targets if is_classes else np.zeros(len(targets), np.int64)
        trained = np.ones(len(codes), bool)
        if held is not None:
            trained[held] = False
        self.weights: Tensor | None = None
        if weights is not None:
            scaled = weights / weights[trained].mean()
            self.weights = torch.tensor(scaled, dtype=torch.float32, device=self.device)
        self.by_label = [
            torch.from_numpy(np.flatnonzero(trained & (codes == k)))
            for k in range(int(codes.max()) + 1)
        ]
        counts = [len(rows) for rows in self.by_label]
        size = estimator.batch_size
        if size is None:
            size = max(default_batch_size(sum(counts)), len(counts))
        self.shares = class_shares(counts, size, estimator.class_balance)
        # log of the weight that a row of each class has through its class's share of the
        # mini-batches
        self.shift = torch.log(
            torch.tensor(self.shares, dtype=torch.float64) / torch.tensor(counts)
        )
        if not is_classes:
            self.shift = torch.zeros(1, dtype=torch.float64)
        self.shift = self.shift.to(self.device)
        self.held: Batch | None = None
        self.judge = getattr(estimator, "judge", None)
        self.given_up = False
        self.patience = 0
        if held is not None:
            self._hold_out(estimator, held, math.ceil(sum(counts) / size / REPORT_EVERY))
        self.best_value = math.inf
        self.best_step = 0
        self.last_value = math.inf
        self.best_weights: dict[str, Tensor] = {}
        self.generator = torch.Generator().manual_seed(
            derive_seed(estimator.random_state, "batches")
        )
        self.parameters = list(network.parameters())
        self.optimizer = torch.optim.Adam(
            self.parameters,
            lr=estimator.learning_rate,
            weight_decay=estimator.weight_decay,
            fused=True,
        )
        self.step = 0
        self.history: dict[str, list[float]] = {"step": [], "loss": []}
        self._sums: dict[str, float] = {}

    def _row_loss(self, estimator: NeuralNetworkClassifier, default: RowLoss) -> RowLoss:
        """The estimator's loss, which must give one value per row, or the default."""
        if estimator.loss is None:
            return default
        row_loss: RowLoss = estimator.loss
        n = len(self.targets)
        outputs = torch.zeros(n, estimator._n_outputs, device=self.device)
        losses = row_loss(outputs, self.targets)
        if getattr(losses, "shape", None) != (n,):
            raise ValueError(
                "loss must give one value per row, shape (b,), from outputs and labels."
            )
        return row_loss

    def _hold_out(self, estimator: NeuralNetworkClassifier, rows: Int, reports: int) -> None:
        """Set the validation rows, and how often they are evaluated.

        A pass over the training rows takes `reports` times `REPORT_EVERY` mini-batches.
        """
        assert estimator.n_iter_no_change is not None
        self.held = self._batch(torch.from_numpy(rows))
        if self.held.weights is not None:
            weights = self.held.weights / self.held.weights.mean()
            self.held = replace(self.held, weights=weights)
        self.evaluate_every = REPORT_EVERY * min(MOST_REPORTS, reports)
        self.patience = estimator.n_iter_no_change * self.evaluate_every

    def run(self, steps: int, callback: Callback | None, checkpoint: Checkpoint) -> None:
        """Train until `steps` mini-batches were taken, or the validation rows or the callback say
        enough.

        With validation rows the network ends with the weights of the best value on them.

        Parameters
        ----------
        steps : int
            Number of mini-batches at most, those before a restored checkpoint included.
        callback : callable or None
            Called every 50 steps and after the last with (step, steps, last entries of
            ``history``). True ends the training.
        checkpoint : Checkpoint
            Where the state is saved when a write is due.

        Raises
        ------
        FloatingPointError
            If the loss or a weight became NaN or infinite; the last checkpoint before that stays.
        """
        while self.step < steps and not self.is_stale():
            for name, value in self.advance().items():
                self._sums[name] = self._sums.get(name, 0.0) + value
            if self.step % REPORT_EVERY and self.step != steps:
                continue
            progress = self._record()
            # the loss is that before the step, so the last step can break the weights unnoticed
            if not all(torch.isfinite(weights).all() for weights in self.network.parameters()):
                raise self._not_finite("weights are")
            if self.held is not None:
                progress["validation_loss"] = self._evaluate(self.held, steps)
                self.history.setdefault("validation_loss", []).append(progress["validation_loss"])
            enough = callback is not None and callback(self.step, steps, progress)
            if checkpoint.due():
                checkpoint.save(self.state())
            if enough or self.given_up:
                break
        if self.best_weights:
            self.network.load_state_dict(self.best_weights)

    def is_stale(self) -> bool:
        """Whether the last evaluations on validation rows were no better than the best one."""
        return bool(self.best_weights) and self.step - self.best_step >= self.patience

    def _evaluate(self, held: Batch, steps: int) -> float:
        """Compare with the best weights so far, where it is time to; the objective's last value."""
        if self.step not in (REPORT_EVERY, steps) and self.step % self.evaluate_every:
            return self.last_value
        self.network.eval()
        self.last_value = self.objective.criterion(self.network, held, self.shift)
        if self.judge is not None:
            probabilities = self._probabilities(held)
            self.given_up = self.judge(self.step, held.rows.numpy(), probabilities)
        self.network.train()
        if self.last_value < self.best_value:
            self.best_value = self.last_value
            self.best_step = self.step
            self.best_weights = {
                name: value.detach().clone() for name, value in self.network.state_dict().items()
            }
        return self.last_value

    def _probabilities(self, batch: Batch) -> Float:
        """Probability of each class, shape (b, K), as the trained network would predict it."""
        with torch.no_grad():
            logits = self.network(batch.x).double()
        return np.asarray(functional.softmax(logits, dim=1).cpu().numpy())

    def _batch(self, rows: Tensor) -> Batch:
        """Some rows with their weights."""
        on_device = rows.to(self.device)
        x = self.features[rows.to(self.features.device)].to(self.device)
        weights = None if self.weights is None else self.weights[on_device]
        return Batch(x, self.targets[on_device], rows, weights, self.row_loss)

    def advance(self) -> dict[str, float]:
        """Take one mini-batch; return its loss and what the objective logs."""
        drawn = []
        for pool, share in zip(self.by_label, self.shares, strict=True):
            drawn.append(pool[torch.randint(len(pool), (share,), generator=self.generator)])
        loss, logs = self.objective(self.network, self._batch(torch.cat(drawn)))
        for parameter in self.parameters:
            # as the optimizer's zero_grad, which takes longer than a small network's step
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.step += 1
        return {"loss": float(loss.detach()), **logs}

    def _record(self) -> dict[str, float]:
        """Append the means since the last record to the history, and return them."""
        steps_of_report = (self.step - 1) % REPORT_EVERY + 1
        progress = {name: total / steps_of_report for name, total in self._sums.items()}
        self._sums = {}
        if not all(np.isfinite(value) for value in progress.values()):
            raise self._not_finite("loss is")
        for name, value in {"step": float(self.step), **progress}.items():
            self.history.setdefault(name, []).append(value)
        return progress

    def _not_finite(self, subject: str) -> FloatingPointError:
        rate = self.optimizer.param_groups[0]["lr"]
        return FloatingPointError(
            f"the {subject} no longer finite at step {self.step}: lower learning_rate (now {rate})."
        )

    def state(self) -> State:
        """Give all that the next mini-batch depends on; only valid right after a record."""
        return {
            "network": self.network.state_dict(),
            "moments": self.optimizer.state_dict()["state"],
            "history": self.history,
            "objective": self.objective.state(),
            "best": self.best_weights,
            # value and step of the best evaluation, and value of the last one
            "evaluations": [self.best_value, self.best_step, self.last_value],
            "step": self.step,
            "generator": self.generator.get_state(),
            "layers": self._layers().get_state(),
            "judged": [] if self.judge is None else self.judge.losses,
        }

    def restore(self, state: State) -> None:
        """Continue from a loaded :meth:`state`: the rest of the training is the same, bit for bit.

        Parameters
        ----------
        state : dict
            As a checkpoint loads it.
        """
        self.network.load_state_dict(tensors(state["network"]))
        load_moments(self.optimizer, state["moments"])
        self.history = {name: values.tolist() for name, values in state["history"].items()}
        self.objective.restore(state.get("objective", {}))
        self.best_weights = tensors(state.get("best", {}))
        self.best_value, best_step, self.last_value = state["evaluations"].tolist()
        self.best_step = int(best_step)
        self.step = int(state["step"])
        if self.judge is not None:
            self.judge.losses = state["judged"].tolist()
        self.generator.set_state(torch.from_numpy(state["generator"]))
        self._layers().set_state(torch.from_numpy(state["layers"]))

    def _layers(self) -> torch.Generator:
        """The global generator that layers such as dropout draw from."""
        if self.device.type == "cuda":
            return torch.cuda.default_generators[torch.cuda.current_device()]
        return torch.default_generator


def torch_device(name: str) -> torch.device:
    """Give torch's device.

    Parameters
    ----------
    name : {"cpu", "cuda", "auto"}
        ``"auto"``: a GPU if torch finds one.

    Returns
    -------
    torch.device

    Raises
    ------
    ValueError
        For ``"cuda"`` without a GPU.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ValueError("device 'cuda': torch finds no CUDA device.")
    if name == "cpu" or not available:
        return torch.device("cpu")
    return torch.device("cuda")


def default_batch_size(n: int) -> int:
    """Rows per mini-batch: from 32 for a small table to 256, in 64 steps an epoch.

    Parameters
    ----------
    n : int
        Training rows.

    Returns
    -------
    int
    """
    return min(256, max(32, n // 64))


def class_shares(counts: Sequence[int], batch_size: int, balance: float) -> list[int]:
    r"""Rows of each class in a mini-batch, proportional to :math:`n_k^{1 - \beta}`.

    Shares are at least 1 each, and all equal if `balance` is 1.

    Parameters
    ----------
    counts : sequence of int
        Training rows :math:`n_k` of each class, all above 0.
    batch_size : int
        At least the number of classes.
    balance : float
        :math:`\beta` in [0, 1]: 1 gives every class the same number of rows, 0 its share of the
        table.

    Returns
    -------
    list of int
        One by class; they sum to at most `batch_size`.
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


def tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Loaded arrays as tensors, which share their memory.

    Parameters
    ----------
    arrays : mapping of str to ndarray

    Returns
    -------
    dict of str to Tensor
    """
    return {name: torch.from_numpy(value) for name, value in arrays.items()}


def load_moments(
    optimizer: torch.optim.Optimizer, found: Mapping[str, Mapping[str, NDArray[Any]]]
) -> None:
    """Load the ``state`` of an optimizer's ``state_dict``.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Changed in place; its options stay.
    found : mapping of str to mapping of str to ndarray
        By the number of the parameter, as text, what the optimizer keeps of it.
    """
    moments = {int(index): tensors(arrays) for index, arrays in found.items()}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
