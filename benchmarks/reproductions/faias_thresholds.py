"""FAIAS on Bank with a threshold chosen as the paper chooses those of its comparators.

``python -m benchmarks.reproductions.faias_thresholds`` trains FAIAS by the settings of ``bank-faias``
on three quarters of the training people, with and without its class weights. The threshold is one
half, or of 0, .1, …, 1 the one of the best balanced accuracy on the last quarter, as the paper does
for its comparators. Neither baselines nor proofs are made, so that a split takes two minutes; splits
are kept one by one in ``benchmarks/results/papers_faias_thresholds.json``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.reproductions.dadi_paper import split_of
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.execution import derive_seed, one_thread
from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier
from evenhand.tasks.execution.dataset import Dataset

RESULT = "papers_faias_thresholds"
JOB = "bank-faias"
ATTRIBUTE = "age_group"
SPLITS = 3
VALIDATION = 0.25
HALF = 0.5
THRESHOLDS = tuple(round(0.1 * step, 1) for step in range(11))
METRICS = ("accuracy", "balanced_accuracy", "theil_index", f"average_odds_difference.{ATTRIBUTE}")
# By name: settings that differ from the job's.
VARIANTS: dict[str, dict[str, Any]] = {"as the job": {}, "no class weights": {"class_balance": 0.0}}


def best_threshold(label: NDArray[np.int64], probability: NDArray[np.float64]) -> float:
    """Return the first of the thresholds with the best balanced accuracy."""
    scores = [balanced_accuracy_score(label, probability > value) for value in THRESHOLDS]
    return THRESHOLDS[int(np.argmax(scores))]


def measured(test: Dataset, probability: NDArray[np.float64], threshold: float) -> dict[str, float]:
    """Return the metrics of decisions at a threshold."""
    decided = (probability > threshold).astype(np.int64)
    groups = {ATTRIBUTE: test.sensitive[ATTRIBUTE]}
    found = evaluate(Outcomes(test.y, decided, decided.astype(np.float64), groups), draws=0)
    values: dict[str, float] = {}
    for name in METRICS:
        value = found.metrics[name].value
        assert value is not None, "the groups of COMPAS are large"
        values[name] = float(value)
    return values


def measure(seed: int, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Train on a split; return the metrics of its test people at both thresholds."""
    resolved, train, test = split_of(JOB, seed)
    positions = np.arange(len(train.y))
    kept, held = train_test_split(
        positions, test_size=VALIDATION, random_state=seed, stratify=train.y
    )
    learned = train.take(np.sort(kept))
    validation = train.take(np.sort(held))
    arguments = {**resolved.arguments, **changes}
    started = time.process_time()
    with one_thread():
        model = FAIASClassifier(**arguments, random_state=derive_seed(seed, "train"))
        model.fit(
            learned.X,
            learned.y,
            sensitive_features={ATTRIBUTE: learned.sensitive[ATTRIBUTE].astype(str)},
            feature_groups=dict(sorted(learned.groups.items(), key=lambda group: list(group[1]))),
        )
        on_validation = model.predict_proba(validation.X)[:, 1]
        on_test = model.predict_proba(test.X)[:, 1]
    threshold = best_threshold(validation.y, on_validation)
    return {
        "threshold": threshold,
        "half": measured(test, on_test, HALF),
        "chosen": measured(test, on_test, threshold),
        "seconds": time.process_time() - started,
    }


def main(minutes: float = math.inf) -> None:
    """Measure the splits that the results lack; begin none after so many minutes."""
    code_state()
    end = time.monotonic() + 60 * minutes
    rows: dict[str, list[dict[str, Any]]] = read_result(RESULT).get("rows", {})
    for seed in range(SPLITS):
        for name, changes in VARIANTS.items():
            found = rows.setdefault(name, [])
            if len(found) > seed:
                continue
            if time.monotonic() > end:
                return
            log(f"FAIAS on Bank, {name}: split {seed + 1} of {SPLITS}")
            found.append(rounded(measure(seed, changes), 4))
            document = provenance("python -m benchmarks.reproductions.faias_thresholds")
            document["rows"] = rows
            document["whole"] = all(len(rows.get(other, ())) >= SPLITS for other in VARIANTS)
            write_result(RESULT, document)


if __name__ == "__main__":
    main()
