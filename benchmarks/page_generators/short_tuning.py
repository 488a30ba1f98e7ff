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
    as_difference,
    grid,
    handed_over,
    keeps,
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
# The others are made by this project.
PUBLIC = ("german", "compas", "adult", "bank", "census")
CONSISTENCY = "consistency"

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
    over a candidate that is no constant, and its standard error; None of a single split.
    """

    table: str
    criterion: str
    limit: float
    peer: str
    splits: int
    difference: float
    error: float | None
    where_kept: tuple[float, ...] = ()  # differences where both keep the limit on test rows

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
    """Each cell in which ours and a peer hand over a candidate in at least one split.

    Constants are left out: they keep every limit on groups, and say nothing of a search.
    """
    for table, every in results.items():
        for criterion, limit in grid(_measured_splits(every, peer)):
            pairs = []
            for ours, theirs in _pairs_of(every, peer, criterion, limit):
                if not _is_constant(ours, criterion) and not _is_constant(theirs, criterion):
                    pairs.append((ours, theirs))
            if not pairs:
                continue
            differences = []
            where_kept = []
            for ours, theirs in pairs:
                difference = ours[BALANCED_ACCURACY] - theirs[BALANCED_ACCURACY]
                differences.append(difference)
                values = (ours[criterion], theirs[criterion])
                if all(keeps(value, criterion, limit) for value in values):
                    where_kept.append(difference)
            error = standard_error(differences) if len(differences) > 1 else None
            mean = fmean(differences)
            kept_pairs = tuple(where_kept)
            yield Cell(table, criterion, limit, peer, len(pairs), mean, error, kept_pairs)


def constants(results: Mapping[str, Splits], peer: str) -> int:
    """Number of pairs that :func:`compared` leaves out."""
    count = 0
    for every in results.values():
        for criterion, limit in grid(_measured_splits(every, peer)):
            for ours, theirs in _pairs_of(every, peer, criterion, limit):
                count += _is_constant(ours, criterion) or _is_constant(theirs, criterion)
    return count


def _measured_splits(every: Splits, peer: str) -> dict[str, Any]:
    """The splits in which ours and a peer were measured."""
    splits = {}
    for split, entries in every.items():
        if "cells" in entries.get(OURS, {}) and "cells" in entries.get(peer, {}):
            splits[split] = entries
    return splits


def _pairs_of(
    every: Splits, peer: str, criterion: str, limit: float
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Test metrics of ours and of a peer, by split in which both hand over a candidate."""
    cell = cell_name(criterion, limit)
    splits = _measured_splits(every, peer)
    for split in splits:
        ours = handed_over(splits, split, OURS, cell)
        theirs = handed_over(splits, split, peer, cell)
        if ours is not None and theirs is not None:
            yield ours["test"], theirs["test"]


def _is_constant(test: Mapping[str, Any], criterion: str) -> bool:
    """Whether decisions are those of a constant: a balanced accuracy of one half, and no gap."""
    value = test[criterion]
    is_half = abs(test[BALANCED_ACCURACY] - 0.5) < UNIT / 2
    return is_half and value is not None and as_difference(criterion, value) < UNIT / 2


def means(results: Mapping[str, Splits]) -> dict[str, float]:
    """Mean balanced accuracy of each system over the tables, splits and cells in which all of them
    hand over a candidate that is no constant.
    """
    systems = measured_systems(results)
    values: dict[str, list[float]] = {name: [] for name in systems}
    for every in results.values():
        splits = {}
        for split, entries in every.items():
            if all("cells" in entries.get(name, {}) for name in systems):
                splits[split] = entries
        for criterion, limit in grid(splits):
            for split in splits:
                by_system = _tests_of_all(splits, split, systems, criterion, limit)
                for name, test in by_system.items():
                    values[name].append(test[BALANCED_ACCURACY])
    return {name: fmean(found) for name, found in values.items() if found}


