"""Base of the proxies: fitting, acceptance probabilities and persistence without training rows."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from evenhand.fairlib.arrays import Float, Float32, Index
from evenhand.fairlib.distances.metric_base import sensitive_columns
from evenhand.fairlib.parameters import ParameterChecks
from evenhand.fairlib.preprocessing.input_tables import TakesTables, read_encoder, with_columns_of
from evenhand.fairlib.proxies.graph import SplittingGraph, expected_acceptance
from evenhand.fairlib.proxies.proxy_groups import Target, group_names, indicators_of, target_shares
from evenhand.fairlib.proxies.saved_proxy import DESCRIPTION_FILE, FORMAT, GRAPH_FILE

if TYPE_CHECKING:
    from evenhand.fairlib.methods.method_base import Callback
    from evenhand.fairlib.proxies.sampling import SamplingPlan

# Fitted attributes in proxy.json: arrays, and values that are plain JSON.
ARRAYS = ("base_rates", "target", "masses", "compositions", "acceptance")
PLAIN = ("n_features_in", "training_rows", "group_names")


class BalancingProxy(TakesTables, ParameterChecks, BaseEstimator):  # type: ignore[misc]
    r"""Base of the proxies: the features give the proxy group, and the proxy group gives the
    acceptance.

    A subclass implements ``_fit_graph``, and ``_sampling_plan`` if it does not use Algorithm 1.

    Parameters
    ----------
    target : mapping of str to mapping of str to float, or None
        Target shares by attribute and group; None wants equal shares.

    Attributes
    ----------
    graph_ : SplittingGraph
        From features to shares in l proxy groups.
    base_rates_, target_ : ndarray, shape (K,)
        Shares of the sensitive groups among the training rows, and their target shares. Several
        attributes give one block each (Deng et al. 2023, appendix A.2).
    compositions_ : ndarray, shape (l, K)
        A: shares of the sensitive groups within each proxy group, among the training rows.
    masses_ : ndarray, shape (l,)
        Shares of the training rows in each proxy group.
    acceptance_ : ndarray, shape (l,)
        Probability with which a row of each proxy group is kept.
    group_names_ : dict of str to list of str
        Names of the groups of every attribute, in the order of the K columns.
    plan_ : SamplingPlan
        Set by ``fit`` only.
    training_rows_ : int
    n_features_in_ : int
    """

    mixing: float = 0.0
    relaxed: bool = False
    support: float = 0.0
    target: Target | None
    saved_facts: ClassVar[tuple[str, ...]] = ()

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: Any = None,
        callback: Callback | None = None,
    ) -> Self:
        """Learn from the sample in which the sensitive attributes are known.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : ignored
        sensitive_features : mapping, DataFrame, Series or array of n rows, or names of columns of X
            Attributes to balance. They are needed.
        callback : callable, default None
            Called after every split with (splits, splits plus the largest number still needed,
            {"imbalance": ...}).

        Returns
        -------
        BalancingProxy
            The proxy itself.

        Raises
        ------
        ValueError
            If a parameter is out of range, an attribute has a single group, or the target does not
            fit.
        """
        rows = self._validated(X, reset=True)
        self._check_parameters()
        sensitive_features = sensitive_columns(with_columns_of(X, sensitive_features))
        self.group_names_ = group_names(sensitive_features, len(rows))
        indicators = indicators_of(sensitive_features, self.group_names_)
        self.base_rates_ = indicators.mean(axis=0)
        self.target_ = target_shares(self.group_names_, self.target)
        self.training_rows_ = len(rows)
        self.graph_ = self._fit_graph(rows, indicators, callback)
        shares = self.graph_.shares(rows)
        sizes = shares.sum(axis=0)
        has_rows = sizes > 0
        self.masses_ = sizes / len(rows)
        self.compositions_ = np.tile(self.base_rates_, (len(sizes), 1))
        counts = (shares.T @ indicators)[has_rows]
        self.compositions_[has_rows] = counts / sizes[has_rows, None]
        self._set_acceptance()
        return self

    def _validated(self, X: Any, *, reset: bool) -> Float32:
        """Rows as float32: tables are encoded as at ``fit``."""
        rows = self._numbers_of(X, reset=reset)
        if self.encoder_ is not None:
            return check_array(rows, dtype=np.float32, order="C")
        return validate_data(self, rows, dtype=np.float32, order="C", reset=reset)

    @abstractmethod
    def _fit_graph(
        self, rows: Float32, indicators: Float, callback: Callback | None
    ) -> SplittingGraph:
        """Learn the graph from rows and their group indicators, shape (n, K)."""

    def _check_parameters(self) -> None:
        """ValueError for a parameter out of its range."""
        self._check_mapping("target")

    def _sampling_plan(self, seen: Index) -> SamplingPlan:
        """Sampling probabilities of the proxy groups `seen`, which have training rows."""
        from evenhand.fairlib.proxies.sampling import sampling_plan

        compositions = self.compositions_[seen]
        masses = self.masses_[seen]
        return sampling_plan(
            compositions, masses, self.target_, relaxed=self.relaxed, support=self.support
        )

    def _set_acceptance(self) -> None:
        """Set the acceptance of every proxy group from the sampling plan.

        With `mixing` (appendix A.1.1), a row's proxy group is replaced with that probability by one
        drawn uniformly, and the acceptance is the mean over the replacements.
        """
        with_rows = np.flatnonzero(self.masses_ > 0)
        self.plan_ = self._sampling_plan(with_rows)
        acceptance = np.zeros(len(self.masses_))
        acceptance[with_rows] = self.plan_.acceptance
        mean = acceptance[with_rows].mean()
        self.acceptance_ = (1 - self.mixing) * acceptance + self.mixing * mean

    def relabelled(self, rows: Float, tallies: Float) -> tuple[Float, Float]:
        r"""Rows and group counts of every proxy group after `mixing`.

        Proxy group j then has :math:`(1 - \eta) n_j + \eta n / l` rows. The second term is a
        uniform sample of all rows.

        Parameters
        ----------
        rows : ndarray of float64, shape (..., l)
        tallies : ndarray of float64, shape (..., l, K)

        Returns
        -------
        rows : ndarray of float64, shape (..., l)
        tallies : ndarray of float64, shape (..., l, K)
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
        """Expected shares of the sensitive groups among the kept training rows, shape (K,)."""
        kept_masses = self.masses_ * self.acceptance_
        return np.asarray(kept_masses @ self.compositions_ / kept_masses.sum())

    def shares(self, X: ArrayLike) -> Float:
        """Share of every row in every proxy group. It discloses more than a drawn group.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float64, shape (n, l)
        """
        check_is_fitted(self)
        return self.graph_.shares(self._validated(X, reset=False))

    def acceptance(self, X: ArrayLike) -> Float:
        """Probability with which each row is kept, a pure function of its features.

        It is the expectation over the randomised splits and over `mixing`. The disclosivity limit
        holds for the proxy group that a row is drawn into, and for the decision to keep it. The
        probability is finer than both and can disclose more: publish the decision, not the
        probability.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        return expected_acceptance(self.shares(X), self.acceptance_)

    def save(self, folder: str | Path) -> None:
        """Write ``proxy.json`` and ``graph.safetensors``.

        Parameters
        ----------
        folder : str or pathlib.Path
            It is made if it does not exist.
        """
        check_is_fitted(self)
        content = {
            "format": FORMAT,
            "class": type(self).__name__,
            "parameters": self.get_params(deep=False),
            **{name: np.asarray(getattr(self, f"{name}_")).tolist() for name in ARRAYS},
            **{name: getattr(self, f"{name}_") for name in (*PLAIN, *self.saved_facts)},
        }
        if hasattr(self, "feature_names_in_"):
            content["feature_names_in"] = [str(name) for name in self.feature_names_in_]
        where = Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        (where / DESCRIPTION_FILE).write_text(json.dumps(content, sort_keys=True, default=_plain))
        self._write_encoder(where)
        self.graph_.save(where / GRAPH_FILE)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a proxy written by :meth:`save`; it gives the same probabilities.

        Parameters
        ----------
        folder : str or pathlib.Path

        Returns
        -------
        BalancingProxy

        Raises
        ------
        ValueError
            If the folder holds no proxy of this class and format.
        """
        where = Path(folder)
        content = json.loads((where / DESCRIPTION_FILE).read_text())
        if content.get("format") != FORMAT or content.get("class") != cls.__name__:
            raise ValueError(f"{where} holds no {cls.__name__} of format {FORMAT}.")
        # an earlier version may have had more parameters
        parameters = content["parameters"]
        proxy = cls(
            **{name: parameters[name] for name in cls._get_param_names() if name in parameters}
        )
        for name in ARRAYS:
            setattr(proxy, f"{name}_", np.array(content[name], dtype=np.float64))
        for name in (*PLAIN, *cls.saved_facts):
            setattr(proxy, f"{name}_", content[name])
        if "feature_names_in" in content:
            proxy.feature_names_in_ = np.array(content["feature_names_in"], dtype=object)
        proxy.encoder_ = read_encoder(where)
        proxy.graph_ = SplittingGraph.load(where / GRAPH_FILE)
        graph = proxy.graph_
        width = proxy.n_features_in_
        if proxy.encoder_ is not None:
            width = len(proxy.encoder_.feature_names_)
        if graph.groups != len(proxy.acceptance_) or graph.width not in (0, width):
            raise ValueError(f"{where} holds a proxy whose parts do not belong together.")
        return proxy


def _plain(value: Any) -> Any:
    """Mappings and numpy numbers as JSON values."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.item()
