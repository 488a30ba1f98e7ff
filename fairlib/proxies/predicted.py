"""Comparators of the proxy tree: proxies that predict the sensitive group, by a tree or a
regression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Index, Int
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.proxy_base import BalancingProxy

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    from evenhand.fairlib.methods.method_base import Callback
    from evenhand.fairlib.proxies.sampling import SamplingPlan


@dataclass(repr=False, eq=False)
class PredictedGroupProxy(BalancingProxy):
    r"""The predicted group of one attribute as the proxy group (Deng et al. 2023, section 5).

    Parameters
    ----------
    model : {"tree", "regression"}
        A decision tree, or multinomial logistic regression.
    sampling : {"program", "equal"}
        ``"program"``: acceptance by Algorithm 1 (the paper's QP proxies). ``"equal"``: the
        predicted groups in equal numbers, or in the target's proportion (its naive proxies).
    mixing : float
        :math:`\eta` in [0, 1]: with this probability the predicted group is replaced by one drawn
        uniformly. It trades disclosivity against balance (appendix A.1.1).
    max_depth : int or None
        Of the tree; None sets no limit.
    min_samples_leaf : int
        Of the tree. A tree that is grown until its leaves are pure stores the group of every
        training row.
    random_state : int or None
        Of the tree's ties.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat(["f", "m"], [50, 150])
    >>> X = rng.normal(size=(200, 1)) + 2.0 * (sex == "f")[:, None]
    >>> proxy = PredictedGroupProxy(max_depth=1).fit(X, sensitive_features={"sex": sex})
    >>> bool(proxy.shares_[0] > 0.3)  # the share of women among the kept rows; it was .25
    True
    """

    model: Literal["tree", "regression"] = "tree"
    sampling: Literal["program", "equal"] = "program"
    mixing: float = 0.0
    max_depth: int | None = None
    min_samples_leaf: int = 20
    target: Mapping[str, Mapping[str, float]] | None = None
    random_state: int | None = 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("[0, 1]", "mixing")
        self._check_seed("random_state")
        self._check_choice("model", ("tree", "regression"))
        self._check_choice("sampling", ("program", "equal"))
        self._check_counts("max_depth", optional=True)
        self._check_counts("min_samples_leaf")

    def _fit_graph(
        self, rows: Float32, indicators: Float, callback: Callback | None
    ) -> SplittingGraph:
        from sklearn.linear_model import LogisticRegression
        from sklearn.tree import DecisionTreeClassifier

        if len(self.group_names_) > 1:
            raise ValueError(
                f"a predicted group is of one attribute, got {', '.join(self.group_names_)}."
            )
        codes = indicators.argmax(axis=1)
        if self.model == "regression":
            return regression_graph(LogisticRegression(max_iter=1000).fit(rows, codes))
        tree = DecisionTreeClassifier(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            random_state=self.random_state,
        )
        return tree_graph(tree.fit(rows, codes))

    def _sampling_plan(self, seen: Index) -> SamplingPlan:
        from evenhand.fairlib.proxies.sampling import plan_of

        if self.sampling == "program":
            return super()._sampling_plan(seen)
        # a tree without a split has one proxy group, which predicts no particular group
        shares = self.target_[seen] if len(seen) > 1 else np.ones(1)
        if shares.sum() <= 0:
            raise ValueError(
                "the model predicts only groups whose target share is 0: no row could be kept."
            )
        return plan_of(
            shares / shares.sum(), self.compositions_[seen], self.masses_[seen], self.target_
        )


def tree_graph(fitted: DecisionTreeClassifier) -> SplittingGraph:
    """Convert a fitted decision tree; leaves that predict the same class are one proxy group.

    Parameters
    ----------
    fitted : DecisionTreeClassifier

    Returns
    -------
    SplittingGraph
    """
    tree = fitted.tree_
    inner = np.flatnonzero(tree.children_left >= 0)
    predicted = fitted.classes_[tree.value[:, 0].argmax(axis=1)]
    place = np.where(tree.children_left >= 0, 0, -1 - predicted).astype(np.int64)
    place[inner] = np.arange(len(inner))
    coefficients = np.zeros((len(inner), fitted.n_features_in_))
    coefficients[np.arange(len(inner)), tree.feature[inner]] = 1.0
    one = place[tree.children_right[inner]]
    zero = place[tree.children_left[inner]]
    return _deterministic(coefficients, -tree.threshold[inner], one, zero)


def regression_graph(fitted: LogisticRegression) -> SplittingGraph:
    """Convert a fitted regression: the class of the largest score, by comparing the best with the
    next.

    Node (i, j) with i < j compares class j with class i, the best of the classes before j.

    Parameters
    ----------
    fitted : LogisticRegression

    Returns
    -------
    SplittingGraph
    """
    weights = fitted.coef_.astype(np.float64)
    biases = fitted.intercept_.astype(np.float64)
    if len(fitted.classes_) == 2:  # scikit-learn stores the second class only
        weights = np.vstack([np.zeros_like(weights), weights])
        biases = np.append(0.0, biases)
    pairs: list[tuple[int, int]] = []
    for j in range(1, len(biases)):
        pairs += [(i, j) for i in range(j)]
    return _deterministic(
        np.array([weights[j] - weights[i] for i, j in pairs]),
        np.array([biases[j] - biases[i] for i, j in pairs]),
        _children(pairs, [j for _, j in pairs]),
        _children(pairs, [i for i, _ in pairs]),
    )


def _children(pairs: list[tuple[int, int]], bests: list[int]) -> Int:
    """Nodes that compare each best with the class after j, or the proxy group of the best."""
    place = {pair: node for node, pair in enumerate(pairs)}
    links = []
    for best, (_, j) in zip(bests, pairs, strict=True):
        links.append(place.get((best, j + 1), -1 - best))
    return np.array(links, dtype=np.int64)


def _deterministic(coefficients: Float, intercepts: Float, one: Int, zero: Int) -> SplittingGraph:
    """Graph with one halfspace per node."""
    count = len(intercepts)
    starts = np.arange(count + 1, dtype=np.int64)
    return SplittingGraph(
        coefficients, intercepts.astype(np.float64), np.ones(count), starts, one, zero
    )
