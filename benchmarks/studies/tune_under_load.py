"""Whether `evenhand tune` keeps its time, and always has an answer, on a busy machine.

    python -m benchmarks.studies.tune_under_load [--rounds N] [--minutes M] [--loads L ...]

At each load so many processes compute in a loop. The command runs with an empty store, once a round
and table. Its wall-clock time counts from before its start until after its end. A run keeps its
time if it is late by at most 5 seconds or 5 % of the time, whichever is more. A result is kept after
each run, and a run that has one is not repeated.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from benchmarks.common import log, provenance, read_result, rounded, write_result

NAME = "tune_under_load"
COMMAND = "python -m benchmarks.studies.tune_under_load"
# By name, the job and the limits of its search.
SEARCHES: Mapping[str, tuple[str, Sequence[str]]] = {
    "hiring": ("hiring-gbdt", ("gap_max.gender <= 0.1",)),
    "german": ("german-gbdt", ("gap_max.age <= 0.15",)),
    "compas": ("compas-gbdt", ("gap_max.sex <= 0.1",)),
    "loans": ("loans-gbdt", ("gap_max.group <= 0.1",)),
    "adult": ("adult-gbdt", ("gap_max.sex <= 0.05",)),
    "bank": ("bank-gbdt", ("demographic_parity_difference.age <= 0.05",)),
    "hiring, two limits": (
        "hiring-gbdt",
        ("equal_opportunity_difference.gender <= 0.05", "accuracy >= 0.6"),
    ),
}
LOADS = (0, 1, 2, 4, 8)
# It ends with the process that started it.
LOOP = "import os\np = os.getppid()\nwhile os.getppid() == p: pass"
LATE_S = 5.0
LATE_SHARE = 0.05


def main() -> None:
    """Run the command at every load, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--loads", type=int, nargs="*", default=list(LOADS))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all runs, at most")
    options = parser.parse_args()
    began = time.monotonic()
    rows: list[dict[str, Any]] = list(read_result(NAME).get("rows", []))
    finished = {(row["round"], row["load"], row["table"]) for row in rows}
    for number, load, name in product(range(options.rounds), options.loads, SEARCHES):
        if (number, load, name) in finished:
            continue
        if time.monotonic() - began + 60.0 * options.minutes > options.seconds:
            return
        with busy(load):
            row = {"round": number, "load": load, "table": name}
            rows.append(row | timed_search(name, options.minutes))
        log(rows[-1])
        content = {"rows": rounded(rows), "summary": rounded(summary_of(rows))}
        write_result(NAME, content | provenance(COMMAND))
    for line in summary_of(rows):
        log(line)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Let so many processes compute within the block."""
    loops = []
    for _ in range(processes):
        loops.append(subprocess.Popen([sys.executable, "-c", LOOP]))
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def timed_search(name: str, minutes: float) -> dict[str, Any]:
    """Run the command with an empty store; return its time, its exit code and what it answered."""
    job, limits = SEARCHES[name]
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).parent / "evenhand"), "tune", job]
        command += ["--minutes", f"{minutes:g}", "--store", f"{folder}/store"]
        for limit in limits:
            command += ["--where", limit]
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, env=dict(os.environ)
        )
        seconds = time.monotonic() - began
        target = Path(folder, f"{job}.tuned.yaml")
        answer = "none"
        if target.exists():
            answer = kind_of(yaml.safe_load(target.read_text())["description"])
    late = seconds - 60.0 * minutes
    if answer == "none":
        log(done.stderr[-2000:])
    return {
        "seconds": seconds,
        "late": late,
        "kept": late <= max(LATE_S, LATE_SHARE * 60.0 * minutes),
        "code": done.returncode,
        "answer": answer,
        "load_average": os.getloadavg()[0],
    }


def kind_of(description: str) -> str:
    """Say by its description how a tuned job was judged."""
    if "Not judged:" in description:
        return "unjudged"
    if "Not measured on test rows yet." in description:
        return "judged"
    return "measured"


def summary_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return by load how often the time was kept, and which answers there were."""
    lines = []
    for load in dict.fromkeys(row["load"] for row in rows):
        of_load = [row for row in rows if row["load"] == load]
        answers = [row["answer"] for row in of_load]
        averages = sorted(row["load_average"] for row in of_load)
        lines.append(
            {
                "load": load,
                "runs": len(of_load),
                "load_average": averages[len(averages) // 2],
                "kept": sum(row["kept"] for row in of_load),
                "latest": max(row["late"] for row in of_load),
                **{kind: answers.count(kind) for kind in ("measured", "judged", "unjudged")},
                "without": answers.count("none"),
            }
        )
    return lines


HEAD = """\
## Time kept on a busy machine

`evenhand tune JOB --minutes 0.5` with one or two limits and an empty store, on six shipped jobs, while so many processes
compute in loops. The load average is that of the whole machine, which others used too.

- Kept: runs that ended at most 5 seconds after their 30. Latest: seconds of the last one after them.
- Measured: the answer was measured on the test rows. Judged: on validation rows only. Unjudged: the job has default
  settings, and the limits as gates.
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The table of times kept; nothing without results."""
    if not content:
        return []
    lines = ["| processes | load average | runs | kept | latest | measured | judged | unjudged |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for row in content["summary"]:
        cells = [row["load"], f"{row['load_average']:.0f}", row["runs"], row["kept"]]
        cells += [f"{row['latest']:+.1f} s", row["measured"], row["judged"], row["unjudged"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    runs = sum(row["runs"] for row in content["summary"])
    without = sum(row["without"] for row in content["summary"])
    lines.append("")
    lines.append(f"Without any answer: {without} of {runs} runs.")
    return [HEAD, provenance(content), *lines]


if __name__ == "__main__":
    main()
