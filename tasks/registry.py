"""The model registry: reach it, look a version up, fetch its bundle."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.tasks.errors import NotCarriedOut, without_secrets
from evenhand.tasks.store import Store

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

__all__ = [
    "ABSENT",
    "DIGEST_TAG",
    "MLFLOW_DEFAULTS",
    "PROVENANCE_TAG",
    "Published",
    "artifact_root",
    "fetch_bundle",
    "published",
    "published_version",
    "read_card",
    "registry_client",
    "tracking_uri",
]

MLFLOW_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
DIGEST_TAG = "evenhand.content"
PROVENANCE_TAG = "evenhand.provenance"
# the process-wide address, which MLflow writes there for its subprocesses
_ADDRESSES = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")
# the registry's words for what is not there
ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


@dataclass(frozen=True)
class Published:
    """A version in the registry, and the digest of its content."""

    version: str
    content: str


def tracking_uri(store: Store) -> str:
    """``MLFLOW_TRACKING_URI``, or a SQLite file inside the store."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(store.local / 'mlflow.db').resolve()}"


def artifact_root(store: Store, uri: str) -> str | None:
    """Folder of the files of a registry that is no server; None for a server, which has its own place."""
    if uri.startswith(("http://", "https://")):
        return None
    return str((store.local / "mlflow-artifacts").resolve())


@contextmanager
def registry_client(uri: str) -> Iterator[MlflowClient]:
    """
    MLflow, quiet and without telemetry; every way in which it is out of reach is one error.

    The environment's address is as before afterwards: else the next store opened in this process would take
    this registry for the user's choice, and publish there.
    """
    for name, value in MLFLOW_DEFAULTS.items():
        os.environ.setdefault(name, value)
    import mlflow
    import requests
    import sqlalchemy.exc

    before = {name: os.environ.get(name) for name in _ADDRESSES}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # its database set-up logs every migration
            logging.getLogger("mlflow.store.db.utils").setLevel(logging.ERROR)
            mlflow.set_tracking_uri(uri)
            mlflow.set_registry_uri(uri)
            yield mlflow.MlflowClient()
    except (
        mlflow.MlflowException,
        requests.RequestException,
        sqlalchemy.exc.SQLAlchemyError,
        OSError,
    ) as error:
        # a database URI may hold a password, and messages may quote it
        shown = without_secrets(uri)
        reason = without_secrets((str(error).splitlines() or [""])[0].replace(uri, shown))[:200]
        raise NotCarriedOut(
            f"the model registry at {shown} did not answer as it should ({type(error).__name__}: {reason}): "
            "check MLFLOW_TRACKING_URI and the server, then run again."
        ) from None
    finally:
        for name, address in before.items():
            if address is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = address


def published(uri: str, name: str, alias: str) -> Published | None:
    """Version that has the alias now; None if there is none."""
    return _found(uri, lambda client: client.get_model_version_by_alias(name, alias))


def published_version(uri: str, name: str, version: str) -> Published | None:
    """Version by its number; None if there is none."""
    return _found(uri, lambda client: client.get_model_version(name, version))


def _found(uri: str, look_up: Callable[[MlflowClient], ModelVersion]) -> Published | None:
    with registry_client(uri) as client:
        from mlflow import MlflowException

        try:
            version = look_up(client)
        except MlflowException as error:
            if error.error_code in ABSENT:
                return None
            raise
    return Published(str(version.version), version.tags.get(DIGEST_TAG, ""))


def fetch_bundle(uri: str, name: str, version: str, folder: Path) -> Path:
    """Download a version's parameter files below `folder`."""
    with registry_client(uri):
        import mlflow

        place = mlflow.artifacts.download_artifacts(
            artifact_uri=f"models:/{name}/{version}/artifacts/bundle", dst_path=str(folder)
        )
    return Path(place)


def read_card(uri: str, name: str, version: str) -> dict[str, Any] | None:
    """
    Model card that a version was published with; None if it has none that can be read.

    A registry or artifact store that is out of reach raises nothing either: a card is only told of.
    """
    try:
        with registry_client(uri) as client:
            import mlflow

            run = client.get_model_version(name, version).run_id
            text = mlflow.artifacts.load_text(f"runs:/{run}/card/model_card.json")
            card = json.loads(text)
    except (NotCarriedOut, ValueError):
        return None
    return card if isinstance(card, dict) else None
