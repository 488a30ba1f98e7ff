"""Proxies of fixed tables are those that were written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evenhand.fairlib import proxies
from evenhand.fairlib.proxies.predicted import PredictedGroupProxy
from evenhand.fairlib.proxies.proxy_base import BalancingProxy
from evenhand.fairlib.proxies.proxy_evaluation import measure_proxy, possible_reduction
from evenhand.fairlib.proxies.tree import ProxyTree
from tests.signatures import modules_below, positional_only
from tests.written_results import check_written

# Sums of drawn rows, from which intervals come, are reckoned in single precision.
SINGLE_PRECISION = 1e-5

PROXIES: dict[str, BalancingProxy] = {
    "tree": ProxyTree(alpha=0.15, tolerance=0.01),
    "tree, paper's plan": ProxyTree(alpha=0.3, tolerance=0.001, support=0.0, progress=0.2),
    "tree, hull": ProxyTree(alpha=0.1, relaxed=False, max_height=3, min_leaf=30.0),
    "predicted": PredictedGroupProxy(),
    "predicted, equal": PredictedGroupProxy(sampling="equal"),
}


def people(n: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows of four features that tell three groups apart, more or less, and two ages hardly."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n, p=[0.55, 0.3, 0.15])
    age = rng.choice(["old", "young"], n, p=[0.4, 0.6])
    X = rng.normal(size=(n, 4))
    X[:, 0] += group == "b"
    X[:, 1] += 1.5 * (group == "c")
    X[:, 2] = np.round(X[:, 2] + 0.5 * (age == "old"))
    return X, {"group": group, "age": age}


BOTH = ("group", "age")
CASES = [
    *((name, ("group",)) for name in PROXIES),
    *((name, BOTH) for name in PROXIES if name.startswith("tree")),
]


@pytest.mark.parametrize(("name", "attributes"), CASES, ids=str)
def test_a_proxy_is_the_one_written_down(name: str, attributes: tuple[str, ...]) -> None:
    X, sensitive = people(400, 0)
    new_rows, new_groups = people(150, 1)
    trained_on = {key: sensitive[key] for key in attributes}
    proxy = PROXIES[name].fit(X, sensitive_features=trained_on)
    measured = measure_proxy(
        proxy,
        new_rows,
        {key: new_groups[key] for key in attributes},
        draws=40,
        level=0.9,
        min_rows=5.0,
        rng=np.random.default_rng(2),
    )
    results: dict[str, Any] = {
        "masses": proxy.masses_,
        "compositions": proxy.compositions_,
        "acceptance": proxy.acceptance_,
        "possible": possible_reduction(proxy),
        "new shares": proxy.shares(new_rows[:4]),
        "values": measured.values,
    }
    if isinstance(proxy, ProxyTree):
        results["distances"] = proxy.distances_
        results["least alpha"] = proxy.least_alpha_
    check_written(__file__, f"{name}: {', '.join(attributes)}", results)
    intervals = {"lows": measured.lows, "highs": measured.highs}
    check_written(
        __file__, f"intervals of {name}: {', '.join(attributes)}", intervals, SINGLE_PRECISION
    )


@pytest.mark.parametrize("alpha", [0.001, 0.004])
def test_the_least_alpha_is_the_one_written_down(alpha: float) -> None:
    X, sensitive = people(120, 3)
    proxy = ProxyTree(alpha=alpha).fit(X, sensitive_features={"group": sensitive["group"]})
    check_written(__file__, f"least alpha {alpha}", [proxy.least_alpha_, proxy.distances_])


def test_every_argument_of_these_modules_can_be_named() -> None:
    assert [places for module in modules_below(proxies) for places in positional_only(module)] == []
