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
        command = command.replace("evaluation.xml", str(junit)).replace("evaluation.md", str(markdown))
        done = shell(command)
        told = f"{command}\n{done.stdout}\n{done.stderr}"
        if "evenhand evaluate" in command:
            evaluations.append(done)
            suite = ET.parse(junit).getroot()[0]
            assert (suite.get("tests"), suite.get("failures")) == ("3", str(1 - (done.returncode == 0))), told
            assert "campaign" in markdown.read_text()
            if done.returncode:
                refused = shell("evenhand promote models:/campaign@challenger --to champion")
                assert refused.returncode == 2
                assert "refused by the gates" in refused.stderr
                markdown.unlink()
            continue
        assert done.returncode == 0, told
        if "deploy --all" in command:
            deployed = {item["name"]: item["id"] for item in shell.ask("deployments/filter")}
            names = {"campaign", "campaign-tune", "campaign-proxy", "arrivals", "challenger", "drift"}
            assert set(deployed) == names
            for identifier in deployed.values():  # whatever the time is: only what is asked for runs
                shell.ask(f"deployments/{identifier}/pause_deployment")
        if "evenhand history" in command:
            assert "champion is version 3" in done.stdout

    # a worse one is refused, a better one passes
    assert [done.returncode for done in evaluations] == [1, 0], [done.stderr for done in evaluations]
    assert "FAIL" in evaluations[0].stdout
    assert statuses(folder, "campaign") == ["published", "up_to_date", "published", "published"]
    assert statuses(folder, "campaign-proxy") == ["published"]
    assert statuses(folder, "campaign-proxy-filter") == ["filtered"]
    assert statuses(folder, "campaign-monitor") == ["monitored"]
    ended = {
        (run["parameters"].get("job", "").rsplit("/", 1)[-1], run["state_name"])
        for run in shell.ask("flow_runs/filter", flow_runs={"state": {"type": {"not_any_": ["SCHEDULED"]}}})
    }
    assert ended == {
        ("campaign.yaml", "Completed"),
        ("campaign-proxy.yaml", "Completed"),
        ("", "Completed"),
    } | (
        {("", "Failed")}  # the evaluation that was refused
    )
    # what arrived has been filtered, and no column tells what the proxy balances but the one that arrived
    kept = pq.read_table(folder / "project" / "balanced")
    arrived = len((folder / "project" / "arrivals" / "monday.csv").read_text().splitlines()) - 1
    assert 0 < kept.num_rows < arrived / 5
    # every move of an alias is on record, and the page over all runs names them all
    history = json.loads(shell("evenhand history campaign --json").stdout)
    assert [(c["alias"], c["from_version"], c["to_version"], c["reason"]) for c in history["changes"]] == [
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

    # a person goes back; the next night does not undo that
    back = shell("evenhand promote models:/campaign/1 --to champion --json")
    assert json.loads(back.stdout)["change"]["from_version"] == "3"
    night = shell("prefect deployment run retrain/campaign --watch")
    assert night.returncode == 0, night.stderr
    assert statuses(folder, "campaign")[-1] == "up_to_date"
    assert json.loads(shell("evenhand history campaign --json").stdout)["aliases"]["champion"] == "1"

    # gates that refuse fail the scheduled run, and the champion stays
    strict = shell(
        "prefect deployment run retrain/campaign --watch --param 'overrides=[\"gates.auc.min=0.999\"]'"
    )
    assert strict.returncode != 0
    any_failed = {"state": {"type": {"any_": ["FAILED"]}}}
    failed = shell.ask("flow_runs/filter", flow_runs=any_failed, sort="END_TIME_DESC", limit=1)[0]
    assert "auc is" in failed["state"]["message"]
    assert statuses(folder, "campaign")[-1] == "gated"
    assert json.loads(shell("evenhand history campaign --json").stdout)["aliases"]["champion"] == "1"

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
