"""BuDRO at full scale: exactness, differences from the printed setting, and a step beside others.

Run ``python -m benchmarks.reproductions.budro_paper [PART ...]`` with ``EVENHAND_DATA`` set; the parts are the names in
``PARTS`` (default: all). Every part replaces its own entry of ``benchmarks/results/budro.json``.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
import xgboost as xgb
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from benchmarks.common import RESULTS, log, provenance, rounded, run_unpublished, write_result
from benchmarks.reproductions.budro_differences import differences
from benchmarks.speed.run_scale import peak_mib
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
from evenhand.fairlib.methods.budro import NEIGHBOURS, BudroClassifier
from evenhand.fairlib.numerics import logistic_losses
from evenhand.fairlib.transport import search
from evenhand.fairlib.transport.dual import DualSolver
from evenhand.fairlib.transport.problem import TransportProblem
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.store import Store
from tests.oracles.linear_program import largest_loss

# The paper's settings for Adult (appendix C.4), used for the speed figures.
PAPER_ADULT: dict[str, Any] = {
    "perturbation_budget": 0.4,
    "n_steps": 180,
    "max_depth": 14,
    "eta": 0.005,
    "reg_lambda": 1e-4,
    "min_child_weight": 0.1 / 36177,
}
INSTANCES = 200
RATIO_STEPS = 60
# Rows of the large tables, and the standard deviation of their noise.
LARGE = (144_000, 300_000, 1_000_000)
LARGE_STEPS = 8
# The largest: rows, steps and threads.
LARGEST = (10_000_000, 50, 2)
LISTED, LISTED_STEPS = (36_177, 72_000, 144_000), 60
NOISE = 0.1
# What the shipped job and the paper have in common beside the table of parameters.
PRINTED_CHOICES: dict[str, Any] = {
    "balance_classes": True,
    "base_score": 0.5,
    "neighbours": None,
    "n_iter_no_change": None,
}


def exact() -> dict[str, Any]:
    """The solver against HiGHS, on random instances with ties and duplicates."""
    errors, overspent, gaps = [], [], []
    for seed in range(INSTANCES):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(2, 61)), int(rng.integers(1, 6))
        points = rng.integers(0, 4, (n, d)) * 1.0 if seed % 3 == 0 else rng.normal(size=(n, d))
        if seed % 4 == 1:
            points = points[rng.integers(0, max(1, n // 2), n)]
        losses = rng.exponential(size=(2, n))
        losses = np.round(losses * 2) / 2 if seed % 5 == 1 else losses
        labels = rng.integers(0, 2, n)
        costs = cdist(points, points, "sqeuclidean")
        problem = TransportProblem(points, labels, float(rng.random() * costs.mean()))
        best = largest_loss(costs, losses[labels].T, problem.budget)
        plan = DualSolver(problem).solve(losses)
        errors.append(abs(plan.value - best) / max(abs(best), 1e-12))
        overspent.append(max(0.0, plan.spent - problem.budget))
        gaps.append(abs(plan.bound - plan.value))
    return {
        "instances": INSTANCES,
        "oracle": f"scipy {scipy.__version__}, HiGHS",
        "largest_relative_difference": max(errors),
        "largest_overspending": max(overspent),
        "largest_duality_gap": max(gaps),
    }


def ratios() -> dict[str, Any]:
    """A step of BuDRO on Adult beside one of plain XGBoost and one of Algorithm 2 with stored
    costs.

    All are timed in turn in one process, with one thread, in seconds of the CPU. Only the ratios
    are of use on a busy machine.
    """
    data, metric = _training(Store(), "adult-budro")
    stored = _StoredCosts(metric.project(data.X), data.y)
    return _beside_plain(data.X, data.y, metric, {}, stored)


def smooth() -> dict[str, Any]:
    """As `ratios`, where losses are smooth: shallow trees, and then also two features, both
    informative.
    """
    data, metric = _training(Store(), "adult-budro")
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(len(data.y), 2)).astype(np.float32)
    above = (rng.random(len(plane)) < 1.0 / (1.0 + np.exp(-plane.sum(axis=1)))).astype(np.int64)
    shallow = {"max_depth": 2}
    return {
        "adult": _beside_plain(data.X, data.y, metric, shallow),
        "two_features": _beside_plain(plane, above, None, shallow | {"perturbation_budget": 0.01}),
    }


def _beside_plain(
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    metric: SensitiveSubspace | None,
    settings: dict[str, Any],
    stored: _StoredCosts | None = None,
) -> dict[str, Any]:
    n = len(y)
    labels = np.repeat(np.arange(2), n)
    weights = np.zeros((2, n))
    weights[y, np.arange(n)] = 1 / n
    support = xgb.QuantileDMatrix(
        np.concatenate([X] * 2), label=labels, weight=weights.ravel(), nthread=1
    )
    arguments = PAPER_ADULT | PRINTED_CHOICES | {"n_steps": RATIO_STEPS} | settings
    model = BudroClassifier(metric, **arguments, n_jobs=1, random_state=0)
    names = {
        "eta": "eta",
        "max_depth": "max_depth",
        "reg_lambda": "lambda",
        "min_child_weight": "min_child_weight",
    }
    parameters = {theirs: getattr(model, ours) for ours, theirs in names.items()}
    parameters |= {
        "objective": "binary:logistic",
        "base_score": 0.5,
        "tree_method": "hist",
        "nthread": 1,
    }
    parameters["scale_pos_weight"] = (y == 0).sum() / (y == 1).sum()
    booster = xgb.Booster(parameters, [support])
    seconds: dict[str, list[float]] = {"budro": [], "plain": []}
    if stored is not None:
        seconds["stored"] = []

    ended: list[float] = []

    def after(step: int, steps: int, progress: Any) -> None:
        started = time.process_time()
        if ended:  # the first step begins with the set-up
            seconds["budro"].append(started - ended[-1])
        booster.update(support, step)
        seconds["plain"].append(time.process_time() - started)
        if stored is not None and step % 20 == 0:
            margin = booster.predict(support, output_margin=True)[:n]
            started = time.process_time()
            stored.best_rows(logistic_losses(margin), progress["multiplier"])
            # the printed settings evaluate 100 batches of 200 columns, then all columns
            scale = (n + 100 * 200) / stored.columns
            seconds["stored"].append(scale * (time.process_time() - started))
        ended.append(time.process_time())

    # compile
    few = model.get_params(deep=False) | {"n_steps": 12}
    BudroClassifier(**few).fit(X[:3000], y[:3000])
    model.fit(X, y, callback=after)
    step = {name: statistics.median(times) for name, times in seconds.items()}
    found = {
        "rows": n,
        "steps": RATIO_STEPS,
        "threads": 1,
        "over_plain_xgboost": round(step["budro"] / step["plain"], 1),
        "mean_over_plain_xgboost": round(np.mean(seconds["budro"]) / np.mean(seconds["plain"]), 1),
        "seconds": {name: round(value, 4) for name, value in step.items()},
    }
    if stored is not None:
        found["stored_costs_over_budro"] = round(step["stored"] / step["budro"], 1)
        found["stored_costs_bytes"] = 4 * n * n
    return found


class _StoredCosts:
    """Squared distances of some columns to all rows in single precision, as the authors' code
    stores all.
    """

    def __init__(
        self, points: NDArray[np.float64], labels: NDArray[Any], columns: int = 2000
    ) -> None:
        chosen = np.random.default_rng(0).choice(len(points), columns, replace=False)
        self.columns = columns
        self.labels = labels[chosen]
        self.costs = cdist(points[chosen], points, "sqeuclidean").astype(np.float32)

    def best_rows(self, losses: NDArray[np.float64], multiplier: float) -> NDArray[np.int64]:
        """Row of the largest loss less its cost, for each column."""
        table = losses.astype(np.float32)
        found = []
        for first in range(0, self.columns, 200):
            part = slice(first, first + 200)
            values = self.costs[part] * np.float32(-multiplier)
            values += table[self.labels[part]]
            found.append(values.argmax(axis=1))
        return np.concatenate(found)


def large() -> list[dict[str, Any]]:
    """Exact steps on Adult's rows, repeated with noise in the numbers, each size in a process of
    its own.

    CPU seconds of one thread: of the set-up, of the first step, which includes it, and of a later
    one.
    """
    return _each("one_large", [(rows, LARGE_STEPS, 1) for rows in LARGE])


def largest() -> list[dict[str, Any]]:
    """As `large`, ten million rows on two threads, with the seconds of the clock."""
    return _each("one_large", [LARGEST])


def lists() -> list[dict[str, Any]]:
    """Default trainings that list the nearest rows of each person, and that search all; as in
    `large`.
    """
    return _each(
        "one_listed", [(rows, nearest) for rows in LISTED for nearest in (NEIGHBOURS, None)]
    )


def _each(function: str, sizes: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Results of a function for each size, in processes of their own, with Adult's rows and fair
    metric.
    """
    store = Store()
    _, run = run_unpublished(store, "adult-budro", ["evaluate.draws=0", "method.n_steps=1"])
    data = read_dataset(store.fetch(run.output("preprocess", "train")))
    metric = store.fetch(run.output("fair_metric", "metric"))
    numbers = [j for j, name in enumerate(data.names) if "=" not in name]
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        np.savez(f"{scratch}/adult.npz", X=data.X, y=data.y, numbers=numbers)
        for size in sizes:
            call = f"{function}({scratch!r}, {str(metric)!r}, *{size})"
            call = f"from benchmarks.reproductions.budro_paper import {function}; {call}"
            done = subprocess.run(
                [sys.executable, "-c", call], stdout=subprocess.PIPE, text=True, check=True
            )
            found.append(json.loads(done.stdout.splitlines()[-1]))
            log(found[-1])
    return found


