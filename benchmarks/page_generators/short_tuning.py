"""The part of docs/benchmarks/tuning.md about searches of thirty seconds and two minutes, and the
files of results that it is made from: by table, split and system what was handed over in each cell.

The file has all that a later run adds to, as a checkout has no whole results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.page_generators.tuning_page import (
    BALANCED_ACCURACY,
    NAMES,
    OURS,
    SHORT,
    TOLERATED,
    Splits,
    accuracies,
    grid,
    kept,
)
from benchmarks.peers.exchange import FREE, LIMITS, cell_name, cells
from benchmarks.summaries import standard_error

PEERS = ("error_parity", "fairgbm", "fairlearn")
CELL_NAMES = [cell_name(criterion, limit) for criterion, limit in cells()]
CRITERION_OF = dict(zip(CELL_NAMES, [criterion for criterion, _ in cells()], strict=True))
# Shares are kept as whole numbers of this unit.
UNIT = 1e-4
# Tables and splits of the whole protocol, and its limits, by the seconds of a search; those that were
# not run yet are missing.
PROTOCOLS = {30.0: (13, 5, 4), 120.0: (13, 2, 2)}
# The goal: no peer is ahead by more than TOLERATED in more than this share of the cells.
MOST_BEHIND = 0.05
MOST_SHOWN = 12

Content = Mapping[str, Any]


# the file of results


def compact(content: Content) -> dict[str, Any]:
    """What is kept of whole results: a line or two for each table, split and system.

    Of each cell that is the balanced accuracy and the criterion on the test rows, in units of 1e-4;
    less one instead of the accuracy where no candidate was within the limit on validation rows.
    """
    results: dict[str, Any] = {}
    for table, splits in content["results"].items():
        results[table] = {}
        for split, entries in splits.items():
            rows: dict[str, Any] = {}
            for system, entry in entries.items():
                rows[system] = _row_of(entry)
            results[table][split] = rows
    others = {key: item for key, item in content.items() if key not in ("results", "peers")}
    return {**others, "cells": CELL_NAMES, "results": results}


def _row_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in entry:
        return {"error": str(entry["error"])[:80]}
    return {
        "candidates": entry["candidates"],
        "drawn": entry["drawn"],
        "cpu_seconds": round(entry["cpu_seconds"], 1),
        "cells": _numbers(entry["cells"]),
    }


def _numbers(found: Mapping[str, Any]) -> list[int | None]:
    """Balanced accuracy and criterion of each cell, one after another; None where it was not
    measured.
    """
    numbers: list[int | None] = []
    for cell in CELL_NAMES:
        if cell not in found:
            numbers += [None, None]
            continue
        test = found[cell]["test"]
        accuracy = _in_units(test[BALANCED_ACCURACY])
        if not found[cell]["within"]:
            accuracy = -1
        numbers += [accuracy, _in_units(test[CRITERION_OF[cell]])]
    return numbers


def _in_units(share: float | None) -> int | None:
    if share is None:
        return None
    return round(share / UNIT)


def whole_of(summary: Content) -> dict[str, Any]:
    """Make entries as a run makes them from what was kept of them."""
    results: dict[str, Any] = {}
    for table, splits in summary["results"].items():
        results[table] = {}
        for split, rows in splits.items():
            entries = {}
            for system, row in rows.items():
                entries[system] = _entry_of(row, summary["cells"])
            results[table][split] = entries
    return {**summary, "results": results}


def _entry_of(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    if "error" in row:
        return dict(row)
    return {**row, "cells": _cells_of(row["cells"], names)}


def _cells_of(numbers: Sequence[int | None], names: Sequence[str]) -> dict[str, Any]:
    found = {}
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    for cell, (accuracy, value) in zip(names, pairs, strict=True):
        if accuracy is None:
            continue
        test = {
            BALANCED_ACCURACY: accuracy * UNIT,
            CRITERION_OF[cell]: None if value is None else value * UNIT,
        }
        found[cell] = {"within": accuracy >= 0, "test": test}
    return found


# the comparison


@dataclass(frozen=True)
class Cell:
    """Ours compared with a peer in a cell: the mean difference over the splits in which both hand
    over a candidate, and its standard error; None of a single split.
    """

    table: str
    criterion: str
    limit: float
    peer: str
    splits: int
    difference: float
    error: float | None

    @property
    def verdict(self) -> str:
        """Who is ahead by more than a standard error; empty of a single split."""
        if self.error is None:
            return ""
        if abs(self.difference) <= self.error:
            return "tied"
        return "ahead" if self.difference > 0 else "behind"

    @property
    def is_far_behind(self) -> bool:
        """Whether the peer is ahead by more than is tolerated, and by more than chance."""
        return self.verdict == "behind" and self.difference < -TOLERATED


def compared(results: Mapping[str, Splits], peer: str) -> Iterator[Cell]:
    """Each cell in which ours and a peer hand over a candidate in at least one split."""
    for table, every in results.items():
        splits = {}
        for split, entries in every.items():
            if "cells" in entries.get(OURS, {}) and "cells" in entries.get(peer, {}):
                splits[split] = entries
        for criterion, limit in grid(splits):
            cell = cell_name(criterion, limit)
            pairs = zip(accuracies(splits, OURS, cell), accuracies(splits, peer, cell), strict=True)
            differences = [a - b for a, b in pairs if a is not None and b is not None]
            if not differences:
                continue
            error = standard_error(differences) if len(differences) > 1 else None
            yield Cell(table, criterion, limit, peer, len(differences), fmean(differences), error)


def means(results: Mapping[str, Splits]) -> dict[str, float]:
    """Mean balanced accuracy of each system over the tables, splits and cells in which all of them
    hand over a candidate.
    """
    systems = measured_systems(results)
    values: dict[str, list[float]] = {name: [] for name in systems}
    for every in results.values():
        splits = {}
        for split, entries in every.items():
            if all("cells" in entries.get(name, {}) for name in systems):
                splits[split] = entries
        for criterion, limit in grid(splits):
            rows = [accuracies(splits, name, cell_name(criterion, limit)) for name in systems]
            for by_system in zip(*rows, strict=True):
                if None in by_system:
                    continue
                for name, value in zip(systems, by_system, strict=True):
                    values[name].append(value or 0.0)
    return {name: fmean(found) for name, found in values.items() if found}


# the page

TITLES = {
    (30.0, "cpu"): (
        "Thirty seconds beside other tools",
        "As above with 30 CPU seconds a search.",
    ),
    (30.0, "wall"): (
        "Thirty seconds of the wall clock",
        "As above with 30 seconds of the wall clock a search: `tune` has a worker on each core, the others' libraries as many threads.",
    ),
    (120.0, "cpu"): (
        "Two minutes beside other tools",
        "As above with 120 CPU seconds a search.",
    ),
}
HEAD = """\
## {title}

