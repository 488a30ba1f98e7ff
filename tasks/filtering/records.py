"""Units of work, and the records that finished ones leave."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evenhand.tasks.filtering.inputs import InputFile

__all__ = ["Part", "UnitRecord", "UnitResult", "UnitSpec", "part_stem"]

FORMAT = 1


def part_stem(name: str) -> str:
    """What the parts and records of a file are called: it depends on the file's relative name alone."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class UnitSpec:
    """
    A piece of one file that is worked off on its own.

    Attributes
    ----------
    file : InputFile
    output : str
        Folder or URL of the run's output.
    index : int
        Number of the first part that it writes.
    last : bool
        Whether the file ends with it.
    groups : tuple of int or None
        For Parquet the row groups, from the first to before the second number. None: a CSV file's rows from
        part `index` on; it writes one part after the other, for only reading it tells where a row starts.
    threads : bool
        Whether Arrow may decode with threads of its own.
    """

    file: InputFile
    output: str
    index: int
    last: bool
    groups: tuple[int, int] | None
    threads: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> UnitSpec:
        """Read :meth:`to_dict`."""
        groups = content["groups"]
        return cls(
            **{
                **content,
                "file": InputFile(**content["file"]),
                "groups": None if groups is None else (groups[0], groups[1]),
            }
        )


@dataclass(frozen=True)
class Part:
    """A written file: its name below the output, bytes and sha256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class UnitRecord:
    """
    What became of the rows of one unit. It holds counts and names, no row and no time.

    Attributes
    ----------
    file, size, version : str, int, str
        The input's identity.
    index : int
    last : bool
    proxy, proxy_version, settings : str
        Digest and version of the proxy, digest of the settings.
    rows_in, rows_out, quarantined, dropped : int
        Rows read, accepted, set aside for breaking the contract, left out for a missing sensitive value.
    expected : float
        Expected number of accepted rows.
    masses : tuple of float
        Sums of the shares in the proxy groups over the rows that were judged.
    left_out : tuple of str
        Sensitive columns that the output lacks.
    part, set_aside : Part or None
        What was written; None where no row was accepted, or set aside.
    """

    file: str
    size: int
    version: str
    index: int
    last: bool
    proxy: str
    proxy_version: str
    settings: str
    rows_in: int
    rows_out: int
    quarantined: int
    dropped: int
    expected: float
    masses: tuple[float, ...]
    left_out: tuple[str, ...]
    part: Part | None
    set_aside: Part | None

    @property
    def parts(self) -> list[Part]:
        """Files that it stands for."""
        return [part for part in (self.part, self.set_aside) if part is not None]

    @property
    def stem(self) -> str:
        """Name of its file's parts."""
        return part_stem(self.file)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> UnitRecord:
        """Read :meth:`to_dict`; a ValueError, TypeError or KeyError for anything else."""
        values = dict(content)
        if values.pop("format") != FORMAT:
            raise ValueError("a record of another format.")
        for key in ("part", "set_aside"):
            values[key] = None if values[key] is None else Part(**values[key])
        for key in ("masses", "left_out"):
            values[key] = tuple(values[key])
        return cls(**values)


@dataclass(frozen=True)
class UnitResult:
    """Records of a unit, or why its file cannot be filtered."""

    records: tuple[UnitRecord, ...] = ()
    failure: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"records": [record.to_dict() for record in self.records], "failure": self.failure}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> UnitResult:
        """Read :meth:`to_dict`."""
        return cls(tuple(UnitRecord.from_dict(item) for item in content["records"]), content["failure"])
