"""SenSeI trained with and without a proved bound in its loss, its controls, and inFairness's
SenSeI.

    python -m benchmarks.studies.bound_training [--jobs J ...] [--seeds N] [--models M ...]

For each shipped SenSeI job and seed, all by the same prover for the same 100 random people, on the
test rows:

- *without*, *with*: our SenSeI without and with a bound in its loss. The weight of the bound is chosen on
  training rows alone, as the largest of ``WEIGHTS`` whose balanced accuracy on a held-out fifth of
  them is at most ``LOSS`` below that without the bound.
- *plain*: the same network, batches and steps without mitigation.
- *blind*: plain, trained with 0 in the sensitive columns, with weights of 0 for them afterwards.
- *inFairness*: SenSeI of inFairness 0.2.3 (German and COMPAS) with the same network, metric,
  batches, steps, learning rate and budget, and half of rho, because its distance of outputs is a
  sum over two logits and ours a mean. The auditor is that of its examples: 100 steps of length
  .001.

The budget is ``BUDGET``. What is in the file of results is not run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from benchmarks.reproductions.sensei_paper import SPEED_SETTINGS, Peer
from benchmarks.studies.network_certificates import ball, mean
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.methods.registry import method_class
from evenhand.fairlib.splits import hold_out
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.store import Store

JOBS = ("german-sensei", "compas-sensei", "adult-sensei")
WEIGHTS, LOSS, BUDGET = (0.03, 0.1, 0.3, 1.0), 0.005, 0.01
PEOPLE, PARTS = 100, 300
MODELS = ("without", "with", "plain", "blind", "inFairness")
BESIDE_PEER = ("german-sensei", "compas-sensei")
Row = dict[str, Any]


def main() -> None:
    """Run what the file of results lacks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", nargs="*", default=list(JOBS), choices=JOBS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=MODELS)
    given = parser.parse_args()
    known = RESULTS / "bound_training.json"
    results: list[Row] = json.loads(known.read_text())["results"] if known.is_file() else []
    for job in given.jobs:
        for seed in range(given.seeds):
            row = next((row for row in results if (row["job"], row["seed"]) == (job, seed)), None)
            if row is None:
                results.append(row := {"job": job, "seed": seed})
            for name, found in measured(row, given.models):
                row[name] = found
                log(job, seed, name, found)
                content = provenance("python -m benchmarks.studies.bound_training")
                write_result(
                    "bound_training",
                    {**content, "budget": BUDGET, "parts": PARTS, "results": results},
                )


def measured(row: Row, models: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """What a row lacks: the chosen weight, and each of these networks on the test rows."""
    job, seed = row["job"], row["seed"]
    store = Store()
    _, steps = run_unpublished(store, job, ["evaluate.draws=0", "evaluate.proof_parts=0"])
    resolved = resolve(*load_job(job))
    metric = load_metric(store.fetch(steps.output("fair_metric", "metric")))
    train, test = (
        read_dataset(store.fetch(steps.output("preprocess", part))) for part in ("train", "test")
    )

    def trained(data: Dataset, weight: float, **others: Any) -> Any:
        settings = {
            **resolved.arguments,
            "perturbation_budget": BUDGET,
            "bound_weight": weight,
            **others,
        }
        model: Any = method_class(resolved.method)(**settings, metric=metric, random_state=seed)
        return model.fit(data.X, data.y)

    def accuracy(model: Any, data: Dataset) -> float:
        return float(balanced_accuracy_score(data.y, model.predict(data.X)))

    if "weight" not in row:
        kept, held = hold_out(train.y, 0.2, seed)
        found = {
            weight: accuracy(trained(train.take(kept), weight), train.take(held))
            for weight in (0.0, *WEIGHTS)
        }
        yield "held_out", {str(key): value for key, value in found.items()}
        yield "weight", max(weight for weight in found if found[weight] >= found[0.0] - LOSS)

    def blind() -> Any:
        columns = train.sensitive_positions()
        model = trained(train.with_zeros_in(columns), 0.0, rho=0.0)
        with torch.no_grad():
            model.network_[0].weight[:, columns] = 0.0
        return model

    def peer() -> Any:
        # whose network is then replaced
        model, arguments = trained(train, 0.0, n_steps=1), resolved.arguments
        other = Peer(
            train,
            metric,
            rho=arguments["rho"] / 2,
            budget=BUDGET,
            steps=SPEED_SETTINGS["steps"],
            rate=SPEED_SETTINGS["rate"],
            batch=arguments["batch_size"],
            hidden=model.hidden,
            learning_rate=arguments["learning_rate"],
            seed=seed,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            other.epoch(arguments["n_steps"])
        model.network_ = other.network.eval()
        return model

    makers = {
        "without": lambda: trained(train, 0.0),
        "with": lambda: trained(train, row["weight"]),
        # with rho 0 SenSeI is the plain network, bit for bit
        "plain": lambda: trained(train, 0.0, rho=0.0),
        "blind": blind,
        **({"inFairness": peer} if job in BESIDE_PEER else {}),
    }
    people = test.X[np.random.default_rng(0).permutation(len(test.X))[:PEOPLE]]
    for name, make in makers.items():
        if name in row or name not in models:
            continue
        model = make()
        yield (
            name,
            {
                "balanced_accuracy": accuracy(model, test),
                "spread": float(
                    np.subtract(*np.quantile(model.predict_proba(test.X)[:, 1], [0.95, 0.05]))
                ),
                "ball": ball(model.network_, metric, people, BUDGET, PARTS),
                "mean": mean(model, metric, people[: PEOPLE // 4], BUDGET, PARTS),
            },
        )


if __name__ == "__main__":
    main()
