"""What the commands share with the person at the terminal: progress bars, and one line for a fault."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.flows.runtime import SERVER_START_S, prepare_prefect_home
from evenhand.flows.server import start_temporary_server
from evenhand.flows.verdict import Verdict, read_verdict
from evenhand.tasks.errors import EvenhandError, NotCarriedOut, internal_fault
from evenhand.tasks.progress import Listener
from evenhand.tasks.store import Store

__all__ = [
    "Caught",
    "one_line_errors",
    "prefect_failed",
    "progress_bars",
    "through_prefect",
    "verdict_of",
]

STEPS_KEPT = "interrupted: run again, the finished steps are kept."


@dataclass
class Caught:
    """What ended a command early; None if it came to its end."""

    error: EvenhandError | None = None


@contextlib.contextmanager
def one_line_errors(*, interrupted: str = STEPS_KEPT) -> Iterator[Caught]:
    """
    Keep what goes wrong, or an interruption, as an error of one line with its exit code.

    A command that keeps no steps says by `interrupted` what is left of it. With EVENHAND_LOG set, the
    traceback of a fault, and of an error with a cause, goes to stderr.
    """
    caught = Caught()
    try:
        yield caught
    except EvenhandError as error:
        if os.environ.get("EVENHAND_LOG") and error.__cause__ is not None:
            traceback.print_exc()
        caught.error = error
    except Exception as error:  # noqa: BLE001 - a fault of ours must not look like a refusal (exit code 1)
        if os.environ.get("EVENHAND_LOG"):
            traceback.print_exc()
        caught.error = internal_fault(error)
    except KeyboardInterrupt:
        caught.error = NotCarriedOut(interrupted)


def prefect_failed(error: Exception) -> str:
    """One line on a flow that Prefect could not carry out, with what to check."""
    reason = (str(error).splitlines() or [""])[0][:300]
    where = os.environ.get("PREFECT_API_URL")
    cure = f"is the Prefect server at {where} up?" if where else "`--direct` runs without Prefect."
    return f"the flow could not be carried out ({type(error).__name__}: {reason}): {cure}"


def quiet_console() -> None:
    """Keep Prefect's log off the terminal, unless asked for; a server still receives it."""
    if not os.environ.get("EVENHAND_LOG"):
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")


def through_prefect(
    home: Path, load: Callable[[], Callable[..., Any]], given: Sequence[Any], store: Store, run_id: str
) -> None:
    """
    Run a flow on the user's Prefect server, or on a temporary one.

    `load` imports the flow, while the server starts; it is called on what is `given`, the store and the run.
    Where it left a verdict, that tells more than Prefect's own error.
    """
    prepare_prefect_home(home)
    quiet_console()
    wait_for_server = start_temporary_server(SERVER_START_S)
    flow = load()
    wait_for_server()
    try:
        flow(*given, store.url, run_id)
    except EvenhandError:
        raise
    except Exception as error:
        if read_verdict(store, run_id) is None:
            raise NotCarriedOut(prefect_failed(error)) from error


def verdict_of(store: Store | None, run_id: str, error: EvenhandError | None) -> Verdict:
    """What a run left; one that left no verdict has failed, whatever else was said of it."""
    left = read_verdict(store, run_id) if store is not None and run_id else None
    message = str(error) if error else "the run ended without a verdict: see the log above."
    return left or Verdict(run_id, "failed", error.exit_code if error else 4, message)


@contextlib.contextmanager
def progress_bars(*, quiet: bool) -> Iterator[Listener | None]:
    """A bar on stderr for every step that takes a while, if a person is watching; nothing stays of it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from evenhand.flows.commands.bars import Bars

    with Bars() as bars:
        yield bars
