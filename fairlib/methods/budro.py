"""BuDRO: gradient boosting on the worst-case distribution within a fair-metric budget."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.distances.metric_base import Metric, mean_squared_distance
from evenhand.fairlib.distances.metric_kinds import fitted_metric
from evenhand.fairlib.methods.adapted_inputs import AdaptedInputs
from evenhand.fairlib.methods.checkpoint import FILE, Checkpoint, fingerprint
from evenhand.fairlib.methods.gbdt import (
    GBDTClassifier,
    corrected_losses,
    prior_shift,
    thread_count,
    validation_of,
)
from evenhand.fairlib.methods.method_base import Callback, Method, Validation
from evenhand.fairlib.methods.thresholds import between_values
from evenhand.fairlib.methods.tree_rows import TreeRows
from evenhand.fairlib.numerics import logistic_losses, softmax_losses
from evenhand.fairlib.preprocessing.input_tables import with_columns_of
from evenhand.fairlib.transport.problem import TransportProblem
from evenhand.fairlib.tuning.space import Real, Space

if TYPE_CHECKING:
    import xgboost as xgb

    from evenhand.fairlib.transport.dual import DualSolver

logger = logging.getLogger(__name__)


ValidationMetric = Literal["balanced_accuracy", "accuracy", "log_loss", "adversarial_loss"]
VALIDATION_METRICS: tuple[str, ...] = get_args(ValidationMetric)
# With so many distinct points each person is moved to one of the nearest ones, unless all are asked
# for; with more it takes longer to list these than to search all.
LISTED = range(2001, 100_001)
NEIGHBOURS = 250
# Rows that a metric projects at once.
PROJECTED = 1 << 20
# Depths that are tried where none is given.
DEPTHS = (2, 4)


@dataclass(kw_only=True, repr=False, eq=False)
class BudroClassifier(AdaptedInputs, GBDTClassifier):
    r"""Individually fair gradient boosted trees (Vargo et al. 2021, Algorithm 3), for any number of
    classes.

    Boosting minimises the loss under an adversary that may treat each person as a comparable other
    (2.5):

    .. math::
        \min_f \; \sup_{P: W_D(P, P_n) \le \epsilon} E_P[\ell(f(x), y)], \qquad
        c((x_1, y), (x_2, y)) = d_x^2(x_1, x_2)

    :math:`f_0` is one plain boosting step. Each later step finds the worst-case distribution for
    the current model by optimal transport (:mod:`evenhand.fairlib.transport`) and boosts once on
    the support :math:`\{(x_i, k)\}` of every row under every label with the weights :math:`\Pi
    y_k`.

    Missing numbers (NaN) are allowed: trees give them a branch of their own, and in distances they
    count as the mean of the known values of their column. Categorical columns are refused, for a
    fair metric measures differences of numbers: encode them.

    Parameters
    ----------
    metric : fair metric or None
        Any object with ``project``; a metric that is not fitted is cloned and fitted at ``fit``.
        None: Euclidean distance on X, which protects nothing in particular. With a learned metric
        that can read all groups from X, the trees read everybody's counterpart in one group, and
        distances are those of the counterparts.
    perturbation_budget : float or None
        :math:`\epsilon`, mean squared fair distance that the adversary may move people. At 0 it
        moves people only between rows at distance 0. None: by `budget_share`.
    budget_share : float
        Without `perturbation_budget`: :math:`\epsilon` as a share of the mean squared fair distance
        between two random training rows, so that it depends on no feature's scale.
    n_steps : int
        Fair boosting steps T, after the plain one; at most, with early stopping.
    max_depth : int or None
        Depth of a tree. None: 2 or 4, whichever has the better validation metric (4 without
        validation).
    reg_lambda, min_child_weight : float
        l2 penalty of leaf weights and least sum of hessians in a child, in units in which all rows
        together weigh 1, as in the paper's tables: they mean the same on any number of rows.
    neighbours : int, "auto" or None
        Each person may be treated only as one of this many nearest distinct points, the own one
        included, so that a step costs O(n * neighbours); ``history_["proven"]`` is the share of
        people for whom no other row is worse. ``"auto"``: the 250 nearest on a table of 2,001 to
        100,000 distinct points, else all rows, as with None.
    n_iter_no_change : int or None
        Stop after this many steps without a better validation metric, and keep the best step's
        model. None takes all steps on all rows.
    validation_fraction : float or None
        Share of the rows held out for it, stratified by label, which do not train. None: 0.15 of a
        large table; on a small one, as in the base class, the number of steps is chosen by
        cross-validation, and all rows train.
    validation_metric : str
        ``log_loss`` (of probabilities without the class weights' effect), ``adversarial_loss`` (the
        worst-case loss among the held-out rows, at the same budget), ``balanced_accuracy`` or
        ``accuracy``.
    random_state : int or None
        Breaks ties between equally bad transports, and draws the held-out rows.

    Attributes
    ----------
    metric_ : Metric or None
        The metric used.
    perturbation_budget_ : float
        :math:`\epsilon` as it was used.
    history_ : dict of str to list of float
        Per fair step: ``multiplier`` (:math:`\eta^*`), ``spent`` (mean squared distance),
        ``adversarial_loss`` and ``loss`` (nats), ``proven`` (share of people), ``gap`` (proven
        share of the rise that is missed at most,
        :attr:`evenhand.fairlib.transport.problem.TransportPlan.gap`), and with early stopping
        ``validation``.
    best_step_ : int
        Fair steps in the model: fewer than were taken if it stopped early.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
    >>> metric = SensitiveSubspace(indicators=[0], learned=[])  # only the first column is free
    >>> model = BudroClassifier(metric, n_steps=20, max_depth=2, random_state=0).fit(X, y)
    >>> flipped = np.column_stack([1 - sex, X[:, 1]])
    >>> same = model.predict(X) == model.predict(flipped)
    >>> bool(same.mean() > 0.8)
    True
    """

    # a distance between people needs numbers: encode categories
    takes_categories: ClassVar[bool] = False
    # the weights of all rows sum to 1
    space: ClassVar[Space] = {
        **GBDTClassifier.space,
        "reg_lambda": Real(1e-5, 0.1, log=True),
        "min_child_weight": Real(1e-5, 0.1, log=True),
        "budget_share": Real(1e-5, 1.0, log=True),
        # the adversary sees weighted losses, so a threshold does not replace a weight
        "scale_pos_weight": Real(0.25, 4.0, log=True, default=1.0),
    }
    # five trainings on a large table would take minutes
    _least_held_out: ClassVar[int] = 1

    metric: Metric | None = field(default=None, kw_only=False)
    perturbation_budget: float | None = None
    budget_share: float = 0.001
    n_steps: int = 300
    eta: float = 0.1
    reg_lambda: float = 0.001
    min_child_weight: float = 0.002
    neighbours: int | Literal["auto"] | None = "auto"
    n_iter_no_change: int | None = 20
    validation_metric: ValidationMetric = "log_loss"

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Train; as in :class:`evenhand.fairlib.methods.method_base.Method`.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Training rows; missing numbers are NaN.
        y : array-like, shape (n,)
            Labels.
        sensitive_features : mapping, DataFrame, Series or array of n rows, or names of columns of X
            Used only to fit a metric that is not fitted.
        sample_weight : array-like, shape (n,), or None
            Weight of every row, at least 0; None: all count the same.
        callback : callable or None
            Called after every step with (step, steps, last entries of ``history_`` and the step's
            ``seconds``). True ends the training.
        checkpoint : path or None
            Folder of a file from which a later call with the same data and parameters continues. It
            holds no cross-validation, which starts anew.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            For a parameter out of its range, or a metric of another dimension or at which all
            people are at distance 0.
        FloatingPointError
            If a worst-case transport has no optimum within rounding.
        """
        import xgboost as xgb

        data, codes, weights = self._begin_fit(X, y, sample_weight)
        filled = _filled(data)
        self.metric_ = self.metric
        if isinstance(self.metric, Metric):
            sensitive_features = with_columns_of(X, sensitive_features)
            self.metric_ = fitted_metric(self.metric, self._named(filled), sensitive_features)
        if self.adapts_inputs:
            # people are as far apart as their counterparts in one group
            filled = self._adapted_training_rows(filled)
            data = filled
        people, runs = self._tree_rows(data, codes, weights)
        points = self._points(filled)
        self.perturbation_budget_ = self._budget(points)
        folds = [] if self.n_iter_no_change is None else self._folds(codes)
        growths = self._growths(data)
        if not folds:
            growths = growths[-1:]
        everybody: tuple[Int | slice, Int] = slice(None), np.arange(0)
        parted: Sequence[tuple[Int | slice, Int]] = folds or [everybody]
        sides = [
            _Side(self, people, points, train_rows, held_out) for train_rows, held_out in parted
        ]
        cross_validated = len(folds) > 1
        mark = None if checkpoint is None else fingerprint(points)
        rounds = _Rounds(
            model=self,
            total=self.n_steps * (len(growths) + cross_validated),
            callback=callback,
            checkpoint=checkpoint,
            checkpoint_parts=(xgb.__version__, data, codes, mark, weights),
        )
        if cross_validated:
            best = rounds.best_growth(sides, growths, with_checkpoints=False)
            training = rounds.train_all(_Side(self, people, points, *everybody), best)
        else:
            # of a large table: twice the memory of its rows
            del points
            best = rounds.best_growth(sides, growths, with_checkpoints=True)
            training = best[0]
        self.validation_ = _predictions(best, training.best_step) if folds else None
        self.history_ = training.history
        self.best_step_ = training.best_step
        logger.info("BuDRO: kept the model of step %d of %d", self.best_step_, training.step)
        # and the plain step
        self.booster_ = between_values(training.booster[: self.best_step_ + 1], people.data, runs)
        self.booster_.set_attr(perturbation_budget=repr(self.perturbation_budget_))
        self.prior_shift_ = prior_shift(training.side.class_weights)
        rounds.remove_checkpoints()
        return self

    def _budget(self, points: Float) -> float:
        """Mean squared distance that the adversary may move people, whose points are given."""
        if self.perturbation_budget is None:
            return self.budget_share * mean_squared_distance(None, points)
        return float(self.perturbation_budget)

    def _is_over(self, trainings: list[_Training]) -> bool:
        """Whether too many steps were no better than the best."""
        scores = _mean_scores(trainings)
        if not scores:
            return False
        since_best = len(scores) - 1 - int(np.argmax(scores))
        return since_best >= (self.n_iter_no_change or 0)

    def _growths(self, rows: Float32) -> list[dict[str, Any]]:
        depths = DEPTHS if self.max_depth is None else (self.max_depth,)
        return [{"max_depth": depth} for depth in depths]

    def _read(self, folder: Path) -> None:
        super()._read(folder)
        budget = self.booster_.attr("perturbation_budget")
        if budget is not None:
            self.perturbation_budget_ = float(budget)

    def may_fit_folds(self, y: ArrayLike) -> bool:
        """Return whether `fit_folds` trains as `fit` does: it has no adversary.

        Parameters
        ----------
        y : array-like, shape (n,)
            Labels of the training rows.

        Returns
        -------
        bool
            False.
        """
        return False

    def plain(self, n_rows: int) -> Method:
        """Plain boosting with the same trees and steps: the baseline of the adversary's effect.

        Parameters
        ----------
        n_rows : int
            Number of training rows: there every row weighs 1, here all weigh 1 together.

        Returns
        -------
        GBDTClassifier
            Not fitted.
        """
        baseline = super().plain(n_rows)
        if self.n_iter_no_change is None:
            # and the plain step
            baseline.set_params(n_steps=self.n_steps + 1)
        baseline.set_params(
            reg_lambda=self.reg_lambda * n_rows, min_child_weight=self.min_child_weight * n_rows
        )
        return baseline

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_has("metric", "project", "a fair metric")
        self._check_interval("[0, inf)", "perturbation_budget", optional=True)
        self._check_interval("[0, inf)", "budget_share")
        self._check_choice("validation_metric", VALIDATION_METRICS)
        if not (isinstance(self.neighbours, str) and self.neighbours == "auto"):
            self._check_counts("neighbours", optional=True)

    def _points(self, data: Float32) -> Float:
        """The rows in the metric's coordinates."""
        if self.metric_ is None or self.adapts_inputs:
            return data.astype(np.float64)
        points = np.empty((len(data), self.metric_.project(data[:1]).shape[1]))
        for first in range(0, len(data), PROJECTED):
            points[first : first + PROJECTED] = self.metric_.project(
                data[first : first + PROJECTED]
            )
        spread = float((data.max(axis=0).astype(np.float64) - data.min(axis=0)).max(initial=0.0))
        if spread > 0 and np.ptp(points, axis=0).max(initial=0.0) <= 1e-9 * spread:
            raise ValueError(
                "metric puts all people at distance 0, although they differ: everything is in its "
                "subspace."
            )
        return points


