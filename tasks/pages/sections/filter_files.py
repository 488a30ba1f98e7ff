"""Files and rows of a filter run: failed files first, folders where files are too many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.filter_numbers import files_by
from evenhand.tasks.pages.model import Block, Cell, Documents, Heading, Json, Section, Table

PAGES = {"filter": 10}
NEEDS = ("summary",)

MOST_FILES = 200
# A longer table is folded.
MOST_OPEN = 12
STATUS = {"done": "filtered", "skipped": "filtered before", "failed": "failed"}
TOP = "the input itself"


def build(documents: Documents) -> list[Section]:
    """A section on the files, one on the rows."""
    summary = documents["summary"]
    return [Section("files", "Files", _files(summary)), Section("rows", "Rows", _rows(summary))]


def _files(summary: Json) -> list[Block]:
    failed, fine = files_by(summary, "failed"), [f for f in summary["files"] if f["status"] != "failed"]
    blocks: list[Block] = []
    if failed:
        shown = failed[:MOST_FILES]
        rows = [
            [Cell(file["name"], (file["reason"],)), Cell("failed", kind="failed", symbol="\u2715")]
            for file in shown
        ]
        which = (
            f"The first {len(shown):,} of {len(failed):,} failed files"
            if len(failed) > len(shown)
            else "Failed files"
        )
        blocks.append("A file that fails leaves no row in the output; the other files are filtered.")
        blocks.append(Table(f"{which}, and why", ["File and reason", "Result"], rows))
    aside = ["Set aside"] if any(file["quarantined"] for file in fine) else []
    if len(summary["files"]) > MOST_FILES:
        folders = by_folder(summary["files"])
        head = ["Folder", "Files", "Failed", "Rows in", "Rows kept", *aside]
        table: list[list[Any]] = [row if aside else row[:-1] for row in folders]
        blocks.append(
            f"The {formats.count(len(summary['files']))} files of the input are added up by folder."
        )
        blocks.append(Table("Files and rows by folder", head, table, folded=len(table) > MOST_OPEN))
    elif fine:
        head = ["File", "Result", "Rows in", "Rows kept", *aside]
        table = [
            [
                f["name"],
                STATUS[f["status"]],
                f["rows_in"],
                f["rows_out"],
                *([f["quarantined"]] if aside else []),
            ]
            for f in fine
        ]
        blocks.append(
            Table("Files of the input that are in the output", head, table, folded=len(table) > MOST_OPEN)
        )
    if summary["ignored"]:
        named, rest = summary["ignored"][:MOST_OPEN], len(summary["ignored"]) - MOST_OPEN
        more = f" and {rest:,} more" if rest > 0 else ""
        blocks.append(f"Ignored, as their names are neither of Parquet nor of CSV: {', '.join(named)}{more}.")
    return blocks


def by_folder(files: Sequence[Json], most: int = MOST_FILES) -> list[list[Any]]:
    """
    Add up files by folder, at the greatest depth with at most `most` folders.

    Returns
    -------
    list of list
        Name, files, failed, rows in, rows kept, rows set aside; folders with failures first. A folder at that
        depth stands for all below it.
    """
    parents = [PurePosixPath(file["name"]).parent.parts for file in files]
    depth = max(len(parts) for parts in parents)
    while depth and len({parts[:depth] for parts in parents}) > most:
        depth -= 1
    found: dict[str, list[Json]] = {}
    for file, parts in zip(files, parents, strict=True):
        found.setdefault("".join(f"{part}/" for part in parts[:depth]) or TOP, []).append(file)
    keys = ("rows_in", "rows_out", "quarantined")
    rows = [
        [
            name,
            len(inside),
            sum(file["status"] == "failed" for file in inside),
            *(sum(file[key] for file in inside) for key in keys),
        ]
        for name, inside in sorted(found.items())
    ]
    return sorted(rows, key=lambda row: -row[2])


def _rows(summary: Json) -> list[Block]:
    rows_in, left_out = summary["rows_in"], summary["left_out"]
    if not rows_in:
        blocks: list[Block] = ["No file that could be filtered has a row."]
    else:
        rest = rows_in - summary["rows_out"] - summary["quarantined"] - summary["dropped"]
        found = [
            ("Kept", f"{round(summary['expected_out']):,} expected", summary["rows_out"]),
            ("Not kept", "by their random numbers", rest),
            ("Set aside", "they break the data contract", summary["quarantined"]),
            ("Left out", "a sensitive model input is missing", summary["dropped"]),
            ("All rows read", "", rows_in),
        ]
        rows = [
            [Cell(name, (remark,) if remark else ()), count, formats.percent(count / rows_in)]
            for name, remark, count in found
            if count or name == "Kept"
        ]
        blocks = [Table("Rows of all files in the output", ["Rows", "Number", "Share"], rows)]
    if rows_in or left_out:
        text = "None: the files have no sensitive column that the proxy does not need."
        if left_out:
            names = ", ".join(f"`{name}`" for name in left_out)
            text = f"Sensitive columns are no input of the proxy and are not in the output: {names}."
        blocks += [Heading("Columns that were left out"), text]
    if summary["quarantined"]:
        blocks += [
            Heading("Rows that were set aside"),
            f"{formats.plural(summary['quarantined'], 'row')} outside the data contract, neither kept nor "
            "rejected, in the folder `_evenhand/quarantine` of the output: correct them at the source, and "
            "the changed files are filtered again.",
        ]
    return blocks
