"""The filter command in a process of its own, killed and run again."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.e2e.conftest import contents, put_loans

# one kill, of the filter alone, is in tests/tasks/filtering/test_filter_engine_kill.py
pytestmark = [pytest.mark.flow, pytest.mark.long]

JOB = {
    "name": "loans-proxy",
    "table": {"name": "loans", "rows": 2000},
    "sensitive": ["group"],
    "method": {"name": "naive-tree"},
    "evaluate": {"draws": 20},
    "filter": {"key": ["id"], "rows_per_unit": 1000},
    "publish": {"without_policy": True},
}


@pytest.fixture
def published(cli: Any, tmp_path: Path) -> Path:
    """The job of a proxy that is published in the store."""
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(JOB))
    assert cli.json(str(job), "--direct")["status"] == "published"
    return job


def wait_for_records(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while len(list(folder.glob("*"))) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_filter_killed_twice_has_the_bytes_of_a_whole_run(cli: Any, published: Path) -> None:
    source, output = published.parent / "in", published.parent / "out"
    for number in range(3):
        put_loans(source / f"{number}.parquet", 100_000, number)
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
