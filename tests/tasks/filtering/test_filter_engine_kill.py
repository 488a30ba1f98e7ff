"""Killed at any moment and started again, a run ends with the bytes of an unbroken one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle
from tests.tasks.filtering.judged import filter_files

Make = Callable[..., pa.Table]
Put = Callable[..., Path]
ROOT = Path(__file__).resolve().parents[3]
SETTINGS = FilterSettings(key=("id",), rows_per_unit=300)
UNITS = 110

RUN = """
import sys
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.checks import RowFilter
from evenhand.tasks.filtering.filter_engine import process_files

bundle = ProxyBundle.load(sys.argv[1], "7")
print("ready", flush=True)
settings = FilterSettings(key=("id",), rows_per_unit=300)
process_files(RowFilter(bundle, settings), sys.argv[2], sys.argv[3])
"""


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def records_of(folder: Path) -> int:
    return len(list((folder / "_evenhand" / "records").glob("*")))


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.long)])
def test_killed_runs_end_with_the_bytes_of_an_unbroken_one(
    kills: int, people: Make, put: Put, bundle: ProxyBundle, bundle_folder: Path, tmp_path: Path
) -> None:
    """They are killed at any moment."""
    for file in range(3):
        put(people(9000, file, 9000 * file), tmp_path / "in" / f"{file}.parquet", row_group=300)
    put(people(6000, 3, 27_000), tmp_path / "in" / "3.csv.gz")
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "whole"), SETTINGS)
    assert records_of(tmp_path / "whole") == UNITS
    command = [
        sys.executable,
        "-c",
        RUN,
        str(bundle_folder),
        str(tmp_path / "in"),
        str(tmp_path / "out"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # numbers of records after which each run is killed
    moments = np.sort(np.random.default_rng(5).integers(1, UNITS // 2, kills))
    for moment in moments:
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            while records_of(tmp_path / "out") < moment and process.poll() is None:
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert 0 < records_of(tmp_path / "out") < UNITS, "no kill came before the end: take more rows"
    assert contents(tmp_path / "out") != contents(tmp_path / "whole")
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), SETTINGS)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
