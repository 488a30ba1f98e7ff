"""What ``evenhand serve`` decides before a run: whether it needs a process, and whether its code is
ours.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import pytest

from evenhand.flows.engine import CacheMiss, read_verdict
from evenhand.flows.serving import CodeSource, ServingRunner, end_unchanged
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store


def test_an_unchanged_retraining_ends_without_a_process(champion: Any) -> None:
    store, parameters = Store(str(champion.store)), {"store": str(champion.store)}
    job, runs = str(champion.write()), store.runs()

    # what needs a process leaves nothing: the process writes the verdict
    assert end_unchanged(parameters | {"job": job, "overrides": ["seed=7"]}) is None
    with pytest.raises(InputError):
        end_unchanged(parameters | {"job": job, "overrides": ["table.path=absent.csv"]})
    with pytest.raises(CacheMiss):  # read over the network
        end_unchanged(
            parameters | {"job": job, "overrides": ["table.path=http://127.0.0.1:9/people.csv"]}
        )
    assert store.runs() == runs

    found = end_unchanged(parameters | {"job": job, "overrides": (), "run_id": "given"})
    assert found is not None
    assert (found.status, found.model["version"]) == ("up_to_date", "1")
    assert read_verdict(store, "given") == found
    with (champion.folder / "people.csv").open("a") as table:
        table.write((champion.folder / "people.csv").read_text().splitlines()[-1] + "\n")
    assert end_unchanged(parameters | {"job": job}) is None
    assert sorted(store.runs()) == sorted([*runs, "given"])


class Server:
    """The answers of a Prefect server about one deployment, and the states that it was given."""

    def __init__(self, **answer: Any) -> None:
        self.answer = {"path": None, "pull_steps": None, "storage_document_id": None, **answer}
        self.states: list[Any] = []

    async def read_deployment(self, identifier: Any) -> Any:
        if "error" in self.answer:
            raise self.answer["error"]
        return SimpleNamespace(**self.answer)

    async def set_flow_run_state(self, identifier: Any, state: Any) -> None:
        self.states.append(state)


OURS = "evenhand.flows.prefect_flows.retrain"


@pytest.mark.parametrize(
    ("answer", "changed"),
    [
        ({"entrypoint": OURS}, None),
        ({"entrypoint": "/tmp/theirs.py:retrain"}, "entrypoint"),
        ({"entrypoint": OURS, "path": "/tmp/theirs"}, "path"),
        (
            {"entrypoint": OURS, "pull_steps": [{"run_shell_script": {"script": "id"}}]},
            "pull_steps",
        ),
        ({"entrypoint": OURS, "storage_document_id": uuid4()}, "storage"),
        ({"entrypoint": "theirs.retrain", "path": "/tmp/theirs"}, "entrypoint, path"),
    ],
)
def test_only_the_code_that_was_registered_runs(
    answer: dict[str, Any], changed: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    runner: Any = ServingRunner(limit=1)
    run = SimpleNamespace(id=uuid4(), deployment_id=uuid4())
    runner.names[run.deployment_id] = "people"
    runner.sources[run.deployment_id] = CodeSource(OURS, None, [], None)
    runner._client = Server(**answer)
    unchanged = asyncio.run(runner._is_unchanged(run))
    assert unchanged is (changed is None)
    messages = [state.message for state in runner._client.states]
    assert [state.type.value for state in runner._client.states] == (
        [] if unchanged else ["FAILED"]
    )
    assert all(f"the deployment's {changed} was changed" in message for message in messages)
    assert ("evenhand: people: refused" in capsys.readouterr().err) is not unchanged
    # whatever the server names by then: the process and the hooks load what was registered
    starter = SimpleNamespace(_env={}, _entrypoint=None)
    runner._resolve = lambda run: starter
    assert runner._starter(run)._entrypoint == OURS
    flow = asyncio.run(runner.load_registered(run, storage_base_path="/tmp"))
    assert flow.name == "retrain"


def test_a_run_of_no_deployment_of_ours_gets_no_process() -> None:
    runner: Any = ServingRunner(limit=1)
    run = SimpleNamespace(id=uuid4(), deployment_id=uuid4())
    runner._client = Server(entrypoint=OURS)
    assert asyncio.run(runner._is_unchanged(run)) is False
    with pytest.raises(ValueError, match="served here"):
        asyncio.run(runner.load_registered(run))
    # while the server is away, the run stays scheduled
    runner.sources[run.deployment_id] = CodeSource(OURS, None, [], None)
    runner._client = Server(error=httpx.ConnectError("away"))
    assert asyncio.run(runner._is_unchanged(run)) is False
    assert runner._client.states == []
