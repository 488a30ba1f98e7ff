"""Ten faults of a night, on real services: each ends with the right alert and the right state.

deploy/local.sh starts PostgreSQL, Prefect, MLflow and a worker. docs/how-to/on-call.md has a table of
these drills.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.real_services import free_ports, lacking
from tests.operate.stack import Stack

pytestmark = [pytest.mark.flow, pytest.mark.long]

# Enough rounds of boosting that a run can be met in the middle.
SLOW = "method.n_steps=2000"
NO_WORKER = "the work pool evenhand has no worker"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """All services, and a first version of the model."""
    reason = lacking()
    if reason is not None:
        pytest.skip(reason)
    # not pytest's own folder: PostgreSQL's user must be able to enter it
    folder = Path(tempfile.mkdtemp(prefix="evenhand-drills-"))
    folder.chmod(0o755)
    services = Stack(folder)
    try:
        services.start()
        services.wait_for_state(services.run(), "Completed")
        yield services
    finally:
        services.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def from_here_on(stack: Stack) -> None:
    """Each drill sees its own notifications."""
    stack.inbox.received.clear()


def test_a_worker_killed_while_a_run_is_pending(stack: Stack) -> None:
    versions = stack.versions()
    run = stack.run()
    stack.wait_for_state(run, "Pending")
    stack.kill("worker")
    stack.wait_for_alert(NO_WORKER)
    stack.wait_for_alert("Crashed")
    crashed = stack.state(run)
    assert crashed["state_name"] == "Crashed"
    assert "it has not begun for too long" in crashed["state"]["message"]
    # it does not keep the deployment's only slot
    stack.begin_worker()
    stack.wait_for_state(stack.run(), "Completed")
    assert stack.versions() == versions + 1


def test_a_worker_alone_killed_while_a_run_runs(stack: Stack) -> None:
    versions = stack.versions()
    locks = stack.locks("train")
    run = stack.run(SLOW)
    stack.wait_for_step("train", locks)
    stack.kill("worker", alone=True)
    # its run's process ends with it, and the run begins again on another worker
    stack.wait_for_alert("Crashed")
    stack.wait_for_alert(NO_WORKER)
    stack.begin_worker()
    ended = stack.wait_for_state(run, "Completed", "Failed")
    assert (ended["state_name"], ended["run_count"]) == ("Completed", 2)
    assert stack.versions() == versions + 1


def test_a_host_gone_while_a_run_publishes(stack: Stack) -> None:
    versions = stack.versions()
    locks = stack.locks("publish")
    run = stack.run()
    stack.wait_for_step("publish", locks)
    stack.kill("worker")
    stack.wait_for_alert("Crashed")
    stack.begin_worker()
    ended = stack.wait_for_state(run, "Completed", "Failed")
    assert (ended["state_name"], ended["run_count"]) == ("Completed", 2)
    assert stack.versions() == versions + 1


def test_a_host_gone_while_a_run_trains(stack: Stack) -> None:
    versions = stack.versions()
    locks = stack.locks("train")
    run = stack.run(SLOW)
    stack.wait_for_step("train", locks)
    stack.kill("worker")
    stack.wait_for_alert("Crashed")
    stack.wait_for_alert(NO_WORKER)
    # it is scheduled again; Prefect calls no run late that has begun before
    stack.begin_worker()
    ended = stack.wait_for_state(run, "Completed", "Failed")
    assert (ended["state_name"], ended["run_count"]) == ("Completed", 2)
    assert stack.versions() == versions + 1


def test_a_database_that_is_restarted(stack: Stack) -> None:
    locks = stack.locks("train")
    run = stack.run(SLOW)
    stack.wait_for_step("train", locks)
    folder = stack.folder / "postgres"
    owner = subprocess.run(["stat", "-c", "%U", folder], capture_output=True, text=True)
    control = "$(command -v pg_ctl || ls -d /usr/lib/postgresql/*/bin/pg_ctl | tail -n 1)"
    restart = f"{control} restart --pgdata {folder} --silent --wait --mode fast"
    if owner.stdout.strip() == "postgres":
        restart = f"PATH=$PATH:/usr/sbin:/sbin runuser -u postgres -- {restart}"
    stack.do(f"{restart} >/dev/null 2>&1")
    ended = stack.wait_for_state(run, "Completed", "Failed", "Crashed")
    assert ended["state_name"] == "Completed"
    assert stack.inbox.received == []


def test_a_registry_that_is_away_for_a_while(stack: Stack) -> None:
    versions = stack.versions()
    stack.kill("mlflow")
    run = stack.run()
    stack.wait_for_state(run, "Running")
    time.sleep(15)
    stack.begin_mlflow()
    ended = stack.wait_for_state(run, "Completed", "Failed", "Crashed")
    assert ended["state_name"] == "Completed", ended["state"]
    assert stack.versions() == versions + 1
    assert stack.inbox.received == []


def test_a_registry_that_is_away_for_too_long(stack: Stack) -> None:
    stack.kill("mlflow")
    run = stack.run()
    ended = stack.wait_for_state(run, "Completed", "Failed", "Crashed")
    assert ended["state_name"] == "Failed"
    assert "the model registry" in ended["state"]["message"]
    stack.wait_for_alert("Failed")
    stack.begin_mlflow()
    stack.wait_for_state(stack.run(), "Completed")


def test_a_server_that_is_restarted_between_runs(stack: Stack) -> None:
    stack.kill("prefect")
    stack.begin_prefect()
    stack.wait_for_state(stack.run(), "Completed")
    # schedules and automations are in the database
    run = stack.run("gates.auc.min=0.999")
    stack.wait_for_state(run, "Failed")
    stack.wait_for_alert("was refused by its gates")


def test_a_disk_that_is_full(stack: Stack) -> None:
    place = stack.folder / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", place])
    if mounted.returncode:
        pytest.skip("a small file system needs root")
    try:
        run = stack.run(store=str(place / "store"))
        ended = stack.wait_for_state(run, "Completed", "Failed", "Crashed")
        assert ended["state_name"] == "Failed"
        assert "the disk is full" in ended["state"]["message"], ended["state"]["message"]
        stack.wait_for_alert("Failed")
        subprocess.run(["mount", "-o", "remount,size=200m", place], check=True)
        stack.seed -= 1
        again = stack.run(store=str(place / "store"))
        stack.wait_for_state(again, "Completed")
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_worker_whose_clock_is_wrong(stack: Stack) -> None:
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed: apt-get install faketime")
    stack.kill("worker")
    # an hour behind: nothing seems due
    stack.begin_worker("faketime", "-f", "-3600s")
    run = stack.run()
    stack.wait_for_alert("has not started in time")
    assert stack.state(run)["state_name"] == "Late"
    stack.kill("worker")
    # an hour ahead: due runs begin, and end
    stack.begin_worker("faketime", "-f", "+3600s")
    ended = stack.wait_for_state(run, "Completed", "Failed", "Crashed")
    assert ended["state_name"] == "Completed"
    stack.kill("worker")
    stack.begin_worker()
    stack.wait_for_state(stack.run(), "Completed")
    stack.versions()


def test_two_schedulers_and_two_workers(stack: Stack) -> None:
    versions = stack.versions()
    (port,) = free_ports(1)
    stack.begin_prefect("second-prefect", str(port))
    stack.begin("second-worker", "prefect", "worker", "start", "--pool", "evenhand")
    try:
        stack.do("prefect deployment schedule create retrain/people --interval 3600")
        run = stack.run()
        stack.wait_for_state(run, "Completed")
        time.sleep(10)
        scheduled = stack.shell.ask(
            "flow_runs/filter", flow_runs={"state": {"type": {"any_": ["SCHEDULED"]}}}
        )
        times = [item["expected_start_time"] for item in scheduled]
        assert len(times) > 1
        assert len(set(times)) == len(times)
        assert stack.state(run)["run_count"] == 1
        assert stack.versions() == versions + 1
        refused = stack.run("gates.auc.min=0.999")
        stack.wait_for_state(refused, "Failed")
        stack.wait_for_alert("was refused by its gates")
        time.sleep(10)
        assert len(stack.inbox.subjects("was refused by its gates")) == 1
    finally:
        stack.kill("second-worker")
        stack.kill("second-prefect")
