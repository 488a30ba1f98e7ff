"""Artifacts: what passes between steps is a small handle, never a table or a model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["Artifact", "sha256_of_file", "sha256_of_path"]


@dataclass(frozen=True)
class Artifact:
    """
    Handle of a stored file or folder.

    `uri` says where it is, `sha256` what it is (of the bytes; of a folder's sorted listing of paths and
    digests), `kind` what it is for, `files` the digest of each file of a folder (empty for a file).
    """

    uri: str
    sha256: str
    kind: str
    size: int
    files: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Artifact:
        """Read :meth:`to_dict`."""
        return cls(**content)


def sha256_of_file(path: Path) -> str:
    """Digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_path(path: Path) -> tuple[str, dict[str, str], int]:
    """Digest, per-file digests (of a folder) and size in bytes."""
    if path.is_file():
        return sha256_of_file(path), {}, path.stat().st_size
    members = sorted(item for item in path.rglob("*") if item.is_file())
    files = {item.relative_to(path).as_posix(): sha256_of_file(item) for item in members}
    listing = json.dumps(files, sort_keys=True).encode()
    return hashlib.sha256(listing).hexdigest(), files, sum(item.stat().st_size for item in members)
