"""Whether `evenhand tune` keeps its time, and always has an answer, on a busy machine.

    python -m benchmarks.studies.tune_under_load [--rounds N] [--minutes M] [--loads L ...] [--together N] [--alone]

At each load so many processes compute in a loop. The command runs with an empty store, once a round
and table, and with `--together` so many of them run at a time: each is the load of the others. Its
wall-clock time counts from before its start until after its end. With `--alone` nobody else used the
machine; these runs are counted apart from those beside other work. A run keeps its time if it is late
by at most 5 seconds or 5 % of the time, whichever is more. A result is kept after each run, and a
run that has one is not repeated.

The odd tables are generated and read by `evenhand init` before any time is taken: four groups of
which one is tiny, two sensitive attributes, 95 % positives, few rows, and many columns.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmarks.common import log, provenance, read_result, rounded, write_result
from evenhand.fairlib.execution import generator

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
    "one tiny group": ("tiny-group", ("gap_max.group <= 0.1",)),
    "two attributes": ("two-attributes", ("gap_max.group <= 0.1", "gap_max.other <= 0.1")),
    "95 % positives": (
        "mostly-positive",
        ("demographic_parity_difference.group <= 0.03", "balanced_accuracy >= 0.55"),
    ),
    "few rows": ("few-rows", ("average_odds_difference.group <= 0.2",)),
    "many columns": ("many-columns", ("gap_max.group <= 0.02",)),
}
# Of the generated tables by the names of their jobs: rows, columns, groups, share of positives.
ODD_TABLES: Mapping[str, tuple[int, int, tuple[float, ...], float]] = {
    "tiny-group": (3_000, 6, (0.595, 0.3, 0.1, 0.005), 0.4),
    "two-attributes": (4_000, 6, (0.6, 0.4), 0.5),
    "mostly-positive": (3_000, 6, (0.7, 0.3), 0.95),
    "few-rows": (300, 6, (0.6, 0.4), 0.5),
    "many-columns": (4_000, 60, (0.6, 0.4), 0.3),
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
    parser.add_argument("--together", type=int, default=1, help="commands that run at a time")
    parser.add_argument("--alone", action="store_true", help="nobody else uses the machine")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all runs, at most")
    options = parser.parse_args()
    began = time.monotonic()
    rows: list[dict[str, Any]] = list(read_result(NAME).get("rows", []))
    finished = {
        (row["round"], row["load"], row["table"])
        for row in rows
        if row.get("alone", False) == options.alone
    }
    with tempfile.TemporaryDirectory() as tables:
        write_odd_tables(Path(tables), list(ODD_TABLES))

        def run_once(number: int, load: int, name: str) -> dict[str, Any] | None:
            if time.monotonic() - began + 60.0 * options.minutes > options.seconds:
                return None
            row = {"round": number, "load": load, "together": options.together, "table": name}
            row["alone"] = options.alone
            return row | timed_search(name, options.minutes, Path(tables))

        for load in options.loads:
            with busy(load), ThreadPoolExecutor(options.together) as threads:
                waiting = []
                for number, name in product(range(options.rounds), SEARCHES):
                    if (number, load, name) not in finished:
                        waiting.append(threads.submit(run_once, number, load, name))
                for done in as_completed(waiting):
                    row = done.result()
                    if row is None:
                        continue
                    rows.append(row)
                    log(row)
                    content = {"rows": rounded(rows), "summary": rounded(summary_of(rows))}
                    write_result(NAME, content | provenance(COMMAND))
    for line in summary_of(rows):
        log(line)


def write_odd_tables(folder: Path, names: Sequence[str]) -> None:
    """Generate the odd tables of some names, and let `init` write a contract and a job for each."""
    for name in names:
        rows, columns, shares, positives = ODD_TABLES[name]
        table = odd_table(name, rows, columns, shares, positives)
        table.to_csv(folder / f"{name}.csv", index=False)
        command = [evenhand(), "init", f"{name}.csv", "--label", "label", "--name", name]
        for column in ("group", "other"):
            if column in table:
                command += ["--sensitive", column]
        subprocess.run(
            command, cwd=folder, check=True, stdin=subprocess.DEVNULL, capture_output=True
        )


def odd_table(
    name: str, rows: int, columns: int, shares: tuple[float, ...], positives: float
) -> pd.DataFrame:
    """Return a table whose label depends on its first columns and on the group."""
    rng = generator(0, name)
    group = rng.choice(len(shares), size=rows, p=shares)
    values = rng.normal(size=(rows, columns))
    values[:, 0] += 0.5 * group
    score = values[:, :3].sum(axis=1) - 0.6 * group + rng.normal(size=rows)
    table = pd.DataFrame(values.round(3), columns=[f"x{place}" for place in range(columns)])
    table["group"] = np.array(["a", "b", "c", "d"])[group]
    if name == "two-attributes":
        table["other"] = np.where(rng.random(rows) < 0.5, "left", "right")
    table["label"] = np.where(score > np.quantile(score, 1.0 - positives), "yes", "no")
    return table


def evenhand() -> str:
    """Return the command of this environment."""
    return str(Path(sys.executable).parent / "evenhand")


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


def timed_search(name: str, minutes: float, tables: Path) -> dict[str, Any]:
    """Run the command with an empty store; return its time, its exit code and what it answered."""
    job, limits = SEARCHES[name]
    with tempfile.TemporaryDirectory() as folder:
        if job in ODD_TABLES:
            for file in tables.glob(f"{job}.*"):
                shutil.copy(file, folder)
        given = f"{job}.yaml" if job in ODD_TABLES else job
        command = [evenhand(), "tune", given]
        command += ["--minutes", f"{minutes:g}", "--store", f"{folder}/store"]
        for limit in limits:
            command += ["--where", limit]
        began = time.monotonic()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
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
    """Return by load and runs at a time how often the time was kept, and which answers there were."""
    lines = []
    kinds = {_kind_of_run(row) for row in rows}
    for alone, load, together in sorted(kinds):
        alike = [row for row in rows if _kind_of_run(row) == (alone, load, together)]
        answers = [row["answer"] for row in alike]
        averages = sorted(row["load_average"] for row in alike)
        lines.append(
            {
                "alone": alone,
                "load": load,
                "together": together,
                "runs": len(alike),
                "load_average": averages[len(averages) // 2],
                "kept": sum(row["kept"] for row in alike),
                "latest": max(row["late"] for row in alike),
                **{kind: answers.count(kind) for kind in ("measured", "judged", "unjudged")},
                "without": answers.count("none"),
            }
        )
    return lines


def _kind_of_run(row: Mapping[str, Any]) -> tuple[bool, int, int]:
    """Return whether a run was alone on its machine, the loops beside it, and the runs at a time."""
    # the first results lack two of these
    return row.get("alone", False), row["load"], row.get("together", 1)


HEAD = """\
## Time kept on a busy machine