class _Side:
    """Rows that train and rows that are held out: matrices and adversaries of all trainings on
    them.
    """

    def __init__(
        self,
        model: BudroClassifier,
        everybody: TreeRows,
        points: Float,
        kept: Int | slice,
        held: Int,
    ) -> None:
        # imported here: its compiled kernels are needed neither to check a job nor to predict
        from evenhand.fairlib.transport.dual import DualSolver

        people = everybody.of(kept)
        self.held = held
        self.codes = people.codes
        n = len(self.codes)
        classes = len(model.classes_)
        self.jobs = thread_count(model.n_jobs, n)
        problem = TransportProblem(
            points[kept], self.codes, model.perturbation_budget_, people.weights
        )
        neighbours = model.neighbours
        if neighbours == "auto":
            neighbours = NEIGHBOURS if problem.n_places in LISTED else None
        self.solver = DualSolver(
            problem, seed=model._seed_number(), jobs=self.jobs, neighbours=neighbours
        )
        self.class_weights = model._class_weights(self.codes, people.weights)
        self.parameters = model._booster_parameters(self.codes, people.weights, self.class_weights)
        self.parameters["nthread"] = self.jobs
        # with two classes XGBoost weighs the label itself
        self.importance = self.class_weights if classes > 2 else np.ones(classes)
        # (classes, n): where nobody is moved
        self.plain = np.zeros((classes, n))
        self.plain[self.codes, np.arange(n)] = problem.mass / n
        # one matrix: its bins and cached margins stay, only its weights change
        under_every_label = replace(
            people,
            data=np.concatenate([people.data] * classes),
            codes=np.repeat(np.arange(classes), n),
            weights=self.plain.ravel(),
        )
        self.support = under_every_label.matrix(self.jobs)
        del under_every_label
        self.validation: _Validation | None = None
        self.solvers = {"training": self.solver}
        if len(held):
            self.validation = _Validation(
                model, everybody.of(held), points[held], self.class_weights
            )
            self.solvers |= self.validation.solvers

    def weigh(self, distribution: Float) -> None:
        """Give the rows under every label their weights.

        Parameters
        ----------
        distribution : ndarray of float, shape (classes, n)
            The worst-case distribution. With more than two classes it is multiplied by the class
            weights.
        """
        self.support.set_weight((distribution * self.importance[:, None]).ravel())


