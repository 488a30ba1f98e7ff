"""What a filter run tells: counts, names and expectations, no row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from evenhand.tasks.filtering.bundle import ProxyBundle
from evenhand.tasks.filtering.drift import drift_of, expected_shares
from evenhand.tasks.filtering.records import UnitRecord
from evenhand.tasks.filtering.settings import FilterSettings

__all__ = ["FileOutcome", "FilterSummary", "summarise"]


@dataclass(frozen=True)
class FileOutcome:
    """What became of one file: ``done`` now, ``skipped`` as done before, or ``failed`` for a reason."""

    name: str
    status: str
    rows_in: int = 0
    rows_out: int = 0
    quarantined: int = 0
    dropped: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class FilterSummary:
    """
    Outcome of a run, and the state of its output.

    Attributes
    ----------
    files : list of FileOutcome
        Those of this run's input, by name.
    ignored : list of str
        Files of the input's folder that are neither Parquet nor CSV.
    waiting : list of str
        Files of a watched input that changed too recently to be read now.
    others : int
        Files that are in the output from earlier runs and not in this input.
    rows_in, rows_out, quarantined, dropped : int
        Of all files in the output.
    expected_out : float
        Expected number of accepted rows, of all files in the output.
    masses, expected_by_group : list of float
        Sums of shares in each proxy group, and expected accepted rows of each: files judged by this proxy.
    left_out : list of str
        Sensitive columns that are not in the output.
    proxies : dict of str to dict
        For each proxy whose work is in the output, by digest: ``version`` and number of ``files``.
    drift : dict or None
    balance : dict or None
    seconds : float
    """

    files: list[FileOutcome]
    ignored: list[str]
    others: int
    rows_in: int
    rows_out: int
    quarantined: int
    dropped: int
    expected_out: float
    masses: list[float]
    expected_by_group: list[float]
    left_out: list[str]
    proxies: dict[str, dict[str, Any]]
    drift: dict[str, Any] | None
    balance: dict[str, Any] | None
    seconds: float
    waiting: list[str] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do: every file was done before."""
        return all(file.status == "skipped" for file in self.files)

    @property
    def failed(self) -> list[FileOutcome]:
        """Files that could not be filtered."""
        return [file for file in self.files if file.status == "failed"]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def outcome_of(name: str, status: str, records: Sequence[UnitRecord]) -> FileOutcome:
    """A file's outcome from its records."""
    return FileOutcome(
        name,
        status,
        rows_in=sum(record.rows_in for record in records),
        rows_out=sum(record.rows_out for record in records),
        quarantined=sum(record.quarantined for record in records),
        dropped=sum(record.dropped for record in records),
    )


def summarise(
    files: Sequence[FileOutcome],
    ignored: Sequence[str],
    records: Sequence[UnitRecord],
    bundle: ProxyBundle,
    settings: FilterSettings,
    seconds: float,
) -> FilterSummary:
    """Add up the records of the whole output."""
    ours = [record for record in records if record.proxy == bundle.digest]
    masses = np.zeros(len(bundle.masses))
    for record in ours:
        masses += record.masses
    drift = drift_of(masses, bundle.masses, settings.max_drift)
    balance = None
    if bundle.balance is not None:
        balance = expected_shares(masses, bundle.raw.acceptance, bundle.balance, settings.seed)
    whole = outcome_of("", "", records)
    listed = {file.name for file in files}
    return FilterSummary(
        files=sorted(files, key=lambda file: file.name),
        ignored=list(ignored),
        others=len({record.file for record in records} - listed),
        rows_in=whole.rows_in,
        rows_out=whole.rows_out,
        quarantined=whole.quarantined,
        dropped=whole.dropped,
        expected_out=sum(record.expected for record in records),
        masses=masses.tolist(),
        expected_by_group=(masses * bundle.raw.acceptance).tolist(),
        left_out=sorted({name for record in records for name in record.left_out}),
        proxies=_proxies(records),
        drift=drift.to_dict() if drift else None,
        balance=balance.to_dict() if balance else None,
        seconds=seconds,
    )


def _proxies(records: Sequence[UnitRecord]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    names: Mapping[str, set[str]] = {record.proxy: set() for record in records}
    for record in records:
        names[record.proxy].add(record.file)
        found[record.proxy] = {"version": record.proxy_version, "files": len(names[record.proxy])}
    return found
