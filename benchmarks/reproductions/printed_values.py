"""The printed cells of the papers' tables and figures, and how ours compare with them.

The transcription is in ``benchmarks/reproductions/printed/PAPER.json``: items of the kinds
``results`` (cells of a value and its standard deviation), ``settings``, ``times``, ``figure``
(statements, of which one with a ``value`` is a printed number) and ``theory`` (a lemma or theorem,
which is compared with measured trees and not counted).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.fairlib.catalogue import better

PRINTED = Path(__file__).parent / "printed"
PAPERS = ("dadi", "sensei", "faias", "budro", "proxies")
# Half a unit of the third decimal: what rounding alone may change.
ROUNDING = 5e-4


@dataclass(frozen=True)
class PrintedCell:
    """A printed number, with the standard deviation over the splits where that is printed."""

    item: str
    data: str
    row: str
    metric: str
    value: float
    deviation: float | None = None


@dataclass(frozen=True)
class Measured:
    """A mean of ours and its standard deviation (n - 1) over the splits."""

    mean: float
    deviation: float
    splits: int

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None of one split."""
        return self.deviation / math.sqrt(self.splits) if self.splits > 1 else None


@dataclass(frozen=True)
class Comparison:
    """Ours minus the printed value, with the standard error of the difference, in words."""

    difference: float
    error: float | None
    words: str


def read_paper(name: str) -> dict[str, Any]:
    """Return the transcription of a paper."""
    content: dict[str, Any] = json.loads((PRINTED / f"{name}.json").read_text(encoding="utf-8"))
    return content


def measured(values: Sequence[float]) -> Measured:
    """Return mean and standard deviation of one value a split."""
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    deviation = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else 0.0
    return Measured(mean, deviation, len(values))


def compare(
    metric: str,
    value: float,
    deviation: float | None,
    printed_splits: int,
    ours: Measured,
    is_method: bool,
) -> Comparison:
    """Compare a mean of ours with a printed one.

    Parameters
    ----------
    metric
        Its direction decides what is better.
    value, deviation, printed_splits
        The printed mean, its standard deviation where printed, and over how many splits.
    ours
        Our mean.
    is_method
        True for the paper's own method. A baseline is only higher or lower.

    Returns
    -------
    Comparison
        ``error`` is the root of the sum of both squared standard errors; None without any.
    """
    difference = ours.mean - value
    squares = []
    if ours.error is not None:
        squares.append(ours.error**2)
    if deviation is not None and printed_splits > 1:
        squares.append(deviation**2 / printed_splits)
    error = math.sqrt(math.fsum(squares)) if squares else None
    return Comparison(difference, error, _words(metric, difference, error, is_method))


def _words(metric: str, difference: float, error: float | None, is_method: bool) -> str:
    size = f"{abs(difference):.3f}"
    if abs(difference) <= max(ROUNDING, error or 0.0):
        return "within one standard error" if error is not None else "equal as printed"
    if not is_method:
        return f"higher by {size}" if difference > 0 else f"lower by {size}"
    is_better = (difference > 0) == (better(metric) == "higher")
    return f"better by {size}" if is_better else f"worse by {size}"
