"""What ends `tune` before all of its work is done: Ctrl-C, SIGTERM, or a failure of the machine.

The answer so far is written then.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from evenhand.flows.engine import describe_fault, is_interrupt
from evenhand.flows.tune_deadline import INTERRUPTS
from evenhand.tasks.errors import EvenhandError, NotCarriedOut
from evenhand.tasks.tuning.study_document import failed_answer, interrupted_answer

T = TypeVar("T")


class Ending:
    """What ended the work of a command first, if anything did.

    After that further interrupts are ignored until :meth:`heed_interrupts`, or the end of the block
    that it is a context manager of: people press Ctrl-C twice, and the answer so far must still be
    written.

    Attributes
    ----------
    error : BaseException or None
        The interrupt, or the failure.
    written : Path or None
        The file of the answer, once it has been written.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.written: Path | None = None
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Begin the block."""
        return self

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        """Let interrupts end this process again, and let a failure name the file of the answer."""
        self.heed_interrupts()
        if self.written is None or not isinstance(error, Exception):
            return
        if not isinstance(error, EvenhandError):
            error = describe_fault(error)
        raise NotCarriedOut(failed_answer(str(error), self.written)) from None

    @contextlib.contextmanager
    def kept(self, *raised: type[BaseException]) -> Iterator[None]:
        """Keep what ends the work inside, and go on after it; errors of the classes `raised` are
        raised.
        """
        try:
            yield
        except raised:
            raise
        except BaseException as error:  # noqa: BLE001 - it is reported after the answer
            if os.environ.get("EVENHAND_LOG") and isinstance(error, Exception):
                traceback.print_exception(error)
            self.error = self.error or error
            self._ignore_interrupts()

    def finished(self, work: Callable[[], T]) -> T:
        """Do short work, and begin it anew if something ends it: it must not be lost."""
        with self.kept():
            return work()
        return work()

    @property
    def is_interrupt(self) -> bool:
        """Whether somebody ended the work, and nothing failed."""
        return self.error is not None and is_interrupt(self.error)

    def event(self) -> str:
        """Say what happened, as the subject and the verb of a sentence."""
        if self.is_interrupt:
            return "command was interrupted"
        return "command failed"

    def described(self) -> BaseException:
        """Return the interrupt, or the failure without a text that may quote a person's value."""
        assert self.error is not None, "something has ended the work"
        if self.is_interrupt or isinstance(self.error, EvenhandError):
            return self.error
        return describe_fault(self.error)

    def message(self, target: Path) -> str:
        """Say in one line what ended the command, where its answer is, and how to go on."""
        if self.is_interrupt:
            return interrupted_answer(target)
        return failed_answer(str(self.described()), target)

    def heed_interrupts(self) -> None:
        """Let interrupts end the work again: the answer has been written."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}

    def _ignore_interrupts(self) -> None:
        """Ignore both signals; only the main thread can."""
        if self._handlers or threading.current_thread() is not threading.main_thread():
            return
        for number in INTERRUPTS:
            handler = signal.getsignal(number)
            # one that was not set from Python cannot be set again
            if handler is not None:
                self._handlers[number] = signal.signal(number, signal.SIG_IGN)
