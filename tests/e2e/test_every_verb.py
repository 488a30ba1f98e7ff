"""Every verb as a user gives it, in one process with one Prefect server that records flows and
tasks.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from evenhand.flows.sweep import make_grid, run_point
from tests.e2e.conftest import Cli, contents, put_loans
from tests.flows.people import Answer

pytestmark = [pytest.mark.flow, pytest.mark.long]

JOB: dict[str, Any] = {
    "name": "loans-small",
    "table": {"name": "loans", "rows": 1000},
    "method": {"name": "gbdt", "n_steps": 5, "max_depth": 2, "n_jobs": 1},
    # calibrated, so small a model is seen to be of no use
    "calibration": "none",
    "evaluate": {"draws": 20},
    "gates": {"auc": {"min": 0.3}},
    "publish": {"without_policy": True},
}
PROXY: dict[str, Any] = {
    "name": "loans-proxy",
    "table": {"name": "loans", "rows": 2000},
    "sensitive": ["group"],
    "method": {"name": "naive-tree"},
    "evaluate": {"draws": 20},
    "filter": {"key": ["id"], "rows_per_unit": 1000},
    "publish": {"without_policy": True},
}
AGENT: dict[str, Any] = {
    "name": "loans-agent",
    "table": {"name": "loans", "rows": 500},
    "method": {
        "name": "dadi",
        "gamma": 1,
        "attributes": ["group"],
        "hidden": [8, 8],
        "memory_size": 4,
        "agents": 16,
        "pretrain_iterations": 30,
        "n_iterations": 60,
    },
    "calibration": "none",
    "evaluate": {"draws": 20},
    "gates": {"auc": {"min": 0.3}},
    "publish": {"without_policy": True},
}
# what another table of the same contract is called on the command line
OTHER = ("--data", "loans", "--set", "table.rows=600", "--set", "seed=4")
# so few training rows lack categories of the others
SWEEP = ("--over", "split.test=0.3,0.998", "--seeds", "2", "--workers", "2")

# Starts the server, then carries out commands, a line of JSON each, one after another.
SCRIPT = """
import json, os, sys
from typer.testing import CliRunner
from evenhand.flows import runtime

runtime.prepare_prefect_home(runtime.prepare_environment(os.environ["EVENHAND_STORE"]))
os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"
wait = runtime.start_temporary_server(runtime.SERVER_START_S, services=True)
from evenhand.flows.cli import app
from evenhand.flows.commands import terminal
terminal.EVERY_S = 3600.0  # what a command prints must not depend on how busy the machine is
from evenhand.tasks.pages import build
draw, drawn = build._svg, {}

def draw_once(chart, form):  # one picture of each kind of chart: drawing takes longer than all else
    if chart.plot not in drawn:
        drawn[chart.plot] = draw(chart, form)
    return drawn[chart.plot]

build._svg = draw_once
wait()
print(json.dumps(os.environ["PREFECT_API_URL"]), flush=True)
for line in sys.stdin:
    arguments, typed = json.loads(line)
    if arguments[0] == "python":
        from evenhand.flows.prefect_flows import retrain
        found = retrain(arguments[1], arguments[2:])
        answer = [0, json.dumps(found), ""]
    else:
        done = CliRunner().invoke(app, arguments, input=typed)
        answer = [done.exit_code, done.stdout, done.stderr]
    print(json.dumps(answer), flush=True)
"""


@dataclass
class Session:
    """A process that carries commands out, its store and its folder."""

    process: subprocess.Popen[str]
    store: Path
    folder: Path

    def __call__(self, *arguments: str, typed: str = "") -> Answer:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([arguments, typed]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process has ended: see its words on stderr"
        return Answer(*json.loads(line))

    def put(self, name: str, content: Any) -> str:
        """Write a YAML file and give its path."""
        path = self.folder / name
        path.write_text(yaml.safe_dump(content))
        return str(path)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the server's database."""
        with closing(sqlite3.connect(self.store / "prefect" / "prefect.db")) as database:
            return database.execute(statement).fetchall()

    def flow_runs(self) -> list[str]:
        """States of all flow runs, in their order."""
        return [
            state for (state,) in self.query("select state_type from flow_run order by created")
        ]

    def artifacts(self) -> set[str]:
        """Keys of what is shown in Prefect's interface."""
        return {
            key for (key,) in self.query("select distinct key from artifact where key is not null")
        }

    def task_runs(self, count: int) -> dict[str, str]:
        """Names and final states in the newest flow run; the server records them a moment later."""
        statement = (
            "select name, state_type from task_run where state_type in ('COMPLETED', 'FAILED') "
            "and flow_run_id = (select id from flow_run order by created desc limit 1)"
        )
        deadline = time.monotonic() + 60
        while len(found := dict(self.query(statement))) < count and time.monotonic() < deadline:
            time.sleep(0.2)
        return found


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """The process, with a published model of the job."""
    cli, folder = Cli(tmp_path / "store"), tmp_path
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env=cli.environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()).startswith("http://127.0.0.1:")
        session = Session(process, cli.store, folder)
        done = session("run", session.put("job.yaml", JOB), "--json")
        assert (done.code, done.json["status"], done.err) == (0, "published", "")
        assert session.flow_runs() == ["COMPLETED"]
        assert {"loans-small-metrics", "loans-small-report"} <= session.artifacts()
        yield session
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=120) == 0


