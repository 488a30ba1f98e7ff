"""Measure the rows of the papers' tables, and keep what was measured split by split.

``benchmarks/results/papers_PAPER.json`` has ``rows`` by key, each with the name of its origin, and the
``origins``: command, commit, machine and versions. A row without ``changes`` is restored from an
earlier commit. Its new measurement, and that of a whole row that is measured once more, is among
``begun`` until it has as many splits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.common import provenance, read_result, run_unpublished, write_result
from benchmarks.reproductions.paper_rows import ROWS, PaperRow
from benchmarks.reproductions.printed_values import Measured, measured
from evenhand.tasks.execution.store import Store

# What the papers print of a run, and what the figures of FAIAS have besides.
PRINTED_KINDS = ("accuracy", "balanced_accuracy", "consistency", "gap_max", "gap_rms")
FAIAS_KINDS = (
    *("theil_index", "equal_opportunity_difference", "average_odds_difference"),
    "balanced_accuracy_difference",
)
KINDS = PRINTED_KINDS + FAIAS_KINDS
CONTROLS = ("plain", "blind")
# No intervals, no proofs, and the shortest search for certificates: no paper prints any.
SHORT_EVALUATION = ("evaluate.draws=0", "evaluate.certified_people=20", "evaluate.proof_parts=none")
# By method: a training so short that it only shows that the row runs.
QUICK = {
    "faias": "method.n_epochs=1",
    "adversarial-debiasing": "method.n_epochs=1",
    "logistic": "evaluate.draws=0",
    "reweigh-logistic": "evaluate.draws=0",
}
QUICK_OTHERWISE = "method.n_steps=2"
DIGITS = 4
# The splits of the rows in ``tables.json``.
SHIPPED_SPLITS = 10
# The paper whose table has baselines that another paper's table prints, too.
SHARED = "budro"


def result_name(paper: str) -> str:
    """Return the name of a paper's file of results."""
    return f"papers_{paper}"


def stored(paper: str) -> dict[str, Any]:
    """Return the results of a paper; empty before the first."""
    return {"origins": {}, "rows": {}, "begun": {}} | read_result(result_name(paper))


def home_of(paper: str, row: PaperRow) -> str:
    """Return the paper in whose results a row is: a baseline of two papers is measured once."""
    if row.key in stored(paper)["rows"]:
        return paper
    for other in ROWS[SHARED]:
        if (other.key, other.job, other.changes) == (row.key, row.job, row.changes):
            return SHARED
    return paper


def entry_of(paper: str, row: PaperRow) -> Mapping[str, Any] | None:
    """Return the measured row; rows that equal a shipped job may stand in ``tables.json``."""
    entry: Mapping[str, Any] | None = stored(home_of(paper, row))["rows"].get(row.key)
    if entry is not None:
        return entry
    tables = read_result("tables").get("rows", {})
    if not row.changes and row.job in tables:
        return {"means": tables[row.job]["ours"], "splits": SHIPPED_SPLITS, "origin": "tables"}
    return None


def is_restored(entry: Mapping[str, Any]) -> bool:
    """Whether a row is from an earlier commit, which did not keep its changes."""
    return "changes" not in entry


def splits_done(paper: str, row: PaperRow, *, is_again: bool = False) -> int:
    """Return how many splits of a row need not be measured.

    Parameters
    ----------
    paper, row
        The row.
    is_again
        True: a restored row counts for nothing.

    Returns
    -------
    int
        Those measured with its present changes. A restored row counts if it has all its splits:
        single ones cannot be added to it.
    """
    entry = entry_of(paper, row) or {}
    splits: int = entry.get("splits", 0)
    if entry and is_restored(entry):
        if splits >= row.splits and not is_again:
            return splits
        entry = stored(home_of(paper, row))["begun"].get(row.key, {})
        splits = entry.get("splits", 0)
    return splits if entry.get("changes") == list(row.changes) else 0


def splits_anew(paper: str, row: PaperRow) -> int:
    """Return how many splits of a row's next measurement there are; of one that goes on, its own."""
    if not _is_whole(entry_of(paper, row), row):
        return splits_done(paper, row, is_again=True)
    begun = stored(home_of(paper, row))["begun"].get(row.key, {})
    splits: int = begun.get("splits", 0)
    return splits if begun.get("changes") == list(row.changes) else 0


def _is_whole(entry: Mapping[str, Any] | None, row: PaperRow) -> bool:
    return entry is not None and entry["splits"] >= row.splits