`evenhand tune JOB --minutes 0.5` with one or two limits and an empty store, on six shipped jobs and five odd generated tables,
while so many processes compute in loops, and so many such commands run at a time, on a machine of two cores: in some runs while
others used it, whose load is not known, in others alone. The load average is the median over the runs.

- Kept: runs that ended at most 5 seconds after their 30. Latest: seconds of the last one after them.
- Measured: the answer was measured on the test rows. Judged: on validation rows only. Unjudged: the job has default
  settings, and the limits as gates.
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The table of times kept; nothing without results."""
    if not content:
        return []
    lines = [
        "| other work | loops | commands at a time | load average | runs | kept | latest | measured | judged | unjudged |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for row in content["summary"]:
        other_work = "none" if row.get("alone") else "of others"
        cells = [
            other_work,
            row["load"],
            row["together"],
            f"{row['load_average']:.0f}",
            row["runs"],
        ]
        cells.append(row["kept"])
        cells += [f"{row['latest']:+.1f} s", row["measured"], row["judged"], row["unjudged"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    runs = sum(row["runs"] for row in content["summary"])
    without = sum(row["without"] for row in content["summary"])
    lines.append("")
    lines.append(f"Without any answer: {without} of {runs} runs.")
    return [HEAD, provenance(content), *lines]


if __name__ == "__main__":
    main()