def a_run_shows_its_steps_and_a_refused_one_fails(session: Session) -> None:
    """And the champion stays."""
    refusing = ("--set", "seed=1", "--set", "gates={accuracy: {min: 0.999}}")
    done = session("run", str(session.folder / "job.yaml"), *refusing)
    assert done.code == 1, done.err
    assert "FAIL" in done.out
    assert "not published" in done.out
    assert session.flow_runs()[-1] == "FAILED"
    names = {name.partition("-")[0] for name in session.task_runs(9)}
    up_to_training = {"ingest", "contract", "preprocess", "profile", "train"}
    assert names == up_to_training | {"decide", "controls", "evaluate", "gate"}
    history = session("history", "loans-small", "--json").json
    assert history["aliases"] == {"champion": "1"}


def the_flow_runs_from_python(session: Session) -> None:
    done = session("python", str(session.folder / "job.yaml"), "publish.model=from-python")
    assert (done.json["status"], done.json["model"]["version"]) == ("published", "1")
    assert session.flow_runs()[-1] == "COMPLETED"


def an_evaluation_that_refuses_fails_its_flow(session: Session) -> None:
    junit, gates = session.folder / "junit.xml", session.put("strict.yaml", {"auc": {"min": 0.99}})
    done = session(
        "evaluate", "loans-small", *OTHER, "--gates", gates, "--junit", str(junit), "--json"
    )
    assert (done.code, done.err) == (1, "")
    assert (done.json["status"], done.json["gates"]["verdict"]) == ("evaluated", "refused")
    assert session.flow_runs()[-1] == "FAILED"
    assert {"loans-small-evaluate", "loans-small-evaluate-metrics"} <= session.artifacts()
    assert len(ElementTree.parse(junit).getroot().findall("testsuite/testcase/failure")) == 1


def drift_fails_its_flow(session: Session) -> None:
    gates = session.put("no-drift.yaml", {"psi_max": {"max": 0.0}})
    done = session("monitor", "loans-small", *OTHER, "--gates", gates, "--json")
    assert (done.code, done.err) == (1, "")
    assert (done.json["status"], done.json["exit_code"]) == ("monitored", 1)
    assert session.flow_runs()[-1] == "FAILED"
    assert {"loans-small-drift", "loans-small-monitor"} <= session.artifacts()


def every_point_of_a_sweep_is_observed(session: Session) -> None:
    done = session("sweep", str(session.folder / "job.yaml"), *SWEEP, "--json")
    assert done.code == 4
    assert len(done.err.splitlines()) == 1, done.err
    assert "2 of 4 runs failed" in done.err
    assert session.flow_runs()[-1] == "FAILED"
    assert "loans-small-sweep" in session.artifacts()
    assert session.task_runs(4) == {
        "split.test=0.3, seed=0": "COMPLETED",
        "split.test=0.3, seed=1": "COMPLETED",
        "split.test=0.998, seed=0": "FAILED",
        "split.test=0.998, seed=1": "FAILED",
    }
    points = make_grid(str(session.folder / "job.yaml"), [SWEEP[1]], seeds=2).points
    expected = [run_point(point.resolved, str(session.folder / "other")) for point in points]
    for point, found in zip(expected, done.json["points"], strict=True):
        assert (found["status"], found["error"]) == (point.status, point.error)
        assert found["metrics"] == point.metrics


