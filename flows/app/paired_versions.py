"""The paired differences of two versions, recomputed from the predictions that the store keeps of
the runs that measured them.

A prediction is found by its evaluation: the record names the digest of the metrics, and the run
that wrote these metrics names the predictions and the held-out rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.flows.commands.report_command import indexed_runs
from evenhand.tasks.execution.store import Store

if TYPE_CHECKING:
    from evenhand.fairlib.evaluation.evaluate import MetricValue
    from evenhand.fairlib.evaluation.outcomes import Outcomes
    from evenhand.fairlib.evaluation.paired import Comparison

METRICS = "evaluate.metrics"
PREDICTIONS = "evaluate.predictions"
HELD_OUT = "preprocess.test"
CHECKED = "contract.checked"
MOST_KEPT = 64
# Recomputed values agree with the recorded ones up to rounding.
TOLERANCE = 1e-9


class NotPaired(Exception):  # noqa: N818 - says what two versions are
    """There are no paired differences; the message says why in a clause."""


@dataclass(frozen=True)
class Paired:
    """Differences of the second version from the first, on the same rows.

    - `left_out`: held-out rows of one of them alone
    """

    differences: Mapping[str, MetricValue]
    rows: int
    left_out: int
    level: float


@dataclass
class PairedDifferences:
    """Paired differences by the metrics of both evaluations, the last ones that were asked for.

    The files of a store never change, so a difference is computed once.
    """

    store: Store
    _kept: OrderedDict[tuple[str, str], Paired] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> Paired:
        """The differences of two evaluations, by the contents of their records.

        Raises `NotPaired`.
        """
        key = (str(first.get("metrics")), str(second.get("metrics")))
        with self._lock:
            paired = self._kept.pop(key, None)
            if paired is None:
                paired = paired_differences(self.store, first, second)
            self._kept[key] = paired
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return paired


def paired_differences(store: Store, first: Mapping[str, Any], second: Mapping[str, Any]) -> Paired:
    """Compute the differences of two evaluations; raises `NotPaired`."""
    if not store.is_local:
        raise NotPaired("the store is at a URL, and predictions of people stay there")
    for content in (first, second):
        if content.get("kind") != "run":
            raise NotPaired(
                "one of them was measured last by a command that keeps no predictions of people"
            )
    if first.get("judged_digest") != second.get("judged_digest"):
        raise NotPaired("they have other labels or sensitive columns")
    written = _artifacts_of_runs(store)
    artifacts = []
    for content in (first, second):
        of_run = written.get(str(content.get("metrics")))
        if of_run is None:
            raise NotPaired("this store has no run that measured one of them")
        artifacts.append(of_run)
    if digest_of_artifact(artifacts[0], CHECKED) != digest_of_artifact(artifacts[1], CHECKED):
        raise NotPaired("they were measured on different tables")
    settings = dict(first.get("settings") or {})
    sides = []
    for content, of_run in zip((first, second), artifacts, strict=True):
        sides.append(_measured(store, content, of_run))
    return _compared(sides, settings, (first, second))


def _artifacts_of_runs(store: Store) -> dict[str, Mapping[str, str]]:
    """The artifacts of each run, by the digest of the metrics that it wrote."""
    by_metrics: dict[str, Mapping[str, str]] = {}
    for entry in indexed_runs(store):
        verdict = entry["verdict"]
        artifacts = verdict.get("artifacts") if isinstance(verdict, dict) else None
        if isinstance(artifacts, dict) and METRICS in artifacts:
            by_metrics[digest_of_artifact(artifacts, METRICS)] = artifacts
    return by_metrics


def digest_of_artifact(artifacts: Mapping[str, str], name: str) -> str:
    """The digest of an artifact, which is its name."""
    return Path(artifacts.get(name, "")).name.partition(".")[0]


@dataclass(frozen=True)
class _Side:
    """The held-out rows of one version, and its decisions about them."""

    rows: Any  # positions in the checked table
    outcomes: Outcomes


def _measured(store: Store, content: Mapping[str, Any], artifacts: Mapping[str, str]) -> _Side:
    import pyarrow.parquet as pq

    from evenhand.fairlib.evaluation.outcomes import Outcomes
    from evenhand.tasks.execution.dataset import read_targets

    try:
        # the store may have been moved since the run: its own folder counts
        folder = Path(store.path("artifacts", "dataset", Path(artifacts[HELD_OUT]).name))
        file = Path(artifacts[PREDICTIONS]).name
        held_out = read_targets(folder)
        predicted = pq.read_table(store.path("artifacts", "predictions", file))
    except (KeyError, OSError, ValueError):
        raise NotPaired("the store has no predictions of one of them any more") from None
    same_rows = predicted["row"].to_pylist() == held_out.rows.tolist()
    outcome = content.get("favourable") or {}
    if not same_rows or held_out.y.max() > 1 or "code" not in outcome:
        raise NotPaired("the store keeps too little of predictions of more than two labels")
    outcomes = Outcomes(
        y_true=held_out.y,
        y_pred=predicted["prediction"].to_numpy(),
        score=predicted["probability"].to_numpy(),
        sensitive=held_out.sensitive,
        people=held_out.people,
        favourable=int(outcome["code"]),
        counts_people=held_out.counts_people,
    )
    return _Side(held_out.rows, outcomes)


def _compared(
    sides: Sequence[_Side], settings: dict[str, Any], contents: Sequence[Mapping[str, Any]]
) -> Paired:
    """Compare both on the rows that both were measured on."""
    import numpy as np

    from evenhand.fairlib.evaluation.paired import compare

    first, second = sides
    common, in_first, in_second = np.intersect1d(
        first.rows, second.rows, assume_unique=True, return_indices=True
    )
    left_out = len(first.rows) + len(second.rows) - 2 * len(common)
    if len(common) == 0:
        raise NotPaired("no row was held out of both")
    try:
        comparison = compare(
            _of_rows(second.outcomes, in_second),
            _of_rows(first.outcomes, in_first),
            **settings,
        )
    except (TypeError, ValueError):
        raise NotPaired("their held-out rows have other labels or groups") from None
    if not left_out:
        _check_recorded(comparison, contents)
    return Paired(
        comparison.differences, len(common), left_out, float(comparison.settings["level"])
    )


def _of_rows(outcomes: Outcomes, places: Any) -> Outcomes:
    from dataclasses import replace

    people = None if outcomes.people is None else outcomes.people[places]
    return replace(
        outcomes,
        y_true=outcomes.y_true[places],
        y_pred=outcomes.y_pred[places],
        score=outcomes.score[places],
        sensitive={name: groups[places] for name, groups in outcomes.sensitive.items()},
        people=people,
    )


def _check_recorded(comparison: Comparison, contents: Sequence[Mapping[str, Any]]) -> None:
    """Raise `NotPaired` where the files of the store do not give the recorded values."""
    first, second = [content.get("values") or {} for content in contents]
    for name, difference in comparison.differences.items():
        values = (first.get(name), second.get(name), difference.value)
        if not all(isinstance(value, int | float) for value in values):
            continue
        if abs(second[name] - first[name] - values[2]) > TOLERANCE:
            raise NotPaired("the predictions in the store do not give the recorded values")
