"""What was measured of SenSeI and CLP on terms that training has not seen."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.common import read_result
from benchmarks.reproductions.printed_values import measured

RESULT = "unseen_terms"


@dataclass(frozen=True)
class Difference:
    """A mean difference and its standard error."""

    mean: float
    error: float


def _splits(table: str) -> Mapping[str, Any]:
    """The splits of a table that have a comparison.

    Raises
    ------
    KeyError
        If the table is not measured.
    """
    every: Mapping[str, Any] = read_result(RESULT)["tables"][table]
    compared = {seed: split for seed, split in every.items() if split["paired"]}
    if not compared:
        raise KeyError(table)
    return compared


def splits(table: str) -> int:
    """Return how many splits are compared."""
    return len(_splits(table))


def rhos(table: str) -> list[str]:
    """Return the weights that every split has, the smallest first."""
    shared = set.intersection(*(set(split["paired"]) for split in _splits(table).values()))
    return sorted(shared, key=float)


def difference(table: str, rho: str, name: str) -> Difference:
    """Return SenSeI less CLP at a weight.

    The standard error is that of the sentences of all splits, or, if it is larger, that of the
    splits' differences.
    """
    pairs = [split["paired"][rho][name] for split in _splits(table).values()]
    means = [mean for mean, _ in pairs]
    of_sentences = math.sqrt(sum(error**2 for _, error in pairs)) / len(pairs)
    of_splits = measured(means).error or 0.0
    return Difference(statistics.fmean(means), max(of_sentences, of_splits))