def a_filter_fails_with_a_damaged_file_and_completes_without_it(session: Session) -> None:
    job = session.put("proxy.yaml", PROXY)
    few = "method={name: proxy, alpha: 0, target: {group: {a: 0.9, b: 0.1}}}"
    refused = session("run", job, "--set", few)
    assert refused.code == 1
    # lines of progress may be before it
    *progress, reason = refused.err.splitlines()
    assert reason.startswith("evenhand: no split of the training rows stays within alpha = 0")
    assert all("running for" in line for line in progress)
    assert session("run", job, "--direct", "--json").json["status"] == "published"
    source, output = session.folder / "in", session.folder / "out"
    put_loans(source / "a.parquet", 3000, 1)
    (source / "b.parquet").write_bytes((source / "a.parquet").read_bytes()[:-50])
    command = ("filter", job, "--input", str(source), "--json", "--output")
    bad = session(*command, str(output))
    assert bad.code == 2
    assert bad.err == f"evenhand: {bad.json['error']}\n"
    assert "1 of 2 files could not be filtered: b.parquet" in bad.json["error"]
    assert bad.json["status"] == "filtered"
    assert Path(bad.json["artifacts"]["report"]).is_file()
    assert session.flow_runs()[-1] == "FAILED"
    put_loans(source / "b.parquet", 2000, 2)
    good = session(*command, str(output))
    assert (good.code, good.err) == (0, "")
    metrics = good.json["metrics"]
    assert (metrics["files_filtered"], metrics["files_done_before"]) == (1, 1)
    assert session.flow_runs()[-1] == "COMPLETED"
    assert "loans-proxy-filter" in session.artifacts()
    direct = session(*command, str(session.folder / "direct"), "--direct")
    assert direct.code == 0, direct.err
    assert contents(output) == contents(session.folder / "direct")


def a_model_predicts_what_it_predicts_without_a_server(session: Session) -> None:
    """The input is that of the filter above."""
    command = (
        "predict",
        "loans-small",
        "--input",
        str(session.folder / "in"),
        "--json",
        "--output",
    )
    done = session(*command, str(session.folder / "predicted"))
    assert (done.code, done.err) == (0, "")
    assert (done.json["status"], done.json["metrics"]["rows_out"]) == ("predicted", 5000)
    assert session.flow_runs()[-1] == "COMPLETED"
    assert "loans-small-predict" in session.artifacts()
    direct = session(*command, str(session.folder / "predicted-direct"), "--direct")
    assert direct.code == 0, direct.err
    assert contents(session.folder / "predicted") == contents(session.folder / "predicted-direct")


def only_what_has_passed_is_promoted(session: Session) -> None:
    """An evaluation above has refused version 1."""
    job = str(session.folder / "job.yaml")
    challenger = ("--set", "publish.alias=challenger", "--set", "method.n_steps=6")
    assert session("run", job, "--direct", "--json", *challenger).json["model"]["version"] == "2"
    assert session("promote", "models:/loans-small@challenger").code == 0
    back = session("promote", "models:/loans-small/1")
    assert back.code == 1
    assert "its recorded evaluation was refused by the gates" in back.err
    done = session("history", "loans-small", "--json")
    assert done.code == 0
    changes = [
        (c["alias"], c["from_version"], c["to_version"], c["reason"]) for c in done.json["changes"]
    ]
    assert changes == [
        ("champion", None, "1", "run"),
        ("challenger", None, "2", "run"),
        ("champion", "1", "2", "promote"),
    ]


def reports_are_found(session: Session) -> None:
    latest = session("report")
    assert latest.code == 0
    assert Path(latest.out.strip()).read_text().lower().startswith("<!doctype html>")
    index = Path(session("report", "--all").out.strip())
    assert index.name == "index.html"
    assert "loans-small" in index.read_text()


def an_agent_asks_and_predicts(session: Session) -> None:
    trained = session("run", session.put("agent.yaml", AGENT), "--direct", "--json")
    assert trained.json["status"] == "published", trained.json["error"]
    done = session("ask", "loans-agent", "--json", typed="\n" * 10)
    assert done.code == 0, done.err
    assert set(done.json) == {
        "prediction",
        "probability",
        "asked",
        "declined",
        "known",
        "never_asked",
        "reasons_not_asked",
        "stopped",
    }
    assert done.json["asked"] == done.json["declined"] != []
    assert "group" not in done.json["asked"]


VERBS = (
    a_run_shows_its_steps_and_a_refused_one_fails,
    the_flow_runs_from_python,
    an_evaluation_that_refuses_fails_its_flow,
    drift_fails_its_flow,
    every_point_of_a_sweep_is_observed,
    a_filter_fails_with_a_damaged_file_and_completes_without_it,
    a_model_predicts_what_it_predicts_without_a_server,
    only_what_has_passed_is_promoted,
    reports_are_found,
    an_agent_asks_and_predicts,
)


def test_every_verb(session: Session, subtests: pytest.Subtests) -> None:
    """One test: there is one server, whoever carries out the tests."""
    for verb in VERBS:
        with subtests.test(verb.__name__):
            verb(session)
