"""What a long search for a less discriminatory alternative could still gain on Adult.

    python -m benchmarks.studies.alternative_search [--cpu-minutes M] [--run FOLDER --commit C]

It runs ``evenhand tune adult-gbdt --alternative-to adult-gbdt`` with an empty store, for an hour of
CPU time by default. With ``--run`` the folder of a run that has ended is read instead, and the
commit says which state of the code it had.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import provenance, rounded, write_result

NAME = "alternative_search"
COMMAND = "python -m benchmarks.studies.alternative_search"
JOB = "adult-gbdt"
CPU_MINUTES = 60.0
KEPT = (
    *("metric", "no_worse", "champion", "best", "held", "models", "judged_models", "settings"),
    *("random", "random_as_good", "share_level", "share_bound", "longer", "gain_level"),
    *("gain_bound", "gain_reason", "tail", "shape", "p_value"),
)


def main() -> None:
    """Run the command, or read a run of it, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu-minutes", type=float, default=CPU_MINUTES)
    parser.add_argument("--run", type=Path, help="folder of a run that has ended")
    parser.add_argument("--commit", help="of the code that made this run")
    given = parser.parse_args()
    if given.run is not None and given.commit is None:
        parser.error("--run needs the --commit of the code that made it")
    origin = provenance(COMMAND)
    if given.run is None:
        study = searched(given.cpu_minutes)
    else:
        study = json.loads((given.run / "tuning.json").read_text())
        origin |= {"git_commit": given.commit}
    found = {key: study["alternative"][key] for key in KEPT}
    content = {
        "job": JOB,
        "cpu_minutes": given.cpu_minutes,
        "seconds": study["seconds"],
        "found": rounded(found, 6),
    }
    write_result(NAME, content | origin)


def searched(cpu_minutes: float) -> dict[str, Any]:
    """Run the command with an empty store, and return its study."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).parent / "evenhand"), "tune", JOB, "--json"]
        command += ["--alternative-to", JOB, "--cpu-minutes", f"{cpu_minutes:g}"]
        command += ["--store", f"{folder}/store"]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    study: dict[str, Any] = json.loads(done.stdout)["tuning"]
    return study


HEAD = """\
## A long search on Adult

`evenhand tune {job} --alternative-to {job}` for {minutes:g} CPU minutes. The values are those of validation rows, by which the search
chose, so they tend to be too good. The gain is what {longer:g} times as many random settings could add to the best found, at a
confidence of {level:.0%}; the goal is at most .01. A gap cannot be below 0, so it gains at most the best value.
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """What was found and the bounds; nothing without a result."""
    if not content:
        return []
    found = content["found"]
    head = HEAD.format(
        job=content["job"],
        minutes=content["cpu_minutes"],
        longer=found["longer"],
        level=found["gain_level"],
    )
    gain = f"no bound, as {found['gain_reason']}"
    if found["gain_bound"] is not None:
        gain = f"at most {found['gain_bound']:.4f}"
        # gaps cannot be below 0
        if found["gain_bound"] >= found["best"]["value"]:
            gain += ", which is all that there is"
    lines = [
        "| metric | the job | best | best that keeps its utility on unseen rows | random settings | better settings | gain |",
        "|---|---|---|---|---|---|---|",
    ]
    held = "none"
    if found["held"]:
        held = f"{found['held']['value']:.4f}, with a chance of {found['held']['chance']:.2f}"
    cells = [
        found["metric"],
        f"{found['champion']['value']:.4f}",
        f"{found['best']['value']:.4f}",
        held,
        str(found["random"]),
        f"at most {found['share_bound']:.1%}",
        gain,
    ]
    return [head, provenance(content), *lines, f"| {' | '.join(cells)} |", ""]


if __name__ == "__main__":
    main()
