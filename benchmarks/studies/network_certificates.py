"""Found and proved certificates of the shipped SenSeI networks, at balls and at mean budgets.

Run from the repository root: ``python -m benchmarks.studies.network_certificates [people]``. It writes
``benchmarks/results/certificates.json``. Seconds are CPU seconds of one process. Each job has its
own number of parts per person and radius.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.common import log, provenance, run_unpublished, write_result
from evenhand.fairlib.certificates.branching import MARGIN, network_rings
from evenhand.fairlib.certificates.measures import score_change, squared_length
from evenhand.fairlib.certificates.proof import prove
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.methods.registry import load_model
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store

JOBS = {"german-sensei": 3000, "compas-sensei": 2000, "adult-sensei": 600}
BUDGETS = (0.0, 0.01, 0.1)


def ball(network: Any, metric: Any, X: Any, budget: float, parts: int) -> dict[str, float]:
    """Mean over people of the largest squared change of the logits, and the largest change of a
    score.
    """
    start = time.process_time()
    radii = [0.0, float(np.sqrt(budget))][: 1 + (budget > 0)]
    *_, ring = network_rings(network, metric, X, radii, parts=parts)
    seconds = time.process_time() - start
    assert ring.longest is not None
    found = float(np.square(ring.longest).mean() / 2)
    proved = float(squared_length(ring.proved - ring.own).mean() / 2)
    score = score_change(ring.columns(MARGIN, np.sqrt(2.0)), expit)
    return {
        "found": found,
        "proved": proved,
        "ratio": proved / found,
        "score_found": score.found,
        "score_proved": score.proved,
        "cpu_seconds": seconds,
    }


def mean(model: Any, metric: Any, X: Any, budget: float, parts: int) -> dict[str, Any]:
    """The same at a mean budget, with decisions."""
    start = time.process_time()
    proof = prove(model, X, metric, budget, parts=parts)
    found = {name: vars(interval) for name, interval in proof.intervals.items()}
    return {**found, "unchanged": proof.unchanged, "cpu_seconds": time.process_time() - start}


def main(people: int = 100) -> None:
    """Measure all jobs and print a table."""
    store, results = Store(), []
    for job, parts in JOBS.items():
        _, steps = run_unpublished(store, job, ["evaluate.draws=0", "evaluate.proof_parts=0"])
        model = load_model(store.fetch(steps.output("train", "model")))
        metric = load_metric(store.fetch(steps.output("fair_metric", "metric")))
        X = read_dataset(store.fetch(steps.output("preprocess", "test"))).X
        chosen = np.random.default_rng(0).permutation(len(X))[:people]
        for budget in BUDGETS:
            near = ball(model.network_, metric, X[chosen], budget, parts)
            row = {
                "job": job,
                "budget": budget,
                "people": len(chosen),
                "parts": parts,
                "ball": near,
            }
            if budget > 0:
                row["mean"] = mean(model, metric, X[chosen[: people // 4]], budget, parts // 8)
                row["mean_people"] = len(chosen[: people // 4])
            results.append(row)
            log(
                job,
                budget,
                {name: round(value, 4) for name, value in near.items()},
                row.get("mean", ""),
            )
        write_result(
            "certificates",
            {**provenance("python -m benchmarks.studies.network_certificates"), "results": results},
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
