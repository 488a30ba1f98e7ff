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

LAKE = "lake"  # format of an input file that is a partition of a lake's table
MAGIC = "*?["
# How file systems name a file's tag and its times.
TAGS = ("ETag", "etag")
TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")
FileInfos = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class InputFile:
    """One input file; it has changed if its size or version has."""

    url: str  # local path, or URL
    name: str  # path below the input's root; it names the file in records, and its parts
    size: int  # bytes
    version: str  # time of change, or the object store's tag
    format: str  # "parquet", "csv", "excel" or, for a partition of a database's table, "table"
    section: str = "filter"  # of the settings, for messages
    partition: tuple[str, Any] | None = None  # column and value of a partition


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

    - **location**: a file, a folder (searched to any depth; names that start with `_` or `.` are
      skipped), or a glob
    - **format**: of every file (default: by its ending; files of a folder with other endings are
      ignored)
    - **output**: the run's output, which must not overlap with the input
    - **section**: of the settings, for messages
    - **settle_seconds**: the input is watched: files that changed more recently wait, because they
      may still be written, and an input without files is no error

    Raises `InputError` if the input cannot be listed, overlaps with the output, or has no file to
    read.
    """
    public_location = without_secrets(location)
    filesystem, kind, root, infos = _listed(location)
    _refuse_lake(infos, public_location)
    candidates = _visible(infos, root, kind)
    files: list[InputFile] = []
    ignored: list[str] = []
    waiting: list[str] = []
    for name, (place, info) in candidates.items():
        file_format = format or format_of(name)
        if file_format not in ("csv", "parquet", "excel"):
            ignored.append(name)
        elif _is_unsettled(info, settle_seconds):
            waiting.append(name)
        else:
            files.append(_input_file(filesystem, place, info, name, file_format, section))
    if not files:
        # a prefix of a bucket may be empty, a local path may not be missing
        is_missing = kind == "file" and not infos and is_local(filesystem)
        if settle_seconds is None or is_missing:
            raise _no_file(public_location, ignored, section, is_missing=is_missing)
    if output is not None and not is_database(output):
        _refuse_overlap(filesystem, root, kind, files, output)
    return Inputs(
        str(filesystem.unstrip_protocol(root)), tuple(files), tuple(ignored), tuple(waiting)
    )


def _refuse_lake(infos: FileInfos, public_location: str) -> None:
    """Refuse a lake's files: those of old versions are among them."""
    if any("/_delta_log/" in place or place.endswith(METADATA) for place in infos):
        raise InputError(
            f"{public_location} is a table of Delta Lake or Iceberg, with files of old versions "
            "too: write its rows to Parquet files first."
        )


def _is_unsettled(info: Mapping[str, Any], settle_seconds: float | None) -> bool:
    """Whether a file of a watched input changed so recently that it may still be written."""
    return settle_seconds is not None and _age(info) < settle_seconds


def _visible(infos: FileInfos, root: str, kind: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Place and information of the files that are not hidden, by name, ordered by place."""
    visible = {}
    for place, info in sorted(infos.items()):
        name = str(PurePosixPath(place).relative_to(root))
        if kind == "file" or not _is_hidden(name):
            visible[name] = (place, info)
    return visible


def _no_file(
    public_location: str, ignored: list[str], section: str, *, is_missing: bool
) -> InputError:
    """The error of an input without a file that can be read."""
    reason = "holds no file"
    if is_missing:
        return InputError(f"there is no file or folder {public_location}.")
    if ignored:
        reason = f"has no ending of a known format: set {section}.format"
    return InputError(f"{public_location} {reason} (Parquet, CSV and Excel can be read).")


def _listed(location: str) -> tuple[Any, str, str, FileInfos]:
    """File system of a location, and what `_search` finds there."""
    try:
        filesystem, path = fsspec.core.url_to_fs(os.path.expanduser(location))
        return filesystem, *_search(filesystem, path)
    except ImportError:
        raise InputError(missing_package(location)) from None
    except Exception as error:  # noqa: BLE001 - every file system has its own exceptions
        raise InputError(
            f"{without_secrets(location)} cannot be listed ({type(error).__name__}): check the "
            "address and the network."
        ) from None


def _input_file(
    filesystem: Any,
    place: str,
    info: Mapping[str, Any],
    name: str,
    file_format: str,
    section: str,
) -> InputFile:
    """A file that is read, with its size and version."""
    if is_local(filesystem):
        size, version = _local_identity(place)
        return InputFile(place, name, size, version, file_format, section)
    size, version = _remote_identity(info)
    url = str(filesystem.unstrip_protocol(place))
    return InputFile(url, name, size, version, file_format, section)


def _is_hidden(name: str) -> bool:
    """Whether a part of a relative path starts with ``_`` or a dot."""
    return any(part.startswith(("_", ".")) for part in PurePosixPath(name).parts)


def _search(filesystem: Any, path: str) -> tuple[str, str, FileInfos]:
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
    infos: dict[str, Mapping[str, Any]] = {}
    for place, info in filesystem.glob(path, detail=True).items():
        if info["type"] == "directory":
            infos |= filesystem.find(place, detail=True)
        else:
            infos[place] = info
    return "glob", fixed.rpartition("/")[0] or "/", infos


def _local_identity(place: str) -> tuple[int, str]:
    """Size and time of change of a file on the local disk."""
    try:
        status = os.stat(place)
    except OSError:  # removed since, or a dangling link: reading reports it
        return -1, ""
    return status.st_size, str(status.st_mtime_ns)


def _remote_identity(info: Mapping[str, Any]) -> tuple[int, str]:
    """Size and version of a file, from a file system's information."""
    size = int(info.get("size") or 0)
    version: Any = next((info[key] for key in (*TAGS, *TIMES) if info.get(key)), "")
    if isinstance(version, datetime.datetime):
        return size, version.isoformat()
    return size, str(version)


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
    output_filesystem, place = fsspec.core.url_to_fs(os.path.expanduser(output))
    if type(output_filesystem) is not type(filesystem):
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
