"""Every printed cell with ours beside it: what the pages show and the test counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.common import read_result
from benchmarks.reproductions import paper_claims
from benchmarks.reproductions.measured_reasons import trials_of
from benchmarks.reproductions.paper_results import entry_of, measured_row
from benchmarks.reproductions.paper_rows import ROWS, PaperRow
from benchmarks.reproductions.printed_values import (
    PRINTED,
    Comparison,
    Measured,
    compare,
    read_paper,
)

PRINTED_SPLITS = 10
# Items whose cells are bars without numbers: each is a statement on FAIAS, a table and a metric.
BARS_OWN = "faias"


@dataclass(frozen=True)
class Cell:
    """A printed number or statement, and ours.

    Attributes
    ----------
    paper, item, name : str
        Where it stands, and what it is.
    is_own : bool
        Whether it is of the paper's own method.
    has_ours : bool
        Whether a value of ours stands beside it.
    is_close : bool
        Whether ours is within two standard errors of it, or better; of a statement, whether it is
        true of ours.
    reason : str
        Why ours is missing or differs.
    splits : int
        Of a number in a table of results: on how many splits ours is measured.
    """

    paper: str
    item: str
    name: str
    is_own: bool
    has_ours: bool
    is_close: bool
    reason: str
    splits: int = 0


@cache
def reasons() -> Mapping[str, Any]:
    """Return why cells are missing or differ, by paper and by the beginning of their names."""
    content: dict[str, Any] = json.loads((PRINTED / "reasons.json").read_text(encoding="utf-8"))
    return content


def reason_of(paper: str, name: str) -> str:
    """Return the reason of the longest key with which a cell's name begins; empty without one."""
    matching = [key for key in reasons().get(paper, {}) if name.startswith(key)]
    if not matching:
        return ""
    reason: str = reasons()[paper][max(matching, key=len)]
    return reason


def rows_for(paper: str, data: str, name: str) -> list[PaperRow]:
    """Return our rows beside a printed one: at the printed settings first, then variants."""
    rows = [row for row in ROWS.get(paper, ()) if row.data == data and row.row == name]
    return sorted(rows, key=lambda row: row.variant != "")


def printed_row(paper: str, data: str, name: str) -> tuple[PaperRow, Mapping[str, Any]] | None:
    """Return our row at the printed settings with its measurements; None without these."""
    for row in rows_for(paper, data, name):
        entry = entry_of(paper, row)
        if not row.variant and entry is not None:
            return row, entry
    return None


def compared(
    metric: str, printed: tuple[float, float | None], ours: Measured, is_own: bool
) -> Comparison:
    """Return the comparison of a printed cell of a table with ours."""
    return compare(metric, printed[0], printed[1], PRINTED_SPLITS, ours, is_own)


def is_close(comparison: Comparison) -> bool:
    """Whether a difference is within two standard errors, or ours is better."""
    if comparison.words.startswith(("better", "within", "equal")):
        return True
    return abs(comparison.difference) <= 2 * (comparison.error or 0.0)


def cells(paper: str) -> Iterator[Cell]:
    """Yield every cell of a paper once.

    Rows that repeat another table's are left out, and theorems, which are no measurement.
    """
    content = read_paper(paper)
    items = {item["id"]: item for item in content["items"]}
    for item in content["items"]:
        if item["kind"] == "theory":
            continue
        if item["kind"] == "results" and not item.get("copied"):
            repeated = items[item["repeats"]]["rows"] if "repeats" in item else {}
            yield from _result_cells(paper, content, item, repeated)
        elif item["kind"] == "times":
            yield from _time_cells(paper, item)
        elif item["kind"] == "settings":
            yield from _setting_cells(paper, item)
        yield from _statement_cells(paper, item)


def _result_cells(
    paper: str, content: Mapping[str, Any], item: Mapping[str, Any], repeated: Mapping[str, Any]
) -> Iterator[Cell]:
    for name, printed in item["rows"].items():
        if name in repeated:
            continue
        is_own = name in content["own"]
        row_in_print = printed_row(paper, item["data"], name)
        for metric, cell in zip(item["columns"], printed, strict=True):
            label = f"{item['data']} {name} {metric}"
            ours = measured_row(row_in_print[1], metric) if row_in_print else None
            close = False
            if ours is not None:
                close = is_close(compared(metric, (cell[0], cell[1]), ours, is_own))
            yield Cell(
                paper,
                item["id"],
                label,
                is_own,
                ours is not None,
                close,
                reason_of(paper, label),
                0 if row_in_print is None else row_in_print[1]["splits"],
            )


def _time_cells(paper: str, item: Mapping[str, Any]) -> Iterator[Cell]:
    times = read_result("papers_times").get("rows", {})
    for data in item["rows"]:
        for name in item["columns"]:
            label = f"{data} {name} seconds"
            has_ours = bool(times.get(data, {}).get("seconds", {}).get(name))
            yield Cell(paper, item["id"], label, False, has_ours, has_ours, reason_of(paper, label))


def _setting_cells(paper: str, item: Mapping[str, Any]) -> Iterator[Cell]:
    for name in item["rows"]:
        for column in item["columns"]:
            label = f"{item['data']} {name} {column}"
            has_ours = bool(rows_for(paper, item["data"], name))
            yield Cell(paper, item["id"], label, False, has_ours, has_ours, reason_of(paper, label))


def _statement_cells(paper: str, item: Mapping[str, Any]) -> Iterator[Cell]:
    if "bars" in item:
        for data in item["bars"]["data"]:
            for metric in item["bars"]["metrics"]:
                result = paper_claims.faias_is_best(data, metric)
                label = f"{data} {metric}"
                yield Cell(
                    paper, item["id"], label, True, True, result.holds, reason_of(paper, label)
                )
        return
    for statement in item.get("statements", ()):
        found = paper_claims.answer(statement["id"])
        label = statement["id"]
        is_own = statement.get("own", True)
        holds = found is not None and found.holds
        yield Cell(
            paper, item["id"], label, is_own, found is not None, holds, reason_of(paper, label)
        )


@dataclass(frozen=True)
class Share:
    """How many cells have ours, and how many of the paper's own methods are close.

    Attributes
    ----------
    cells, with_ours, own, own_close : int
    numbers, on_all_splits : int
        Numbers in tables of results, and those on all printed splits.
    without_reason : tuple of str
        Cells that lack ours, or differ, without a reason.
    without_trials : tuple of str
        Cells of a paper's own method that differ, and of which no single difference is measured.
    """

    cells: int
    with_ours: int
    own: int
    own_close: int
    numbers: int
    on_all_splits: int
    without_reason: tuple[str, ...]
    without_trials: tuple[str, ...]


def share(counted: Sequence[Cell]) -> Share:
    """Return the counts of some cells, and those that lack ours or differ without a reason."""
    own_cells = [cell for cell in counted if cell.is_own and cell.has_ours]
    open_cells = [
        cell.name
        for cell in counted
        if not cell.reason and (not cell.has_ours or (cell.is_own and not cell.is_close))
    ]
    return Share(
        len(counted),
        sum(cell.has_ours for cell in counted),
        len(own_cells),
        sum(cell.is_close for cell in own_cells),
        sum(cell.splits > 0 for cell in counted),
        sum(cell.splits >= PRINTED_SPLITS for cell in counted),
        tuple(open_cells),
        tuple(cell.name for cell in own_cells if not cell.is_close and not _has_trials(cell)),
    )


def _has_trials(cell: Cell) -> bool:
    return trials_of(cell.paper, cell.name) is not None
