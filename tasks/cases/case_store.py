"""The case store: files of cases for their owner only, and a log whose chain holds salted digests.

Every case has a folder with its files and 32 random bytes, its salt. A record of the log has the
HMAC-SHA256 of ``case.json`` and of each page under the salt, and no value of a person: without the
salt nobody can test a guess. A case is deleted with its salt, after which its digests say nothing,
and the chain can still be verified. Records are signed as those of the registry are.

Files are first written next to the case, then recorded, then moved into its place. What a kill left
of that, or of a deletion, the next writer finishes.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.fingerprint import now
from evenhand.tasks.registry.ledger import Record, actor
from evenhand.tasks.registry.signed_records import KEY_VARIABLE, signer, with_signature

# The name of the chain, which signatures cover.
CHAIN_NAME = "evenhand.cases"
LOG = "log.jsonl"
CASE = "case.json"
SALT = "salt"
CASE_ID = re.compile(r"[0-9a-f]{16}")
KINDS = ("case", "review", "replay", "deletion")
SALT_BYTES = 32


def new_case() -> str:
    """A random name of a case, which says nothing about a person."""
    return secrets.token_hex(8)


@dataclass(frozen=True)
class Log:
    """Records of the log in their order, and what is wrong, in sentences."""

    records: Sequence[Record]
    faults: Sequence[str] = ()

    def last_of(self) -> dict[str, Record]:
        """The last record of each case."""
        return {record.content["case"]: record for record in self.records}


@dataclass
class CaseStore:
    """Cases in a folder that only its owner may read (0700; files 0600)."""

    folder: Path
    _records: list[Record] | None = field(default=None, repr=False)

    @property
    def log_file(self) -> Path:
        """File of the log, one record a line."""
        return self.folder / LOG

    def place(self, case: str) -> Path:
        """Folder of a case; an `InputError` for a text that names none."""
        if CASE_ID.fullmatch(case) is None:
            raise InputError(f"{case!r} names no case: give the 16 digits that `case ls` prints.")
        return self.folder / "files" / case

    def find(self, text: str) -> str:
        """The id of a case that a person names by its id, folder or file; an `InputError` if there
        is none.
        """
        path = Path(text)
        case = text
        # a file of the working folder that has the name of a case leads to no other case
        if CASE_ID.fullmatch(text) is None and path.exists():
            case = path.resolve().name if path.is_dir() else path.resolve().parent.name
        if not (self.place(case) / CASE).is_file():
            raise InputError(
                f"there is no case {case} in {self.folder}: `evenhand case ls` lists them."
            )
        return case

    # reading

    def log(self) -> Log:
        """Read the log and check that its records follow each other."""
        records: list[Record] = []
        faults = []
        previous = ""
        for place, line in enumerate(self._lines(), 1):
            record = Record.read(line, str(place))
            if record is None or not _is_about_a_case(record):
                faults.append(f"line {place} of the log is no record: it was changed")
                previous = hashlib.sha256(line.encode()).hexdigest()
                continue
            if record.previous != previous:
                faults.append(f"a record before line {place} of the log was changed or taken out")
            if records and record.number != records[-1].number + 1:
                faults.append(
                    f"line {place} of the log has the number {record.number}, expected "
                    f"{records[-1].number + 1}"
                )
            records.append(record)
            previous = record.digest
        return Log(records, faults)

    def _lines(self) -> list[str]:
        """Whole lines of the log; what a write that was cut off left is none."""
        if not self.log_file.is_file():
            return []
        text = self.log_file.read_text()
        whole, _, _ = text.rpartition("\n")
        return whole.split("\n") if whole else []

    def read(self, case: str, last: Record | None = None) -> dict[str, Any]:
        """The content of a case; an `InputError` if its file was changed since its last record.

        `last` is that record, for a caller who has read the log already.
        """
        folder = None
        if last is not None:
            folder = self._recorded_folder(case, last)
        if folder is None:
            # without a record, or where another writer has added one since
            last = self.log().last_of().get(case)
            if last is not None:
                folder = self._recorded_folder(case, last)
        if folder is None:
            raise InputError(
                f"the file of the case {case} is not what was recorded: `evenhand case verify` "
                "names all that differ."
            )
        content: dict[str, Any] = json.loads((folder / CASE).read_bytes())
        return content

    def page(self, case: str, name: str) -> str | None:
        """A page of a case; None if no record has its digest, because an older version wrote it.

        Raises `InputError` if the page is not what was recorded.
        """
        last = self.log().last_of().get(case)
        recorded = last.content.get("pages") if last is not None else None
        if recorded is None:
            return None
        for folder in (self.place(case), self._part(case)):
            if name in recorded and self._digest(folder, name) == recorded[name]:
                return (folder / name).read_text(encoding="utf-8")
        raise InputError(f"the page {name} of the case {case} is not what was recorded.")

    def _part(self, case: str) -> Path:
        """Folder in which the next files of a case wait for their record."""
        return self.place(case).with_name(f".{case}")

    def _recorded_folder(self, case: str, last: Record) -> Path | None:
        """The folder with the content that a case's last record has; None if there is none."""
        for folder in (self.place(case), self._part(case)):
            digest = self._digest(folder, CASE)
            if digest is not None and digest == last.content.get("digest"):
                return folder
        return None

    def _digest(self, folder: Path, name: str) -> str | None:
        """The digest of a file under the salt of its case; None if it cannot be read."""
        if folder.is_symlink():
            return None
        try:
            salt = (folder / SALT).read_bytes()
            content = (folder / name).read_bytes()
        except OSError:
            return None
        return hmac.new(salt, content, hashlib.sha256).hexdigest()

    # writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the log's lock; of several records the log is read once."""
        _make_folder(self.folder)
        _make_folder(self.folder / "files")
        with FileLock(self.folder / "log.lock", mode=0o600):
            read = self.log()
            if read.faults:
                raise NotCarriedOut(
                    f"nothing was recorded: {read.faults[0]}. `evenhand case verify` names all."
                )
            self._cut_partial_line()
            self._finish(read)
            self._records = list(read.records)
            try:
                yield
            finally:
                self._records = None

    def _cut_partial_line(self) -> None:
        if not self.log_file.is_file():
            return
        data = self.log_file.read_bytes()
        if data and not data.endswith(b"\n"):
            with self.log_file.open("r+b") as file:
                file.truncate(data.rfind(b"\n") + 1)

    def _finish(self, log: Log) -> None:
        """Move the recorded files of a writer that was killed into their place, and delete its
        others, and what is left of deleted cases.
        """
        last = log.last_of()
        for case, record in last.items():
            if record.kind == "deletion" and self.place(case).exists():
                self._remove(case)
            part = self._part(case)
            if part.is_dir() and self._digest(part, CASE) == record.content.get("digest"):
                self._move(case)
        for part in (self.folder / "files").glob(".*"):
            if part.is_symlink():
                part.unlink()
            elif CASE_ID.fullmatch(part.name[1:]):
                shutil.rmtree(part, ignore_errors=True)

    def add(self, content: Mapping[str, Any], files: Mapping[str, str | bytes]) -> str:
        """Write the files of a new case and its record, within :meth:`writing`; return its id."""
        case = str(content["case"])
        model = content["model"]["uri"]
        facts = {"keep_until": content["keep_until"], "model": model}
        self._write_recorded("case", content, files, secrets.token_bytes(SALT_BYTES), facts)
        return case

    def update(
        self, kind: str, content: Mapping[str, Any], files: Mapping[str, str | bytes]
    ) -> None:
        """Replace the files of a case, and record why, within :meth:`writing`."""
        salt = (self.place(str(content["case"])) / SALT).read_bytes()
        self._write_recorded(kind, content, files, salt, {})

    def delete(self, case: str, reason: str) -> None:
        """Delete the files and the salt of a case, and record it, within :meth:`writing`.

        Raises `NotCarriedOut` if files are left.
        """
        self._append("deletion", {"case": case, "reason": reason})
        self._remove(case)

    def _remove(self, case: str) -> None:
        folder = self.place(case)
        if folder.is_symlink():
            folder.unlink()
            raise NotCarriedOut(
                f"the folder of the case {case} was a link, which is deleted: its files are "
                "elsewhere, so delete them there."
            )
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise NotCarriedOut(
                f"the folder {folder} of the case {case} could not be deleted: delete it."
            )

    def _write_recorded(
        self,
        kind: str,
        content: Mapping[str, Any],
        files: Mapping[str, str | bytes],
        salt: bytes,
        facts: Mapping[str, Any],
    ) -> None:
        """Write all files of a case next to it, record their digests, and move them into place."""
        case = str(content["case"])
        part = self._part(case)
        _make_folder(part)
        _write(part / SALT, salt)
        for name, page in files.items():
            _write(part / name, page if isinstance(page, bytes) else page.encode())
        text = json.dumps(dict(content), indent=1, sort_keys=True, ensure_ascii=False)
        _write(part / CASE, text.encode())
        digests = {
            "digest": self._digest(part, CASE),
            "pages": {name: self._digest(part, name) for name in files},
        }
        self._append(kind, {"case": case, **digests, **facts})
        self._move(case)

    def _move(self, case: str) -> None:
        """Put the files that were recorded in place of those before."""
        folder = self.place(case)
        if folder.is_symlink():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        self._part(case).rename(folder)

    def _append(self, kind: str, content: Mapping[str, Any]) -> None:
        assert self._records is not None
        number = 1
        previous = ""
        if self._records:
            number = self._records[-1].number + 1
            previous = self._records[-1].digest
        fields: dict[str, Any] = {
            "number": number,
            "when": now(),
            "who": actor(),
            "kind": kind,
            "content": dict(content),
            "previous": previous,
        }
        if os.environ.get(KEY_VARIABLE):
            fields = with_signature(fields, CHAIN_NAME)
        line = json.dumps(fields, sort_keys=True)
        descriptor = os.open(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        record = Record.read(line, str(number))
        assert record is not None
        self._records.append(record)

    # checking

    def faults(
        self, keys: Sequence[str] = (), anchor: Mapping[str, Any] | None = None
    ) -> list[str]:
        """Say what is wrong with the log and the files, in sentences.

        With `keys` every record must be signed by one of these public keys. `anchor` is an earlier
        end of the log that must still be in it.
        """
        log = self.log()
        faults = [*log.faults]
        for record in log.records:
            record_signer = signer(CHAIN_NAME, record)
            if record.record_key and not record_signer:
                faults.append(f"the signature of record {record.number} is false")
            elif keys and record_signer not in keys:
                faults.append(f"record {record.number} is not signed by a key of --signed-by")
        if anchor is not None:
            faults += _anchor_faults(log, anchor)
        last = log.last_of()
        for case, record in last.items():
            faults += self._file_faults(case, record)
        files = self.folder / "files"
        present = sorted(path.name for path in files.iterdir()) if files.is_dir() else []
        for name in present:
            case = name.removeprefix(".")
            if case not in last:
                faults.append(f"the folder files/{name} is of no recorded case: delete it")
        return faults

    def _file_faults(self, case: str, record: Record) -> list[str]:
        if CASE_ID.fullmatch(case) is None:
            return [f"record {record.number} names no case"]
        folder = self.place(case)
        if record.kind == "deletion":
            if folder.exists():
                return [f"the case {case} was deleted, and its folder is still there"]
            return []
        recorded = self._recorded_folder(case, record)
        if recorded is None:
            if self._digest(folder, CASE) is None:
                return [f"the files of the case {case} are missing, and no record deletes it"]
            return [f"the file of the case {case} was changed after record {record.number}"]
        return self._page_faults(case, recorded, record)

    def _page_faults(self, case: str, folder: Path, record: Record) -> list[str]:
        """Say which pages of a case differ from their digests, and which files no record has."""
        pages = record.content.get("pages")
        if not isinstance(pages, Mapping):
            return []  # an older version recorded none
        faults = []
        for name, digest in pages.items():
            if self._digest(folder, str(name)) != digest:
                faults.append(f"{name} of the case {case} was changed after record {record.number}")
        names = {CASE, SALT, *pages}
        for path in sorted(folder.iterdir()):
            if path.name not in names:
                faults.append(f"{path.name} of the case {case} is in no record")
        return faults

    def anchor(self) -> dict[str, Any]:
        """The end of the log, to keep where its writers cannot reach it."""
        records = self.log().records
        if not records:
            raise InputError(f"{self.folder} has no case yet: `evenhand case MODEL` makes one.")
        return {"name": CHAIN_NAME, "number": records[-1].number, "digest": records[-1].digest}


def _is_about_a_case(record: Record) -> bool:
    """Whether a record is of a kind of this log, names a case, and has a day if one is kept."""
    case = record.content.get("case")
    if record.kind not in KINDS or not isinstance(case, str) or not CASE_ID.fullmatch(case):
        return False
    if record.kind != "case":
        return True
    try:
        datetime.date.fromisoformat(record.content["keep_until"])
    except (KeyError, TypeError, ValueError):
        return False
    return True


def _anchor_faults(log: Log, anchor: Mapping[str, Any]) -> list[str]:
    """What a log lacks of the one whose end was kept."""
    if not {"name", "number", "digest"} <= set(anchor) or anchor["name"] != CHAIN_NAME:
        raise InputError("the anchor is no file that `evenhand case verify --anchor` wrote.")
    if any(record.digest == anchor["digest"] for record in log.records):
        return []
    return [f"record {anchor['number']}, which the anchor names, was changed or taken out"]


def _make_folder(folder: Path) -> None:
    """Create a folder that only its owner may read; one that exists becomes so."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as error:
        raise NotCarriedOut(
            f"the case store {folder} cannot be written ({error.strerror})."
        ) from None


def _write(path: Path, content: bytes) -> None:
    """Write a file for its owner only, whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    part.replace(path)
