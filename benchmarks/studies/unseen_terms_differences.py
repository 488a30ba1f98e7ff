"""What single differences do to SenSeI and CLP on unseen terms: ``python -m benchmarks.studies.unseen_terms_differences``.

The comparison of :mod:`benchmarks.studies.unseen_terms` at ρ = 5 on tweets, with one difference at
a time: a hidden width of 2,000 as printed, the range of the free directions, their number, the
budget, the search, the number of steps, the length of the vectors and the number of known terms.
``--only NAME ...`` takes some of them, ``--splits N`` more splits. Results:
``benchmarks/results/unseen_terms_differences.json``; an interrupted command goes on.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.reproductions.unseen_terms import WIDE
from benchmarks.studies.unseen_terms import (
    DIRECTIONS,
    KNOWN,
    PRINTED_RHO,
    SEARCH,
    TRAINING,
    Settings,
    Split,
    check_encoder,
    compared,
    fitted,
    judged,
    key_of,
    means,
    metric_of,
    split_of,
)
from evenhand.tasks.execution.store import Store

RESULT = "unseen_terms_differences"
TABLE = "tweets"
SPLITS = 2
ALL_TERMS = 50


@dataclass(frozen=True)
class Variation:
    """What differs from the comparison of the page.

    Attributes
    ----------
    training, search : dict
        Changed arguments of all networks, and of SenSeI.
    directions, quantile, scale
        As of :class:`benchmarks.studies.unseen_terms.Settings`.
    known
        Number of terms that training knows.
    """

    training: dict[str, Any] = field(default_factory=dict)
    search: dict[str, Any] = field(default_factory=dict)
    directions: int = DIRECTIONS
    quantile: float = 0.0
    scale: float = 1.0
    known: int = KNOWN

    @property
    def settings(self) -> Settings:
        """All settings of the models."""
        return Settings(
            training=TRAINING | self.training,
            search=SEARCH | self.search,
            directions=self.directions,
            quantile=self.quantile,
            scale=self.scale,
        )


VARIATIONS: dict[str, Variation] = {
    "free directions within the middle half of the training rows": Variation(quantile=0.25),
    "5 free directions": Variation(directions=5),
    "100 free directions": Variation(directions=100),
    "a budget of 1": Variation(search={"perturbation_budget": 1.0}),
    "no step in full space": Variation(search={"full_steps": 0}),
    "ten steps in full space": Variation(search={"full_steps": 10}),
    "300 steps of training": Variation(training={"n_steps": 300}),
    "vectors a twentieth as long, near unit length": Variation(scale=0.05),
    "all 50 terms known": Variation(known=ALL_TERMS),
    WIDE: Variation(training={"hidden": (2000,)}),
}


def measure(split: Split, variation: Variation) -> dict[str, Any]:
    """Train CLP and SenSeI with a variation, and compare them; the baseline where it differs."""
    settings = variation.settings
    metric = metric_of(split, settings)
    by_method = {}
    records = {}
    methods = [("clp", PRINTED_RHO), ("sensei", PRINTED_RHO)]
    if variation.training:
        methods.insert(0, ("nn", 0.0))
    for method, rho in methods:
        started = time.process_time()
        by_method[method] = judged(fitted(split, method, rho, settings, metric), split)
        seconds = {"seconds": time.process_time() - started}
        records[key_of(method, rho)] = rounded(means(by_method[method]) | seconds, 4)
    differences = rounded(compared(by_method["sensei"], by_method["clp"]), 4)
    return {"models": records, "paired": differences}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the variations that the results lack, all on one split before the next."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--only", nargs="*", choices=tuple(VARIATIONS), metavar="NAME")
    chosen = parser.parse_args(arguments)
    check_encoder()
    code_state()
    torch.set_num_threads(1)
    store = Store(os.environ.get("EVENHAND_STORE"))
    names = chosen.only or list(VARIATIONS)
    for seed in range(chosen.splits):
        prepared: dict[int, Split] = {}
        for name in names:
            rows = read_result(RESULT).get("rows", {})
            if str(seed) in rows.get(name, {}):
                continue
            known = VARIATIONS[name].known
            with threadpool_limits(1):
                if known not in prepared:
                    prepared[known] = split_of(store, TABLE, seed, known_count=known)
                entry = measure(prepared[known], VARIATIONS[name])
            rows.setdefault(name, {})[str(seed)] = entry
            log(f"{name}, split {seed + 1}: {entry['paired']}")
            write_rows(rows)


def write_rows(rows: Mapping[str, Any]) -> None:
    """Write the variations, in their order."""
    ordered = {name: rows[name] for name in VARIATIONS if name in rows}
    content = provenance("python -m benchmarks.studies.unseen_terms_differences")
    content |= {"rows": ordered}
    if all(len(ordered.get(name, {})) >= SPLITS for name in VARIATIONS):
        content["whole"] = True
    write_result(RESULT, content)


if __name__ == "__main__":
    main(sys.argv[1:])
