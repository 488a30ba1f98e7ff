"""Copies of models that others have saved, from a path, a registry or another address."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from evenhand.fairlib.file_digests import model_faults, other_code
from evenhand.tasks.errors import (
    EvenhandError,
    InputError,
    NotCarriedOut,
    unusable,
    waits_for_service,
    without_secrets,
)
from evenhand.tasks.execution.store import Artifact, Store
from evenhand.tasks.registry.bundle import (
    ADDRESS,
    PINNED,
    UNLISTED,
    checked_folder,
    find_version,
    parse_address,
    require_undamaged,
)
from evenhand.tasks.registry.client import ABSENT, damaged_files, registry_client, tracking_uri
from evenhand.tasks.registry.model_archive import is_archive, unpack_archive
from evenhand.tasks.written_input import parse_yaml


def fetch_model(text: str, store: Store, scratch: Path, notes: list[str] | None = None) -> Artifact:
    """Copy a model's files into the store, so that a step's key depends on their content.

    `text` is a path or an address that MLflow knows. Raises `InputError` if there is no such model
    or if one that this project published was changed since, `NotCarriedOut` if it cannot be
    downloaded. `notes` gets a warning about a folder whose files cannot be compared with a list.
    """
    path = Path(text).expanduser()
    digest = None
    if PINNED in text:
        address = parse_address(text)
        assert address.folder is not None
        path = address.folder
        digest = address.digest
    if not path.exists():
        path = _downloaded(os.path.expandvars(text), tracking_uri(store), scratch / "download")
    elif is_archive(path):
        path = unpack_archive(path, scratch / "of-archive", digest)
    elif digest is not None:
        checked_folder(path, scratch / "checked", digest)
    if path.is_file():
        copy = scratch / "model.onnx"
        shutil.copyfile(path, copy)
    else:
        copy = scratch / "model"
        checked = _copy_folder(path, copy, without_secrets(text))
        if not checked and notes is not None:
            notes.append(UNLISTED.format(model=without_secrets(text)))
    return store.put(copy, "foreign_model")


def load_checked_model(model: str, store_url: str | None = None) -> Any:
    """Load a published model by MLflow, after all its files were compared with their lists.

    `model` is an address such as ``models:/people@champion``, a folder or an archive, perhaps with
    ``@sha256:DIGEST``. The check is that of this package, and nothing of the model is imported
    before it: `mlflow.pyfunc.load_model` alone executes the model's own check. What is loaded is a
    copy in the store.

    Raises `InputError` for a model that was changed, or has no list of its files.
    """
    store = Store(store_url)
    notes: list[str] = []
    with store.workdir() as scratch:
        artifact = fetch_model(model, store, scratch, notes)
    if notes:
        raise InputError(f"{notes[0]}: it is not loaded.")
    with registry_client(tracking_uri(store)):
        import mlflow

        return mlflow.pyfunc.load_model(str(store.fetch(artifact)))


def _copy_folder(folder: Path, copy: Path, shown: str) -> bool:
    """Copy a model's folder; return whether its files were compared with a list.

    Raises `InputError` for a model that this project published and that was changed since.
    """
    faults = model_faults(folder)
    if faults is None:
        shutil.copytree(folder, copy)
        return False
    require_undamaged(shown, faults)
    # its code will be executed: the copy is compared again, since the folder may change meanwhile
    shutil.copytree(folder, copy, symlinks=True)
    require_undamaged(shown, model_faults(copy))
    if (copy / "MLmodel").is_file():
        with unusable(f"the model {shown}"):
            fault = other_code(parse_yaml((copy / "MLmodel").read_text(), "MLmodel"))
        require_undamaged(shown, [fault] if fault else [])
    return True


@waits_for_service
def _downloaded(text: str, registry: str, folder: Path) -> Path:
    absent = InputError(
        f"there is no model {without_secrets(text)!r}: give models:/NAME@ALIAS, a folder of an "
        "MLflow model, or an ONNX file."
    )
    if ":/" not in text:
        raise absent
    if text.startswith("models:/") and ADDRESS.fullmatch(text):
        address = parse_address(text)
        version = find_version(registry, address).version
        text = f"models:/{address.name}/{version}"
        if faults := damaged_files(registry, address.name, version):
            raise InputError(
                f"{address.name} version {version} is not what was published: {faults[0]}."
            )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with registry_client(registry):
            import mlflow

            try:
                return Path(mlflow.artifacts.download_artifacts(text, dst_path=str(folder)))
            except mlflow.MlflowException as error:
                if error.error_code in ABSENT:
                    raise absent from None
                raise
    except EvenhandError:
        raise
    except Exception as error:  # noqa: BLE001 - any library may read the address
        raise NotCarriedOut(
            f"the model {without_secrets(text)!r} cannot be downloaded ({type(error).__name__}): "
            "check its address and your credentials."
        ) from error
