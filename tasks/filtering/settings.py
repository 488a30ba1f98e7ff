"""What a user may choose about a filter run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from evenhand.tasks.errors import InputError

__all__ = ["FilterSettings"]

COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "none")
# These change how a run is carried out or judged, not what it writes.
WITHOUT_EFFECT = ("workers", "max_drift", "settle_seconds")


@dataclass(frozen=True)
class FilterSettings:
    """
    Settings of a filter run.

    Attributes
    ----------
    seed : int
        Of the coin.
    key : tuple of str or None
        Columns that identify a row for the coin; None: all model inputs that are not sensitive, so that
        equal rows share their fate.
    probability : bool
        Whether the output has a column ``acceptance_probability``.
    sensitive : {"drop", "refuse"}
        What becomes of sensitive columns that are no model input: left out of the output, or the file fails.
    format : {"parquet", "csv"} or None
        Of all files; None: by each file's ending.
    delimiter, null_values
        Of CSV files; None: found in the header, and the usual spellings of a missing value.
    compression : str
        Of the output.
    rows_per_unit : int
        Rows that go into one output part at most, save that a Parquet row group is never divided.
    workers : int or None
        Threads; None: one per core.
    max_drift : float
        Population stability index above which the summary warns.
    settle_seconds : float or None
        The input is watched: files that changed within so many seconds wait for the next run, and an input
        with nothing new is no error. None: it is not watched.
    """

    seed: int = 0
    key: tuple[str, ...] | None = None
    probability: bool = False
    sensitive: str = "drop"
    format: str | None = None
    delimiter: str | None = None
    null_values: tuple[str, ...] | None = None
    compression: str = "snappy"
    rows_per_unit: int = 1_000_000
    workers: int | None = None
    max_drift: float = 0.2
    settle_seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        for name in ("key", "null_values"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, tuple(value))
        if self.key is not None and (not self.key or len(set(self.key)) < len(self.key)):
            raise InputError("filter.key needs at least one column, and each only once: correct it.")
        _one_of("filter.sensitive", self.sensitive, ("drop", "refuse"))
        _one_of("filter.compression", self.compression, COMPRESSIONS)
        if self.format is not None:
            _one_of("filter.format", self.format, ("parquet", "csv"))
        if self.rows_per_unit < 1 or (self.workers is not None and self.workers < 1):
            raise InputError("filter.rows_per_unit and filter.workers must be at least 1.")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> FilterSettings:
        """Read :meth:`to_dict`."""
        known = {field.name for field in fields(cls)}
        for name in content:
            if name not in known:
                raise InputError(f"unknown filter setting {name!r}: known are {', '.join(sorted(known))}.")
        return cls(**content)

    @property
    def digest(self) -> str:
        """sha256 of the settings that the output's bytes depend on."""
        content = {name: value for name, value in self.to_dict().items() if name not in WITHOUT_EFFECT}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} is {value!r}: choose one of {', '.join(known)}.")
