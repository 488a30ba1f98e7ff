"""The real services at work: an unchanged retraining, ten at once, a killed worker, and a large
evaluation.

Run ``python -m benchmarks.speed.services_speed``; it needs PostgreSQL's programs and the development extra, no
data, and some ten minutes. With ``--latency`` it measures the unchanged retraining only, which a
whole run does too: on the work pool and with ``evenhand serve``. PostgreSQL, a Prefect server, an
MLflow server and one worker are started by ``deploy/local.sh`` in a new folder. Seconds of a run
are those between its scheduled moment and its end.
"""

from __future__ import annotations

import datetime
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.csv
import yaml

from benchmarks.common import log, provenance, write_result
from evenhand.fairlib.datasets.generated import make_loans
from tests.e2e.real_services import ROOT, Shell

REPEATS = 3
EVERY_S = 30
AT_ONCE = 10
EVALUATED_ROWS = 1_000_000
LOST_AFTER_S = 60
INDEXED_RUNS = 200
ENDS = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def main(arguments: list[str]) -> None:
    """Measure everything and write the results; a child process gets ``--evaluate FOLDER``."""
    if arguments[:1] == ["--evaluate"]:
        print(json.dumps(evaluate_here(Path(arguments[1]))))
        return
    only = arguments[:1] == ["--latency"]
    folder = Path(tempfile.mkdtemp(prefix="evenhand-services-"))
    folder.chmod(0o755)
    shell = Shell.below(folder)
    try:
        start_stack(shell, folder)
        identifier = deploy(shell, folder)
        latency = measure_latency(shell, folder, identifier)
        result = {} if only else measure(shell, folder, identifier)
    finally:
        shell(f"sh deploy/local.sh stop {folder}")
        shutil.rmtree(folder, ignore_errors=True)
    if not only:
        write_result(
            "services", {**provenance("python -m benchmarks.speed.services_speed"), **result}
        )
    write_result(
        "latency", {**provenance("python -m benchmarks.speed.services_speed --latency"), **latency}
    )
    print(json.dumps(result | latency, indent=1))


def start_stack(shell: Shell, folder: Path) -> None:
    """Start the services, and set their addresses."""
    done = shell(f"sh deploy/local.sh start {folder}")
    if done.returncode:
        raise SystemExit(done.stderr)
    shell(f". {folder}/env")


def measure_latency(shell: Shell, folder: Path, identifier: str) -> dict[str, Any]:
    """Seconds of an unchanged retraining on the work pool, and with ``evenhand serve``."""
    return {
        "target": {"pool_s": 12, "serve_s": 5},
        "load_before": round(os.getloadavg()[0], 1),
        "pool": unchanged(shell, identifier),
        "serve": served(shell, folder),
    }


def served(shell: Shell, folder: Path) -> dict[str, Any]:
    """The deployment on a schedule of half a minute, in place of the work pool."""
    log("evenhand serve")
    content = yaml.safe_load((folder / "prefect.yaml").read_text())
    content["deployments"][0] |= {"name": "served", "schedules": [{"interval": EVERY_S}]}
    (folder / "serve.yaml").write_text(yaml.safe_dump(content))
    process = subprocess.Popen(
        ["bash", "-c", "\n".join([*shell.lasting, f"exec evenhand serve {folder}/serve.yaml"])],
        env=shell.environment,
        stdout=subprocess.DEVNULL,
    )
    named = {"name": {"any_": ["served"]}}
    try:
        runs: list[dict[str, Any]] = []
        while (
            len(runs) < REPEATS + 1
        ):  # the first imports libraries and compares with no run before it
            time.sleep(2)
            final = {"state": {"type": {"any_": list(ENDS)}}}
            runs = shell.ask(
                "flow_runs/filter", deployments=named, flow_runs=final, sort="START_TIME_ASC"
            )
    finally:
        process.terminate()
        process.wait()
    taken = [seconds(run) for run in runs[1:]]
    return {
        "first_s": seconds(runs[0]),
        "seconds": taken,
        "median_s": statistics.median(taken),
        "states": sorted({run["state_name"] for run in runs}),
    }


def measure(shell: Shell, folder: Path, identifier: str) -> dict[str, Any]:
    """Measure one thing after the other on the started stack."""
    return {
        "target": {
            "at_once": AT_ONCE,
            "evaluate_s": 60,
            "evaluate_gb": 2,
            "index_ms": 1000,
        },
        "at_once": at_once(shell, identifier),
        "killed": killed(shell, identifier, folder),
        "evaluate": evaluated(shell, folder),
        "reports": reports(shell, folder),
    }


