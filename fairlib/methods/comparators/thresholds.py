"""Thresholds per group, which equalise a rate of the groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.methods.base import Callback
from evenhand.fairlib.methods.comparators.base import (
    Arrays,
    Codes,
    no_callback,
    optional_import,
    repeated_rows,
)
from evenhand.fairlib.methods.comparators.logistic import GroupLogistic
from evenhand.fairlib.methods.groups import GroupReader, Groups, check_labels, set_aside
from evenhand.fairlib.parameters import check_sample_weight

Constraint = Literal[
    "demographic_parity",
    "equalized_odds",
    "true_positive_rate_parity",
    "true_negative_rate_parity",
    "false_positive_rate_parity",
    "false_negative_rate_parity",
]
Objective = Literal[
    "accuracy", "balanced_accuracy", "selection_rate", "true_positive_rate", "true_negative_rate"
]


@dataclass(frozen=True)
class Interpolation:
    r"""Randomised thresholds of G groups: the probability of label 1 given score :math:`s` and group.

    .. math:: p(s) = q \, c + (1 - q) \sum_{k=0,1} w_k [s > t_k]
    """

    # shape (G, 2): w_k and t_k
    weights: Float
    thresholds: Float
    # shape (G,): q, how likely the score is ignored, and c, what then counts
    ignored: Float
    constant: Float

    def expected(self, scores: Float, groups: Int) -> Float:
        """Expected label, shape (n,), of scores and numbers of groups, both of shape (n,)."""
        above = scores[:, None] > self.thresholds[groups]
        drawn = (self.weights[groups] * above).sum(axis=1)
        ignored = self.ignored[groups]
        return ignored * self.constant[groups] + (1 - ignored) * drawn


@dataclass(kw_only=True, eq=False, repr=False)
class GroupThresholdsClassifier(GroupLogistic):
    """Fairlearn's ThresholdOptimizer (Hardt et al. 2016) on logistic scores.

    Each group gets one or two thresholds, and a probability of using each, so that the groups' rates are
    equal and the objective is best, on rows that the regression has not seen. ``predict_proba`` is the
    expected value of that randomised label. ``predict`` takes the likelier one: it is deterministic, and the
    constraint then holds only nearly.

    Parameters
    ----------
    constraint : str
        ``demographic_parity``, ``equalized_odds``, ``true_positive_rate_parity``,
        ``true_negative_rate_parity``, ``false_positive_rate_parity`` or ``false_negative_rate_parity``.
    objective : str
        ``accuracy``, ``balanced_accuracy`` and, unless the constraint is equalized odds, ``selection_rate``,
        ``true_positive_rate`` or ``true_negative_rate``.
    grid_size : int
        Values of the constrained rate that are tried.

    Attributes
    ----------
    interpolation_ : Interpolation
    """

    method = "threshold-optimizer"

    constraint: Constraint = "demographic_parity"
    objective: Objective = "accuracy"
    grid_size: int = 1000

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("constraint", get_args(Constraint))
        self._check_choice("objective", get_args(Objective))
        self._check_counts("grid_size")
        if self.constraint == "equalized_odds" and not self.objective.endswith("accuracy"):
            raise ValueError(
                f"objective is {self.objective!r}: equalized_odds takes accuracy or balanced_accuracy."
            )

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
        feature_groups: Mapping[str, Sequence[int]] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train as :meth:`Comparator.fit`, and learn to read the group from the model inputs.

        To predict, it is read from the columns of X that ``feature_groups`` lists for the attributes. Also
        ValueError: columns that do not tell the group exactly.
        """
        data, codes, groups = self._prepare(X, y, sensitive_features)
        self._reader = GroupReader.fit(data, groups.codes, groups.attributes, feature_groups, self.method)
        weights = check_sample_weight(sample_weight, len(codes))
        self._learn(data, codes, groups, weights, callback or no_callback)
        return self

    def _learn(
        self, data: Float32, codes: Codes, groups: Groups, weights: Float | None, callback: Callback
    ) -> None:
        train, held = set_aside(codes, self.validation_share, self.random_state, groups.codes)
        check_labels(groups, codes, train, "training")
        check_labels(groups, codes, held, "validation")
        given = None if weights is None else weights[train]
        self.linear_ = self._fit_linear(data[train], codes[train], given)
        held = repeated_rows(weights, held)
        self.interpolation_ = _interpolation(
            self.linear_.probability(data[held]),
            codes[held],
            groups.codes[held],
            constraints=self.constraint,
            # Fairlearn names accuracies, but not rates, with a suffix
            objective=self.objective + ("_score" if self.objective.endswith("accuracy") else ""),
            grid_size=self.grid_size,
        )
        callback(1, 1, {})

    def _positive_probability(self, X: Float32) -> Float:
        return self.interpolation_.expected(self.linear_.probability(X), self._reader.read(X))

    def _arrays(self) -> Arrays:
        return {**super()._arrays(), **self._reader.arrays(), **asdict(self.interpolation_)}

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self._reader = GroupReader.restore(arrays)
        self.interpolation_ = Interpolation(*(arrays[field.name] for field in fields(Interpolation)))


def _interpolation(scores: Float, labels: Int, groups: Int, **parameters: Any) -> Interpolation:
    """Randomised thresholds of each group, by Fairlearn."""
    with optional_import(GroupThresholdsClassifier.method):
        from fairlearn.postprocessing import ThresholdOptimizer
    optimizer = ThresholdOptimizer(
        estimator=_Scored(), prefit=True, predict_method="predict", flip=False, **parameters
    )
    optimizer.fit(scores[:, None], labels, sensitive_features=groups)
    found = optimizer.interpolated_thresholder_.interpolation_dict
    ordered = [found[group] for group in sorted(found)]
    operations = [(each.operation0, each.operation1) for each in ordered]
    # without flips every operation is "greater than"
    assert all(operation.operator == ">" for pair in operations for operation in pair)
    return Interpolation(
        np.array([(each.p0, each.p1) for each in ordered], np.float64),
        np.array([[operation.threshold for operation in pair] for pair in operations], np.float64),
        np.array([each.get("p_ignore", 0.0) for each in ordered], np.float64),
        np.array([each.get("prediction_constant", 0.0) for each in ordered], np.float64),
    )


class _Scored(BaseEstimator):  # type: ignore[misc]
    """A fitted estimator for Fairlearn whose only feature is our own score, to the last bit."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> _Scored:
        """Do nothing."""
        return self

    def predict(self, X: Any) -> Float:
        """Give the scores back."""
        return np.asarray(X, np.float64)[:, 0]
