"""Shared by the peers: rows, metrics, the choice of thresholds and of candidates, and the search.

A peer is a module with `draw` and `train`; :func:`run` is its command line. It runs in an
environment of its own, where the project is not installed. So this module needs NumPy alone and has
the metrics again; a test holds them against ours.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

CRITERIA = (
    "equal_opportunity_difference",
    "gap_max",
    "demographic_parity_difference",
    "consistency",
)
LIMITS = (0.02, 0.05, 0.1, 0.2)
FREE = "free"
"""The cell without a limit."""
MIN_CELL = 5
"""Metrics that need a cell with fewer rows have no value, as in our evaluation."""
UNKNOWN = 1.0
"""Shortfall of a metric without a value."""
THRESHOLD_SHARE, VALIDATION_SHARE = 0.2, 0.2
OVERRUN = 2.0
"""A candidate that is being trained when the time is up may end, until so many times the time."""

Metrics = dict[str, float | None]
Decide = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
"""``decide(X, group)``: labels, shape (n,)."""
Settings = dict[str, Any]


class TimeIsUp(BaseException):
    """The last candidate took too long. No `Exception`, so that no library catches it."""


@dataclass(frozen=True)
class Rows:
    """Encoded rows, shape (n, d), their labels and group codes, shape (n,), and what a flip
    overwrites.

    `flip_columns`, shape (k,), are the columns of the sensitive attribute, and `flip_values`, shape
    (c, k), their values for each of its groups; both are empty where the attribute is no model
    input.
    """

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    group: NDArray[np.int64]
    flip_columns: NDArray[np.int64]
    flip_values: NDArray[np.float32]

    def take(self, index: NDArray[np.int64]) -> Rows:
        """The rows at some positions."""
        return replace(self, X=self.X[index], y=self.y[index], group=self.group[index])

    @cached_property
    def copies(self) -> list[NDArray[np.float32]]:
        """The rows with every value of the attribute in turn; none where it is no model input."""
        found = [self.X.copy() for _ in self.flip_values]
        for copy, values in zip(found, self.flip_values, strict=True):
            copy[:, self.flip_columns] = values
        return found


def read_rows(path: Path) -> tuple[Rows, Rows]:
    """Read the training and the test rows of a file that benchmarks/peers/tuning_comparison.py wrote."""
    with np.load(path, allow_pickle=False) as file:
        parts = [
            Rows(
                file[f"{part}_X"],
                file[f"{part}_y"],
                file[f"{part}_group"],
                file["flip_columns"],
                file["flip_values"],
            )
            for part in PARTS
        ]
    return parts[0], parts[1]


PARTS = ("train", "test")


def write_rows(path: Path, train: Rows, test: Rows) -> None:
    """Write the file that :func:`read_rows` reads."""
    arrays = {
        f"{part}_{key}": getattr(rows, key)
        for part, rows in zip(PARTS, (train, test), strict=True)
        for key in ("X", "y", "group")
    }
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(
            file,
            allow_pickle=False,
            **arrays,
            flip_columns=train.flip_columns,
            flip_values=train.flip_values,
        )
    part.replace(path)


def split(rows: Rows, seed: int) -> tuple[Rows, Rows, Rows]:
    """Rows to train on, to choose thresholds on and to validate on, stratified by label and
    group.
    """
    rng = np.random.default_rng([seed, 60])
    part = np.zeros(len(rows.y), dtype=np.int64)
    for cell in np.unique(2 * rows.group + rows.y):
        index = rng.permutation(np.flatnonzero(2 * rows.group + rows.y == cell))
        held, validation = (
            round(len(index) * share) for share in (THRESHOLD_SHARE, VALIDATION_SHARE)
        )
        part[index[:held]] = 1
        part[index[held : held + validation]] = 2
    fit, held_rows, validation_rows = (
        rows.take(np.flatnonzero(part == number)) for number in range(3)
    )
    return fit, held_rows, validation_rows


def join(*parts: Rows) -> Rows:
    """The rows of all parts."""
    return replace(
        parts[0],
        **{
            key: np.concatenate([getattr(part, key) for part in parts])
            for key in ("X", "y", "group")
        },
    )


# metrics


def measure(rows: Rows, decide: Decide) -> Metrics:
    """Metrics of the decisions about rows; None where a cell has fewer than ``MIN_CELL`` rows.

    A flip changes the columns of the model, not the recorded group, by which some methods choose
    thresholds.
    """
    found = group_metrics(rows.y, np.asarray(decide(rows.X, rows.group)), rows.group)
    labels = [np.asarray(decide(copy, rows.group)) for copy in rows.copies]
    agree = np.all([label == labels[0] for label in labels], axis=0) if labels else None
    found["consistency"] = None if agree is None or len(agree) < MIN_CELL else float(agree.mean())
    return found


def group_metrics(y: NDArray[Any], decided: NDArray[Any], group: NDArray[Any]) -> Metrics:
    """Balanced accuracy and largest differences between groups, by the names of our catalogue."""
    k = int(group.max()) + 1
    cells = np.bincount(4 * group + 2 * y + decided.astype(np.int64), minlength=4 * k)
    counts = cells.reshape(k, 2, 2)  # group, label, decision
    by_label = counts.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = counts[:, :, 1] / by_label  # false and true positive rates
        selected = counts[:, :, 1].sum(axis=1) / by_label.sum(axis=1)
        overall = counts.sum(axis=0)
        recall = overall[:, 1] / overall.sum(axis=1)
    gaps = [_spread(rates[:, label], by_label) for label in (0, 1)]
    known_gaps = [gap for gap in gaps if gap is not None]
    return {
        "balanced_accuracy": _value((recall[1] + 1.0 - recall[0]) / 2.0, overall.sum(axis=1)),
        "equal_opportunity_difference": _spread(rates[:, 1], by_label[:, 1:]),
        "gap_max": max(known_gaps) if len(known_gaps) == len(gaps) else None,
        "demographic_parity_difference": _spread(selected, by_label.sum(axis=1, keepdims=True)),
    }


def _spread(rates: NDArray[Any], cells: NDArray[Any]) -> float | None:
    """Largest difference between the groups with enough rows in all of their cells, shape (groups,
    cells).
    """
    compared = rates[(cells >= MIN_CELL).all(axis=1)]
    return float(np.ptp(compared)) if len(compared) > 1 else None


def _value(value: Any, cells: NDArray[Any]) -> float | None:
    return float(value) if bool((cells >= MIN_CELL).all()) else None


def balanced_threshold(y: NDArray[Any], score: NDArray[Any]) -> float:
    """Score from which a decision is positive, so that the balanced accuracy on these rows is
    largest.
    """
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    positive, negative = np.cumsum(y[order])[ends], np.cumsum(1 - y[order])[ends]
    gain = np.append(0.0, positive / max(positive[-1], 1) - negative / max(negative[-1], 1))
    best = int(np.argmax(gain))
    if best == 0:
        return float("inf")
    distinct = score[order][ends]
    # halfway to the next score: new rows lie on both sides
    return float(
        distinct[best - 1] if best == len(ends) else (distinct[best - 1] + distinct[best]) / 2
    )


def scored(score: Callable[[NDArray[Any]], NDArray[Any]], held: Rows) -> Decide:
    """Decisions of a scoring model with the balanced threshold of the held rows."""
    threshold = balanced_threshold(held.y, np.asarray(score(held.X)))
    return lambda X, group: (np.asarray(score(X)) >= threshold).astype(np.int64)


def remembered(
    score: Callable[[NDArray[Any]], NDArray[Any]],
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Score every array once, for several decision rules of one model. Arrays must not be
    changed.
    """
    known: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}

    def look_up(X: NDArray[Any]) -> NDArray[Any]:
        if id(X) not in known:
            known[id(X)] = (X, score(X))  # the array is kept, so that no other gets its id
        return known[id(X)][1]

    return look_up


