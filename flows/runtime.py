"""Environment of a run: quiet, offline unless told otherwise, and with everything inside the store."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from filelock import FileLock

from evenhand.tasks.registry import MLFLOW_DEFAULTS
from evenhand.tasks.store import Store, default_store_url

__all__ = ["SERVER_START_S", "make_prefect_home", "prepare_environment", "prepare_prefect_home"]

SERVER_START_S = 120
DEFAULTS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
    "GX_ANALYTICS_ENABLED": "False",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(SERVER_START_S),
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
}


def prepare_environment(store_url: str | None = None) -> Path:
    """
    Set what is not set: no telemetry, JSON results, a patient server start, a Prefect home in the store.

    Must run before Prefect is imported. A user who has a server (``PREFECT_API_URL``) or a Prefect home of
    their own keeps it.

    Returns
    -------
    Path
        The Prefect home inside the store, used or not.
    """
    for name, value in {**DEFAULTS, **MLFLOW_DEFAULTS}.items():
        os.environ.setdefault(name, value)
    home = (Store.local_folder(store_url or default_store_url()) / "prefect").resolve()
    if not os.environ.get("PREFECT_API_URL") and "PREFECT_HOME" not in os.environ:
        os.environ["PREFECT_HOME"] = str(home)
    return home


def make_prefect_home(home: Path) -> None:
    """Make the folder, for Prefect makes no parents; a store that cannot be written is reported later."""
    if os.environ.get("PREFECT_HOME") == str(home):
        with contextlib.suppress(OSError):
            home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            home.mkdir(exist_ok=True, mode=0o700)


def prepare_prefect_home(home: Path) -> None:
    """
    Put a migrated database into a new Prefect home.

    A new database needs some seconds of migrations. They are run once per user and Prefect version, on an
    empty database that new stores then start from; a lock keeps runs that start together from migrating the
    same file at once.
    """
    if os.environ.get("PREFECT_API_URL") or os.environ.get("PREFECT_HOME") != str(home):
        return
    make_prefect_home(home)
    database = home / "prefect.db"
    with FileLock(home / "database.lock", timeout=SERVER_START_S):
        if not database.exists():
            partial = home / f".prefect.db.{os.getpid()}"
            shutil.copyfile(_migrated_template(), partial)
            partial.replace(database)


def _migrated_template() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand"
    cache.mkdir(parents=True, exist_ok=True)
    template = cache / f"prefect-{metadata.version('prefect')}.db"
    with FileLock(cache / "prefect-template.lock", timeout=SERVER_START_S):
        if not template.exists():
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                subprocess.run(
                    [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"],
                    env={**os.environ, "PREFECT_HOME": folder},
                    check=True,
                    capture_output=True,
                    timeout=SERVER_START_S,
                )
                (Path(folder) / "prefect.db").replace(template)
    return template
