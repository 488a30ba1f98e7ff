"""CPU seconds of commands that have nothing to do.

Run ``EVENHAND_DATA=FOLDER python -m benchmarks.speed.nothing_new [--repeats N]``; it needs
bank-full.csv, and some minutes. Each command is a process of its own, in one store; its CPU seconds
are those of the process and of what it has started, so the load of other processes counts little.
The commands alternate. `first` is a command with all its work.
"""

from __future__ import annotations

import argparse
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import log, provenance, write_result

START = "from evenhand.flows.cli import main; main()"
JOB = "bank-gbdt"
PROXY = "bank-proxy"
# What each command may take: CPU seconds, and the share of a cached run.
TARGETS = {
    "predict": 2.0,
    "filter": 2.0,
    "predict of a table": 2.0,
    "if_changed_to_cached_run": 0.6,
}


def main() -> None:
    """Measure everything and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = measure(Path(name), options.repeats)
    command = f"python -m benchmarks.speed.nothing_new --repeats {options.repeats}"
    write_result("nothing_new", {**provenance(command), **result})


def measure(folder: Path, repeats: int) -> dict[str, Any]:
    """Carry every command out once, then again and again with nothing new."""
    arrivals = folder / "arrivals"
    arrivals.mkdir()
    write_arrivals(arrivals / "new.csv")
    commands = {
        "cached run": ["run", JOB],
        "run --if-changed": ["run", JOB, "--if-changed"],
        "predict": files_of("predict", f"models:/{JOB}@champion", folder, arrivals),
        "filter": files_of("filter", PROXY, folder, arrivals),
        "predict of a table": table_of("predict", f"models:/{JOB}@champion", folder, arrivals),
    }
    log("the work")
    first = {"run": cpu_seconds(["run", JOB, "--direct"], folder)}
    cpu_seconds(["run", PROXY, "--direct"], folder)
    for name in ("predict", "filter", "predict of a table"):
        first[name] = cpu_seconds(commands[name], folder)
    taken: dict[str, list[float]] = {name: [] for name in commands}
    # the first round fills caches of the user's
    for repeat in range(repeats + 1):
        log(f"round {repeat} of {repeats}")
        for name, command in commands.items():
            seconds = cpu_seconds(command, folder)
            if repeat:
                taken[name].append(seconds)
    return summary(first, taken)


def summary(first: dict[str, float], taken: dict[str, list[float]]) -> dict[str, Any]:
    """Return medians, the ratio, and whether each target is reached."""
    medians = {name: round(statistics.median(values), 2) for name, values in taken.items()}
    ratio = round(medians["run --if-changed"] / medians["cached run"], 2)
    measured = {**medians, "if_changed_to_cached_run": ratio}
    reached = {name: measured[name] <= most for name, most in TARGETS.items()}
    return {
        "target": TARGETS,
        "first_cpu_s": first,
        "nothing_new_cpu_s": medians,
        "if_changed_to_cached_run": ratio,
        "reached": reached,
        "all_cpu_s": taken,
    }


def files_of(verb: str, subject: str, folder: Path, arrivals: Path) -> list[str]:
    """Return a command over the arrivals, as a schedule has it."""
    output = str(folder / verb)
    return [verb, subject, "--input", str(arrivals), "--output", output]


def table_of(verb: str, subject: str, folder: Path, arrivals: Path) -> list[str]:
    """Return a command over the same arrivals in a table of SQLite, which it writes."""
    import pandas as pd

    database = folder / "warehouse.db"
    with sqlite3.connect(database) as opened:
        people = pd.read_csv(arrivals / "new.csv", sep=";")
        people.to_sql("arrivals", opened, index=False)
    address = f"sqlite:///{database}"
    return [verb, subject, "--input", f"{address}#arrivals", "--output", f"{address}#scored"]


def write_arrivals(path: Path) -> None:
    """Write every third row of the table, with the header."""
    source = next(Path(os.environ["EVENHAND_DATA"]).rglob("bank-full.csv"))
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:1] + lines[3::3]), encoding="utf-8")


def cpu_seconds(command: Sequence[str], folder: Path) -> float:
    """Return user and system seconds of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", START, *command],
        env={**os.environ, "EVENHAND_STORE": str(folder / "store")},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)


if __name__ == "__main__":
    main()
