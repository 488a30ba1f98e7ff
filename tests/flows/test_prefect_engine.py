"""Steps as Prefect tasks, where the server goes away between its last answer and the start of a
task.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError

from evenhand.flows import prefect_engine
from evenhand.tasks.execution.store import Store


@pytest.mark.parametrize(("away", "runs"), [(0, 1), (2, 3)])
def test_a_task_that_has_not_begun_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: int, runs: int
) -> None:
    assert started(tmp_path, monkeypatch, away) == ("found", runs)


def test_a_server_that_stays_away_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConcurrencySlotAcquisitionError):
        started(tmp_path, monkeypatch, 3)


def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: int) -> tuple[Any, int]:
    """Run a step whose task fails to get its slot so often; what it gives, and how often it was
    started.
    """
    calls: list[str] = []

    class State:
        def result(self) -> str:
            return "found"

    def task(**arguments: Any) -> State:
        calls.append(arguments["step"])
        if len(calls) <= away:
            raise ConcurrencySlotAcquisitionError
        return State()

    monkeypatch.setitem(prefect_engine.STEP_TASKS, "gate", task)  # type: ignore[arg-type]
    monkeypatch.setattr(prefect_engine, "wait_for_server", lambda: None)
    engine = prefect_engine.PrefectEngine(Store(str(tmp_path)))
    found: Any = engine.run("gate", "key", {}, {}, refresh=False)
    return found, len(calls)


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"job": "german-gbdt"}, "german-gbdt on german, "),
        ({"job": "/home/anna/people.yaml"}, "people, "),
        (
            {"model": "models:/people@champion", "data": "/data/new.csv"},
            "people@champion on new.csv, ",
        ),
        (
            {"job": "bank-proxy", "input": "s3://key:secret@bucket/day1.parquet?token=x"},
            "on day1.parquet, ",
        ),
    ],
)
def test_a_flow_run_is_named_by_its_job_and_its_table(
    monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any], name: str
) -> None:
    from evenhand.flows import flow_records

    monkeypatch.setattr(flow_records.flow_run, "parameters", parameters, raising=False)
    found = flow_records.run_name()
    assert name in found
    assert "/" not in found
    assert "secret" not in found


# a process of its own, in which nothing is imported yet
@pytest.mark.long
def test_the_flow_of_a_retraining_imports_no_numeric_library() -> None:
    """Prefect's own imports are what remains of a scheduled run with nothing to do."""
    code = "import sys, evenhand.flows.prefect_flows; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"mlflow", "numpy", "pandas", "pyarrow", "requests", "scipy", "sqlalchemy", "xgboost"}
    assert heavy & set(done.stdout.split()) == set()
    assert "evenhand.flows.other_flows" not in done.stdout.split()
