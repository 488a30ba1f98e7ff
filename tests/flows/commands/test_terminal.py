"""What a command at the terminal makes of an error: one line, an exit code, and no more unasked."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NoReturn

import pytest

from evenhand.flows.commands.terminal import one_line_errors, print_note, print_table
from evenhand.tasks.errors import GateRefused, InputError, NotCarriedOut
from evenhand.tasks.execution.store import Store


def refuse_with_a_cause() -> NoReturn:
    raise NotCarriedOut("the registry is away.") from OSError("disk-detail")


def fail_inside_a_module_of_ours() -> None:
    Store.name_of(None)  # type: ignore[arg-type]


def test_what_ends_well_leaves_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with one_line_errors() as caught:
        pass
    assert caught.error is None
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "error",
    [InputError("no such key."), NotCarriedOut("no network."), GateRefused("too few rows.", 3)],
)
def test_an_error_with_an_exit_code_is_kept_as_it_is(error: Exception) -> None:
    with one_line_errors() as caught:
        raise error
    assert caught.error is error


def test_an_internal_fault_names_the_innermost_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not quote the value."""
    monkeypatch.delenv("EVENHAND_LOG", raising=False)
    with one_line_errors() as caught:
        fail_inside_a_module_of_ours()
    assert isinstance(caught.error, NotCarriedOut)
    assert "internal fault (TypeError at tasks/execution/store.py:" in str(caught.error)
    with one_line_errors() as caught:
        raise KeyError("secret-value")
    assert "internal fault (KeyError" in str(caught.error)
    assert "secret-value" not in str(caught.error)
    assert capsys.readouterr() == ("", "")


def test_tracebacks_are_shown_on_demand_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This holds for faults and for their causes."""
    monkeypatch.delenv("EVENHAND_LOG", raising=False)
    with one_line_errors():
        refuse_with_a_cause()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("EVENHAND_LOG", "1")
    with one_line_errors():
        refuse_with_a_cause()
    assert "disk-detail" in capsys.readouterr().err
    with one_line_errors():
        raise KeyError("in detail")
    assert "in detail" in capsys.readouterr().err
    with one_line_errors():
        raise InputError("nothing behind it.")
    assert capsys.readouterr().err == ""


def test_an_interruption_says_what_is_kept() -> None:
    with one_line_errors() as caught:
        raise KeyboardInterrupt
    assert str(caught.error) == "interrupted: run again, the finished steps are kept."
    assert isinstance(caught.error, NotCarriedOut)
    with one_line_errors(interrupted="interrupted: nothing was written.") as caught:
        raise KeyboardInterrupt
    assert str(caught.error) == "interrupted: nothing was written."


def test_an_exit_that_was_asked_for_is_let_through() -> None:
    with pytest.raises(SystemExit), one_line_errors():
        raise SystemExit(3)


def test_a_signal_that_prefect_converted_is_an_interrupt() -> None:
    from prefect.exceptions import TerminationSignal

    with one_line_errors(interrupted="stopped") as caught:
        raise TerminationSignal(signal=15)
    assert caught.error is not None
    assert (caught.error.exit_code, str(caught.error)) == (4, "stopped")
    with pytest.raises(SystemExit), one_line_errors():
        raise SystemExit(3)


def test_sigterm_is_an_interrupt() -> None:
    """A process that is asked to end: one line, exit code 4."""
    code = (
        "import os, signal\n"
        "from evenhand.flows import cli\n"
        "from evenhand.flows.commands import lists_command\n"
        "lists_command.jobs = lambda as_json: os.kill(os.getpid(), signal.SIGTERM)\n"
        "cli.app(['jobs'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "evenhand: interrupted: run again.\n"


@pytest.mark.parametrize(
    ("flags", "variables", "levels"),
    [
        ([], {}, set()),
        (["--verbose"], {}, {"info"}),
        ([], {"EVENHAND_LOG": "1"}, {"info", "debug"}),
    ],
)
def test_the_log_is_shown_on_demand(
    flags: list[str], variables: dict[str, str], levels: set[str]
) -> None:
    code = (
        "import logging, sys\n"
        "from evenhand.flows import cli\n"
        "from evenhand.flows.commands import lists_command\n"
        "log = logging.getLogger('evenhand.tasks.execution.step')\n"
        "def jobs(as_json):\n"
        "    log.info('train: computed with ghp_%s', 'a1B2c3D4e5' * 4)\n"
        "    log.debug('train: no result yet')\n"
        "lists_command.jobs = jobs\n"
        f"cli.app([*{flags!r}, 'jobs'])\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "EVENHAND_LOG"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment | variables,
    )
    assert (done.returncode, done.stdout) == (0, "")
    lines = done.stderr.splitlines()
    assert {line.split()[0] for line in lines} == levels
    assert not lines or lines[0] == (
        "info    evenhand.tasks.execution.step: train: computed with ***"
    )


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\v", "\x85", "\u2028"])
def test_a_line_break_of_others_begins_no_line(
    end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever writes a record chooses its names: none of them may print a line of its own."""
    name = f"ada{end}nothing was changed"
    print_table([("who", "why"), (name, "an approval")])
    print_note(f"evenhand: a policy by {name}, counts for nothing")
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    assert len(printed.err.splitlines()) == 1
