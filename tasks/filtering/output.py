"""The output of a run over files, each unit complete or absent; `output_table` has that in a
database.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from evenhand.tasks.errors import InputError, NotCarriedOut, without_secrets
from evenhand.tasks.execution.store import Folder, acquired, sha256_of_file
from evenhand.tasks.sources.table_reader import os_reason

if TYPE_CHECKING:
    from evenhand.tasks.filtering.in_database import Pushed

STATE = "_evenhand"
RECORDS = (STATE, "records")
QUARANTINE = (STATE, "quarantine")
UNIT_FILE = re.compile(r"(?:part-)?([0-9a-f]{16}-[0-9]{5,})\.(?:parquet|json)")


def unit_name(file: str, index: int) -> str:
    """Name of a unit, in the names of its files; it depends only on the file's relative name."""
    return f"{hashlib.sha256(file.encode()).hexdigest()[:16]}-{index:05d}"


@dataclass(frozen=True)
class Part:
    """A written file: its name below the output, bytes and sha256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class UnitRecord:
    """Counts of one finished unit; no row and no time."""

    file: str  # name, size and version identify the input file
    size: int
    version: str
    index: int  # of the unit within the file
    last: bool  # whether the file ends with the unit
    proxy: str  # digest of the model, a proxy or a classifier
    proxy_version: str
    settings: str  # digest
    rows_in: int
    rows_out: int
    quarantined: int  # rows set aside for breaking the contract
    dropped: int  # rows left out for a missing sensitive value
    expected: float  # expected number of accepted rows; of a classifier the positive predictions
    masses: tuple[
        float, ...
    ]  # sums of the rows' shares in proxy groups; of a classifier in bins of probability
    left_out: tuple[str, ...]  # sensitive columns that the output lacks
    part: Part | None  # None: no row of a file, or of Parquet for a database, is in the output
    set_aside: Part | None  # None: no row was set aside
    outside: int = 0  # rows outside bounds that were only observed, used or set aside
    outside_columns: dict[str, int] = field(default_factory=dict)  # how many, by column
    format: Literal[1] = 1  # of the record

    @property
    def unit(self) -> str:
        """Name of the unit."""
        return unit_name(self.file, self.index)


RECORD = TypeAdapter(UnitRecord)


def read_records(texts: Iterable[bytes | str]) -> list[UnitRecord]:
    """Read every readable record from JSON, ordered by file and index."""
    records = []
    for text in texts:
        with suppress(ValueError):
            records.append(RECORD.validate_json(text))
    return sorted(records, key=lambda record: (record.file, record.index))


class OutputFolder(Folder):
    """A folder or URL with parts, and below ``_evenhand/`` the records, the quarantine and
    unfinished files.

    On a local disk files are written under a temporary name and renamed; to an object store they
    are sent whole. A unit's record is written last: a part without a record does not count.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, "output")
        self.url = url
        self.shown = without_secrets(url)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the output's lock; a `NotCarriedOut` if another run of this machine holds it."""
        name = hashlib.sha256(self.url.encode()).hexdigest()[:24]
        place = Path(tempfile.gettempdir(), "evenhand-locks", name)
        if self.is_local:
            place = Path(self.path(STATE), "lock")
        try:
            lock = acquired(
                place,
                f"another run is writing to {self.shown}: wait for it, or choose another output.",
            )
        except OSError as error:
            raise NotCarriedOut(
                f"the output {self.shown} cannot be written ({os_reason(error)}): "
                "choose another with --output."
            ) from None
        with lock:
            try:
                yield
            finally:
                self._remove_if_unused(place)

    def _remove_if_unused(self, lock: Path) -> None:
        """Remove the lock, and the folders made for it, where a run ended before it wrote."""
        if not self.is_local or any(path != lock for path in lock.parent.iterdir()):
            return
        with suppress(OSError):  # the user's folder may hold other files
            lock.unlink()
            lock.parent.rmdir()
            lock.parent.parent.rmdir()

    def prepare(self, root: str, section: str = "filter") -> None:
        """Reserve the folder for an input and a verb, and remove unfinished files of an interrupted
        run.

        Raises `InputError` if the folder holds other files, or the output of another input or verb.
        """
        public_root = without_secrets(root)
        note = self.note()
        if note is None:
            note = {"root": public_root}
            if section != "filter":
                note["section"] = section
            self.claim(note)
        verb = note.get("section", "filter")
        if verb != section:
            raise InputError(f"{self.shown} holds the output of `evenhand {verb}`: choose another.")
        if note.get("root") != public_root:
            raise InputError(
                f"{self.shown} holds the rows of {note.get('root')}, not of {public_root}: "
                "choose another output, for files of one name would replace each other."
            )
        if self.is_local:
            shutil.rmtree(self.path(STATE, "tmp"), ignore_errors=True)

    def note(self) -> dict[str, Any] | None:
        """Input and verb of the output; None if it is not reserved."""
        self.filesystem.invalidate_cache()
        note = self.read_text(STATE, "input.json")
        if note is None:
            return None
        content: dict[str, Any] = json.loads(note)
        return content

    def claim(self, note: dict[str, Any]) -> None:
        """Write the note; an `InputError` if the folder holds other files."""
        if any(not name.startswith(("_", ".")) for name in self._names()):
            raise InputError(f"{self.shown} holds other files already: choose an empty folder.")
        self.write_text(json.dumps(note), STATE, "input.json")

    def _names(self, *folder: str) -> list[str]:
        """Names in a folder of the output."""
        place = self.path(*folder)
        if not self.filesystem.exists(place):
            return []
        return [PurePosixPath(item).name for item in self.filesystem.ls(place, detail=False)]

    def scratch(self) -> Path | None:
        """Local folder for unfinished files, on the output's own disk if the output is local."""
        if not self.is_local:
            return None
        folder = Path(self.path(STATE, "tmp"))
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def put(self, source: Path, *parts: str) -> Part:
        """Move a finished file to its place."""
        part = Part("/".join(parts), source.stat().st_size, sha256_of_file(source))
        self.move_in(source, *parts)
        return part

    def write_record(self, record: UnitRecord, pushed: Pushed | None = None) -> None:
        """Write a unit's record: the unit then counts as done; `pushed` is for databases."""
        self.write_text(json.dumps(asdict(record), sort_keys=True), *RECORDS, f"{record.unit}.json")

    def remove(self, unit: str) -> None:
        """Remove a unit: its record first, so that no record remains without its parts."""
        part = f"part-{unit}.parquet"
        for place in (
            self.path(*RECORDS, f"{unit}.json"),
            self.path(part),
            self.path(*QUARANTINE, part),
        ):
            if self.filesystem.exists(place):
                self.filesystem.rm_file(place)

    def records(self) -> list[UnitRecord]:
        """Every readable record, ordered by file and index."""
        places = [self.path(*RECORDS, name) for name in self._names(*RECORDS)]
        return read_records(map(self.filesystem.cat_file, places))

    def is_whole(self, record: UnitRecord) -> bool:
        """Whether a record's parts are unchanged; an object store checks objects itself, so size
        suffices.
        """
        for part in (record.part, record.set_aside):
            if part is None:
                continue
            place = self.path(*part.name.split("/"))
            if not self.filesystem.exists(place) or self.filesystem.size(place) != part.size:
                return False
            if self.is_local and sha256_of_file(Path(place)) != part.sha256:
                return False
        return True

    def units(self) -> set[str]:
        """Names of all units that have any file, finished or not."""
        units = set()
        for folder in ((), QUARANTINE, RECORDS):
            for name in self._names(*folder):
                match = UNIT_FILE.fullmatch(name)
                if match:
                    units.add(match[1])
        return units