def one_large(folder: str, metric: str, rows: int, steps: int, jobs: int) -> None:
    """Train on so many rows, and print the seconds and the peak memory."""
    X, y = _drawn_again(folder, rows)
    ended = [(time.process_time(), time.perf_counter())]
    # seconds of making the cells, and the cells
    setup: list[Any] = []
    build = search.build_cells

    def timed(places: NDArray[np.float64], jobs: int) -> search.Cells:
        started = time.process_time()
        cells = build(places, jobs)
        setup.extend([time.process_time() - started, cells])
        return cells

    search.build_cells = timed
    model = BudroClassifier(
        SensitiveSubspace.load(metric), n_steps=steps, max_depth=4, neighbours=None,
        n_iter_no_change=None, n_jobs=jobs, random_state=0,
    )  # fmt: skip

    def after(*_: Any) -> None:
        ended.append((time.process_time(), time.perf_counter()))
        print(len(ended) - 1, *np.diff(ended[-2:], axis=0)[0].round(1), file=sys.stderr)

    with threadpool_limits(jobs):
        model.fit(X, y, callback=after)
    seconds, clock = np.diff(ended, axis=0).T
    found = {
        "rows": rows,
        "steps": steps,
        "threads": jobs,
        "cpu_seconds": {
            "set_up": setup[0],
            "first_step": seconds[0],
            "median_step": np.median(seconds[1:]),
            "all": seconds.sum(),
        },
        "seconds": {
            "first_step": clock[0],
            "median_step": np.median(clock[1:]),
            "all": clock.sum(),
        },
        "cells": len(setup[1].near.apart),
        "pairs_of_cells": setup[1].near.known.mean(),
        "peak_mib": peak_mib(),
        "multiplier": model.history_["multiplier"][-1],
    }
    print(json.dumps(rounded(found, 4), default=float))


