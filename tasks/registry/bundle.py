"""A published classifier or proxy: how a person names it, and its files on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.fairlib.file_digests import BUNDLE, LIST, model_faults, sha256_of_file
from evenhand.fairlib.outcome_words import outcome_in_words
from evenhand.tasks.errors import InputError, unusable, without_secrets
from evenhand.tasks.execution.store import Store, sha256_of_path
from evenhand.tasks.registry.client import (
    Published,
    fetch_bundle,
    published,
    published_version,
    registered,
    tracking_uri,
    value_names,
)
from evenhand.tasks.registry.ledger import CHAIN
from evenhand.tasks.written_input import nearest

if TYPE_CHECKING:
    from evenhand.data_contracts.model import Contract


NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
ADDRESS = re.compile(
    rf"(?:models:/)?(?P<name>{NAME})(?:@(?P<alias>[\w-]+)|/(?P<version>[0-9]{{1,18}}))?"
)
UNLISTED = (
    "the files of {model} cannot be checked: it has no list of them, so an older version or others "
    "made it"
)
# Between the path of a folder or archive and the SHA-256 that it must have.
PINNED = "@sha256:"
OF_REGISTRY = "models:/"
# How a learned metric adapts columns, within the model that reads these.
ADAPTATION_FILE = "adaptation.json"
# Files that every bundle has.
PARTS = ("encoder.json", "inputs.json", "model")


@dataclass(frozen=True)
class ModelAddress:
    """The name that a person gives a model.

    A model of the registry has `name`, and either `alias` or `version`. A folder or an archive has
    `folder`, and perhaps the `digest` that it must have.
    """

    name: str = ""
    alias: str | None = None
    version: str | None = None
    folder: Path | None = None
    digest: str | None = None

    @property
    def run_name(self) -> str:
        """Name of the model for a run's id."""
        name = self.name or (self.folder.resolve().name if self.folder else "")
        return re.sub(r"[^A-Za-z0-9._-]", "-", name).strip("-.") or "model"


def parse_address(text: str) -> ModelAddress:
    """Read ``NAME``, ``NAME@ALIAS`` or ``NAME/VERSION``, with or without ``models:/``, or an
    existing folder or archive, perhaps with ``@sha256:DIGEST``.

    Raises `InputError` for any other text.
    """
    path_text, _, digest = text.partition(PINNED)
    place = _existing_place(path_text)
    if place is not None:
        if PINNED in text and re.fullmatch("[0-9a-f]{64}", digest) is None:
            raise InputError(
                f"the digest of the model {path_text!r} has not 64 hexadecimal digits."
            )
        return ModelAddress(folder=place, digest=digest or None)
    match = ADDRESS.fullmatch(text)
    if match is None:
        raise InputError(
            f"there is no model {text!r}: give models:/NAME@ALIAS, models:/NAME/VERSION, a name, "
            "or the folder or archive of a published model."
        )
    name = match["name"]
    if name.startswith(CHAIN):
        raise InputError(f"{name} holds the records of a model: give the name after {CHAIN}")
    if match["version"]:
        return ModelAddress(name, version=match["version"])
    return ModelAddress(name, alias=match["alias"] or "champion")


def _existing_place(text: str) -> Path | None:
    """The folder or file of a text; None if there is none.

    What begins with ``models:/`` is of the registry, though a folder here may have that name.
    """
    if text.startswith(OF_REGISTRY):
        return None
    try:
        place = Path(text).expanduser()
        if place.is_dir() or place.is_file():
            return place
    except (OSError, RuntimeError):  # a name that is too long, or ~ of nobody
        return None
    return None


def find_version(registry: str, address: ModelAddress) -> Published:
    """Look up a model of the registry; an `InputError` if there is no such model, version
    or alias.
    """
    if address.version is not None:
        version = published_version(registry, address.name, address.version)
        missing = f"version {address.version}"
    else:
        version = published(registry, address.name, str(address.alias))
        missing = f"version with the alias {address.alias!r}"
    if version is None:
        raise _not_published(registry, address.name, missing)
    return version


