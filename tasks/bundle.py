"""A published classifier or proxy on this machine: its parameters, and what it promises about its inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.addresses import find_version, parse_address
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.registry import fetch_bundle, tracking_uri
from evenhand.tasks.store import Store, sha256_of_path

__all__ = ["Bundle", "open_bundle"]

# What makes a folder a bundle.
PARTS = ("encoder.json", "inputs.json", "model")


@dataclass(frozen=True)
class Bundle:
    """
    A model's parameters and what was known when it was published.

    Attributes
    ----------
    folder : Path
        Holds ``model/``, ``encoder.json``, ``inputs.json``, ``evaluation.json``, ``reference.json``.
    name, version : str
        In the registry; the version of a mere folder is None, and its name that of the job.
    uri : str
        Address to show: ``models:/NAME/VERSION`` or the folder.
    digest : str
        sha256 of the whole folder.
    inputs : mapping
        What a published model must know of the table.
    evaluation : mapping
        ``contract``, ``method``, ``data_fingerprint``, ``evaluate`` (the settings that its own evaluation
        had, counterfactuals among them) and ``tested``: the test rows ``n``, and how many of them were
        ``predicted_positive``.
    contract : Contract
        By which tables for this model are checked.
    """

    folder: Path
    name: str
    version: str | None
    uri: str
    digest: str
    inputs: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    contract: Contract

    @property
    def is_proxy(self) -> bool:
        """Whether it is a balancing proxy, and not a classifier."""
        return "label_values" not in self.inputs

    @property
    def asks_features(self) -> bool:
        """Whether the model asks for features one after another."""
        method = METHODS.get(str(self.evaluation.get("method")))
        return method is not None and method.asks

    def described(self) -> dict[str, Any]:
        """Name, version, address, method, contract and content, for verdicts and pages."""
        return {
            "name": self.name,
            "version": self.version,
            "uri": self.uri,
            "method": self.evaluation["method"],
            "contract": {"name": self.contract.name, "version": self.contract.version},
            "content": self.digest,
        }

    def trained_on(self, fingerprint: str) -> bool:
        """Whether the model was trained on rows of the table with this sha256."""
        return bool(self.evaluation.get("data_fingerprint") == fingerprint)

    def require_known_method(self) -> None:
        """Refuse a classifier of a method that this version lacks (InputError)."""
        if self.evaluation.get("method") not in METHODS:
            raise InputError(
                f"{self.uri} is of a method that this version lacks: update evenhand, or publish it again."
            )


def open_bundle(text: str, store: Store, scratch: Path) -> Bundle:
    """
    Fetch a model's bundle below `scratch`, or read it where it is.

    Parameters
    ----------
    text : str
        As for :func:`tasks.addresses.parse_address`; a folder is a bundle, or has one in ``artifacts/bundle``
        as a downloaded MLflow model has.

    Raises
    ------
    InputError
        No such model, or one whose parts are missing, damaged, or from a version that stored no contract.
    NotCarriedOut
        The registry does not answer.
    """
    address = parse_address(text)
    if address.folder is not None:
        folder = address.folder
        inner = folder / "artifacts" / "bundle"
        folder = inner if inner.is_dir() else folder
        return _read(folder, None, None, str(folder.resolve()))
    registry = tracking_uri(store)
    found = find_version(registry, address)
    target = scratch / f"{address.name}-{found.version}"
    target.mkdir(parents=True, exist_ok=True)
    folder = fetch_bundle(registry, address.name, found.version, target)
    return _read(folder, address.name, found.version, f"models:/{address.name}/{found.version}")


def _read(folder: Path, name: str | None, version: str | None, uri: str) -> Bundle:
    shown = without_secrets(uri)
    lacking = [part for part in PARTS if not (folder / part).exists()]
    if lacking:
        raise InputError(f"{shown} is no published model: it lacks {lacking[0]}.")
    if not (folder / "evaluation.json").is_file():
        raise InputError(
            f"the model {shown} was published without its contract, by an older version: publish it again."
        )
    try:
        inputs = json.loads((folder / "inputs.json").read_text())
        evaluation = json.loads((folder / "evaluation.json").read_text())
        contract = Contract.from_dict(evaluation["contract"])
        return Bundle(
            folder,
            name or str(evaluation["job"]),
            version,
            uri,
            sha256_of_path(folder)[0],
            inputs,
            evaluation,
            contract,
        )
    except (ContractError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"the model {shown} cannot be used ({type(error).__name__}): publish it again."
        ) from error
