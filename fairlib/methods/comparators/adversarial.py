"""A network trained against an adversary that predicts the group from its output."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from scipy.special import expit

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.execution import derive_seed, generator, one_thread
from evenhand.fairlib.methods.comparators.comparator_base import (
    Arrays,
    GroupComparator,
    optional_import,
    repeated_rows,
)
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.methods.row_groups import Groups, check_labels
from evenhand.fairlib.tuning.space import Choice, Real, Space

if TYPE_CHECKING:
    import torch
    from torch import nn

Constraint = Literal["demographic_parity", "equalized_odds"]
CHUNK_ROWS = 16_384
NOT_FINITE = (
    "an output of the network is no finite number: try a smaller learning_rate or a smaller "
    "adversary_weight."
)


@dataclass(kw_only=True, eq=False, repr=False)
class AdversarialClassifier(GroupComparator):
    r"""Fairlearn's AdversarialFairnessClassifier on torch (Zhang et al. 2018, algorithm of section
    3).

    A predictor with loss :math:`L_P` is trained against an adversary, which predicts the group from
    the predicted probability (and the label, for equalized odds) with loss :math:`L_A`. Of its
    weights
    :math:`W` the predictor follows

    .. math:: \nabla_W L_P - \mathrm{proj}_{\nabla_W L_A} \nabla_W L_P - \alpha \nabla_W L_A

    for each tensor of weights. After training the adversary is dropped; the group is not needed to
    predict. Training takes one thread: the same seed gives the same model.

    Parameters
    ----------
    constraint : {"demographic_parity", "equalized_odds"}
    hidden : sequence of int
        ReLU units of each hidden layer of the predictor; empty for a logistic regression.
    adversary_hidden : sequence of int
        The same of the adversary.
    adversary_weight : float
        :math:`\alpha`, not negative.
    n_epochs : int
        Passes over the training rows.
    batch_size : int
    learning_rate, adversary_learning_rate : float
        Of Adam, for predictor and adversary. If the adversary's is not much larger, it lags behind,
        and the predictor can escape it by favouring the other group.

    Attributes
    ----------
    weights_, biases_ : list of ndarray of float32
        Of each layer of the predictor, shapes (in, out) and (out,).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = AdversarialClassifier(hidden=(4,), n_epochs=5, random_state=0)
    >>> model = model.fit(X, y, sensitive_features={"sex": sex})
    >>> model.predict_proba(X).shape
    (200, 2)
    """

    space: ClassVar[Space] = {
        "constraint": Choice(("demographic_parity", "equalized_odds")),
        "adversary_weight": Real(0.001, 10.0, log=True),
        "learning_rate": Real(1e-4, 1e-2, log=True),
    }

    constraint: Constraint = "demographic_parity"
    hidden: Sequence[int] = (200,)
    adversary_hidden: Sequence[int] = ()
    adversary_weight: float = 0.1
    n_epochs: int = 50
    batch_size: int = 128
    learning_rate: float = 0.001
    adversary_learning_rate: float = 0.1

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("constraint", get_args(Constraint))
        self._check_counts("n_epochs", "batch_size")
        self._check_widths("hidden", "adversary_hidden")
        self._check_interval("(0, inf)", "learning_rate", "adversary_learning_rate")
        self._check_interval("[0, inf)", "adversary_weight")

    def _learn(
        self, data: Float32, codes: Int, groups: Groups, weights: Float | None, callback: Callback
    ) -> None:
        inputs = 1
        outputs = 1 if len(groups.names) == 2 else len(groups.names)
        if self.constraint == "equalized_odds":
            check_labels(groups, codes)
            inputs = 2
        with optional_import(type(self)):
            import torch
            from fairlearn.adversarial import AdversarialFairnessClassifier
        # Fairlearn seeds torch with the same number for every seed. So the first weights and the
        # order of the rows, which it shuffles again, are drawn here.
        order = repeated_rows(weights, generator(self.random_state, "rows").permutation(len(codes)))
        with one_thread(), torch.random.fork_rng(devices=[]), suppress(_Enough):
            torch.manual_seed(derive_seed(self.random_state, "layers"))
            predictor = _perceptron(data.shape[1], self.hidden, 1)
            adversary = _perceptron(inputs, self.adversary_hidden, outputs)
            predictor.register_forward_hook(self._watch(len(codes), callback))
            model = AdversarialFairnessClassifier(
                backend="torch",
                predictor_model=predictor,
                adversary_model=adversary,
                predictor_optimizer=_followed(predictor, self.learning_rate, self.adversary_weight),
                adversary_optimizer=lambda network: torch.optim.Adam(
                    network.parameters(), lr=self.adversary_learning_rate
                ),
                constraints=self.constraint,
                alpha=self.adversary_weight,
                epochs=int(self.n_epochs),
                batch_size=int(self.batch_size),
                shuffle=True,
                random_state=0,
            )
            model.fit(
                data[order].astype(np.float64), codes[order], sensitive_features=groups.codes[order]
            )
            callback(int(self.n_epochs), int(self.n_epochs), {})
        layers = [layer for layer in predictor if isinstance(layer, torch.nn.Linear)]
        self.weights_ = [layer.weight.detach().numpy().T.copy() for layer in layers]
        self.biases_ = [layer.bias.detach().numpy().copy() for layer in layers]
        if not all(np.isfinite(values).all() for values in (*self.weights_, *self.biases_)):
            raise FloatingPointError(NOT_FINITE)

    def _watch(self, n: int, callback: Callback) -> Any:
        """Hook on every output in training, because the library reports its progress in no cheaper
        way.
        """
        batches = -(-n // int(self.batch_size))
        steps = 0

        def _watch(module: nn.Module, inputs: Any, output: Any) -> None:
            nonlocal steps
            if not output.detach().isfinite().all():
                raise FloatingPointError(NOT_FINITE)
            if (
                steps
                and steps % batches == 0
                and callback(steps // batches, int(self.n_epochs), {})
            ):
                raise _Enough
            steps += 1

        return _watch

    def _positive_probability(self, X: Float32) -> Float:
        starts = range(0, len(X), CHUNK_ROWS)
        return np.concatenate([self._outputs(X[start : start + CHUNK_ROWS]) for start in starts])

    def _outputs(self, X: Float32) -> Float:
        """Probabilities in float64: the rounding of a float32 network would depend on the other
        rows.
        """
        hidden_units: Float = X.astype(np.float64)
        *inner, last = zip(self.weights_, self.biases_, strict=True)
        for weights, biases in inner:
            hidden_units = np.maximum(hidden_units @ weights + biases, 0.0)
        return expit(hidden_units @ last[0] + last[1])[:, 0]

    def _arrays(self) -> Arrays:
        return {
            f"{kind}.{number}": values
            for kind, layers in (("weight", self.weights_), ("bias", self.biases_))
            for number, values in enumerate(layers)
        }

    def _restore(self, arrays: Arrays) -> None:
        count = len(arrays) // 2
        self.weights_ = [arrays[f"weight.{number}"] for number in range(count)]
        self.biases_ = [arrays[f"bias.{number}"] for number in range(count)]


class _Enough(Exception):  # noqa: N818
    """The callback ended the training."""


def _followed(predictor: nn.Module, learning_rate: float, adversary_weight: float) -> Any:
    """Adam for the predictor, which follows the paper's gradient, from the gradients of both
    losses.

    Fairlearn's own is the same where a layer has one output. For a matrix its projection sums the
    products of all pairs of rows, and where the adversary's gradient is zero, as with saturated
    outputs, it divides zero by zero.
    """
    from torch import optim

    gradients: dict[Any, list[Any]] = {weights: [] for weights in predictor.parameters()}
    for weights, recorded in gradients.items():
        # called for the predictor's loss, then for the adversary's
        weights.register_hook(lambda gradient, recorded=recorded: recorded.append(gradient.clone()))

    class Followed(optim.Adam):
        def step(self, closure: Any = None) -> Any:
            for weights, recorded in gradients.items():
                of_predictor, adverse = recorded
                weights.grad = followed_gradient(of_predictor, adverse, adversary_weight)
                recorded.clear()
            return super().step(closure)

    return lambda model: Followed(model.parameters(), lr=learning_rate)


def followed_gradient(
    own: torch.Tensor, adverse: torch.Tensor, adversary_weight: float
) -> torch.Tensor:
    r""":math:`g - \mathrm{proj}_h g - \alpha h` (Zhang et al. 2018, equation 1).

    Parameters
    ----------
    own, adverse : Tensor, of one shape
        :math:`g` and :math:`h`: gradients of the predictor's and of the adversary's loss in one
        tensor of weights. A zero `adverse` has no direction to project out.
    adversary_weight : float
        :math:`\alpha`.

    Returns
    -------
    Tensor
        Of the same shape.

    References
    ----------
    Zhang, Lemoine and Mitchell, "Mitigating Unwanted Biases with Adversarial Learning", AIES 2018.
    """
    norm = adverse.norm()
    if norm == 0:
        return own
    unit = adverse / norm
    return own - (unit * own).sum() * unit - adversary_weight * adverse


def _perceptron(n_inputs: int, hidden: Sequence[int], n_outputs: int) -> Any:
    """ReLU layers; one output as a probability, several as logits, which is what Fairlearn's losses
    take.
    """
    from torch import nn

    sizes = [n_inputs, *map(int, hidden), n_outputs]
    layers: list[nn.Module] = []
    for before, after in zip(sizes, sizes[1:], strict=False):
        layer = nn.Linear(before, after)
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    layers[-1:] = [nn.Sigmoid()] if n_outputs == 1 else []
    return nn.Sequential(*layers)
