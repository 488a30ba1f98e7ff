"""Exponentiated gradient: a weighted vote of logistic regressions that meets a constraint on
groups.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.methods.comparators.comparator_base import (
    Arrays,
    GroupComparator,
    optional_import,
    repeated_rows,
)
from evenhand.fairlib.methods.comparators.logistic import Linear, logistic_regression
from evenhand.fairlib.methods.method_base import Callback
from evenhand.fairlib.methods.row_groups import Groups, check_labels
from evenhand.fairlib.tuning.space import Choice, Real, Space

Constraint = Literal[
    "demographic_parity",
    "equalized_odds",
    "true_positive_rate_parity",
    "false_positive_rate_parity",
    "error_rate_parity",
]
BY_LABEL = ("equalized_odds", "true_positive_rate_parity", "false_positive_rate_parity")
SOLVER_STEPS = 1000


@dataclass(kw_only=True, eq=False, repr=False)
class ExponentiatedGradientClassifier(GroupComparator):
    """Fairlearn's ExponentiatedGradient (Agarwal et al. 2018, algorithm 1) over logistic
    regressions.

    The result is a randomised classifier: a few regressions, each with the probability that it
    decides. ``predict_proba`` is the expected value of its label, the weighted vote. ``predict``
    takes the likelier label: it is deterministic, and the constraint then holds only nearly.

    Parameters
    ----------
    constraint : str
        ``demographic_parity``, ``equalized_odds``, ``true_positive_rate_parity``,
        ``false_positive_rate_parity`` or ``error_rate_parity``.
    eps : float
        Largest difference of a group's rate from that of everybody, also the inverse of the
        multipliers' bound.
    max_iter : int
        Iterations of the reduction, each of several regressions.
    C : float
        Inverse of the penalty's strength.
    random_state : int or None
        Without effect: nothing is drawn.

    Attributes
    ----------
    weights_ : ndarray of float64, shape (m,)
        Probability that each regression decides; those with 0 are dropped.
    votes_ : list of Linear
    n_iter_ : int
        Iterations of the reduction.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 100)
    >>> merit = rng.normal(size=200)
    >>> X = np.column_stack([sex, merit + sex])
    >>> y = (merit + rng.normal(scale=0.3, size=200) > 0).astype(int)
    >>> model = ExponentiatedGradientClassifier(constraint="demographic_parity", max_iter=10)
    >>> model = model.fit(X, y, sensitive_features={"sex": sex})
    >>> rates = [model.predict(X)[sex == group].mean() for group in (0, 1)]
    >>> bool(abs(rates[0] - rates[1]) < 0.1)
    True
    """

    space: ClassVar[Space] = {
        "constraint": Choice(("demographic_parity", "equalized_odds", "true_positive_rate_parity")),
        "eps": Real(0.001, 0.2, log=True),
    }

    constraint: Constraint = "demographic_parity"
    eps: float = 0.01
    max_iter: int = 50
    C: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("constraint", get_args(Constraint))
        self._check_interval("(0, 1]", "eps")
        self._check_counts("max_iter")
        self._check_interval("(0, inf)", "C")

    def _learn(
        self, data: Float32, codes: Int, groups: Groups, weights: Float | None, callback: Callback
    ) -> None:
        if self.constraint in BY_LABEL:
            check_labels(groups, codes)
        with optional_import(type(self)):
            from fairlearn import reductions
        # Fairlearn's class for demographic_parity is DemographicParity, and so on
        moment = getattr(reductions, self.constraint.title().replace("_", ""))
        reduction = reductions.ExponentiatedGradient(
            logistic_regression(data.shape[1], self.C, SOLVER_STEPS),
            moment(difference_bound=self.eps),
            eps=self.eps,
            max_iter=self.max_iter,
        )
        with warnings.catch_warnings():
            # of how the library writes to pandas tables
            warnings.simplefilter("ignore", DeprecationWarning)
            rows = repeated_rows(weights, np.arange(len(codes)))
            reduction.fit(
                data[rows].astype(np.float64), codes[rows], sensitive_features=groups.codes[rows]
            )
        shares = reduction.weights_.sort_index()
        used_predictors = shares.index[shares > 0]
        self.weights_ = shares[used_predictors].to_numpy(np.float64)
        self.votes_ = [
            _linear(reduction.predictors_[index], data.shape[1]) for index in used_predictors
        ]
        self.n_iter_ = reduction.last_iter_ + 1
        callback(1, 1, {})

    def _positive_probability(self, X: Float32) -> Float:
        votes = np.stack([vote.logits(X) > 0 for vote in self.votes_], axis=1)
        # the weights of a linear program may add up to a little more than 1
        return np.clip((votes * self.weights_).sum(axis=1), 0.0, 1.0)

    def _arrays(self) -> Arrays:
        return {
            "weights": self.weights_,
            "coefficients": np.stack([vote.coefficients for vote in self.votes_]),
            "intercepts": np.array([vote.intercept for vote in self.votes_]),
            "n_iter": np.array([self.n_iter_]),
        }

    def _restore(self, arrays: Arrays) -> None:
        self.weights_ = arrays["weights"]
        self.n_iter_ = int(arrays["n_iter"][0])
        self.votes_ = [
            Linear(coefficients, float(intercept))
            for coefficients, intercept in zip(
                arrays["coefficients"], arrays["intercepts"], strict=True
            )
        ]


def _linear(predictor: Any, n_columns: int) -> Linear:
    """A predictor's decision as a linear one; where the weighted labels were all alike it is
    constant.
    """
    if hasattr(predictor, "coef_"):
        return Linear(predictor.coef_[0], float(predictor.intercept_[0]))
    return Linear(np.zeros(n_columns), 1.0 if predictor.constant == 1 else -1.0)
