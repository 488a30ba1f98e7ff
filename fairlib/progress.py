"""Progress of long loops: how much is done, of how much. Nothing here knows who looks at it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "shifted"]

Progress = Callable[[int, int], None]
"""``callback(done, total)``: `total` is the same in every call, and `done` never falls and ends there."""


def shifted(callback: Progress | None, before: int, total: int) -> Progress | None:
    """Callback of one part of a count of `total`, of which `before` was counted by earlier parts."""
    if callback is None:
        return None
    return lambda done, _: callback(before + done, total)
