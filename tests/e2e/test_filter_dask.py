"""A filter on a Dask cluster of its own writes what threads write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app

pytestmark = [pytest.mark.flow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (
    "--set",
    "filter.key=[key]",
    "--set",
    "filter.rows_per_unit=400",
    "--set",
    "filter.workers=2",
)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_cluster_of_two_workers_writes_the_same_bytes(
    proxies: Any, people: Callable[..., pa.Table]
) -> None:
    pytest.importorskip("distributed")
    proxies.job |= {"method": {"name": "naive-tree"}, "gates": {}}
    assert proxies.run().code == 0
    source = proxies.folder / "in"
    source.mkdir()
    for number in range(2):
        pq.write_table(people(2000, number), source / f"{number}.parquet", row_group_size=300)
    pyarrow.csv.write_csv(people(1000, 2), source / "2.csv")
    given = (
        "filter",
        str(proxies.write()),
        "--input",
        str(source),
        "--store",
        str(proxies.store),
        *SETTINGS,
    )
    threads = CliRunner().invoke(
        app, [*given, "--output", str(proxies.folder / "threads"), "--direct"]
    )
    assert threads.exit_code == 0, threads.stderr
    expected = contents(proxies.folder / "threads")
    assert len([name for name in expected if name.startswith("part-")]) == 17

    kept = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    command = (
        *given,
        "--output",
        str(proxies.folder / "dask"),
        "--set",
        "filter.engine=dask",
        "--json",
    )

    def on_dask(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from evenhand.flows.cli import main; main()", *command, *more],
            env={**kept, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
        )

    done = on_dask()
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["metrics"]["files_filtered"] == 3
    assert contents(proxies.folder / "dask") == expected

    # only a worker finds out that this file is bad
    table = people(900, 3)
    jobs = pa.array([*table["job"].to_pylist()[:-1], "astronaut"])
    table = table.set_column(table.column_names.index("job"), "job", jobs)
    pq.write_table(table, source / "3.parquet", row_group_size=300)
    done = on_dask("--direct")
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "1 of 4 files could not be filtered: 3.parquet: column 'job'" in line
    assert json.loads(done.stdout)["metrics"]["files_done_before"] == 3
    assert contents(proxies.folder / "dask") == expected
