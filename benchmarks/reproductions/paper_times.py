"""Table 10 of BuDRO, seconds of a training: ``python -m benchmarks.reproductions.paper_times [DATA ...]``.

The baseline takes 1,000 steps and BuDRO as many as are printed, at the printed parameters. Seconds
are of the CPU, of one thread; the paper's are of 2 or 4 CPUs, on Adult also of a GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.reproductions.paper_rows import row_of
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run import prepare
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store

RESULT = "papers_times"
BASELINE_STEPS = 1000
STEPS = {"german": 500, "compas": 200, "adult": 200}
REPEATS = {"german": 3, "compas": 3, "adult": 1}


def measure(data: str) -> dict[str, Any]:
    """Return rows, columns, and the CPU seconds of each training by method."""
    seconds: dict[str, list[float]] = {"baseline": [], "budro": []}
    size: list[int] = []
    for row in ("baseline", "budro"):
        paper_row = row_of("budro", f"{data} {row}")
        resolved = resolve(*load_job(paper_row.job, list(paper_row.changes)))
        store = Store()
        steps = Steps(store, DirectEngine(store))
        prepare(resolved, steps)
        train = read_dataset(store.fetch(steps.output("preprocess", "train")))
        size = list(train.X.shape)
        arguments = {**resolved.arguments, "n_jobs": 1, "random_state": 0}
        arguments["n_steps"] = BASELINE_STEPS if row == "baseline" else STEPS[data]
        for repeat in range(REPEATS[data]):
            log(f"table 10: {data} {row}: training {repeat + 1} of {REPEATS[data]}")
            if row == "budro":
                # the printed times do not depend on which columns are protected
                columns = train.sensitive_positions()
                metric = SensitiveSubspace(indicators=columns).fit(train.X)
                model: Any = BudroClassifier(metric, **arguments)
            else:
                model = GBDTClassifier(**arguments)
            started = time.process_time()
            with threadpool_limits(1):
                model.fit(train.X, train.y)
            seconds[row].append(time.process_time() - started)
    return {"size": size, "seconds": rounded(seconds, 2), "steps": STEPS[data]}


def main(names: Sequence[str]) -> None:
    """Measure the named tables (default: those that the results lack)."""
    code_state()
    content = read_result(RESULT)
    rows = content.get("rows", {})
    missing = [data for data in STEPS if data not in rows]
    for data in names or missing:
        rows[data] = measure(data)
        content |= provenance("python -m benchmarks.reproductions.paper_times")
        content |= {"rows": rows, "whole": set(rows) == set(STEPS)}
        write_result(RESULT, content)


if __name__ == "__main__":
    main(sys.argv[1:])
