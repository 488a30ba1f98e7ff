"""The filter command in processes of its own: through Prefect, and killed."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from evenhand.fairlib.datasets.loans import make_loans

pytestmark = pytest.mark.flow

JOB = {
    "name": "loans-proxy",
    "table": {"name": "loans", "rows": 2000},
    "sensitive": ["group"],
    "method": {"name": "naive-tree"},
    "evaluate": {"draws": 20},
    "filter": {"key": ["id"], "rows_per_unit": 1000},
}


@pytest.fixture
def published(cli: Any, tmp_path: Path) -> Path:
    """The job of a proxy that is published in the store."""
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(JOB))
    assert cli.json(str(job), "--direct")["status"] == "published"
    return job


def put(path: Path, rows: int, seed: int) -> None:
    """Loans with an id, in row groups of a thousand."""
    path.parent.mkdir(exist_ok=True)
    table = pa.Table.from_pandas(make_loans(rows, seed=seed), preserve_index=False)
    ids = pa.array(np.arange(rows) + 10_000_000 * seed)
    pq.write_table(table.append_column("id", ids), path, row_group_size=1000)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flow_runs(store: Path) -> list[str]:
    """States of the flow runs, in their order."""
    with closing(sqlite3.connect(store / "prefect" / "prefect.db")) as database:
        return [state for (state,) in database.execute("select state_type from flow_run order by created")]


def test_the_flow_fails_with_a_file_and_completes_without_it(cli: Any, published: Path) -> None:
    source, output = published.parent / "in", published.parent / "out"
    put(source / "a.parquet", 3000, 1)
    (source / "b.parquet").write_bytes((source / "a.parquet").read_bytes()[:-50])
    command = ("filter", str(published), "--input", str(source), "--output", str(output), "--json")
    bad = cli(*command)
    assert bad.returncode == 2
    verdict = json.loads(bad.stdout)
    assert bad.stderr == f"evenhand: {verdict['error']}\n"
    assert "1 of 2 files could not be filtered: b.parquet" in verdict["error"]
    assert verdict["status"] == "filtered"
    assert Path(verdict["artifacts"]["report"]).is_file()
    assert flow_runs(cli.store) == ["FAILED"]
    put(source / "b.parquet", 2000, 2)
    good = cli(*command)
    assert (good.returncode, good.stderr) == (0, "")
    metrics = json.loads(good.stdout)["metrics"]
    assert (metrics["files_filtered"], metrics["files_done_before"]) == (1, 1)
    assert flow_runs(cli.store) == ["FAILED", "COMPLETED"]
    direct = cli(*command, "--direct", "--output", str(published.parent / "direct"))
    assert direct.returncode == 0, direct.stderr
    assert contents(output) == contents(published.parent / "direct")


def wait_for_records(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while len(list(folder.glob("*"))) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_killed_twice_and_run_again_the_folder_has_the_bytes_of_an_unbroken_run(
    cli: Any, published: Path
) -> None:
    source, output = published.parent / "in", published.parent / "out"
    for number in range(3):
        put(source / f"{number}.parquet", 100_000, number)
    command = ("filter", str(published), "--input", str(source), "--direct", "--json", "--output")
    assert cli(*command, str(published.parent / "whole")).returncode == 0
    whole = contents(published.parent / "whole")
    records = output / "_evenhand" / "records"
    seen = 0
    for units in np.random.default_rng(7).integers(1, 100, 2):
        process = cli.start(*command, str(output))
        wait_for_records(records, seen + int(units), process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        seen = len(list(records.glob("*")))
    assert contents(output) != whole, "killed too late to tell anything"
    done = cli(*command, str(output))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["metrics"]["rows_in"] == 300_000
    assert contents(output) == whole
