"""The share of a table's rows that a model was trained on, from the record of its training rows.

Rows of a coarse table coincide though nobody copied one. So the share is estimated from how often
each recorded digest occurs in training: a new row finds a digest that occurs `r` times with the
probability of Good and Turing, (r + 1) N(r + 1) / n, and a training row with r N(r) / n. The
estimate counts only if the coincidences are more than those of an honest holdout, which is any
division of all rows into training and holdout: its distribution is simulated.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.data_contracts.model import Contract
from evenhand.fairlib.arrays import Float
from evenhand.tasks.registry.row_digests import (
    BITS,
    DISCRETE,
    EXACT,
    IDENTIFIED,
    KEY_FILE,
    KEY_VARIABLE,
    KEYED,
    ROUNDED,
    Digests,
    described_columns,
    join_views,
    key_name,
    keyed,
    opened_views,
    recorded_digests,
    row_digests,
    row_views,
)

# Probability that an honest holdout has a share above 0 in a view: 1 % in all.
LEVEL_EXACT = 0.004
LEVEL_OTHERS = 0.003
DRAWS = 4_000
# Digests that occur more often among training and holdout rows say nothing about copies.
MOST_COMMON = 12
# Digests that occur this often in training, or more, are counted together.
LAST_CLASS = 6
LARGEST_WEIGHT = 50.0
# added to a count of digests, so that none has probability zero
SMOOTHING = 0.25
STANDARD_ERRORS = 2.0
# A copied share of so many standard errors is found in 99 of 100 tables.
CERTAIN_ERRORS = 6.0
# A note says so where a smaller copied share could be missed.
WANTED = 0.1
OTHER_KEY = (
    f"the share of rows that the model was trained on is not known: its record needs the file "
    f"{KEY_FILE} of the store that published it, which {KEY_VARIABLE} can name"
)
COARSE = (
    "cannot tell whether the model was trained on rows of this table: so many rows are equal to "
    "others, or the table is so small, that rows copied from training are surely noticed only if "
    "they are {share:.0%} of it or more"
)
# Views of which each alone sees copied rows.
WHOLE = (IDENTIFIED, ROUNDED, DISCRETE)
Table = NDArray[np.int64]


@dataclass(frozen=True)
class ViewOverlap:
    """What one view of the rows says."""

    share: float  # the estimate
    error: float  # its standard error
    p_value: float  # of an honest holdout

    def counted(self, level: float) -> float:
        """The share, or 0 if an honest holdout could have it."""
        return self.share if self.p_value <= level else 0.0


@dataclass(frozen=True)
class TrainingOverlap:
    """The share of a table's rows that a model was trained on, None if it cannot be known."""

    share: float | None
    note: str = ""  # for people: why it is not known, or what it cannot see
    method: str = KEYED
    # A copied share from which it is noticed in 99 of 100 tables; None where it is not known.
    noticed_from: float | None = None


def needed_key(record: Mapping[str, Any]) -> str | None:
    """Name of the key that a record needs; None for the bits of an older version."""
    return record.get("key_name")


def overlap(
    table: pa.Table, contract: Contract, record: Mapping[str, Any], key: bytes | None = None
) -> TrainingOverlap:
    """Estimate the share of a table's rows that a model was trained on.

    A row that occurs several times counts each time. Rows that differ from a training row in the
    columns of one block, or in digits of numbers behind the second, count as that row.

    The share is None without rows and without the key of the record. It is also None where no row
    seems copied and a copied tenth could have been missed: a copied share is noticed in 99 of 100
    tables from ``CERTAIN_ERRORS`` standard errors of its estimate on.
    """
    if needed_key(record) is None:
        return TrainingOverlap(_overlap_of_bits(table, contract, record), method=BITS)
    if key is None or key_name(key) != needed_key(record):
        return TrainingOverlap(None, OTHER_KEY)
    views, bits = opened_views(record, key)
    held_out = join_views([row_views(table, record["rows"], contract)])
    rng = np.random.default_rng(0)
    measured = {}
    for view, packed in views.items():
        if view not in held_out:
            continue
        digests = keyed(held_out[view], view, key, bits)
        if len(digests):
            measured[view] = overlap_of_digests(recorded_digests(packed), digests, rng)
    if EXACT not in measured:
        return TrainingOverlap(None)
    # Copied rows are seen in the view that distinguishes rows best.
    error = min(result.error for result in measured.values())
    smallest = min(1.0, CERTAIN_ERRORS * error)
    share = combined(measured)
    if smallest > WANTED and share == 0.0:
        return TrainingOverlap(None, COARSE.format(share=smallest), noticed_from=smallest)
    return TrainingOverlap(share, noticed_from=smallest)


def combined(measured: Mapping[str, ViewOverlap]) -> float:
    """The share of all views together.

    A row that was changed in one block of columns is seen by the view without that block alone, so
    what such views see beyond the exact one is added.
    """
    level = LEVEL_OTHERS / max(1, len(measured) - 1)
    exact = measured[EXACT].counted(LEVEL_EXACT)
    share = exact
    for view, result in measured.items():
        excess = result.counted(level) - exact
        if view not in (EXACT, *WHOLE) and excess > STANDARD_ERRORS * result.error:
            share += excess
    for view in WHOLE:
        if view in measured:
            share = max(share, measured[view].counted(level))
    return min(1.0, share)


