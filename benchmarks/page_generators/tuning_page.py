"""The part of docs/benchmarks.md about `evenhand tune` beside searches with other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from benchmarks.peers.exchange import CRITERIA, FREE, LIMITS, cell_name
from tests.oracles.resampled_comparison import corrected_t_test

OURS, BY_INTERVAL, BY_PREDICTION = (
    "evenhand",
    "evenhand, by the interval",
    "evenhand, by the prediction",
)
BY_DEFAULT = "evenhand, by the default"
# entries of other choices from our search
CELLS = {BY_INTERVAL: "cells_interval", BY_PREDICTION: "cells_prediction", BY_DEFAULT: "cells_auto"}
NAMES = {
    OURS: "`tune`, the limit on the value",
    BY_INTERVAL: "`tune`, the limit on the interval",
    BY_PREDICTION: "`tune`, the limit on the prediction",
    BY_DEFAULT: "`tune`, its default",
    "fairgbm": "FairGBM",
    "error_parity": "error-parity (unprocessing)",
    "fairlearn": "Fairlearn's reductions",
    "aequitas": "Aequitas' flow",
    "aif360": "AIF360's reweighing",
}
SHORT = {
    "equal_opportunity_difference": "equal opportunity",
    "gap_max": "equalized odds",
    "demographic_parity_difference": "demographic parity",
    "consistency": "flip consistency",
}
# Test rows over training rows, of the corrected resampled t-test.
RATIO, LEVEL = 0.25, 0.05
TOLERATED = 0.01
MOST_SHOWN = 12
BALANCED_ACCURACY = "balanced_accuracy"

HEAD = """\
## Tuning compared with other tools

`evenhand tune` and random searches with other tools, each with the same CPU time and one thread, on the same
rows and splits; `benchmarks/peers/tuning_comparison.py` says how each tool is used. For each criterion and limit, a system
hands over the candidate with the best balanced accuracy among those within the limit on validation rows.
Numbers are of test rows, which no choice of a search saw.

- Candidates: median number in a search. Volume: mean hypervolume of the test points handed over at the
  limits and without one, from balanced accuracy .5 and a criterion of 1; of consistency, 1 less its value.
- Kept: share of the candidates within the limit on validation rows that are within it on test rows.
- Difference: mean balanced accuracy of `tune` with the limit on the value, less that of the other, over the
  splits of a cell in which both hand over a candidate; the mean of all cells, and the worst cell. Alone:
  splits of cells in which only `tune` / only the other hands one over.
- Ahead, tied, behind: cells by the 95 % interval of the corrected resampled t-test, or by who hands over a
  candidate where in most splits only one does.
