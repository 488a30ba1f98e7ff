"""CPU seconds of runs with a learned fair metric, by step, and of learning the metric alone.

Run ``python -m benchmarks.speed.mitigated_speed [--methods M ...] [--rows N ...] [--metric-only]
[--wide]``; only `--wide` needs data. People of a planted world are written to a CSV file,
``evenhand init`` writes a job with the sensitive columns as inputs, and a process on one core runs
it in a store of its own. `--rows` counts training rows. With `--wide` the people are 20,000 of
Adult instead, whose categories make 83 columns, and the sensitive column is no input. Results:
``results/mitigated_speed.json``, one entry for each method and table; others stay.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import log, provenance, read_result, write_result
from benchmarks.speed.run_scale import call
from evenhand.fairlib.arrays import Float
from evenhand.fairlib.datasets.planted_unseen import UNSEEN_WORLDS
from evenhand.fairlib.distances.learned import LearnedMetric

NAME = "mitigated_speed"
WORLD = "salaries"
ATTRIBUTE = "sex"
METHODS = ("budro", "sensei")
ROWS = (20_000,)
# The wide table: all its rows, of which 80 % train.
WIDE = "wide"
WIDE_ROWS = 20_000
WIDE_LABEL = "income"
WIDE_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital",
    "occupation",
    "relationship",
    "race",
    "sex",
    "gain",
    "loss",
    "hours",
    "country",
    "income",
]
# Rows of a table of which 80 % train.
TABLE_SHARE = 1.25
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main() -> None:
    """Measure the metric and every run, and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--rows", nargs="*", type=int, default=list(ROWS))
    parser.add_argument("--metric-only", action="store_true")
    parser.add_argument("--wide", action="store_true", help="20,000 rows of Adult")
    parser.add_argument("--metric", type=int, metavar="ROWS", help="one fit, for the benchmark")
    chosen = parser.parse_args()
    if chosen.metric:
        print(json.dumps(metric_fit(chosen.metric)))
        return
    # of child processes, which do all the work
    os.environ.update(ONE_THREAD)
    if hasattr(os, "sched_setaffinity"):
        # child processes inherit it
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    results = read_result(NAME).get("results", {})
    for method in chosen.methods if chosen.wide else ():
        results.setdefault(WIDE, {})[method] = measured_wide_run(method)
        log(WIDE, method, json.dumps(results[WIDE][method]))
        save(results)
    for rows in () if chosen.wide else chosen.rows:
        results.setdefault("metric", {})[str(rows)] = fit_alone(rows)
        log("metric", rows, json.dumps(results["metric"][str(rows)]))
        save(results)
        if chosen.metric_only:
            continue
        for method in chosen.methods:
            results.setdefault(method, {})[str(rows)] = measured_run(method, rows)
            log(method, rows, json.dumps(results[method][str(rows)]))
            save(results)


def save(results: dict[str, Any]) -> None:
    """Write all results."""
    write_result(
        NAME, {"results": results, **provenance("python -m benchmarks.speed.mitigated_speed")}
    )


def people(rows: int) -> pd.DataFrame:
    """People of the world with their recorded labels."""
    drawn = UNSEEN_WORLDS[WORLD].draw(rows, np.random.default_rng(rows))
    table = drawn.table.copy()
    table["hired"] = np.where(drawn.label == 1, "yes", "no")
    return table


def encoded(table: pd.DataFrame) -> tuple[Float, dict[str, list[int]]]:
    """Standardised numbers and 0/1 columns of categories, with the columns of each."""
    parts: list[Float] = []
    columns: dict[str, list[int]] = {}
    width = 0
    for name in table.columns:
        if pd.api.types.is_numeric_dtype(table[name]):
            values = table[name].to_numpy(dtype=np.float64)[:, None]
            values = (values - values.mean()) / values.std()
        else:
            values = pd.get_dummies(table[name]).to_numpy(dtype=np.float64)
        columns[name] = list(range(width, width + values.shape[1]))
        width += values.shape[1]
        parts.append(values)
    return np.concatenate(parts, axis=1), columns


def metric_fit(rows: int) -> dict[str, Any]:
    """CPU seconds of learning the metric from encoded rows, and a digest of what it learned."""
    table = people(rows)
    labels = table.pop("hired") == "yes"
    X, columns = encoded(table)
    metric = LearnedMetric(sensitive={ATTRIBUTE: columns[ATTRIBUTE]}, feature_groups=columns)
    started = time.process_time()
    metric.fit(X, labels, sensitive_features={ATTRIBUTE: table[ATTRIBUTE].astype(str)})
    seconds = time.process_time() - started
    digest = hashlib.sha256(repr(metric.report_).encode())
    with tempfile.TemporaryDirectory() as folder:
        metric.save(folder)
        for path in sorted(Path(folder).iterdir()):
            digest.update(path.read_bytes())
    return {
        "columns": X.shape[1],
        "cpu_seconds": round(seconds, 1),
        "digest": digest.hexdigest()[:16],
    }


def fit_alone(rows: int) -> dict[str, Any]:
    """The metric's figures from a process of its own."""
    arguments = ["-m", "benchmarks.speed.mitigated_speed", "--metric", str(rows)]
    result: dict[str, Any] = json.loads(call(Path.cwd(), *arguments))
    return result


def wide_people() -> pd.DataFrame:
    """Rows of Adult as its publisher gives them."""
    path = Path(os.environ["EVENHAND_DATA"]) / "adult.data"
    table = pd.read_csv(path, names=WIDE_COLUMNS, skipinitialspace=True)
    return table.sample(WIDE_ROWS, random_state=0)


def measured_wide_run(method: str) -> dict[str, Any]:
    """CPU seconds of one run of a starter job for the wide table."""
    return measured_job(wide_people(), ["--label", WIDE_LABEL], method)


def measured_run(method: str, rows: int) -> dict[str, Any]:
    """CPU seconds of one run of a starter job, in total and by step."""
    asked = ["--label", "hired", "--positive", "yes", "--use-sensitive"]
    return measured_job(people(round(rows * TABLE_SHARE)), asked, method)


def measured_job(table: pd.DataFrame, asked: list[str], method: str) -> dict[str, Any]:
    """CPU seconds of a run of the job that `init` writes, in total and by step."""
    command = [sys.executable, "-c", "from evenhand.flows.cli import main; main()"]
    # processes that run or wait in the last minute, of this machine
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        table.to_csv(folder / "people.csv", index=False)
        asked = [*asked, "--sensitive", ATTRIBUTE]
        command += ["init", "people.csv", *asked, "--method", method]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        arguments = ["-m", "benchmarks.speed.run_scale", "--run", str(folder / "store")]
        content = json.loads(call(folder, *arguments, "people.yaml"))
    steps = {name: step["cpu_seconds"] for name, step in content["steps"].items()}
    return {
        "status": content["status"],
        "auc": content["auc"],
        "load": round(load, 1),
        "cpu_seconds": content["cpu_seconds"],
        "steps": steps,
    }


if __name__ == "__main__":
    main()
