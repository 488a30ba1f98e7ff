"""A published proxy as the filter needs it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.proxies.raw import RawAcceptance
from evenhand.tasks.artifacts import sha256_of_file, sha256_of_path
from evenhand.tasks.errors import InputError

__all__ = ["ProxyBundle"]

# What decides about rows; the expected balance does not.
DECISIVE = ("encoder.json", "inputs.json", "model")


@dataclass(frozen=True)
class ProxyBundle:
    """
    Encoder, splitting graph, acceptance probabilities and contract of one proxy.

    Attributes
    ----------
    raw : RawAcceptance
        Acceptance probabilities of raw rows.
    masses : ndarray, shape (groups,)
        Share of the training rows in each proxy group.
    contract : Contract
    features : tuple of str
        Columns that a batch must have.
    sensitive : frozenset of str
        Columns that the contract, or the proxy, names sensitive.
    balance : mapping or None
        ``groups`` (K names), ``compositions`` (groups x K held-out shares), ``rows`` (effective held-out rows
        of each proxy group), ``target`` (K).
    digest : str
        sha256 of what decides about rows.
    version : str
        For people.
    """

    raw: RawAcceptance
    masses: NDArray[np.float64]
    contract: Contract
    features: tuple[str, ...]
    sensitive: frozenset[str]
    digest: str
    balance: Mapping[str, Any] | None = None
    version: str = ""

    @classmethod
    def load(cls, folder: str | Path, version: str = "") -> ProxyBundle:
        """
        Read a bundle's folder.

        Raises
        ------
        InputError
            A part is missing, or they do not fit together.
        """
        from evenhand.fairlib.methods.registry import load_proxy

        place = Path(folder)
        lacking = [name for name in DECISIVE if not (place / name).exists()]
        if lacking:
            raise InputError(f"the proxy in {place.name} lacks {lacking[0]}: publish it again.")
        try:
            inputs = json.loads((place / "inputs.json").read_text())
            contract = Contract.from_dict(inputs["contract"])
            encoder = TableEncoder.load(place / "encoder.json")
            model = load_proxy(place / "model")
            raw = RawAcceptance(encoder, model.graph_, model.acceptance_)
            balance = place / "balance.json"
            return cls(
                raw=raw,
                masses=np.asarray(model.masses_, dtype=np.float64),
                contract=contract,
                features=tuple(inputs["features"]),
                sensitive=sensitive_columns(contract, inputs["sensitive"]),
                digest=digest_of(place),
                balance=json.loads(balance.read_text()) if balance.exists() else None,
                version=version,
            )
        except (ContractError, ValueError, KeyError) as error:
            raise InputError(
                f"the proxy in {place.name} cannot be used ({type(error).__name__}): publish it again."
            ) from error

    @property
    def categorical(self) -> list[str]:
        """Features that hold categories."""
        return self.raw.categorical

    def __post_init__(self) -> None:
        """Refuse an encoder of other columns."""
        if set(self.raw.features) != set(self.features):
            raise InputError("the proxy's encoder and its inputs name different columns: publish it again.")


def sensitive_columns(contract: Contract, named: list[str]) -> frozenset[str]:
    """Columns that may not serve as a key, and leave the table unless the model reads them."""
    return frozenset(named) | {column.name for column in contract.sensitive}


def digest_of(folder: Path) -> str:
    """sha256 of a bundle's decisive parts."""
    found = {
        name: sha256_of_path(folder / name)[0] if (folder / name).is_dir() else sha256_of_file(folder / name)
        for name in DECISIVE
    }
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
