"""Jobs in processes of their own: on real data through Prefect, and on a table never seen
before.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STEPS = ["ingest", "contract", "preprocess", "profile", "train", "evaluate", "gate", "publish"]
QUICK = (
    "--set",
    "method.n_steps=60",
    "--set",
    "evaluate.draws=50",
    "--set",
    "gates={auc: {min: 0.4}}",
)

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


@pytest.mark.long
@pytest.mark.data
def test_adult_is_published_cached_and_rerun_where_it_changed(cli: Any, data_folder: Path) -> None:
    first = cli.json("adult-gbdt", *QUICK)
    assert first["status"] == "published", first["error"]
    assert first["cached"] == []
    assert list(first["seconds"]) == STEPS

    again = cli.json("adult-gbdt", *QUICK)
    assert (again["status"], again["cached"]) == ("published", STEPS)
    assert again["model"] == first["model"]
    assert again["metrics"] == first["metrics"]

    changed = cli.json("adult-gbdt", *QUICK, "--set", "method.eta=0.04")
    assert changed["cached"] == ["ingest", "contract", "preprocess", "profile"]
    assert changed["model"]["version"] != first["model"]["version"]

    # the alias goes back with the job that is run, without a new version
    back = cli.json("adult-gbdt", *QUICK)
    assert back["cached"] == STEPS[:-1]
    assert back["model"] == first["model"]

    report = artifact(first, "report").read_text()
    assert "adult-gbdt" in report
    assert "<script" not in report


@pytest.mark.long  # with made-up people in tests/tasks/steps/test_publish_step.py
@pytest.mark.data
def test_the_model_predicts_the_same_in_a_fresh_process(cli: Any, data_folder: Path) -> None:
    """It predicts from raw columns."""
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
        [
            sys.executable,
            "-c",
            PREDICT,
            f"sqlite:///{store}/mlflow.db",
            verdict["model"]["uri"],
            str(raw),
        ],
        check=True,
        capture_output=True,
        text=True,
        cwd=store.parent,
    )
    served = json.loads(done.stdout.splitlines()[-1])
    assert served == predictions["probability"].to_pylist()


@pytest.mark.long
@pytest.mark.data
def test_a_projected_model_is_blind_to_what_its_subspace_holds(cli: Any, data_folder: Path) -> None:
    blind = "gates={consistency.race: {min: 1.0}, consistency.gender: {min: 1.0}}"
    steps = ("--set", "method.n_steps=100", "--set", "method.eta=0.3", "--set", "evaluate.draws=0")
    verdict = cli.json("compas-project", "--direct", *steps, "--set", blind)
    assert verdict["status"] == "published", verdict["gates"]
    assert cli.json("compas-gbdt", "--direct", *steps, "--set", blind)["status"] == "gated"


@pytest.mark.long  # `init` is tested in tests/flows/commands/test_init_command.py
def test_a_table_never_seen_before_needs_no_code(cli: Any, tmp_path: Path) -> None:
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame(
        {
            "city": rng.choice(["Köln", "Bonn", "Aachen, Nord"], n),
            "joined": (
                pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), "D")
            ).date,
            "income": rng.gamma(3, 900, n).round(2),
            "gender": rng.choice(["f", "m", "x"], n, p=[0.45, 0.45, 0.1]),
            "age": rng.integers(18, 80, n),
        }
    )
    score = (frame["income"] - 2700) / 1500 + 0.8 * (frame["city"] == "Bonn") + rng.normal(0, 1, n)
    frame["hired"] = np.where(score > 0, "yes", "no")
    frame.to_csv(tmp_path / "people.csv", sep=";", index=False)

    done = cli(
        "init", "people.csv", "--label", "hired", "--sensitive", "gender", "--sensitive", "age"
    )
    assert done.returncode == 0, done.stderr
    verdict = cli.json("people.yaml", "--direct")
    assert verdict["status"] == "published", verdict["error"]
    assert verdict["metrics"]["auc"] > 0.7
    assert "gap_max.gender" in verdict["metrics"]
    assert "gap_max.age" in verdict["metrics"]
