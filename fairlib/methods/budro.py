"""BuDRO: gradient boosting on the worst-case distribution within a fair-metric budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
import xgboost as xgb
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.model_selection import train_test_split

from evenhand.fairlib.cores import available_cores
from evenhand.fairlib.methods.base import Callback, Float32, Float64
from evenhand.fairlib.methods.checkpoint import Checkpoint, fingerprint
from evenhand.fairlib.methods.gbdt import BoosterMethod, GBDTClassifier, without_cache
from evenhand.fairlib.numerics import logistic_losses, softmax_losses
from evenhand.fairlib.randomness import derive_seed
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem
from evenhand.fairlib.transport.solvers import Solver, SolverName, make_solver

__all__ = ["VALIDATION_METRICS", "BudroClassifier"]

Int = NDArray[np.int64]

SMALL_TABLE = 2500
ValidationMetric = Literal["balanced_accuracy", "accuracy", "log_loss", "adversarial_loss"]
VALIDATION_METRICS: tuple[str, ...] = get_args(ValidationMetric)
HISTORY = ("multiplier", "spent", "adversarial_loss", "loss", "proven")


class _Projects(Protocol):
    """A fair metric that is Euclidean after a projection."""

    def project(self, X: ArrayLike) -> NDArray[np.float64]: ...


class BudroClassifier(BoosterMethod):
    r"""
    Individually fair gradient boosted trees (Vargo et al. 2021, Algorithm 3), for any number of classes.

    Boosting descends the loss under an adversary that may treat each person as a comparable other:

    .. math::
        \min_f \; \sup_{P: W_D(P, P_n) \le \epsilon} E_P[\ell(f(x), y)], \qquad
        c((x_1, y), (x_2, y)) = d_x^2(x_1, x_2)

    :math:`f_0` is one plain boosting step. Each later step finds the worst-case distribution for the current
    model by optimal transport (:mod:`evenhand.fairlib.transport`) and boosts once on the support
    :math:`\{(x_i, k)\}` of every row under every label with the weights :math:`\Pi y_k`.

    Parameters
    ----------
    metric : fitted fair metric or None
        Anything with ``project``. None: Euclidean distance on X, which protects nothing in particular.
    perturbation_budget : float
        :math:`\epsilon`, mean squared fair distance that the adversary may move people. 0 leaves it only
        moves between people at distance 0.
    n_steps : int
        Fair boosting steps T, after the plain one.
    max_depth, eta, reg_lambda
        As XGBoost names them.
    min_child_weight : float
        Least sum of hessians in a child, in units in which all rows together weigh 1, as in the paper's
        tables.
    balance_classes : bool
        Weight label 1 by n0 / n1 of the training labels; with more classes, label k by n / (K n_k).
    scale_pos_weight : float or None
        As XGBoost names it: weight of label 1, instead of what `balance_classes` gives. Two classes only.
    solver : str
        Of the transport problem: ``dual`` (exact), ``entropic``, ``dual-sgd``, ``entropic-sgd`` or ``lp``.
    neighbours : int or None
        With ``dual``: let people be treated only as one at that many nearest distinct points, their own
        included, so that a step costs O(n * neighbours); ``history_["proven"]`` is the share for whom nobody
        else would have been worse.
    entropy : float or None
        With the entropic solvers: :math:`\gamma` (nats). None: one percent of the range of the losses.
    n_iter_no_change : int or None
        Stop after that many steps without a better validation metric, and keep the best step's model. None
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

    multiclass = True

    def __init__(
        self,
        metric: _Projects | None = None,
        *,
        perturbation_budget: float = 1.0,
        n_steps: int = 100,
        max_depth: int = 4,
        eta: float = 0.005,
        reg_lambda: float = 1.0,
        min_child_weight: float = 0.0125,
        balance_classes: bool = True,
        scale_pos_weight: float | None = None,
        solver: SolverName = "dual",
        neighbours: int | None = None,
        entropy: float | None = None,
        n_iter_no_change: int | None = None,
        validation_fraction: float = 0.1,
        validation_metric: ValidationMetric = "balanced_accuracy",
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.perturbation_budget = perturbation_budget
        self.n_steps = n_steps
        self.max_depth = max_depth
        self.eta = eta
        self.reg_lambda = reg_lambda
        self.min_child_weight = min_child_weight
        self.balance_classes = balance_classes
        self.scale_pos_weight = scale_pos_weight
        self.solver = solver
        self.neighbours = neighbours
        self.entropy = entropy
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.validation_metric = validation_metric
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> BudroClassifier:
        """
        Train.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
            At least two distinct values.
        sensitive_features : ignored
            What is sensitive is in the metric.
        callback : callable or None
            Called after every step with (step, steps, progress); progress holds the last entries of
            ``history_``, and the step's ``seconds``.
        checkpoint : path or None
            Folder of a file from which a later call with the same data and parameters goes on, to the same
            model, bit for bit. It is removed at the end.

        Raises
        ------
        ValueError
            A negative or non-finite budget, fewer than one step, a metric of another dimension or at which
            all people are at distance 0, an unknown solver or validation metric, or an option of another
            solver.
        """
        data, codes = self._check_training(X, y)
        self._check_parameters()
        seed = 0 if self.random_state is None else int(self.random_state)
        points = self._points(data)
        validation: _Validation | None = None
        kept = np.arange(len(codes))
        if self.n_iter_no_change is not None:
            kept, held = _hold_out(codes, self.validation_fraction, derive_seed(seed, "validation"))
            validation = _Validation(self, data[held], points[held], codes[held])
        jobs = _threads(self.n_jobs, len(kept))
        training = _Training(self, data[kept], points[kept], codes[kept], len(self.classes_), seed, jobs)
        stored = Checkpoint(checkpoint, fingerprint(self._described(), data, codes, points))
        arrays = stored.load()
        if arrays is not None:
            training.restore(arrays)
            if validation is not None:
                validation.restore(arrays)
        while training.step < self.n_steps and not (validation and validation.is_over(self.n_iter_no_change)):
            started = time.perf_counter()
            progress = training.advance()
            if validation is not None:
                validation.add(training.booster)
                progress["validation"] = validation.scores[-1]
            if callback is not None:
                callback(training.step, self.n_steps, {**progress, "seconds": time.perf_counter() - started})
            if stored.due():
                stored.save({**training.state(), **(validation.state() if validation else {})})
        self.history_ = training.history
        booster = training.booster
        self.best_step_ = training.step
        if validation is not None:
            self.history_["validation"] = validation.scores
            self.best_step_ = validation.best + 1
            booster = booster[: self.best_step_ + 1]  # and the plain step
        self.booster_ = without_cache(booster)
        stored.remove()
        return self

    def without_adversary(self, n_rows: int) -> GBDTClassifier:
        """
        Plain boosting with the same trees and steps, for two classes: what the adversary is measured against.

        Parameters
        ----------
        n_rows : int
            Training rows: there every row weighs 1, here all weigh 1 together.
        """
        return GBDTClassifier(
            n_steps=self.n_steps + 1,
            max_depth=self.max_depth,
            eta=self.eta,
            reg_lambda=self.reg_lambda * n_rows,
            min_child_weight=self.min_child_weight * n_rows,
            balance_classes=self.balance_classes,
            scale_pos_weight=self.scale_pos_weight,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def _check_parameters(self) -> None:
        if self.n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {self.n_steps!r}.")
        if self.n_iter_no_change is None:
            return
        if self.n_iter_no_change < 1:
            raise ValueError(f"n_iter_no_change must be at least 1, got {self.n_iter_no_change!r}.")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction must be between 0 and 1, got {self.validation_fraction!r}."
            )
        if self.validation_metric not in VALIDATION_METRICS:
            raise ValueError(
                f"validation_metric must be one of {', '.join(VALIDATION_METRICS)}, "
                f"got {self.validation_metric!r}."
            )

    def _points(self, data: Float32) -> Float64:
        """The rows as the metric sees them."""
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

    def _described(self) -> list[Any]:
        """What the training depends on beside the data; threads and the metric object are not."""
        parameters = self.get_params(deep=False)
        named = sorted(set(parameters) - {"metric", "n_jobs"})
        return [xgb.__version__, *((name, parameters[name]) for name in named)]


class _Training:
    """Booster, adversary and history of one training, step by step."""

    def __init__(
        self,
        model: BudroClassifier,
        data: Float32,
        points: Float64,
        codes: Int,
        classes: int,
        seed: int,
        jobs: int,
    ) -> None:
        self.codes = codes
        self.rows = np.arange(len(codes))
        self.classes = classes
        problem = TransportProblem(points, codes, float(model.perturbation_budget))
        self.solver: Solver = make_solver(
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
        # one matrix for the whole run: its bins and cached margins stay, only its weights change
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

    def _weigh(self, distribution: Float64) -> None:
        self.support.set_weight((distribution * self.importance[:, None]).ravel())

    def advance(self) -> dict[str, float]:
        """One step of the adversary and one of boosting; gives what the history records of it."""
        losses = losses_of(self.booster, self.support, len(self.codes))
        plan: TransportPlan = self.solver.solve(losses)
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
        for name, value in progress.items():
            self.history[name].append(value)
        return progress

    def state(self) -> dict[str, Any]:
        """Everything that the next step builds on, as plain arrays."""
        return {
            "booster": np.frombuffer(bytes(self.booster.save_raw("ubj")), dtype=np.uint8),
            "step": self.step,
            **{f"history.{name}": np.array(values) for name, values in self.history.items()},
            **{f"solver.{name}": value for name, value in self.solver.state().items()},
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self.booster = xgb.Booster(
            self.parameters, [self.support], model_file=bytearray(arrays["booster"].tobytes())
        )
        self.step = int(arrays["step"])
        self.history = {name: arrays[f"history.{name}"].tolist() for name in HISTORY}
        self.solver.restore(_under("solver.", arrays))


class _Validation:
    """Scores of every step on held-out rows; higher is better."""

    def __init__(self, model: BudroClassifier, data: Float32, points: Float64, codes: Int) -> None:
        self.matrix = xgb.DMatrix(data)
        self.codes = codes
        self.scores: list[float] = []
        self.metric = model.validation_metric
        self.solver: Solver | None = None
        if self.metric == "adversarial_loss":
            problem = TransportProblem(points, codes, float(model.perturbation_budget))
            self.solver = make_solver("dual", problem)

    @property
    def best(self) -> int:
        """Position of the best score, the first of equals."""
        return int(np.argmax(self.scores))

    def is_over(self, patience: int | None) -> bool:
        """Whether too many steps brought nothing better."""
        return patience is not None and bool(self.scores) and len(self.scores) - self.best > patience

    def add(self, booster: xgb.Booster) -> None:
        """Score the booster as it is now."""
        losses = losses_of(booster, self.matrix, len(self.codes))
        predicted = losses.argmin(axis=0)
        scores: dict[str, Callable[[], float]] = {
            "balanced_accuracy": lambda: float(balanced_accuracy_score(self.codes, predicted)),
            "accuracy": lambda: float(accuracy_score(self.codes, predicted)),
            "log_loss": lambda: -float(losses[self.codes, np.arange(len(self.codes))].mean()),
            "adversarial_loss": lambda: -self.solver.solve(losses).value if self.solver else 0.0,
        }
        self.scores.append(scores[self.metric]())

    def state(self) -> dict[str, Any]:
        """Everything that the next score builds on, as plain arrays."""
        solver = self.solver.state() if self.solver else {}
        return {"validation": np.array(self.scores)} | {
            f"validation.{name}": value for name, value in solver.items()
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self.scores = arrays["validation"].tolist()
        if self.solver:
            self.solver.restore(_under("validation.", arrays))


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}


def losses_of(booster: xgb.Booster, matrix: xgb.DMatrix, n: int) -> Float64:
    """Loss (nats) of the first n rows under every label, shape (classes, n)."""
    margin = booster.predict(matrix, output_margin=True)[:n]
    return logistic_losses(margin) if margin.ndim == 1 else softmax_losses(margin)


def _hold_out(codes: Int, fraction: float, seed: int) -> tuple[Int, Int]:
    try:
        kept, held = train_test_split(
            np.arange(len(codes)), test_size=fraction, random_state=seed, stratify=codes
        )
    except ValueError:
        raise ValueError(
            f"validation_fraction {fraction!r} of {len(codes)} rows cannot hold every class on both sides."
        ) from None
    return np.sort(kept), np.sort(held)


def _threads(n_jobs: int | None, n: int) -> int:
    """Threads for transport and trees: on small tables starting them costs more than they save."""
    available = available_cores()
    if n_jobs is not None and n_jobs < 0:
        return max(1, available + 1 + n_jobs)
    return n_jobs or (1 if n < SMALL_TABLE else available)
