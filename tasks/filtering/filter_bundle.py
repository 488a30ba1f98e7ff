"""The two decisive parts of a run over files: a published model, and the settings that a user
chooses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from evenhand.data_contracts.model import Contract
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.proxies.raw import RawAcceptance, Rows
from evenhand.fairlib.proxies.saved_proxy import read_saved_proxy
from evenhand.tasks.errors import InputError, unusable
from evenhand.tasks.execution.store import sha256_of_path
from evenhand.tasks.written_input import FORM_KEYS

# The files of a bundle that decide about rows; balance.json does not.
DECISIVE = ("encoder.json", "inputs.json", "model")
# Settings that change how a run is carried out or judged, not its output.
WITHOUT_EFFECT = (
    "workers",
    "max_drift",
    "settle_seconds",
    "partition_by",
    "partitions",
    "watermark",
    "in_database",
)


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """Settings of a run over files; the section of :mod:`flows.job` describes and checks them."""

    section: ClassVar[str]  # the name of their section, for messages

    sensitive: str = (
        "drop"  # or "keep" sensitive columns that are no model input, or "refuse" their files
    )
    format: str | None = None  # "parquet", "csv" or "excel"; None: by each file's ending
    delimiter: str | None = None  # of CSV files; None: found in the header
    null_values: tuple[str, ...] | None = None  # of CSV files; None: the usual spellings
    encoding: str | None = None  # of CSV files; None: UTF-8
    decimal: str | Mapping[str, str] | None = (
        None  # mark of numbers in text, for all columns or by column
    )
    dates: str | Mapping[str, str] | None = None  # order of dates in text
    sheet: str | int | None = None  # of Excel files; None: the first one with rows
    headers: str | None = None  # "numbered": of names that occur twice the second gets a number
    # by column and by value, other values that are read as it
    spellings: Mapping[str, Mapping[str, Sequence[str]]] | None = None
    # rows outside bounds that were only observed: "use" or "set_aside"
    outside: str = "use"
    compression: str = "snappy"
    rows_per_unit: int = 1_000_000  # at most in one part; a Parquet row group is never divided
    workers: int | None = None  # threads; None: one per core
    settle_seconds: float | None = (
        None  # the input is watched: files that changed more recently wait
    )
    # of an input that is a table of a database
    partition_by: str | None = None  # column whose values are its partitions
    partitions: str | None = None  # "A..B", the values that count
    watermark: str | None = None  # column whose largest value is a partition's version

    def __post_init__(self) -> None:
        """Make lists tuples."""
        for name, value in vars(self).items():
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))

    def with_forms(self, forms: Mapping[str, Any]) -> Self:
        """Return settings that read files as `forms` says wherever they say nothing else."""
        changes: dict[str, Any] = {}
        for key in FORM_KEYS:
            if getattr(self, key) is None:
                changes[key] = forms.get(key)
        return replace(self, **changes)

    @property
    def digest(self) -> str:
        """sha256 of the settings that the output's bytes depend on."""
        content = {
            name: value for name, value in asdict(self).items() if name not in WITHOUT_EFFECT
        }
        if content.get("hash") == "splitmix":
            del content["hash"]  # as the records of earlier versions have it
        if content["outside"] == "use":
            del content["outside"]  # as above
        for key in FORM_KEYS:
            if content[key] is None:
                del content[key]  # as above
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class FilterSettings(FileSettings):
    """Settings of a filter run."""

    section: ClassVar[str] = "filter"

    seed: int = 0  # of the rows' uniform numbers
    hash: str = "splitmix"  # of these numbers; "sha256" is what warehouses have too
    key: tuple[str, ...] | None = (
        None  # columns that identify a row; None: all inputs that are not sensitive
    )
    probability: bool = False  # whether the output has the column `acceptance_probability`
    max_drift: float = 0.2  # population stability index above which the summary warns

    def __post_init__(self) -> None:
        """Refuse a key without columns, or with one twice."""
        super().__post_init__()
        if self.key is not None and (not self.key or len(set(self.key)) < len(self.key)):
            raise InputError(
                "filter.key needs at least one column, and each only once: correct it."
            )


