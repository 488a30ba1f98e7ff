"""Commands that are killed at random moments, and run again: what they leave.

`python -m tests.chaos.random_kills [--command NAME ...] [--kills N]` prints a JSON object.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import yaml

from tests.chaos.kill_points import (
    MODEL,
    Ended,
    attempt,
    collect_garbage,
    empty_registry,
    make_bench,
    put_back,
    temporaries,
)
from tests.flows.people import PROXY_JOB, make_people, make_uneven

KILLS = 25  # of each command: two hundred in all
GATES = ("--gates", "gates.yaml")
COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "job.yaml", "--direct", "--json", "--set", "method.n_steps=6"),
    "filter": ("filter", "proxy.yaml", "--direct", "--input", "uneven.csv", "--output", "out"),
    "predict": ("predict", f"models:/{MODEL}/1", "--direct", "--input", "new.csv")
    + ("--output", "out"),
    "tune": ("tune", "job.yaml", "--direct", "--trials", "2", "--folds", "2", "--workers", "1")
    + ("--maximize", "auc", "--study", "one", "--seed", "1", "--force"),
    "promote": ("promote", f"models:/{MODEL}/2"),
    "policy set": ("policy", "set", MODEL, *GATES),
    "evaluate": ("evaluate", f"{MODEL}/2", "--data", "new.csv", *GATES, "--direct"),
    "monitor": ("monitor", MODEL, "--data", "new.csv", "--direct"),
}
CHALLENGER = ("--set", "method.n_steps=5", "--set", "publish.alias=challenger")


@dataclass
class State:
    """What a command leaves: its exit code, and what of it does not depend on the time."""

    code: int | None
    err: str
    artifacts: dict[str, dict[str, str]]
    outputs: dict[str, str]
    aliases: dict[str, str]
    versions: list[str]


def make_snapshot(folder: Path) -> Path:
    """A folder with two versions of a model, a proxy, a policy's gates and new rows; a copy of it
    beside it.
    """
    made = make_bench(folder / "w", empty_registry(folder / "empty.db"))
    pyarrow.csv.write_csv(make_people(300, 9), made / "new.csv")
    pyarrow.csv.write_csv(make_uneven(), made / "uneven.csv")
    proxy = {**PROXY_JOB, "table": {"name": "people", "path": "uneven.csv"}}
    (made / "proxy.yaml").write_text(yaml.safe_dump(proxy))
    (made / "gates.yaml").write_text("auc: {min: 0.1}\n")
    for command in (
        ("run", "job.yaml", "--direct"),
        ("run", "job.yaml", "--direct", *CHALLENGER),
        ("run", "proxy.yaml", "--direct"),
    ):
        ended = attempt(made, *command)
        assert ended.code == 0, ended.err
    shutil.copytree(made, folder / "snapshot")
    return made


def step_digests(store: Path) -> dict[str, dict[str, str]]:
    """Digests of the outputs of each step's records; those of one step are told apart by them."""
    records: dict[str, dict[str, str]] = {}
    for path in sorted(store.glob("steps/*/*.json")):
        record = json.loads(path.read_text())
        digests = {name: item["sha256"] for name, item in record["outputs"].items()}
        records[f"{path.parent.name}/{path.stem}"] = digests
    return records


def state_of(folder: Path, ended: Ended) -> State:
    """What a command that ended has left."""
    outputs = {}
    for path in sorted((folder / "out").glob("*")) + sorted(folder.glob("*.tuned.yaml")):
        if path.is_file():
            outputs[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    checked = attempt(folder, "verify", MODEL)
    if checked.code != 0:
        ended.err += f"\nevenhand: verify: {checked.err}{checked.out}"
    registry = checked.registry
    # progress depends on how fast the machine is
    lines = [line for line in ended.err.splitlines() if line.startswith("evenhand: ")]
    return State(
        code=ended.code,
        err="\n".join(lines),
        artifacts=step_digests(folder / "store"),
        outputs=outputs,
        aliases=registry.get("aliases", {}),
        versions=registry.get("versions", []),
    )


def differences(whole: State, other: State) -> list[str]:
    """In what a state differs from that of the unbroken command."""
    faults = []
    for name in ("code", "err", "artifacts", "outputs", "aliases", "versions"):
        expected = getattr(whole, name)
        got = getattr(other, name)
        if expected != got:
            faults.append(f"{name}: {str(got)[:300]} instead of {str(expected)[:300]}")
    return faults


def killed_again_and_again(folder: Path, name: str, kills: int) -> dict[str, Any]:
    """Kill a command at random moments, each time followed by the same command."""
    work = folder / "w"
    put_back(folder / "snapshot", work)
    command = COMMANDS[name]
    first = attempt(work, *command)
    whole = state_of(work, first)
    killed = 0
    wrong = []
    left = 0
    shares = np.random.default_rng([len(name), kills]).uniform(0, 1, kills)
    for share in shares:
        put_back(folder / "snapshot", work)
        killed += attempt(work, *command, kill_after=share * first.seconds).killed
        again = attempt(work, *command)
        faults = differences(whole, state_of(work, again))
        left += bool(temporaries(work))
        collect_garbage(work)
        if temporaries(work):
            faults.append(f"left: {temporaries(work)}")
        if faults:
            wrong.append({"share": round(float(share), 3), "faults": faults})
    return {
        "kills": kills,
        "killed": killed,
        "exit_code": whole.code,
        "wrong": wrong,
        "with_temporary_files_until_cache_gc": left,
    }


def main() -> None:
    """Kill the commands, and print what is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--command", action="append", choices=list(COMMANDS))
    parser.add_argument("--kills", type=int, default=KILLS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        started = time.monotonic()
        make_snapshot(folder)
        for name in options.command or COMMANDS:
            result = killed_again_and_again(folder, name, options.kills)
            result["seconds"] = round(time.monotonic() - started)
            sys.stdout.write(json.dumps({name: result}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
