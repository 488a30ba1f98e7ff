"""Progress of steps: who is told, and a count over stages that are counted apart."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.tasks.execution import step as step_module
from evenhand.tasks.execution.step import (
    ExecutionContext,
    Stages,
    Step,
    StepContext,
    StepResult,
    listen,
    report_progress,
    run_step,
    working,
)
from evenhand.tasks.execution.store import Store


class Notes:
    """A listener that also wants to know which step runs."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def __call__(self, step: str, done: int, total: int, values: Mapping[str, float]) -> None:
        self.heard.append((step, done, total))

    @contextmanager
    def working(self, step: str) -> Iterator[None]:
        self.heard.append(f"{step} begins")
        try:
            yield
        finally:
            self.heard.append(f"{step} ends")


def test_a_listener_that_wants_to_hears_which_step_runs() -> None:
    notes = Notes()
    with listen(notes):
        with working("train"):
            report_progress("train")(1, 3, {})
        with pytest.raises(ValueError, match="by itself"), working("gate"):
            raise ValueError("by itself")
    with working("nobody listens"):
        pass
    assert notes.heard == [
        "train begins",
        ("train", 1, 3),
        "train ends",
        "gate begins",
        "gate ends",
    ]


def test_a_plain_callback_hears_only_counts() -> None:
    heard: list[tuple[str, int, int]] = []
    with (
        listen(lambda step, done, total, values: heard.append((step, done, total))),
        working("train"),
    ):
        report_progress("train")(2, 3, {})
    assert heard == [("train", 2, 3)]


def test_stages_make_one_count_that_never_falls() -> None:
    """It ends at its total."""
    heard: list[tuple[int, int]] = []
    stages = Stages(lambda done, total, values: heard.append((done, total)), 3)
    first = stages.next()
    first(1, 8)
    first(8, 8)
    stages.next()  # counts nothing itself
    stages.next()(1, 1)
    stages.finish()
    assert heard == [(done, 300) for done in (0, 12, 100, 100, 200, 300, 300)]


def test_the_listener_before_comes_back_after_a_block() -> None:
    heard: list[object] = []

    def listener(name: str) -> Any:
        return lambda *call: heard.append((name, *call[:3]))

    with listen(listener("outer")):
        with listen(None):
            report_progress("a")(1, 2, {})
        with listen(listener("inner")):
            report_progress("b")(1, 2, {})
        report_progress("c")(1, 2, {})
    report_progress("d")(1, 2, {})
    assert heard == [("inner", "b", 1, 2), ("outer", "c", 1, 2)]


