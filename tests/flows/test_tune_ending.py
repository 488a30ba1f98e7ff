"""What ends a command of tune before its work is done, and the answer that is left then."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from evenhand.flows.tune_ending import Ending
from evenhand.tasks.errors import InputError, NotCarriedOut

TARGET = Path("people.tuned.yaml")


def test_the_first_end_is_kept_and_the_next_signal_ignored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Ending() as ending:
        with ending.kept():
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        with ending.kept():
            raise NotCarriedOut("the disk is full.")
        assert ending.is_interrupt
    assert signal.getsignal(signal.SIGTERM) == before
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert ending.message(TARGET).startswith("interrupted: the best so far is in people.tuned.yaml")


def test_signals_are_heeded_again_after_an_error() -> None:
    before = signal.getsignal(signal.SIGTERM)
    ending = Ending()

    def work() -> None:
        with ending, ending.kept(InputError):
            with ending.kept():
                raise KeyboardInterrupt
            raise InputError("the limit is out of reach.")

    with pytest.raises(InputError):
        work()
    assert signal.getsignal(signal.SIGTERM) == before
    assert ending.is_interrupt


def test_short_work_begins_anew_after_an_interrupt() -> None:
    calls: list[int] = []

    def work() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return 7

    with Ending() as ending:
        assert ending.finished(work) == 7
        assert ending.is_interrupt
        assert ending.finished(work) == 7
    assert len(calls) == 3


def test_a_failure_is_told_with_the_file_of_the_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ending() as ending, ending.kept():
        raise InputError("there are no test rows.")
    assert ending.message(TARGET).startswith(
        "there are no test rows: the best so far is in people.tuned.yaml; "
    )
    assert ending.event() == "command failed"
    with Ending() as hidden, hidden.kept():
        raise KeyError("somebody's value")
    assert "somebody" not in hidden.message(TARGET)
    assert "somebody" not in str(hidden.described())
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("EVENHAND_LOG", "1")
    with Ending() as logged, logged.kept():
        raise KeyError("a value")
    assert "Traceback" in capsys.readouterr().err


def test_a_failure_after_the_answer_names_its_file() -> None:
    ending = Ending()
    ending.written = TARGET
    with (
        pytest.raises(NotCarriedOut, match=r"full: the best so far is in people\.tuned\.yaml"),
        ending,
    ):
        raise NotCarriedOut("the disk is full.")
    with pytest.raises(KeyError), Ending():
        raise KeyError("before the answer")


def test_another_thread_leaves_the_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    ending = Ending()

    def work() -> None:
        with ending.kept():
            raise NotCarriedOut("no.")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ending.error is not None
    assert signal.getsignal(signal.SIGINT) == before
