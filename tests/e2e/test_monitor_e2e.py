"""The monitor command in processes of its own, through Prefect."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.flow

JOB = {
    "name": "loans-watched",
    "table": {"name": "loans", "rows": 2000},
    "method": {"name": "gbdt", "n_steps": 5, "max_depth": 2, "n_jobs": 1},
    "evaluate": {"draws": 20},
}


def test_drift_fails_the_flow_and_retrains_what_has_changed(cli: Any, tmp_path: Path) -> None:
    job, successor, gates = (tmp_path / name for name in ("job.yaml", "next.yaml", "gates.yaml"))
    job.write_text(yaml.safe_dump(JOB))
    successor.write_text(yaml.safe_dump(JOB | {"seed": 3}))
    gates.write_text("psi_mean: {max: 0.0}\n")
    assert cli.json(str(job), "--direct")["status"] == "published"
    command = ("monitor", "loans-watched", "--data", "loans", "--set", "table.rows=1000", "--set", "seed=4")
    done = cli(*command, "--gates", str(gates), "--retrain", str(successor), "--json")
    assert (done.returncode, done.stderr) == (1, "")
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["exit_code"]) == ("monitored", 1)
    assert (answer["retrained"]["status"], answer["retrained"]["model"]["version"]) == ("published", "2")
    with closing(sqlite3.connect(cli.store / "prefect" / "prefect.db")) as database:
        runs = database.execute("select state_type from flow_run order by created").fetchall()
        keys = {key for (key,) in database.execute("select distinct key from artifact where key is not null")}
    assert [state for (state,) in runs] == ["FAILED", "COMPLETED"]
    assert {"loans-watched-drift", "loans-watched-monitor"} <= keys
