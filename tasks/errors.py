"""What can go wrong in a run, by what the caller can do about it."""

from __future__ import annotations

__all__ = ["EvenhandError", "GateRefused", "InputError", "NotCarriedOut"]


class EvenhandError(Exception):
    """Base of the errors with an exit code of their own; the message is one line that names the cure."""

    exit_code = 4


class InputError(EvenhandError, ValueError):
    """The job, the data or the contract is wrong (exit code 2)."""

    exit_code = 2


class NotCarriedOut(EvenhandError, RuntimeError):
    """The world did not play along: network, disk, registry (exit code 4)."""

    exit_code = 4


class GateRefused(EvenhandError):
    """The gates refused the model (exit code 1) or lack evidence (exit code 3)."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
