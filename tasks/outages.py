"""Outages: work that needs a service waits while the service is away."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from evenhand.tasks.errors import InputError, NotCarriedOut

WAIT_S = 300.0
PAUSE_S = 2.0

P = ParamSpec("P")
T = TypeVar("T")


class ServiceAway(NotCarriedOut):
    """A service does not answer now, which may pass; the message is a reason, a colon and a cure."""


def waits_for_service(work: Callable[P, T]) -> Callable[P, T]:
    """Repeat `work` while it raises `ServiceAway`, for at most five minutes or ``EVENHAND_WAIT`` seconds.

    `work` must look at what the service has before it writes: an answer may have been lost. The first
    repetition is silent; then one line says that it waits. Raises `NotCarriedOut` after the limit.
    """

    @wraps(work)
    def repeated(*arguments: P.args, **options: P.kwargs) -> T:
        failures, since, limit = 0, 0.0, _limit()
        while True:
            try:
                return work(*arguments, **options)
            except ServiceAway as error:
                failures, since = failures + 1, since or time.monotonic()
                if time.monotonic() - since >= limit:
                    raise NotCarriedOut(str(error)) from None
                if failures == 2:
                    reason = str(error).rpartition(": ")[0]
                    sys.stderr.write(f"evenhand: waiting, {limit:.0f} s at most: {reason}.\n")
                time.sleep(min(PAUSE_S, limit))

    return repeated


def _limit() -> float:
    given = os.environ.get("EVENHAND_WAIT", "")
    try:
        return float(given or WAIT_S)
    except ValueError:
        raise InputError(f"EVENHAND_WAIT is {given!r}: write a number of seconds.") from None
