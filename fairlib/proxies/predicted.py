"""The comparators: proxies that predict the group itself, by a tree or a regression."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from evenhand.fairlib.methods.base import Callback
from evenhand.fairlib.proxies.base import BalancingProxy
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.groups import Groups, Target
from evenhand.fairlib.proxies.sampling import SamplingPlan, sampling_plan

__all__ = ["PredictedGroupProxy"]

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]


class PredictedGroupProxy(BalancingProxy):
    r"""
    The predicted group as the proxy group (Deng et al. 2023, section 5): the comparators of the proxy tree.

    Parameters
    ----------
    model : {"tree", "regression"}
        A decision tree, or multinomial logistic regression.
    sampling : {"program", "equal"}
        ``"program"``: acceptance by Algorithm 1 (the paper's QP proxies). ``"equal"``: as many of each
        predicted group, or in the target's proportion (its naive proxies).
    mixing : float
        :math:`\eta` in [0, 1]: with this probability the predicted group is replaced by one drawn uniformly.
        It trades disclosivity against balance (appendix A.1.1).
    max_depth : int or None
        Of the tree; None sets no limit.
    min_samples_leaf : int
        Of the tree. A tree that is grown until its leaves are pure holds the group of every training row.
    target : mapping of str to mapping of str to float, or None
        Wanted shares of the attribute's groups; None wants them equal.
    random_state : int or None
        Of the tree's ties.
    """

    def __init__(
        self,
        model: Literal["tree", "regression"] = "tree",
        sampling: Literal["program", "equal"] = "program",
        mixing: float = 0.0,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        target: Mapping[str, Mapping[str, float]] | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.model = model
        self.sampling = sampling
        self.mixing = mixing
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.target: Target | None = target
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, known in (("model", ("tree", "regression")), ("sampling", ("program", "equal"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be {known[0]} or {known[1]}, got {getattr(self, name)!r}.")
        depth = self.max_depth
        if depth is not None and (not isinstance(depth, Integral) or depth < 1):
            raise ValueError(f"max_depth must be a whole number, at least 1, or None, got {depth!r}.")
        if not isinstance(self.min_samples_leaf, Integral) or self.min_samples_leaf < 1:
            raise ValueError(
                f"min_samples_leaf must be a whole number, at least 1, got {self.min_samples_leaf!r}."
            )

    def _learn(self, rows: Float32, groups: Groups, callback: Callback | None) -> SplittingGraph:
        if len(groups.names) > 1:
            raise ValueError(f"a predicted group is of one attribute, got {', '.join(groups.names)}.")
        codes = groups.indicators.argmax(axis=1)
        if self.model == "regression":
            fitted = LogisticRegression(max_iter=1000).fit(rows, codes)
            return regression_graph(fitted)
        tree = DecisionTreeClassifier(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            random_state=self.random_state,
        )
        return tree_graph(tree.fit(rows, codes))

    def _plan(self, compositions: Float, masses: Float) -> SamplingPlan:
        if self.sampling == "program":
            return sampling_plan(compositions, masses, self.target_)
        return self._equal(compositions, masses)

    def _equal(self, compositions: Float, masses: Float) -> SamplingPlan:
        """Predicted groups in the target's proportion, whatever they are made of."""
        # a tree without a split has one proxy group, which stands for nobody in particular
        wanted = self.target_[self._seen_groups] if len(masses) > 1 else np.ones(1)
        if wanted.sum() <= 0:
            raise ValueError("the model predicts only groups whose target share is 0: nobody could be kept.")
        mixture = wanted / wanted.sum()
        ratios = mixture / masses
        acceptance = ratios / ratios.max()
        kept = masses * acceptance
        shares = kept @ compositions / kept.sum()
        imbalance = float(np.linalg.norm(shares - self.target_))
        return SamplingPlan(mixture, acceptance, shares, imbalance, imbalance, float(kept.sum()))

    def _sample(self, seen: NDArray[np.bool_]) -> None:
        self._seen_groups = np.flatnonzero(seen)
        super()._sample(seen)


def tree_graph(fitted: DecisionTreeClassifier) -> SplittingGraph:
    """A fitted decision tree, its leaves gathered by the class they predict."""
    tree = fitted.tree_
    inner = np.flatnonzero(tree.children_left >= 0)
    predicted = fitted.classes_[tree.value[:, 0].argmax(axis=1)]
    place = np.where(tree.children_left >= 0, 0, -1 - predicted).astype(np.int64)
    place[inner] = np.arange(len(inner))
    coefficients = np.zeros((len(inner), fitted.n_features_in_))
    coefficients[np.arange(len(inner)), tree.feature[inner]] = 1.0
    return _deterministic(
        coefficients,
        -tree.threshold[inner],
        place[tree.children_right[inner]],
        place[tree.children_left[inner]],
    )


def regression_graph(fitted: LogisticRegression) -> SplittingGraph:
    """
    The class of the largest score, as comparisons of the best so far with the next.

    Node (i, j) with i < j compares class j with class i, the best of the classes before j.
    """
    weights, biases = _scores(fitted)
    count = len(biases)
    place = {(i, j): at for at, (j, i) in enumerate((j, i) for j in range(1, count) for i in range(j))}

    def next_of(best: int, j: int) -> int:
        return place[best, j + 1] if j + 1 < count else -1 - best

    pairs = list(place)
    return _deterministic(
        np.array([weights[j] - weights[i] for i, j in pairs]),
        np.array([biases[j] - biases[i] for i, j in pairs]),
        np.array([next_of(j, j) for _, j in pairs], dtype=np.int64),
        np.array([next_of(i, j) for i, j in pairs], dtype=np.int64),
    )


def _scores(fitted: Any) -> tuple[Float, Float]:
    """Coefficients and intercepts of every class; of two classes scikit-learn keeps one row."""
    weights, biases = fitted.coef_.astype(np.float64), fitted.intercept_.astype(np.float64)
    if len(fitted.classes_) == 2:
        return np.vstack([np.zeros_like(weights), weights]), np.append(0.0, biases)
    return weights, biases


def _deterministic(
    coefficients: Float, intercepts: Float, one: NDArray[np.int64], zero: NDArray[np.int64]
) -> SplittingGraph:
    """One halfspace a node."""
    count = len(intercepts)
    return SplittingGraph(
        coefficients.reshape(count, coefficients.shape[-1]),
        intercepts.astype(np.float64),
        np.ones(count),
        np.arange(count + 1, dtype=np.int64),
        one,
        zero,
    )
