"""The store: content-addressed artifacts, step records and run folders, on disk or at an fsspec
URL.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
from filelock import AcquireReturnProxy, FileLock, Timeout

from evenhand.fairlib.file_digests import file_digests, sha256_of_file
from evenhand.tasks.errors import InputError, NotCarriedOut, disk_is_full, without_secrets
from evenhand.tasks.sources.databases import missing_package

FILES = {"mlflow.db", "mlflow.db.answers.json", "mlflow.db.lock"}
FOLDERS = {
    "artifacts",
    "cases",
    "charts",
    "leases",
    "locks",
    "mlflow-artifacts",
    "prefect",
    "runs",
    "steps",
    "studies",
    "tmp",
}
LOCK_TIMEOUT_S = 6 * 3600.0
ABANDONED_S = 72 * 3600.0  # longer than the time limit of any step


# coarse clocks of file systems
CLOCK_S = 2.0
# Leases of this process, by the store's local folder.
_LEASED: Counter[str] = Counter()


def default_store_url() -> str:
    """``EVENHAND_STORE``, or ``./evenhand-store``."""
    return os.environ.get("EVENHAND_STORE") or "evenhand-store"


def cache_folder(name: str) -> Path:
    """A folder of the user's cache, which all stores share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand" / name


@dataclass(frozen=True)
class Artifact:
    """Handle of a stored file or folder."""

    uri: str
    sha256: str  # of the bytes; of a folder the digest of its sorted listing of paths and digests
    kind: str  # its role, such as "model"
    size: int  # bytes
    files: dict[str, str]  # digest of each file of a folder; empty for a file


def sha256_of_path(path: Path) -> tuple[str, dict[str, str], int]:
    """Digest, digest of each file (of a folder) and size in bytes."""
    if path.is_file():
        return sha256_of_file(path), {}, path.stat().st_size
    files = file_digests(path)
    listing = json.dumps(files, sort_keys=True).encode()
    return (
        hashlib.sha256(listing).hexdigest(),
        files,
        sum((path / name).stat().st_size for name in files),
    )


@dataclass(frozen=True)
class StepRecord:
    """Record of a finished step: its outputs by name, facts about the result, and its duration."""

    step: str
    key: str
    outputs: dict[str, Artifact]
    facts: dict[str, Any]
    seconds: float

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> StepRecord:
        """Read the JSON form, which is that of :func:`dataclasses.asdict`."""
        outputs = {name: Artifact(**item) for name, item in content["outputs"].items()}
        return cls(content["step"], content["key"], outputs, content["facts"], content["seconds"])


def acquired(path: Path, busy: str) -> AcquireReturnProxy:
    """Lock between processes of this machine, for a ``with``; `NotCarriedOut` with the text `busy`
    if held.

    The operating system holds it on an open file, so that a killed process releases it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(path).acquire(timeout=0)
    except Timeout:
        raise NotCarriedOut(busy) from None


def is_local(filesystem: Any) -> bool:
    """Whether a file system of fsspec is this machine's disk."""
    protocol = filesystem.protocol
    return "file" in (protocol if isinstance(protocol, tuple) else (protocol,))


def _process_mark() -> str:
    """Beginning of the names of this process's temporary folders: its machine and number."""
    return f"{_machine()}-{os.getpid()}-"


