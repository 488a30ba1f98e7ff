"""CPU seconds of a first demonstration, and of a run with a temporary Prefect server beside one
without.

Run ``python -m benchmarks.speed.first_contact [--repeats N]``. A demonstration is first when its
store and numba's cache are empty. CPU seconds are those of the command and of all processes that it
waited for, the server among them. They grow with the load of the machine, which is kept, too.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import log, provenance, write_result

START = "from evenhand.flows.cli import main; main()"
RUN = ("run", "hiring-gbdt")
DIRECT = (*RUN, "--direct")


def main() -> None:
    """Measure everything and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {"first demo": [], "direct run": [], "run": []}
    loads = []
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(options.repeats):
            log(f"repeat {repeat + 1} of {options.repeats}")
            base = Path(folder) / str(repeat)
            loads.append(os.getloadavg()[0])
            kernels = {"NUMBA_CACHE_DIR": str(base / "numba")}
            seconds["first demo"].append(cpu_seconds(("demo",), base / "demo", kernels))
            seconds["direct run"].append(cpu_seconds(DIRECT, base / "direct", {}))
            seconds["run"].append(cpu_seconds(RUN, base / "server", {}))
    medians = {name: round(statistics.median(values), 1) for name, values in seconds.items()}
    result: dict[str, Any] = provenance(
        shlex.join(["python", "-m", "benchmarks.speed.first_contact", *sys.argv[1:]])
    )
    result |= {
        "job": RUN[1],
        "repeats": options.repeats,
        "cores": os.cpu_count(),
        "load_average": [round(load, 1) for load in loads],
        "median_cpu_s": medians,
        "server_costs_cpu_s": round(medians["run"] - medians["direct run"], 1),
    }
    write_result("first_contact", result)
    print(json.dumps({key: value for key, value in result.items() if key != "packages"}, indent=1))


def cpu_seconds(arguments: Sequence[str], store: Path, settings: dict[str, str]) -> float:
    """CPU seconds, user and system, of a command that must succeed."""
    environment = {**os.environ, **settings, "EVENHAND_STORE": str(store)}
    environment.pop("PREFECT_API_URL", None)
    before = os.times()
    subprocess.run(
        [sys.executable, "-c", START, *arguments],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    after = os.times()
    user = after.children_user - before.children_user
    system = after.children_system - before.children_system
    return user + system


if __name__ == "__main__":
    main()
