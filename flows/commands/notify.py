"""``evenhand notify``: bring the file that says who is told of failures to the Prefect server."""

from __future__ import annotations

import os
from pathlib import Path

from evenhand.flows.commands.terminal import one_line_errors, report_error
from evenhand.flows.runtime import prepare_environment
from evenhand.tasks.errors import InputError

__all__ = ["configure_notifications"]


def configure_notifications(path: Path) -> int:
    """Configure, say who is told now, and return the exit code."""
    with one_line_errors(interrupted="interrupted: run again.") as caught:
        prepare_environment()
        if not os.environ.get("PREFECT_API_URL"):
            raise InputError("notifications live on a Prefect server: set PREFECT_API_URL to yours.")
        from evenhand.flows.notify import configure_server, read_notifications

        wanted = read_notifications(path)
        told = configure_server(wanted)
        if told:
            print(f"told by {' and '.join(told)}: {', '.join(wanted.states)}")
        else:
            print("nobody is told: the file names neither a webhook nor an e-mail address")
    return 0 if caught.error is None else report_error(caught.error)
