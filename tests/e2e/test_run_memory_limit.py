"""A table larger than the memory that a process may allocate goes through the steps, and the whole
flow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from evenhand.data_contracts.contract_yaml import to_yaml
from tests.e2e import steps_within_a_limit

# Arrow's own allocator, and one of glibc for each thread, reserve memory that they do not use.
PLAIN = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
# The drawing of charts alone reserves 0.7 GB.
LIMIT = 1_750_000_000
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_DATA counts mapped memory on Linux only"
)


# some seconds: a table must be larger than what the libraries take, and more columns take more time
@linux
@pytest.mark.parametrize(
    ("beside", "shape", "times"),
    [
        (125_000_000, (10, 50, 32_768), 1.06),
        # so few rows that trees take their bins from all of them
        pytest.param(172_000_000, (14, 100, 16_384), 1.07, marks=pytest.mark.long),
    ],
)
def test_steps_pass_a_table_larger_than_their_memory(
    beside: int, shape: tuple[int, ...], times: float, tmp_path: Path
) -> None:
    script = steps_within_a_limit.__file__
    done = subprocess.run(
        [sys.executable, script, str(tmp_path), *map(str, (beside, *shape))],
        env=os.environ | PLAIN,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == f"{times} times the limit"


@linux
@pytest.mark.long
def test_a_run_passes_a_table_larger_than_its_memory(tmp_path: Path) -> None:
    size = steps_within_a_limit.write(tmp_path / "people.parquet", 140)
    assert size > LIMIT
    (tmp_path / "people.contract.yaml").write_text(to_yaml(steps_within_a_limit.contract_of()))
    job = {
        "name": "people",
        "table": {"name": "people", "path": "people.parquet"},
        "contract": "people.contract.yaml",
        "method": {"name": "gbdt", "n_steps": 4, "max_depth": 2},
        "memory": "1.2GB",
        "publish": {"without_policy": True},
    }
    (tmp_path / "people.yaml").write_text(yaml.safe_dump(job))
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_DATA, ({LIMIT}, {LIMIT}));"
        "from evenhand.flows.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "people.yaml", "--direct", "--store", "store"],
        cwd=tmp_path,
        env=os.environ | PLAIN,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "were in files" in done.stdout
