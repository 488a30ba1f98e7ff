"""BuDRO: gradient boosting on the worst-case distribution within a fair-metric budget."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.execution import available_cores
from evenhand.fairlib.methods.base import (
    Callback,
    Float32,
    Float64,
    Method,
    check_choice,
    check_counts,
    check_interval,
)
from evenhand.fairlib.methods.checkpoint import Checkpoint, fingerprint
from evenhand.fairlib.methods.gbdt import GBDTClassifier, without_cache
from evenhand.fairlib.methods.groups import hold_out
from evenhand.fairlib.numerics import logistic_losses, softmax_losses
from evenhand.fairlib.transport.problem import Solver, SolverName, TransportProblem, make_solver

if TYPE_CHECKING:
    import xgboost as xgb

Int = NDArray[np.int64]

SMALL_TABLE = 2500
ValidationMetric = Literal["balanced_accuracy", "accuracy", "log_loss", "adversarial_loss"]
VALIDATION_METRICS: tuple[str, ...] = get_args(ValidationMetric)
HISTORY = ("multiplier", "spent", "adversarial_loss", "loss", "proven")


@dataclass(kw_only=True, repr=False, eq=False)
class BudroClassifier(GBDTClassifier):
    r"""
    Individually fair gradient boosted trees (Vargo et al. 2021, Algorithm 3), for any number of classes.

    Boosting minimises the loss under an adversary that may treat each person as a comparable other (2.5):

    .. math::
        \min_f \; \sup_{P: W_D(P, P_n) \le \epsilon} E_P[\ell(f(x), y)], \qquad
        c((x_1, y), (x_2, y)) = d_x^2(x_1, x_2)

    :math:`f_0` is one plain boosting step. Each later step finds the worst-case distribution for the current
    model by optimal transport (:mod:`evenhand.fairlib.transport`) and boosts once on the support
    :math:`\{(x_i, k)\}` of every row under every label with the weights :math:`\Pi y_k`.

    Parameters
    ----------
    metric : fitted fair metric or None
        Any object with ``project``. None: Euclidean distance on X, which protects nothing in particular.
    perturbation_budget : float
        :math:`\epsilon`, mean squared fair distance that the adversary may move people. At 0 it moves people
        only between rows at distance 0.
    n_steps : int
        Fair boosting steps T, after the plain one.
    min_child_weight : float
        Least sum of hessians in a child, in units in which all rows together weigh 1, as in the paper's
        tables.
    balance_classes : bool
        Weight label 1 by n0 / n1 of the training labels; with more classes, label k by n / (K n_k).
    solver : str
        Of the transport problem: ``dual`` (exact), ``entropic``, ``dual-sgd``, ``entropic-sgd`` or ``lp``.
    neighbours : int or None
        With ``dual``: each person may be treated only as one of this many nearest distinct points, the own
        one included, so that a step costs O(n * neighbours); ``history_["proven"]`` is the share of people
        for whom no other row is worse.
    entropy : float or None
        With the entropic solvers: :math:`\gamma` (nats). None: one percent of the range of the losses.
    n_iter_no_change : int or None
        Stop after this many steps without a better validation metric, and keep the best step's model. None
        takes all steps on all rows.
    validation_fraction : float
        Share of the rows held out for it, stratified by label.
    validation_metric : str
        ``balanced_accuracy``, ``accuracy``, ``log_loss`` or ``adversarial_loss`` (the worst-case loss among
        the held-out rows, at the same budget).
    random_state : int or None
        Breaks ties between equally bad transports, and draws the held-out rows.
    n_jobs : int or None
        Threads; None for all, or one on a table below 2,500 rows, where more are slower. Negative counts from
        all, as in scikit-learn: -1 is all of them.

    Attributes
    ----------
    history_ : dict of str to list of float
        Per fair step: ``multiplier`` (:math:`\eta^*`), ``spent`` (mean squared distance),
        ``adversarial_loss`` and ``loss`` (nats), ``proven`` (share of people), and with early stopping
        ``validation``.
    best_step_ : int
        Fair steps in the model: fewer than were taken if it stopped early.
    """

    multiclass: ClassVar[bool] = True

    metric: Metric | None = field(default=None, kw_only=False)
    perturbation_budget: float = 1.0
    max_depth: int = 4
    eta: float = 0.005
    min_child_weight: float = 0.0125
    solver: SolverName = "dual"
    neighbours: int | None = None
    entropy: float | None = None
    n_iter_no_change: int | None = None
    validation_fraction: float = 0.1
    validation_metric: ValidationMetric = "balanced_accuracy"

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """
        Train; arguments as in :class:`evenhand.fairlib.methods.base.Method`.

        ``sensitive_features`` are ignored: the metric defines the sensitive directions. The callback is
        called after every step, and gets its ``seconds`` too.

        Raises
        ------
        ValueError
            A metric of another dimension or at which all people are at distance 0, an unknown solver, or an
            option of another solver.
        """
        import xgboost as xgb

        data, codes = self._check_training(X, y)
        self._check_parameters()
        seed = 0 if self.random_state is None else int(self.random_state)
        points = self._points(data)
        kept, held = np.arange(len(codes)), np.arange(0)
        if self.n_iter_no_change is not None:
            try:
                kept, held = hold_out(codes, self.validation_fraction, seed)
            except ValueError:
                raise ValueError(
                    f"validation_fraction {self.validation_fraction!r} of {len(codes)} rows cannot hold "
                    "every class on both sides."
                ) from None
        training = _Training(self, data[kept], points[kept], codes[kept], seed)
        if len(held):
            training.validation = _Validation(self, data[held], points[held], codes[held])
        # the training depends on all parameters but the metric's object and the threads
        parameters = self.get_params(deep=False)
        named = [(name, parameters[name]) for name in sorted({*parameters} - {"metric", "n_jobs"})]
        stored = Checkpoint(checkpoint, fingerprint([xgb.__version__, *named], data, codes, points))
        arrays = stored.load()
        if arrays is not None:
            training.restore(arrays)
        while training.step < self.n_steps and not training.is_over(self.n_iter_no_change):
            started = time.perf_counter()
            progress = training.advance()
            if callback is not None:
                callback(training.step, self.n_steps, {**progress, "seconds": time.perf_counter() - started})
            if stored.due():
                stored.save(training.state())
        self.history_ = training.history
        self.best_step_ = training.best_step
        # and the plain step
        self.booster_ = without_cache(training.booster[: self.best_step_ + 1])
        stored.remove()
        return self

    def plain(self, n_rows: int) -> Method:
        """
        Plain boosting with the same trees and steps, for two classes: the baseline of the adversary's effect.

        Parameters
        ----------
        n_rows : int
            Training rows: there every row weighs 1, here all weigh 1 together.
        """
        plain: Method = (
            super()
            .plain(n_rows)
            .set_params(
                n_steps=self.n_steps + 1,
                reg_lambda=self.reg_lambda * n_rows,
                min_child_weight=self.min_child_weight * n_rows,
            )
        )
        return plain

    def _check_parameters(self) -> None:
        check_counts(self, "n_steps")
        check_counts(self, "n_iter_no_change", optional=True)
        if self.n_iter_no_change is not None:
            check_interval(self, "(0, 1)", "validation_fraction")
            check_choice(self, "validation_metric", VALIDATION_METRICS)

    def _points(self, data: Float32) -> Float64:
        """The rows in the metric's coordinates."""
        if self.metric is None:
            return data.astype(np.float64)
        basis = getattr(self.metric, "basis_", None)
        if basis is not None and basis.shape[1] == 0:
            raise ValueError(
                "metric has an empty subspace: it protects nothing. Give it a sensitive direction, or pass "
                "None for plain Euclidean distance."
            )
        points = np.asarray(self.metric.project(data), dtype=np.float64)
        spread = np.ptp(data.astype(np.float64), axis=0).max(initial=0.0)
        if spread > 0 and np.ptp(points, axis=0).max(initial=0.0) <= 1e-9 * spread:
            raise ValueError(
                "metric puts all people at distance 0, although they differ: everything is in its subspace."
            )
        return points


