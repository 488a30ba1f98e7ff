"""The input files of a run: one file, a folder or a glob, on any file system."""

from __future__ import annotations

import datetime
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import fsspec

from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.execution.store import is_local
from evenhand.tasks.sources.databases import is_database, missing_package
from evenhand.tasks.sources.lakes import METADATA
from evenhand.tasks.sources.table_reader import format_of

MAGIC = "*?["
# How file systems name a file's tag and its times.
TAGS = ("ETag", "etag")
TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")
Found = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class InputFile:
    """One input file; it has changed if its size or version has."""

    url: str  # local path, or URL
    name: str  # path below the input's root; it names the file in records, and its parts
    size: int  # bytes
    version: str  # time of change, or the object store's tag
    format: str  # "parquet" or "csv"
    section: str = "filter"  # of the settings, for messages


@dataclass(frozen=True)
class Inputs:
    """The files to read."""

    root: str  # URL of the folder that holds them all
    files: tuple[InputFile, ...]  # by name
    ignored: tuple[str, ...]  # names of files without a known format
    waiting: tuple[str, ...] = ()  # names of files that changed too recently


def list_inputs(
    location: str,
    format: str | None = None,
    output: str | None = None,
    settle_seconds: float | None = None,
    section: str = "filter",
) -> Inputs:
    """Find the files to read.

    - **location**: a file, a folder (searched to any depth; names that start with `_` or `.` are skipped), or
      a glob
    - **format**: of every file (default: by its ending; files of a folder with other endings are ignored)
    - **output**: the run's output, which must not overlap with the input
    - **section**: of the settings, for messages
    - **settle_seconds**: the input is watched: files that changed more recently wait, because they may still
      be written, and an input without files is no error

    Raises `InputError` if the input cannot be listed, overlaps with the output, or has no file to
    read.
    """
    shown = without_secrets(location)
    try:
        filesystem, path = fsspec.core.url_to_fs(os.path.expanduser(location))
        kind, root, found = _search(filesystem, path)
    except ImportError:
        raise InputError(missing_package(location)) from None
    except Exception as error:  # noqa: BLE001 - every file system has its own exceptions
        raise InputError(
            f"{shown} cannot be listed ({type(error).__name__}): check the address and the network."
        ) from None
    if any("/_delta_log/" in place or place.endswith(METADATA) for place in found):
        raise InputError(
            f"{shown} is a table of Delta Lake or Iceberg, with files of old versions too: write "
            "its rows to Parquet files first."
        )
    local = is_local(filesystem)
    files = []
    ignored = []
    waiting = []
    for place, info in sorted(found.items()):
        name = str(PurePosixPath(place).relative_to(root))
        if kind != "file" and _is_hidden(name):
            continue
        written = format or format_of(name)
        if written not in ("csv", "parquet"):
            ignored.append(name)
        elif settle_seconds is not None and _age(info) < settle_seconds:
            waiting.append(name)
        else:
            url = place if local else str(filesystem.unstrip_protocol(place))
            files.append(
                InputFile(url, name, *_identity(place, None if local else info), written, section)
            )
    gone = kind == "file" and not found and local  # a prefix of a bucket may be empty
    if not files and (settle_seconds is None or gone):
        reason = (
            f"has no ending of a known format: set {section}.format" if ignored else "holds no file"
        )
        raise InputError(f"{shown} {reason} (Parquet and CSV can be read).")
    if output is not None and not is_database(output):
        _refuse_overlap(filesystem, root, kind, files, output)
    return Inputs(
        str(filesystem.unstrip_protocol(root)), tuple(files), tuple(ignored), tuple(waiting)
    )


def _is_hidden(name: str) -> bool:
    """Whether a part of a relative path starts with ``_`` or a dot."""
    return any(part.startswith(("_", ".")) for part in PurePosixPath(name).parts)


def _search(filesystem: Any, path: str) -> tuple[str, str, Found]:
    """Kind of a location (file, folder or glob), its root, and information on each of its files."""
    path = path.rstrip("/") or "/"
    parent = str(PurePosixPath(path).parent)
    if filesystem.isdir(path):
        return "folder", path, filesystem.find(path, detail=True)
    if filesystem.exists(path):
        return "file", parent, {path: filesystem.info(path)}
    if not any(mark in path for mark in MAGIC):
        return "file", parent, {}
    fixed = path[: min(path.index(mark) for mark in MAGIC if mark in path)]
    found: dict[str, Mapping[str, Any]] = {}
    for place, info in filesystem.glob(path, detail=True).items():
        found |= (
            filesystem.find(place, detail=True) if info["type"] == "directory" else {place: info}
        )
    return "glob", fixed.rpartition("/")[0] or "/", found


def _identity(place: str, info: Mapping[str, Any] | None) -> tuple[int, str]:
    """Size and version of a file, from a file system's information, or from the local disk."""
    if info is None:
        try:
            status = os.stat(place)
        except OSError:  # removed since, or a dangling link: reading reports it
            return -1, ""
        return status.st_size, str(status.st_mtime_ns)
    version: Any = next((info[key] for key in (*TAGS, *TIMES) if info.get(key)), "")
    is_time = isinstance(version, datetime.datetime)
    return int(info.get("size") or 0), version.isoformat() if is_time else str(version)


def _age(info: Mapping[str, Any]) -> float:
    """Seconds since a file changed; infinite if unknown: a file without a time counts as
    complete.
    """
    for key in TIMES:
        value = info.get(key)
        if isinstance(value, int | float):
            return time.time() - value
        if isinstance(value, datetime.datetime):
            zone = value.tzinfo or datetime.UTC
            return time.time() - value.replace(tzinfo=zone).timestamp()
    return math.inf


def _refuse_overlap(
    filesystem: Any, root: str, kind: str, files: list[InputFile], output: str
) -> None:
    other, place = fsspec.core.url_to_fs(os.path.expanduser(output))
    if type(other) is not type(filesystem):
        return
    target = PurePosixPath(place)
    holds_inputs = any(
        PurePosixPath(filesystem._strip_protocol(file.url)).is_relative_to(target) for file in files
    )
    # parts that are written below a folder would be its input in the next run
    below = (
        kind == "folder"
        and target.is_relative_to(root)
        and not _is_hidden(str(target.relative_to(root)))
    )
    if holds_inputs or below:
        raise InputError(
            f"the output {without_secrets(output)} and the input overlap: choose a folder outside "
            "the input."
        )
