"""Lines of progress: their words, their estimate, when they are written, and where."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from evenhand.flows.commands import terminal
from evenhand.flows.commands.terminal import ProgressLines, show_progress
from evenhand.tasks.execution.step import listen, report_progress, working

NEW_STEPS_S = terminal.NEW_STEPS_S  # the fixtures of flows silence it
AT_ONCE = 0.005


class Clock:
    """A clock to set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines(clock: Clock) -> ProgressLines:
    """Lines that nothing writes: their thread is not started."""
    return ProgressLines(io.StringIO(), clock)


class Log(io.StringIO):
    """A stream that tells when a line was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def flush(self) -> None:
        self.written.set()


def test_a_counted_step_has_its_share_and_the_time_left(lines: ProgressLines, clock: Clock) -> None:
    with lines.working("profile"):
        clock.now += 7.0  # preparation, which the rate of the steps must not contain
        lines("profile", 0, 1000, {})
        clock.now += 50.0
        lines("profile", 417, 1000, {})
        # 583 of 1000 at 417 in 50 s: 69.9 s
        assert lines.line() == "profile  41 %, about 1 min 10 s left"
        clock.now += 50.0  # nothing is reported: the rate falls
        assert lines.line() == "profile  41 %, about 2 min 20 s left"


def test_a_step_that_may_end_early_has_no_time_left(lines: ProgressLines, clock: Clock) -> None:
    """A training of 10,000 steps at most that stops at 1,200 would be said to take 8 times as long."""
    with lines.working("train"):
        lines("train", 0, 10_000, {})
        clock.now += 10.0
        lines("train", 1_000, 10_000, {})
        assert lines.line() == "train  10 %, running for 10 s"


def test_the_latest_values_follow(lines: ProgressLines, clock: Clock) -> None:
    with lines.working("tune"):
        lines("tune", 1, 10, {"trials": 3})
        assert lines.line() == "tune  10 %, running for 1 s, trials 3"
        clock.now += 10.0
        lines("tune", 2, 10, {"trials": 12, "balanced_accuracy": 0.712345})
        assert (
            lines.line() == "tune  20 %, about 1 min 20 s left, trials 12, balanced_accuracy 0.7123"
        )
        lines("tune", 3, 10, {})
        assert "trials" not in lines.line()


def test_a_resumed_step_is_timed_from_its_first_report(lines: ProgressLines, clock: Clock) -> None:
    with lines.working("profile"):
        lines("profile", 80, 100, {})
        clock.now += 20.0
        assert lines.line() == "profile  80 %, running for 20 s"
        lines("profile", 90, 100, {})
        assert lines.line() == "profile  90 %, about 20 s left"
        lines("profile", 100, 100, {})
        clock.now += 41.0
        assert lines.line() == "profile  100 %, running for 1 min 1 s"


def test_a_step_without_a_count_has_its_time(lines: ProgressLines, clock: Clock) -> None:
    assert lines.line() == "evenhand  running for 1 s"
    clock.now += 30.0
    with lines.working("evaluate"):
        clock.now += 40.0
        assert lines.line() == "evaluate  running for 40 s"
        lines("evaluate", 0, 0, {})
        assert lines.line() == "evaluate  running for 40 s"
    assert lines.line() == "evenhand  running for 1 min 10 s"


def test_a_step_that_runs_again_counts_from_the_beginning(
    lines: ProgressLines, clock: Clock
) -> None:
    with lines.working("train"):
        lines("train", 5, 10, {})
    clock.now += 60.0
    with lines.working("train"):
        clock.now += 20.0
        assert lines.line() == "train  running for 20 s"


def test_steps_that_run_at_once_share_a_line(lines: ProgressLines, clock: Clock) -> None:
    lines("runs", 0, 4, {})
    clock.now += 3600.0
    lines("runs", 2, 4, {})
    with lines.working("fetch kB"), lines.working("fetch kB"):
        lines("fetch kB", 3, 9, {})
        clock.now += 125.0
        assert (
            lines.line() == "runs  50 %, about 1 h 2 min left; fetch  33 %, running for 2 min 5 s"
        )


def test_a_step_that_fails_leaves_the_line(lines: ProgressLines) -> None:
    with pytest.raises(ValueError, match="wrong"), lines.working("train"):
        raise ValueError("wrong")
    assert "train" not in lines.line()


def test_a_run_shorter_than_twenty_seconds_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "EVERY_S", 20.0)
    with show_progress(quiet=False) as listener, listen(listener), working("train"):
        assert isinstance(listener, ProgressLines)
        report_progress("train")(1, 2, {})
        (thread,) = (one for one in threading.enumerate() if one.name == "evenhand-progress")
        assert thread.daemon
    assert not thread.is_alive()
    assert capsys.readouterr() == ("", "")


def test_a_line_is_repeated_and_never_after_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "EVERY_S", AT_ONCE)
    monkeypatch.setattr(terminal, "NEW_STEPS_S", AT_ONCE)
    log = Log()
    monkeypatch.setattr(sys, "stderr", log)
    with show_progress(quiet=False) as listener, listen(listener), working("gate"):
        for _ in range(2):
            assert log.written.wait(10.0)
            log.written.clear()
    end = log.getvalue()
    # a line may come before the step begins
    assert set(end.splitlines()) - {"evenhand  running for 1 s"} <= {"gate  running for 1 s"}
    assert not log.written.wait(10 * AT_ONCE)
    assert log.getvalue() == end


def test_json_and_a_closed_stderr_have_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    with show_progress(quiet=True) as listener:
        assert listener is None
    monkeypatch.setattr(sys, "stderr", None)
    with show_progress(quiet=False) as listener:
        assert listener is None


def test_a_pipe_that_nobody_reads_any_more_does_not_stop_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(Log):
        def write(self, text: str) -> int:
            self.written.set()
            raise BrokenPipeError

    monkeypatch.setattr(terminal, "EVERY_S", AT_ONCE)
    monkeypatch.setattr(terminal, "NEW_STEPS_S", AT_ONCE)
    broken = Broken()
    with ProgressLines(broken):  # an error of a thread would be a warning, which fails the test
        assert broken.written.wait(10.0)


@pytest.mark.flow
@pytest.mark.long  # starts Prefect's server
def test_steps_that_prefect_runs_have_lines_too(proxies: Any) -> None:
    code = (
        "from evenhand.flows.commands import terminal; from evenhand.flows.cli import main; "
        "terminal.EVERY_S = 0.01; main()"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "run",
        str(proxies.write()),
        "--store",
        str(proxies.store),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert {line.split("  ")[0] for line in done.stderr.splitlines()} >= {
        "learn_proxy",
        "measure_proxy",
    }
    assert "running for" not in done.stdout


def test_commands_that_run_nothing_do_not_import_the_bars() -> None:
    code = "import sys, evenhand.flows.commands.terminal; assert 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


def test_a_new_step_gets_a_line_before_the_next_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NEW_STEPS_S < 5.0
    monkeypatch.setattr(terminal, "NEW_STEPS_S", AT_ONCE)
    log = Log()
    monkeypatch.setattr(sys, "stderr", log)
    with show_progress(quiet=False) as listener, listen(listener):
        for step in ("ingest", "train"):
            with working(step):
                # the line of the command itself may come before
                while not any(line.startswith(step) for line in log.getvalue().splitlines()):
                    assert log.written.wait(10.0)
                    log.written.clear()
    steps = [line.split()[0] for line in log.getvalue().splitlines() if "evenhand" not in line]
    assert steps == ["ingest", "train"]
