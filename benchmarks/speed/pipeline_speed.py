"""Speed: a BuDRO step on German, the overhead of the pipeline, and trees with one-hot columns
joined.

Run ``python -m benchmarks.speed.pipeline_speed [PART]`` with ``EVENHAND_DATA`` set. Every time is a median of
several and printed with the machine; what it is compared with is measured in the same run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.one_hot import OneHotRuns
from evenhand.fairlib.numerics import logistic_losses
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.store import Store

REPEATS = 5
STEPS = 90


def main() -> None:
    """Measure everything and write the results."""
    parts = {
        "german_budro_step": german_step,
        "overhead": overhead,
        "joined_columns": joined_columns,
    }
    chosen = sys.argv[1:] or list(parts)
    # a part that is not measured again keeps its figures, with their machine
    known = json.loads((RESULTS / "speed.json").read_text())
    result = known if sys.argv[1:] else provenance("python -m benchmarks.speed.pipeline_speed")
    for part in chosen:
        result[part] = parts[part]()
        if sys.argv[1:]:
            result[part] |= {
                "measured": provenance(f"python -m benchmarks.speed.pipeline_speed {part}")
            }
    write_result("speed", result)
    print(json.dumps({key: result[key] for key in chosen}, indent=1))


def german_step() -> dict[str, Any]:
    """Milliseconds of a boosting step on 800 rows, transport included, beside a plain
    implementation.
    """
    log("german-budro: boosting steps")
    store = Store()
    resolved, run = run_unpublished(store, "german-budro", ["evaluate.draws=0"])
    data = read_dataset(store.fetch(run.output("preprocess", "train")))
    metric = SensitiveSubspace.load(store.fetch(run.output("fair_metric", "metric")))
    arguments = {**resolved.arguments, "n_steps": STEPS}

    def ours() -> None:
        BudroClassifier(metric, **arguments, random_state=0).fit(data.X, data.y)

    ours()  # compile
    pairs = [
        (_timed(ours), _timed(lambda: plain_budro(data, metric, arguments))) for _ in range(REPEATS)
    ]
    fast, plain = (statistics.median(times) * 1000 / STEPS for times in zip(*pairs, strict=True))
    return {
        "rows": len(data.y),
        "features": data.X.shape[1],
        "steps": STEPS,
        "repeats": REPEATS,
        "ms_per_step": round(fast, 2),
        "plain_rendering_ms_per_step": round(plain, 2),
        "ratio": round(statistics.median(b / a for a, b in pairs), 1),
    }


def plain_budro(data: Dataset, metric: SensitiveSubspace, arguments: dict[str, Any]) -> xgb.Booster:
    """The paper's algorithm 3 with algorithm 7, implemented as printed, in array operations.

    Thirty subgradients by bisection on the full matrices, a new training matrix at every step, and
    the margin predicted afresh.
    """
    n = len(data.y)
    costs = metric.pairwise(data.X, squared=True)
    support = np.concatenate([data.X, data.X])
    labels = np.repeat([0.0, 1.0], n)
    parameters = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "base_score": 0.5,
        "scale_pos_weight": (n - data.y.sum()) / data.y.sum(),
        **{key: arguments[key] for key in ("max_depth", "eta", "reg_lambda", "min_child_weight")},
    }
    columns = np.arange(n)
    weights = np.zeros((2, n))
    weights[data.y, columns] = 1 / n
    booster = xgb.train(parameters, xgb.DMatrix(support, labels, weight=weights.ravel()), 1)
    rng = np.random.default_rng(0)
    for _ in range(arguments["n_steps"]):
        losses = logistic_losses(booster.predict(xgb.DMatrix(data.X), output_margin=True))
        reward = losses[data.y].T
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            spent = costs[(reward - middle * costs).argmax(axis=0), columns].mean()
            low, high = (
                (middle, high) if spent > arguments["perturbation_budget"] else (low, middle)
            )
        value = reward - high * costs
        tied = value >= value.max(axis=0) - 1e-12
        target = (rng.random(value.shape) * tied).argmax(axis=0)
        weights = np.zeros((2, n))
        np.add.at(weights, (data.y, target), 1 / n)
        matrix = xgb.DMatrix(support, labels, weight=weights.ravel())
        booster = xgb.train(parameters, matrix, 1, xgb_model=booster)
    return booster


def overhead() -> dict[str, Any]:
    """Seconds of wall time of whole commands: help, a cached run, and a cold run less its
    science.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        log("help")
        helped = [_timed(lambda: _evenhand(store, "--help")) for _ in range(REPEATS)]
        cold, outside, first = [], [], 0.0
        for repeat in range(4):
            log(f"cold run {repeat + 1} of 4")
            started = time.perf_counter()
            verdict = json.loads(_evenhand(store, "run", "german-budro", "--json"))
            total = time.perf_counter() - started
            assert verdict["status"] == "published", verdict["error"]
            assert not verdict["cached"], verdict["cached"]
            # training and evaluation are not overhead; reading and encoding are
            science = verdict["seconds"]["train"] + verdict["seconds"]["evaluate"]
            if repeat == 0:
                first = total  # a new store: Prefect's and MLflow's databases are created
            else:
                cold.append(total)
                outside.append(total - science)
            if repeat < 3:
                _evenhand(store, "cache", "gc", "--keep", "0")
        cached = []
        for repeat in range(5):
            log(f"cached run {repeat + 1} of 5")
            started = time.perf_counter()
            verdict = json.loads(_evenhand(store, "run", "german-budro", "--json"))
            cached.append(time.perf_counter() - started)
            assert set(verdict["cached"]) == set(verdict["seconds"]), verdict["cached"]
    return {
        "help_s": round(statistics.median(helped), 2),
        "cold_german_budro_new_store_s": round(first, 1),
        "cold_german_budro_s": round(statistics.median(cold), 1),
        "cold_german_budro_outside_train_and_evaluate_s": round(statistics.median(outside), 1),
        "cached_german_budro_s": round(statistics.median(cached), 1),
    }


