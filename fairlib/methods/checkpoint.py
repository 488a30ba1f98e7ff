"""Checkpoints of long training: written whole or not at all, and only taken up by the very same training."""

from __future__ import annotations

import hashlib
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Checkpoint", "fingerprint"]

FILE = "checkpoint.npz"
EVERY_S = 10.0


def fingerprint(*parts: Any) -> str:
    """SHA-256 of arrays (bytes, shape, type) and of anything else by its ``repr``."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(repr(part).encode())
        digest.update(b"\\x1f")
    return digest.hexdigest()


class Checkpoint:
    """
    State of a training in one file.

    Parameters
    ----------
    folder : path or None
        None keeps nothing.
    training : str
        Fingerprint of everything that the training depends on.
    every_s : float
        Least time between two writes.
    """

    def __init__(self, folder: str | Path | None, training: str, every_s: float = EVERY_S) -> None:
        self.path = None if folder is None else Path(folder) / FILE
        self.training = training
        self.every_s = every_s
        self._written = time.monotonic()

    def load(self) -> dict[str, NDArray[Any]] | None:
        """Arrays of the last save; None if there is none, it is damaged, or it is of another training."""
        if self.path is None or not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None
        return arrays if str(arrays.pop("training", "")) == self.training else None

    def due(self) -> bool:
        """Whether it is time to save."""
        return self.path is not None and time.monotonic() - self._written >= self.every_s

    def save(self, arrays: Mapping[str, Any]) -> None:
        """Write beside the file, then rename: a kill leaves the old one or the new one."""
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        half = self.path.with_name(f"{FILE}.{os.getpid()}.part")
        with open(half, "wb") as file:
            np.savez(file, training=np.array(self.training), **arrays)
        half.replace(self.path)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Forget: the training is done."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
