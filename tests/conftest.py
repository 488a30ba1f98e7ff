"""What all tests share: a store and a Prefect home of their own, and the real data where there is any."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# before anything imports Prefect: its settings are read once
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
# tests of a registry that does not answer need not wait for it
os.environ.setdefault("EVENHAND_WAIT", "0")
# threads that wait for each other in a busy loop slow all other processes down
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# before anything imports numpy: workers side by side, and what they start, must not fight for the cores
if "PYTEST_XDIST_WORKER" in os.environ:
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")


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
