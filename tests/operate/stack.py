"""The real services for drills: started by deploy/local.sh, with a webhook that keeps what it gets,
and one deployment of a small job.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.real_services import ROOT, Shell
from tests.flows.people import Bench

# A loaded machine may take longer than what is waited for.
PATIENCE_S = 420.0
# Below the defaults, so that a drill takes minutes.
IMPATIENT = {
    "PREFECT_SERVER_SERVICES_LATE_RUNS_LOOP_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_FOREMAN_LOOP_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_TRIGGERS_PROACTIVE_GRANULARITY": "2",
    "PREFECT_WORKER_HEARTBEAT_SECONDS": "10",
}
NOTIFY = {
    "webhook": "${EVENHAND_WEBHOOK}",
    "lost_after_seconds": 90,
    "begin_within_seconds": 90,
}
DEPLOYMENT = "people"
MODEL = "people-gbdt"


class Inbox(http.server.ThreadingHTTPServer):
    """A webhook that keeps the subjects and texts of what it gets."""

    def __init__(self) -> None:
        self.received: list[dict[str, str]] = []
        inbox = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                inbox.received.append(json.loads(self.rfile.read(length)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def subjects(self, text: str) -> list[str]:
        """Return the subjects that contain a text."""
        return [post["subject"] for post in self.received if text in post["subject"]]


class Stack:
    """PostgreSQL, Prefect, MLflow and a worker in a folder, and the deployment `people`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inbox = Inbox()
        self.shell = Shell.below(folder)
        self.shell.environment |= IMPATIENT
        address = f"http://127.0.0.1:{self.inbox.server_port}/hook"
        self.shell.environment["EVENHAND_WEBHOOK"] = address
        project = folder / "project"
        project.mkdir()
        self.job = Bench(project).write()
        self.seed = 100
        self.identifier = ""
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start the services, register the deployment, and set up the notifications."""
        self.do(f"sh deploy/local.sh start {self.folder}")
        self.shell(f". {self.folder}/env")
        (self.folder / "notify.yaml").write_text(yaml.safe_dump(NOTIFY))
        deployment = {
            "name": DEPLOYMENT,
            "entrypoint": "evenhand.flows.prefect_flows.retrain",
            "tags": ["evenhand", "retrain"],
            "parameters": {"job": str(self.job), "only_if_changed": True},
            "concurrency_limit": {"limit": 1, "collision_strategy": "CANCEL_NEW"},
            "work_pool": {
                "name": "evenhand",
                "job_variables": {
                    "command": "python -m prefect.engine",
                    "env": {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30", "EVENHAND_WAIT": "60"},
                },
            },
        }
        content = {"name": "drills", "pull": [], "deployments": [deployment]}
        path = self.folder / "prefect.yaml"
        path.write_text(yaml.safe_dump(content))
        self.do(f"prefect --no-prompt deploy --all --prefect-file {path}")
        self.do(f"evenhand notify {self.folder}/notify.yaml")
        (deployed,) = self.shell.ask("deployments/filter")
        self.identifier = deployed["id"]

    def stop(self) -> None:
        """Stop all that was started."""
        self.shell(f"sh deploy/local.sh stop {self.folder}")
        for process in self.processes.values():
            process.wait()
        self.inbox.shutdown()
        self.inbox.server_close()

    def do(self, command: str) -> str:
        """Run a command that must succeed, and return what it prints."""
        done = self.shell(command, timeout=600)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run(self, *overrides: str, **parameters: Any) -> str:
        """Request a run of a job that no run before had; return its id."""
        self.seed += 1
        given = {"overrides": [f"seed={self.seed}", *overrides], **parameters}
        made = self.shell.ask(f"deployments/{self.identifier}/create_flow_run", parameters=given)
        return str(made["id"])

    def state(self, run: str) -> dict[str, Any]:
        """Return a run as the server has it."""
        (flow_run,) = self.shell.ask("flow_runs/filter", flow_runs={"id": {"any_": [run]}})
        return dict(flow_run)

    def wait(self, holds: Callable[[], Any], what: str, pause: float = 0.5) -> Any:
        """Wait until something holds, and return its value."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            value = None
            with contextlib.suppress(OSError):  # the server is away for a moment
                value = holds()
            if value:
                return value
            assert time.monotonic() < deadline, (what, self.inbox.received, self.logs())
            time.sleep(pause)

    def wait_for_state(self, run: str, *names: str) -> dict[str, Any]:
        """Wait until a run is in one of the states, by their names; another end is a fault."""

        def reached() -> bool:
            state = self.state(run)
            if state["state_name"] in names:
                return True
            ended = state["state_type"] in ("COMPLETED", "FAILED", "CANCELLED")
            assert not ended, state["state"]
            return False

        self.wait(reached, f"{run} is not {names}", 0.1)
        return self.state(run)

    def wait_for_alert(self, text: str) -> None:
        """Wait until a notification has a text in its subject."""
        self.wait(lambda: self.inbox.subjects(text), f"no alert {text}")

    def wait_for_step(self, step: str, before: set[Path]) -> None:
        """Wait until a step of a run begins that was requested after `before` was made."""
        self.wait(lambda: self.locks(step) - before, f"{step} does not begin", 0.01)

    def locks(self, step: str) -> set[Path]:
        """Return the locks of a step's keys: each exists from the step's beginning on."""
        return set((self.folder / "store" / "locks").glob(f"{step}-*"))

    def group(self, name: str) -> int:
        """Return the process group of a service."""
        return int((self.folder / "run" / f"{name}.pid").read_text())

    def kill(self, name: str, *, alone: bool = False) -> None:
        """Kill a service with its children, or its first process alone."""
        if alone:
            os.kill(self.group(name), signal.SIGKILL)
        else:
            os.killpg(self.group(name), signal.SIGKILL)
        process = self.processes.get(self.group(name))
        if process is not None:
            process.wait()

    def environment(self) -> dict[str, str]:
        """Return the variables of the stack."""
        code = "import json, os; print(json.dumps(dict(os.environ)))"
        printed = self.do(f"{sys.executable} -c '{code}'")
        return dict(json.loads(printed))

    def begin(self, name: str, *command: str, **more: str) -> None:
        """Start a service again, as deploy/local.sh does; `stop` stops it."""
        with (self.folder / "log" / f"{name}-again.log").open("a") as log:
            process = subprocess.Popen(
                command,
                env=self.environment() | more,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes[process.pid] = process
        (self.folder / "run" / f"{name}.pid").write_text(str(process.pid))

    def begin_worker(self, *before: str) -> None:
        """Start the worker again, perhaps by another command."""
        self.begin("worker", *before, "prefect", "worker", "start", "--pool", "evenhand")

    def password(self) -> str:
        """Return the password of PostgreSQL and Prefect."""
        return (self.folder / "password").read_text().strip()

    def begin_mlflow(self) -> None:
        """Start the MLflow server again."""
        port = self.shell.environment["PGPORT"]
        database = f"postgresql+psycopg2://evenhand:{self.password()}@127.0.0.1:{port}/mlflow"
        command = ["mlflow", "server", "--app-name", "basic-auth"]
        command += ["--host", "127.0.0.1", "--workers", "1"]
        command += ["--port", self.shell.environment["MLFLOW_PORT"]]
        command += ["--artifacts-destination", str(self.folder / "mlflow")]
        variables = {"MLFLOW_BACKEND_STORE_URI": database}
        variables["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
        variables["MLFLOW_AUTH_CONFIG_PATH"] = str(self.folder / "mlflow-auth.ini")
        variables["MLFLOW_AUTH_ADMIN_USERNAME"] = "evenhand"
        password = (self.folder / "mlflow-password").read_text().strip()
        variables["MLFLOW_AUTH_ADMIN_PASSWORD"] = password
        variables["MLFLOW_FLASK_SERVER_SECRET_KEY"] = "protects forms of pages"
        variables["PGPASSWORD"] = self.password()
        self.begin("mlflow", *command, **variables)

    def begin_prefect(self, name: str = "prefect", port: str | None = None) -> None:
        """Start the Prefect server again, or a second one on another port."""
        database = f"evenhand:{self.password()}@127.0.0.1:{self.shell.environment['PGPORT']}"
        port = port or self.shell.environment["PREFECT_PORT"]
        variables = {
            "PREFECT_API_DATABASE_CONNECTION_URL": f"postgresql+asyncpg://{database}/prefect",
            "PREFECT_SERVER_API_AUTH_STRING": f"evenhand:{self.password()}",
        }
        command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", port]
        self.begin(name, *command, **variables)
        self.wait(lambda: self.shell.ask("flows/count") is not None, "Prefect does not answer")

    def versions(self) -> int:
        """Return the number of versions of the model; its record and files are whole."""
        checked = json.loads(self.do(f"evenhand verify {MODEL} --json"))
        assert checked.get("faults", []) == [], checked
        history = json.loads(self.do(f"evenhand history {MODEL} --json"))
        return len([record for record in history["records"] if record["kind"] == "version"])

    def logs(self) -> str:
        """Return the ends of all logs, for a failed test."""
        ends = []
        for path in sorted((self.folder / "log").glob("*.log")):
            ends.append(f"== {path.name}\n{path.read_text()[-1500:]}")
        return "\n".join(ends)
