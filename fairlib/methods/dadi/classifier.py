"""DADI: an agent that asks each person only for the features that are fair to use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from evenhand.fairlib.execution import Progress, available_cores
from evenhand.fairlib.methods.base import BinaryMethod, Callback, Float32, Float64
from evenhand.fairlib.methods.checkpoint import Checkpoint
from evenhand.fairlib.methods.dadi.config import make_plan
from evenhand.fairlib.methods.dadi.inference import group_report
from evenhand.fairlib.methods.dadi.problem import Setup, generator_for, prepare
from evenhand.fairlib.methods.dadi.rollout import Acquisition, ask, check_known
from evenhand.fairlib.methods.dadi.storing import read_network, write_network
from evenhand.fairlib.methods.dadi.training import Weights, pretrain, readers, train

__all__ = ["DADIClassifier"]

WEIGHTS_FILE = "network.safetensors"


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
        Of the adversary (:func:`evenhand.fairlib.methods.dadi.objectives.attribute_outcome`).
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
        for each group alone (None if it may not be asked), and after training for ``all`` that may be and for
        what is (``acquired``).
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
            parameters = models[0].get_params(deep=False)
            weights = pretrain(
                setups[0].problem, make_plan(parameters), generator_for(parameters, "pretraining")
            )
            jobs = [
                threads.submit(model._train, setup, weights, None, None)
                for model, setup in zip(models, setups, strict=True)
            ]
            return [job.result() for job in jobs]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_predictor")

    def _prepare(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sensitive_features: Mapping[str, ArrayLike] | None,
        feature_groups: Mapping[str, Sequence[int]] | None,
    ) -> Setup:
        self.__dict__.pop("_predictor", None)
        data, codes = self._check_training(X, y)
        parameters = self.get_params(deep=False)
        make_plan(parameters)
        return prepare(data, codes, sensitive_features, feature_groups, parameters)

    def _train(
        self,
        setup: Setup,
        pretrained: Weights | None,
        callback: Callback | None,
        checkpoint: str | Path | None,
    ) -> Self:
        parameters, problem = self.get_params(deep=False), setup.problem
        plan, kept = make_plan(parameters), Checkpoint(checkpoint, setup.training)
        random = partial(generator_for, parameters)
        trained = train(problem, plan, random, kept, pretrained=pretrained, callback=callback)
        before, after = (readers(problem, plan, each) for each in (trained.pretrained, trained.weights))
        predictor, allowed = after[0], problem.allowed
        known = ask(predictor, allowed, setup.held.X).known.astype(np.uint8)
        names = list(problem.layout.groups)
        self.feature_report_ = group_report(names, allowed, setup.held, before, after, known)
        self.history_ = trained.history
        self.groups_ = {name: list(columns) for name, columns in problem.layout.groups.items()}
        self.allowed_, self.attributes_ = allowed, setup.attributes
        self._predictor = predictor
        kept.remove()
        return self

    def _data(self, X: ArrayLike) -> Float32:
        check_is_fitted(self)
        data: Float32 = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        return data

    def acquire(
        self, X: ArrayLike, known: ArrayLike | None = None, *, callback: Progress | None = None
    ) -> Acquisition:
        """
        Ask people one group after another until the policy stops.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The answers; columns of groups that are never asked have no influence.
        known : array-like of bool, shape (n, G), or None
            What is known at first; None: nothing.
        callback : callable, optional
            ``callback(done, total)``, in rows.
        """
        data = self._data(X)
        return ask(self._predictor, self.allowed_, data, known, callback=callback)

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
        mask = check_known(known, len(data), len(self.groups_))
        logits = self._predictor.outputs("classify", data, mask)
        probabilities: Float64 = softmax(logits.astype(np.float64), axis=1)
        return probabilities

    def action_values(self, X: ArrayLike, known: ArrayLike) -> Float64:
        """
        What the policy expects of each action (nats of reward), shape (n, G + 1); the last is to stop.

        Actions that are not possible, known or never asked groups, are minus infinity.
        """
        data = self._data(X)
        mask = check_known(known, len(data), len(self.groups_))
        values = self._predictor.outputs("policy", data, mask)
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
        more = {
            "allowed": self.allowed_.tolist(),
            "attributes": self.attributes_,
            "feature_report": self.feature_report_,
        }
        write_network(folder / WEIGHTS_FILE, self._predictor, more)

    def _read(self, folder: Path) -> None:
        self._predictor, kept = read_network(folder / WEIGHTS_FILE, self.processing_steps)
        self.groups_ = dict(kept["groups"])
        self.allowed_ = np.array(kept["allowed"], bool)
        self.attributes_ = kept["attributes"]
        self.feature_report_ = kept["feature_report"]