def boosting_settings(rng: np.random.Generator) -> Settings:
    """Draw the parameters that LightGBM and XGBoost call alike."""
    return {
        "learning_rate": float(10 ** rng.uniform(-2, -0.5)),
        "n_estimators": int(rng.integers(20, 501)),
        "reg_lambda": float(10 ** rng.uniform(-3, 1)),
        "colsample_bytree": float(rng.uniform(0.4, 1.0)),
        "random_state": int(rng.integers(2**31)),
    }


def lightgbm_settings(rng: np.random.Generator) -> Settings:
    """Draw the parameters of LightGBM."""
    own = {
        "num_leaves": int(rng.integers(2, 65)),
        "min_child_samples": int(10 ** rng.uniform(0.7, 2.3)),
    }
    return boosting_settings(rng) | own


def xgboost_settings(rng: np.random.Generator) -> Settings:
    """Draw the parameters of XGBoost."""
    own = {
        "max_depth": int(rng.integers(2, 9)),
        "min_child_weight": float(10 ** rng.uniform(-1, 2)),
    }
    return boosting_settings(rng) | own | {"subsample": float(rng.uniform(0.5, 1.0))}


def balanced_costs(y: NDArray[Any]) -> dict[str, float]:
    """Costs of false positives and false negatives with which the error is 1 less the balanced
    accuracy.
    """
    share = float(y.mean())
    return {"fp": 0.5 / (1.0 - share), "fn": 0.5 / share}


