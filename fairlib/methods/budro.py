"""BuDRO: gradient boosting on the worst-case distribution within a fair-metric budget."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
import xgboost as xgb
from numpy.typing import ArrayLike, NDArray

from fairlib.methods.base import Callback
from fairlib.methods.gbdt import BoosterMethod, without_cache
from fairlib.numerics import logistic_losses
from fairlib.randomness import derive_seed
from fairlib.transport.dual import solve_dual
from fairlib.transport.problem import TransportProblem

__all__ = ["BudroClassifier"]

SMALL_TABLE = 2500


class _Projects(Protocol):
    """A fair metric that is Euclidean after a projection."""

    def project(self, X: ArrayLike) -> NDArray[np.float64]: ...


class BudroClassifier(BoosterMethod):
    r"""
    Individually fair gradient boosted trees (Vargo et al. 2021, Algorithm 3).

    Boosting descends the loss under an adversary that may treat each person as a comparable other:

    .. math::
        \min_f \; \sup_{P: W_D(P, P_n) \le \epsilon} E_P[\ell(f(x), y)], \qquad
        c((x_1, y), (x_2, y)) = d_x^2(x_1, x_2)

    :math:`f_0` is one plain boosting step. Each later step finds the worst-case distribution for the current
    model by optimal transport (:func:`fairlib.transport.dual.solve_dual`) and boosts once on the doubled
    support :math:`\{(x_i, 0), (x_i, 1)\}` with the weights :math:`(\Pi y_0, \Pi y_1)`.

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
        Weight label 1 by n0 / n1 of the training labels.
    random_state : int or None
        Breaks ties between equally bad transports.
    n_jobs : int or None
        Threads; None for all, or one on a table below 2,500 rows, where more are slower. Negative counts from
        all, as in scikit-learn: -1 is all of them.

    Attributes
    ----------
    history_ : dict of str to list of float
        Per fair step: ``multiplier`` (:math:`\eta^*`), ``spent`` (mean squared distance),
        ``adversarial_loss`` and ``loss`` (nats).
    """

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
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        callback: Callback | None = None,
    ) -> BudroClassifier:
        """
        Train.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
            Two distinct values.
        sensitive_features : ignored
            What is sensitive is in the metric.
        callback : callable or None
            Called after every step with (step, steps, progress); progress holds the last entries of
            ``history_``.

        Raises
        ------
        ValueError
            A negative or non-finite budget, fewer than one step, a metric of another dimension.
        """
        data, codes = self._check_training(X, y)
        if self.n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {self.n_steps!r}.")
        projected = data if self.metric is None else self.metric.project(data)
        points = np.asarray(projected, dtype=np.float64)
        problem = TransportProblem(points, codes, float(self.perturbation_budget))
        n = problem.n
        seed = 0 if self.random_state is None else int(self.random_state)
        jobs = _threads(self.n_jobs, n)

        plain = np.zeros((2, n))
        plain[codes, np.arange(n)] = 1.0 / n
        # one matrix for the whole run: its bins and cached margins stay, only its weights change
        support = xgb.QuantileDMatrix(
            np.concatenate([data, data]),
            label=np.repeat([0.0, 1.0], n),
            weight=plain.ravel(),
            nthread=jobs,
        )
        booster = xgb.Booster({**self._booster_parameters(codes), "nthread": jobs}, [support])
        booster.update(support, 0)
        self.history_: dict[str, list[float]] = {
            name: [] for name in ("multiplier", "spent", "adversarial_loss", "loss")
        }
        multiplier: float | None = None
        for step in range(self.n_steps):
            losses = logistic_losses(booster.predict(support, output_margin=True)[:n])
            plan = solve_dual(
                problem, losses, seed=derive_seed(seed, "ties", str(step)), start=multiplier, jobs=jobs
            )
            multiplier = plan.multiplier or None
            support.set_weight(plan.weights(2).ravel())
            booster.update(support, step + 1)
            progress = {
                "multiplier": plan.multiplier,
                "spent": plan.spent,
                "adversarial_loss": plan.value,
                "loss": float(losses[codes, np.arange(n)].mean()),
            }
            for name, value in progress.items():
                self.history_[name].append(value)
            if callback is not None:
                callback(step + 1, self.n_steps, progress)
        self.booster_ = without_cache(booster)
        return self


def _threads(n_jobs: int | None, n: int) -> int:
    """Threads for transport and trees: on small tables starting them costs more than they save."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is not None and n_jobs < 0:
        return max(1, available + 1 + n_jobs)
    return n_jobs or (1 if n < SMALL_TABLE else available)
