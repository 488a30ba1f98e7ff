"""Progress of long loops: the amount done and the total, for any listener."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "shifted"]

Progress = Callable[[int, int], None]
"""``callback(done, total)``: `total` is the same in every call; `done` never falls, and ends at `total`."""


def shifted(callback: Progress | None, before: int, total: int) -> Progress | None:
    """Callback for one part of a count of `total`, after earlier parts counted `before`."""
    if callback is None:
        return None
    return lambda done, _: callback(before + done, total)
