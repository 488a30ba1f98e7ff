"""A store beside others: closed to other users, and `cache gc` beside runs."""

from __future__ import annotations

import multiprocessing
import os
import stat
import time
from pathlib import Path

import pytest

from evenhand.tasks.execution.step import Step, StepContext, StepResult, run_step
from evenhand.tasks.execution.store import Store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("inside", [None, "artifacts"])
def test_a_store_that_exists_is_closed_to_others(tmp_path: Path, inside: str | None) -> None:
    place = tmp_path / "store"
    place.mkdir(mode=0o755)
    if inside:
        (place / inside).mkdir()
    Store(str(place))
    assert mode(place) == 0o700


def test_a_folder_with_other_things_stays_open(tmp_path: Path) -> None:
    """The store's own folders are closed."""
    place = tmp_path / "home"
    place.mkdir(mode=0o755)
    (place / "letter.txt").write_text("mine")
    Store(str(place))
    assert mode(place) == 0o755
    assert {
        mode(place / name) for name in ("artifacts", "runs", "mlflow-artifacts", "prefect")
    } == {0o700}
    assert mode(place / "mlflow.db") == 0o600
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    Store(str(shared))
    assert mode(shared) == 0o2770


def write(context: StepContext) -> StepResult:
    path = context.workdir / "out.txt"
    path.write_text(context.parameters["text"])
    return StepResult({"out": (path, "text")})


def work(place: str, number: int, count: int) -> None:
    """Runs that store a step each and read it again and again, as cached runs do."""
    for index in range(count):
        store = Store(place)
        with store.lease():
            found = []
            for part in ("a", "b", "shared"):
                parameters = {"text": part if part == "shared" else f"{part} {number} {index}"}
                step = Step("write", write)
                found.append(run_step(store, step, f"{number}-{index}-{part}", parameters, {})[0])
            for record in found * 3:
                assert store.fetch(record.outputs["out"]).read_text()
                again = store.find("write", record.key)
                assert again is not None, record.key


def collect(place: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        Store(place).prune(0)


def test_a_collector_takes_nothing_from_runs(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    Store(place)
    context = multiprocessing.get_context("fork")
    collectors = [context.Process(target=collect, args=(place, 1.5)) for _ in range(2)]
    runs = [context.Process(target=work, args=(place, number, 12)) for number in range(3)]
    for process in [*collectors, *runs]:
        process.start()
    for process in [*collectors, *runs]:
        process.join(60)
    assert [process.exitcode for process in [*collectors, *runs]] == [0] * 5
    for lease in (tmp_path / "store" / "leases").iterdir():
        raise AssertionError(lease)


def test_what_no_run_uses_is_removed_beside_a_run(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    old = run_step(store, Step("write", write), "old", {"text": "old"}, {})[0]
    used = run_step(store, Step("write", write), "used", {"text": "used"}, {})[0]
    for path in (tmp_path / "store").rglob("*"):
        os.utime(path, (1e9, 1e9))
    with store.lease():
        assert store.find("write", "used")
        assert store.prune(0)[0] == 1
        assert store.find("write", "used") == used
        assert store.find("write", "old") is None
    assert not Path(old.outputs["out"].uri).exists()
    assert store.prune(0)[0] == 1
