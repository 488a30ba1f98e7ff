"""Which files are tables, by their names."""

from __future__ import annotations

from pathlib import Path

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
    Table files below a folder: the Parquet ones, or if there is none the CSV ones; empty if none either.

    What is in hidden folders, or hidden itself, does not count.
    """
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part[0] in "._" for part in path.relative_to(folder).parts)
    ]
    kinds = {path: SUFFIXES.get(Path(path.name.removesuffix(".gz")).suffix.lower()) for path in found}
    parquet = [path for path in found if kinds[path] == "parquet"]
    return parquet or [path for path in found if kinds[path] == "csv"]
