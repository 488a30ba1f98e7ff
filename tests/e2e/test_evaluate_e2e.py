"""The evaluate command in processes of its own, through Prefect."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

pytestmark = pytest.mark.flow

JOB = {
    "name": "loans-small",
    "table": {"name": "loans", "rows": 2000},
    "method": {"name": "gbdt", "n_steps": 5, "max_depth": 2, "n_jobs": 1},
    "evaluate": {"draws": 20},
}


def flow_runs(store: Path) -> list[tuple[str, str]]:
    """Names and states of the flow runs, in their order."""
    with closing(sqlite3.connect(store / "prefect" / "prefect.db")) as database:
        return database.execute("select name, state_type from flow_run order by created").fetchall()


def artifacts(store: Path) -> set[str]:
    with closing(sqlite3.connect(store / "prefect" / "prefect.db")) as database:
        return {key for (key,) in database.execute("select distinct key from artifact where key is not null")}


def test_a_refusal_fails_the_flow_and_shows_in_prefect(cli: Any, tmp_path: Path) -> None:
    job, gates, junit = tmp_path / "job.yaml", tmp_path / "gates.yaml", tmp_path / "junit.xml"
    job.write_text(yaml.safe_dump(JOB))
    gates.write_text("auc: {min: 0.99}\n")
    assert cli.json(str(job), "--direct")["status"] == "published"
    command = ("evaluate", "loans-small", "--data", "loans", "--set", "table.rows=1000", "--set", "seed=4")
    judged = (*command, "--gates", str(gates), "--junit", str(junit), "--json")
    refused = cli(*judged)
    assert (refused.returncode, refused.stderr) == (1, "")
    verdict = json.loads(refused.stdout)
    assert (verdict["status"], verdict["gates"]["verdict"]) == ("evaluated", "refused")
    assert flow_runs(cli.store) == [("loans-small", "FAILED")]
    assert {"loans-small-evaluate", "loans-small-evaluate-metrics"} <= artifacts(cli.store)
    assert len(ElementTree.parse(junit).getroot().findall("testsuite/testcase/failure")) == 1