def _machine() -> str:
    """Short digest of the machine's name: other machines may share a store's folder."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _is_of_ended_process(name: str) -> bool:
    """Whether a temporary folder is of a process of this machine that has ended."""
    match = re.match(rf"{_machine()}-(\d+)-", name)
    if match is None:
        return False
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


class Folder:
    """A folder on this machine's disk or at an fsspec URL; a file is moved there whole.

    `what` names it in the `InputError` of an address that cannot be opened.
    """

    def __init__(self, url: str, what: str) -> None:
        try:
            self.filesystem, self.root = fsspec.core.url_to_fs(os.path.expanduser(url))
        except (ImportError, ValueError):
            public_url = without_secrets(url)
            raise InputError(
                f"the {what} {public_url!r} cannot be opened: {missing_package(url)}"
            ) from None
        self.is_local = is_local(self.filesystem)

    def path(self, *parts: str) -> str:
        """Path on the file system."""
        return str(PurePosixPath(self.root, *parts))

    def move_in(self, source: Path, *parts: str) -> str:
        """Move a finished file to its place; return its path on the file system."""
        target = self.path(*parts)
        self.filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
        if self.is_local:
            source.replace(target)
        else:
            self.filesystem.put_file(str(source), target)
        return target

    def scratch(self) -> Path | None:
        """Local folder for temporary files; None for that of the system."""
        return None

    @contextmanager
    def workdir(self) -> Iterator[Path]:
        """A temporary folder, removed at the end."""
        folder = Path(tempfile.mkdtemp(dir=self.scratch(), prefix=_process_mark()))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _uri(self, path: str) -> str:
        return (
            str(Path(path).resolve())
            if self.is_local
            else str(self.filesystem.unstrip_protocol(path))
        )

    def write_text(self, text: str, *parts: str) -> str:
        """Write a small file atomically and return its URI."""
        with self.workdir() as folder:  # where `prune` finds the file of a killed run
            (folder / "text").write_text(text, encoding="utf-8")
            return self._uri(self.move_in(folder / "text", *parts))

    def read_text(self, *parts: str) -> str | None:
        """Content of a small file, or None if there is none."""
        try:
            return self.filesystem.cat_file(self.path(*parts)).decode()
        except FileNotFoundError:
            return None


class Store(Folder):
    """A folder of artifacts (`artifacts/`), step records (`steps/`) and runs (`runs/`).

    Files are written under a temporary name and renamed, so that a crash leaves no incomplete file
    under a final name. On an object store, where a put is atomic, a folder's files are written
    first and its record last. Locks and copies of remote artifacts are local.

    With `reading`, a local folder that exists need not be writable: nothing may be stored in it
    then.
    """

    def __init__(self, url: str | None = None, *, reading: bool = False) -> None:
        self.url = url or default_store_url()
        super().__init__(self.url, "store")
        self.local = Path(self.root) if self.is_local else self.local_folder(self.url)
        if re.search(r"\?|%[0-9A-Fa-f]{2}", str(self.local.resolve())):
            raise InputError(
                f"the store {self.url!r} has a ? or a % code in its path, which the address of its "
                "model registry cannot hold: choose another folder."
            )
        if reading and self.is_local and self.local.is_dir() and not os.access(self.local, os.W_OK):
            return
        try:
            self._make_private()
            probe = self.scratch() / f"write-{uuid.uuid4().hex}"
            probe.touch()
            probe.unlink()
            if not self.is_local:
                self.filesystem.pipe_file(self.path(probe.name), b"")
                self.filesystem.rm(self.path(probe.name))
        except Exception as error:  # noqa: BLE001 - every file system has its own exceptions
            if disk_is_full(error):
                raise NotCarriedOut(
                    f"the disk of the store {without_secrets(self.url)!r} is full: free some "
                    "space, then run again."
                ) from None
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise InputError(
                f"the store {without_secrets(self.url)!r} cannot be written ({reason}): "
                "set EVENHAND_STORE to a folder or URL that can."
            ) from None

    def _make_private(self) -> None:
        """Create the local folder; one that exists is closed to other users if it is a store, or
        empty.

        A folder with the set-group-id bit is shared on purpose and stays as it is. In a folder that
        holds other things too, the store's own folders are closed.
        """
        self.local.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = self.local.stat()
        if (
            not status.st_mode & 0o077
            or status.st_mode & stat.S_ISGID
            or status.st_uid != os.getuid()
        ):
            return
        entries = {item.name for item in self.local.iterdir()}
        if entries <= FOLDERS | FILES or "artifacts" in entries:
            self.local.chmod(0o700)
        else:
            for name in FOLDERS:
                (self.local / name).mkdir(exist_ok=True, mode=0o700)
            (self.local / "mlflow.db").touch(mode=0o600)

    @staticmethod
    def local_folder(url: str) -> Path:
        """Folder on this machine: the store itself, or a per-user cache of a remote store."""
        if "://" not in url:
            return Path(url)
        if url.startswith("file://"):
            return Path(url.removeprefix("file://"))
        readable = "".join(c if c.isalnum() else "-" for c in without_secrets(url))[:60]
        return cache_folder("stores") / f"{readable}-{Store.name_of(url)}"

    @staticmethod
    def name_of(url: str) -> str:
        """Short digest of a store's URL, for keys outside the store."""
        place = url if "://" in url else str(Path(url).resolve())
        return hashlib.sha256(place.encode()).hexdigest()[:12]

    def scratch(self) -> Path:
        """Local folder for temporary files, on the same file system as a local store."""
        folder = self.local / "tmp"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Exclusive lock between processes of this machine.

        The operating system holds it on an open file, so that a killed process releases it.
        """
        folder = self.local / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{name}.lock", timeout=LOCK_TIMEOUT_S):
            yield

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Keep :meth:`prune` from what this process uses within the block, and from what other
        leases use.

        The operating system holds the lease, so that a killed run holds none. What a run finds or
        stores is marked as used now; `prune` keeps what was used since the oldest lease began.
        """
        folder = self.local / "leases"
        place = str(self.local.resolve())
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{time.time_ns()}-{uuid.uuid4().hex}"
        held = FileLock(path)
        with self.lock("prune"):  # else prune could take it for that of a killed run
            self._remove_leftovers()
            held.acquire()
        _LEASED[place] += 1
        try:
            yield
        finally:
            _LEASED[place] -= 1
            path.unlink(missing_ok=True)
            held.release()

    def remove_leftovers(self) -> int:
        """Remove the leases and temporary folders of killed processes; return their number.

        Checkpoints stay: the next run goes on from them.
        """
        with self.lock("prune"):
            return self._remove_leftovers()

    def _remove_leftovers(self) -> int:
        leases = self.local / "leases"
        before = len(list(leases.glob("*-*")))
        self._oldest_lease()
        removed = before - len(list(leases.glob("*-*")))
        for folder in self.scratch().iterdir():
            if _is_of_ended_process(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
        return removed

    def remove_damaged_records(self) -> int:
        """Remove records of steps that cannot be read; return their number."""
        damaged = [path for path, record in self._records() if record is None]
        return sum(self._delete(path) for path in damaged)

    def _oldest_lease(self) -> float | None:
        """Time since which what was used is kept; None if no run holds a lease."""
        started = []
        for path in (self.local / "leases").glob("*-*"):
            try:
                with FileLock(path, timeout=0):
                    path.unlink(missing_ok=True)  # of a killed run
            except Timeout:
                started.append(int(path.name.partition("-")[0]) / 1e9)
        if not started:
            return None
        return min(started) - CLOCK_S

    def _use(self, path: str) -> None:
        """Mark a file or folder as used now, where a lease is held."""
        if self.is_local and _LEASED[str(self.local.resolve())]:
            with self.lock("prune"), suppress(FileNotFoundError):
                os.utime(path)

    def put(self, source: Path, kind: str) -> Artifact:
        """Move a finished file or folder into the store, under the digest of its content."""
        digest, files, size = sha256_of_path(source)
        name = digest
        if source.is_file():
            name += "".join(source.suffixes)
        final = self.path("artifacts", kind, name)
        if self.is_local:
            target = Path(final)
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists() and sha256_of_path(target)[0] != digest:
                _remove(target)
            self._use(final)
            if not target.exists():
                try:
                    source.rename(target)
                except OSError:
                    if not target.exists():  # else another run has just stored the same content
                        raise
        elif source.is_file():
            self.filesystem.put_file(str(source), final)
        else:
            # File by file: the result of a recursive put depends on whether the target exists.
            for member in files:
                place = f"{final}/{member}"
                self.filesystem.makedirs(place.rpartition("/")[0], exist_ok=True)
                self.filesystem.put_file(str(source / member), place)
        return Artifact(self._uri(final), digest, kind, size, files)

    def fetch(self, artifact: Artifact) -> Path:
        """Local path of an artifact, whose bytes are checked against the digest.

        Raises `NotCarriedOut` if the artifact is missing or was changed.
        """
        path = self._whole_copy(artifact)
        if path is None:
            raise NotCarriedOut(
                f"the {artifact.kind} artifact {artifact.sha256[:12]} is missing from the store or "
                "damaged: run again."
            )
        return path

    def _whole_copy(self, artifact: Artifact) -> Path | None:
        path = self._local_copy(artifact)
        if path is None or sha256_of_path(path)[0] != artifact.sha256:
            return None
        return path

    def _local_copy(self, artifact: Artifact) -> Path | None:
        if "://" not in artifact.uri:  # in a local store, or a user's own file
            path = Path(artifact.uri)
            if path.exists():
                return path
            return None
        remote = self.filesystem._strip_protocol(artifact.uri)
        if not self.filesystem.exists(remote):
            return None
        copy = self.local / "artifacts" / PurePosixPath(artifact.uri).name
        if copy.exists() and sha256_of_path(copy)[0] != artifact.sha256:
            _remove(copy)
        if not copy.exists():
            with self.workdir() as folder:
                part = folder / "part"
                for member in artifact.files or [""]:
                    target = part / member
                    target.parent.mkdir(parents=True, exist_ok=True)
                    place = remote
                    if member:
                        place = f"{remote}/{member}"
                    if not self.filesystem.exists(place):
                        return None
                    self.filesystem.get_file(place, str(target))
                copy.parent.mkdir(parents=True, exist_ok=True)
                with suppress(OSError):  # another run has just copied it
                    part.rename(copy)
        return copy

    def is_whole(self, artifact: Artifact) -> bool:
        """Whether the artifact exists and its bytes are unchanged."""
        return self._whole_copy(artifact) is not None

    def exists(self, *parts: str) -> bool:
        """Whether the file exists."""
        return bool(self.filesystem.exists(self.path(*parts)))

    def uri(self, *parts: str) -> str:
        """Address of a file of the store."""
        return self._uri(self.path(*parts))

    def runs(self) -> list[str]:
        """Ids of all runs, oldest first; other files in the same folder are ignored."""
        entries = self.filesystem.glob(self.path("runs", "*"), detail=True)
        return sorted(
            path.rsplit("/", 1)[-1] for path, facts in entries.items() if facts["type"] != "file"
        )

    def runs_with(self, name: str) -> dict[str, str]:
        """Path in the file system of the file `name` of each run that has it, from one listing."""
        return {
            path.rsplit("/", 2)[-2]: path
            for path in self.filesystem.glob(self.path("runs", "*", name))
        }

    def find(self, step: str, key: str) -> StepRecord | None:
        """Record of a finished step, if all its outputs are unchanged; else None."""
        self._use(self.path("steps", step, f"{key}.json"))
        text = self.read_text("steps", step, f"{key}.json")
        if text is None:
            return None
        record = _record(text)
        if record is None:
            return None
        for artifact in record.outputs.values():
            if not self.is_whole(artifact):
                return None
        return record

    def parts(self, step: str, alike: str) -> dict[str, tuple[Path, str]]:
        """Files of a step's results, and their digests, by what each was made of.

        That is in the facts of their records, with `alike`, a digest of what all files depend on. A
        remote store gives none.
        """
        return {
            key: (Path(record.outputs[name].uri) / file, record.outputs[name].files[file])
            for _, record in (self._records(step) if self.is_local else ())
            if record is not None and record.facts.get("alike") == alike
            for key, (name, file) in record.facts["parts"].items()
        }

    def save(self, record: StepRecord) -> None:
        """Write a step's record: the step then counts as done."""
        self.write_text(
            json.dumps(asdict(record), sort_keys=True), "steps", record.step, f"{record.key}.json"
        )

    def forget(self, step: str, key: str) -> None:
        """Remove a record, so that its step runs again."""
        path = self.path("steps", step, f"{key}.json")
        if self.filesystem.exists(path):
            self.filesystem.rm(path)

    def _records(self, step: str = "*") -> Iterator[tuple[str, StepRecord | None]]:
        """Every record's path and content, or those of a step; None for a damaged one."""
        for path in self.filesystem.glob(self.path("steps", step, "*.json")):
            with suppress(FileNotFoundError):  # a run has just removed it
                yield path, _record(self.filesystem.cat_file(path))

    def usage(self) -> list[dict[str, Any]]:
        """Every step record with the size of its outputs and its age, newest first."""
        now = time.time()
        rows = []
        for path, record in self._records():
            if record is None:
                continue
            try:
                modified = self._used(path)
            except FileNotFoundError:
                continue
            rows.append(
                {
                    "step": record.step,
                    "key": record.key,
                    "bytes": sum(artifact.size for artifact in record.outputs.values()),
                    "age_s": max(0.0, now - modified),
                }
            )
        return sorted(rows, key=lambda row: row["age_s"])

    def prune(self, keep: int) -> tuple[int, int]:
        """Keep the newest `keep` records of every step, and their artifacts; delete all others.

        Cached images of charts are deleted too: pages contain copies. What runs use that are under
        way is kept. Returns the numbers of deleted records and bytes. Raises `NotCarriedOut` for a
        remote store that a run of this machine uses.
        """
        if not self.is_local and self._oldest_lease() is not None:
            raise NotCarriedOut("a run uses this store: delete cached steps when it has ended.")
        kept_records: dict[str, int] = {}
        removed = 0
        for path in [path for path, record in self._records() if record is None]:
            removed += self._delete(path)
        for row in self.usage():
            kept_records[row["step"]] = kept_records.get(row["step"], 0) + 1
            if kept_records[row["step"]] > keep:
                removed += self._delete(self.path("steps", row["step"], f"{row['key']}.json"))
        alive = {
            item.uri for _, record in self._records() if record for item in record.outputs.values()
        }
        freed = 0
        pictures = self.filesystem.glob(self.path("charts", "*"))
        for path in [*self.filesystem.glob(self.path("artifacts", "*", "*")), *pictures]:
            if self._uri(path) not in alive:
                with suppress(FileNotFoundError):
                    size = self._own_bytes(path)
                    freed += size if self._delete(path) else 0
        for unfinished in [*self.scratch().iterdir(), *self.local.glob("*.part")]:  # by killed runs
            with suppress(OSError):
                if time.time() - unfinished.stat().st_mtime > ABANDONED_S:
                    _remove(unfinished)
        return removed, freed

    def _own_bytes(self, path: str) -> int:
        """Size of a file or folder, without files that are parts of other artifacts too."""
        if not self.is_local:
            return int(self.filesystem.du(path))
        file_stats = (
            item.stat() for item in (Path(path), *Path(path).rglob("*")) if item.is_file()
        )
        return sum(item.st_size for item in file_stats if item.st_nlink == 1)

    def _used(self, path: str) -> float:
        """Time of a file's last use or change."""
        modified: datetime.datetime = self.filesystem.modified(path)
        return (modified if modified.tzinfo else modified.replace(tzinfo=datetime.UTC)).timestamp()

    def _delete(self, path: str) -> bool:
        """Delete a file or folder unless it was used since the oldest lease began; whether it was
        deleted.
        """
        with self.lock("prune"), suppress(FileNotFoundError):
            since = self._oldest_lease()  # again for each: a run may have just begun
            if since is None or self._used(path) < since:
                self.filesystem.rm(path, recursive=True)
                return True
        return False


def _record(text: str | bytes) -> StepRecord | None:
    """Read a record; None if it is damaged."""
    try:
        return StepRecord.from_dict(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
