"""CPU seconds of an unchanged retraining on a worker, and of a flow that does nothing.

Run ``python -m benchmarks.speed.worker_speed [--pairs N]``; it needs PostgreSQL's programs and the
development extra, no data, and some five minutes. PostgreSQL, a Prefect server, an MLflow server and
a worker of a process pool are started by ``deploy/local.sh`` in a new folder. Both flows are
deployments in that pool with the same command and variables, those of ``deploy/prefect.yaml``. Their
runs alternate; the seconds are those of the run's process and of all that it starts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from benchmarks.common import log, provenance, write_result
from benchmarks.speed.services_speed import ended, start, start_stack
from tests.e2e.real_services import ROOT, Shell

TARGET_RATIO = 1.3
NOOP = '''"""A flow that does nothing."""

from prefect import flow


@flow(name="noop", validate_parameters=True, persist_result=False, log_prints=False)
def noop() -> None:
    """Do nothing."""
'''


def main() -> None:
    """Measure the pairs and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="evenhand-worker-"))
    folder.chmod(0o755)
    shell = Shell.below(folder)
    try:
        start_stack(shell, folder)
        result = measure(shell, deploy(shell, folder), folder, options.pairs)
    finally:
        shell(f"sh deploy/local.sh stop {folder}")
        shutil.rmtree(folder, ignore_errors=True)
    command = f"python -m benchmarks.speed.worker_speed --pairs {options.pairs}"
    write_result("worker_nothing_new", {**provenance(command), **result})
    print(json.dumps(result, indent=1))


def deploy(shell: Shell, folder: Path) -> dict[str, str]:
    """Deploy the flow that does nothing and the retraining; return their ids by name."""
    (folder / "cpu").mkdir()
    (folder / "noop.py").write_text(NOOP)
    content = yaml.safe_load((ROOT / "deploy" / "prefect.yaml").read_text())
    retraining = content["deployments"][0]
    pool = retraining["work_pool"]
    counted = f"{sys.executable} {ROOT}/benchmarks/speed/child_cpu.py {folder}/cpu"
    pool["job_variables"]["command"] = f"{counted} {pool['job_variables']['command']}"
    retraining = {
        "name": "loans",
        "entrypoint": retraining["entrypoint"],
        "parameters": {"job": "loans-gbdt", "only_if_changed": True},
        "work_pool": pool,
    }
    noop = {"name": "noop", "entrypoint": f"{folder}/noop.py:noop", "work_pool": pool}
    content["deployments"] = [retraining, noop]
    path = folder / "prefect.yaml"
    path.write_text(yaml.safe_dump(content))
    done = shell(f"prefect --no-prompt deploy --all --prefect-file {path}")
    if done.returncode:
        raise SystemExit(done.stderr)
    return {entry["name"]: entry["id"] for entry in shell.ask("deployments/filter")}


def measure(shell: Shell, ids: dict[str, str], folder: Path, pairs: int) -> dict[str, Any]:
    """Train once, then run the pairs."""
    log("the training")
    first = cpu_seconds(shell, ids["loans"], folder)
    noop: list[float] = []
    unchanged: list[float] = []
    # the first pair fills caches of the user's
    for pair in range(pairs + 1):
        log(f"pair {pair} of {pairs}")
        of_noop = cpu_seconds(shell, ids["noop"], folder)
        of_retraining = cpu_seconds(shell, ids["loans"], folder)
        if pair:
            noop.append(of_noop)
            unchanged.append(of_retraining)
    ratios = []
    for of_noop, of_retraining in zip(noop, unchanged, strict=True):
        ratios.append(round(of_retraining / of_noop, 3))
    ratio = round(statistics.median(ratios), 2)
    return {
        "target_ratio": TARGET_RATIO,
        "reached": ratio <= TARGET_RATIO,
        "pairs": pairs,
        "load_at_the_end": round(os.getloadavg()[0], 1),
        "training_cpu_s": first,
        "noop_cpu_s": round(statistics.median(noop), 2),
        "unchanged_cpu_s": round(statistics.median(unchanged), 2),
        "ratio": ratio,
        # other processes lengthen runs, so the shortest of each kind were disturbed least
        "ratio_of_the_shortest": round(min(unchanged) / min(noop), 2),
        "all_noop_cpu_s": noop,
        "all_unchanged_cpu_s": unchanged,
        "all_ratios": ratios,
    }


def cpu_seconds(shell: Shell, identifier: str, folder: Path) -> float:
    """Run a deployment, and return the CPU seconds of its process tree."""
    run = start(shell, identifier)
    (state,) = ended(shell, [run])
    if state["state_name"] != "Completed":
        raise SystemExit(f"{state['name']}: {state['state']}")
    path = folder / "cpu" / f"{run}.json"
    # the process ends a moment after its run
    for _ in range(600):
        if path.is_file():
            break
        time.sleep(0.1)
    return float(json.loads(path.read_text())["cpu_s"])


if __name__ == "__main__":
    main()