def _not_published(registry: str, name: str, missing: str) -> InputError:
    """Say which models, or which versions of the model, there are."""
    names, versions = registered(registry, name)
    names = [model_name for model_name in names if not model_name.startswith(CHAIN)]
    if versions:
        listed = ", ".join(versions)
        return InputError(
            f"the model {name!r} has no {missing} in this store: its versions are {listed}."
        )
    hint = "`evenhand run JOB` publishes one"
    if names:
        hint = f"it has {', '.join(names)}"
    return InputError(
        f"the model {name!r} is not published in this store{nearest(name, names)}: {hint}."
    )


@dataclass(frozen=True)
class Bundle:
    """A model's parameters, and the facts that were stored when it was published."""

    folder: Path  # has model/, encoder.json, inputs.json, evaluation.json, reference.json
    name: str  # in the registry; for a folder the name of the job
    version: str | None  # None for a folder
    uri: str  # for display: models:/NAME/VERSION, or the folder
    digest: str  # sha256 of the whole folder
    inputs: Mapping[str, Any]  # the columns that the model reads, and the label's values
    evaluation: Mapping[
        str, Any
    ]  # contract, method, data_fingerprint, settings, counts of the test rows
    contract: Contract  # tables for this model are checked by it
    value_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # for display
    notes: tuple[str, ...] = ()  # warnings about its files, for people

    @property
    def is_proxy(self) -> bool:
        """Whether it is a balancing proxy, and not a classifier."""
        return "label_values" not in self.inputs

    @property
    def label(self) -> dict[str, Any]:
        """Name of a classifier's label, and its ``negative`` and ``positive`` value or its
        ``classes``.
        """
        values = list(self.inputs["label_values"])
        name = self.contract.label.name
        if len(values) > 2:
            return {"name": name, "classes": values}
        negative, positive = values
        return {"name": name, "negative": negative, "positive": positive}

    @property
    def positive_outcome(self) -> str:
        """The positive label of two for readers, such as ``hired = yes``."""
        label = self.label
        names = self.value_names.get(label["name"], {})
        positive = names.get(str(label["positive"]), label["positive"])
        return outcome_in_words(label["name"], positive)

    def require_two_labels(self, verb: str) -> None:
        """Raise `InputError` for a model of more than two labels, which a command does not take."""
        classes = self.contract.label.classes
        if classes:
            raise InputError(
                f"{self.uri} predicts {len(classes)} labels, and {verb} takes models of two."
            )

    @property
    def asks_features(self) -> bool:
        """Whether the model asks for features one after another."""
        from evenhand.fairlib.methods.registry import METHODS

        method = METHODS.get(str(self.evaluation.get("method")))
        return method is not None and method.asks

    @property
    def adapts_columns(self) -> bool:
        """Whether the model reads adapted columns, so that it contains a learned metric."""
        return any((self.folder / "model").rglob(ADAPTATION_FILE))

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
        """Raise `InputError` for a classifier of a method that this version of evenhand lacks."""
        from evenhand.fairlib.methods.registry import METHODS

        if self.evaluation.get("method") not in METHODS:
            raise InputError(
                f"{self.uri} is of a method that this version lacks: update evenhand, or publish "
                "it again."
            )


def open_bundle(text: str, store: Store, scratch: Path) -> Bundle:
    """Download a model's bundle into a folder below `scratch`, or read it from its own folder.

    `text` is an address for :func:`parse_address`. A folder is a bundle, or has one in
    ``artifacts/bundle``, as a downloaded MLflow model has. Raises `InputError` if there is no such
    model, or a part of it is missing or damaged, or it was published without its contract.
    """
    address = parse_address(text)
    if address.folder is not None:
        folder, notes = checked_folder(address.folder, scratch, address.digest)
        inner = address.folder / BUNDLE
        display_folder = inner if inner.is_dir() else address.folder
        return replace(read_bundle(folder, None, None, str(display_folder.resolve())), notes=notes)
    registry = tracking_uri(store)
    published_model = find_version(registry, address)
    target = scratch / f"{address.name}-{published_model.version}"
    target.mkdir(parents=True, exist_ok=True)
    folder = fetch_bundle(registry, address.name, published_model.version, target)
    bundle = read_bundle(
        folder,
        address.name,
        published_model.version,
        f"models:/{address.name}/{published_model.version}",
    )
    return replace(bundle, value_names=value_names(registry, address.name, published_model.version))


