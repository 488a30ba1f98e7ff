"""Certificates of the shipped BuDRO models: over all sensitive values, and over the ball at a fair distance.

Run ``python -m benchmarks.certificates_trees [JOB ...]`` with ``EVENHAND_DATA`` set. It writes
``benchmarks/results/certificates_trees.json``. Scores are the models' own probabilities. The first call
compiles the kernels, which is not counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from evenhand.fairlib.certificates.trees import MarginBounds, TreeProver
from evenhand.fairlib.distances.base import load_metric
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.dataset import read_dataset
from evenhand.tasks.store import Store

JOBS = ("german-budro", "compas-budro", "adult-budro")
RADIUS = 0.1
SECONDS = 170.0
# People, drawn at random, for whom there is no time limit.
SAMPLE = 300


def main(names: list[str]) -> None:
    """Measure the named jobs (default: all)."""
    path = RESULTS / "certificates_trees.json"
    results: dict[str, Any] = json.loads(path.read_text())["jobs"] if path.exists() else {}
    store = Store()
    for job in names or JOBS:
        results[job] = measure(store, job)
        log(json.dumps({job: results[job]}, indent=1))
        content = provenance("python -m benchmarks.certificates_trees") | {"jobs": results}
        write_result("certificates_trees", content)


def measure(store: Store, job: str) -> dict[str, Any]:
    """Both certificates of one job's model on all test rows."""
    resolved, steps = run_unpublished(store, job, ["evaluate.draws=0"])
    prover = TreeProver(
        load_model(store.fetch(steps.output("train", "model"))),
        load_metric(store.fetch(steps.output("fair_metric", "metric"))),
    )
    encoder = TableEncoder.load(store.fetch(steps.output("preprocess", "encoder")))
    X = read_dataset(store.fetch(steps.output("preprocess", "test"))).X
    prover.margins(X[:1], RADIUS, rounds=(2,))
    columns = resolved.job.fair_metric.indicators
    choices = prover.values_of(encoder, columns)
    own = expit(prover.sums(X).astype(np.float64))
    return {
        "people": len(X),
        "trees": len(prover.trees.roots),
        "values": {
            "columns": list(columns),
            "combinations": int(np.prod([len(choice.values) for choice in choices])),
            **measured(own, lambda: prover.over_values(X, choices)),
        },
        "ball": {
            "radius": RADIUS,
            "limit_seconds": SECONDS,
            **measured(own, lambda: prover.margins(X, RADIUS, seconds=SECONDS)),
        },
        "ball_of_a_sample": sampled(prover, X, own),
    }


def sampled(prover: TreeProver, X: Any, own: Any) -> dict[str, float]:
    """The ball of some people without a time limit: `cpu_seconds` tell what all would take."""
    chosen = np.random.default_rng(0).permutation(len(X))[:SAMPLE]
    return {"people": len(chosen), **measured(own[chosen], lambda: prover.margins(X[chosen], RADIUS))}


def measured(own: Any, bound: Callable[[], MarginBounds]) -> dict[str, float]:
    """Largest and mean change of the score, found and proved; per person, how far apart the two are."""
    wall, processor = time.perf_counter(), time.process_time()
    bounds = bound()
    seconds, processor = time.perf_counter() - wall, time.process_time() - processor
    found, proved = (
        np.maximum(expit(high) - own, own - expit(low))
        for low, high in ((bounds.found_low, bounds.found_high), (bounds.low, bounds.high))
    )
    ratio = np.where(proved > 0, proved / np.maximum(found, 1e-12), 1.0)
    return {
        "seconds": seconds,
        "cpu_seconds": processor,
        "largest_change_found": float(found.max()),
        "largest_change_proved": float(proved.max()),
        "mean_change_found": float(found.mean()),
        "mean_change_proved": float(proved.mean()),
        "share_exact": float((proved == found).mean()),
        "share_within_twice": float((ratio <= 2.0).mean()),
        "decisions_flipped_found": float(((bounds.found_low <= 0) & (bounds.found_high > 0)).mean()),
        "decisions_flipped_proved": float(((bounds.low <= 0) & (bounds.high > 0)).mean()),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
