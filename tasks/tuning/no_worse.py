"""What an alternative to a model has to keep: ``balanced_accuracy by 0.005``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from evenhand.tasks.errors import InputError

# What it keeps by default.
NO_WORSE = ("balanced_accuracy by 0.005",)


def check_once(metrics: Sequence[str], key: str = "no_worse") -> None:
    """Refuse a metric that is named twice: which of both tolerances counts would be a guess."""
    for metric in metrics:
        if metrics.count(metric) > 1:
            raise InputError(f"{key} names {metric} twice: keep one of them.")


def read_no_worse(text: str, key: str = "no_worse") -> tuple[str, float]:
    """Read ``METRIC by NUMBER``; `InputError` for another form, which names the key or option.

    Examples
    --------
    >>> read_no_worse("auc by .01")
    ('auc', 0.01)
    """
    match = re.fullmatch(r"\s*(\S+)\s+by\s+(\S+)\s*", text)
    by = math.nan
    if match is not None:
        try:
            by = float(match[2])
        except ValueError:
            by = math.nan
    if match is None or not 0.0 <= by < math.inf:
        raise InputError(
            f"{key} {text!r} is not of the form METRIC by NUMBER, such as {NO_WORSE[0]!r}, with a "
            "number from 0 on."
        )
    return match[1], by
