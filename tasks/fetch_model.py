"""Copies of models that others have saved, from a path, a registry or another address."""

from __future__ import annotations

import shutil
from pathlib import Path

from evenhand.tasks.bundle import ADDRESS, find_version, parse_address
from evenhand.tasks.errors import EvenhandError, InputError, NotCarriedOut, waits_for_service, without_secrets
from evenhand.tasks.registry import ABSENT, damaged_files, registry_client, tracking_uri
from evenhand.tasks.store import Artifact, Store


def fetch_model(text: str, store: Store, scratch: Path) -> Artifact:
    """Copy a model's files into the store, so that a step's key depends on their content.

    `text` is a path or an address that MLflow knows. Raises `InputError` if there is no such model or if one
    that this project published was changed since, `NotCarriedOut` if it cannot be downloaded.
    """
    path = Path(text).expanduser()
    if not path.exists():
        path = _downloaded(text, tracking_uri(store), scratch / "download")
    copy = scratch / ("model.onnx" if path.is_file() else "model")
    (shutil.copyfile if path.is_file() else shutil.copytree)(path, copy)
    return store.put(copy, "foreign_model")


@waits_for_service
def _downloaded(text: str, registry: str, folder: Path) -> Path:
    absent = InputError(
        f"there is no model {without_secrets(text)!r}: give models:/NAME@ALIAS, a folder of an MLflow model, "
        "or an ONNX file."
    )
    if ":/" not in text:
        raise absent
    if text.startswith("models:/") and ADDRESS.fullmatch(text):
        address = parse_address(text)
        version = find_version(registry, address).version
        text = f"models:/{address.name}/{version}"
        if faults := damaged_files(registry, address.name, version):
            raise InputError(f"{address.name} version {version} is not what was published: {faults[0]}.")
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
            f"the model {without_secrets(text)!r} cannot be downloaded ({type(error).__name__}): check its "
            "address and your credentials."
        ) from error