def _tests_of_all(
    splits: Splits, split: str, systems: Sequence[str], criterion: str, limit: float
) -> dict[str, Mapping[str, Any]]:
    """Test metrics by system; empty unless all hand over a candidate that is no constant."""
    tests = {}
    for name in systems:
        found = handed_over(splits, split, name, cell_name(criterion, limit))
        if found is None or _is_constant(found["test"], criterion):
            return {}
        tests[name] = found["test"]
    return tests


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
# What a reader has to know besides, by the clock.
MORE = {
    "wall": (
        "Each of the other tools is one process: two at a time could judge up to twice as many candidates on small tables, where "
        "threads gain little."
    )
}
HEAD = """\
## {title}

{time} It is the command below with `--seconds {seconds:g}{clock} --result {result}`. A cell is a table, a criterion and a limit ({limits});
its difference is the mean, over the splits in which both hand over a candidate that is no constant, of the balanced accuracy of `tune` on
test rows less that of the other tool. It is tied within one standard error over the splits, which is no test: cells of a table share
models. The goal: in at most 5 % of the cells another tool is ahead by more than .01 and by more than a standard error, and `tune`
is ahead of the best mean of another tool. {more}
"""
# What a reader has to know of how the tools are compared; it stands once.
CONDITIONS = """
What may favour `tune`, in these sections of short searches:

- Eight of the 13 tables are made by this project, and their labels are nearly linear in the columns. The other tools search boosted
  trees alone; `tune` also logistic regression, reweighing, and whether to leave out the sensitive column, without which flip
  consistency is 1.
- Of the others' training rows 60 % fit a candidate, 20 % its thresholds, and 20 % choose among the candidates; the chosen one is trained again on
  80 % (where that fails, the first model counts), that of FairGBM is not. `tune` judges by cross-validation on all training rows, and trains its choice on all.
- Fairlearn's reductions are searched, not its `ThresholdOptimizer`; error-parity fits thresholds for every model, not for the best ones alone.
- The time is that of the search. Reading, encoding, the start of processes and the last training do not count, for any tool;
  `tune --minutes 0.5` counts them.
- An earlier state of the search missed the goal (8 of 121 cells, 7 %), and results of all tables were on this page when it was
  changed. So no table is untouched by a choice; those whose test rows were looked at are marked as seen.

What may favour the others: `tune` is asked for all criteria at once, without the limits, and trains three or five models for each candidate; the
others get the limits, and may go on up to twice the time with a model that they have begun. Cells in which another tool has no answer are
left out.
"""


def short_sections(summary: Content, provenance: Callable[[Any], str]) -> list[str]:
    """The counts of cells by table and tool, and the goal; nothing without results."""
    if not summary:
        return []
    results: Mapping[str, Splits] = whole_of(summary)["results"]
    every = _all_cells(results)
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
            more=MORE.get(clock, ""),
        ),
        *([CONDITIONS] if (seconds, clock) == (30.0, "cpu") else []),
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
    parts += ["", *_goal(results, every, PROTOCOLS[seconds])]
    parts += _parts_of_tables(results, every, seen)
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
    asked = _pairs(first_splits(results, splits_of_each))
    run = f"{limits_run} of {limits} limits"
    if limits_run > limits:
        run = f"{limits_run} limits, where {limits} are asked for"
    text = f"Run so far: {asked} of {tables * splits_of_each} pairs of table and split, at {run}.\n"
    if done > asked:
        text = text.rstrip() + f" Beyond that {done - asked} pairs of further splits.\n"
    missing = [NAMES[name] for name in PEERS if name not in systems]
    if missing:
        text = text.rstrip() + f" Not run: {' and '.join(missing)}.\n"
    return text


def first_splits(results: Mapping[str, Splits], number: int) -> dict[str, dict[str, Any]]:
    """Return the results of so many splits of each table: of those with the smallest numbers."""
    first: dict[str, dict[str, Any]] = {}
    for table, splits in results.items():
        first[table] = {}
        for split, entries in splits.items():
            if int(split) < number:
                first[table][split] = entries
    return first


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


def _parts_of_tables(
    results: Mapping[str, Splits], every: Sequence[Cell], seen: Sequence[str]
) -> list[str]:
    """The same count and differences on parts of the tables and cells."""
    chosen: dict[str, list[Cell]] = {
        "public tables": [cell for cell in every if cell.table in PUBLIC],
        "tables made by this project": [cell for cell in every if cell.table not in PUBLIC],
        "all, without flip consistency": [cell for cell in every if cell.criterion != CONSISTENCY],
    }
    if seen:
        chosen["tables not marked as seen"] = [cell for cell in every if cell.table not in seen]
    peers = [name for name in PEERS if name in measured_systems(results)]
    names = " | ".join(NAMES[peer] for peer in peers)
    parts = [
        f"| cells of | another tool ahead by more than .01 | {names} |",
        "|---|---|" + "---|" * len(peers),
    ]
    for name, rows in chosen.items():
        far, count = _far_behind(rows)
        share = f" ({far / count:.1%})" if count else ""
        columns = [name, f"{far} of {count}{share}"]
        columns += [_two_means([cell for cell in rows if cell.peer == peer]) for peer in peers]
        parts.append(f"| {' | '.join(columns)} |")
    left_out = [f"{NAMES[peer]} {constants(results, peer)}" for peer in peers]
    parts += [
        "",
        "For each tool: the mean difference, and in brackets the one over the pairs in which both keep the limit on the test rows.",
        f"Pairs left out because one of the answers is a constant: {', '.join(left_out)}.",
    ]
    if seen:
        parts.append(
            "Of tables marked as seen, the test rows were looked at when the search was changed."
        )
    return [*parts, ""]


