"""docs/run-it-for-real.md, command by command, with PostgreSQL, Prefect, MLflow and a worker."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from real_services import Shell, lacking, page_commands

pytestmark = [pytest.mark.flow, pytest.mark.data, pytest.mark.long]

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One that PostgreSQL's own user can enter, unlike pytest's, should the tests run as root."""
    made = Path(tempfile.mkdtemp(prefix="evenhand-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def shell(folder: Path, data_folder: Path) -> Iterator[Shell]:
    reason = lacking()
    if reason is not None:
        pytest.skip(reason)
    shell = Shell.below(folder)
    shell.environment["EVENHAND_DATA"] = str(data_folder)
    yield shell
    stopped = shell(f"sh deploy/local.sh stop {folder}")
    assert stopped.returncode == 0, stopped.stderr
    for name in ("PGPORT", "PREFECT_PORT", "MLFLOW_PORT"):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", int(shell.environment[name]))) != 0, name


def statuses(folder: Path, name: str) -> list[str]:
    """Statuses of all runs of a job, oldest first."""
    runs = sorted((folder / "store" / "runs").iterdir())
    named = [run for run in runs if re.fullmatch(rf"[0-9-]+-{name}-[0-9a-f]+", run.name)]
    return [json.loads((run / "verdict.json").read_text())["status"] for run in named]


def test_the_page_runs_for_real(shell: Shell, folder: Path) -> None:
    commands = [command.replace("/srv/evenhand", str(folder)) for command in page_commands()]
    assert any("evenhand promote" in command for command in commands)
    junit, markdown = folder / "evaluation.xml", folder / "evaluation.md"
    evaluations: list[Done] = []
    for command in commands:
        if "local.sh stop" in command:
            break
        command = command.replace("evaluation.xml", str(junit)).replace(
            "evaluation.md", str(markdown)
        )
        done = shell(command)
        told = f"{command}\n{done.stdout}\n{done.stderr}"
        if "evenhand evaluate" in command:
            evaluations.append(done)
            suite = ET.parse(junit).getroot()[0]
            assert (suite.get("tests"), suite.get("failures")) == (
                "3",
                str(1 - (done.returncode == 0)),
            ), told
            assert "campaign" in markdown.read_text()
            if done.returncode:
                refused = shell("evenhand promote models:/campaign@challenger --to champion")
                assert refused.returncode == 1
                assert "refused by the gates" in refused.stderr
                markdown.unlink()
            continue
        assert done.returncode == 0, told
        if "deploy --all" in command:
            deployed = {item["name"]: item["id"] for item in shell.ask("deployments/filter")}
            names = {
                "campaign",
                "campaign-tune",
                "campaign-proxy",
                "arrivals",
                "scores",
                "challenger",
                "drift",
            }
            assert set(deployed) == names
            for (
                identifier
            ) in deployed.values():  # whatever the time is: only what is asked for runs
                shell.ask(f"deployments/{identifier}/pause_deployment")
        if "evenhand history" in command:
            assert "champion is version 3" in done.stdout

    # a worse one is refused, a better one passes
    assert [done.returncode for done in evaluations] == [1, 0], [
        done.stderr for done in evaluations
    ]
    assert "FAIL" in evaluations[0].stdout
    assert statuses(folder, "campaign") == ["published", "up_to_date", "published", "published"]
    assert statuses(folder, "campaign-proxy") == ["published"]
    assert statuses(folder, "campaign-proxy-filter") == ["filtered"]
    assert statuses(folder, "campaign-predict") == ["predicted"]
    assert statuses(folder, "campaign-monitor") == ["monitored"]
    ended = {
        (run["parameters"].get("job", "").rsplit("/", 1)[-1], run["state_name"])
        for run in shell.ask(
            "flow_runs/filter", flow_runs={"state": {"type": {"not_any_": ["SCHEDULED"]}}}
        )
    }
    assert ended == {
        ("campaign.yaml", "Completed"),
        ("campaign-proxy.yaml", "Completed"),
        ("", "Completed"),
    } | (
        {("", "Failed")}  # the evaluation that was refused
    )
    # what arrived has been filtered, and no column tells what the proxy balances but the one that
    # arrived
    kept = pq.read_table(folder / "project" / "balanced")
    arrived = len((folder / "project" / "arrivals" / "monday.csv").read_text().splitlines()) - 1
    assert 0 < kept.num_rows < arrived / 5
    # every move of an alias is on record, and the page over all runs names them all
    history = json.loads(shell("evenhand history campaign --json").stdout)
    assert [
        (c["alias"], c["from_version"], c["to_version"], c["reason"]) for c in history["changes"]
    ] == [
        ("champion", None, "1", "run"),
        ("challenger", None, "2", "run"),
        ("challenger", "2", "3", "run"),
        ("champion", "1", "3", "promote"),
    ]
    assert history["faults"] == []
    page = (folder / "store" / "runs" / "index.html").read_text()
    for run in (folder / "store" / "runs").iterdir():
        if (run / "report.html").is_file():
            assert run.name in page

    predict_new_people(shell, folder, arrived)
    audit_a_foreign_model(shell, folder)
    filter_in_duckdb(shell, folder)

    # a person goes back; the next night does not undo that
    back = shell("evenhand promote models:/campaign/1 --to champion --json")
    assert json.loads(back.stdout)["change"]["from_version"] == "3"
    night = shell("prefect deployment run retrain/campaign --watch")
    assert night.returncode == 0, night.stderr
    assert statuses(folder, "campaign")[-1] == "up_to_date"
    assert (
        json.loads(shell("evenhand history campaign --json").stdout)["aliases"]["champion"] == "1"
    )

    # gates that refuse fail the scheduled run, and the champion stays
    strict = shell(
        "prefect deployment run retrain/campaign --watch --param "
        "'overrides=[\"gates.auc.min=0.999\"]'"
    )
    assert strict.returncode != 0
    any_failed = {"state": {"type": {"any_": ["FAILED"]}}}
    failed = shell.ask("flow_runs/filter", flow_runs=any_failed, sort="END_TIME_DESC", limit=1)[0]
    assert "auc is" in failed["state"]["message"]
    assert statuses(folder, "campaign")[-1] == "gated"
    assert (
        json.loads(shell("evenhand history campaign --json").stdout)["aliases"]["champion"] == "1"
    )

    # a search finds another job, and the next night publishes it
    project = folder / "project"
    few = json.dumps(["tune.trials=6", "tune.workers=1"])
    search = shell(f"prefect deployment run tune/campaign-tune --watch --param 'overrides={few}'")
    assert search.returncode == 0, search.stderr
    assert statuses(folder, "campaign-tune") == ["evaluated"]
    tuned = project / "campaign.tuned.yaml"
    assert "study" in tuned.read_text()
    night = shell(f"prefect deployment run retrain/campaign --watch --param 'job=\"{tuned}\"'")
    assert night.returncode == 0, night.stderr
    assert statuses(folder, "campaign")[-1] == "published"
    again = shell(f"prefect deployment run retrain/campaign --watch --param 'job=\"{tuned}\"'")
    assert again.returncode == 0, again.stderr
    assert statuses(folder, "campaign")[-1] == "up_to_date"


def predict_new_people(shell: Shell, folder: Path, rows: int) -> None:
    """The champion predicts what arrived; its predictions are those of MLflow's own loader."""
    arrivals = folder / "project" / "arrivals" / "monday.csv"
    done = shell(
        f"evenhand predict campaign --input {arrivals} --output {folder}/scored --reasons 2"
    )
    assert done.returncode == 0, done.stderr
    (part,) = (folder / "scored").glob("*.parquet")
    scored = pq.read_table(part).to_pandas()
    assert len(scored) == rows
    assert scored["model_version"].unique().tolist() == ["campaign/3"]
    assert scored["reasons"].str.count(";").max() == 1
    script = (
        "import mlflow, pandas as pd\n"
        f"model = mlflow.pyfunc.load_model('models:/campaign@champion')\n"
        f"rows = pd.read_csv('{arrivals}', sep=';')\n"
        f"model.predict(rows).to_csv('{folder}/theirs.csv', index=False)\n"
    )
    (folder / "load.py").write_text(script)
    loaded = shell(f"python {folder}/load.py")
    assert loaded.returncode == 0, loaded.stderr
    theirs = pd.read_csv(folder / "theirs.csv")
    assert theirs["prediction"].tolist() == scored["prediction"].astype(str).tolist()
    np.testing.assert_allclose(theirs["probability"], scored["probability"], rtol=1e-6)


def audit_a_foreign_model(shell: Shell, folder: Path) -> None:
    """A scikit-learn model of the same registry, on rows that it has not seen."""
    holdout = folder / "project" / "holdout.csv"
    script = (
        "import mlflow, pandas as pd\n"
        "from sklearn.linear_model import LogisticRegression\n"
        f"rows = pd.read_csv('{folder}/project/labelled.csv', sep=';')\n"
        "model = LogisticRegression().fit(rows[['age', 'duration']], rows['y'] == 'yes')\n"
        "with mlflow.start_run():\n"
        "    mlflow.sklearn.log_model(model, name='model', registered_model_name='theirs')\n"
    )
    (folder / "theirs.py").write_text(script)
    made = shell(f"python {folder}/theirs.py")
    assert made.returncode == 0, made.stderr
    done = shell(
        f"evenhand audit {holdout} --model models:/theirs/1 --label y --sensitive age,marital "
        "--json"
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    assert metrics["auc"] > 0.7
    assert metrics["consistency.marital"] == 1.0
    assert 0 < metrics["impact_ratio.marital"] <= 1


def filter_in_duckdb(shell: Shell, folder: Path) -> None:
    """The proxy as a query keeps the rows that the filter keeps."""
    rows = pd.read_csv(folder / "project" / "arrivals" / "monday.csv", sep=";")
    rows.insert(0, "number", range(len(rows)))
    rows.to_csv(folder / "numbered.csv", index=False)
    job, chosen = (
        folder / "project" / "campaign-proxy.yaml",
        "--set filter.key=[number] --set filter.hash=sha256",
    )
    kept = shell(
        f"evenhand filter {job} --input {folder}/numbered.csv --output {folder}/kept {chosen}"
    )
    assert kept.returncode == 0, kept.stderr
    query = shell(f"evenhand export campaign-proxy --to sql --job {job} --table people {chosen}")
    assert query.returncode == 0, query.stderr
    (part,) = (folder / "kept").glob("*.parquet")
    with duckdb.connect() as database:
        database.register("people", rows)
        found = database.execute(query.stdout).fetchnumpy()["number"].tolist()
    # a query has no order, and a column of a CSV file that the contract does not name stays text
    assert sorted(map(str, found)) == sorted(pq.read_table(part)["number"].to_pylist())
    assert 0 < len(found) < len(rows)
