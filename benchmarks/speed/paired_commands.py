"""CPU seconds of commands beside an earlier checkout, in pairs.

Run ``EVENHAND_DATA=FOLDER python -m benchmarks.speed.paired_commands --earlier CHECKOUT``. Both
checkouts have their own ``.venv`` and a store in which the run is kept already. The two of a pair
run one after the other, and every second pair in the other order, so that a change of load reaches
both.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import log, provenance, write_result

COMMANDS = {
    "cached run": ("run", "hiring-gbdt", "--direct"),
    "help": ("--help",),
}
ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Measure all pairs and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--earlier", type=Path, required=True, help="checkout with its own .venv")
    parser.add_argument("--pairs", type=int, default=15)
    options = parser.parse_args()
    checkouts = {"earlier": options.earlier.resolve(), "now": ROOT}
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in COMMANDS.items():
            log(name)
            for checkout in checkouts:
                # twice: the first run fills the store, the second one writes all bytecode
                for _ in range(2):
                    cpu_seconds(checkouts[checkout], arguments, Path(folder) / checkout)
            pairs = measure_pairs(checkouts, arguments, Path(folder), options.pairs)
            measured[name] = summary_of(pairs)
    command = shlex.join(["python", "-m", "benchmarks.speed.paired_commands", *sys.argv[1:]])
    result = {**provenance(command), "pairs": options.pairs, "commands": measured}
    write_result("paired_commands", result)
    print(measured)


def measure_pairs(
    checkouts: dict[str, Path], arguments: tuple[str, ...], folder: Path, count: int
) -> list[dict[str, float]]:
    """CPU seconds of both checkouts, for each pair."""
    pairs = []
    for number in range(count):
        order = list(checkouts)
        if number % 2 == 1:
            order.reverse()
        pair = {}
        for checkout in order:
            pair[checkout] = cpu_seconds(checkouts[checkout], arguments, folder / checkout)
        pairs.append(pair)
    return pairs


def summary_of(pairs: list[dict[str, float]]) -> dict[str, float]:
    """Medians of both checkouts, and the median and quartiles of the pairs' ratios."""
    ratios = [pair["now"] / pair["earlier"] for pair in pairs]
    lower, middle, upper = statistics.quantiles(ratios, n=4)
    return {
        "earlier_cpu_s": round(statistics.median(pair["earlier"] for pair in pairs), 2),
        "now_cpu_s": round(statistics.median(pair["now"] for pair in pairs), 2),
        "ratio": round(middle, 3),
        "lower_quartile": round(lower, 3),
        "upper_quartile": round(upper, 3),
    }


def cpu_seconds(checkout: Path, arguments: tuple[str, ...], store: Path) -> float:
    """CPU seconds of a command that must succeed, with the processes that it starts."""
    environment = {**os.environ, "EVENHAND_STORE": str(store)}
    for name in ("PREFECT_API_URL", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [str(checkout / ".venv" / "bin" / "evenhand"), *arguments],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