def joined_columns() -> dict[str, Any]:
    """CPU seconds of trees on one core, with one-hot columns joined for XGBoost and as they are."""
    store, found = Store(), {}
    for job in ("german-gbdt", "compas-gbdt", "bank-gbdt", "adult-gbdt"):
        log(job)
        resolved, run = run_unpublished(store, job, ["evaluate.draws=0"])
        data = read_dataset(store.fetch(run.output("preprocess", "train")))

        def train(joined: bool, data: Dataset = data) -> tuple[float, bytes]:
            model = GBDTClassifier(random_state=0, n_jobs=1)
            if not joined:
                model._joined = lambda rows: (rows, None)  # type: ignore[method-assign]
            started = time.process_time()
            model.fit(data.X, data.y)
            return time.process_time() - started, bytes(model.booster_.save_raw())

        pairs = [(train(True), train(False)) for _ in range(REPEATS)]
        joined, apart = (
            statistics.median(seconds for seconds, _ in one) for one in zip(*pairs, strict=True)
        )
        found[job] = {
            "rows": len(data.y),
            "columns": data.X.shape[1],
            "joined_columns": len(OneHotRuns.of(data.X).members),
            "joined_cpu_s": round(joined, 2),
            "apart_cpu_s": round(apart, 2),
            "ratio": round(apart / joined, 2),
            "same_model": all(one[1] == other[1] for one, other in pairs),
        }
    return found


def _evenhand(store: str, *arguments: str) -> str:
    command = [sys.executable, "-c", "from evenhand.flows.cli import main; main()", *arguments]
    environment = {**os.environ, "EVENHAND_STORE": store}
    environment.pop("PREFECT_API_URL", None)
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def _timed(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
