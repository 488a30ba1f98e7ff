"""``evenhand serve``: a process for work and for errors, none for a retraining of unchanged
data.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from real_services import free_ports

from tests.flows.people import Bench

pytestmark = [
    pytest.mark.flow,
    pytest.mark.long,
]  # a server, and trainings in processes of their own

FLOW = "evenhand.flows.prefect_flows.retrain"
DAILY = "0 0 1 1 *"  # never while the test runs


class Served:
    """A running ``evenhand serve`` of deployments of one job, and its server."""

    def __init__(self, cli: Any, folder: Path) -> None:
        self.bench, self.store = Bench(folder), cli.store
        job = str(self.bench.write())
        parameters = {
            "people": {"job": job},
            "absent": {"job": job, "overrides": ["table.path=absent.csv"]},
        }
        content = [
            {
                "name": name,
                "entrypoint": FLOW,
                "parameters": {**given, "only_if_changed": True},
                "schedules": [{"cron": DAILY}],
                "concurrency_limit": {"limit": 1, "collision_strategy": "CANCEL_NEW"},
            }
            for name, given in parameters.items()
        ]
        path = folder / "schedule.yaml"
        path.write_text(yaml.safe_dump({"deployments": content}))
        (self.port,) = free_ports(1)
        self.process = cli.start("serve", str(path), "--metrics-port", str(self.port))
        self.api = self.process.stdout.readline().split()[1]
        self.password_file = Path(self.process.stdout.readline().split()[1])
        self.password = self.password_file.read_text().strip()
        self.wait(lambda: self.get("/healthz")[0] == 200)
        self.ids = {item["name"]: item["id"] for item in self.ask("deployments/filter")}

    def wait(self, holds: Any, seconds: float = 240) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}{path}", timeout=20
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.URLError as error:
            return getattr(error, "code", 0), ""

    def ask(self, path: str, method: str = "POST", **content: Any) -> Any:
        token = base64.b64encode(self.password.encode()).decode()
        request = urllib.request.Request(
            f"{self.api}/{path}",
            json.dumps(content).encode(),
            {"Content-Type": "application/json", "Authorization": f"Basic {token}"},
            method=method,
        )
        for pause in (1, 2, 4, 8, 0):
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    text = answer.read()
                    return json.loads(text) if text else None
            except urllib.error.HTTPError as error:
                if error.code != 503 or not pause:  # its SQLite database is locked, as under load
                    raise
                time.sleep(pause)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def start(self, name: str, **parameters: Any) -> str:
        """Request a run now."""
        made = self.ask(f"deployments/{self.ids[name]}/create_flow_run", parameters=parameters)
        return str(made["id"])

    def ended(self, identifier: str) -> dict[str, Any]:
        """Wait for a run's end."""
        found: dict[str, Any] = {}

        def final() -> bool:
            (run,) = self.ask("flow_runs/filter", flow_runs={"id": {"any_": [identifier]}})
            found.update(run)
            return run["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")

        self.wait(final)
        return found

    def statuses(self) -> list[str]:
        """Statuses of all verdicts, oldest first."""
        return [
            json.loads((run / "verdict.json").read_text())["status"]
            for run in sorted((self.store / "runs").iterdir())
        ]


@pytest.fixture
def served(cli: Any, tmp_path: Path) -> Iterator[Served]:
    found = Served(cli, tmp_path)
    yield found
    found.process.kill()
    with found.process:  # closes its pipes
        pass


def test_only_work_gets_a_process(served: Served) -> None:
    trained = served.ended(served.start("people"))
    assert trained["state_name"] == "Completed"
    unchanged = served.ended(served.start("people"))
    assert unchanged["state_name"] == "Completed"
    # the runner writes this message, a run's own process none
    assert "up to date: people-gbdt version 1 was made" in unchanged["state"]["message"]
    assert unchanged["name"].startswith("job on people.csv, ")
    assert served.statuses() == ["published", "up_to_date"]

    # an error is reported once, by the run's own process
    failed = served.ended(served.start("absent"))
    assert failed["state_name"] == "Failed"
    assert "absent.csv" in failed["state"]["message"]
    assert served.statuses() == ["published", "up_to_date", "failed"]

    # a killed run does not end it
    served.wait(lambda: not children(served.process))
    changed = served.start("people", overrides=["seed=7"])
    found: list[int] = []
    served.wait(lambda: bool(found.extend(children(served.process)) or found))
    os.kill(found[0], signal.SIGKILL)
    assert served.ended(changed)["state_name"] == "Crashed"
    # no run that has ended keeps the only slot: this one would be cancelled
    assert served.ended(served.start("people"))["state_name"] == "Completed"
    served.wait(lambda: 'state="crashed"} 1.0' in served.get("/metrics")[1])
    metrics = served.get("/metrics")[1]
    assert 'evenhand_runs_total{job="people-gbdt",status="up_to_date"} 2.0' in metrics
    assert 'evenhand_flow_runs_total{deployment="absent",state="failed"} 1.0' in metrics

    served.process.terminate()
    assert served.process.wait(60) is not None
    assert "Traceback" not in served.process.stderr.read()


def test_code_that_was_changed_on_the_server_is_refused(served: Served, tmp_path: Path) -> None:
    assert served.password_file.stat().st_mode & 0o777 == 0o600
    theirs = tmp_path / "theirs.py"
    theirs.write_text(
        "from pathlib import Path\n"
        "from prefect import flow\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "@flow\ndef retrain(**given): pass\n"
    )
    steps = [
        {"prefect.deployments.steps.run_shell_script": {"script": f"touch {tmp_path / 'ran'}"}}
    ]
    changes: list[dict[str, Any]] = [
        {"entrypoint": f"{theirs}:retrain"},
        {"entrypoint": FLOW, "pull_steps": steps},
    ]
    for change in changes:
        served.ask(f"deployments/{served.ids['people']}", "PATCH", **change)
        refused = served.ended(served.start("people"))
        assert refused["state_name"] == "Failed"
        key = "pull_steps" if "pull_steps" in change else "entrypoint"
        assert f"refused: the deployment's {key} was changed" in refused["state"]["message"]
    # the other deployment is as it was registered, and its run has a process
    assert "absent.csv" in served.ended(served.start("absent"))["state"]["message"]
    assert not (tmp_path / "ran").exists()
    assert served.statuses() == ["failed"]
    served.process.terminate()
    served.process.wait(60)
    assert "was changed since `evenhand serve` registered it" in served.process.stderr.read()
    assert not served.password_file.exists()


def children(process: subprocess.Popen[str]) -> list[int]:
    """Process ids of runs that the process has started."""
    import psutil

    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            found += [child.pid] if "prefect.engine" in " ".join(child.cmdline()) else []
    return found
