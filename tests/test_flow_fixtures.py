"""Tests of flows share the results of steps: without that they take minutes longer."""

from __future__ import annotations

from pathlib import Path

import pytest

import evenhand.flows.engine
import evenhand.tasks.pages.build
from evenhand.tasks.execution.step import Step, StepContext, StepResult, run_step
from tests.flow_fixtures import runs_flows
from tests.flows.remembered import Remembered

pytestmark = pytest.mark.usefixtures("flow_environment")


def test_steps_are_remembered_unless_a_test_asks_for_monkeypatch() -> None:
    assert evenhand.flows.engine.run_step.__qualname__ == "Remembered.run_step"
    assert evenhand.tasks.pages.build._svg.__qualname__ == "Remembered.draw"


def test_with_monkeypatch_every_step_is_computed(monkeypatch: object) -> None:
    assert evenhand.flows.engine.run_step is run_step


def test_flows_run_after_all_other_tests(request: pytest.FixtureRequest) -> None:
    in_order = [runs_flows(item) for item in request.session.items]
    assert in_order == sorted(in_order)


def test_workers_share_what_a_step_gave(tmp_path: Path) -> None:
    computed: list[str] = []

    def function(context: StepContext) -> StepResult:
        computed.append(context.workdir.name)
        outputs = context.write_json("counts", {"rows": 3})
        (context.workdir / "table").mkdir()
        (context.workdir / "table" / "part.txt").write_text("a")
        return StepResult({**outputs, "table": (context.workdir / "table", "table")}, {"rows": 3})

    results = []
    for worker in ("gw0", "gw1"):
        # a worker has its own memory, and the session's folder
        remembered = Remembered(tmp_path / "remembered")
        workdir = tmp_path / worker
        workdir.mkdir()
        context = StepContext({}, {}, workdir, lambda done, total, values: None)
        result = remembered.result(Step("profile", function), "key", context)
        (workdir / "table" / "part.txt").read_text()
        results.append({name: path.name for name, (path, _) in result.outputs.items()})
        assert result.facts == {"rows": 3}
        assert all(path.parent == workdir for path, _ in result.outputs.values())
    assert computed == ["gw0"]
    assert results[0] == results[1]
