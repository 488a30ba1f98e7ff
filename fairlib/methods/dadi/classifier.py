"""DADI: an agent that asks each person only for the features that are fair to use."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from fairlib.cores import available_cores
from fairlib.methods.base import BinaryMethod, Callback, Float32, Float64
from fairlib.methods.checkpoint import Checkpoint, fingerprint
from fairlib.methods.dadi._inference import acquire
from fairlib.methods.dadi.layout import Layout, check_groups
from fairlib.methods.dadi.objectives import attribute_outcome, group_codes, label_outcome
from fairlib.methods.dadi.parameters import NetworkShape
from fairlib.methods.dadi.reading import CHUNK_ROWS, HeldOut, Reader, group_report
from fairlib.methods.dadi.training import JointTraining, Plan, Problem, Weights, pretrain
from fairlib.randomness import generator

__all__ = ["Acquisition", "DADIClassifier"]

WEIGHTS_FILE = "network.safetensors"
EVERY = 100
FEW_ROWS = 64


@dataclass(frozen=True)
class Acquisition:
    """
    What was asked of n people, of G groups.

    Attributes
    ----------
    known : ndarray of bool, shape (n, G)
        What is known in the end.
    order : ndarray of int, shape (n, G)
        Groups in the order in which they were asked, then -1.
    asked : ndarray of int, shape (n,)
        How many were asked before the agent stopped.
    probability : ndarray of float64, shape (n,)
        Of ``classes_[1]``, from what is known in the end.
    """

    known: NDArray[np.bool_]
    order: NDArray[np.int64]
    asked: NDArray[np.int64]
    probability: Float64


@dataclass(frozen=True)
class _Setup:
    """What one training works with."""

    problem: Problem
    held: HeldOut
    training: str


class DADIClassifier(BinaryMethod):
    r"""
    Dynamic adversarial discovery of information (Bakker et al. 2020, equations 1-6, appendix C).

    A policy asks for one feature group after another and stops where the rest would tell more of the
    sensitive attribute than it adds. It maximises, for the set :math:`O` known in the end,

    .. math:: R(O) = -\gamma \, L_C(\hat y(O), y) + (1 - \gamma) \, L_A(\hat b(O), b)

    while a classifier minimises :math:`L_C` and an adversary :math:`L_A` (cross-entropies) on every set on
    the way. Values are learned by n-step double Q-learning; where the agent explored, the return is cut and
    continued by the value there, so that a random question does not count against the one before it.

    Parameters
    ----------
    gamma : float
        :math:`\gamma` in [0, 1]: 1 asks for whatever helps to predict, 0 for what tells nothing of the group.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Of the adversary (:func:`fairlib.methods.dadi.objectives.attribute_outcome`).
    class_balance : float
        In [0, 1]: 1 weighs both labels alike in the classifier's loss, 0 every person, between as
        :math:`n_y^{-\beta}`.
    attributes : sequence of str or None
        Which ``sensitive_features`` the adversary guesses (several: their intersections); None: all. A group
        of that name is never asked.
    costs : mapping of str to float, or None
        Cost of asking a group (nats of reward, not negative); 0 where not listed.
    hidden : (int, int)
        Units of the reading block and of the heads.
    memory_size, processing_steps : int
        Length of memory vectors and of the LSTM; steps of attention.
    pretrain_iterations, n_iterations : int
        Of pretraining, and of joint training: 0 leaves a policy that has learned nothing.
    agents, n_step : int
        People at a time (also the batch of pretraining), and steps of each per iteration.
    exploration_start, exploration_end : float
        :math:`\epsilon`, falling linearly over the first half of the iterations.
    target_every : int
        Iterations between copies of the policy to the target network.
    learning_rate, final_learning_rate : float
        Of Adam; the second half of the iterations goes from one to the other linearly.
    value_scale, value_weight : float
        The values are learned in units of 1 / ``value_scale`` nats, with this weight beside the classifier's
        loss. Adam moves outputs by steps of one size whatever their scale: without a scale, those are larger
        than what one more feature is worth.
    validation_share : float
        Share of the rows that is set aside to tell what single groups give away (``feature_report_``); 0 for
        none.
    random_state : int or None

    Attributes
    ----------
    groups_ : dict of str to list of int
        Columns of every group, in the order of the actions; to stop is the action after the last.
    allowed_ : ndarray of bool, shape (G,)
        Groups that may be asked: not those of constants, nor the attributes themselves.
    attributes_ : list of str
    feature_report_ : dict
        ``classifier_auc`` and ``adversary_auc`` (mean over groups, one against the rest): after pretraining
        for each group alone, and after training for ``all`` that may be asked and for what is (``acquired``).
    history_ : dict of str to list of float
        ``step`` and, over the iterations up to it, ``classification_loss``, ``adversary_loss``,
        ``value_error``, ``reward`` and ``asked``.
    """

    def __init__(
        self,
        *,
        gamma: float = 0.5,
        criterion: str = "demographic_parity",
        class_balance: float = 1.0,
        attributes: Sequence[str] | None = None,
        costs: Mapping[str, float] | None = None,
        hidden: Sequence[int] = (64, 64),
        memory_size: int = 32,
        processing_steps: int = 5,
        pretrain_iterations: int = 2000,
        n_iterations: int = 20_000,
        agents: int = 64,
        n_step: int = 4,
        exploration_start: float = 1.0,
        exploration_end: float = 0.3,
        target_every: int = 100,
        learning_rate: float = 5e-4,
        final_learning_rate: float = 1e-6,
        value_scale: float = 100.0,
        value_weight: float = 0.003,
        validation_share: float = 0.16,
        random_state: int | None = None,
    ) -> None:
        self.gamma = gamma
        self.criterion = criterion
        self.class_balance = class_balance
        self.attributes = attributes
        self.costs = costs
        self.hidden = hidden
        self.memory_size = memory_size
        self.processing_steps = processing_steps
        self.pretrain_iterations = pretrain_iterations
        self.n_iterations = n_iterations
        self.agents = agents
        self.n_step = n_step
        self.exploration_start = exploration_start
        self.exploration_end = exploration_end
        self.target_every = target_every
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.value_scale = value_scale
        self.value_weight = value_weight
        self.validation_share = validation_share
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        feature_groups: Mapping[str, Sequence[int]] | None = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """
        Train.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
        sensitive_features : mapping of str to array-like, shape (n,)
            Any number of groups each.
        feature_groups : mapping of str to sequence of int, or None
            Columns that are asked for together; None: each column on its own, named x0, x1, ...
        callback : callable or None
            Called every 100 iterations with (iteration, iterations, last entries of ``history_``).
        checkpoint : path or None
            Folder of a file from which a later call with the same data and parameters goes on, to the same
            model, bit for bit. It is removed at the end.

        Raises
        ------
        ValueError
            A parameter out of its range, no sensitive feature or one with a single group, groups that miss or
            repeat a column, no group left to ask.
        FloatingPointError
            The loss became NaN or infinite; the message names the iteration, and the last checkpoint stays.
        """
        setup = self._prepare(X, y, sensitive_features, feature_groups)
        with threadpool_limits(1, "blas"):
            return self._train(setup, None, callback, checkpoint)

    def fit_path(
        self,
        gammas: Sequence[float],
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        feature_groups: Mapping[str, Sequence[int]] | None = None,
        n_jobs: int | None = None,
    ) -> list[DADIClassifier]:
        """
        Train one model per trade-off: pretraining once, then one trade-off a core.

        Each is the very model that ``fit`` gives with that gamma.

        Parameters
        ----------
        gammas : sequence of float
        n_jobs : int or None
            Trade-offs at a time; None: as many as cores.
        """
        models = [clone(self).set_params(gamma=gamma) for gamma in gammas]
        setups = [model._prepare(X, y, sensitive_features, feature_groups) for model in models]
        if not models:
            return []
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_jobs or available_cores()) as threads:
            weights = pretrain(setups[0].problem, models[0]._plan(), models[0]._generator("pretraining"))
            jobs = [
                threads.submit(model._train, setup, weights, None, None)
                for model, setup in zip(models, setups, strict=True)
            ]
            return [job.result() for job in jobs]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_vector")

    def _generator(self, purpose: str) -> np.random.Generator:
        return generator(0 if self.random_state is None else int(self.random_state), purpose)

    def _plan(self) -> Plan:
        """The parameters, checked."""
        for name in ("gamma", "class_balance", "exploration_start", "exploration_end"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {value!r}.")
        for name in ("learning_rate", "final_learning_rate", "value_scale", "value_weight"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive, got {value!r}.")
        counts = ("memory_size", "processing_steps", "agents", "n_step", "target_every")
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}.")
        for name in ("pretrain_iterations", "n_iterations"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)!r}.")
        if len(self.hidden) != 2 or min(self.hidden) < 1:
            raise ValueError(f"hidden must be two positive numbers of units, got {self.hidden!r}.")
        if not 0 <= self.validation_share < 1:
            raise ValueError(f"validation_share must be in [0, 1), got {self.validation_share!r}.")
        given: dict[str, Any] = {field.name: getattr(self, field.name, None) for field in fields(Plan)}
        first, second = self.hidden
        given |= {"hidden": (int(first), int(second)), "exploration_iterations": self.n_iterations // 2}
        return Plan(**given)

    def _prepare(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sensitive_features: Mapping[str, ArrayLike] | None,
        feature_groups: Mapping[str, Sequence[int]] | None,
    ) -> _Setup:
        self.__dict__.pop("_vector", None)
        data, codes = self._check_training(X, y)
        self._plan()
        self.groups_ = check_groups(feature_groups, data.shape[1])
        self.attributes_, groups = group_codes(sensitive_features, self.attributes, len(codes))
        held = self._generator("validation").random(len(codes)) < self.validation_share
        layout = Layout.fit(data, self.groups_)
        never = {*layout.constant, *self.attributes_}
        self.allowed_ = np.array([name not in never for name in self.groups_])
        if not self.allowed_.any():
            raise ValueError("no feature group is left to ask: all are constant or sensitive.")
        self._layout = layout
        attribute = attribute_outcome(groups, codes, self.criterion)
        train = ~held
        if np.unique(codes[train]).size < 2:
            raise ValueError(
                f"of {len(codes)} rows {train.sum()} are left to train on, not of both labels: give more "
                "rows or a smaller validation_share."
            )
        problem = Problem(
            layout,
            layout.rows(data[train]),
            label_outcome(codes[train], self.class_balance),
            attribute._replace(
                code=groups[train], weight=attribute.weight[train], start=attribute.start[train]
            ),
            self.allowed_,
            self._costs(),
        )
        training = fingerprint(
            data,
            codes,
            groups,
            list(self.groups_.items()),
            self.attributes_,
            type(self).__name__,
            self._described(),
        )
        judged = (codes == 1) | (self.criterion != "equal_opportunity")
        held_out = HeldOut(data[held], codes[held], groups[held], attribute.classes, judged[held])
        return _Setup(problem, held_out, training)

    def _described(self) -> list[tuple[str, Any]]:
        return [(name, repr(value)) for name, value in sorted(self.get_params(deep=False).items())]

    def _costs(self) -> Float64:
        costs = dict(self.costs or {})
        for name, cost in costs.items():
            if name not in self.groups_:
                raise ValueError(
                    f"costs names {name!r}, which is no feature group: {', '.join(self.groups_)}."
                )
            if not (math.isfinite(cost) and cost >= 0):
                raise ValueError(f"costs[{name!r}] must be finite and not negative, got {cost!r}.")
        return np.array([float(costs.get(name, 0.0)) for name in self.groups_])

    def _train(
        self,
        setup: _Setup,
        pretrained: Weights | None,
        callback: Callback | None,
        checkpoint: str | Path | None,
    ) -> Self:
        plan, problem = self._plan(), setup.problem
        kept = Checkpoint(checkpoint, setup.training)
        found = kept.load()
        self.history_: dict[str, list[float]] = {}
        if found is not None:
            pretrained = Weights(found["pretrained.predictor"], found["pretrained.adversary"])
        elif pretrained is None:
            pretrained = pretrain(problem, plan, self._generator("pretraining"))
        joint = JointTraining(problem, plan, pretrained, self._generator("joint training"))
        if found is not None:
            joint.restore(found)
            self.history_ = json.loads(found["history"].tobytes().decode())
        self._shape, adversary_shape = plan.shapes(problem)
        while not joint.done:
            told = joint.advance(EVERY)
            for name, value in {"step": float(joint.iteration), **told}.items():
                self.history_.setdefault(name, []).append(value)
            if callback is not None:
                callback(joint.iteration, plan.n_iterations, told)
            if kept.due():
                kept.save(
                    joint.state()
                    | {
                        "pretrained.predictor": pretrained.predictor,
                        "pretrained.adversary": pretrained.adversary,
                        "history": np.frombuffer(json.dumps(self.history_).encode(), np.uint8),
                    }
                )
        self._vector = joint.weights.predictor

        def readers(weights: Weights) -> tuple[Reader, Reader]:
            vectors = zip((self._shape, adversary_shape), (weights.predictor, weights.adversary), strict=True)
            return tuple(Reader(*each, self._layout, self.processing_steps) for each in vectors)  # type: ignore[return-value]

        joint.check()
        names = list(self.groups_)
        asked = np.zeros((0, len(names)), np.uint8)
        if len(setup.held.X):
            asked = self.acquire(setup.held.X).known.astype(np.uint8)
        self.feature_report_ = group_report(
            names, self.allowed_, setup.held, readers(pretrained), readers(joint.weights), asked
        )
        kept.remove()
        return self

    def _reader(self) -> Reader:
        return Reader(self._shape, self._vector, self._layout, self.processing_steps)

    def _known(self, known: ArrayLike, n: int) -> NDArray[np.uint8]:
        mask = np.asarray(known)
        if mask.shape != (n, len(self.groups_)):
            raise ValueError(
                f"known has shape {mask.shape}, expected one column for each of {len(self.groups_)} groups "
                f"and {n} rows."
            )
        return mask.astype(bool).astype(np.uint8)

    def _data(self, X: ArrayLike) -> Float32:
        check_is_fitted(self)
        data: Float32 = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        return data

    def acquire(self, X: ArrayLike, known: ArrayLike | None = None) -> Acquisition:
        """
        Ask people one group after another until the policy stops.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The answers; columns of groups that are never asked have no influence.
        known : array-like of bool, shape (n, G), or None
            What is known at first; None: nothing.
        """
        data = self._data(X)
        n, groups = len(data), len(self.groups_)
        mask = np.zeros((n, groups), np.uint8) if known is None else self._known(known, n)
        order = np.full((n, groups), -1, np.int64)
        logits = np.zeros((n, 2), np.float32)
        network = self._shape.network(self._vector)
        # to set the limit takes longer than to ask a few people, whose products are too small to share out
        with threadpool_limits(1, "blas") if n > FEW_ROWS else nullcontext():
            for start in range(0, n, CHUNK_ROWS):
                part = slice(start, start + CHUNK_ROWS)
                acquire(
                    network.encoder,
                    network.policy,
                    network.classify,
                    self._layout.columns,
                    self._layout.rows(data[part]),
                    self.allowed_,
                    self.processing_steps,
                    mask[part],
                    order[part],
                    logits[part],
                )
        probability = softmax(logits.astype(np.float64), axis=1)[:, 1]
        return Acquisition(mask.astype(bool), order, (order >= 0).sum(axis=1), probability)

    def _positive_probability(self, X: Float32) -> Float64:
        return self.acquire(X).probability

    def predict_proba_known(self, X: ArrayLike, known: ArrayLike) -> Float64:
        """
        Class probabilities from what is known, with no further question.

        Parameters
        ----------
        X : array-like, shape (n, d)
        known : array-like of bool, shape (n, G)
            Columns of other groups have no influence.

        Returns
        -------
        ndarray of float64, shape (n, 2)
        """
        data = self._data(X)
        mask = self._known(known, len(data))
        logits = self._reader().outputs("classify", data, mask)
        probabilities: Float64 = softmax(logits.astype(np.float64), axis=1)
        return probabilities

    def action_values(self, X: ArrayLike, known: ArrayLike) -> Float64:
        """
        What the policy expects of each action (nats of reward), shape (n, G + 1); the last is to stop.

        Actions that are not possible, known or never asked groups, are minus infinity.
        """
        data = self._data(X)
        mask = self._known(known, len(data))
        values = self._reader().outputs("policy", data, mask)
        possible = np.ones(values.shape, bool)
        possible[:, :-1] = self.allowed_ & ~mask.astype(bool)
        return np.where(possible, values.astype(np.float64) / self.value_scale, -np.inf)

    def next_action(self, X: ArrayLike, known: ArrayLike) -> NDArray[np.int64]:
        """
        Position of the group to ask next, or G to stop; shape (n,).

        Parameters
        ----------
        X : array-like, shape (n, d)
        known : array-like of bool, shape (n, G)
        """
        values = self.action_values(X, known)
        # to stop comes first among equals
        order = np.roll(values, 1, axis=1).argmax(axis=1)
        return np.where(order == 0, values.shape[1] - 1, order - 1).astype(np.int64)

    def _write(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        kept = {
            "groups": list(self.groups_.items()),  # their order is that of the actions
            "allowed": self.allowed_.tolist(),
            "attributes": self.attributes_,
            "layout": self._layout.kept(),
            "hidden": list(self._shape.hidden),
            "memory_size": self._shape.memory,
            "feature_report": self.feature_report_,
        }
        save_file(
            {name: np.ascontiguousarray(view) for name, view in self._shape.named(self._vector).items()},
            str(folder / WEIGHTS_FILE),
            metadata={"dadi": json.dumps(kept, sort_keys=True)},
        )

    def _read(self, folder: Path) -> None:
        from safetensors import safe_open

        with safe_open(str(folder / WEIGHTS_FILE), "numpy") as stored:
            kept = json.loads(stored.metadata()["dadi"])
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
        self.groups_ = dict(kept["groups"])
        self.allowed_ = np.array(kept["allowed"], bool)
        self.attributes_ = kept["attributes"]
        self.feature_report_ = kept["feature_report"]
        self._layout = Layout.restore(self.groups_, kept["layout"])
        first, second = kept["hidden"]
        self._shape = NetworkShape(
            self.n_features_in_, 2, len(self.groups_) + 1, (first, second), kept["memory_size"]
        )
        self._vector = np.zeros(self._shape.size, np.float32)
        for name, view in self._shape.named(self._vector).items():
            view[...] = tensors[name]
