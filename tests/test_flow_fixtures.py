"""Tests of flows share the results of steps: without that they take minutes longer."""

from __future__ import annotations

import pytest

import evenhand.flows.engine
import evenhand.tasks.pages.build
from evenhand.tasks.execution.step import run_step
from tests.flow_fixtures import runs_flows

pytestmark = pytest.mark.usefixtures("flow_environment")


def test_steps_are_remembered_unless_a_test_asks_for_monkeypatch() -> None:
    assert evenhand.flows.engine.run_step.__qualname__ == "Remembered.run_step"
    assert evenhand.tasks.pages.build._svg.__qualname__ == "Remembered.draw"


def test_with_monkeypatch_every_step_is_computed(monkeypatch: object) -> None:
    assert evenhand.flows.engine.run_step is run_step


def test_flows_run_after_all_other_tests(request: pytest.FixtureRequest) -> None:
    in_order = [runs_flows(item) for item in request.session.items]
    assert in_order == sorted(in_order)