def deploy(shell: Shell, folder: Path) -> str:
    """One deployment of the retraining flow, as ``deploy/prefect.yaml`` has them, and the
    automations.
    """
    content = yaml.safe_load((ROOT / "deploy" / "prefect.yaml").read_text())
    one = content["deployments"][0]
    one |= {
        "name": "loans",
        "parameters": {"job": "loans-gbdt", "only_if_changed": True},
        "schedules": [],
    }
    del one["concurrency_limit"]
    content["deployments"] = [one]
    (folder / "prefect.yaml").write_text(yaml.safe_dump(content))
    notify = yaml.safe_load((ROOT / "deploy" / "notify.yaml").read_text())
    (folder / "notify.yaml").write_text(
        yaml.safe_dump(notify | {"lost_after_seconds": LOST_AFTER_S})
    )
    for command in (
        f"prefect --no-prompt deploy --all --prefect-file {folder}/prefect.yaml",
        f"evenhand notify {folder}/notify.yaml",
    ):
        done = shell(command)
        if done.returncode:
            raise SystemExit(done.stderr)
    return str(shell.ask("deployments/filter")[0]["id"])


def start(shell: Shell, identifier: str, **parameters: Any) -> str:
    """Request a run of the deployment now, and return its id."""
    return str(shell.ask(f"deployments/{identifier}/create_flow_run", parameters=parameters)["id"])


