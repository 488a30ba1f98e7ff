"""Evaluation of a million people: seconds and memory of the metrics with their intervals, alone and
paired.

Run ``python -m benchmarks.speed.evaluate_speed``; it needs no data. Synthetic people of two sensitive
attributes (2 and 5 groups) and their intersection, with continuous scores and two sets of
counterfactual copies, are measured with 1000 bootstrap draws: one model, then a model and a
baseline with the paired comparison of the two. Every measurement has its own process. It is
compared with a bootstrap that resamples rows, on a tenth of the rows and, with a few draws, on all.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import log, provenance, write_result
from evenhand.fairlib.evaluation.bootstrap import CellCounts, score_table
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.group_selection import GroupSelection
from evenhand.fairlib.evaluation.measuring import measure, metric_values
from evenhand.fairlib.evaluation.metrics import auc
from evenhand.fairlib.evaluation.outcomes import Outcomes, encode_groups, with_intersections
from evenhand.fairlib.evaluation.paired import compare

ROWS = 1_000_000
DRAWS = 1000
RESAMPLED_DRAWS = 20
REPEATS = 3
TARGET = {"seconds": 60, "peak_gb": 2}


def main(arguments: list[str]) -> None:
    """Measure everything and write the results; with ``--measure WHAT``, one thing in this
    process.
    """
    if arguments:
        print(json.dumps(MEASURES[arguments[1]]()))
        return
    result = provenance("python -m benchmarks.speed.evaluate_speed")
    result |= {"rows": ROWS, "draws": DRAWS, "repeats": REPEATS, "target": TARGET}
    for what in MEASURES:
        result[what] = repeated(what)
    write_result("evaluate", result)
    print(json.dumps({key: result[key] for key in ("machine", *MEASURES)}, indent=1))


def repeated(what: str) -> dict[str, Any]:
    """Medians of several processes that measure the same."""
    parts = []
    for repeat in range(REPEATS):
        log(f"{what}: {repeat + 1} of {REPEATS}")
        command = [sys.executable, "-m", "benchmarks.speed.evaluate_speed", "--measure", what]
        parts.append(
            json.loads(
                subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            )
        )
    return {key: round(statistics.median(part[key] for part in parts), 3) for key in parts[0]}


def evaluation_alone() -> dict[str, float]:
    """Judge one model."""
    model, _ = people(ROWS)
    before, started, cpu = peak_gb(), time.perf_counter(), time.process_time()
    evaluation = evaluate(model, draws=DRAWS, intersections=True)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    check(evaluation.metrics)
    return {
        "metrics": len(evaluation.metrics),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_gb": peak_gb(),
        "peak_gb_before": before,
    }


def evaluation_with_baseline() -> dict[str, float]:
    """Judge a model and a baseline, and compare them."""
    model, baseline = people(ROWS)
    before, started, cpu = peak_gb(), time.perf_counter(), time.process_time()
    for outcomes in (model, baseline):
        check(evaluate(outcomes, draws=DRAWS, intersections=True).metrics)
    compared = time.perf_counter()
    comparison = compare(model, baseline, draws=DRAWS, intersections=True)
    done, cpu = time.perf_counter(), time.process_time() - cpu
    check(comparison.differences)
    return {
        "metrics": len(comparison.differences),
        "seconds": done - started,
        "seconds_of_comparison": done - compared,
        "cpu_seconds": cpu,
        "peak_gb": peak_gb(),
        "peak_gb_before": before,
    }


def beside_resampling(n: int) -> dict[str, float]:
    """CPU time of a draw of ours beside one that resamples the rows and counts them again."""
    model, _ = people(n)
    started = time.process_time()
    check(evaluate(model, draws=DRAWS, intersections=True).metrics)
    ours = (time.process_time() - started) / DRAWS
    codes = {}
    for name, column in with_intersections(model.sensitive).items():
        names, code = encode_groups(column)
        codes[name] = (code, len(names))
    once = measure([model], codes, draws=0, min_cell=5, random=lambda _: np.random.default_rng(0))
    rng = np.random.default_rng(0)
    started = time.process_time()
    for _ in range(RESAMPLED_DRAWS):
        drawn = rng.integers(0, model.n, model.n)
        resampled_metrics(model, codes, once.selections, drawn)
    plain = (time.process_time() - started) / RESAMPLED_DRAWS
    return {
        "rows": model.n,
        "cpu_ms_per_draw": 1000 * ours,
        "resampling_cpu_ms_per_draw": 1000 * plain,
        "ratio": plain / ours,
    }


def resampled_metrics(
    outcomes: Outcomes,
    codes: dict[str, tuple[np.ndarray, int]],
    selections: Mapping[str, GroupSelection],
    rows: np.ndarray,
) -> dict[str, Any]:
    """Every metric of the chosen rows, counted again; groups are given as numbers."""
    y_true, y_pred = outcomes.y_true[rows], outcomes.y_pred[rows]
    counts = CellCounts(
        count_cells(np.zeros(len(rows), dtype=np.int64), 1, y_true, y_pred)[0],
        {name: count_cells(code[rows], k, y_true, y_pred) for name, (code, k) in codes.items()},
        {name: flags[rows].sum() for name, flags in outcomes.consistent.items()},
    )
    values: dict[str, Any] = metric_values(counts, selections)
    return values | {"auc": auc(*score_table(y_true, outcomes.score[rows]))}


def count_cells(
    codes: np.ndarray, n_groups: int, y_true: np.ndarray, y_pred: np.ndarray
) -> np.ndarray:
    """Rows per group, label and prediction, shape (n_groups, 2, 2)."""
    cell = (codes * 2 + y_true) * 2 + y_pred
    return np.bincount(cell, minlength=n_groups * 4).reshape(n_groups, 2, 2)


def people(n: int) -> tuple[Outcomes, Outcomes]:
    """Outcomes of a model and a related baseline on the same people."""
    rng = np.random.default_rng(0)
    sex, race = rng.integers(0, 2, n), rng.choice(5, n, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    y_true = (rng.random(n) < 0.3 + 0.1 * sex + 0.03 * race).astype(int)
    common = 1.5 * y_true + 0.2 * sex + rng.standard_normal(n)
    sensitive = {"sex": np.array(["F", "M"])[sex], "race": np.array(list("ABCDE"))[race]}
    sides = []
    for noise in (0.3, 0.4):
        score = 1 / (1 + np.exp(0.9 - common - noise * rng.standard_normal(n)))
        flags = {"spouse": rng.random(n) < 0.95, "status": rng.random(n) < 0.9}
        sides.append(Outcomes(y_true, (score > 0.5).astype(int), score, sensitive, flags))
    return sides[0], sides[1]


def check(metrics: Any) -> None:
    """Check the measured work: at least twenty metrics, each with its interval."""
    missing = [name for name, metric in metrics.items() if metric.low is None]
    if missing or len(metrics) < 20:
        raise RuntimeError(f"{len(metrics)} metrics, without an interval: {missing}")


def peak_gb() -> float:
    """Peak memory of this process; Linux reports it in kilobytes, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


MEASURES: dict[str, Callable[[], dict[str, float]]] = {
    "evaluation": evaluation_alone,
    "evaluation_with_baseline": evaluation_with_baseline,
    "beside_resampling_a_tenth": partial(beside_resampling, ROWS // 10),
    "beside_resampling": partial(beside_resampling, ROWS),
}

if __name__ == "__main__":
    main(sys.argv[1:])
