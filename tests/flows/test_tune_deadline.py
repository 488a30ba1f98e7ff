"""A command of tune that still runs at its end is ended with the answer that was prepared last."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evenhand.flows.commands.tune_command import (
    INTERRUPTS,
    check_what_is_asked,
    end_at_interrupts,
    raise_at_interrupts,
)
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.tune_deadline import (
    CPU_GRACE_S,
    GRACE_S,
    UNPLANNED,
    Deadline,
    PreparedAnswer,
    slowness_of_process,
    unplanned_answer,
    write_whole,
)
from evenhand.flows.tune_first_models import first_part_of
from evenhand.flows.tune_plan import check_aim
from evenhand.tasks.errors import InputError

# A process that never ends by itself; its prepared answer is written a moment after its start.
PROGRAM = """
import sys, time
from pathlib import Path
from typing import Any
from evenhand.flows import tune_deadline
tune_deadline.GRACE_S = 0.0
deadline = tune_deadline.Deadline(as_json=True)
target = Path(sys.argv[1])
deadline.prepare(tune_deadline.PreparedAnswer(target, "text", 1, "the time ended."))
deadline.arm(time.monotonic() + 0.05)
time.sleep(600)
"""


def test_a_process_at_its_end_writes_the_prepared_answer(tmp_path: Path) -> None:
    target = tmp_path / "job.tuned.yaml"
    target.write_text("before")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(target)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert target.read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["job.tuned.yaml"]
    assert done.stderr.strip() == "evenhand: the time ended."
    assert json.loads(done.stdout)["exit_code"] == 1


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Exit codes with which the process would have ended."""
    codes: list[int] = []
    monkeypatch.setattr("evenhand.flows.tune_deadline.os._exit", codes.append)
    monkeypatch.setattr("evenhand.flows.tune_deadline.GRACE_S", 0.0)
    monkeypatch.setattr("evenhand.flows.tune_deadline.ENDING_CPU_S", 0.0)
    # workers that other tests of this process have started go on
    monkeypatch.setattr("multiprocessing.active_children", list)
    return codes


def wait_for(codes: list[int]) -> None:
    """Wait until the deadline has ended the process."""
    for _ in range(500):
        if codes:
            return
        time.sleep(0.01)


def test_a_command_that_ended_by_itself_is_left_alone(ended: list[int]) -> None:
    deadline = Deadline()
    deadline.arm(time.monotonic() + 0.02)
    deadline.disarm()
    time.sleep(0.06)
    assert ended == []


def test_the_earlier_of_two_ends_counts(ended: list[int]) -> None:
    deadline = Deadline()
    deadline.arm(time.monotonic() + 0.01)
    deadline.arm(time.monotonic() + 600)
    wait_for(ended)
    assert ended == [4]


