"""The files of a filter run: one file, a folder or a glob, on any file system."""

from __future__ import annotations

import datetime
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import fsspec

from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.table_files import SUFFIXES

__all__ = ["InputFile", "Inputs", "list_inputs", "os_reason"]

MAGIC = "*?["


@dataclass(frozen=True)
class InputFile:
    """
    One input file.

    Attributes
    ----------
    url : str
        Where it is.
    name : str
        Its path below the input's root: its name in records, and what its parts are called after.
    size : int
        Bytes.
    version : str
        Time of change, or the object store's tag: a file with another size or version has changed.
    format : {"parquet", "csv"}
    """

    url: str
    name: str
    size: int
    version: str
    format: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @property
    def is_local(self) -> bool:
        """Whether it can be opened by its path."""
        return "://" not in self.url

    @contextmanager
    def open(self) -> Iterator[BinaryIO | str]:
        """The path of a local file, or a stream of a remote one."""
        if self.is_local:
            yield self.url
            return
        with fsspec.open(self.url, "rb") as stream:
            yield stream


@dataclass(frozen=True)
class Inputs:
    """
    The root (a folder), the files below it by name, names that no format is known for, and names of files
    that have changed too recently.
    """

    root: str
    files: tuple[InputFile, ...]
    ignored: tuple[str, ...]
    waiting: tuple[str, ...] = ()


def list_inputs(
    location: str,
    format: str | None = None,
    output: str | None = None,
    settle_seconds: float | None = None,
) -> Inputs:
    """
    Find the files to filter.

    Parameters
    ----------
    location : str
        A file, a folder (searched to any depth; names that start with ``_`` or ``.`` are skipped), or a glob.
    format : {"parquet", "csv"}, optional
        Of every file; default: by its ending. Files of a folder with other endings are left out and named.
    output : str, optional
        The run's output, which may not lie within the input.
    settle_seconds : float, optional
        The input is watched: files that changed within so many seconds are left waiting, as somebody may
        still be writing them, and there may be none.

    Raises
    ------
    InputError
        Nothing there, or nothing that can be filtered, unless the input is watched.
    """
    shown = without_secrets(location)
    try:
        filesystem, path = fsspec.core.url_to_fs(os.path.expanduser(location))
        kind, root, found = _search(filesystem, path)
    except ImportError as error:
        raise InputError(f"reading {shown} needs a package that is not installed ({error}).") from None
    except Exception as error:  # noqa: BLE001 - every file system brings exceptions of its own
        raise InputError(
            f"{shown} cannot be listed ({type(error).__name__}): check the address and the network."
        ) from None
    files, ignored, waiting = [], [], []
    for place, info in sorted(found.items()):
        name = str(PurePosixPath(place).relative_to(root))
        if kind != "file" and hidden(name):
            continue
        written = format or _format_of(name)
        if written is None:
            ignored.append(name)
            continue
        if settle_seconds is not None and _age(info) < settle_seconds:
            waiting.append(name)
            continue
        local = _is_local(filesystem)
        url = place if local else str(filesystem.unstrip_protocol(place))
        size, version = _local_identity(place) if local else _remote_identity(info)
        files.append(InputFile(url, name, size, version, written))
    gone = kind == "file" and not found and _is_local(filesystem)  # a prefix of a bucket may be empty
    if not files and (settle_seconds is None or gone):
        what = "has no ending that tells its format: set filter.format" if ignored else "holds no file"
        raise InputError(f"{shown} {what} (Parquet and CSV can be filtered).")
    if output is not None:
        _refuse_overlap(filesystem, root, kind, files, output)
    return Inputs(str(filesystem.unstrip_protocol(root)), tuple(files), tuple(ignored), tuple(waiting))


def os_reason(error: OSError) -> str:
    """Why the system refused; the words of Arrow and others name paths, and are long."""
    return os.strerror(error.errno) if error.errno else type(error).__name__


def hidden(name: str) -> bool:
    """Whether a part of a relative path starts with ``_`` or a dot."""
    return any(part.startswith(("_", ".")) for part in PurePosixPath(name).parts)


def _search(filesystem: Any, path: str) -> tuple[str, str, Mapping[str, Mapping[str, Any]]]:
    """What a location is (file, folder or glob), its root, and the files with what is known of them."""
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
        if info["type"] == "directory":
            found.update(filesystem.find(place, detail=True))
        else:
            found[place] = info
    return "glob", fixed.rpartition("/")[0] or "/", found


def _format_of(name: str) -> str | None:
    return SUFFIXES.get(Path(name.removesuffix(".gz")).suffix.lower())


def _is_local(filesystem: Any) -> bool:
    protocol = filesystem.protocol
    return "file" in (protocol if isinstance(protocol, tuple) else (protocol,))


def _local_identity(place: str) -> tuple[int, str]:
    try:
        status = os.stat(place)
    except OSError:  # gone since, or a dangling link: reading it says so
        return -1, ""
    return status.st_size, str(status.st_mtime_ns)


def _age(info: Mapping[str, Any]) -> float:
    """
    Seconds since a file changed; infinite where nobody says when.

    An object store says, but has whole objects only; what says nothing is taken for one.
    """
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(key)
        if isinstance(value, int | float):
            return time.time() - value
        if isinstance(value, datetime.datetime):
            zone = value.tzinfo or datetime.UTC
            return time.time() - value.replace(tzinfo=zone).timestamp()
    return math.inf


def _remote_identity(info: Mapping[str, Any]) -> tuple[int, str]:
    size = int(info.get("size") or 0)
    for key in ("ETag", "etag", "LastModified", "last_modified", "mtime", "updated", "created"):
        value = info.get(key)
        if value:
            return size, value.isoformat() if isinstance(value, datetime.datetime) else str(value)
    return size, ""


def _refuse_overlap(filesystem: Any, root: str, kind: str, files: list[InputFile], output: str) -> None:
    other, place = fsspec.core.url_to_fs(os.path.expanduser(output))
    if type(other) is not type(filesystem):
        return
    target = PurePosixPath(place)
    holds_inputs = any(
        PurePosixPath(filesystem._strip_protocol(file.url)).is_relative_to(target) for file in files
    )
    # parts that are written below a folder would be its input the next time
    below = kind == "folder" and target.is_relative_to(root) and not hidden(str(target.relative_to(root)))
    if holds_inputs or below:
        raise InputError(
            f"the output {without_secrets(output)} and the input overlap: choose a folder outside the input."
        )