@pytest.fixture
def artifacts(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Prefect's progress artifacts: the calls, and a clock to set."""
    kept = SimpleNamespace(calls=[], seconds=100.0)

    def create(**given: Any) -> str:
        kept.calls.append(("create", given))
        return "number 7"

    def update(**given: Any) -> None:
        kept.calls.append(("update", given))

    module = SimpleNamespace(create_progress_artifact=create, update_progress_artifact=update)
    monkeypatch.setitem(sys.modules, "prefect.artifacts", module)
    monkeypatch.setattr(step_module, "time", SimpleNamespace(monotonic=lambda: kept.seconds))
    return kept


def test_a_progress_artifact_appears_after_three_seconds(
    artifacts: SimpleNamespace,
) -> None:
    """It is renewed every three seconds."""
    heard: list[tuple[int, int]] = []
    with listen(lambda step, done, total, values: heard.append((done, total))):
        report = report_progress("learn_proxy", prefect=True)
    for seconds, done in (
        (101.0, 1),
        (102.9, 2),
        (103.0, 3),
        (105.9, 4),
        (106.0, 5),
        (106.1, 7),
        (106.2, 8),
    ):
        artifacts.seconds = seconds
        report(done, 8, {"loss": 0.123456, "gap": 2.0} if done == 3 else {})
    assert artifacts.calls == [
        (
            "create",
            {
                "progress": 37.5,
                "key": "learn-proxy-progress",
                "description": "learn_proxy: 3 of 8 (loss 0.1235, gap 2)",
            },
        ),
        (
            "update",
            {"artifact_id": "number 7", "progress": 62.5, "description": "learn_proxy: 5 of 8"},
        ),
        # the end is shown at once
        (
            "update",
            {"artifact_id": "number 7", "progress": 100.0, "description": "learn_proxy: 8 of 8"},
        ),
    ]
    assert heard == [(done, 8) for done in (1, 2, 3, 4, 5, 7, 8)]


def test_a_quick_step_has_no_progress_artifact(artifacts: SimpleNamespace) -> None:
    report = report_progress("gate", prefect=True)
    artifacts.seconds = 102.0
    report(1, 1, {})
    plain = report_progress("gate")
    artifacts.seconds = 1000.0
    plain(1, 1, {})
    assert artifacts.calls == []


def test_a_step_reports_its_progress_and_its_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([50.0, 52.5])
    monkeypatch.setattr(step_module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    heard: list[object] = []

    def count(context: StepContext) -> StepResult:
        context.progress(2, 3, {"loss": 0.5})
        return StepResult({})

    store, notes = Store(str(tmp_path / "store")), Notes()
    with listen(notes):
        record, cached = run_step(
            store, Step("count", count), "k", {}, {}, lambda *call: heard.append(call)
        )
    assert (record.seconds, cached) == (2.5, False)
    assert (record.step, record.key, record.outputs, record.facts) == ("count", "k", {}, {})
    assert heard == [(2, 3, {"loss": 0.5})]
    assert notes.heard == ["count begins", "count ends"]


def test_a_document_is_written_as_json_without_nan(tmp_path: Path) -> None:
    context = StepContext({}, {}, tmp_path, lambda done, total, values: None)
    outputs = context.write_json("found", {"b": 1, "a": [0.5]})
    assert outputs == {"found": (tmp_path / "found.json", "found")}
    assert (tmp_path / "found.json").read_text() == '{\n "b": 1,\n "a": [\n  0.5\n ]\n}'
    assert context.write_json("other", {"b": 1, "a": 2}, "kind", sort_keys=True) == {
        "other": (tmp_path / "other.json", "kind")
    }
    assert (tmp_path / "other.json").read_text() == '{\n "a": 2,\n "b": 1\n}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        context.write_json("bad", float("nan"))


def test_a_step_is_the_function_of_its_name_by_default() -> None:
    assert Step("gate").module == "evenhand.tasks.steps.gate_step"

    def function(context: StepContext) -> StepResult:
        return StepResult({}, {"given": dict(context.parameters)})

    given = Step("gate", function)
    assert given.module == __name__
    context = StepContext({"a": 1}, {}, Path(), lambda done, total, values: None)
    assert given.run(context).facts == {"given": {"a": 1}}


def test_results_are_counted_as_they_are_used() -> None:
    heard: list[tuple[int, int]] = []
    stages = Stages(lambda done, total, values: heard.append((done, total)), 2)
    assert list(stages.counted(iter("abcd"), 4)) == [*"abcd"]
    assert heard == [(done, 200) for done in (0, 25, 50, 75, 100)]


def test_an_execution_context_holds_its_callables_and_is_fixed() -> None:
    def carry(*_: Any) -> bool:
        return False

    context = ExecutionContext(carry=carry)
    assert context.carry is carry
    assert context.run is None
    with pytest.raises(AttributeError):
        context.carry = None  # type: ignore[misc]


def test_a_progress_artifact_ends_at_100_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    import prefect.artifacts

    shares: list[float] = []

    def create(*, progress: float, **_: Any) -> str:
        shares.append(progress)
        return "identifier"

    def update(*, progress: float, **_: Any) -> None:
        shares.append(progress)

    monkeypatch.setattr(prefect.artifacts, "create_progress_artifact", create)
    monkeypatch.setattr(prefect.artifacts, "update_progress_artifact", update)
    report = report_progress("train", prefect=True)
    # a quick step makes no call
    report(1, 10, {})
    report.finish()
    assert shares == []
    monkeypatch.setattr(step_module, "ARTIFACT_EVERY_S", 0.0)
    report(9, 10, {})
    report.finish()
    assert shares == [90.0, 100.0]
    report(10, 10, {})
    report.finish()
    assert shares == [90.0, 100.0, 100.0]
