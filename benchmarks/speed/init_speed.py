"""Time and memory of ``evenhand init`` on a large table, as CSV and as Parquet.

Run ``python -m benchmarks.speed.init_speed [--rows N] [--repeats N]`` on an idle machine. Every reading is
a whole process; the result has the medians, and the peak of the resident memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common import log, provenance, write_result

SEED = 0
START = "from evenhand.flows.cli import main; main()"


def table(rows: int) -> pd.DataFrame:
    """A generated table of 50 columns: numbers, counts, codes, words, dates, an id and a leak."""
    r = np.random.default_rng(SEED)
    z = r.normal(size=rows)
    hired = z + r.logistic(size=rows) > 0
    data = {
        "person_id": np.arange(rows),
        "gender": r.choice(["f", "m"], rows),
        "age": r.integers(18, 90, rows),
    }
    data |= {f"amount_{j}": np.round(np.exp(r.normal(7, 1, rows) + 0.1 * z), 2) for j in range(20)}
    data |= {f"count_{j}": r.poisson(3 + j, rows) for j in range(8)}
    words = np.array(["north", "south", "east", "west", "centre", "abroad"])
    data |= {f"region_{j}": words[r.integers(0, 6, rows)] for j in range(8)}
    data |= {f"kind_code_{j}": r.choice([1, 3, 7, 20, 31], rows) for j in range(4)}
    data |= {
        f"level_{j}": np.array(["low", "medium", "high"])[r.integers(0, 3, rows)] for j in range(2)
    }
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(r.integers(0, 1500, rows), unit="D")
    data |= {
        "joined": days.strftime("%Y-%m-%d").to_numpy(),
        "left": (days + pd.Timedelta(90, "D")).strftime("%Y-%m-%d").to_numpy(),
    }
    data |= {"comment": np.char.add("remark ", r.integers(0, rows, rows).astype(str))}
    data |= {"outcome_code": np.where(hired, 4, 2), "hired": np.where(hired, "yes", "no")}
    return pd.DataFrame(data)


def write(folder: Path, rows: int) -> None:
    """Write the table as CSV and as Parquet."""
    people = table(rows)
    people.to_csv(folder / "people.csv", index=False)
    people.to_parquet(folder / "people.parquet", index=False)


def reading(source: Path, folder: Path) -> tuple[float, float]:
    """Seconds and peak resident memory in GB of one ``init`` of a file."""
    command = [sys.executable, "-c", START, "init", str(source), "--label", "hired", "--force"]
    command += ["--sensitive", "gender", "--sensitive", "age"]
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"init ended with {process.returncode}")
    return time.perf_counter() - started, used.ru_maxrss * 1024 / 1e9


def main() -> None:
    """Measure both files and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        # on Linux a process counts the peak of the one that started it: another one makes the table
        maker = get_context("spawn").Process(target=write, args=(folder, options.rows))
        maker.start()
        maker.join()
        for name in ("people.csv", "people.parquet"):
            readings = [reading(folder / name, folder) for _ in range(options.repeats)]
            seconds, memory = zip(*readings, strict=True)
            found[name] = {
                "megabytes": round((folder / name).stat().st_size / 1e6),
                "seconds": [round(value, 2) for value in seconds],
                "median_seconds": round(statistics.median(seconds), 2),
                "peak_gb": round(max(memory), 3),
            }
            log(f"{name}: {found[name]}")
    command = (
        f"python -m benchmarks.speed.init_speed --rows {options.rows} --repeats {options.repeats}"
    )
    goals = {"median_seconds": 20, "peak_gb": 1.5}
    write_result(
        "init-size",
        {
            **provenance(command),
            "rows": options.rows,
            "columns": 50,
            "goals": goals,
            "files": found,
        },
    )


if __name__ == "__main__":
    main()
