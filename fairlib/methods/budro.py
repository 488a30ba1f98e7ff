"""BuDRO: gradient boosting on the worst-case distribution within a fair-metric budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.distances.metric_base import Metric, fitted_metric, mean_squared_distance
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
from evenhand.fairlib.transport.problem import TransportProblem
from evenhand.fairlib.tuning.space import Real, Space

if TYPE_CHECKING:
    import xgboost as xgb

    from evenhand.fairlib.transport.dual import DualSolver


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
class BudroClassifier(GBDTClassifier):
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
        None: Euclidean distance on X, which protects nothing in particular.
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
        """Train; arguments as in :class:`evenhand.fairlib.methods.method_base.Method`.

        ``sensitive_features`` are used only to fit a metric that is not fitted. The callback is
        called after every step, and gets its ``seconds`` too. A checkpoint holds no
        cross-validation, which starts anew. ValueError: a metric of another dimension or at which
        all people are at distance 0.
        """
        import xgboost as xgb

        data, codes, weights = self._checked_input(X, y, sample_weight)
        known = _filled(data)
        self.metric_ = self.metric
        if isinstance(self.metric, Metric):
            self.metric_ = fitted_metric(self.metric, known, sensitive_features)
        people, runs = self._tree_rows(data, codes, weights)
        points = self._points(known)
        self.perturbation_budget_ = (
            self.budget_share * mean_squared_distance(None, points)
            if self.perturbation_budget is None
            else float(self.perturbation_budget)
        )
        mark = None if checkpoint is None else fingerprint(points)
        parts = xgb.__version__, data, codes, mark, weights
        folds = [] if self.n_iter_no_change is None else self._folds(codes)
        everybody: tuple[Int | slice, Int] = slice(None), np.arange(0)
        parted: Sequence[tuple[Int | slice, Int]] = folds or [everybody]
        sides = [_Side(self, people, points, *fold) for fold in parted]
        if len(folds) < 2:
            # of a large table: twice the memory of its rows
            del points
        growths = self._growths(data)[0 if folds else -1 :]
        total = self.n_steps * (len(growths) + (len(folds) > 1))
        files = []
        best: tuple[list[_Training], int] | None = None
        for number, growth in enumerate(growths):
            trainings = [_Training(self, side, growth) for side in sides]
            if len(folds) < 2:
                name = FILE if number == 0 else f"{FILE}-{number}"
                files.append(self._checkpoint(checkpoint, *parts, name=name))
            done = number * self.n_steps
            enough = self._run(trainings, self.n_steps, done, total, callback, files[number:])
            if best is None or max(_mean_scores(trainings)) > max(_mean_scores(best[0])):
                best = trainings, number
            if enough:
                callback = None
                break
        assert best is not None
        training = best[0][0]
        self.validation_ = None
        if len(folds) > 1:
            # the growth and the number of steps are chosen by all folds together; then all rows
            # train
            scores = _mean_scores(best[0])
            steps = int(np.argmax(scores)) + 1
            training = _Training(self, _Side(self, people, points, *everybody), growths[best[1]])
            files.append(self._checkpoint(checkpoint, *parts))
            self._run([training], steps, total - self.n_steps, total, callback, files)
            training.history["validation"] = scores[: training.step]
        if folds:
            self.validation_ = _predictions(best[0], training.best_step)
        self.history_ = training.history
        self.best_step_ = training.best_step
        # and the plain step
        self.booster_ = between_values(training.booster[: self.best_step_ + 1], people.data, runs)
        self.booster_.set_attr(perturbation_budget=repr(self.perturbation_budget_))
        self.prior_shift_ = prior_shift(training.side.class_weights)
        for file in files:
            file.remove()
        return self

    def _run(
        self,
        trainings: list[_Training],
        steps: int,
        done: int,
        total: int,
        callback: Callback | None,
        files: list[Checkpoint],
    ) -> bool:
        """Advance trainings together, from the checkpoint of the first; whether the callback ended
        them.
        """
        found = files[0].load() if files else None
        enough = False
        if found is not None:
            trainings[0].restore(found)
        while trainings[0].step < steps and not enough and not self._is_over(trainings):
            started = time.perf_counter()
            progress, *_ = [training.advance() for training in trainings]
            progress["seconds"] = time.perf_counter() - started
            enough = callback is not None and bool(
                callback(done + trainings[0].step, total, progress)
            )
            if files and files[0].due():
                files[0].save(trainings[0].state())
        if files and files[0].path is not None and done + self.n_steps < total:
            # another training follows: a resumed one need not repeat this
            files[0].save(trainings[0].state())
        return enough

    def _is_over(self, trainings: list[_Training]) -> bool:
        """Whether too many steps were no better than the best."""
        scores = _mean_scores(trainings)
        return bool(scores) and len(scores) - 1 - int(np.argmax(scores)) >= (
            self.n_iter_no_change or 0
        )

    def _growths(self, rows: Float32) -> list[dict[str, Any]]:
        depths = DEPTHS if self.max_depth is None else (self.max_depth,)
        return [{"max_depth": depth} for depth in depths]

    def _read(self, folder: Path) -> None:
        super()._read(folder)
        budget = self.booster_.attr("perturbation_budget")
        if budget is not None:
            self.perturbation_budget_ = float(budget)

    def plain(self, n_rows: int) -> Method:
        """Plain boosting with the same trees and steps: the baseline of the adversary's effect.

        `n_rows` is the number of training rows: there every row weighs 1, here all weigh 1
        together.
        """
        plain: Method = super().plain(n_rows)
        if self.n_iter_no_change is None:
            # and the plain step
            plain.set_params(n_steps=self.n_steps + 1)
        return plain.set_params(  # type: ignore[no-any-return]
            reg_lambda=self.reg_lambda * n_rows, min_child_weight=self.min_child_weight * n_rows
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("[0, inf)", "budget_share")
        if self.n_iter_no_change is not None:
            self._check_choice("validation_metric", VALIDATION_METRICS)
        if self.neighbours != "auto":
            self._check_counts("neighbours", optional=True)

    def _points(self, data: Float32) -> Float:
        """The rows in the metric's coordinates."""
        if self.metric_ is None:
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
        self.codes = codes = people.codes
        seed = 0 if model.random_state is None else int(model.random_state)
        classes = len(model.classes_)
        self.jobs = thread_count(model.n_jobs, len(codes))
        problem = TransportProblem(points[kept], codes, model.perturbation_budget_, people.weights)
        neighbours = model.neighbours
        if neighbours == "auto":
            neighbours = NEIGHBOURS if problem.n_places in LISTED else None
        self.solver = DualSolver(problem, seed=seed, jobs=self.jobs, neighbours=neighbours)
        self.class_weights = weights = model._class_weights(codes, people.weights)
        self.parameters = model._booster_parameters(codes, people.weights, weights) | {
            "nthread": self.jobs
        }
        # with two classes XGBoost weighs the label itself
        self.importance = weights if classes > 2 else np.ones(classes)
        # (classes, n): where nobody is moved
        self.plain = np.zeros((classes, len(codes)))
        self.plain[codes, np.arange(len(codes))] = problem.mass / len(codes)
        # one matrix: its bins and cached margins stay, only its weights change
        self.support = replace(
            people,
            data=np.concatenate([people.data] * classes),
            codes=np.repeat(np.arange(classes), len(codes)),
            weights=self.plain.ravel(),
        ).matrix(self.jobs)
        self.validation: _Validation | None = None
        self.solvers = {"training": self.solver}
        if len(held):
            self.validation = _Validation(model, everybody.of(held), points[held], weights)
            self.solvers |= self.validation.solvers

    def weigh(self, distribution: Float) -> None:
        """Give the rows under every label their weights, shape (classes, n)."""
        self.support.set_weight((distribution * self.importance[:, None]).ravel())