{time} It is the command below with `--seconds {seconds:g}{clock} --result {result}`. A cell is a table, a criterion and a limit ({limits});
its difference is the mean, over the splits in which both hand over a candidate, of the balanced accuracy of `tune` on test rows
less that of the other tool. It is tied within one standard error over the splits. The goal: in at most 5 % of the cells another
tool is ahead by more than .01 and by more than a standard error, and `tune` is ahead of the best mean of another tool.
"""


def short_sections(summary: Content, provenance: Callable[[Any], str]) -> list[str]:
    """The counts of cells by table and tool, and the goal; nothing without results."""
    if not summary:
        return []
    results: Mapping[str, Splits] = whole_of(summary)["results"]
    every = [cell for peer in PEERS for cell in compared(results, peer)]
    seconds = float(summary.get("seconds", 30.0))
    clock = summary.get("clock", "cpu")
    is_wall = clock == "wall"
    title, time = TITLES[seconds, clock]
    # tables whose test rows were looked at when the search was changed
    seen = summary.get("seen", [])
    limits = [limit for limit in LIMITS if cell_name(CRITERION_OF[FREE], limit) in summary["cells"]]
    parts = [
        HEAD.format(
            title=title,
            time=time,
            seconds=seconds,
            clock=" --clock wall" if is_wall else "",
            result=f"tuning_{seconds:g}s{'_wall' if is_wall else ''}",
            limits=", ".join(f"{limit:g}" for limit in limits),
        ),
        _done(results, len(limits), PROTOCOLS[seconds]),
        provenance(summary),
        _commits(summary),
    ]
    parts += [
        "| table | splits | tool | cells | ahead | tied | behind | behind by more than .01 | mean difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for table in results:
        for peer in PEERS:
            rows = [cell for cell in every if (cell.table, cell.peer) == (table, peer)]
            if rows:
                name = f"{table} (seen)" if table in seen else table
                parts.append(_row(name, peer, rows))
    for peer in PEERS:
        rows = [cell for cell in every if cell.peer == peer]
        if rows:
            parts.append(_row("all", peer, rows))
    is_whole = _is_whole(results, PROTOCOLS[seconds])
    parts += ["", *_goal(results, every, is_whole=is_whole)]
    if seen:
        parts += _without_seen(seen, every)
    return [*parts, *_searches(results), ""]


def _pairs(results: Mapping[str, Splits]) -> int:
    """Pairs of table and split in which all systems that were run have handed over candidates."""
    systems = measured_systems(results)
    done = 0
    for splits in results.values():
        for entries in splits.values():
            done += all("cells" in entries.get(name, {}) for name in systems)
    return done


def _done(results: Mapping[str, Splits], limits_run: int, protocol: tuple[int, int, int]) -> str:
    systems = measured_systems(results)
    done = _pairs(results)
    tables, splits_of_each, limits = protocol
    text = (
        f"Run so far: {done} of {tables * splits_of_each} pairs of table and split, at "
        f"{min(limits_run, limits)} of {limits} limits.\n"
    )
    missing = [NAMES[name] for name in PEERS if name not in systems]
    if missing:
        text = text.rstrip() + f" Not run: {' and '.join(missing)}.\n"
    return text


def measured_systems(results: Mapping[str, Splits]) -> list[str]:
    """Return ours and the peers that were run on any table."""
    ran: set[str] = set()
    for splits in results.values():
        for entries in splits.values():
            ran.update(entries)
    return [OURS, *(name for name in PEERS if name in ran)]


def _commits(summary: Content) -> str:
    """Name the states of the code, of which a result of several runs has several."""
    return (
        f"Measured at {', '.join(summary['commits'])}: searches of `tune` that are in the file are "
        f"not repeated when the code changes. {summary.get('note', '')}".rstrip()
        + "\n"
    )


def _row(table: str, peer: str, cells: Sequence[Cell]) -> str:
    verdicts = [cell.verdict for cell in cells]
    splits = max(cell.splits for cell in cells)
    columns = [table, str(splits), NAMES[peer], str(len(cells))]
    columns += [str(verdicts.count(word)) for word in ("ahead", "tied", "behind")]
    columns.append(str(sum(cell.is_far_behind for cell in cells)))
    columns.append(_signed(fmean(cell.difference for cell in cells)))
    return f"| {' | '.join(columns)} |"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _far_behind(every: Sequence[Cell]) -> tuple[int, int]:
    """In how many cells any peer is far ahead, and of how many with a verdict."""
    by_cell: dict[tuple[str, str, float], list[Cell]] = {}
    for cell in every:
        if cell.verdict:
            by_cell.setdefault((cell.table, cell.criterion, cell.limit), []).append(cell)
    far = sum(any(cell.is_far_behind for cell in rows) for rows in by_cell.values())
    return far, len(by_cell)


def _without_seen(seen: Sequence[str], every: Sequence[Cell]) -> list[str]:
    """The same count without tables whose test rows a choice has seen."""
    far, count = _far_behind([cell for cell in every if cell.table not in seen])
    return [
        f"Of tables marked as seen, the test rows were looked at when the search was changed. Without "
        f"them another tool is ahead by more than .01 in {far} of {count} cells.\n"
    ]


def _is_whole(results: Mapping[str, Splits], protocol: tuple[int, int, int]) -> bool:
    """Whether all systems were run on all pairs of table and split."""
    tables, splits_of_each, _ = protocol
    systems = measured_systems(results)
    return len(systems) == 1 + len(PEERS) and _pairs(results) == tables * splits_of_each


def _goal(results: Mapping[str, Splits], every: Sequence[Cell], *, is_whole: bool) -> list[str]:
    """In how many cells any peer is far ahead, the means, and the worst cells; not everything may
    have been run yet.
    """
    far, count = _far_behind(every)
    parts = []
    if count:
        share = far / count
        state = "reached" if share <= MOST_BEHIND else "missed"
        if not is_whole:
            state += " so far"
        parts.append(
            f"In {far} of {count} cells ({share:.0%}) another tool is ahead by more than .01: "
            f"the goal of at most {MOST_BEHIND:.0%} is {state}."
        )
    averages = means(results)
    if averages:
        peers = {name: value for name, value in averages.items() if name != OURS}
        best = max(peers, key=lambda name: peers[name])
        parts.append(
            f"Mean balanced accuracy where all hand over a candidate: `tune` {averages[OURS]:.4f}, "
            f"the best other tool {peers[best]:.4f} ({NAMES[best]})."
        )
    shares = []
    for system in measured_systems(results):
        within, count = kept(results, system)
        if count:
            shares.append(f"{NAMES[system]} {within / count:.0%} of {count}")
    parts.append(
        f"Limits kept on test rows, where the values of validation rows decide: {', '.join(shares)}.\n"
    )
    worst = sorted((cell for cell in every if cell.is_far_behind), key=lambda cell: cell.difference)
    for cell in worst[:MOST_SHOWN]:
        name = f"{cell.table}, {SHORT[cell.criterion]} {cell.limit:g}, {NAMES[cell.peer]}"
        parts.append(f"- {name}: {_signed(cell.difference)} (standard error {cell.error:.3f})")
    return [*parts, ""]


def _searches(results: Mapping[str, Splits]) -> list[str]:
    """How many candidates were judged in how many CPU seconds, and what failed."""
    texts = []
    failed = []
    for system in (OURS, *PEERS):
        rows = []
        for table, splits in results.items():
            for split, entries in splits.items():
                entry = entries.get(system, {})
                if "error" in entry:
                    failed.append(f"- {table}, split {split}, {NAMES[system]}: {entry['error']}")
                elif "cells" in entry:
                    rows.append(entry)
        if rows:
            candidates = fmean(row["candidates"] for row in rows)
            most = max(row["cpu_seconds"] for row in rows)
            texts.append(f"{NAMES[system]} {candidates:.0f} (at most {most:.0f} s)")
    return [f"Mean number of candidates: {', '.join(texts)}.\n", *failed]
