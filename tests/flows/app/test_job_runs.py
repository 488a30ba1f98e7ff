"""Runs that the app starts: who starts which jobs, and what a page shows of them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.flows.app import job_routes
from evenhand.flows.app.job_routes import _events
from evenhand.flows.app.job_runs import Busy, JobRunner, ListedJob, listed_jobs
from evenhand.flows.app.people import Person
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import COOKIE, Sessions
from evenhand.flows.app.web import AppSettings
from evenhand.tasks.execution.store import Store
from tests.flows.app.test_server import readable
from tests.flows.people import Done

HOST = "127.0.0.1:8000"
# In place of `evenhand run`: it writes what a run writes, in the environment that it gets.
WRITES = """
import os, sys
print("train  40 %, about 3 s left", file=sys.stderr)
print("by " + os.environ.get("EVENHAND_ACTOR", "?"), sys.argv[1:3], file=sys.stderr, flush=True)
print("run       {run_id}, 1.0 s")
"""
WAITS = "import time; time.sleep(60)"


class Office:
    """A browser of a person with some role, and a folder of jobs."""

    def __init__(self, store: Path, role: str = "owner", script: str = WAITS, **more: Any) -> None:
        self.sessions = Sessions({}, Person("ana", role))
        settings = AppSettings(
            registry=f"sqlite:///{store.resolve()}/mlflow.db",
            store=Store(str(store)),
            sessions=self.sessions,
            hosts=frozenset({HOST}),
            **({"allow_changes": True} | more),
        )
        app = build_app(settings)
        self.runner = JobRunner(str(store), (sys.executable, "-c", script))
        app.state.runner = self.runner
        self.client = TestClient(app, base_url=f"http://{HOST}", follow_redirects=False)
        self.client.get("/sign-in", params={"token": self.sessions.one_time_token})
        match = re.search(r'name="form_token" value="([^"]+)"', self.client.get("/").text)
        assert match is not None
        self.form = {"form_token": match.group(1)}

    def start(self, name: str = "hiring-gbdt", kind: str = "shipped") -> Any:
        return self.client.post(f"/jobs/{kind}/{name}/run", data=self.form)


def until_ended(runner: JobRunner) -> None:
    for _ in range(600):
        if not runner.running():
            return
        time.sleep(0.02)
    raise AssertionError("it runs for ever")


def test_a_run_is_started_followed_and_its_report_linked(published: Done) -> None:
    (run_id,) = Store(str(published.store)).runs()
    office = Office(published.store, script=WRITES.replace("{run_id}", run_id))
    place = office.start().headers["location"]
    assert re.fullmatch(r"/progress/[0-9a-f]{16}", place)
    until_ended(office.runner)
    events = office.client.get(f"{place}/events")
    assert events.headers["content-type"].startswith("text/event-stream")
    states = [json.loads(line[6:]) for line in events.text.splitlines() if line]
    assert states[-1]["ended"] is True
    answer = office.client.get(place)
    text = readable(answer.text)
    assert "It ended, and all gates passed." in text
    assert "by ana ['run', 'hiring-gbdt']" in text
    assert f'href="/runs/{run_id}/report"' in answer.text
    assert "See people-gbdt version 1" in text
    assert "40 %" not in text
    assert "<script" not in answer.text


def test_signing_out_ends_the_events_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path / "store")
    cookie = office.client.cookies[COOKIE]
    session = office.sessions.of_cookie(cookie)
    assert session is not None
    monkeypatch.setattr(job_routes, "EVERY_S", 0.0)
    states = iter([{"line": "10 %"}, {"line": "20 %"}, {"line": "30 %"}])
    run = SimpleNamespace(state=lambda: next(states), is_running=True)

    async def is_connected() -> bool:
        return False

    request: Any = SimpleNamespace(is_disconnected=is_connected)

    async def read() -> list[str]:
        events: Any = _events(office.client.app, request, session, run)  # type: ignore[arg-type]
        lines = [await anext(events), await anext(events)]
        assert office.client.post("/sign-out", data=office.form).status_code == 303
        return lines + [line async for line in events]

    assert [line[:18] for line in asyncio.run(read())] == [
        'data: {"line": "10',
        'data: {"line": "20',
    ]
    assert office.client.app.state.streams == 0  # type: ignore[attr-defined]


def test_one_run_of_a_job_and_few_at_once(published: Done) -> None:
    office = Office(published.store)
    try:
        place = office.start().headers["location"]
        again = office.start()
        assert again.status_code == 409
        assert "hiring-gbdt is running already" in readable(again.text)
        assert office.start("hiring-blind").status_code == 303
        assert "2 runs are in progress" in readable(office.start("hiring-budro").text)
        page = office.client.get(place)
        assert '<script src="/progress.js" defer></script>' in page.text
        assert "script-src 'self'; connect-src 'self'" in page.headers["content-security-policy"]
        assert "started by ana" in office.client.get("/jobs").text
        assert office.client.post(f"{place}/stop", data=office.form).status_code == 303
    finally:
        office.runner.close()
    until_ended(office.runner)
    assert "It was stopped." in readable(office.client.get(place).text)


def test_only_owners_and_approvers_run_jobs(published: Done) -> None:
    for role in ("viewer", "case worker"):
        office = Office(published.store, role)
        for address in ("/jobs", "/progress/0000000000000000"):
            assert office.client.get(address).status_code == 403
        assert office.start().status_code == 403
    only_shows = Office(published.store, "approver", allow_changes=False)
    assert only_shows.client.get("/jobs").status_code == 200
    assert only_shows.start().status_code == 403
    office = Office(published.store)
    assert office.client.post("/jobs/shipped/hiring-gbdt/run", data={}).status_code == 403
    assert office.client.get("/progress/0000000000000000").status_code == 404
    assert office.runner.running() == []


def test_jobs_are_those_of_the_list_alone(published: Done, tmp_path: Path) -> None:
    jobs, outside = tmp_path / "jobs", tmp_path / "outside.yaml"
    jobs.mkdir()
    job = "description: Ours.\nbase: hiring-gbdt.yaml\n"
    outside.write_text(job)
    (jobs / "ours.yaml").write_text(job)
    (jobs / "linked.yaml").symlink_to(outside)
    (jobs / "contract.yaml").write_text("apiVersion: v3.0.2\n")
    (jobs / "_base.yaml").write_text(job)
    (jobs / "broken.yaml").write_text("a: [")
    listed = [job for job in listed_jobs(jobs) if job.kind == "own"]
    assert listed == [ListedJob("own", "ours.yaml", "Ours.", str(jobs / "ours.yaml"))]
    office = Office(published.store, jobs=jobs)
    try:
        assert "Jobs of this team" in office.client.get("/jobs").text
        for name in ("linked.yaml", "..%2foutside.yaml", "_base.yaml", "%2fetc%2fpasswd", "--help"):
            assert office.start(name, "own").status_code == 404, name
            assert office.start(name).status_code == 404, name
        assert office.start("ours.yaml", "own").status_code == 303
    finally:
        office.runner.close()


def test_a_run_gets_the_name_and_key_of_its_person(
    published: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenhand.flows.app.web import environment_of

    monkeypatch.setenv("EVENHAND_KEY", "process.pem")
    settings = AppSettings("", Store(str(published.store)), Sessions({}, None), frozenset())
    keyless = environment_of(settings, Person("ben", "owner"))
    assert (keyless["EVENHAND_ACTOR"], keyless.get("EVENHAND_KEY")) == ("ben", None)
    keyed = environment_of(settings, Person("ben", "owner", key=Path("ben.pem")))
    assert keyed["EVENHAND_KEY"] == "ben.pem"


def test_a_process_that_fails_says_why(published: Done) -> None:
    script = "import sys; print('evenhand: no such <table>', file=sys.stderr); sys.exit(2)"
    office = Office(published.store, script=script)
    place = office.start().headers["location"]
    until_ended(office.runner)
    page = office.client.get(place).text
    assert "something in the job is wrong" in page
    assert "no such &lt;table&gt;" in page


def test_the_most_runs_are_refused_by_a_sentence(tmp_path: Path) -> None:
    runner = JobRunner(str(tmp_path), (sys.executable, "-c", WAITS))
    job = ListedJob("shipped", "hiring-gbdt", "", "hiring-gbdt")
    runner.start(job, "ana", {})
    try:
        with pytest.raises(Busy, match="is running already"):
            runner.start(job, "ana", {})
    finally:
        runner.close()
