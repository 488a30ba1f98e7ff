"""Checkpoints of a long training: written whole or not at all, and resumed by the same training
only.
"""

from __future__ import annotations

import hashlib
import io
import time
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FILE = "checkpoint"
DIGEST_BYTES = 32
EVERY_S = 10.0


def fingerprint(*parts: Any) -> str:
    """SHA-256 of arrays (bytes, shape, type), and of other parts by their ``repr``.

    Parameters
    ----------
    *parts : any
        Their order matters.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            text = repr(part).encode()
            digest.update(b"%d:" % len(text) + text)
    return digest.hexdigest()


def _flat(state: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Arrays of a nested state by the paths of their names."""
    arrays: dict[str, Any] = {}
    for name, value in state.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            arrays |= _flat(value, f"{path}/")
        else:  # a tensor may be on another device
            arrays[path] = np.asarray(value.cpu() if hasattr(value, "cpu") else value)
    return arrays


class Checkpoint:
    """State of a training in one file of a folder: the SHA-256 of an npz archive, and the archive.

    A state is a mapping of names to arrays, tensors, numbers, texts, lists of numbers, or such
    mappings.

    Parameters
    ----------
    folder : str, Path or None
        None: nothing is stored.
    training : str
        Fingerprint of everything that the training depends on.
    every_s : float
        Shortest time between two writes (s).
    name : str
        Of the file.
    """

    def __init__(
        self, folder: str | Path | None, training: str, every_s: float = EVERY_S, name: str = FILE
    ) -> None:
        self.path = None if folder is None else Path(folder) / name
        self.training = training
        self.every_s = every_s
        self._written = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Read the state of the last save.

        Returns
        -------
        dict or None
            Arrays by name; a mapping that was empty is missing. None if there is no state, or it is
            damaged or of another training.
        """
        try:
            content = b"" if self.path is None else self.path.read_bytes()
        except OSError:
            return None
        digest = content[:DIGEST_BYTES]
        content = content[DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            return None
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
            return None
        if str(arrays.pop("training", "")) != self.training:
            return None
        state: dict[str, Any] = {}
        for path, array in arrays.items():
            *parents, name = path.split("/")
            place = state
            for parent in parents:
                place = place.setdefault(parent, {})
            place[name] = array
        return state

    def due(self) -> bool:
        """Whether it is time to save.

        Returns
        -------
        bool
        """
        return self.path is not None and time.monotonic() - self._written >= self.every_s

    def save(self, state: Mapping[str, Any]) -> None:
        """Write a second file, then rename it.

        A killed process leaves the old file or the new one.

        Parameters
        ----------
        state : mapping of str to array, tensor, number, text, list or mapping
        """
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        archive = io.BytesIO()
        np.savez(archive, training=np.array(self.training), **_flat(state))
        content = archive.getvalue()
        half = self.path.with_name(f"{self.path.name}.part")
        half.write_bytes(hashlib.sha256(content).digest() + content)
        half.replace(self.path)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Remove the files: the training is done."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self.path.with_name(f"{self.path.name}.part").unlink(missing_ok=True)
