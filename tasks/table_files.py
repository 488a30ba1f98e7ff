"""Which files are tables, by their names."""

from __future__ import annotations

from pathlib import Path

from evenhand.tasks.errors import InputError

__all__ = ["SUFFIXES", "files_of"]

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".data": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def files_of(folder: Path) -> list[Path]:
    """
    Table files below a folder, all Parquet or all CSV; empty if there is none.

    What is in hidden folders, or hidden itself, does not count.

    Raises
    ------
    InputError
        There are files of both kinds.
    """
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part[0] in "._" for part in path.relative_to(folder).parts)
    ]
    kinds = {path: SUFFIXES.get(Path(path.name.removesuffix(".gz")).suffix.lower()) for path in found}
    parquet = [path for path in found if kinds[path] == "parquet"]
    text = [path for path in found if kinds[path] == "csv"]
    if parquet and text:
        raise InputError(
            f"the folder {folder.name} holds Parquet and CSV files, such as {parquet[0].name} and "
            f"{text[0].name}: keep one kind."
        )
    return parquet or text
