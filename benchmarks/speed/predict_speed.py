"""Time of a prediction: of one row by a published model, and of files by ``evenhand predict``.

Run ``python -m benchmarks.speed.predict_speed --rows 1e6 --folder SCRATCH`` with ``EVENHAND_DATA`` set. The
jobs run and publish into a store below the folder. A row is predicted 200 times through
``mlflow.pyfunc`` after a warm-up. The files have the job's table resampled; every command is a
fresh process, its start included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.common import log, provenance, write_result

JOBS = ("german-gbdt", "german-sensei")
COMMAND = "import sys; from evenhand.flows.cli import main; sys.argv[0] = 'evenhand'; main()"
REPEATS = 200


def main() -> None:
    """Measure everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--folder", type=Path, default=Path("predict-benchmark"))
    parser.add_argument("--jobs", nargs="+", default=list(JOBS))
    arguments = parser.parse_args()
    result = provenance("python -m benchmarks.speed.predict_speed " + " ".join(sys.argv[1:]))
    os.environ["EVENHAND_STORE"] = str(arguments.folder.resolve() / "store")
    result["jobs"] = {
        job: _measure(job, int(arguments.rows), arguments.folder) for job in arguments.jobs
    }
    write_result("predicting", result)
    print(json.dumps(result["jobs"], indent=1))


def evenhand(*arguments: str) -> tuple[float, float, dict[str, Any]]:
    """Wall seconds, CPU seconds and verdict of a command in a fresh process."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments, "--direct", "--json"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - started
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, json.loads(done.stdout)


def _measure(job: str, rows: int, folder: Path) -> dict[str, Any]:
    log(job)
    _, _, verdict = evenhand("run", job)
    raw = pq.read_table(verdict["artifacts"]["ingest.raw"].removeprefix("file://"))
    source = folder / f"{job}-in"
    source.mkdir(parents=True, exist_ok=True)
    taken = raw.take(np.random.default_rng(0).integers(0, raw.num_rows, rows))
    found: dict[str, Any] = {"columns": raw.num_columns, "rows": rows, **_one_row(job, raw)}
    for form, more in (("parquet", []), ("csv", []), ("parquet", ["--reasons", "3"])):
        file, out = source / f"rows.{form}", folder / "out"
        pq.write_table(taken, file) if form == "parquet" else pyarrow.csv.write_csv(taken, file)
        shutil.rmtree(out, ignore_errors=True)
        wall, cpu, verdict = evenhand(
            "predict", job, "--input", str(file), "--output", str(out), *more
        )
        assert verdict["metrics"]["rows_out"] == rows, verdict
        name = "reasons" if more else form
        found[name] = {"wall_s": round(wall, 2), "cpu_s": round(cpu, 2)}
        file.unlink()
    return found


def _one_row(job: str, raw: Any) -> dict[str, float]:
    """Median milliseconds of one row."""
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{os.environ['EVENHAND_STORE']}/mlflow.db")
    model, row = mlflow.pyfunc.load_model(f"models:/{job}@champion"), raw.slice(0, 1).to_pandas()
    row = row[[item.name for item in model.metadata.signature.inputs]]
    published, times = model.unwrap_python_model(), {"pyfunc_row_ms": [], "row_ms": []}  # type: Any, dict[str, list[float]]
    calls = {
        "pyfunc_row_ms": lambda: model.predict(row),
        "row_ms": lambda: published.predict(None, row),
    }
    for name, call in calls.items():
        for _ in range(REPEATS + 20):
            started = time.perf_counter()
            call()
            times[name].append(1000 * (time.perf_counter() - started))
    return {name: round(statistics.median(each[20:]), 2) for name, each in times.items()}


if __name__ == "__main__":
    main()
