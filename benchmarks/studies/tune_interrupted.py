"""Whether `evenhand tune` leaves whole files wherever Ctrl-C or SIGTERM interrupts it.

    python -m benchmarks.studies.tune_interrupted [--runs N] [--minutes M] [--command PATH]

The command runs on German and is interrupted at a random moment, by SIGINT and SIGTERM in turn; its
worker processes are not. Every second pair of runs goes on with the study of those before, the
others have an empty store. A run is right if it ends with exit code 4 soon, if the tuned job is there whenever a line said that there is a best so far,
if that file is a job that can be read, and if no unfinished file and no process is left.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import log, provenance, read_result, rounded, write_result
from evenhand.fairlib.execution import generator
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.errors import EvenhandError

NAME = "tune_interrupted"
COMMAND = "python -m benchmarks.studies.tune_interrupted"
JOB = "german-gbdt"
LIMIT = "gap_max.age <= 0.15"
# Seconds after which a command that was interrupted is killed, and is wrong.
LONGEST_END_S = 60.0
SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}


def main() -> None:
    """Interrupt the command at random moments, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--command", default=str(Path(sys.executable).parent / "evenhand"))
    options = parser.parse_args()
    rows: list[dict[str, Any]] = list(read_result(NAME).get("rows", []))
    with tempfile.TemporaryDirectory() as kept:
        for number in range(len(rows), options.runs):
            moment = float(generator(number, "interrupted").uniform(0.2, 58.0 * options.minutes))
            name = list(SIGNALS)[number % 2]
            goes_on = number // 2 % 2 == 1
            store = kept if goes_on else None
            rows.append({"signal": name, "after": moment, "goes_on": goes_on})
            rows[-1] |= interrupted(options.command, options.minutes, moment, SIGNALS[name], store)
            log(rows[-1])
            content = {"rows": rounded(rows), "summary": rounded(summary_of(rows))}
            write_result(NAME, content | provenance(COMMAND))


def interrupted(
    command: str, minutes: float, moment: float, number: int, store: str | None
) -> dict[str, Any]:
    """Run the command, interrupt it, and return what it left."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [command, "tune", JOB, "--minutes", f"{minutes:g}", "--where", LIMIT]
        output = Path(folder, "stderr")
        with output.open("w") as stream:
            process = subprocess.Popen(
                [*arguments, "--store", store or f"{folder}/store"],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                # a shell lets its background commands ignore SIGINT
                preexec_fn=hear_interrupts,
            )
            time.sleep(moment)
            ended_before = process.poll() is not None
            began = time.monotonic()
            process.send_signal(number)
            try:
                code = process.wait(LONGEST_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = -9
            seconds = time.monotonic() - began
        # killed workers take a moment
        time.sleep(1.0)
        lines = output.read_text().splitlines()
        target = Path(folder, f"{JOB}.tuned.yaml")
        row: dict[str, Any] = {
            "ended_before": ended_before,
            "code": code,
            "seconds": seconds,
            "had_answer": any("best so far" in line for line in lines if line.startswith("tune ")),
            "written": target.exists(),
            "whole": target.exists() and is_job(target),
            "unfinished": len(list(Path(folder).glob(".*"))),
            "processes": count_processes(folder),
            "last_line": (lines or [""])[-1].replace(folder, "")[:140],
        }
        row["right"] = is_right(row)
        return row


def hear_interrupts() -> None:
    """Let this process end at SIGINT, as at a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def is_job(path: Path) -> bool:
    """Whether a file is a job that can be read and run."""
    try:
        resolve(*load_job(str(path)))
    except EvenhandError:
        return False
    return True


def count_processes(folder: str) -> int:
    """Number of running processes whose working directory is the folder."""
    count = 0
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            count += link.readlink() == Path(folder)
        except OSError:
            # it has ended
            continue
    return count


def is_right(row: Mapping[str, Any]) -> bool:
    """Whether a run ended as it should."""
    codes: tuple[int, ...] = (4,)
    if row["ended_before"]:
        codes = (0, 1, 4)
    has_its_answer = row["written"] or not row["had_answer"]
    is_whole = row["whole"] or not row["written"]
    is_clean = row["unfinished"] == 0 and row["processes"] == 0
    return row["code"] in codes and has_its_answer and is_whole and is_clean


def summary_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many runs were right, and how long they took to end."""
    counted = [row for row in rows if not row["ended_before"]]
    seconds = sorted(row["seconds"] for row in counted)
    return {
        "runs": len(rows),
        "interrupted": len(counted),
        "right": sum(row["right"] for row in rows),
        "written": sum(row["written"] for row in counted),
        "median_seconds": seconds[len(seconds) // 2] if seconds else None,
        "longest_seconds": max(seconds, default=None),
    }


HEAD = """\
## Interrupted at random moments

`evenhand tune german-gbdt --minutes 1` with one limit, interrupted by SIGINT or SIGTERM at a random moment; half of the runs with an
empty store, half go on with the study of the others.
A run is right if it ends with exit code 4, has written the best so far if there was one, as a whole job, and leaves no unfinished
file and no process.
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The table of interrupted runs; nothing without results."""
    if not content:
        return []
    row = content["summary"]
    lines = ["| runs | interrupted | right | with a job | seconds to the end: median, longest |"]
    lines.append("|---|---|---|---|---|")
    cells = [row["runs"], row["interrupted"], row["right"], row["written"]]
    cells.append(f"{row['median_seconds']:.1f}, {row['longest_seconds']:.1f}")
    lines.append(f"| {' | '.join(map(str, cells))} |")
    return [HEAD, provenance(content), *lines]


if __name__ == "__main__":
    main()