# the choice of a candidate


def shortfall(metrics: Mapping[str, float | None], criterion: str, limit: float) -> float:
    """By how much a limit is missed: a difference is at most the limit, a consistency at least 1
    less it.
    """
    value = metrics[criterion]
    if value is None:
        return UNKNOWN
    return max(0.0, (1.0 - limit) - value if criterion == "consistency" else value - limit)


def choose(
    candidates: Sequence[Mapping[str, float | None]], criterion: str, limit: float
) -> int | None:
    """Position of the candidate with the best balanced accuracy within a limit, or of the nearest.

    Ties are broken by the order. None if no candidate has both metrics.
    """
    known = [
        (shortfall(metrics, criterion, limit), -(metrics["balanced_accuracy"] or 0.0), number)
        for number, metrics in enumerate(candidates)
        if metrics["balanced_accuracy"] is not None and metrics[criterion] is not None
    ]
    return min(known)[2] if known else None


def cells(criteria: Sequence[str] = CRITERIA) -> list[tuple[str, float]]:
    """All pairs of a criterion and a limit, and last the cell without a limit."""
    pairs = [(criterion, limit) for criterion in criteria for limit in LIMITS]
    return [*pairs, ("demographic_parity_difference", UNKNOWN)]


def cell_name(criterion: str, limit: float) -> str:
    """Key of a cell."""
    return FREE if limit == UNKNOWN else f"{criterion}@{limit:g}"


# the search


@dataclass
class Clock:
    """Seconds that count as search: of the CPUs for this process and its children, or of the wall
    clock.
    """

    seconds: float
    of_wall: bool = False
    spent: float = 0.0

    def __enter__(self) -> Clock:
        self._begun = self._now()
        left = max(OVERRUN * self.seconds - self.spent, 0.01)
        self._timer = signal.ITIMER_REAL if self.of_wall else signal.ITIMER_PROF
        signal.signal(signal.SIGALRM if self.of_wall else signal.SIGPROF, _stop)
        signal.setitimer(self._timer, left)
        return self

    def __exit__(self, *error: object) -> None:
        signal.setitimer(self._timer, 0)
        self.spent += self._now() - self._begun

    def _now(self) -> float:
        return time.monotonic() if self.of_wall else cpu_seconds()


def _stop(number: int, frame: FrameType | None) -> None:
    raise TimeIsUp


def cpu_seconds() -> float:
    """CPU time of this process and of its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def threads() -> int:
    """Threads that a peer's library may use: all cores, unless the environment says fewer."""
    return int(os.environ.get("OMP_NUM_THREADS") or 0) or os.cpu_count() or 1


