"""Files and rows of a filter run: failed files first, folders where files are too many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.filter import files_by
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
    files, failed = summary["files"], files_by(summary, "failed")
    fine = [file for file in files if file["status"] != "failed"]
    blocks: list[Block] = []
    if failed:
        mark = Cell("failed", kind="failed", symbol="\u2715")
        rows = [[Cell(file["name"], (file["reason"],)), mark] for file in failed[:MOST_FILES]]
        many = len(failed) > MOST_FILES
        which = f"The first {MOST_FILES:,} of {len(failed):,} failed files" if many else "Failed files"
        blocks.append("A file that fails leaves no row in the output; the other files are filtered.")
        blocks.append(Table(f"{which}, and why", ["File and reason", "Result"], rows))
    counts = {"rows_in": "Rows in", "rows_out": "Rows kept", "quarantined": "Set aside"}
    if not any(file["quarantined"] for file in fine):
        del counts["quarantined"]
    head, caption, table = ["File", "Result"], "Files of the input that are in the output", []
    if len(files) > MOST_FILES:
        blocks.append(f"The {formats.count(len(files))} files of the input are added up by folder.")
        head, caption = ["Folder", "Files", "Failed"], "Files and rows by folder"
        table = [row[: len(head) + len(counts)] for row in by_folder(files)]
    else:
        table = [[file["name"], STATUS[file["status"]], *(file[key] for key in counts)] for file in fine]
    if table:
        blocks.append(Table(caption, [*head, *counts.values()], table, folded=len(table) > MOST_OPEN))
    if summary["ignored"]:
        named, rest = summary["ignored"][:MOST_OPEN], len(summary["ignored"]) - MOST_OPEN
        more = f" and {rest:,} more" if rest > 0 else ""
        blocks.append(f"Ignored, as their names are neither of Parquet nor of CSV: {', '.join(named)}{more}.")
    return blocks


def by_folder(files: Sequence[Json], most: int = MOST_FILES) -> list[list[Any]]:
    """Add up files by folder, at the greatest depth with at most `most` folders, those with failures first.

    A row is name, files, failed, rows in, rows kept, rows set aside. A folder at that depth stands for all
    below it.
    """
    parents = [PurePosixPath(file["name"]).parent.parts for file in files]
    depth = max(len(parts) for parts in parents)
    while depth and len({parts[:depth] for parts in parents}) > most:
        depth -= 1
    found: dict[str, list[Json]] = {}
    for file, parts in zip(files, parents, strict=True):
        found.setdefault("".join(f"{part}/" for part in parts[:depth]) or TOP, []).append(file)
    rows = []
    for name, inside in sorted(found.items()):
        failed = sum(file["status"] == "failed" for file in inside)
        sums = (sum(file[key] for file in inside) for key in ("rows_in", "rows_out", "quarantined"))
        rows.append([name, len(inside), failed, *sums])
    return sorted(rows, key=lambda row: -row[2])


def _rows(summary: Json) -> list[Block]:
    rows_in, left_out = summary["rows_in"], summary["left_out"]
    blocks: list[Block] = [] if rows_in else ["No file that could be filtered has a row."]
    if rows_in:
        rest = rows_in - summary["rows_out"] - summary["quarantined"] - summary["dropped"]
        found = [
            ("Kept", f"{round(summary['expected_out']):,} expected", summary["rows_out"]),
            ("Not kept", "by their random numbers", rest),
            ("Set aside", "they break the data contract", summary["quarantined"]),
            ("Left out", "a sensitive model input is missing", summary["dropped"]),
            ("All rows read", "", rows_in),
        ]
        rows = [
            [Cell(name, (remark,)), count, formats.percent(count / rows_in)]
            for name, remark, count in found
            if count or name == "Kept"
        ]
        blocks.append(Table("Rows of all files in the output", ["Rows", "Number", "Share"], rows))
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
