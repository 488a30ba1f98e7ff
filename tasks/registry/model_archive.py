"""A published model as one file: a zip archive of its regular files, with a manifest.

The manifest lists each file with size and SHA-256, and has the registry's digests of the files that
the model's own list lacks. Nothing of an archive is imported: its names are checked first, a file
is unpacked up to its listed size, and the folder is compared with the model's own list.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.fairlib.file_digests import (
    BUNDLE,
    CHUNK_BYTES,
    DOWNLOADED,
    LIST,
    is_allowed,
    model_faults,
    sized_digests,
)
from evenhand.tasks.errors import InputError, without_secrets

MANIFEST = "manifest.json"
FORMAT = 1
# Bytes of the manifest and of all files; a larger archive is refused before it is unpacked.
LARGEST_MANIFEST = 16 << 20
LARGEST_MODEL = 16 << 30
# of every file in the archive: the same model gives the same bytes
LONG_AGO = (1980, 1, 1, 0, 0, 0)
REGULAR = (stat.S_IFREG | 0o644) << 16
# Bytes of the fixed parts of a zip file (APPNOTE.TXT 4.3): the header of a member, its entry in the
# directory at the end, the end of that directory, and what precedes that end in large archives.
HEADER = struct.Struct("<4s22xHH")
ENTRY_BYTES = 46
END_BYTES = 22
LARGE_END_BYTES = 56 + 20
# What `zipfile` raises for archives that are damaged.
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    EOFError,
    RuntimeError,
    ValueError,
)
# Errors of the operating system for places and names that an archive states, not for the disk.
OF_ARCHIVE = (errno.EINVAL, errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)


class _ArchiveFaultError(Exception):
    """An archive that cannot be used; its text is the fault."""


def is_archive(path: Path) -> bool:
    """Whether a path is a zip file."""
    return path.is_file() and zipfile.is_zipfile(path)


def write_archive(
    model: Path, target: Path, name: str, version: str | None, registered: str | None
) -> str:
    """Write a model's folder, which was compared with its list, as an archive; return its SHA-256.

    `registered` has the registry's digests of the files that the model's own list lacks. Raises
    `InputError` for a folder that is no whole model with a list, or was changed.
    """
    if not (model / BUNDLE / LIST).is_file():
        raise InputError(
            f"the model {without_secrets(str(model))} has no list of its files in {BUNDLE}: give "
            "the folder of a whole model, or publish it again."
        )
    files = sized_digests(model)
    files.pop(DOWNLOADED, None)
    manifest = {
        "format": FORMAT,
        "name": name,
        "version": version,
        "registered": registered,
        "files": files,
    }
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())
        for path in sorted(files):
            _add(archive, path, (model / path).read_bytes())
    # what was written is compared again: the folder may have changed meanwhile
    try:
        _unpack(target, target.with_name("unpacked"))
    except _ArchiveFaultError as error:
        raise InputError(
            f"the model {without_secrets(str(model))} is not what was published: {error}."
        ) from None
    with target.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unpack_archive(path: Path, scratch: Path, digest: str | None = None) -> Path:
    """Unpack an archive into a folder below `scratch`, and return the model's folder.

    Raises `InputError` if its SHA-256 is not `digest`, and for anything but the regular files of a
    model that are what was published.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    copy = scratch / "archive.zip"
    copied = _copy(path, copy)
    if digest is not None and copied != digest:
        raise InputError(
            f"the SHA-256 of {without_secrets(str(path))} is not the one that was given: fetch it "
            "again."
        )
    target = scratch / "unpacked"
    try:
        _unpack(copy, target)
    except _ArchiveFaultError as error:
        raise InputError(
            f"the model {without_secrets(str(path))} is not what was published: {error}. Fetch it "
            "again, or export it again by `evenhand export MODEL --to bundle`."
        ) from None
    return target


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    member = zipfile.ZipInfo(name, LONG_AGO)
    member.external_attr = REGULAR
    member.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(member, content)


def _copy(path: Path, target: Path) -> str:
    """Copy a file; return the digest of the bytes that were copied."""
    digest = hashlib.sha256()
    with path.open("rb") as stream, target.open("wb") as output:
        for chunk in iter(lambda: stream.read(CHUNK_BYTES), b""):
            digest.update(chunk)
            output.write(chunk)
    return digest.hexdigest()