Train = Callable[[Settings, Rows, Rows], Iterator[tuple[Settings, Decide]]]
"""``train(settings, fit, held)``: decision rules with their own settings, of one or several models.
"""


def run(
    draw: Callable[[np.random.Generator], Settings], train: Train, *, again: bool = True
) -> None:
    """Command line of a peer: search for some seconds, and write all candidates and the chosen
    ones.

    `again` says whether the chosen candidates are trained again on more rows; see :func:`search`.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu")
    given = parser.parse_args()
    clock = Clock(given.seconds, of_wall=given.clock == "wall")
    warnings.simplefilter("ignore")  # of other people's code, thousands of times
    rows, test = read_rows(given.data)
    found = search(draw, train, rows, test, clock=clock, seed=given.seed, again=again)
    part = given.out.with_suffix(".part")
    part.write_text(json.dumps(found) + "\n")
    part.replace(given.out)


def search(
    draw: Callable[[np.random.Generator], Settings],
    train: Train,
    rows: Rows,
    test: Rows,
    *,
    clock: Clock,
    seed: int,
    again: bool = True,
) -> dict[str, Any]:
    """Train random settings until the clock's time is spent, and with `again` the chosen candidates
    on more rows.

    The time is that of training, of choosing thresholds and of validation. What a candidate does on
    the test rows is measured off the clock, as are the last trainings: their fit rows are those of
    the search and the validation rows. No choice sees the test rows.
    """
    rng = np.random.default_rng([seed, 1])
    fit, held, validation = split(rows, seed)
    drawn = 0
    candidates: list[dict[str, Any]] = []
    errors: Counter[str] = Counter()
    try:
        while clock.spent < clock.seconds:
            settings = draw(rng)
            drawn += 1
            with clock:
                try:
                    found = [
                        (own, decide, measure(validation, decide))
                        for own, decide in train(settings, fit, held)
                    ]
                except Exception as error:  # noqa: BLE001 - a failed candidate is counted, and the search goes on
                    errors[f"{type(error).__name__}: {error}"] += 1
                    continue
            candidates += [
                {
                    "settings": settings,
                    "rule": own,
                    "validation": metrics,
                    "test": measure(test, decide),
                }
                for own, decide, metrics in found
            ]
    except TimeIsUp:
        errors[f"stopped at {OVERRUN:g} times the time"] += 1
    return {
        "cpu_seconds": clock.spent,  # or of the wall clock
        "drawn": drawn,
        "errors": dict(errors.most_common(5)),
        "failed": errors.total(),
        "cells": chosen(candidates, train if again else None, join(fit, validation), held, test),
        "candidates": candidates,
    }


def chosen(
    candidates: list[dict[str, Any]], train: Train | None, fit: Rows, held: Rows, test: Rows
) -> dict[str, Any]:
    """By cell the chosen candidate, its test metrics, and those that count: after the last
    training.
    """
    again: dict[int, Metrics] = {}
    found = {}
    for criterion, limit in cells():
        number = choose([candidate["validation"] for candidate in candidates], criterion, limit)
        if number is None:
            continue
        candidate = candidates[number]
        if train is not None and number not in again:
            try:
                again[number] = _trained_again(candidate, train, fit, held, test)
            except Exception:  # noqa: BLE001 - the model that was validated is there
                again[number] = candidate["test"]
        found[cell_name(criterion, limit)] = {
            "candidate": number,
            "within": shortfall(candidate["validation"], criterion, limit) == 0.0,
            "validation": candidate["validation"],
            "searched": candidate["test"],
            "test": again.get(number, candidate["test"]),
        }
    return found


def _trained_again(
    candidate: dict[str, Any], train: Train, fit: Rows, held: Rows, test: Rows
) -> Metrics:
    for own, decide in train(candidate["settings"], fit, held):
        if own == candidate["rule"]:
            return measure(test, decide)
    raise RuntimeError(f"training again did not give the rule {candidate['rule']}")
