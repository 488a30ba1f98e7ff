"""After how many CPU seconds `evenhand tune` has its first answer on large tables.

    python -m benchmarks.studies.tune_first_answer [--rounds N] [--minutes M] [--result NAME]

The command runs with an empty store, once a round and table. A result is kept after each run, and a
run that has a result is not repeated. Another machine has a result of its own, by its name.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import log, provenance, read_result, rounded, write_result

NAME = "tune_first_answer"
# The same on a machine that is slower, nearly all of it in importing libraries.
SLOWER = "tune_first_answer_slower"
COMMAND = "python -m benchmarks.studies.tune_first_answer"
# By name: the job, its settings, and the limit of the search.
TABLES: Mapping[str, tuple[str, Sequence[str], str]] = {
    "hiring": ("hiring-gbdt", ("table.rows=20000",), "gap_max.gender <= 0.1"),
    "adult": ("adult-gbdt", (), "gap_max.sex <= 0.1"),
    "bank": ("bank-gbdt", (), "gap_max.age <= 0.1"),
}
ROWS = {"hiring": 20_000, "adult": 48_842, "bank": 45_211}
SECONDS = (
    "first_answer_seconds",
    "first_answer_cpu_seconds",
    "first_within_seconds",
    "first_within_cpu_seconds",
)


def main() -> None:
    """Run the command on every table, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1.5)
    parser.add_argument("--result", default=NAME)
    options = parser.parse_args()
    stored = read_result(options.result) or {}
    rows: list[dict[str, Any]] = list(stored.get("rows", []))
    finished = {(row["round"], row["table"]) for row in rows}
    for number in range(options.rounds):
        for table in TABLES:
            if (number, table) in finished:
                continue
            rows.append({"round": number, "table": table, **first_answer(table, options.minutes)})
            log(rows[-1])
            content = {"rows": rounded(rows), "summary": rounded(summary_of(rows))}
            write_result(options.result, content | provenance(COMMAND))


def first_answer(table: str, minutes: float) -> dict[str, Any]:
    """Run the command with an empty store; return when it had its first answers."""
    job, settings, limit = TABLES[table]
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).parent / "evenhand"), "tune", job, "--json"]
        command += ["--minutes", f"{minutes:g}", "--store", f"{folder}/store", "--where", limit]
        for setting in settings:
            command += ["--set", setting]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    # none where the time ended before the study was written
    study = json.loads(done.stdout).get("tuning") or dict.fromkeys(SECONDS)
    return {key: study[key] for key in SECONDS} | {"code": done.returncode}


def summary_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the median and the latest of the first answers by table, and how many runs had one."""
    lines = []
    for table in TABLES:
        of_table = [row for row in rows if row["table"] == table]
        if not of_table:
            continue
        line: dict[str, Any] = {"table": table, "rows": ROWS[table], "runs": len(of_table)}
        for key in SECONDS:
            values = [row[key] for row in of_table if row[key] is not None]
            line[key] = None
            if values:
                median = float(np.median(values))
                line[key] = {"runs": len(values), "median": median, "largest": max(values)}
        lines.append(line)
    return lines


HEAD = """\
## The first answer

After how many seconds `evenhand tune` had a first answer with an empty store, the reading and checking of the table
included: the median of the runs, and the largest. An answer within the limits keeps them by its values, on a part of the rows
or on all folds; where not all runs had one in time, their number is stated. CPU seconds are those of all processes of the
command. The load of the machine decides over the seconds, hardly over CPU seconds. The machine decides over both: importing
Great Expectations, scikit-learn and XGBoost, pandas included, takes some 6 CPU seconds of each first answer on the first
machine, and 10 on the second.
"""


def sections(contents: Sequence[Mapping[str, Any]], provenance: Callable[[Any], str]) -> list[str]:
    """The table of first answers of each machine; nothing without results."""
    texts = []
    for content in contents:
        if content:
            texts += [provenance(content), *_table(content), ""]
    return [HEAD, *texts] if texts else []


def _table(content: Mapping[str, Any]) -> list[str]:
    lines = ["| table | rows | runs | first answer | CPU | within the limits | CPU |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in content["summary"]:
        cells = [row["table"], f"{row['rows']:,}", str(row["runs"])]
        for key in SECONDS:
            cells.append(_times(row[key], row["runs"]))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _times(times: Mapping[str, Any] | None, runs: int) -> str:
    """Median and largest of the seconds, and how many runs have them where not all do."""
    if times is None:
        return "none"
    text = f"{times['median']:.1f} s ({times['largest']:.1f})"
    if times["runs"] < runs:
        text += f", {times['runs']} of {runs} runs"
    return text


if __name__ == "__main__":
    main()
