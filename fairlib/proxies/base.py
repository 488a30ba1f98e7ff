"""What all proxies share: groups and their target, acceptance, and persistence without anybody's data."""

from __future__ import annotations

import copy
import json
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from evenhand.fairlib.methods.base import Callback
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.groups import Groups, Target
from evenhand.fairlib.proxies.sampling import SamplingPlan, sampling_plan

__all__ = ["BalancingProxy"]

FORMAT = 1
DESCRIPTION_FILE = "proxy.json"
GRAPH_FILE = "graph.safetensors"
Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
FITTED = ("base_rates", "target", "masses", "compositions", "acceptance")


class BalancingProxy(BaseEstimator):  # type: ignore[misc]
    r"""
    Base of the proxies: features decide the proxy group, and the proxy group how likely a row is kept.

    A subclass gives ``_learn``, and ``_plan`` where it does not sample by Algorithm 1.

    Attributes
    ----------
    graph_ : SplittingGraph
        From features to shares in l proxy groups.
    base_rates_, target_ : ndarray, shape (K,)
        Shares of the sensitive groups among the training rows, and the wanted ones. Several attributes give
        one block each (Deng et al. 2023, appendix A.2).
    compositions_ : ndarray, shape (l, K)
        A: shares of the sensitive groups within each proxy group, among the training rows.
    masses_ : ndarray, shape (l,)
        Shares of the training rows in each proxy group.
    acceptance_ : ndarray, shape (l,)
        Probability with which a member of each proxy group is kept.
    group_names_ : dict of str to list of str
        Names of the groups of every attribute, in the order of the K columns.
    plan_ : SamplingPlan
        Only after ``fit``.
    training_rows_ : int
    n_features_in_ : int
    """

    mixing: float = 0.0
    target: Target | None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: Mapping[str, ArrayLike],
        callback: Callback | None = None,
    ) -> Self:
        """
        Learn from the small sample in which the sensitive attribute is known.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : ignored
        sensitive_features : mapping of str to array-like, shape (n,)
        callback : callable or None
            Called after every split with (splits, splits that theory needs at most, {"imbalance": ...}).

        Raises
        ------
        ValueError
            No attribute, one with a single group, a target that does not fit them, a parameter out of range.
        """
        rows = validate_data(self, X, dtype=np.float32, order="C")
        self._check_parameters()
        groups = Groups(sensitive_features, len(rows))
        self.group_names_ = groups.names
        self.base_rates_ = groups.indicators.mean(axis=0)
        self.target_ = groups.target(self.target)
        self.training_rows_ = len(rows)
        self.graph_ = self._learn(rows, groups, callback)
        shares = self.graph_.shares(rows)
        sizes = shares.sum(axis=0)
        seen = sizes > 0
        self.masses_ = sizes / len(rows)
        self.compositions_ = np.tile(self.base_rates_, (len(sizes), 1))
        self.compositions_[seen] = (shares.T @ groups.indicators)[seen] / sizes[seen, None]
        self._sample(seen)
        return self

    @abstractmethod
    def _learn(self, rows: Float32, groups: Groups, callback: Callback | None) -> SplittingGraph:
        """Learn the graph."""

    def _check_parameters(self) -> None:
        if not 0 <= self.mixing <= 1:
            raise ValueError(f"mixing must lie between 0 and 1, got {self.mixing!r}.")

    def _plan(self, compositions: Float, masses: Float) -> SamplingPlan:
        """Acceptance of the proxy groups."""
        return sampling_plan(compositions, masses, self.target_)

    def _sample(self, seen: NDArray[np.bool_]) -> None:
        """
        Acceptance by the plan; a proxy group without training rows is kept by its redrawn label only.

        With `mixing` (appendix A.1.1) a label is replaced, with that probability, by one drawn uniformly, and
        the plan's acceptance of the new label decides: that of a proxy group is the mean over its labels.
        """
        self.plan_ = self._plan(self.compositions_[seen], self.masses_[seen])
        acceptance = np.zeros(len(seen))
        acceptance[seen] = self.plan_.acceptance
        self.acceptance_ = (1 - self.mixing) * acceptance + self.mixing * acceptance[seen].mean()

    def remixed(self, mixing: float) -> Self:
        """Give the same fitted proxy under another `mixing`, without learning it again."""
        other = copy.copy(self)
        other.mixing = mixing
        other._check_parameters()
        other._sample(self.masses_ > 0)
        return other

    def relabelled(self, rows: Float, tallies: Float) -> tuple[Float, Float]:
        r"""
        Rows and group counts of the labels that are shown, after `mixing`.

        Label j has :math:`(1 - \eta) n_j + \eta n / l` rows, of which the second part is like all rows.

        Parameters
        ----------
        rows : ndarray, shape (..., l)
        tallies : ndarray, shape (..., l, K)
        """
        if self.mixing == 0:
            return rows, tallies
        spread = np.where(self.masses_ > 0, self.mixing / (self.masses_ > 0).sum(), 0.0)
        return (
            (1 - self.mixing) * rows + spread * rows.sum(axis=-1, keepdims=True),
            (1 - self.mixing) * tallies + spread[:, None] * tallies.sum(axis=-2, keepdims=True),
        )

    @property
    def shares_(self) -> Float:
        """Expected shares of the sensitive groups in what is kept of the training rows, shape (K,)."""
        kept = self.masses_ * self.acceptance_
        return np.asarray(kept @ self.compositions_ / kept.sum())

    def shares(self, X: ArrayLike) -> Float:
        """Share of every row in every proxy group, shape (n, l); it tells more than the drawn group does."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        return self.graph_.shares(rows)

    def acceptance(self, X: ArrayLike) -> Float:
        """
        Probability with which each row is kept: a pure function of its features.

        It is the expectation over the randomised splits and over `mixing`. The limit on what is told is about
        the proxy group that a row is drawn into, and about whether it is kept. This number is finer than
        both, and can tell more: toss the coin and show that, not the number.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        shares = self.shares(X)
        total = np.zeros(len(shares))
        # in this order, as the batch filter adds: a matrix product's order depends on how many rows there are
        for column, kept in zip(shares.T, self.acceptance_, strict=True):
            total += column * kept
        return np.clip(total, 0.0, 1.0)

    def save(self, folder: str | Path) -> None:
        """
        Write ``proxy.json`` and ``graph.safetensors``.

        Raises
        ------
        ValueError
            The splits rest on an estimator that only a pickle could hold.
        """
        check_is_fitted(self)
        if not isinstance(self.graph_, SplittingGraph) or getattr(self, "oracle", None) is not None:
            raise ValueError(
                "a proxy with its own oracle cannot be saved: its estimator would need a pickle."
            )
        content = {
            "format": FORMAT,
            "class": type(self).__name__,
            "parameters": _plain(self.get_params(deep=False)),
            "n_features_in": int(self.n_features_in_),
            "training_rows": int(self.training_rows_),
            "group_names": self.group_names_,
            **{name: np.asarray(getattr(self, f"{name}_")).tolist() for name in FITTED},
            **self._facts(),
        }
        if hasattr(self, "feature_names_in_"):
            content["feature_names_in"] = [str(name) for name in self.feature_names_in_]
        where = Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        (where / DESCRIPTION_FILE).write_text(json.dumps(content, sort_keys=True))
        self.graph_.save(where / GRAPH_FILE)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """
        Read a proxy written by :meth:`save`: it accepts the same rows.

        Raises
        ------
        ValueError
            The folder holds no proxy of this class and format.
        """
        where = Path(folder)
        content = json.loads((where / DESCRIPTION_FILE).read_text())
        if content.get("format") != FORMAT or content.get("class") != cls.__name__:
            raise ValueError(f"{where} holds no {cls.__name__} of format {FORMAT}.")
        proxy = cls(**content["parameters"])
        proxy.n_features_in_ = content["n_features_in"]
        proxy.training_rows_ = content["training_rows"]
        proxy.group_names_ = content["group_names"]
        for name in FITTED:
            setattr(proxy, f"{name}_", np.array(content[name], dtype=np.float64))
        if "feature_names_in" in content:
            proxy.feature_names_in_ = np.array(content["feature_names_in"], dtype=object)
        proxy.graph_ = SplittingGraph.load(where / GRAPH_FILE)
        graph = proxy.graph_
        if graph.groups != len(proxy.acceptance_) or graph.width not in (0, proxy.n_features_in_):
            raise ValueError(f"{where} holds a proxy whose parts do not belong together.")
        proxy._take_up(content)
        return proxy

    def _facts(self) -> dict[str, Any]:
        """More to save: plain JSON."""
        return {}

    def _take_up(self, content: Mapping[str, Any]) -> None:
        """Take up what ``_facts`` gave."""


def _plain(value: Any) -> Any:
    """Parameters as JSON has them, numpy's numbers included."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