@dataclass(frozen=True, kw_only=True)
class FileModel:
    """What a run over files reads from a published model."""

    contract: Contract
    features: tuple[str, ...]  # columns that a file must have
    sensitive: frozenset[str]  # columns that the contract, or the model, names sensitive
    encoder: TableEncoder
    digest: str  # sha256 of the parts that decide about rows
    version: str = ""  # of the registry, for display

    @property
    def categorical(self) -> list[str]:
        """Features that hold categories without an order."""
        return [item.name for item in self.encoder.fitted_ if item.kind in ("onehot", "binary")]


@dataclass(frozen=True, kw_only=True)
class ProxyBundle(FileModel):
    """Encoder, splitting graph, acceptance probabilities and contract of one published proxy."""

    raw: RawAcceptance
    masses: NDArray[np.float64]  # share of the training rows in each proxy group
    balance: Mapping[str, Any] | None = None  # content of balance.json
    salt: str = ""  # of the rows' uniform numbers; proxies of older versions have none

    @classmethod
    def load(cls, folder: str | Path, version: str = "") -> ProxyBundle:
        """Read a bundle's folder; an `InputError` if a part is missing, or the parts do not fit
        together.
        """
        place = Path(folder)
        missing = [name for name in DECISIVE if not (place / name).exists()]
        if missing:
            raise InputError(f"the proxy in {place.name} lacks {missing[0]}: publish it again.")
        with unusable(f"the proxy in {place.name}"):
            inputs = json.loads((place / "inputs.json").read_text())
            contract = Contract.from_dict(inputs["contract"])
            model = read_saved_proxy(place / "model")
            balance = place / "balance.json"
            encoder = TableEncoder.load(place / "encoder.json")
            return cls(
                encoder=encoder,
                raw=RawAcceptance(encoder, model.graph, model.acceptance),
                masses=model.masses,
                contract=contract,
                features=tuple(inputs["features"]),
                sensitive=sensitive_columns(contract, inputs["sensitive"]),
                digest=digest_of(place),
                balance=json.loads(balance.read_text()) if balance.exists() else None,
                version=version,
                salt=str(inputs.get("salt", "")),
            )

    def uniforms(
        self, rows: Rows, key: Sequence[str], seed: int, hashed: str = "splitmix"
    ) -> NDArray[np.float64]:
        """Uniform numbers of rows, by which they are kept, shape (n,)."""
        # imported lazily: a look for new files compiles no kernel
        from evenhand.fairlib.proxies.hash_uniform import hash_uniforms, sha256_uniforms

        uniforms_of = sha256_uniforms if hashed == "sha256" else hash_uniforms
        return uniforms_of(rows, key, ProxyBundle.seed(self, seed))

    def seed(self, seed: int) -> int:
        """Seed of the uniform numbers, with the proxy's name: proxies of one seed decide
        independently.
        """
        if not self.salt:
            return seed
        return derive_seed(seed, self.salt)

    def __post_init__(self) -> None:
        """Refuse an encoder of other columns."""
        if set(self.raw.features) != set(self.features):
            raise InputError(
                "the proxy's encoder and its inputs name different columns: publish it again."
            )


def sensitive_columns(contract: Contract, named: list[str]) -> frozenset[str]:
    """Columns that may not be part of the key, and are left out of the output unless the model
    reads them.
    """
    return frozenset(named) | {column.name for column in contract.sensitive}


def digest_of(folder: Path) -> str:
    """sha256 of a bundle's decisive parts."""
    digests = {name: sha256_of_path(folder / name)[0] for name in DECISIVE}
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def key_columns(bundle: ProxyBundle, settings: FilterSettings) -> tuple[str, ...]:
    """Columns that a row's uniform number depends on; an `InputError` if one of them is
    sensitive.
    """
    if settings.key is None:
        key = tuple(sorted(set(bundle.features) - bundle.sensitive))
        if not key:
            raise InputError(
                "every model input is sensitive: name the columns that identify a row in key."
            )
        return key
    for name in settings.key:
        if name in bundle.sensitive:
            raise InputError(
                f"the key may not hold the sensitive column {name!r}: choose another, or an id."
            )
    return settings.key