def measure_split(
    store: Store, row: PaperRow, seed: int, *, is_quick: bool = False
) -> dict[str, dict[str, float]]:
    """Run a row on one split by the steps of ``evenhand run``.

    Parameters
    ----------
    store
        Where the runs are kept.
    row
        The row.
    seed
        The split.
    is_quick
        True: a training of a few steps, which only shows that the row runs.

    Returns
    -------
    dict
        ``method``, ``plain`` and ``blind``: the values of each by metric. ``seconds``: of the
        training.
    """
    changes = [f"seed={seed}", *SHORT_EVALUATION, *row.changes]
    if is_quick:
        changes.append(quick_change(row))
    _, run = run_unpublished(store, row.job, changes)
    values = {"method": _values(run.read("evaluate", "metrics")["metrics"])}
    controls = run.read("evaluate", "controls")["controls"]
    for name in CONTROLS:
        if name in controls:
            values[name] = _values(controls[name]["metrics"])
    return values


def quick_change(row: PaperRow) -> str:
    """Return the option that makes the training of a row so short that it only shows that it runs."""
    method = row.job.partition("-")[2]
    for change in row.changes:
        key, _, value = change.partition("=")
        if key in ("method", "method.name"):
            method = value
    return QUICK.get(method, QUICK_OTHERWISE)


def _values(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that papers print; a control has numbers, a method has them with intervals."""
    values = {}
    for name, content in metrics.items():
        value = content["value"] if isinstance(content, dict) else content
        if value is not None:
            values[name] = round(float(value), DIGITS)
    return _of_kinds(values, KINDS)


def _of_kinds(values: Mapping[str, float], kinds: Sequence[str]) -> dict[str, float]:
    """The values of some kinds of metrics; the part of a name behind the point is an attribute."""
    return {name: value for name, value in values.items() if name.partition(".")[0] in kinds}


def add_split(
    paper: str,
    row: PaperRow,
    values: Mapping[str, Mapping[str, float]],
    *,
    is_anew: bool = False,
) -> None:
    """Add one more split of a row to the results.

    A row that was measured with other changes begins anew. So does a restored one, and with
    ``is_anew`` a whole one, which stay until the new one has as many splits.
    """
    earlier = entry_of(paper, row) or {"splits": 0, "changes": []}
    home = home_of(paper, row)
    content = stored(home)
    stays = is_restored(earlier) or (is_anew and _is_whole(earlier, row))
    place = "begun" if stays else "rows"
    entry = content[place].get(row.key, {})
    if entry.get("changes") != list(row.changes):
        entry = {"changes": list(row.changes), "splits": 0}
    kinds = KINDS if home == "faias" else PRINTED_KINDS
    _append(entry, {who: _of_kinds(metrics, kinds) for who, metrics in values.items()})
    origin = provenance(f"python -m benchmarks.reproductions.papers {home}")
    name = f"{str(origin['git_commit'])[:8]} {origin['measured'][:10]}"
    content["origins"].setdefault(name, origin)
    entry["origin"] = name
    if entry["splits"] >= earlier["splits"]:
        content["begun"].pop(row.key, None)
        place = "rows"
    content[place][row.key] = entry
    if not content["begun"]:
        del content["begun"]
    write_result(result_name(home), content)


def _append(entry: dict[str, Any], values: Mapping[str, Mapping[str, float]]) -> None:
    """Add a split's values to a row: of the method each, of the controls in the mean."""
    earlier_splits = entry["splits"]
    columns = entry.setdefault("method", {})
    for metric, value in values["method"].items():
        columns.setdefault(metric, []).append(value)
    for control in CONTROLS:
        if control in values:
            means = entry.setdefault(control, {})
            for metric, value in values[control].items():
                total = means.get(metric, 0.0) * earlier_splits + value
                means[metric] = round(total / (earlier_splits + 1), DIGITS)
    entry["splits"] = earlier_splits + 1


def measured_row(entry: Mapping[str, Any], metric: str, who: str = "method") -> Measured | None:
    """Return a metric's mean and spread over the splits of a stored row; None without it.

    Parameters
    ----------
    entry
        A row of the results: values by split, or the means and standard deviations (divided by
        n) of earlier results.
    metric
        Its name.
    who
        ``method``, or a control, which has no spread.
    """
    if who != "method":
        value = entry.get(who, {}).get(metric)
        return None if value is None else Measured(value, 0.0, 1)
    if metric in entry.get("method", {}):
        return measured(entry["method"][metric])
    if metric not in entry.get("means", {}):
        return None
    mean, deviation = entry["means"][metric]
    splits = entry["splits"]
    if deviation is None:
        return Measured(mean, 0.0, 1)
    return Measured(mean, deviation * math.sqrt(splits / (splits - 1)), splits)
