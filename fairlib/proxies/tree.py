"""The proxy tree: it splits leaves until the target shares can be sampled, within the disclosivity
limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.proxy_base import BalancingProxy

if TYPE_CHECKING:
    from evenhand.fairlib.methods.method_base import Callback


@dataclass(repr=False, eq=False)
class ProxyTree(BalancingProxy):
    r"""A tree of randomised halfspaces with a limit on its disclosivity (Deng et al. 2023,
    Algorithm 4).

    Leaves are split while the target t is farther than `tolerance` from the hull of their
    compositions. A split must reduce the distance by the factor :math:`1 - \gamma`, and within each
    leaf j :math:`|A_{jk} - r_k| \le \alpha` for every group k. Among such splits of all leaves, the
    builder makes the one after which most rows can be kept. The paper takes any; choosing by the
    distance alone gives leaves of a few rows. A linear program over halfspaces finds the splits,
    which meets the limits exactly, in place of the paper's game (Algorithm 3).

    Parameters
    ----------
    alpha : float
        :math:`\alpha` in [0, 1], the limit on the disclosivity of every leaf on the training rows.
    relaxed : bool
        Leave out :math:`\sum_j q_j = 1`: the distance is then that to the cone of the compositions.
        With a uniform target the nearest point of the cone is the nearest of the hull, scaled, so
        the two forms differ only in the progress that they measure.
    progress : float
        :math:`\gamma` in (0, 1).
    tolerance : float
        :math:`\beta`, the imbalance at which growing stops.
    max_height : int
    min_leaf : float
        Least number of expected training rows of every leaf. The compositions of small leaves do
        not hold on new rows, and they are saved with the proxy although they describe few people.
    support : float
        Imbalance that is given up so that more people have a chance and the sample stays useful; 0
        gives the paper's plan. Among the plans whose imbalance on the training rows is larger by at
        most this number, the one with the largest effective sample size is chosen; if possible each
        leaf keeps a tenth of the mean chance. It changes the acceptance only, not the tree.
    ridge : float
        Of the regressions, above 0; the features should have similar scales.

    Attributes
    ----------
    distances_ : list of float
        Distance of the target before the first split and after each.
    least_alpha_ : float or None
        If no split was found: the smallest alpha (to .001) under which one is found, None if there
        is none.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat(["f", "m"], [50, 150])
    >>> X = rng.normal(size=(200, 1)) + (sex == "f")[:, None]
    >>> proxy = ProxyTree(alpha=0.4).fit(X, sensitive_features={"sex": sex})
    >>> acceptance = proxy.acceptance(X)
    >>> bool(acceptance[sex == "f"].mean() > acceptance[sex == "m"].mean())
    True
    """

    saved_facts: ClassVar[tuple[str, ...]] = ("distances", "least_alpha")

    alpha: float = 0.2
    relaxed: bool = False
    progress: float = 0.1
    tolerance: float = 0.1
    max_height: int = 20
    min_leaf: float = 20.0
    support: float = 0.0
    target: Mapping[str, Mapping[str, float]] | None = None
    ridge: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_flags("relaxed")
        self._check_interval("[0, 1]", "alpha")
        self._check_interval("(0, 1)", "progress")
        self._check_interval("[0, inf)", "tolerance", "min_leaf", "support")
        self._check_interval("(0, inf)", "ridge")
        self._check_counts("max_height")

    def _fit_graph(
        self, rows: Float32, indicators: Float, callback: Callback | None
    ) -> SplittingGraph:
        from evenhand.fairlib.proxies.tree_builder import TreeBuilder

        builder = TreeBuilder(rows, indicators, self.target_, self)
        builder.grow(callback)
        self.distances_ = builder.distances
        self.least_alpha_ = builder.least_alpha() if len(builder.distances) == 1 else None
        return builder.graph()
