"""DADI: an agent that asks for features, trained against an adversary that predicts the sensitive
group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.execution import Progress, derive_seed, generator
from evenhand.fairlib.methods.dadi.decision_problem import (
    CRITERIA,
    Criterion,
    HeldOut,
    Outcome,
    auc,
    feature_report,
    prepare,
)
from evenhand.fairlib.methods.dadi.network import SetNetwork
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.method_base import Callback, Method, Validation, check_feature_groups
from evenhand.fairlib.methods.row_groups import read_groups
from evenhand.fairlib.preprocessing.input_tables import with_columns_of
from evenhand.fairlib.tuning.space import Real, Space

WEIGHTS_FILE = "network.safetensors"
TREES_FOLDER = "trees"
# Share of the training rows of whom the trees see a random set of answers.
PARTIAL = 0.25
# Weights of the trees to choose from; the first one of equally good ones.
WEIGHTS = 0.5, 1.0, 0.0
# Probabilities of trees, which are rounded to float32, keep this distance from 0 and 1.
LEAST = 1e-6


@dataclass(frozen=True)
class Acquisition:
    """Questions to n people, about G groups."""

    known: Bool  # shape (n, G): groups known in the end
    order: Int  # shape (n, G): groups in the order in which they were asked, then -1
    asked: Int  # shape (n,): number of groups asked before the agent stopped
    probability: Float  # shape (n,): of ``classes_[1]``, from the groups known in the end


@dataclass(kw_only=True, eq=False, repr=False)
class DADIClassifier(Method):
    r"""Dynamic adversarial discovery of information (Bakker et al. 2020, equations 1-6, appendix
    C).

    A policy asks for one feature group after another. It stops where another answer would reveal
    more about the sensitive attribute than it helps to predict. It maximises, for the set :math:`O`
    known in the end,

    .. math:: R(O) = -\gamma \, L_C(\hat y(O), y) + (1 - \gamma) \, L_A(\hat b(O), b)

    (equation 2), while a classifier minimises :math:`L_C` and an adversary :math:`L_A`
    (cross-entropies) on every set on the way. Values are learned by n-step double Q-learning. Where
    the agent explored, the return is cut and continued by the value there, so that a random
    question does not count against the one before. Then boosted trees learn the label from what the
    trained agent acquires.

    Parameters
    ----------
    gamma : float
        :math:`\gamma` in [0, 1]: 1 asks for every group that helps to predict, 0 for none that
        reveals the sensitive group.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Of the adversary (:func:`evenhand.fairlib.methods.dadi.decision_problem.attribute_outcome`).
    class_balance : float
        In [0, 1]: 1 weighs both labels alike in the classifier's loss, 0 every person, between as
        :math:`n_y^{-\beta}`. With 1 a value of `gamma` means the same whatever the share of
        positive labels, and rare ones are learned in fewer iterations; ``prior_shift_`` says what
        to take off the log-odds.
    attributes : sequence of str or None
        The ``sensitive_features`` that the adversary predicts (several: their intersections); None:
        all. A feature group of that name is never asked.
    costs : mapping of str to float, or None
        Cost of asking a group (nats of reward, not negative); 0 where not listed.
    margin : float
        After the training the value of stopping is raised by this (nats of reward): the agent asks
        only what is worth more. Small values are mostly errors, and their answers reveal more than
        its adversary finds. Below 0 it also asks what it values a little less than stopping.
    hidden : (int, int)
        Units of the reading block and of the heads.
    memory_size, processing_steps : int
        Length of memory vectors and of the LSTM; steps of attention.
    pretrain_iterations : int or None
        Of both classifiers alone; may be 0. None: 4,000, and so few that at most 100 people are
        drawn per training row: with more, the classifiers memorise a small table.
    n_iterations : int or None
        Of joint training; may be 0. None: 80,000 divided by the number of groups that may be asked,
        within 1,000 and 4,000, because an iteration takes longer with more of them; at most as
        above.
    agents, n_step : int
        Number of agents (also the batch size of pretraining), and steps of each per iteration.
    exploration_start, exploration_end : float
        :math:`\epsilon` decreases linearly over the first half of the iterations.
    target_every : int
        Iterations between copies of the policy to the target network.
    learning_rate, final_learning_rate : float
        Of Adam; the rate changes linearly over the second half of the iterations.
    value_scale, value_weight : float
        The values are learned in units of 1 / ``value_scale`` nats, and their squared error has
        this weight. Adam changes outputs by steps of one size whatever their unit: in nats, a step
        would be larger than the value of one more feature.
    validation_share : float
        Share of the rows that is held out for ``feature_report_``; 0 for none.
    trees_weight : float or None
        In [0, 1]: weight of boosted trees in the log-odds. They learn from the answers of the
        training rows after the training; the rest is the weight of the network that shares its
        encoder with the policy. 0 is the paper's prediction. None: 0, 1/2 or 1, of the highest AUC
        on the held-out rows (1/2 without any). The questions are the same.
    random_state : int or None

    Attributes
    ----------
    groups_ : dict of str to list of int
        Columns of every group, in the order of the actions; stopping is the action after the last.
    allowed_ : ndarray of bool, shape (G,)
        Groups that may be asked: no constants, and not the attributes themselves.
    attributes_ : list of str
    feature_report_ : dict
        ``classifier_auc`` and ``adversary_auc`` on the held-out rows
        (:func:`evenhand.fairlib.methods.dadi.decision_problem.feature_report`).
    history_ : dict of str to list of float
        ``step`` and, over the iterations up to it, ``classification_loss``, ``adversary_loss``,
        ``value_error``, ``reward`` and ``asked``
        (:meth:`evenhand.fairlib.methods.dadi.agent_training.JointTraining.advance`).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = DADIClassifier(
    ...     hidden=(8, 8), memory_size=8, pretrain_iterations=20, n_iterations=20, agents=8,
    ...     trees_weight=0.0, random_state=0,
    ... )
    >>> model = model.fit(X, y, sensitive_features={"sex": sex})
    >>> acquired = model.acquire(X[:3])
    >>> acquired.known.shape
    (3, 2)
    """

    space: ClassVar[Space] = {
        "gamma": Real(0.0, 1.0),
        "learning_rate": Real(1e-4, 1e-2, log=True),
        "class_balance": Real(0.0, 1.0),
    }

    _fitted_part: ClassVar[str] = "_weight"

    gamma: float = 0.8
    criterion: Criterion = "demographic_parity"
    class_balance: float = 1.0
    attributes: Sequence[str] | None = None
    costs: Mapping[str, float] | None = None
    margin: float = 0.0
    hidden: Sequence[int] = (64, 64)
    memory_size: int = 32
    processing_steps: int = 1
    pretrain_iterations: int | None = None
    n_iterations: int | None = None
    agents: int = 64
    n_step: int = 4
    exploration_start: float = 1.0
    exploration_end: float = 0.3
    target_every: int = 100
    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-6
    value_scale: float = 100.0
    value_weight: float = 0.003
    validation_share: float = 0.16
    trees_weight: float | None = None
    random_state: int | None = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
        feature_groups: Mapping[str, Sequence[int]] | None = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Train; as in :class:`evenhand.fairlib.methods.method_base.Method`.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Training rows.
        y : array-like, shape (n,)
            Labels, of two classes.
        sensitive_features : mapping, DataFrame, Series or array of n rows, or names of columns of X
            Values of every row, by attribute. They are needed.
        sample_weight : array-like, shape (n,), or None
            Weight of every row, at least 0; None: all count the same.
        feature_groups : mapping of str to sequence of int, or None
            Columns of X that one question reveals; None: each column on its own, named x0, x1, ...
        callback : callable or None
            Called every 100 iterations with (iteration, iterations, last entries of ``history_``).
            True ends the training.
        checkpoint : path or None
            Folder of a file from which a later call with the same data and parameters continues.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            For no sensitive feature or one with a single group, groups that miss or repeat a
            column, or no group left to ask.
        FloatingPointError
            If a loss, or an output of the trained networks, became NaN or infinite.
        """
        from evenhand.fairlib.methods.dadi.agent_training import train

        data, codes, weights = self._begin_fit(X, y, sample_weight)
        groups = check_feature_groups(feature_groups, data.shape[1], self._columns_by_name())
        sensitive_features = with_columns_of(X, sensitive_features)
        sensitive = read_groups(sensitive_features, self.attributes, len(codes))
        self.attributes_ = list(sensitive.attributes)
        problem, held = prepare(self, data, codes, sensitive, groups, weights)
        columns = list(groups.items())
        stored = self._checkpoint(
            checkpoint,
            np.__version__,
            data,
            codes,
            sensitive.codes,
            columns,
            self.attributes_,
            weights,
        )
        with threadpool_limits(1, "blas"):
            before, after, self.history_ = train(problem, self, stored, callback)
            self.groups_ = {name: list(columns) for name, columns in problem.layout.groups.items()}
            self.allowed_ = problem.allowed
            self._network = after[0]
            self._network.parts["policy.bias3"][-1] += np.float32(self.margin * self.value_scale)
            counts = np.bincount(problem.label.code, minlength=2)
            self.prior_shift_ = float(self.class_balance * np.log(counts[0] / counts[1]))
            known = self._acquired(held.X)
            self._fit_trees(np.delete(data, held.rows, axis=0), problem.label, held, known)
            self.feature_report_ = feature_report(self, held, known, before, after[1])
            self.validation_ = None
            if len(held.rows):
                probability = self._mixed(held.X, known, self._weight)
                self.validation_ = Validation(held.rows, probability)
        stored.remove()
        return self

    def _fit_trees(self, X: Float32, label: Outcome, held: HeldOut, held_known: Bool) -> None:
        """Fit trees to the training rows, shape (n, d), with the answers that the agent gets, else
        NaN.

        Of every fourth person a random set is known instead, as in pretraining: people may decline
        answers. The trees' weight is the best one on the held-out rows if none is given.
        """
        self._trees: Any = None
        weight = self.trees_weight
        if weight == 0:
            self._weight = 0.0
            return
        random = generator(self.random_state, "answers")
        known = self._acquired(X)
        chance = random.random((len(X), 1 + self.allowed_.size))
        some = random.random(len(X)) < PARTIAL
        known[some] = (self.allowed_ & (chance[:, 1:] >= chance[:, :1]))[some]
        self._trees = GBDTClassifier(
            eta=0.1, random_state=derive_seed(self.random_state, "trees"), n_jobs=1
        )
        self._trees.fit(
            self._network.layout.answers(X, known), label.code, sample_weight=label.weight
        )
        if weight is None:
            aucs = {}
            if len(held.rows):
                for share in WEIGHTS:
                    mixed = self._mixed(held.X, held_known, share)
                    aucs[share] = auc(mixed, held.label) or 0.0
            weight = max(aucs, key=aucs.__getitem__, default=WEIGHTS[0])
        self._weight = float(weight)

    def _check_parameters(self) -> None:
        self._check_interval(
            "[0, 1]", "gamma", "class_balance", "exploration_start", "exploration_end"
        )
        self._check_interval(
            "(0, inf)", "learning_rate", "final_learning_rate", "value_scale", "value_weight"
        )
        self._check_interval("[0, 1)", "validation_share")
        self._check_interval("(-inf, inf)", "margin")
        self._check_interval("[0, 1]", "trees_weight", optional=True)
        self._check_counts("memory_size", "processing_steps", "agents", "n_step", "target_every")
        self._check_counts("pretrain_iterations", "n_iterations", least=0, optional=True)
        self._check_names("attributes")
        self._check_mapping("costs")
        self._check_whole_numbers("random_state")
        self._check_choice("criterion", CRITERIA)
        self._check_widths("hidden")
        if len(self.hidden) != 2:
            raise ValueError(f"hidden must list the units of two layers, got {self.hidden!r}.")

    def _checked(self, X: ArrayLike, known: ArrayLike | None) -> tuple[Float32, Bool]:
        """Rows, and which groups are known of them, as a new array; None: nothing."""
        check_is_fitted(self)
        data: Float32 = self._validated(X, reset=False)
        n = len(data)
        groups = len(self.groups_)
        mask = np.zeros((n, groups)) if known is None else np.asarray(known)
        if mask.shape != (n, groups):
            raise ValueError(
                f"known has shape {mask.shape}, expected one column for each of {groups} groups "
                f"and {n} rows."
            )
        return data, mask.astype(bool)

    def acquire(
        self, X: ArrayLike, known: ArrayLike | None = None, *, callback: Progress | None = None
    ) -> Acquisition:
        """Ask people one group after another until the policy stops.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The answers; columns of groups that are never asked have no influence.
        known : array-like of bool, shape (n, G), or None
            Groups known at first; None: none.
        callback : callable or None
            Called with (done, total), which count rows.

        Returns
        -------
        Acquisition

        Raises
        ------
        ValueError
            If `known` has another shape.
        """
        data, mask = self._checked(X, known)
        order = self._network.acquire(self.allowed_, data, mask, callback)
        return Acquisition(
            mask, order, (order >= 0).sum(axis=1), self._mixed(data, mask, self._weight)[:, 1]
        )

    def _probabilities(self, X: Float32) -> Float:
        return self._mixed(X, self._acquired(X), self._weight)

    def predict_proba_known(self, X: ArrayLike, known: ArrayLike) -> Float:
        """Class probabilities from the known groups, without another question.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Columns of groups that are not known have no influence.
        known : array-like of bool, shape (n, G)

        Returns
        -------
        ndarray of float, shape (n, 2)
            In the order of ``classes_``.

        Raises
        ------
        ValueError
            If `known` has another shape.
        """
        return self._mixed(*self._checked(X, known), self._weight)

    def _acquired(self, X: Float32) -> Bool:
        """Groups that are known when the agent stops, shape (n, G)."""
        known = np.zeros((len(X), self.allowed_.size), bool)
        self._network.acquire(self.allowed_, X, known)
        return known

    def _mixed(self, X: Float32, known: Bool, weight: float) -> Float:
        """Class probabilities from the known groups, shape (n, 2), by network and trees of this
        weight.
        """
        odds = self._network.outputs("classify", X, known).astype(np.float64) @ np.array(
            [-1.0, 1.0]
        )
        if weight > 0:
            chance = self._trees.predict_proba(self._network.layout.answers(X, known))[:, 1]
            odds = (1.0 - weight) * odds + weight * logit(np.clip(chance, LEAST, 1.0 - LEAST))
        positive = expit(odds)
        return np.stack([1.0 - positive, positive], axis=1)

    def action_values(self, X: ArrayLike, known: ArrayLike) -> Float:
        """Expected reward of each action.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Columns of groups that are not known have no influence.
        known : array-like of bool, shape (n, G)

        Returns
        -------
        ndarray of float, shape (n, G + 1)
            In nats; the last action is to stop. Minus infinity for groups that are known already or
            never asked; that of stopping includes the `margin`.

        Raises
        ------
        ValueError
            If `known` has another shape.
        """
        data, mask = self._checked(X, known)
        values = self._network.outputs("policy", data, mask)
        possible = np.ones(values.shape, bool)
        possible[:, :-1] = self.allowed_ & ~mask
        return np.where(possible, values.astype(np.float64) / self.value_scale, -np.inf)

    def _write(self, folder: Path) -> None:
        more = {
            "allowed": self.allowed_.tolist(),
            "attributes": self.attributes_,
            "feature_report": self.feature_report_,
            "trees_weight": self._weight,
        }
        self._network.save(folder / WEIGHTS_FILE, more)
        if self._weight > 0:
            self._trees.save(folder / TREES_FOLDER)

    def _read(self, folder: Path) -> None:
        self._network, facts = SetNetwork.load(folder / WEIGHTS_FILE, self.processing_steps)
        # models that were published before there were trees have none
        self._weight = facts.get("trees_weight", 0.0)
        self._trees = GBDTClassifier.load(folder / TREES_FOLDER) if self._weight > 0 else None
        self.groups_ = dict(facts["groups"])
        self.allowed_ = np.array(facts["allowed"], bool)
        self.attributes_ = facts["attributes"]
        self.feature_report_ = facts["feature_report"]