def checked_folder(
    folder: Path, scratch: Path, digest: str | None = None
) -> tuple[Path, tuple[str, ...]]:
    """Compare a model's folder or archive with its list of files; return a copy of its bundle, and
    warnings.

    The copy, below `scratch`, has the bytes that were compared. A folder without a list, which an
    older version or somebody else made, is not compared: then the bundle itself is returned, with a
    warning. Raises `InputError` for what is not what was published, and if the list, or the
    archive, has not the SHA-256 `digest`.
    """
    public_path = without_secrets(str(folder))
    copy = scratch / "bundle-of-folder"
    list_digest = digest
    if folder.is_file():
        folder = unpacked_model(folder, scratch / "of-archive", digest)
        list_digest = None
    with unusable(f"the model {public_path}"):
        faults = model_faults(folder, copy_to=copy)
    if faults is None:
        if digest is not None:
            raise InputError(f"{UNLISTED.format(model=public_path)}: no digest can be compared.")
        inner = folder / BUNDLE
        return (inner if inner.is_dir() else folder), (UNLISTED.format(model=public_path),)
    require_undamaged(public_path, faults)
    if list_digest is not None and sha256_of_file(copy / LIST) != list_digest:
        raise InputError(
            f"the SHA-256 of the list of files {LIST} of the model {public_path} is not the one "
            "that was given: it is another model."
        )
    return copy, ()


def unpacked_model(path: Path, scratch: Path, digest: str | None = None) -> Path:
    """The folder of a model that is one file; `InputError` for a file that is no archive."""
    # imported lazily: most models are of the registry
    from evenhand.tasks.registry.model_archive import is_archive, unpack_archive

    if not is_archive(path):
        raise InputError(
            f"{without_secrets(str(path))} is no archive of a model: `evenhand export MODEL --to "
            "bundle --output FILE` writes one."
        )
    return unpack_archive(path, scratch, digest)


def require_undamaged(shown: str, faults: Sequence[str] | None) -> None:
    """Raise `InputError` for a model with faults in its files."""
    if faults:
        raise InputError(
            f"the model {shown} is not what was published: {faults[0]}. Restore its files, fetch "
            "it again, "
            "or publish it again."
        )


def read_bundle(folder: Path, name: str | None, version: str | None, uri: str) -> Bundle:
    """Read a bundle's own folder, with its name and version in the registry; errors as
    `open_bundle`.
    """
    from evenhand.data_contracts.model import Contract

    public_uri = without_secrets(uri)
    missing_parts = [part for part in PARTS if not (folder / part).exists()]
    if missing_parts:
        raise InputError(f"{public_uri} is no published model: it lacks {missing_parts[0]}.")
    if not (folder / "evaluation.json").is_file():
        raise InputError(
            f"the model {public_uri} was published without its contract, by an older version: "
            "publish it again."
        )
    with unusable(f"the model {public_uri}"):
        inputs = json.loads((folder / "inputs.json").read_text())
        evaluation = json.loads((folder / "evaluation.json").read_text())
        contract = Contract.from_dict(evaluation["contract"])
        name = name or str(evaluation["job"])
        digest = sha256_of_path(folder)[0]
        bundle = Bundle(folder, name, version, uri, digest, inputs, evaluation, contract)
    _require_labels_of(contract, inputs, public_uri)
    return bundle


def _require_labels_of(contract: Contract, inputs: Mapping[str, Any], shown: str) -> None:
    """Raise `InputError` if a classifier's labels are not those of its contract, in its order."""
    if "label_values" not in inputs:
        return
    label = contract.label
    values = [str(value) for value in inputs["label_values"]]
    if label.classes:
        fits = values == [str(value) for value in label.classes]
    else:
        fits = len(values) == 2 and values[1] == str(label.outcome.positive)
    if not fits:
        require_undamaged(shown, [f"its labels are not those of its contract for {label.name}"])