class _Training:
    """Booster and history of one training, step by step; the trainings of one side follow one
    another.
    """

    def __init__(self, model: BudroClassifier, side: _Side, growth: dict[str, Any]) -> None:
        import xgboost as xgb

        self.side = side
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
        return int(np.argmax(scores)) + 1 if scores else self.step

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
        """Continue from a loaded state."""
        import xgboost as xgb

        booster = bytearray(state["booster"].tobytes())
        self.booster = xgb.Booster(self.parameters, [self.side.support], model_file=booster)
        self.step = int(state["step"])
        self.history = {name: values.tolist() for name, values in state["history"].items()}
        for name, solver in self.side.solvers.items():
            solver.restore(state["solvers"][name])


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
        """Score of the booster as it is now."""
        from sklearn.metrics import accuracy_score, balanced_accuracy_score

        if self.metric == "log_loss":
            margins = booster.predict(self.matrix, output_margin=True)
            losses = corrected_losses(margins, self.importance)
            right = losses[self.codes, np.arange(len(self.codes))]
            return -float(np.average(right, weights=self.weights))
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
    margins = [
        training.booster[: steps + 1].predict(training.side.validation.matrix, output_margin=True)
        for training in trainings
        if training.side.validation is not None
    ]
    order = np.argsort(rows)
    return validation_of(rows[order], np.concatenate(margins)[order])


def losses_of(booster: xgb.Booster, matrix: xgb.DMatrix, n: int) -> Float:
    """Loss (nats) of the first n rows under every label, shape (classes, n)."""
    margin = booster.predict(matrix, output_margin=True)[:n]
    return logistic_losses(margin) if margin.ndim == 1 else softmax_losses(margin)