class _Training:
    """Booster, adversary, history and validation of one training, step by step."""

    def __init__(self, model: BudroClassifier, data: Float32, points: Float64, codes: Int, seed: int) -> None:
        import xgboost as xgb

        self.codes = codes
        self.rows = np.arange(len(codes))
        classes = len(model.classes_)
        jobs = _threads(model.n_jobs, len(codes))
        problem = TransportProblem(points, codes, float(model.perturbation_budget))
        self.solver = make_solver(
            model.solver, problem, seed=seed, jobs=jobs, neighbours=model.neighbours, entropy=model.entropy
        )
        self.parameters = {**model._booster_parameters(codes), "nthread": jobs}
        self.importance = np.ones(classes)
        if classes > 2:
            if model.scale_pos_weight is not None:
                raise ValueError("scale_pos_weight is for two classes: leave it None.")
            del self.parameters["scale_pos_weight"]
            self.parameters |= {"objective": "multi:softprob", "num_class": classes}
            if model.balance_classes:
                self.importance = len(codes) / (classes * np.bincount(codes, minlength=classes))
        plain = np.zeros((classes, len(codes)))
        plain[codes, self.rows] = 1.0 / len(codes)
        # one matrix for the whole training: its bins and cached margins stay, only its weights change
        self.support = xgb.QuantileDMatrix(
            np.concatenate([data] * classes),
            label=np.repeat(np.arange(classes, dtype=np.float64), len(codes)),
            weight=plain.ravel(),
            nthread=jobs,
        )
        self._weigh(plain)
        self.booster = xgb.Booster(self.parameters, [self.support])
        self.booster.update(self.support, 0)
        self.step = 0
        self.history: dict[str, list[float]] = {name: [] for name in HISTORY}
        self.validation: _Validation | None = None

    def _weigh(self, distribution: Float64) -> None:
        self.support.set_weight((distribution * self.importance[:, None]).ravel())

    def is_over(self, patience: int | None) -> bool:
        """Whether too many steps were no better than the best."""
        return patience is not None and self.step - self.best_step >= patience

    @property
    def best_step(self) -> int:
        """Fair steps in the best model: the first of equals; without validation the last."""
        scores = self.history.get("validation")
        return int(np.argmax(scores)) + 1 if scores else self.step

    def advance(self) -> dict[str, float]:
        """One step of the adversary and one of boosting; the entries that they add to the history."""
        losses = losses_of(self.booster, self.support, len(self.codes))
        plan = self.solver.solve(losses)
        self._weigh(plan.support)
        self.step += 1
        self.booster.update(self.support, self.step)
        progress = {
            "multiplier": plan.multiplier,
            "spent": plan.spent,
            "adversarial_loss": plan.value,
            "loss": float(losses[self.codes, self.rows].mean()),
            "proven": plan.proven,
        }
        if self.validation is not None:
            progress["validation"] = self.validation.score(self.booster)
        for name, value in progress.items():
            self.history.setdefault(name, []).append(value)
        return progress

    def state(self) -> dict[str, Any]:
        """Everything that the next step builds on, as plain arrays."""
        history = {f"history.{name}": np.array(self.history[name]) for name in HISTORY}
        booster = np.frombuffer(bytes(self.booster.save_raw("ubj")), dtype=np.uint8)
        state: dict[str, Any] = {"booster": booster, "step": self.step, **history}
        state |= self.solver.state("solver.")
        if self.validation is not None:
            state["validation"] = np.array(self.history["validation"])
            state |= self.validation.solver.state("validation.") if self.validation.solver else {}
        return state

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Continue from a state."""
        import xgboost as xgb

        self.booster = xgb.Booster(
            self.parameters, [self.support], model_file=bytearray(arrays["booster"].tobytes())
        )
        self.step = int(arrays["step"])
        self.history = {name: arrays[f"history.{name}"].tolist() for name in HISTORY}
        self.solver.restore(arrays, "solver.")
        if self.validation is not None:
            self.history["validation"] = arrays["validation"].tolist()
            if self.validation.solver is not None:
                self.validation.solver.restore(arrays, "validation.")


class _Validation:
    """Scores of the booster on held-out rows; higher is better."""

    def __init__(self, model: BudroClassifier, data: Float32, points: Float64, codes: Int) -> None:
        import xgboost as xgb

        self.matrix = xgb.DMatrix(data)
        self.codes = codes
        self.metric = model.validation_metric
        self.solver: Solver | None = None
        if self.metric == "adversarial_loss":
            problem = TransportProblem(points, codes, float(model.perturbation_budget))
            self.solver = make_solver("dual", problem)

    def score(self, booster: xgb.Booster) -> float:
        """Score of the booster as it is now."""
        from sklearn.metrics import accuracy_score, balanced_accuracy_score

        losses = losses_of(booster, self.matrix, len(self.codes))
        if self.solver is not None:
            return -self.solver.solve(losses).value
        if self.metric == "log_loss":
            return -float(losses[self.codes, np.arange(len(self.codes))].mean())
        score = balanced_accuracy_score if self.metric == "balanced_accuracy" else accuracy_score
        return float(score(self.codes, losses.argmin(axis=0)))


def losses_of(booster: xgb.Booster, matrix: xgb.DMatrix, n: int) -> Float64:
    """Loss (nats) of the first n rows under every label, shape (classes, n)."""
    margin = booster.predict(matrix, output_margin=True)[:n]
    return logistic_losses(margin) if margin.ndim == 1 else softmax_losses(margin)


def _threads(n_jobs: int | None, n: int) -> int:
    """Threads for transport and trees: on a small table starting them takes longer than they save."""
    available = available_cores()
    if n_jobs is not None and n_jobs < 0:
        return max(1, available + 1 + n_jobs)
    return n_jobs or (1 if n < SMALL_TABLE else available)
