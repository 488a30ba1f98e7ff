"""The files of a filter run for its report: failed ones first, and folders where there are too many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from evenhand.tasks.reporting.filter_numbers import files_by

__all__ = ["MOST_FILES", "FolderTotals", "by_folder", "file_tables"]

Json = Mapping[str, Any]
MOST_FILES = 200
# A longer table is folded.
MOST_OPEN = 12
TOP = "the input itself"


@dataclass(frozen=True)
class FolderTotals:
    """Files of a folder, of those below it too where folders are too many, by status, and their rows."""

    name: str
    files: int
    failed: int
    rows_in: int
    rows_out: int
    quarantined: int


def file_tables(context: Json) -> dict[str, Any]:
    """Sort the input's files into tables: failed ones, the others one by one or by folder."""
    summary = context["summary"]
    failed = files_by(context, "failed")
    fine = [file for file in summary["files"] if file["status"] != "failed"]
    many = len(summary["files"]) > MOST_FILES
    folders = by_folder(summary["files"]) if many else []
    return {
        "count": len(summary["files"]),
        "failed": failed[:MOST_FILES],
        "failed_count": len(failed),
        "fine": [] if many else fine,
        "folders": folders,
        "folded": len(folders or fine) > MOST_OPEN,
        "set_aside": any(file["quarantined"] for file in fine),
        "ignored": summary["ignored"][:MOST_OPEN],
        "ignored_count": len(summary["ignored"]),
    }


def by_folder(files: Sequence[Json], most: int = MOST_FILES) -> list[FolderTotals]:
    """
    Add up files by folder, at the greatest depth with at most `most` folders.

    A folder that is cut off stands for all below it.
    """
    parents = [PurePosixPath(file["name"]).parent.parts for file in files]
    depth = max(len(parts) for parts in parents)
    while depth and len({parts[:depth] for parts in parents}) > most:
        depth -= 1
    found: dict[str, list[Json]] = {}
    for file, parts in zip(files, parents, strict=True):
        found.setdefault("".join(f"{part}/" for part in parts[:depth]) or TOP, []).append(file)
    totals = [
        FolderTotals(
            name,
            len(inside),
            sum(file["status"] == "failed" for file in inside),
            sum(file["rows_in"] for file in inside),
            sum(file["rows_out"] for file in inside),
            sum(file["quarantined"] for file in inside),
        )
        for name, inside in sorted(found.items())
    ]
    return sorted(totals, key=lambda folder: -folder.failed)
