"""BuDRO on German, one difference from the printed settings at a time.

``python -m benchmarks.reproductions.german_differences`` says why the row of BuDRO at one operating
point misses the printed one: it has no class weights, a chosen threshold, and a chosen budget and
rate. Every variant is trained on the training people of ten splits, and measured on their test
people. The printed settings are measured on 40 more splits, to tell chance from a difference.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any

import numpy as np

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.protocol import inner_folds
from benchmarks.studies.judged_methods import CASES, Table, measure
from evenhand.tasks.execution.store import Store

RESULT = "papers_german"
SPLITS = 10
METRICS = ("balanced_accuracy", "consistency.status", "gap_max.age", "gap_rms.age")
# Table 4; classes have equal weight, and decisions are at one half.
PRINTED: dict[str, Any] = {
    "n_steps": 90,
    "max_depth": 4,
    "eta": 0.005,
    "reg_lambda": 1.0,
    "min_child_weight": 0.0125,
    "perturbation_budget": 1.0,
    "balance_classes": True,
    "base_score": 0.5,
    "n_iter_no_change": None,
    "neighbours": None,
}
CHOSEN_THRESHOLD = "no class weights, and a threshold chosen on a third of the training people"
VARIANTS: dict[str, dict[str, Any]] = {
    "printed settings": {},
    "no class weights": {"balance_classes": False},
    CHOSEN_THRESHOLD: {"balance_classes": False},
    "a tenth of the budget": {"perturbation_budget": 0.1},
    "ten times the rate": {"eta": 0.05},
    "250 neighbours in place of all people": {"neighbours": 250},
}
HALF = 0.5
PRINTED_SETTINGS = "printed settings"
# Splits after the ten of the printed table.
LATER = 40


def best_threshold(table: Table, settings: dict[str, Any]) -> float:
    """Return the threshold of the best balanced accuracy on held-out training people."""
    kept, out = next(inner_folds(table.train.y, table.seed))
    model, _ = table.fit("budro", settings, table.train.take(kept))
    held = table.predict("budro", model, table.train.take(out))
    shares = (np.arange(50) + 0.5) / 50
    candidates = sorted({float(value) for value in np.quantile(held.own, shares)})
    return max(
        candidates, key=lambda value: measure(held, value, table.seed)[0]["balanced_accuracy"]
    )


def measure_variant(table: Table, name: str) -> dict[str, float]:
    """Train a variant on a split's training people; return the metrics of its test people."""
    settings = PRINTED | VARIANTS[name]
    threshold = HALF
    if name == CHOSEN_THRESHOLD:
        threshold = best_threshold(table, settings)
    model, _ = table.fit("budro", settings, table.train)
    values, _ = measure(table.predict("budro", model, table.test), threshold, table.seed)
    return {metric: values[metric] for metric in METRICS}


def main(minutes: float = math.inf) -> None:
    """Measure the splits that the results lack; begin none after so many minutes."""
    code_state()
    end = time.monotonic() + 60 * minutes
    store = Store(os.environ.get("EVENHAND_STORE"))
    rows: dict[str, dict[str, list[float]]] = read_result(RESULT).get("rows", {})
    done = len(next(iter(rows.values()))[METRICS[0]]) if rows else 0
    for seed in range(done, SPLITS):
        if time.monotonic() > end:
            return
        log(f"German differences: split {seed + 1} of {SPLITS}")
        table = Table(store, CASES["German, trees"], seed)
        for name in VARIANTS:
            for metric, value in measure_variant(table, name).items():
                rows.setdefault(name, {}).setdefault(metric, []).append(value)
        origin = provenance("python -m benchmarks.reproductions.german_differences")
        is_whole = seed == SPLITS - 1
        write_result(RESULT, {**origin, "rows": rounded(rows, 4), "whole": is_whole})
    _measure_later(store, end)


def later_splits() -> dict[str, list[float]]:
    """Return what the printed settings give on the later splits, by metric."""
    later: dict[str, list[float]] = read_result(RESULT).get("later", {})
    return later


def _measure_later(store: Store, end: float) -> None:
    later = later_splits()
    for seed in range(SPLITS + len(later.get(METRICS[0], ())), SPLITS + LATER):
        if time.monotonic() > end:
            return
        log(f"German, later splits: {seed - SPLITS + 1} of {LATER}")
        table = Table(store, CASES["German, trees"], seed)
        for metric, value in measure_variant(table, PRINTED_SETTINGS).items():
            later.setdefault(metric, []).append(round(value, 4))
        write_result(RESULT, {**read_result(RESULT), "later": later})


if __name__ == "__main__":
    main()
