"""What all tests share: a store and a Prefect home of their own, and the real data where there is
any.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# among the many objects of the libraries, looking for garbage as often as usual takes a twelfth of
# the time
gc.set_threshold(50_000)
# before anything imports Prefect: its settings are read once
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
# tests of a registry that does not answer need not wait for it
os.environ.setdefault("EVENHAND_WAIT", "0")
# threads that wait for each other in a busy loop slow all other processes down
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# before anything imports numpy: workers side by side, and what they start, must not fight for the
# cores
if "PYTEST_XDIST_WORKER" in os.environ:
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")

# how long an example takes says something of the machine, and nothing of the code
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

pytest_plugins = ["tests.flow_fixtures"]


@pytest.fixture
def data_folder() -> Path:
    """Folder of the publishers' raw files; without it a test is skipped, in CI it fails."""
    given = os.environ.get("EVENHAND_DATA")
    if given and Path(given).is_dir():
        return Path(given)
    reason = "the raw tables are not here: set EVENHAND_DATA to their folder"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def postgres() -> Iterator[str]:
    """A PostgreSQL server of the test's own; as root it runs as its own user."""
    from tests.e2e.real_services import free_ports, lacking

    reason = lacking()
    if reason:
        pytest.skip(reason)
    (port,) = free_ports(1)
    folder = Path("/tmp") / f"evenhand-race-{port}"
    folder.mkdir(mode=0o700)
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    programs = installed[-1] if installed else Path(str(shutil.which("pg_ctl"))).parent
    user: list[str] = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        user = ["runuser", "-u", "postgres", "--"]

    def call(*command: Any) -> None:
        subprocess.run([*user, *map(str, command)], check=True, capture_output=True, cwd="/")

    call(programs / "initdb", "-D", folder / "data", "-U", "evenhand", "--auth=trust")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"
    call(
        programs / "pg_ctl",
        "-D",
        folder / "data",
        "-o",
        options,
        "-l",
        folder / "log",
        "-w",
        "start",
    )
    try:
        yield f"postgresql://evenhand@127.0.0.1:{port}/postgres"
    finally:
        call(programs / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