def _unpack(path: Path, target: Path) -> None:
    """Unpack a model's files, and compare them with both lists."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = _checked_members(archive)
            _check_layout(archive, path)
            manifest = _read_manifest(archive, members)
            files = manifest["files"]
            _check_names(members, files)
            target.mkdir(parents=True)
            for name in sorted(files):
                _unpack_file(archive, members[name], files[name], target / name)
    except DAMAGED as error:
        raise _ArchiveFaultError(f"the archive is damaged ({type(error).__name__})") from None
    except OSError as error:
        if error.errno not in OF_ARCHIVE:
            raise
        raise _ArchiveFaultError(f"the archive is damaged ({error.strerror})") from None
    faults = model_faults(target, manifest.get("registered"))
    if faults is None:
        raise _ArchiveFaultError("it has no list of its files")
    if faults:
        raise _ArchiveFaultError(faults[0])


def _checked_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive, if each is one regular file of a name that a model may have."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename
        kind = member.external_attr >> 16
        if member.orig_filename != name or not (name == MANIFEST or is_allowed(name)):
            raise _ArchiveFaultError(f"{name!r} is no kind of file that a model may have")
        if name in members:
            raise _ArchiveFaultError(f"{name} is in it twice")
        if kind and not stat.S_ISREG(kind):
            raise _ArchiveFaultError(f"{name} is no regular file")
        if member.flag_bits & 0x1:
            raise _ArchiveFaultError(f"{name} is encrypted")
        members[name] = member
    return members


def _check_layout(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse bytes before, between or behind the members, which no list covers."""
    directory = 0
    for member in archive.infolist():
        directory += ENTRY_BYTES + len(member.orig_filename.encode()) + len(member.extra)
        directory += len(member.comment)
    place = 0
    with path.open("rb") as stream:
        for member in sorted(archive.infolist(), key=lambda item: item.header_offset):
            if member.header_offset != place:
                raise _ArchiveFaultError(f"it has bytes before {member.filename} of no member")
            stream.seek(place)
            _, name_bytes, extra_bytes = HEADER.unpack(stream.read(HEADER.size))
            place += HEADER.size + name_bytes + extra_bytes + member.compress_size
        size = stream.seek(0, os.SEEK_END)
    remaining = size - place - directory
    if archive.comment or remaining not in (END_BYTES, END_BYTES + LARGE_END_BYTES):
        raise _ArchiveFaultError("it has bytes behind its members of no member")
    if archive.start_dir != place:
        raise _ArchiveFaultError("it has bytes before its directory of no member")


def _read_manifest(
    archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]
) -> dict[str, Any]:
    """The manifest, if it has the form of one."""
    member = members.get(MANIFEST)
    if member is None:
        raise _ArchiveFaultError(f"{MANIFEST} is missing")
    with archive.open(member) as stream:
        content = stream.read(LARGEST_MANIFEST + 1)
    try:
        manifest = json.loads(content[:LARGEST_MANIFEST])
        files = manifest["files"]
        total = _listed_bytes(files)
        registered = manifest.get("registered")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _ArchiveFaultError(f"{MANIFEST} was changed") from None
    if manifest.get("format") != FORMAT:
        raise _ArchiveFaultError(f"{MANIFEST} is of another version of evenhand")
    if not isinstance(registered, str | None):
        raise _ArchiveFaultError(f"{MANIFEST} was changed")
    if total > LARGEST_MODEL:
        raise _ArchiveFaultError(f"{MANIFEST} lists more than {LARGEST_MODEL >> 30} GiB")
    checked: dict[str, Any] = manifest
    return checked


def _listed_bytes(files: Mapping[str, Any]) -> int:
    """The bytes of all files; ValueError for an entry that states no size or no digest."""
    total = 0
    for entry in files.values():
        size = entry["bytes"]
        # True counts as a number, and of fewer than no bytes all would be read
        if type(size) is not int or size < 0 or not isinstance(entry["sha256"], str):
            raise ValueError("an entry has no size or no digest")
        total += size
    return total


def _check_names(members: Mapping[str, zipfile.ZipInfo], files: Mapping[str, Any]) -> None:
    """Compare the names of the members with those of the manifest."""
    for name in sorted(members):
        if name not in files and name != MANIFEST:
            raise _ArchiveFaultError(f"{name} was added")
    for name in sorted(files):
        if name not in members:
            raise _ArchiveFaultError(f"{name} is missing")


def _unpack_file(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, listed: Mapping[str, Any], target: Path
) -> None:
    """Write a file of the listed size and digest; no more bytes than these are unpacked."""
    remaining = listed["bytes"]
    digest = hashlib.sha256()
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as output, archive.open(member) as stream:
        while remaining:
            chunk = stream.read(min(CHUNK_BYTES, remaining))
            if not chunk:
                break
            digest.update(chunk)
            output.write(chunk)
            remaining -= len(chunk)
        longer = bool(stream.read(1))
    if remaining or longer or digest.hexdigest() != listed["sha256"]:
        raise _ArchiveFaultError(f"{member.filename} was changed")