class _Training:
    """Booster and history of one training, step by step; the trainings of one side follow one
    another.
    """

    def __init__(self, model: BudroClassifier, side: _Side, growth: dict[str, Any]) -> None:
        import xgboost as xgb

        self.side = side
        self.growth = growth
        for solver in side.solvers.values():
            solver.begin()
        side.weigh(side.plain)
        self.parameters = side.parameters | growth
        self.booster = xgb.Booster(self.parameters, [side.support])
        self.booster.update(side.support, 0)
        self.step = 0
        self.history: dict[str, list[float]] = {}

    @property
    def best_step(self) -> int:
        """Fair steps in the best model: the first of equals; without validation the last."""
        scores = self.history.get("validation")
        if not scores:
            return self.step
        return int(np.argmax(scores)) + 1

    def advance(self) -> dict[str, float]:
        """One step of the adversary and one of boosting; the entries that they add to the
        history.
        """
        side = self.side
        losses = losses_of(self.booster, side.support, len(side.codes))
        plan = side.solver.solve(losses)
        side.weigh(plan.support)
        self.step += 1
        self.booster.update(side.support, self.step)
        progress = {
            "multiplier": plan.multiplier,
            "spent": plan.spent,
            "adversarial_loss": plan.value,
            "loss": plan.loss,
            "proven": plan.proven,
            "gap": plan.gap,
        }
        if side.validation is not None:
            progress["validation"] = side.validation.score(self.booster)
        for name, value in progress.items():
            self.history.setdefault(name, []).append(value)
        return progress

    def state(self) -> dict[str, Any]:
        """Everything that the next step builds on."""
        booster = np.frombuffer(bytes(self.booster.save_raw("ubj")), dtype=np.uint8)
        solvers = {name: solver.state() for name, solver in self.side.solvers.items()}
        return {"booster": booster, "step": self.step, "history": self.history, "solvers": solvers}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a loaded state.

        Parameters
        ----------
        state : dict
            As a checkpoint loads it.
        """
        import xgboost as xgb

        booster = bytearray(state["booster"].tobytes())
        self.booster = xgb.Booster(self.parameters, [self.side.support], model_file=booster)
        self.step = int(state["step"])
        self.history = {name: values.tolist() for name, values in state["history"].items()}
        for name, solver in self.side.solvers.items():
            solver.restore(state["solvers"][name])


@dataclass
class _Rounds:
    """The trainings of a fit, one round after another: their progress, and their checkpoints."""

    model: BudroClassifier
    total: int  # steps of all rounds
    callback: Callback | None
    checkpoint: str | Path | None
    checkpoint_parts: tuple[Any, ...]  # what a checkpoint depends on
    files: list[Checkpoint] = field(default_factory=list)

    def best_growth(
        self, sides: list[_Side], growths: list[dict[str, Any]], *, with_checkpoints: bool
    ) -> list[_Training]:
        """Train on every side with each growth of trees; return the trainings of the best one.

        Parameters
        ----------
        sides : list of _Side
            Of one fold each.
        growths : list of dict
            Parameters of trees to choose from.
        with_checkpoints : bool
            Whether each round has a checkpoint.

        Returns
        -------
        list of _Training
            One training a side.
        """
        n_steps = self.model.n_steps
        best: list[_Training] = []
        for number, growth in enumerate(growths):
            trainings = [_Training(self.model, side, growth) for side in sides]
            file = None
            if with_checkpoints:
                file = self._open_checkpoint(FILE if number == 0 else f"{FILE}-{number}")
            enough = self._run(trainings, file, steps=n_steps, done=number * n_steps)
            if not best or max(_mean_scores(trainings)) > max(_mean_scores(best)):
                best = trainings
            if enough:
                self.callback = None
                break
        return best

    def train_all(self, side: _Side, best: list[_Training]) -> _Training:
        """Train all rows with the growth and the number of steps that all folds chose together.

        Parameters
        ----------
        side : _Side
            All rows.
        best : list of _Training
            Trainings of the folds.

        Returns
        -------
        _Training
            Its history has the mean scores of the folds.
        """
        scores = _mean_scores(best)
        steps = int(np.argmax(scores)) + 1
        training = _Training(self.model, side, best[0].growth)
        file = self._open_checkpoint(FILE)
        self._run([training], file, steps=steps, done=self.total - self.model.n_steps)
        training.history["validation"] = scores[: training.step]
        return training

    def remove_checkpoints(self) -> None:
        """Remove the files of a fit that has ended."""
        for file in self.files:
            file.remove()

    def _open_checkpoint(self, name: str) -> Checkpoint:
        file = self.model._checkpoint(self.checkpoint, *self.checkpoint_parts, name=name)
        self.files.append(file)
        return file

    def _run(
        self, trainings: list[_Training], file: Checkpoint | None, *, steps: int, done: int
    ) -> bool:
        """Advance trainings together, from the checkpoint of the first; whether the callback ended
        them.
        """
        leader = trainings[0]
        state = None if file is None else file.load()
        if state is not None:
            leader.restore(state)
        enough = False
        while leader.step < steps and not enough and not self.model._is_over(trainings):
            started = time.perf_counter()
            progress = [training.advance() for training in trainings][0]
            progress["seconds"] = time.perf_counter() - started
            if self.callback is not None:
                enough = bool(self.callback(done + leader.step, self.total, progress))
            if file is not None and file.due():
                file.save(leader.state())
        follows = done + self.model.n_steps < self.total
        if file is not None and file.path is not None and follows:
            # another training follows: a resumed one need not repeat this
            file.save(leader.state())
        return enough


class _Validation:
    """Scores of the booster on held-out rows; higher is better."""

    def __init__(
        self, model: BudroClassifier, people: TreeRows, points: Float, importance: Float
    ) -> None:
        import xgboost as xgb

        from evenhand.fairlib.transport.dual import DualSolver

        self.matrix = xgb.DMatrix(people.data, **people.options)
        self.codes = people.codes
        self.weights = people.weights
        self.importance = importance
        self.metric = model.validation_metric
        self.solvers: dict[str, DualSolver] = {}
        if self.metric == "adversarial_loss":
            problem = TransportProblem(
                points, people.codes, model.perturbation_budget_, people.weights
            )
            self.solvers["validation"] = DualSolver(problem)

    def score(self, booster: xgb.Booster) -> float:
        """Score of the booster as it is now.

        Parameters
        ----------
        booster : xgboost.Booster

        Returns
        -------
        float
            Higher is better: minus the loss (nats) for ``log_loss`` and ``adversarial_loss``.
        """
        from sklearn.metrics import accuracy_score, balanced_accuracy_score

        if self.metric == "log_loss":
            margins = booster.predict(self.matrix, output_margin=True)
            losses = corrected_losses(margins, self.importance)
            of_labels = losses[self.codes, np.arange(len(self.codes))]
            return -float(np.average(of_labels, weights=self.weights))
        losses = losses_of(booster, self.matrix, len(self.codes))
        if self.solvers:
            return -self.solvers["validation"].solve(losses).value
        score = balanced_accuracy_score if self.metric == "balanced_accuracy" else accuracy_score
        return float(score(self.codes, losses.argmin(axis=0), sample_weight=self.weights))


def _filled(data: Float32) -> Float32:
    """Rows, shape (n, d), with the mean of its known values, or 0 without any, for each missing
    one.
    """
    missing = np.isnan(data)
    if not missing.any():
        return data
    total = np.where(missing, 0.0, data.astype(np.float64)).sum(axis=0)
    means = total / np.maximum((~missing).sum(axis=0), 1)
    return np.where(missing, means, data).astype(np.float32)


def _mean_scores(trainings: list[_Training]) -> list[float]:
    """Validation scores by step, weighted by the numbers of held-out rows; none without
    validation.
    """
    if trainings[0].side.validation is None:
        return []
    sizes = [len(training.side.held) for training in trainings]
    scores = [training.history.get("validation", []) for training in trainings]
    return [float(np.average(step, weights=sizes)) for step in zip(*scores, strict=True)]


def _predictions(trainings: list[_Training], steps: int) -> Validation:
    """Probabilities of the held-out rows after some steps, in the order of the rows."""
    rows = np.concatenate([training.side.held for training in trainings])
    margins = []
    for training in trainings:
        validation = training.side.validation
        if validation is not None:
            booster = training.booster[: steps + 1]
            margins.append(booster.predict(validation.matrix, output_margin=True))
    order = np.argsort(rows)
    return validation_of(rows[order], np.concatenate(margins)[order])


def losses_of(booster: xgb.Booster, matrix: xgb.DMatrix, n: int) -> Float:
    """Loss of some rows under every label.

    Parameters
    ----------
    booster : xgboost.Booster
    matrix : xgboost.DMatrix
    n : int
        The first n rows of the matrix.

    Returns
    -------
    ndarray of float, shape (classes, n)
        Losses (nats).
    """
    margin = booster.predict(matrix, output_margin=True)[:n]
    if margin.ndim == 1:
        return logistic_losses(margin)
    return softmax_losses(margin)