"""

Content = Mapping[str, Any]
Splits = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Compared:
    """A cell of a table, ours beside a peer; `difference` is the mean over splits in which both are
    within.

    `verdict` is "ahead", "tied" or "behind", or "" where there is no test.
    """

    table: str
    criterion: str
    limit: float
    peer: str
    difference: float | None
    verdict: str
    only_ours: int
    only_peer: int


def handed_over(splits: Splits, split: str, system: str, cell: str) -> Mapping[str, Any] | None:
    """What a system hands over; None without a candidate within the limit on validation rows."""
    entry = splits[split].get(OURS if system in CELLS else system, {})
    found = entry.get(CELLS.get(system, "cells"), {}).get(cell)
    return found if found is not None and found["within"] else None


def accuracies(splits: Splits, system: str, cell: str) -> list[float | None]:
    """Balanced accuracy on test rows by split; None without a candidate within the limit."""
    found = [handed_over(splits, split, system, cell) for split in sorted(splits)]
    return [None if item is None else item["test"][BALANCED_ACCURACY] for item in found]


def grid(splits: Splits) -> Iterator[tuple[str, float]]:
    """Criteria and limits that a table has: consistency only where a flip changes the model's
    inputs.
    """
    measured = [
        cell
        for entries in splits.values()
        for entry in entries.values()
        for cell in entry.get("cells", {})
    ]
    for criterion in CRITERIA:
        for limit in LIMITS:
            if cell_name(criterion, limit) in measured:
                yield criterion, limit


def compare(results: Mapping[str, Splits], peer: str) -> list[Compared]:
    """Ours beside a peer in every cell that both were run for."""
    found = []
    for table, every in results.items():
        splits = {
            split: entries
            for split, entries in every.items()
            if _ran(entries, OURS) and _ran(entries, peer)
        }
        for criterion, limit in grid(splits):
            ours, theirs = (
                accuracies(splits, system, cell_name(criterion, limit)) for system in (OURS, peer)
            )
            test = corrected_t_test(ours, theirs, ratio=RATIO)
            pairs = list(zip(ours, theirs, strict=True))
            only_ours = sum(b is None and a is not None for a, b in pairs)
            only_peer = sum(a is None and b is not None for a, b in pairs)
            verdict = ""
            if 2 * max(only_ours, only_peer) > len(pairs):
                verdict = "ahead" if only_ours > only_peer else "behind"
            elif test.n > 1 and test.difference is not None:
                # without a p-value all differences are equal and not 0
                differs = test.p is None or test.p < LEVEL
                verdict = "tied" if not differs else "ahead" if test.difference > 0 else "behind"
            counts = (only_ours, only_peer)
            found.append(Compared(table, criterion, limit, peer, test.difference, verdict, *counts))
    return found


def _ran(entries: Mapping[str, Any], system: str) -> bool:
    return "cells" in entries.get(OURS if system in CELLS else system, {})


def kept(results: Mapping[str, Splits], system: str) -> tuple[int, int]:
    """Candidates within the limit on test rows, and on validation rows, over all tables, splits and
    cells.
    """
    within = 0
    found = []
    for splits in results.values():
        for criterion, limit in grid(splits):
            found += [
                (item["test"][criterion], criterion, limit)
                for split in splits
                if (item := handed_over(splits, split, system, cell_name(criterion, limit)))
                is not None
            ]
    for value, criterion, limit in found:
        within += keeps(value, criterion, limit)
    return within, len(found)


def keeps(value: float | None, criterion: str, limit: float) -> bool:
    """Whether a value of a criterion keeps a limit; an unknown one does not."""
    return value is not None and as_difference(criterion, value) <= limit + 1e-12


def as_difference(criterion: str, value: float) -> float:
    """A criterion of which less is better."""
    return 1.0 - value if criterion == "consistency" else value


def hypervolume(points: Sequence[tuple[float, float]]) -> float:
    """Area that points dominate, from balanced accuracy .5 and a criterion of 1.

    Parameters
    ----------
    points : sequence of (balanced accuracy, criterion)
        Of the criterion less is better. Points beyond the reference add nothing.
    """
    area, best = 0.0, 0.5
    inside = sorted((criterion, accuracy) for accuracy, criterion in points if criterion < 1.0)
    for criterion, accuracy in inside:
        if accuracy > best:
            area += (accuracy - best) * (1.0 - criterion)
            best = accuracy
    return area


def volumes(results: Mapping[str, Splits], system: str) -> list[float]:
    """Hypervolume of every table, criterion and split; 0 without a candidate."""
    found = []
    for splits in results.values():
        for criterion in dict.fromkeys(criterion for criterion, _ in grid(splits)):
            cells = [*(cell_name(criterion, limit) for limit in LIMITS), FREE]
            for split in splits:
                if not _ran(splits[split], system):
                    continue
                tests = [
                    item["test"]
                    for cell in cells
                    if (item := handed_over(splits, split, system, cell))
                ]
                found.append(
                    hypervolume(
                        [
                            (test[BALANCED_ACCURACY], as_difference(criterion, test[criterion]))
                            for test in tests
                            if None not in (test[BALANCED_ACCURACY], test[criterion])
                        ]
                    )
                )
    return found


# the summary


def summarise(content: Content) -> dict[str, Any]:
    """What the page needs of every table: candidates, limits kept, volumes, and compared cells."""
    results: Mapping[str, Splits] = content["results"]
    ran = {
        system for splits in results.values() for entries in splits.values() for system in entries
    }
    systems = [name for name in NAMES if name in ran or (name in CELLS and OURS in ran)]
    tables = {table: _of_table(table, splits, systems) for table, splits in results.items()}
    # the versions of other tools are in benchmarks/peers/requirements-*.txt
    others = {key: item for key, item in content.items() if key not in ("results", "peers")}
    return {**others, "tables": tables}


def _of_table(table: str, splits: Splits, systems: Sequence[str]) -> dict[str, Any]:
    results = {table: splits}
    peers = [name for name in systems if name != OURS and name not in CELLS]
    candidates = {}
    for name in systems:
        if name not in CELLS:
            candidates[name] = [
                entries[name]["candidates"] for entries in splits.values() if _ran(entries, name)
            ]
    areas = {name: volumes(results, name) for name in systems}
    compared = {name: compare(results, name) for name in systems if name != OURS}
    cells = {}
    for criterion, limit in grid(splits):
        cell = cell_name(criterion, limit)
        medians = {name: _median(accuracies(splits, name, cell)) for name in (OURS, *peers)}
        best = max(
            (name for name in peers if medians[name] is not None),
            key=lambda name: medians[name] or 0,
            default=None,
        )
        cells[cell] = {
            "ours": _rounded(medians[OURS]),
            "best": None if best is None else [best, _rounded(medians[best])],
            "compared": [_of_items(items, criterion, limit) for items in compared.values()],
        }
    return {
        "splits": len(splits),
        "compared": list(compared),
        "candidates": candidates,
        "kept": {name: list(kept(results, name)) for name in systems},
        "volumes": {
            name: [_rounded(fmean(area)), len(area)] for name, area in areas.items() if area
        },
        "cells": cells,
        "failed": [
            [split, system, entry["error"]]
            for split, entries in splits.items()
            for system, entry in entries.items()
            if "error" in entry
        ],
    }


def _of_items(items: Sequence[Compared], criterion: str, limit: float) -> list[Any] | None:
    for item in items:
        if (item.criterion, item.limit) == (criterion, limit):
            return [_rounded(item.difference), item.verdict, item.only_ours, item.only_peer]
    return None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


# the page


Tables = Mapping[str, Mapping[str, Any]]
NOT_MEASURED: Mapping[str, Any] = {"ours": None, "best": None}


def sections(content: Content, provenance: Callable[[Any], str]) -> list[str]:
    """The tables and the misses, from a summary; nothing without results."""
    if not content:
        return []
    tables: Tables = content["tables"]
    ran = {name for found in tables.values() for name in found["kept"]}
    systems = [name for name in NAMES if name in ran]
    others = [name for name in systems if name != OURS]
    compared = {name: compared_with(tables, name) for name in others}
    counts = ", ".join(f"{table} {found['splits']}" for table, found in tables.items())
    spent = f"{content['seconds']:g} CPU seconds a search. Splits: {counts}. One split gives no verdict.\n"
    parts = [HEAD, spent, provenance(content)]
    parts += [
        "| system | candidates | kept | volume | ahead / tied / behind | difference | at worst | "
        "alone |",
        "|---|---|---|---|---|---|---|---|",
        *(_system(tables, name, compared.get(name, [])) for name in systems),
        "",
    ]
    peers = [name for name in others if name not in CELLS]
    parts += [
        *_cells(tables),
        "",
        *_misses(tables, [item for name in peers for item in compared[name]]),
    ]
    return parts


def compared_with(tables: Tables, name: str) -> list[Compared]:
    """Our search beside another in the cells of a summary."""
    cells = []
    for table, found in tables.items():
        for cell, row in found["cells"].items():
            numbers = dict(zip(found["compared"], row["compared"], strict=True)).get(name)
            if numbers is not None:
                criterion, limit = _of_cell(cell)
                difference, verdict, only_ours, only_peer = numbers
                cells.append(
                    Compared(
                        table, criterion, limit, name, difference, verdict, only_ours, only_peer
                    )
                )
    return cells


def _of_cell(cell: str) -> tuple[str, float]:
    """Criterion and limit, from their :func:`cell_name`."""
    criterion, _, limit = cell.partition("@")
    return criterion, float(limit)


def _kept(tables: Tables, name: str) -> tuple[int, int]:
    """How many limits are kept on test rows and on validation rows, over all tables."""
    counts = [found["kept"][name] for found in tables.values() if name in found["kept"]]
    return sum(within for within, _ in counts), sum(every for _, every in counts)


def _system(tables: Tables, name: str, cells: Sequence[Compared]) -> str:
    key = OURS if name in CELLS else name
    candidates = [
        number for found in tables.values() for number in found["candidates"].get(key, [])
    ]
    within, said = _kept(tables, name)
    areas = [found["volumes"][name] for found in tables.values() if name in found["volumes"]]
    runs = sum(count for _, count in areas)
    volume = f"{sum(mean * count for mean, count in areas) / runs:.3f}" if runs else ""
    differences = [cell.difference for cell in cells if cell.difference is not None]
    verdicts = [cell.verdict for cell in cells]
    columns = [
        NAMES[name],
        f"{median(candidates):.0f}" if candidates else "none",
        f"{within / said:.0%} of {said}" if said else "",
        volume,
        " / ".join(str(verdicts.count(word)) for word in ("ahead", "tied", "behind"))
        if cells
        else "",
        _signed(fmean(differences)) if differences else "",
        _signed(min(differences)) if differences else "",
        f"{sum(cell.only_ours for cell in cells)} / {sum(cell.only_peer for cell in cells)}"
        if cells
        else "",
    ]
    return f"| {' | '.join(columns)} |"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _reason(error: str) -> str:
    """Why a system has no result, from the text of its error."""
    if "TimeIsUp" in error:
        return "no result within its time"
    return error


def _cells(tables: Tables) -> list[str]:
    """Median test balanced accuracy of ours and of the best peer, a row a table and criterion."""
    measured = {_of_cell(cell)[1] for found in tables.values() for cell in found["cells"]}
    limits = [limit for limit in LIMITS if limit in measured]
    parts = [
        "Median balanced accuracy on test rows at each limit, `tune` / the best other tool:\n",
        f"| table | criterion | {' | '.join(f'{limit:g}' for limit in limits)} |",
        f"|---|---|{'---|' * len(limits)}",
    ]
    for table, found in tables.items():
        for criterion in dict.fromkeys(_of_cell(cell)[0] for cell in found["cells"]):
            texts = []
            for limit in limits:
                cell = found["cells"].get(cell_name(criterion, limit), NOT_MEASURED)
                ours = "none" if cell["ours"] is None else f"{cell['ours']:.3f}"
                theirs = "none"
                if cell["best"] is not None:
                    name, value = cell["best"]
                    theirs = f"{value:.3f} ({NAMES[name].split()[0]})"
                texts.append(f"{ours} / {theirs}")
            parts.append(f"| {table} | {SHORT[criterion]} | {' | '.join(texts)} |")
    return parts


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _misses(tables: Tables, compared: Sequence[Compared]) -> list[str]:
    """The goals and in which cells they are missed."""
    cells: dict[tuple[str, str, float], list[Compared]] = {}
    for item in compared:
        cells.setdefault((item.table, item.criterion, item.limit), []).append(item)
    tested = {key: items for key, items in cells.items() if any(item.verdict for item in items)}
    good = sum(all(item.verdict != "behind" for item in items) for items in tested.values())
    shares = {NAMES[name].removeprefix("`tune`, "): _kept(tables, name) for name in (OURS, *CELLS)}
    parts = []
    if tested:
        share = f"{good} of {len(tested)} cells with a verdict ({good / len(tested):.0%}; the goal is 90 %)"
        parts.append(f"In {share} no other tool is ahead of `tune`.")
    said = [f"{within / all_:.0%} with {words}" for words, (within, all_) in shares.items() if all_]
    if said:
        parts.append(
            "Of the cells in which it is kept on validation rows, the limit is kept on test rows "
            "in "
            f"{', '.join(said)} (the goal is 90 %)."
        )
    behind = [
        item for item in compared if item.difference is not None and item.difference < -TOLERATED
    ]
    count = f"{len(behind) or 'none'} of {len(compared)} comparisons"
    shown = f"; the worst {MOST_SHOWN}" if len(behind) > MOST_SHOWN else ""
    parts.append(f"`tune` is behind by more than {TOLERATED:g}: {count}{shown}.\n")
    notes = {"behind": "", "": " (one split)"}
    for item in sorted(behind, key=lambda item: item.difference or 0)[:MOST_SHOWN]:
        cell = f"{item.table}, {SHORT[item.criterion]} {item.limit:g}"
        note = notes.get(item.verdict, " (tied)")
        parts.append(f"- {cell}, {NAMES[item.peer]}: {_signed(item.difference or 0)}{note}")
    failed = [
        f"- {table}, split {split}, {NAMES[system]}: {_reason(error)}"
        for table, found in tables.items()
        for split, system, error in found["failed"]
    ]
    return [*parts, "", *failed, ""]
