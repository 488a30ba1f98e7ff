"""What share of the supremum SenSeI's search in training reaches: ``python -m benchmarks.studies.inner_search``.

The search maximises d_Y(h(x), h(x')) - λ d_X(x, x') for each person of a mini-batch. Its value after
2, 5, 10 and 20 steps in full space is compared with the supremum: on the square of figure 1 of
the paper with the maximum on a fine grid, on Adult with the best of many random starts. Part
``trained`` trains networks on Adult with 2, 5 and 10 steps at several budgets, and certifies them
with a longer search: whether more steps make a fairer network. Results:
``benchmarks/results/inner_search.json``.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.reproductions import decision_surfaces
from benchmarks.reproductions.sensei_paper import adult_split
from evenhand.fairlib.auditor.differentiable_model import as_differentiable
from evenhand.fairlib.auditor.worst_case_search import Auditor, LogitDistance
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.evaluation.certificates import certify
from evenhand.fairlib.methods.networks import SenSeIClassifier
from evenhand.tasks.execution.store import Store

RESULT = "inner_search"
STEPS = (0, 1, 2, 5, 10, 20)
# Multipliers in nats of the paper's d_Y a squared distance: from strict to nearly free.
MULTIPLIERS = (10.0, 1.0, 0.1, 0.01, 0.001)
# The grid of the square: cells of each axis.
CELLS = 201
# Adult: people of a mini-batch, random starts, and steps of each.
PEOPLE, STARTS, LONG = 128, 30, 200
# The network of Adult: trained with a budget that moves people.
ADULT: dict[str, Any] = {
    "rho": 40.0,
    "perturbation_budget": 0.1,
    "multiplier_update": "absolute",
    "n_steps": 3000,
    "batch_size": 128,
    "learning_rate": 0.003,
    "n_iter_no_change": None,
    "class_balance": 1.0,
}
RHOS = (0.0, 1.0)
REPEATS = 5
# Networks that are trained with each number of steps: budgets, splits, and certified people.
TRAINED_STEPS = (2, 5, 10)
BUDGETS = (0.01, 0.1, 1.0)
SPLITS = 3
CERTIFIED = 300


def totals(
    network: nn.Module, metric: Metric, x: Tensor, multiplier: float, auditor: Auditor, **how: Any
) -> Tensor:
    """Value of the objective that a search finds for every row."""
    model = as_differentiable(network)
    objective = LogitDistance(model.logits(x))
    generator = torch.Generator().manual_seed(how.pop("seed", 0))
    result = auditor.search(model, x, objective, multiplier, generator, **how)
    return objective.value(model.logits(result.points)) - multiplier * result.squared_distance


def supremum_on_square(network: nn.Module, X: Tensor, multiplier: float) -> Tensor:
    """The largest value on a grid of the square, where only vertical moves have a distance.

    Parameters
    ----------
    network : torch.nn.Module
    X : Tensor, shape (n, 2)
    multiplier : float

    Returns
    -------
    Tensor, shape (n,)
    """
    axes = [
        torch.linspace(float(X[:, j].min()), float(X[:, j].max()), CELLS, dtype=X.dtype)
        for j in range(2)
    ]
    grid = torch.cartesian_prod(*axes)
    with torch.no_grad():
        outputs = network(grid)
        own = network(X)
    best = torch.zeros(len(X), dtype=X.dtype)
    for person in range(len(X)):
        change = (outputs - own[person]).square().mean(dim=1)
        distance = (grid[:, 1] - X[person, 1]).square()
        best[person] = (change - multiplier * distance).max().clamp_min(0.0)
    return best


def supremum_by_starts(network: nn.Module, metric: Metric, x: Tensor, multiplier: float) -> Tensor:
    """The best of many long searches from random starts, and of one from the corners."""
    auditor = Auditor(metric, subspace_steps=16, full_steps=LONG, tolerance=-1.0)
    best = totals(network, metric, x, multiplier, auditor)
    for seed in range(STARTS):
        found = totals(network, metric, x, multiplier, auditor, seed=seed, random_start=True)
        best = torch.maximum(best, found)
    return best


def shares(network: nn.Module, metric: Metric, x: Tensor, best_of: Any) -> list[dict[str, Any]]:
    """Return for each multiplier the share of the supremum by steps, and milliseconds a search."""
    network.eval()
    rows = []
    for multiplier in MULTIPLIERS:
        searched = {}
        milliseconds = {}
        for steps in STEPS:
            auditor = Auditor(metric, subspace_steps=8, full_steps=steps, tolerance=1e-4)
            started = time.process_time()
            for _ in range(REPEATS):
                searched[steps] = totals(network, metric, x, multiplier, auditor)
            milliseconds[steps] = 1e3 * (time.process_time() - started) / REPEATS
        best = best_of(multiplier)
        for values in searched.values():
            best = torch.maximum(best, values)
        rows.append(
            {
                "multiplier": multiplier,
                "supremum": float(best.mean()),
                "share": {str(n): float(searched[n].mean() / best.mean()) for n in STEPS},
                "milliseconds": {str(n): milliseconds[n] for n in STEPS},
            }
        )
    return rows


def square() -> dict[str, Any]:
    """The square of the paper's figure 1, for the plain network and for one with ρ = 1."""
    X, y = decision_surfaces.people()
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    x = torch.as_tensor(X, dtype=torch.float32)
    result = {}
    for panel in decision_surfaces.sensei(X, y, RHOS):
        network = panel.model.network_

        def best_of(multiplier: float, network: nn.Module = network) -> Tensor:
            return supremum_on_square(network, x, multiplier)

        result[panel.title] = shares(network, metric, x, best_of)
    return result