def test_a_job_that_was_written_is_not_written_again(
    ended: list[int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "job.tuned.yaml"
    deadline = Deadline()
    deadline.prepare(PreparedAnswer(target, "best so far", 0, "ended"))
    target.write_text("final")
    deadline.written(1)
    deadline.arm(time.monotonic())
    wait_for(ended)
    assert ended == [1]
    assert target.read_text() == "final"
    assert "the time ended before the page was written" in capfd.readouterr().err


def test_a_limit_of_cpu_seconds_ends_the_process_too(
    tmp_path: Path, ended: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "job.tuned.yaml"
    spent = [0.0]
    deadline = Deadline()
    deadline.prepare(PreparedAnswer(target, "the best so far", 1, "the CPU minute ended."))
    deadline.arm_cpu(lambda: spent[0], 60.0)
    time.sleep(0.6)
    assert ended == []
    spent[0] = 60.0 + CPU_GRACE_S + 1.0
    wait_for(ended)
    assert ended == [1]
    assert target.read_text() == "the best so far"
    assert "the CPU minute ended" in capfd.readouterr().err


def test_slowness_is_waiting_over_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert slowness_of_process() >= 1.0
    contents = {"1": "2000 3000 7", "2": "1000 3000 4"}
    monkeypatch.setattr("os.listdir", lambda _: list(contents))
    monkeypatch.setattr(Path, "read_text", lambda path: contents[path.parent.name])
    assert slowness_of_process() == 3.0
    # a thread that has just ended
    monkeypatch.setattr(Path, "read_text", lambda _: "")
    assert slowness_of_process() == 1.0


def test_a_written_answer_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "job.tuned.yaml"
    write_whole(PreparedAnswer(target, "job", 0, ""))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["job"]
    assert 0.0 < GRACE_S < 5.0


def test_before_the_job_is_checked_it_is_the_job_with_gates(tmp_path: Path) -> None:
    """It is a job that loads."""
    job = tmp_path / "people.yaml"
    job.write_text("name: people # ours\nbase: hiring-gbdt\n")
    limits = ["gap_max.gender <= 0.1", "gap_max.gender <= 0.2", "auc >= .7", "no limit"]
    limits.append("accuracy >= 0.1.2")
    answer = unplanned_answer(str(job), limits, force=False)
    assert answer is not None
    write_whole(answer)
    loaded, _ = load_job(str(answer.target))
    assert loaded.name == "people"
    assert loaded.gates["gap_max.gender"]["max"] == 0.1
    assert loaded.gates["auc"]["min"] == 0.7
    assert "accuracy" not in loaded.gates
    assert loaded.description == UNPLANNED
    assert unplanned_answer(str(job), limits, force=False) is None
    assert unplanned_answer(str(job), limits, force=True) is not None
    assert unplanned_answer("hiring-gbdt", [], force=False) is not None
    assert unplanned_answer("no-such-job", [], force=False) is None


def test_an_unchecked_job_keeps_its_stricter_gates_and_limits(tmp_path: Path) -> None:
    """Its limits may be its own, or those of its base."""
    base = tmp_path / "base.yaml"
    base.write_text("base: hiring-gbdt\ngates: {auc: {min: 0.9}}\n")
    job = tmp_path / "people.yaml"
    job.write_text(
        "name: people\nbase: base.yaml\ngates: {gap_max.gender: {max: 0.05}}\n"
        'tune: {where: ["gap_max.gender <= 0.1", "auc >= 0.7"]}\n'
    )
    answer = unplanned_answer(str(job), [], force=False)
    assert answer is not None
    write_whole(answer)
    loaded, _ = load_job(str(answer.target))
    assert loaded.gates["gap_max.gender"]["max"] == 0.05
    assert loaded.gates["auc"]["min"] == 0.9
    # those of the command replace the job's own
    answer.target.unlink()
    answer = unplanned_answer(str(job), ["gap_max.gender <= 0.02"], force=True)
    assert answer is not None
    write_whole(answer)
    assert load_job(str(answer.target))[0].gates["gap_max.gender"]["max"] == 0.02


def test_an_unchecked_job_measures_intersections_of_its_limits(tmp_path: Path) -> None:
    job = tmp_path / "people.yaml"
    job.write_text("name: people\nbase: adult-gbdt\n")
    answer = unplanned_answer(str(job), ["gap_max.race&sex <= 0.1"], force=False)
    assert answer is not None
    write_whole(answer)
    loaded, folder = load_job(str(answer.target))
    assert loaded.evaluate.intersections
    assert resolve(loaded, folder).may_have("gap_max.race&sex")


def test_no_unchecked_job_takes_the_place_of_a_judged_one(tmp_path: Path) -> None:
    """Nor is there one of a search for alternatives, or without what the command changed."""
    job = tmp_path / "people.yaml"
    job.write_text("name: people\nbase: hiring-gbdt\n")

    def left(**options: Any) -> str | None:
        answer = unplanned_answer(str(job), [], **{"force": True, **options})
        assert answer is not None
        assert answer.exit_code == 4
        return answer.text

    assert left() is not None
    assert left(is_changed=True) is None
    assert left(is_alternative=True) is None
    target = tmp_path / "people.tuned.yaml"
    target.write_text("judged")
    answer = unplanned_answer(str(job), [], force=True)
    assert answer is not None
    assert answer.text is None
    assert f"{target} of an earlier search was kept" in answer.message
    target.unlink()
    job.write_text("name: people\nbase: hiring-gbdt\ntune: {alternative_to: people}\n")
    assert left() is None


def test_a_failed_write_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(PreparedAnswer(tmp_path / "job.tuned.yaml", "job", 0, ""))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "name: [",
        "- people",
        "name: p\nbase: p.yaml",
        "base: hiring-gbdt",
        "name: p\nbase: ../q.yaml",
    ],
)
def test_of_a_job_that_cannot_be_read_nothing_is_left(tmp_path: Path, text: str) -> None:
    job = tmp_path / "p.yaml"
    job.write_text(text)
    assert unplanned_answer(str(job), ["auc >= .7"], force=False) is None


def test_an_answer_that_cannot_be_written_is_no_success(tmp_path: Path) -> None:
    target = tmp_path / "gone" / "job.tuned.yaml"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(target)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert f"the time ended, and {target} cannot be written" in done.stderr
    there = tmp_path / "job.tuned.yaml"
    there.write_text("before")
    with pytest.raises(FileExistsError):
        write_whole(PreparedAnswer(there, "after", 0, "", overwrites=False))
    assert there.read_text() == "before"
    # what this command has written already is no other file
    write_whole(PreparedAnswer(there, "before", 0, "", overwrites=False))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"where": ["gap_max.sex <= 0.1", "gap_max.sex >= 0.2"]}, "contradicts"),
        ({"where": ["accuracy >= 1.5"]}, "cannot be met"),
        ({"where": ["nonsense <= 1"]}, "nonsense"),
        ({"where": ["accuracy"]}, "not of the form"),
        ({"maximize": ["gap_max.sex"]}, "lower is better"),
    ],
)
def test_what_cannot_be_asked_is_said_early(given: dict[str, Any], words: str) -> None:
    check_what_is_asked({"where": None, "maximize": None, "minimize": []})
    with pytest.raises(InputError, match=words) as caught:
        check_what_is_asked(given)
    assert "\n" not in str(caught.value)


def test_an_interrupt_before_the_search_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An exception would be swallowed by libraries that are imported then."""
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    try:
        end_at_interrupts(as_json=True)
        for number in INTERRUPTS:
            signal.raise_signal(number)
        raise_at_interrupts()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert codes == [4, 4]
    captured = capfd.readouterr()
    assert captured.out == '{"error": "interrupted: run again."}\n' * 2
    assert captured.err == "evenhand: interrupted: run again.\n" * 2


def test_unknown_metrics_are_refused_without_a_model() -> None:
    fault = check_aim("german-gbdt", ['tune.where=["gap_max.nobody <= 0.1"]'])
    assert fault is not None
    assert "names 'gap_max.nobody', no metric of this job" in fault
    assert check_aim("german-gbdt", ['tune.where=["gap_max.age <= 0.1"]']) is None
    # the plan of the search says what is wrong with the job
    assert check_aim("no-such-job") is None


def test_the_first_look_is_at_a_few_thousand_rows() -> None:
    assert {rows: first_part_of(rows) for rows in (300, 14_000, 34_000, 400_000)} == {
        300: 3,
        14_000: 9,
        34_000: 9,
        400_000: 243,
    }