def one_listed(folder: str, metric: str, rows: int, nearest: int | None) -> None:
    """Train with the defaults on so many rows, and print the seconds and the peak memory."""
    X, y = _drawn_again(folder, rows)
    ended = [time.process_time()]
    model = BudroClassifier(
        SensitiveSubspace.load(metric),
        neighbours=nearest,
        n_steps=LISTED_STEPS,
        n_jobs=1,
        random_state=0,
    )
    with threadpool_limits(1):
        model.fit(X, y, callback=lambda *_: ended.append(time.process_time()))
    seconds = np.diff(ended)
    found = {
        "rows": rows,
        "neighbours": nearest,
        "cpu_seconds": {
            "first_step": seconds[0],
            "median_step": np.median(seconds[1:]),
            "all": seconds.sum(),
        },
        "steps": len(seconds),
        "peak_mib": peak_mib(),
        "held_out_loss": -max(model.history_["validation"]),
        "proven_gap": max(model.history_["gap"]),
    }
    print(json.dumps(rounded(found, 4), default=float))


def _drawn_again(folder: str, rows: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows of Adult and their labels: all, and others drawn again with noise in the numbers."""
    table = np.load(f"{folder}/adult.npz")
    rng = np.random.default_rng(0)
    drawn = np.append(
        np.arange(len(table["y"])), rng.integers(0, len(table["y"]), rows - len(table["y"]))
    )
    X, y = table["X"][drawn], table["y"][drawn]
    noise = NOISE * rng.standard_normal((rows - len(table["y"]), len(table["numbers"])))
    X[len(table["y"]) :, table["numbers"]] += noise.astype(np.float32)
    return X, y


def _training(store: Store, job: str) -> tuple[Dataset, SensitiveSubspace]:
    _, run = run_unpublished(store, job, ["evaluate.draws=0"])
    data = read_dataset(store.fetch(run.output("preprocess", "train")))
    return data, SensitiveSubspace.load(store.fetch(run.output("fair_metric", "metric")))


PARTS = {
    "exact": exact,
    "ratios": ratios,
    "smooth": smooth,
    "large": large,
    "largest": largest,
    "lists": lists,
    "differences": lambda: differences(os.environ.get("XGBOOST_090")),
}


def main(names: list[str]) -> None:
    """Measure the named parts (default: all)."""
    path = RESULTS / "budro.json"
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in names or PARTS:
        content = provenance(f"python -m benchmarks.reproductions.budro_paper {name}")
        kept[name] = content | {"result": PARTS[name]()}
        write_result("budro", kept)
        if not isinstance(kept[name]["result"], list):
            print(json.dumps(kept[name]["result"], indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
