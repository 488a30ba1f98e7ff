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

from evenhand.tasks.filtering.bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.engine import filter_files

Make = Callable[..., pa.Table]
Put = Callable[..., Path]
ROOT = Path(__file__).resolve().parents[3]
SETTINGS = FilterSettings(key=("id",), rows_per_unit=2000)

RUN = """
import sys

bundle = ProxyBundle.load(sys.argv[1], "7")
settings = FilterSettings(key=("id",), rows_per_unit=2000)
print("ready", flush=True)
filter_files(bundle, sys.argv[2], sys.argv[3], settings)
"""


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_killed_five_times_the_output_has_the_bytes_of_an_unbroken_run(
    people: Make, put: Put, bundle: ProxyBundle, bundle_folder: Path, tmp_path: Path
) -> None:
    for file in range(3):
        put(people(60_000, file, 60_000 * file), tmp_path / "in" / f"{file}.parquet", row_group=2000)
    put(people(30_000, 3, 180_000), tmp_path / "in" / "3.csv.gz")
    started = time.monotonic()
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "whole"), SETTINGS)
    needed = time.monotonic() - started
    rng = np.random.default_rng(5)
    command = [sys.executable, "-c", RUN, str(bundle_folder), str(tmp_path / "in"), str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    unfinished = 0
    for moment in sorted(rng.uniform(0.0, 0.5, 5)):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moment * needed)
            process.send_signal(signal.SIGKILL)
            process.wait()
        unfinished += len(list((tmp_path / "out" / "_evenhand" / "records").glob("*"))) < 105
    assert unfinished >= 1, "no kill came before the end: take more rows"
    assert contents(tmp_path / "out") != contents(tmp_path / "whole")
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
