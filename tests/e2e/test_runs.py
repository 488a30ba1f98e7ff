"""The main job on real data, through Prefect, the store, MLflow and the report."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEPS = ["ingest", "contract", "preprocess", "train", "evaluate", "gate", "publish"]
QUICK = ("--set", "method.n_steps=60", "--set", "evaluate.draws=50", "--set", "gates={auc: {min: 0.4}}")
# boosting slow enough to be killed or met in the middle, on any machine
SLOW = ("--set", "method.n_steps=200", "--set", "evaluate.draws=50", "--set", "gates={auc: {min: 0.4}}")

pytestmark = pytest.mark.flow

PREDICT = """
import json, sys, pandas as pd, pyarrow.parquet as pq
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
raw = pq.read_table(sys.argv[3]).to_pandas()
print(json.dumps(model.predict(raw)["probability"].tolist()))
"""


def artifact(verdict: dict[str, Any], name: str) -> Path:
    return Path(verdict["artifacts"][name])


@pytest.mark.data
def test_adult_is_published_cached_and_rerun_only_from_where_it_changed(cli: Any, data_folder: Path) -> None:
    first = cli.json("adult-gbdt", *QUICK)
    assert first["status"] == "published", first["error"]
    assert first["cached"] == []
    assert list(first["seconds"]) == STEPS

    again = cli.json("adult-gbdt", *QUICK)
    assert (again["status"], again["cached"]) == ("published", STEPS)
    assert again["model"] == first["model"]
    assert again["metrics"] == first["metrics"]

    changed = cli.json("adult-gbdt", *QUICK, "--set", "method.eta=0.04")
    assert changed["cached"] == ["ingest", "contract", "preprocess"]
    assert changed["model"]["version"] != first["model"]["version"]

    # the alias goes back with the job that is run, without a new version
    back = cli.json("adult-gbdt", *QUICK)
    assert back["cached"] == STEPS[:-1]
    assert back["model"] == first["model"]

    report = artifact(first, "report").read_text()
    assert "adult-gbdt" in report
    assert "<script" not in report


@pytest.mark.data
def test_the_published_model_predicts_the_same_from_raw_columns_in_a_fresh_process(
    cli: Any, data_folder: Path
) -> None:
    import pyarrow.parquet as pq

    verdict = cli.json("german-budro", "--direct", *QUICK)
    assert verdict["status"] == "published", verdict["error"]
    store = cli.store
    table = pq.read_table(artifact(verdict, "contract.checked"))
    predictions = pq.read_table(artifact(verdict, "evaluate.predictions"))
    raw = store.parent / "raw.parquet"
    # every column of the table, label and all: the model takes what it needs
    pq.write_table(table.take(predictions["row"]), raw)
    done = subprocess.run(
        [sys.executable, "-c", PREDICT, f"sqlite:///{store}/mlflow.db", verdict["model"]["uri"], str(raw)],
        check=True,
        capture_output=True,
        text=True,
        cwd=store.parent,
    )
    served = json.loads(done.stdout.splitlines()[-1])
    assert served == predictions["probability"].to_pylist()


@pytest.mark.data
def test_a_projected_model_is_blind_to_what_its_subspace_holds(cli: Any, data_folder: Path) -> None:
    blind = "gates={consistency.race: {min: 1.0}, consistency.gender: {min: 1.0}}"
    steps = ("--set", "method.n_steps=100", "--set", "method.eta=0.3", "--set", "evaluate.draws=0")
    verdict = cli.json("compas-project", "--direct", *steps, "--set", blind)
    assert verdict["status"] == "published", verdict["gates"]
    assert cli.json("compas-gbdt", "--direct", *steps, "--set", blind)["status"] == "gated"


def copy_of_the_project(folder: Path) -> Path:
    folder.mkdir()
    for package in ("flows", "tasks", "fairlib", "data_contracts"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_editing_a_file_that_training_calls_reruns_training(cli: Any, tmp_path: Path) -> None:
    cli.source = copy_of_the_project(tmp_path / "copy")
    job = ("loans-budro", "--direct", "--set", "table.rows=400", *QUICK)
    first = cli.json(*job)
    assert first["status"] == "published", first["error"]
    assert set(cli.json(*job)["cached"]) == set(first["seconds"])

    solver = cli.source / "fairlib" / "transport" / "_kernels.py"
    solver.write_text(solver.read_text() + "\n# edited\n")
    edited = cli.json(*job)
    assert edited["status"] == "published", edited["error"]
    assert edited["cached"][:4] == ["ingest", "contract", "preprocess", "fair_metric"]
    assert "train" not in edited["cached"]


def wait_for(condition: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_run_is_finished_by_the_next_one(cli: Any) -> None:
    job = ("loans-budro", "--set", "table.rows=4000", *SLOW)
    process = cli.start("run", *job, "--json")
    locks = cli.store / "locks"
    wait_for(lambda: list(locks.glob("train-*")), process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not list((cli.store / "steps" / "train").glob("*")), "killed too late to tell anything"
    assert not list((cli.store / "artifacts" / "model").glob("*"))

    second = cli.json(*job)
    assert second["status"] == "published", second["error"]
    assert second["cached"] == ["ingest", "contract", "preprocess", "fair_metric"]


def test_two_runs_at_the_same_moment_train_once(cli: Any) -> None:
    job = ("loans-budro", "--set", "table.rows=3000", *SLOW)
    processes = [cli.start("run", *job, "--json") for _ in range(2)]
    verdicts = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    assert [verdict["status"] for verdict in verdicts] == ["published", "published"], verdicts
    assert sum("train" in verdict["cached"] for verdict in verdicts) == 1
    assert verdicts[0]["metrics"] == verdicts[1]["metrics"]
    assert verdicts[0]["model"] == verdicts[1]["model"]


def test_a_refused_model_leaves_the_champion_in_place(cli: Any) -> None:
    job = ("loans-gbdt", "--set", "table.rows=1000", "--set", "evaluate.draws=50")
    champion = cli.json(*job, "--direct", "--set", "gates={}")
    done = cli("run", *job, "--set", "seed=1", "--set", "gates={accuracy: {min: 0.999}}")
    assert done.returncode == 1
    assert "FAIL" in done.stdout
    assert "not published" in done.stdout
    assert cli.json(*job, "--direct", "--set", "gates={}")["model"] == champion["model"]


def test_the_flow_runs_from_python(tmp_path: Path) -> None:
    code = (
        "from flows.retrain import retrain\n"
        "verdict = retrain('loans-gbdt', ['table.rows=500', 'gates={}', 'evaluate.draws=50'])\n"
        "print(verdict['status'], verdict['model']['version'])\n"
    )
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "EVENHAND_STORE": str(tmp_path / "store"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.stdout.splitlines()[-1:] == ["published 1"], done.stderr[-2000:]


def test_a_table_never_seen_before_needs_no_code(cli: Any, tmp_path: Path) -> None:
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame(
        {
            "city": rng.choice(["Köln", "Bonn", "Aachen, Nord"], n),
            "joined": (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), "D")).date,
            "income": rng.gamma(3, 900, n).round(2),
            "gender": rng.choice(["f", "m", "x"], n, p=[0.45, 0.45, 0.1]),
            "age": rng.integers(18, 80, n),
        }
    )
    score = (frame["income"] - 2700) / 1500 + 0.8 * (frame["city"] == "Bonn") + rng.normal(0, 1, n)
    frame["hired"] = np.where(score > 0, "yes", "no")
    frame.to_csv(tmp_path / "people.csv", sep=";", index=False)

    done = cli("init", "people.csv", "--label", "hired", "--sensitive", "gender", "--sensitive", "age")
    assert done.returncode == 0, done.stderr
    verdict = cli.json("people.yaml", "--direct")
    assert verdict["status"] == "published", verdict["error"]
    assert verdict["metrics"]["auc"] > 0.7
    assert "gap_max.gender" in verdict["metrics"]
    assert "gap_max.age" in verdict["metrics"]
