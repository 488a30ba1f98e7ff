"""What a command takes beside its libraries and beside an earlier checkout, and how many files a
run needs.

Run ``EVENHAND_DATA=FOLDER python -m benchmarks.speed.startup [--earlier CHECKOUT]``. The commands
alternate, so that a change of load reaches all of them. Ratios are of medians. An earlier checkout
is run with the Python of its ``.venv``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import log, provenance, write_result

LIBRARIES = "import prefect, mlflow, xgboost, sklearn.ensemble"
START = "from evenhand.flows.cli import main; main()"
RUN = ("run", "german-budro", "--direct")


def main() -> None:
    """Measure everything and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--earlier", type=Path, help="checkout with its own .venv")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = [sys.executable, "-c", START]
        kept = Path(folder) / "kept"
        seconds(ours, RUN, kept)  # fills the caches
        counts = output(
            [sys.executable, str(Path(__file__).with_name("entered_files.py"))],
            RUN,
            Path(folder) / "traced",
        )
        touched = int(counts.split()[0])
        starts: dict[str, list[float]] = {"libraries": [], "help": [], "cached run": []}
        cold: dict[str, list[float]] = {"cold run": []}
        earlier = (
            None
            if options.earlier is None
            else [str(options.earlier / ".venv" / "bin" / "evenhand")]
        )
        if earlier:
            cold["earlier cold run"] = []
            seconds(earlier, RUN, Path(folder) / "earlier")
        for repeat in range(options.repeats):
            log(f"repeat {repeat + 1} of {options.repeats}")
            starts["libraries"].append(seconds([sys.executable, "-c", LIBRARIES], (), kept))
            starts["cached run"].append(seconds(ours, RUN, kept))
            starts["help"].append(seconds(ours, ("--help",), kept))
            cold["cold run"].append(seconds(ours, RUN, Path(folder) / f"ours-{repeat}"))
            if earlier:
                cold["earlier cold run"].append(
                    seconds(earlier, RUN, Path(folder) / f"earlier-{repeat}")
                )
    medians = {name: statistics.median(values) for name, values in {**starts, **cold}.items()}
    result: dict[str, Any] = provenance(
        shlex.join(["python", "-m", "benchmarks.speed.startup", *sys.argv[1:]])
    )
    result |= {
        "job": RUN[1],
        "repeats": options.repeats,
        "median_s": {name: round(value, 2) for name, value in medians.items()},
        "cached_run_to_libraries": round(medians["cached run"] / medians["libraries"], 2),
        "files_of_a_cold_run": touched,
    }
    if earlier:
        result["cold_run_to_earlier"] = round(medians["cold run"] / medians["earlier cold run"], 2)
    write_result("startup", result)
    print(json.dumps({key: value for key, value in result.items() if key != "packages"}, indent=1))


def output(command: Sequence[str], arguments: Sequence[str], store: Path) -> str:
    """Standard output of a command that must succeed."""
    environment = {**os.environ, "EVENHAND_STORE": str(store)}
    environment.pop("PREFECT_API_URL", None)
    done = subprocess.run(
        [*command, *arguments],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        cwd="/",
        text=True,
    )
    return done.stdout


def seconds(command: Sequence[str], arguments: Sequence[str], store: Path) -> float:
    """Wall time of a command."""
    started = time.perf_counter()
    output(command, arguments, store)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
