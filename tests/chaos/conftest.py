"""A PostgreSQL server for the tests of this folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_services import free_ports, lacking


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[str]:
    """A PostgreSQL server of the test's own; as root it runs as its own user."""
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
    call(programs / "pg_ctl", "-D", folder / "data", "-o", options, "-l", folder / "log", "-w", "start")
    try:
        yield f"postgresql://evenhand@127.0.0.1:{port}/postgres"
    finally:
        call(programs / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
