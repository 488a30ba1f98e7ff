"""SenSeI trained with and without a proved bound in its loss: what can be proved at equal balanced accuracy.

    python -m benchmarks.bound_training [--jobs J ...] [--seeds N]

For each shipped SenSeI job and seed: the weight of the bound is chosen on training rows alone, as the largest
of ``WEIGHTS`` whose balanced accuracy on a held-out fifth of them is at most ``LOSS`` below that without the
bound. Then both networks are trained on all training rows, and measured on the test rows: balanced accuracy,
and the certificate at ``BUDGET`` by the same prover, for the same 100 random people. What is in the file of
results is not run again.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score

from benchmarks.certificates import ball, mean
from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from evenhand.fairlib.distances.base import load_metric
from evenhand.fairlib.methods.groups import hold_out
from evenhand.fairlib.methods.registry import method_class
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.dataset import Dataset, read_dataset
from evenhand.tasks.store import Store

JOBS = ("german-sensei", "compas-sensei", "adult-sensei")
WEIGHTS, LOSS, BUDGET = (0.03, 0.1, 0.3, 1.0), 0.005, 0.01
PEOPLE, PARTS = 100, 300


def main() -> None:
    """Run what the file of results lacks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", nargs="*", default=list(JOBS), choices=JOBS)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    known = RESULTS / "bound_training.json"
    results: list[dict[str, Any]] = json.loads(known.read_text())["results"] if known.is_file() else []
    for job in given.jobs:
        for seed in range(given.seeds):
            if any((row["job"], row["seed"]) == (job, seed) for row in results):
                continue
            results.append({"job": job, "seed": seed} | compared(job, seed))
            log(results[-1])
            content = provenance("python -m benchmarks.bound_training")
            write_result("bound_training", {**content, "budget": BUDGET, "parts": PARTS, "results": results})


def compared(job: str, seed: int) -> dict[str, Any]:
    """The chosen weight, and both networks on the test rows."""
    store = Store()
    _, steps = run_unpublished(store, job, ["evaluate.draws=0", "evaluate.proof_parts=0"])
    resolved = resolve(*load_job(job))
    metric = load_metric(store.fetch(steps.output("fair_metric", "metric")))
    train, test = (read_dataset(store.fetch(steps.output("preprocess", part))) for part in ("train", "test"))

    def trained(data: Dataset, weight: float) -> Any:
        settings = {**resolved.arguments, "perturbation_budget": BUDGET, "bound_weight": weight}
        model: Any = method_class(resolved.method)(**settings, metric=metric, random_state=seed)
        return model.fit(data.X, data.y)

    def accuracy(model: Any, data: Dataset) -> float:
        return float(balanced_accuracy_score(data.y, model.predict(data.X)))

    kept, held = hold_out(train.y, 0.2, seed)
    found = {
        weight: accuracy(trained(train.take(kept), weight), train.take(held)) for weight in (0.0, *WEIGHTS)
    }
    weight = max(weight for weight in found if found[weight] >= found[0.0] - LOSS)
    people = test.X[np.random.default_rng(0).permutation(len(test.X))[:PEOPLE]]
    both = {}
    for name, each in (("without", 0.0), ("with", weight)):
        model = trained(train, each)
        both[name] = {
            "balanced_accuracy": accuracy(model, test),
            "spread": float(np.subtract(*np.quantile(model.predict_proba(test.X)[:, 1], [0.95, 0.05]))),
            "ball": ball(model.network_, metric, people, BUDGET, PARTS),
            "mean": mean(model, metric, people[: PEOPLE // 4], BUDGET, PARTS),
        }
    return {"held_out": {str(key): value for key, value in found.items()}, "weight": weight, **both}


if __name__ == "__main__":
    main()