def adult() -> dict[str, Any]:
    """Adult: a mini-batch of test people, for networks with ρ = 0 and as trained."""
    train, test, metric, _ = adult_split(Store(), 0)
    x = torch.as_tensor(test.X[:PEOPLE], dtype=torch.float32)
    result = {}
    for rho in (0.0, ADULT["rho"]):
        settings = {**ADULT, "rho": rho}
        model = SenSeIClassifier(metric, random_state=0, **settings).fit(train.X, train.y)
        network = model.network_

        def best_of(multiplier: float, network: nn.Module = network) -> Tensor:
            return supremum_by_starts(network, metric, x, multiplier)

        result[f"ρ = {rho:g}"] = shares(network, metric, x, best_of)
        log("adult", rho, result[f"ρ = {rho:g}"])
    return result


def splits_done() -> int:
    """Return on how many splits networks are trained with each number of steps."""
    rows = read_result(RESULT).get("trained", {}).get("result", [])
    return len(rows[0]["certificate"]) if rows else 0


def trained() -> list[dict[str, Any]]:
    """Networks on Adult by budget and number of steps: certificate, accuracy, λ, and cost.

    λ is the mean of the last hundred mini-batches, milliseconds are those of a mini-batch. What the
    results have of a split is not measured again; each split is written when it is whole.
    """
    rows: list[dict[str, Any]] = read_result(RESULT).get("trained", {}).get("result", [])
    columns = {(row["perturbation_budget"], row["full_steps"]): row for row in rows}
    for seed in range(splits_done(), SPLITS):
        train, test, metric, _ = adult_split(Store(), seed)
        for budget in BUDGETS:
            for steps in TRAINED_STEPS:
                settings = {**ADULT, "perturbation_budget": budget, "full_steps": steps}
                started = time.process_time()
                model = SenSeIClassifier(metric, random_state=seed, **settings)
                model.fit(train.X, train.y)
                spent = 1e3 * (time.process_time() - started) / ADULT["n_steps"]
                some = test.X[:CERTIFIED]
                certificate = certify(model.network_, some, metric, [budget], draws=0, seed=seed)
                decided = model.predict(test.X)
                rates = [float((decided[test.y == label] == label).mean()) for label in (0, 1)]
                values = {
                    "certificate": float(certificate.values[0]),
                    "balanced_accuracy": statistics.fmean(rates),
                    "multiplier": statistics.fmean(model.history_["multiplier"][-100:]),
                    "milliseconds": spent,
                }
                log("trained", seed, budget, steps, values)
                setting = {"perturbation_budget": budget, "full_steps": steps}
                row = columns.setdefault((budget, steps), setting)
                for name, value in values.items():
                    row.setdefault(name, []).append(round(value, 6))
        keep("trained", list(columns.values()))
    return list(columns.values())


PARTS = {"square": square, "adult": adult, "trained": trained}


def keep(name: str, measured: Any) -> None:
    """Write a part next to the others, with its provenance."""
    origin = provenance(f"python -m benchmarks.studies.inner_search {name}")
    write_result(RESULT, read_result(RESULT) | {name: {**origin, "result": measured}})


def main(names: Sequence[str]) -> None:
    """Measure the named parts (default: all)."""
    code_state()
    for name in names or PARTS:
        with threadpool_limits(1):
            torch.set_num_threads(1)
            keep(name, rounded(PARTS[name](), 6))


if __name__ == "__main__":
    main(sys.argv[1:])
