"""docs/how-to/upgrade.md with databases of really older releases: a Prefect server and an MLflow
server of last year fill them, and those of today go on with what is in them.

The older releases are installed from the package registries into environments of their own; a test
is skipped where they cannot be. ``EVENHAND_OLDER`` names a folder that keeps these environments.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest

from tests.e2e.real_services import free_ports, lacking
from tests.operate.stack import MODEL, Stack
from tests.operate.test_upgrade import carry_out

pytestmark = [pytest.mark.flow, pytest.mark.long]

OLDER = {
    # the second to fourth because the release takes, and does not start with, those of today
    "prefect": (
        *("prefect==3.4.25", "fastapi<0.116", "sqlalchemy<2.1"),
        *("importlib-metadata", "asyncpg"),
    ),
    "mlflow": ("mlflow==2.22.5", "sqlalchemy<2.1", "psycopg2-binary"),
}
PREFECT_URL = "PREFECT_API_DATABASE_CONNECTION_URL"
# What last year's people left: a flow with a run that ended, and a registered model.
FLOW = """
from prefect import flow

@flow(name="of-last-year")
def of_last_year() -> int:
    return 7

assert of_last_year() == 7
"""
REGISTER = """
import mlflow

class Constant(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return [1] * len(model_input)

mlflow.set_experiment("of-last-year")
for rate in (0.1, 0.2, 0.3):
    with mlflow.start_run():
        mlflow.log_param("rate", rate)
        mlflow.log_metric("auc", 0.7 + rate / 10)
        if rate == 0.3:
            mlflow.pyfunc.log_model(
                "model", python_model=Constant(), registered_model_name="of-last-year"
            )
mlflow.MlflowClient().set_registered_model_alias("of-last-year", "champion", "1")
"""
READ = """
import json
import mlflow

client = mlflow.MlflowClient()
version = client.get_model_version_by_alias("of-last-year", "champion")
experiment = client.get_experiment_by_name("of-last-year")
runs = client.search_runs([experiment.experiment_id])
loaded = mlflow.pyfunc.load_model("models:/of-last-year@champion")
found = {
    "version": str(version.version),
    "aucs": sorted(round(run.data.metrics["auc"], 2) for run in runs),
    "predicts": len(loaded.predict([[0], [0]])),
}
print("FOUND", json.dumps(found))
"""
LEFT = {"version": "1", "aucs": [0.71, 0.72, 0.73], "predicts": 2}


def installed(name: str) -> Path:
    """The programs of an older release; the test is skipped where it cannot be installed."""
    kept = os.environ.get("EVENHAND_OLDER")
    folder = Path(kept or tempfile.gettempdir()) / f"evenhand-older-{name}"
    programs = folder / "bin"
    if (folder / "complete").is_file():
        return programs
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = [programs / "pip", "install", "--quiet", *OLDER[name]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{OLDER[name][0]} cannot be installed here: {done.stderr[-300:]}")
    (folder / "complete").touch()
    return programs


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's own user can enter."""
    made = Path(tempfile.mkdtemp(prefix="evenhand-older-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def of_older(programs: Path, **variables: str) -> dict[str, str]:
    """The environment of an older program: nothing of ours but what is given."""
    kept = {key: os.environ[key] for key in ("HOME", "LANG", "TMPDIR") if key in os.environ}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    quiet = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    return {**kept, **quiet, "PATH": path, **variables}


def answers(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address, timeout=5).close()
            return
        assert process.poll() is None, log.read_text()[-2000:]
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-2000:])


def run_older(programs: Path, code: str, folder: Path, environment: dict[str, str]) -> str:
    """Run a script by an older release; return what it prints."""
    script = folder / "older.py"
    script.write_text(code)
    command = [programs / "python", script]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def fill_prefect(folder: Path, database: str) -> None:
    """Have the older Prefect server run a flow on an empty database."""
    programs = installed("prefect")
    (port,) = free_ports(1)
    variables = {PREFECT_URL: database, "PREFECT_HOME": str(folder / "older-prefect")}
    command = [programs / "prefect", "server", "start", "--port", str(port)]
    log = folder / "older-prefect.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command, env=of_older(programs, **variables), stdout=out, stderr=out
        )
    try:
        address = f"http://127.0.0.1:{port}/api"
        answers(f"{address}/health", server, log)
        variables["PREFECT_API_URL"] = address
        run_older(programs, FLOW, folder, of_older(programs, **variables))
    finally:
        server.terminate()
        server.wait()


