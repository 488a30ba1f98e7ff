"""What was measured of SenSeI and its comparators on terms that training has not seen."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.common import read_result
from benchmarks.reproductions.printed_values import Measured, measured

RESULTS = {"tweets": "unseen_terms", "templates": "unseen_terms_templates"}
COMMAND = "python -m benchmarks.studies.unseen_terms --table"
# The variation with the printed hidden width.
WIDE = "2,000 hidden units, as printed"
# Models in the order of the paper's table, and what they are called; ρ is 5 as printed.
PRINTED_MODELS = {
    "nn": "baseline",
    "project": "project",
    "sensr": "SenSR",
    "clp 5": "CLP, ρ = 5",
    "sensei 5": "SenSeI, ρ = 5",
}
FAIR_MODELS = tuple(model for model in PRINTED_MODELS if model != "nn")
# Measures of the paper's table, and what they are called.
MEASURES = {
    "balanced_accuracy": "balanced accuracy",
    "consistency.all": "consistency",
    "deviation.all": "CTF score",
    "accuracy_parity": "accuracy parity",
    "balanced_accuracy_parity": "parity of balanced accuracy",
}
HIGHER_IS_BETTER = ("balanced_accuracy", "consistency")
# Below, a model decides nearly all alike.
DEGENERATE = 0.52


@dataclass(frozen=True)
class Difference:
    """A mean difference and its standard error."""

    mean: float
    error: float


def splits_of(table: str) -> Mapping[str, Any]:
    """Return the splits of a table by seed.

    Raises
    ------
    KeyError
        If the table is not measured.
    """
    every: Mapping[str, Any] = read_result(RESULTS[table])["splits"]
    if not every:
        raise KeyError(table)
    return every


def splits(table: str) -> int:
    """Return how many splits are measured."""
    return len(splits_of(table))


def earlier(table: str) -> str:
    """Return what differs in an earlier measurement, in a sentence; empty of one by the command."""
    text: str = read_result(RESULTS[table]).get("earlier", "")
    return text


def rhos(table: str) -> list[str]:
    """Return the weights that every split has, the smallest first."""
    shared = set.intersection(*(set(split["paired"]) for split in splits_of(table).values()))
    return sorted(shared, key=float)


def values_of(table: str, model: str, measure: str) -> list[float]:
    """Return a measure of a model split by split.

    Raises
    ------
    KeyError
        If a split lacks the model or the measure.
    """
    values = []
    for split in splits_of(table).values():
        records = {record["model"]: record for record in split["models"]}
        values.append(records[model][measure])
    return values


def model_value(table: str, model: str, measure: str) -> Measured:
    """Return the mean of a measure over the splits, and its spread."""
    return measured(values_of(table, model, measure))


def difference(table: str, rho: str, name: str) -> Difference:
    """Return SenSeI less CLP at a weight, as :func:`mean_of_pairs`."""
    return mean_of_pairs([split["paired"][rho][name] for split in splits_of(table).values()])


def mean_of_pairs(pairs: Sequence[Sequence[float]]) -> Difference:
    """Return the mean difference of some splits.

    The standard error is that of the sentences of all splits, or, if it is larger, that of the
    splits' differences.

    Parameters
    ----------
    pairs
        Of each split the mean difference and its standard error, over sentences.
    """
    differences = [mean for mean, _ in pairs]
    of_sentences = math.sqrt(sum(error**2 for _, error in pairs)) / len(pairs)
    of_splits = measured(differences).error or 0.0
    return Difference(statistics.fmean(differences), max(of_sentences, of_splits))


def between(table: str, first: str, second: str, measure: str) -> Difference:
    """Return a measure of one model less that of another, paired by split."""
    pairs = zip(values_of(table, first, measure), values_of(table, second, measure), strict=True)
    value = measured([own - other for own, other in pairs])
    return Difference(value.mean, value.error or 0.0)


def sign_of(measure: str) -> float:
    """Return 1 for a measure of which more is better, else -1."""
    return 1.0 if measure.startswith(HIGHER_IS_BETTER) and "parity" not in measure else -1.0


def verdict(value: Difference, measure: str) -> str:
    """Return the words for a difference of SenSeI from a comparator.

    Parameters
    ----------
    value
        SenSeI less the comparator.
    measure
        Of which the difference is.
    """
    if abs(value.mean) <= value.error:
        return "within one standard error"
    size = f"{abs(value.mean):.3f}"
    is_better = sign_of(measure) * value.mean > 0
    return f"better by {size}" if is_better else f"worse by {size}"
