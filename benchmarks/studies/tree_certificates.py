"""Certificates of the shipped BuDRO models: over all sensitive values, and over the ball at a fair
distance.

Run ``python -m benchmarks.studies.tree_certificates [JOB ...]`` with ``EVENHAND_DATA`` set. It writes
``benchmarks/results/certificates_trees.json``. Scores are the models' own probabilities. The first
call compiles the kernels, which is not counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from evenhand.fairlib.certificates.networks import NotProvedError
from evenhand.fairlib.certificates.trees import MarginBounds, TreeProver
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store
from tests.oracles.enumerated_trees import Choice, over_values

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
        content = provenance("python -m benchmarks.studies.tree_certificates") | {"jobs": results}
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
    fair_metric: Any = resolved.job.fair_metric
    columns = fair_metric.indicators
    choices = values_of(prover, encoder, columns)
    own = expit(prover.sums(X).astype(np.float64))
    return {
        "people": len(X),
        "trees": len(prover.trees.roots),
        "values": {
            "columns": list(columns),
            "combinations": int(np.prod([len(choice.values) for choice in choices])),
            **measured(own, lambda: over_values(prover, X, choices)),
        },
        "ball": {
            "radius": RADIUS,
            "limit_seconds": SECONDS,
            **measured(own, lambda: prover.margins(X, RADIUS, seconds=SECONDS)),
        },
        "ball_of_a_sample": sampled(prover, X, own),
    }


def values_of(prover: TreeProver, encoder: TableEncoder, columns: Sequence[str]) -> list[Choice]:
    """All values of columns of the table that can make a difference to the trees.

    Of a column with categories these are the categories. Of a number they are one value in each
    interval between neighbouring thresholds, within the metric's feature bounds. NotProvedError: a
    number with several matrix columns, or one that the model reads projected.
    """
    found = []
    for name in columns:
        places = encoder.groups_[name]
        if encoder.categories_.get(name):
            copies = encoded_copies(
                encoder, np.zeros((1, len(encoder.feature_names_)), np.float32), {name: "all"}
            )
            found.append(Choice(places, np.concatenate(copies)[:, places]))
            continue
        if len(places) > 1 or prover.project is not None:
            raise NotProvedError(f"the values of the column {name!r} cannot be enumerated")
        bounds, place = prover.metric.feature_bounds_, np.searchsorted(prover.features, places[0])
        used = place < len(prover.features) and prover.features[place] == places[0]
        cuts = prover.trees.cuts[(prover.trees.cut_features == place) & used]
        low, high = (np.float32(end[places[0]]) for end in (bounds.low, bounds.high))
        values = np.array([low, *cuts[(cuts > low) & (cuts <= high)]], dtype=np.float32)
        found.append(Choice(places, values[:, None]))
    return found


def sampled(prover: TreeProver, X: Any, own: Any) -> dict[str, float]:
    """The ball of some people without a time limit: `cpu_seconds` tell what all would take."""
    chosen = np.random.default_rng(0).permutation(len(X))[:SAMPLE]
    return {
        "people": len(chosen),
        **measured(own[chosen], lambda: prover.margins(X[chosen], RADIUS)),
    }


def measured(own: Any, bound: Callable[[], MarginBounds]) -> dict[str, float]:
    """Largest and mean change of the score, found and proved; per person, how far apart the two
    are.
    """
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
        "decisions_flipped_found": float(
            ((bounds.found_low <= 0) & (bounds.found_high > 0)).mean()
        ),
        "decisions_flipped_proved": float(((bounds.low <= 0) & (bounds.high > 0)).mean()),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