def _two_means(cells: Sequence[Cell]) -> str:
    """Write the mean difference, and that of pairs that keep the limit."""
    if not cells:
        return ""
    where_kept = [difference for cell in cells for difference in cell.where_kept]
    text = _signed(fmean(cell.difference for cell in cells))
    if where_kept:
        text += f" ({_signed(fmean(where_kept))})"
    return text


def _is_whole(results: Mapping[str, Splits], protocol: tuple[int, int, int]) -> bool:
    """Whether all systems were run on all pairs of table and split that the protocol asks for."""
    tables, splits_of_each, _ = protocol
    systems = measured_systems(results)
    done = _pairs(first_splits(results, splits_of_each))
    return len(systems) == 1 + len(PEERS) and done == tables * splits_of_each


def _all_cells(results: Mapping[str, Splits]) -> list[Cell]:
    """Return the cells of all peers."""
    cells_of_all: list[Cell] = []
    for peer in PEERS:
        cells_of_all += compared(results, peer)
    return cells_of_all


def _goal(
    results: Mapping[str, Splits], every: Sequence[Cell], protocol: tuple[int, int, int]
) -> list[str]:
    """In how many cells any peer is far ahead, the means, and the worst cells; not everything may
    have been run yet.
    """
    _, splits_asked, _ = protocol
    far, count = _far_behind(_all_cells(first_splits(results, splits_asked)))
    parts = []
    if count:
        share = far / count
        text = f"In {far} of {count} cells ({share:.1%}) another tool is ahead by more than .01"
        if _is_whole(results, protocol):
            state = "reached" if share <= MOST_BEHIND else "missed"
            text += f": the goal of at most {MOST_BEHIND:.0%} is {state}"
        parts.append(f"{text}.")
        others = _counts_of_other_splits(results, splits_asked)
        if others:
            parts.append(f"With {', with '.join(others)}, of the tables that have them.")
        if number_of_splits(results) > splits_asked:
            parts.append("All else here is of all splits.")
    averages = means(results)
    if averages:
        peers = {name: value for name, value in averages.items() if name != OURS}
        best = max(peers, key=lambda name: peers[name])
        parts.append(
            f"Mean balanced accuracy where all hand over a candidate that is no constant: `tune` {averages[OURS]:.4f}, "
            f"the best other tool {peers[best]:.4f} ({NAMES[best]})."
        )
    shares = []
    for system in measured_systems(results):
        within, count = kept(results, system)
        if count:
            shares.append(f"{_name(system)} {within / count:.1%} of {count}")
    parts.append(
        f"Limits kept on test rows, where the values of validation rows decide: {', '.join(shares)}.\n"
    )
    worst = sorted((cell for cell in every if cell.is_far_behind), key=lambda cell: cell.difference)
    for cell in worst[:MOST_SHOWN]:
        name = f"{cell.table}, {SHORT[cell.criterion]} {cell.limit:g}, {NAMES[cell.peer]}"
        parts.append(f"- {name}: {_signed(cell.difference)} (standard error {cell.error:.3f})")
    return [*parts, ""]


def number_of_splits(results: Mapping[str, Splits]) -> int:
    """Return the number of splits of the table that has most."""
    return max((int(split) + 1 for splits in results.values() for split in splits), default=0)


def _counts_of_other_splits(results: Mapping[str, Splits], asked: int) -> list[str]:
    """The same count with fewer or more splits than the protocol asks for, from two on."""
    counts = []
    for number in range(2, number_of_splits(results) + 1):
        if number == asked:
            continue
        far, count = _far_behind(_all_cells(first_splits(results, number)))
        text = f"the first {number} splits it is {far} of {count}"
        if count:
            text += f" ({far / count:.1%})"
        counts.append(text)
    return counts


def _name(system: str) -> str:
    return "`tune`" if system == OURS else NAMES[system]


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
                    failed.append(f"- {table}, split {split}, {_name(system)}: {entry['error']}")
                elif "cells" in entry:
                    rows.append(entry)
        if rows:
            candidates = fmean(row["candidates"] for row in rows)
            drawn = fmean(row["drawn"] for row in rows)
            most = max(row["cpu_seconds"] for row in rows)
            texts.append(
                f"{_name(system)} {candidates:.0f} of {drawn:.0f} settings (at most {most:.0f} s)"
            )
    text = ", ".join(texts)
    return [f"Candidates on average, each a setting under a rule of decisions: {text}.\n", *failed]
