"""What the record of training rows finds, and what an attacker learns from all versions of it.

    python -m benchmarks.studies.training_overlap [--tables 120] [--output training_overlap]

**Copies**: training and holdout tables are drawn from worlds in which a given share of honest
holdout rows is equal to a training row. Each holdout is judged as it is, and with a tenth of its
rows replaced by training rows. A miss is silent if no note says that the table is too coarse.

**Versions**: a table grows by 5 % from one version to the next. An attacker knows whole rows of
people, and the records of 12 versions, and computes how many of them contain a person's row, by the
public formula of older versions and without the key of the present ones.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from typing import Any

import numpy as np

from benchmarks.common import provenance, write_result
from evenhand.tasks.registry.row_digests import (
    EXACT,
    keyed,
    opened_views,
    record_of,
    recorded_digests,
)
from evenhand.tasks.registry.row_overlap import (
    CERTAIN_ERRORS,
    LEVEL_EXACT,
    WANTED,
    overlap_of_digests,
)

NAME = "training_overlap"
COINCIDENCES = (0.0, 0.25, 0.55, 0.8)
SIZES = ((800, 200), (4000, 1000), (20_000, 5000))
LIMIT = 0.05
COPIED = 0.1
VERSIONS = 12
GROWTH = 1.05
Cell = dict[str, Any]


def drawn_rows(coincidence: float, trained: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of a world in which an honest row is among the training rows with this probability.

    Categories are not equally frequent: the logarithm of a frequency has a spread of one.
    """
    if coincidence == 0:
        return rng.integers(0, 1 << 60, n).astype(np.uint64)
    # a spread of frequencies needs more categories for the same coincidence
    categories = max(2, int(1.9 * trained / -math.log1p(-coincidence)))
    frequency = np.exp(np.random.default_rng(categories).normal(size=categories))
    drawn = rng.choice(categories, n, p=frequency / frequency.sum())
    return np.asarray(drawn, np.uint64)


def copies(
    coincidence: float, trained: int, held_out: int, tables: int, rng: np.random.Generator
) -> Cell:
    """Judge honest holdouts, and holdouts with a copied tenth."""
    refused = 0
    missed = 0
    silent = 0
    equal = 0.0
    shares = []
    for _ in range(tables):
        training = np.sort(drawn_rows(coincidence, trained, trained, rng))
        honest = drawn_rows(coincidence, trained, held_out, rng)
        equal += float(np.isin(honest, training).mean())
        result = overlap_of_digests(training, np.sort(honest), rng)
        refused += result.counted(LEVEL_EXACT) > LIMIT
        copied = int(COPIED * held_out)
        mixed = np.concatenate([honest[copied:], rng.choice(training, copied, replace=False)])
        result = overlap_of_digests(training, np.sort(mixed), rng)
        shares.append(result.share)
        if result.counted(LEVEL_EXACT) <= LIMIT:
            missed += 1
            silent += CERTAIN_ERRORS * result.error <= WANTED
    return {
        "training_rows": trained,
        "holdout_rows": held_out,
        "equal_rows": equal / tables,
        "false_refusals": refused / tables,
        "tenth_found": 1 - missed / tables,
        "silent_misses": silent / tables,
        "mean_estimate_of_tenth": float(np.mean(shares)),
    }


def attacked_versions(rows: int, people: int, rng: np.random.Generator) -> Cell:
    """Count for members and others in how many versions' records their row is, by each formula."""
    largest = int(rows * GROWTH ** (VERSIONS - 1)) + 1
    table = rng.integers(0, 1 << 62, largest).astype(np.uint64)
    strangers = rng.integers(0, 1 << 62, people).astype(np.uint64)
    members = table[:people]
    joined = table[-people // 10 :]
    key = rng.bytes(32)
    left_bits = np.ones(people, bool)
    counts = {"members": np.zeros(people), "joined": np.zeros(len(joined))}
    counts["strangers"] = np.zeros(people)
    candidates = {"members": members, "joined": joined, "strangers": strangers}
    guess = hashlib.sha256(b"a guess").digest()
    for version in range(VERSIONS):
        trained = table[: int(rows * GROWTH**version)]
        size = math.ceil(len(trained) / math.log(2))
        table_bits = np.zeros(size, bool)
        table_bits[trained % np.uint64(size)] = True
        left_bits &= table_bits[strangers % np.uint64(size)]
        record = record_of({EXACT: trained}, len(trained), key)
        # without the seal: the digests themselves are attacked
        views, bits = opened_views(record, key)
        digests = recorded_digests(views[EXACT])
        for name, values in candidates.items():
            for place, value in enumerate(values):
                guessed = keyed(np.array([value]), EXACT, guess, bits)
                counts[name][place] += bool(np.isin(guessed, digests)[0])
    most_likely = counts["strangers"] >= np.median(counts["members"])
    return {
        "versions": VERSIONS,
        "rows": rows,
        "strangers": people,
        "strangers_left_by_bits": float(left_bits.mean()),
        "strangers_left_without_key": float(most_likely.mean()),
        "auc_without_key": _auc(counts["members"], counts["strangers"]),
        "auc_of_joined_without_key": _auc(counts["joined"], counts["strangers"]),
    }


def _auc(positive: np.ndarray, negative: np.ndarray) -> float:
    """Probability that a positive has the larger value; ties count half."""
    larger = (positive[:, None] > negative[None, :]).mean()
    equal = (positive[:, None] == negative[None, :]).mean()
    return float(larger + equal / 2)


def main() -> None:
    """Simulate, print a line a cell, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=120, help="tables of a cell")
    parser.add_argument("--output", default=NAME, help="name of the file of results")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    cells = []
    for coincidence in COINCIDENCES:
        for trained, held_out in SIZES:
            cell = copies(coincidence, trained, held_out, arguments.tables, rng)
            cells.append(cell)
            print(
                f"{trained:6} and {held_out:5} rows, {cell['equal_rows']:.0%} equal: "
                f"{cell['false_refusals']:.1%} refused, a tenth found in {cell['tenth_found']:.1%}, "
                f"silently missed in {cell['silent_misses']:.1%}",
                flush=True,
            )
    attack = attacked_versions(2000, 1000, rng)
    print(attack)
    command = f"python -m benchmarks.studies.training_overlap --tables {arguments.tables}"
    settings = {"limit": LIMIT, "copied": COPIED, "tables": arguments.tables}
    content = {**provenance(command), "settings": settings, "copies": cells, "versions": attack}
    write_result(arguments.output, content)


if __name__ == "__main__":
    main()