def fill_mlflow(folder: Path, database: str, artifacts: Path) -> None:
    """Have the older MLflow server register a model in an empty database."""
    programs = installed("mlflow")
    (port,) = free_ports(1)
    command = [programs / "mlflow", "server", "--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", artifacts]
    log = folder / "older-mlflow.log"
    variables = {"MLFLOW_BACKEND_STORE_URI": database}
    with log.open("w") as out:
        server = subprocess.Popen(
            command,
            env=of_older(programs, **variables),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        answers(f"{address}/health", server, log)
        run_older(programs, REGISTER, folder, of_older(programs, MLFLOW_TRACKING_URI=address))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, 15)
        server.wait()


def found_by_todays(stack: Stack) -> dict[str, Any]:
    """What today's MLflow client finds of the older release's model."""
    script = stack.folder / "read.py"
    script.write_text(READ)
    printed = stack.do(f"{sys.executable} {script}")
    line = next(line for line in printed.splitlines() if line.startswith("FOUND "))
    return dict(json.loads(line.removeprefix("FOUND ")))


def test_databases_of_last_year_are_migrated_by_the_page(folder: Path) -> None:
    reason = lacking()
    if reason is not None:
        pytest.skip(reason)
    (folder / "kept").mkdir(mode=0o700)
    place = folder / "services"
    place.mkdir(mode=0o755)
    stack = Stack(place)
    try:
        # PostgreSQL with empty databases, which the older servers fill
        stack.do(f"sh deploy/local.sh start {place}")
        stack.shell(f". {place}/env")
        for name in ("worker", "prefect", "mlflow"):
            stack.kill(name)
        server = f"--host 127.0.0.1 --port {stack.shell.environment['PGPORT']} --username evenhand"
        stack.shell(f"export PGPASSWORD=$(cat {place}/password)")
        for database in ("prefect", "mlflow"):
            stack.do(f"dropdb --force {server} {database}; createdb {server} {database}")
        login = f"evenhand:{stack.password()}@127.0.0.1:{stack.shell.environment['PGPORT']}"
        fill_prefect(folder, f"postgresql+asyncpg://{login}/prefect")
        fill_mlflow(folder, f"postgresql+psycopg2://{login}/mlflow", place / "mlflow")
        (place / "store").mkdir(mode=0o700, exist_ok=True)
        carry_out(stack, "Back up")
        carry_out(stack, "Migrate")
        stack.do(f"sh deploy/local.sh stop {place}")
        stack.start()
        assert found_by_todays(stack) == LEFT
        named = {"name": {"any_": ["of-last-year"]}}
        (run,) = stack.shell.ask("flow_runs/filter", flows=named)
        assert run["state_name"] == "Completed"
        # today's jobs go on beside what was there
        stack.wait_for_state(stack.run(), "Completed")
        assert stack.versions() == 1
        promoted = stack.shell(f"evenhand promote {MODEL}/1 --to champion")
        assert promoted.returncode in (0, 1), promoted.stderr
        assert "champion" in stack.do(f"evenhand history {MODEL}")
        assert found_by_todays(stack) == LEFT
    finally:
        stack.stop()


def test_sqlite_files_of_last_year_are_migrated(folder: Path) -> None:
    home = folder / "home"
    home.mkdir()
    prefect = f"sqlite+aiosqlite:///{folder}/prefect.db"
    registry = f"sqlite:///{folder}/mlflow.db"
    fill_prefect(folder, prefect)
    fill_mlflow(folder, registry, folder / "artifacts")
    bin_folder = Path(sys.executable).parent
    today = {**os.environ, PREFECT_URL: prefect, "PREFECT_HOME": str(home)}
    for command in (
        [bin_folder / "mlflow", "db", "upgrade", registry],
        [bin_folder / "prefect", "server", "database", "upgrade", "--yes"],
    ):
        done = subprocess.run(command, env=today, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
    client = mlflow.MlflowClient(registry, registry)
    version = client.get_model_version_by_alias("of-last-year", "champion")
    assert str(version.version) == LEFT["version"]
    read = "select state_name from flow_run"
    with sqlite3.connect(folder / "prefect.db") as opened:
        assert opened.execute(read).fetchall() == [("Completed",)]