def overlap_of_digests(
    trained: Digests, held_out: Digests, rng: np.random.Generator
) -> ViewOverlap:
    """Estimate the share of held-out rows that are training rows, by sorted digests of both."""
    _, training_counts = np.unique(trained, return_counts=True)
    share, error = _estimate(training_counts, _occurrences(trained, held_out), len(trained))
    return ViewOverlap(share, error, _p_value(trained, held_out, rng))


def _occurrences(trained: Digests, held_out: Digests) -> Table:
    """How often the digest of each held-out row occurs in training."""
    first = np.searchsorted(trained, held_out, side="left")
    behind = np.searchsorted(trained, held_out, side="right")
    return np.asarray(behind - first, np.int64)


def _estimate(training_counts: Table, occurrences: Table, rows: int) -> tuple[float, float]:
    """Most likely share of training rows among held-out rows, and its standard error."""
    sizes = np.bincount(training_counts, minlength=LAST_CLASS + 2).astype(float)
    numbers = np.arange(LAST_CLASS)
    of_training = np.zeros(LAST_CLASS + 1)
    of_training[:-1] = numbers * sizes[:LAST_CLASS] / rows
    of_training[-1] = max(0.0, 1.0 - of_training.sum())
    of_new = np.zeros(LAST_CLASS + 1)
    of_new[:-1] = (numbers + 1) * (sizes[1 : LAST_CLASS + 1] + SMOOTHING) / rows
    of_new[-1] = max(SMOOTHING / rows, 1.0 - of_new.sum())
    of_new /= of_new.sum()
    counts = np.bincount(np.minimum(occurrences, LAST_CLASS), minlength=LAST_CLASS + 1)
    return _most_likely(counts.astype(float), of_training, of_new)


def _most_likely(counts: Float, of_training: Float, of_new: Float) -> tuple[float, float]:
    """Weight of the first of two distributions in a mixture, by expectation and maximisation."""
    total = counts.sum()
    share = 0.5
    for _ in range(500):
        mixture = share * of_training + (1.0 - share) * of_new
        updated = float((counts * share * of_training / mixture).sum() / total)
        if abs(updated - share) < 1e-7:
            break
        share = updated
    mixture = share * of_training + (1.0 - share) * of_new
    slope = (of_training - of_new) ** 2 / mixture
    information = float(total * slope.sum())
    return share, 1.0 / math.sqrt(information) if information > 0 else 1.0


def _p_value(trained: Digests, held_out: Digests, rng: np.random.Generator) -> float:
    """Probability that an honest holdout coincides with training rows as much as this one.

    Given how often each digest occurs among all rows, any division of the rows is equally likely.
    """
    digests = np.concatenate([trained, held_out])
    is_held_out = np.concatenate([np.zeros(len(trained)), np.ones(len(held_out))])
    _, places, counts = np.unique(digests, return_inverse=True, return_counts=True)
    counts_held_out = np.bincount(places, weights=is_held_out).astype(np.int64)
    frequency = np.bincount(counts, minlength=MOST_COMMON + 2).astype(float)
    weights = _weights(frequency)
    chance = len(held_out) / len(digests)
    observed_score = 0.0
    observed_rows = 0.0
    scores = np.zeros(DRAWS)
    drawn_rows = np.zeros(DRAWS)
    for count in range(1, MOST_COMMON + 1):
        number = int(frequency[count])
        if not number:
            continue
        held = np.arange(count + 1)
        score_of = held * weights[count - held]
        tally = np.bincount(counts_held_out[counts == count], minlength=count + 1)
        observed_score += float(tally @ score_of)
        observed_rows += float(tally @ held)
        drawn = rng.multinomial(number, _binomial(count, chance), size=DRAWS)
        scores += drawn @ score_of
        drawn_rows += drawn @ held
    # the number of held-out rows is fixed
    variance = drawn_rows.var()
    slope = 0.0
    if variance > 0:
        slope = float(((scores - scores.mean()) * (drawn_rows - drawn_rows.mean())).mean())
        slope /= float(variance)
    residuals = scores - slope * drawn_rows
    observed = observed_score - slope * observed_rows
    return float((1 + np.count_nonzero(residuals >= observed - 1e-9)) / (DRAWS + 1))


def _weights(frequency: Float) -> Float:
    """Score of a held-out row by how often its digest occurs in training."""
    weights = np.full(MOST_COMMON + 1, -1.0)
    for count in range(1, MOST_COMMON + 1):
        copied = count * frequency[count]
        by_chance = (count + 1) * frequency[count + 1] + 1.0
        weights[count] = min(LARGEST_WEIGHT, copied / by_chance) - 1.0
    return weights


def _binomial(count: int, chance: float) -> Float:
    """Probabilities of 0 to `count` held-out rows among so many."""
    probabilities = []
    for held in range(count + 1):
        ways = math.comb(count, held)
        probabilities.append(ways * chance**held * (1.0 - chance) ** (count - held))
    array = np.array(probabilities)
    return array / array.sum()


def _overlap_of_bits(
    table: pa.Table, contract: Contract, record: Mapping[str, Any]
) -> float | None:
    """Estimate the share by the record of an older version: a table of bits, one of each row."""
    size = record["size"]
    digests = row_digests(table, record["salt"], described_columns(contract))
    if not digests:
        return None
    numbers = np.frombuffer(b"".join(digests), dtype=">u8")[::2]
    places = (numbers % np.uint64(size)).astype(np.int64)
    bits = np.unpackbits(np.frombuffer(base64.b64decode(record["bits"]), np.uint8))[:size]
    by_chance = float(bits.mean())
    if by_chance >= 1:
        return 1.0
    return max(0.0, (float(bits[places].mean()) - by_chance) / (1.0 - by_chance))
