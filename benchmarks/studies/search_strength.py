"""The search of certificates beside projected gradient and a grid, on the shipped SenSeI networks.

    python -m benchmarks.studies.search_strength [PEOPLE]

For random test rows and each budget, the mean squared change of the logits that is found

- within the fair distance of the budget's root for each person: `found` of the proof
  (:func:`evenhand.fairlib.certificates.branching.network_rings`) at the default effort;
- within the mean budget over all people: :func:`evenhand.fairlib.evaluation.certificates.certify` at its
  defaults (`mean`); what a run reports as ``certificate.dif.found`` is the larger of it and of what
  the proof found at its radii (`reported`);

beside ``RESTARTS`` restarts of ``STEPS`` steps of projected gradient per person and radius, and,
for moves of fair distance 0, a grid along up to three free directions. The stronger of the two
counts, for each person. At a mean budget the other side may spend as it likes on what it found at
``RADII``.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from benchmarks.studies.certificate_attacks import Comparable
from evenhand.fairlib.certificates.branching import network_rings
from evenhand.fairlib.certificates.proof import prove
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.evaluation.budget_allocation import concave_hulls
from evenhand.fairlib.evaluation.certificates import certify
from evenhand.fairlib.methods.registry import load_model
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store

Float = NDArray[np.float64]
JOBS = ("german-sensei", "compas-sensei", "adult-sensei")
BUDGETS = (0.0, 0.001, 0.01, 0.1)
# Roots of the budgets, and two more that a mean budget may be spent on.
RADII = (0.0, *(float(np.sqrt(budget)) for budget in BUDGETS[1:]), 1.0, 3.0)
RESTARTS, STEPS = 50, 100
GRID = (0, 2000, 60, 16)
# Default effort of the proof.
PARTS = 8
SHARE = 0.99


class Change:
    """The mean squared change of a network's logits from each person's, and the largest that was
    seen.
    """

    def __init__(self, network: torch.nn.Module, X: Float) -> None:
        self.network = network
        with torch.no_grad():
            self.own = network(torch.tensor(X, dtype=torch.float32))
        self.best = np.zeros(len(X))

    def slope(self, points: Float) -> Float:
        """Gradient at points (m, n, d), which are counted."""
        x = torch.tensor(points, dtype=torch.float32, requires_grad=True)
        change = (self.network(x) - self.own).square().mean(dim=-1)
        self.best = np.maximum(self.best, change.detach().max(dim=0).values.numpy())
        (found,) = torch.autograd.grad(change.sum(), x)
        return np.asarray(found.double().numpy())


def strong(network: torch.nn.Module, metric: Metric, X: Float, radius: float) -> dict[str, Float]:
    """The largest change of each person that projected gradient and the grid find within a
    radius.
    """
    near, climbed = Comparable(metric, X, radius), Change(network, X)
    climbed.slope(near.points(*near.climb(climbed.slope, RESTARTS, STEPS)))
    found = {"gradient": climbed.best}
    if radius == 0.0:
        tried = Change(network, X)
        for part in np.array_split(near.grid(GRID), 20):
            tried.slope(near.points(np.broadcast_to(0.0 * X, (len(part), *X.shape)), part))
        found["grid"] = tried.best
    return found


def measure(network: torch.nn.Module, metric: Metric, X: Float) -> list[dict[str, Any]]:
    """Both searches beside the stronger other one, for each budget."""
    start = time.process_time()
    others = [strong(network, metric, X, radius) for radius in RADII]
    seconds = [time.process_time() - start]
    # what is within a radius is within a larger one
    best = np.maximum.accumulate([np.max(list(found.values()), axis=0) for found in others])
    spent = np.broadcast_to(np.square(RADII)[:, None], best.shape)
    bound = concave_hulls(np.ascontiguousarray(best.T), np.ascontiguousarray(spent.T))
    start = time.process_time()
    mean = certify(network, X, metric, BUDGETS, draws=0).values
    seconds.append(time.process_time() - start)
    start = time.process_time()
    rows = []
    for index, budget in enumerate(BUDGETS):
        radius = RADII[index]
        radii = [0.0, radius / 2, radius] if radius else [0.0]
        longest = network_rings(network, metric, X, radii, parts=PARTS)[-1].longest
        assert longest is not None
        found = np.square(longest) / 2
        missed = found < SHARE * best[index]
        rows.append(
            {
                "budget": budget,
                "ball": float(found.mean()),
                "ball_stronger": float(best[index].mean()),
                "ball_share": float(found.mean() / best[index].mean()),
                **{f"ball_{name}": float(each.mean()) for name, each in others[index].items()},
                "people_below": float(missed.mean()),
                "mean": float(mean[index]),
                "mean_stronger": (stronger := float(bound.allocate(np.array([budget]))[0][0])),
                "mean_share": float(mean[index] / stronger),
            }
        )
    seconds.append(time.process_time() - start)
    log(
        "CPU seconds of the others, of certify and of the proofs:",
        *(f"{each:.0f}" for each in seconds),
    )
    return rows


def main(people: int = 200) -> None:
    """Measure what the file of results lacks."""
    path, store = RESULTS / "search_strength.json", Store()
    results: list[dict[str, Any]] = (
        json.loads(path.read_text())["results"] if path.is_file() else []
    )
    for job in JOBS:
        _, steps = run_unpublished(store, job, ["evaluate.draws=0", "evaluate.proof_parts=0"])
        model = load_model(store.fetch(steps.output("train", "model")))
        metric = load_metric(store.fetch(steps.output("fair_metric", "metric")))
        X = read_dataset(store.fetch(steps.output("preprocess", "test"))).X.astype(np.float64)
        X = X[np.random.default_rng(0).permutation(len(X))[:people]]
        if not any(row["job"] == job for row in results):
            for row in measure(model.network_, metric, X):
                results.append(
                    {"job": job, "people": len(X), "free": metric.basis_.shape[1], **row}
                )
        for row in results:
            if row["job"] == job and "reported" not in row:
                proof = prove(model, X, metric, row["budget"], parts=PARTS)
                row["reported"] = max(row["mean"], proof.intervals["certificate.dif"].found)
                row["reported_share"] = row["reported"] / row["mean_stronger"]
                log(
                    {
                        name: round(value, 5) if name != "job" else value
                        for name, value in row.items()
                    }
                )
        write_result(
            "search_strength",
            {**provenance("python -m benchmarks.studies.search_strength"), "results": results},
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
