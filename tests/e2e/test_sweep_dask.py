"""A sweep on a Dask cluster of its own has the numbers of its points run here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evenhand.flows.sweep import make_grid, run_point

pytestmark = [pytest.mark.flow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
JOB = (
    "loans-gbdt",
    "--set",
    "table.rows=600",
    "--set",
    "method.n_steps=4",
    "--set",
    "evaluate.draws=20",
)


def test_a_cluster_of_two_workers_gives_the_same_table(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    grid = ("--over", "method.eta=0.3,-1", "--seeds", "2", "--workers", "2", "--json")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    with socket.socket() as other:
        # Dask's usual port is taken, by a cluster of someone else if not by this test
        with suppress(OSError):
            other.bind(("127.0.0.1", 8787))
            other.listen()
        done = subprocess.run(
            [
                *(sys.executable, "-c", "from evenhand.flows.cli import main; main()", "sweep"),
                *(*JOB, *grid, "--set", "sweep.engine=dask"),
            ],
            env={**kept, "EVENHAND_STORE": str(tmp_path / "store"), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 4, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    content = json.loads(done.stdout)
    points = make_grid(JOB[0], ["method.eta=0.3,-1"], overrides=JOB[2::2], seeds=2).points
    table = pq.read_table(content["sweep"]).to_pylist()
    assert [(row["method.eta"], row["seed"]) for row in table] == [
        (0.3, 0),
        (0.3, 1),
        (-1.0, 0),
        (-1.0, 1),
    ]
    for point, row in zip(points, table, strict=True):
        expected = run_point(point.resolved, str(tmp_path / "other"))
        assert (row["status"], row["verdict"], row["error"]) == (
            expected.status,
            expected.verdict,
            expected.error,
        )
        for name, metric in expected.metrics.items():
            assert [row[name], row[f"{name}.low"], row[f"{name}.high"]] == list(metric.values())
    assert [row["status"] for row in table] == ["done", "done", "failed", "failed"]
