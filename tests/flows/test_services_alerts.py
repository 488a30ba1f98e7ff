"""Alerts on a real Prefect server: each condition happens, and its notification comes in time."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenhand.flows.runtime import DEFAULTS

pytestmark = pytest.mark.long  # a server of a minute

WITHIN_S = 60.0
# A loaded machine may take longer before the server itself notices a condition.
NOTICED_S = 900.0
# What the server waits before it notices: shorter than by default.
IMPATIENT = {
    "PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_LOOP_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_FOREMAN_LOOP_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_FOREMAN_INACTIVITY_HEARTBEAT_MULTIPLE": "1",
    "PREFECT_SERVER_SERVICES_FOREMAN_FALLBACK_HEARTBEAT_INTERVAL_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_TRIGGERS_PROACTIVE_GRANULARITY": "1",
}


class Inbox(http.server.BaseHTTPRequestHandler):
    """Receives the webhook's posts."""

    received: list[tuple[float, dict[str, str]]] = []

    def do_POST(self) -> None:
        """Keep the body, and when it came."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((time.monotonic(), json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A Prefect server with its services, and the variables of its clients."""
    home = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("PREFECT_")},
        **DEFAULTS,
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            command, env={**environment, **IMPATIENT}, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + NOTICED_S
        while not answers(environment["PREFECT_API_URL"]):
            assert process.poll() is None, (home / "log").read_text()
            assert time.monotonic() < deadline, (home / "log").read_text()
            time.sleep(0.5)
        yield environment
    finally:
        process.terminate()
        process.wait()


def answers(address: str) -> bool:
    """Whether the server answers."""
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def inbox() -> Iterator[str]:
    """The address of a webhook."""
    received = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Inbox)
    threading.Thread(target=received.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{received.server_port}/hook"
    received.shutdown()
    received.server_close()


def script(environment: dict[str, str], text: str, *arguments: str) -> str:
    """Run Python with the server's variables, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=NOTICED_S * 2,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# The states that a run goes through are set by the client, as a worker and a run do.
EVENTS = """
    import sys, time
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.client.schemas.objects import StateType
    from prefect.events import emit_event
    from prefect.states import Crashed, Failed, Pending, Running, State
    from evenhand.flows import run_events
    from evenhand.flows.run_verdict import Verdict

    @flow(name="retrain")
    def retrain():
        pass

    def refusal(status, code):
        error = run_events.refusal_of(Verdict("run", status, code), "auc is 0.5")
        return Failed(
            message=f"Flow run encountered an exception: {type(error).__name__}: {error}"
        )

    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="evenhand", type="process"))
        client.send_worker_heartbeat("evenhand", "a worker", heartbeat_interval_seconds=1)
        identifier = client.create_deployment(
            client.create_flow(retrain), "campaign", tags=["evenhand", "retrain"]
        )
        other = client.create_deployment(client.create_flow(retrain), "other", tags=["theirs"])

        def run(name, *states, deployment=identifier):
            made = client.create_flow_run_from_deployment(deployment, name=name)
            for state in states:
                client.set_flow_run_state(made.id, state, force=True)
            return made

        run("waits")
        run("theirs", Running(), Failed(message="no business of ours"), deployment=other)
        run("fails", Running(), Failed(message="Flow run encountered an exception: X: no disk"))
        run("is-refused", Running(), refusal("gated", 1))
        run("drifts", Running(), refusal("monitored", 1))
        run("undecided", Running(), refusal("gated", 3))
        crashing = run("crashes", Running(), Crashed(message="gone"))
        verdict = Verdict("r", "published", 0, model={"name": "campaign", "version": "3"})
        run_events.emit(verdict, "campaign")
        challenger = {"name": "campaign", "version": "4", "alias": "challenger"}
        run_events.emit(Verdict("r", "published", 0, model=challenger), "campaign")
        # the server schedules the crashed run again; a second crash is the last
        deadline = time.time() + 300
        while client.read_flow_run(crashing.id).state.name != "AwaitingRetry":
            assert time.time() < deadline, client.read_flow_run(crashing.id).state
            time.sleep(0.5)
        again = client.read_flow_run(crashing.id)
        for state in (Pending(), Running(), Crashed(message="gone again")):
            client.set_flow_run_state(crashing.id, state)
        time.sleep(20)
        last = client.read_flow_run(crashing.id)
        print(again.run_count, last.run_count, last.state.name)
"""
SUBJECTS = {
    "late": "retrain waits has not started in time",
    "fails": "retrain fails Failed",
    "refused": "retrain is-refused was refused by its gates",
    "drift": "retrain drifts has found drift",
    "no_evidence": "retrain undecided has not enough evidence for its gates",
    "crashed": "retrain crashes",
    "no_worker": "the work pool evenhand has no worker",
    "overdue": "evenhand.model.campaign is overdue",
}


def test_every_alert_comes_and_a_crash_runs_again_once(
    server: dict[str, str], inbox: str, tmp_path: Path
) -> None:
    config = tmp_path / "notify.yaml"
    config.write_text(
        "webhook: ${EVENHAND_WEBHOOK}\noverdue_after_hours: 0.006\n"
        "challenger_webhook: ${EVENHAND_WEBHOOK}\nchallenger_token: a-token\n"
    )
    configured = subprocess.run(
        [sys.executable, "-c", "from evenhand.flows.cli import main; main()", "notify", config],
        env={**server, "EVENHAND_WEBHOOK": inbox},
        capture_output=True,
        text=True,
    )
    assert "notifies by webhook" in configured.stdout, configured.stderr
    assert script(server, EVENTS) == "1 2 Crashed"
    deadline = time.monotonic() + WITHIN_S
    missing = dict(SUBJECTS)
    while missing and time.monotonic() < deadline:
        time.sleep(1)
        received = [post.get("subject", "") for _, post in Inbox.received]
        for alert, subject in SUBJECTS.items():
            if any(subject in text for text in received):
                missing.pop(alert, None)
    started = [post for _, post in Inbox.received if "event_type" in post]
    assert started == [
        {"event_type": "challenger", "client_payload": {"model": "models:/campaign/4"}}
    ]
    subjects = [post.get("subject", "") for _, post in Inbox.received]
    assert not missing, (missing, subjects)
    # nobody hears of a run of others, and a refusal is one notification
    assert not [text for text in subjects if "theirs" in text]
    for name in ("is-refused", "drifts", "undecided", "fails"):
        assert len([text for text in subjects if f" {name} " in text]) == 1, subjects
    # a crash each time, and no third attempt
    assert len([text for text in subjects if "crashes" in text]) == 2, subjects