def ended(shell: Shell, runs: list[str], timeout: float = 900) -> list[dict[str, Any]]:
    """Wait until the runs have ended."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        found = shell.ask("flow_runs/filter", flow_runs={"id": {"any_": runs}})
        if all(run["state_type"] in ENDS for run in found):
            return list(found)
        time.sleep(0.5)
    raise SystemExit(f"runs did not end within {timeout:.0f} s")


def seconds(run: dict[str, Any], since: str = "expected_start_time") -> float:
    """From the scheduled moment (or another) to the end."""
    first, last = (datetime.datetime.fromisoformat(run[key]) for key in (since, "end_time"))
    return round((last - first).total_seconds(), 2)


def unchanged(shell: Shell, identifier: str) -> dict[str, Any]:
    """Train once, then find nothing to do."""
    log("an unchanged retraining")
    (first,) = ended(shell, [start(shell, identifier)])
    again = [ended(shell, [start(shell, identifier)])[0] for _ in range(REPEATS)]
    return {
        "first_s": seconds(first),
        "seconds": [seconds(run) for run in again],
        "seconds_of_the_run_itself": [seconds(run, "start_time") for run in again],
        "median_s": statistics.median(seconds(run) for run in again),
        "states": sorted({run["state_name"] for run in again}),
    }


def at_once(shell: Shell, identifier: str) -> dict[str, Any]:
    """Simultaneous retrainings of different jobs on one worker."""
    log(f"{AT_ONCE} retrainings at once")
    started = time.monotonic()
    runs = [
        start(
            shell,
            identifier,
            overrides=[f"publish.model=loans-{k}", f"seed={k}", "table.rows=4000"],
        )
        for k in range(1, AT_ONCE + 1)
    ]
    states = [run["state_name"] for run in ended(shell, runs)]
    return {
        "runs": AT_ONCE,
        "completed": states.count("Completed"),
        "seconds": round(time.monotonic() - started, 1),
    }


def killed(shell: Shell, identifier: str, folder: Path) -> dict[str, Any]:
    """Kill the worker and its run in training; the server notices, and the next run uses
    the cache.
    """
    log("a worker that is killed")
    long = ["method.n_steps=1500", "publish.model=loans-killed"]
    run = start(shell, identifier, overrides=long)
    worker = psutil.Process(int((folder / "run" / "worker.pid").read_text()))
    while not shell.ask(
        "task_runs/filter",
        flow_runs={"id": {"any_": [run]}},
        task_runs={"name": {"any_": ["train"]}, "state": {"type": {"any_": ["RUNNING"]}}},
    ):
        time.sleep(0.2)
    for process in [worker, *worker.children(recursive=True)]:
        process.kill()
    gone = time.monotonic()
    (crashed,) = ended(shell, [run])
    noticed = time.monotonic() - gone
    with (folder / "log" / "worker.log").open("a") as out:
        again = subprocess.Popen(
            [
                "bash",
                "-c",
                "\n".join([*shell.lasting, "exec prefect worker start --pool evenhand"]),
            ],
            env=shell.environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    (folder / "run" / "worker.pid").write_text(str(again.pid))
    (after,) = ended(shell, [start(shell, identifier, overrides=long)])
    verdicts = [
        json.loads(path.read_text())
        for path in sorted((folder / "store" / "runs").glob("*/verdict.json"))
    ]
    return {
        "state": crashed["state_name"],
        "noticed_after_s": round(noticed),
        "lost_after_s": LOST_AFTER_S,
        "next_state": after["state_name"],
        "next_from_cache": verdicts[-1]["cached"],
    }


def evaluated(shell: Shell, folder: Path) -> dict[str, Any]:
    """Evaluate a challenger beside the champion on a million rows with the command."""
    log(f"an evaluation of {EVALUATED_ROWS:,} rows")
    table = make_loans(EVALUATED_ROWS, seed=77)
    import pyarrow as pa

    pyarrow.csv.write_csv(pa.Table.from_pandas(table, preserve_index=False), folder / "million.csv")
    trained = shell(
        "evenhand run loans-gbdt --direct --set publish.alias=challenger --set method.n_steps=80"
    )
    if trained.returncode:
        raise SystemExit(trained.stderr)
    found = []
    for _ in range(REPEATS):
        shutil.rmtree(folder / "fresh", ignore_errors=True)
        child = shell(
            f"{sys.executable} -m benchmarks.speed.services_speed --evaluate {folder}", timeout=900
        )
        if child.returncode:
            raise SystemExit(child.stderr)
        found.append(json.loads(child.stdout.splitlines()[-1]))
    return {
        "rows": EVALUATED_ROWS,
        "draws": 1000,
        "metrics": found[0]["metrics"],
        "seconds": [item["seconds"] for item in found],
        "median_s": statistics.median(item["seconds"] for item in found),
        "peak_gb": max(item["peak_gb"] for item in found),
    }


def evaluate_here(folder: Path) -> dict[str, Any]:
    """Time the command in a child process, with an empty store."""
    started = time.perf_counter()
    done = subprocess.run(
        [
            *(
                "evenhand",
                "evaluate",
                "models:/loans-gbdt@challenger",
                "--baseline",
                "models:/loans-gbdt@champion",
            ),
            *(
                "--data",
                str(folder / "million.csv"),
                "--direct",
                "--json",
                "--store",
                str(folder / "fresh"),
            ),
            *("--set", "evaluate.draws=1000"),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    taken = time.perf_counter() - started
    metrics = [
        name for name in json.loads(done.stdout)["metrics"] if not name.endswith((".low", ".high"))
    ]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    return {"seconds": round(taken, 2), "peak_gb": round(peak, 3), "metrics": len(metrics)}


def reports(shell: Shell, folder: Path) -> dict[str, Any]:
    """Sizes of the reports, and the page over 200 runs: time to write it, and to open it in a
    browser.
    """
    log(f"an index over {INDEXED_RUNS} runs")
    runs = folder / "store" / "runs"
    sizes = [
        path.stat().st_size
        for path in [*runs.glob("*/report.html"), *(folder / "fresh").glob("runs/*/report.html")]
    ]
    model = next(path.parent for path in sorted(runs.glob("*/report.html")))
    for k in range(INDEXED_RUNS - sum(path.is_dir() for path in runs.iterdir())):
        copy = runs / f"20260101-{k:06d}-loans-gbdt-{k:06x}"
        shutil.copytree(model, copy)
        verdict = json.loads((copy / "verdict.json").read_text())
        (copy / "verdict.json").write_text(json.dumps(verdict | {"run_id": copy.name}))
    started = time.perf_counter()
    shell("evenhand report --all")
    taken = time.perf_counter() - started
    index = runs / "index.html"
    return {
        "largest_report_mb": round(max(sizes) / 1e6, 3),
        "index_runs": sum(path.is_dir() for path in runs.iterdir()),
        "index_mb": round(index.stat().st_size / 1e6, 3),
        "index_command_s": round(taken, 2),
        "index_opens_ms": opens(index),
    }


def opens(page: Path) -> float | None:
    """Milliseconds until the end of the page's load event in headless Chromium; None without
    Chromium.
    """
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return None
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        found = []
        for _ in range(REPEATS):
            browser.get(page.as_uri())
            found.append(
                browser.execute_script(
                    "return performance.getEntriesByType('navigation')[0].loadEventEnd"
                )
            )
        return round(float(statistics.median(found)), 1)
    finally:
        browser.quit()


if __name__ == "__main__":
    main(sys.argv[1:])
