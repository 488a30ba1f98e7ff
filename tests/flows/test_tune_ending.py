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
    ending = Ending()
    with ending.kept():
        raise KeyboardInterrupt
    assert ending.is_interrupt
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    with ending.kept():
        raise NotCarriedOut("the disk is full.")
    assert ending.is_interrupt
    ending.heed_interrupts()
    assert signal.getsignal(signal.SIGTERM) == before
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert ending.message(TARGET).startswith("interrupted: the best so far is in people.tuned.yaml")


def test_some_errors_are_raised() -> None:
    ending = Ending()
    with pytest.raises(InputError), ending.kept(InputError):
        raise InputError("the limit is out of reach.")
    assert ending.error is None


def test_short_work_begins_anew_after_an_interrupt() -> None:
    ending = Ending()
    calls: list[int] = []

    def work() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return 7

    try:
        assert ending.finished(work) == 7
    finally:
        ending.heed_interrupts()
    assert ending.is_interrupt
    assert ending.finished(work) == 7
    assert len(calls) == 3


def test_a_failure_is_told_with_the_file_of_the_answer() -> None:
    ending = Ending()
    try:
        with ending.kept():
            raise NotCarriedOut("the worker process died.")
        assert ending.message(TARGET).startswith(
            "the worker process died: the best so far is in people.tuned.yaml; "
        )
        assert ending.event() == "command failed"
        hidden = Ending()
        with hidden.kept():
            raise KeyError("somebody's value")
        assert "somebody" not in hidden.message(TARGET)
        hidden.heed_interrupts()
    finally:
        ending.heed_interrupts()


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
