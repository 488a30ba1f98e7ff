"""Membership inference against the shipped jobs: ``python -m benchmarks.membership``.

Writes ``results/membership.json``. Jobs that are in it are not run again; remove it to start anew.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from typing import Any

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from evenhand.fairlib.evaluation.membership import WARNED_AUC
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.job_file import load_job, shipped_jobs
from evenhand.tasks.store import Store

FIRST = ("german", "compas", "hiring", "loans", "bank", "adult")


def main() -> None:
    """Attack the jobs that the file lacks, the small tables first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shadows", type=int, default=16)
    parser.add_argument("--jobs", nargs="*", default=classifiers())
    chosen = parser.parse_args()
    known = RESULTS / "membership.json"
    rows: dict[str, Any] = json.loads(known.read_text())["rows"] if known.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        for job in chosen.jobs:
            if job in rows:
                continue
            rows[job] = measure(Store(folder), job, chosen.shadows)
            log(job, rows[job]["attacks"])
            ordered = {name: rows[name] for name in classifiers() if name in rows}
            command = f"python -m benchmarks.membership --jobs {' '.join(ordered)}"
            write_result("membership", {**provenance(command), "limit": WARNED_AUC, "rows": ordered})


def classifiers() -> list[str]:
    """Names of the shipped jobs that train a classifier, small tables first."""
    methods = {name: load_job(name)[0].method["name"] for name in shipped_jobs()}
    kept = [name for name, method in methods.items() if method in METHODS]
    return sorted(kept, key=lambda name: (FIRST.index(name.partition("-")[0]), name))


def measure(store: Store, job: str, shadows: int) -> dict[str, Any]:
    """Result of the attacks on the job's own split, and the CPU seconds that the run took."""
    started = time.process_time()
    _, steps = run_unpublished(store, job, [f"evaluate.membership.shadows={shadows}"])
    found: dict[str, Any] = steps.read("membership", "membership")
    return found | {"cpu_seconds": round(time.process_time() - started, 1)}


if __name__ == "__main__":
    main()
