"""How two thousand odd inputs end: tables, jobs, contracts, gates, rows for a model, models, answers of servers.

    python -m benchmarks.studies.fuzzed_inputs [--kind KIND ...] [--bomb NAME ...]

Each kind is tried in one process; an input is a fault if it ends with another exit code than a wrong
input may have, with a traceback or an internal fault, with more than its line, or if something is
left that is no result. Inputs that unpack to more than a machine has are tried in processes of
their own, whose memory is measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import log, provenance, read_result, write_result
from tests.chaos.bombs import BOMBS, LIMIT_BYTES, tried
from tests.chaos.fuzzing import COUNTS

NAME = "fuzzed_inputs"
COMMAND = "python -m benchmarks.studies.fuzzed_inputs"
NAMES = [bomb.__name__ for bomb in BOMBS]
ROOT = Path(__file__).resolve().parents[2]


def inputs_of(kind: str, count: int) -> dict[str, Any]:
    """Try the inputs of a kind in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "summary.json"
        command = [sys.executable, "-m", "tests.chaos.fuzzing", kind, "--count", str(count)]
        subprocess.run([*command, "--summary", str(path)], cwd=ROOT, check=True)
        content: dict[str, Any] = json.loads(path.read_text())
    return content


def bomb_named(name: str) -> dict[str, Any]:
    """Try an input that unpacks to much."""
    ended = tried(name)
    log(name, ended)
    kept = ("file_kb", "peak_memory_mb", "cpu_s")
    return {"exit_code": ended["code"], **{key: ended[key] for key in kept}}


def main() -> None:
    """Try them, and keep the outcome of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", action="append", choices=list(COUNTS))
    parser.add_argument("--bomb", action="append", choices=NAMES)
    arguments = parser.parse_args()
    kinds = arguments.kind or ([] if arguments.bomb else COUNTS)
    for kind in kinds:
        keep("kinds", {kind: inputs_of(kind, COUNTS[kind])})
    names = arguments.bomb or ([] if arguments.kind else NAMES)
    for name in names:
        keep("bombs", {name: bomb_named(name)})


def keep(part: str, results: dict[str, Any]) -> None:
    """Write results of a part in place of those that an earlier call found."""
    earlier = read_result(NAME)
    parts = {name: dict(earlier.get(name, {})) for name in ("kinds", "bombs")}
    parts[part] |= results
    kinds = parts["kinds"]
    content = {
        **provenance(COMMAND),
        "inputs": sum(kind["inputs"] for kind in kinds.values()),
        "faults": sum(len(kind["faults"]) for kind in kinds.values()),
        "kinds": kinds,
        "limit_of_a_bomb_mb": LIMIT_BYTES // 1_000_000,
        "bombs": parts["bombs"],
    }
    write_result(NAME, content)


if __name__ == "__main__":
    main()
