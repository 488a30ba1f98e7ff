"""The output of a filter run: parts, records and quarantine, each there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import fsspec
from filelock import FileLock, Timeout

from evenhand.tasks.artifacts import sha256_of_file
from evenhand.tasks.errors import InputError, NotCarriedOut, without_secrets
from evenhand.tasks.filtering.inputs import os_reason
from evenhand.tasks.filtering.records import Part, UnitRecord

__all__ = ["OutputFolder"]

STATE = "_evenhand"
PART_NAME = re.compile(r"part-[0-9a-f]{16}-[0-9]{5}\.parquet")


class OutputFolder:
    """
    A folder or URL with parts, and below ``_evenhand/`` the records, the quarantine and what is unfinished.

    On a local disk files are written under a temporary name and renamed; to an object store they are sent
    whole. A unit's record is written last: a part without one does not count.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.shown = without_secrets(url)
        try:
            self.filesystem, root = fsspec.core.url_to_fs(os.path.expanduser(url))
        except (ImportError, ValueError) as error:
            raise InputError(f"the output {self.shown} cannot be opened: {error}") from None
        self.root = str(root).rstrip("/")
        protocol = self.filesystem.protocol
        self.is_local = "file" in (protocol if isinstance(protocol, tuple) else (protocol,))

    def path(self, *parts: str) -> str:
        """Path on the file system."""
        return str(PurePosixPath(self.root, *parts))

    @contextmanager
    def held(self) -> Iterator[None]:
        """
        Be the only writer, among the processes of this machine.

        The lock is the operating system's and dies with its process.

        Raises
        ------
        NotCarriedOut
            Another run holds it, or the folder cannot be written.
        """
        try:
            if self.is_local:
                place = Path(self.path(STATE))
                place.mkdir(parents=True, exist_ok=True)
            else:
                place = Path(tempfile.gettempdir()) / "evenhand-locks"
                place.mkdir(exist_ok=True)
            name = "lock" if self.is_local else hashlib.sha256(self.url.encode()).hexdigest()[:24]
            lock = FileLock(place / name, timeout=0)
            lock.acquire()
        except Timeout:
            raise NotCarriedOut(
                f"another run is writing to {self.shown}: wait for it, or choose another output."
            ) from None
        except OSError as error:
            raise NotCarriedOut(f"the output {self.shown} cannot be written ({os_reason(error)}).") from None
        try:
            yield
        finally:
            lock.release()

    def prepare(self, root: str) -> None:
        """
        Take the folder for an input, and clear away what an interrupted run left.

        Raises
        ------
        InputError
            The folder holds other files, or the filtered rows of another input.
        """
        self.filesystem.invalidate_cache()
        note = self.path(STATE, "input.json")
        given = without_secrets(root)
        if self.filesystem.exists(note):
            known = json.loads(self.filesystem.cat_file(note)).get("root")
            if known != given:
                raise InputError(
                    f"{self.shown} holds the filtered rows of {known}, not of {given}: "
                    "choose another output, for files of one name would replace each other."
                )
        else:
            self._refuse_strangers()
            self._write(json.dumps({"root": given}).encode(), STATE, "input.json")
        if self.is_local:
            shutil.rmtree(self.path(STATE, "tmp"), ignore_errors=True)

    def _refuse_strangers(self) -> None:
        if not self.filesystem.exists(self.root):
            return
        names = [PurePosixPath(item).name for item in self.filesystem.ls(self.root, detail=False)]
        others = [name for name in names if not name.startswith(("_", "."))]
        if others:
            raise InputError(f"{self.shown} holds other files already: choose an empty folder.")

    # writing

    @contextmanager
    def workdir(self) -> Iterator[Path]:
        """A local folder for unfinished files, on the output's own disk if that is local."""
        base = None
        if self.is_local:
            base = self.path(STATE, "tmp")
            Path(base).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=base))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def put(self, source: Path, *parts: str) -> Part:
        """Move a finished file to its place."""
        part = Part("/".join(parts), source.stat().st_size, sha256_of_file(source))
        target = self.path(*parts)
        if self.is_local:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
        else:
            self.filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
            self.filesystem.put_file(str(source), target)
        return part

    def write_record(self, record: UnitRecord) -> None:
        """Write a unit's record: from now on the unit is done."""
        text = json.dumps(record.to_dict(), sort_keys=True)
        self._write(text.encode(), STATE, "records", record_name(record.stem, record.index))

    def _write(self, content: bytes, *parts: str) -> None:
        target = self.path(*parts)
        if self.is_local:
            with self.workdir() as folder:
                unfinished = folder / uuid.uuid4().hex
                unfinished.write_bytes(content)
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                unfinished.replace(target)
        else:
            self.filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
            self.filesystem.pipe_file(target, content)

    # reading

    def records(self) -> list[UnitRecord]:
        """Every readable record, ordered by file and index."""
        folder = self.path(STATE, "records")
        if not self.filesystem.exists(folder):
            return []
        found = []
        for place in self.filesystem.ls(folder, detail=False):
            try:
                found.append(UnitRecord.from_dict(json.loads(self.filesystem.cat_file(place))))
            except (ValueError, TypeError, KeyError, AttributeError):
                continue
        return sorted(found, key=lambda record: (record.file, record.index))

    def is_whole(self, record: UnitRecord) -> bool:
        """
        Whether a record's parts are there as they were written.

        Local parts are read and held against their digest. An object store keeps whole objects and checks
        them itself, so there the size must do.
        """
        for part in record.parts:
            place = self.path(*part.name.split("/"))
            if not self.filesystem.exists(place) or self.filesystem.size(place) != part.size:
                return False
            if self.is_local and sha256_of_file(Path(place)) != part.sha256:
                return False
        return True

    # removing

    def remove(self, stem: str, index: int) -> None:
        """Remove a unit: its record first, so that no record ever stands without its parts."""
        name = f"part-{stem}-{index:05d}.parquet"
        for place in (
            self.path(STATE, "records", record_name(stem, index)),
            self.path(name),
            self.path(STATE, "quarantine", name),
        ):
            if self.filesystem.exists(place):
                self.filesystem.rm_file(place)

    def units(self) -> set[tuple[str, int]]:
        """Stem and index of every unit that has left a trace, finished or not."""
        found = set()
        for folder in ((), (STATE, "quarantine"), (STATE, "records")):
            place = self.path(*folder)
            if not self.filesystem.exists(place):
                continue
            for item in self.filesystem.ls(place, detail=False):
                name = PurePosixPath(item).name
                if folder == (STATE, "records"):
                    name = f"part-{name.removesuffix('.json')}.parquet"
                if PART_NAME.fullmatch(name):
                    stem, index = name[5:].removesuffix(".parquet").split("-")
                    found.add((stem, int(index)))
        return found


def record_name(stem: str, index: int) -> str:
    """File name of a unit's record."""
    return f"{stem}-{index:05d}.json"
