"""The model registry: versions and their files, aliases, and the history of the aliases.

The registry stores the history beside the aliases, as tags of the registered model, so that all people who
publish to it share one history. Each record of a move holds the digest of the record before it: a changed or
removed record is detected once another record follows it. Two moves at the same moment get the same number,
and neither overwrites the other's record.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import logging
import os
import platform
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.tasks.errors import InputError, NotCarriedOut, without_secrets
from evenhand.tasks.fingerprint import now
from evenhand.tasks.registry_answers import ask_once
from evenhand.tasks.store import Store

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion


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
AUDIT_TAG = "evenhand.audit."
EVALUATION_TAG = "evenhand.evaluation"
NAMES_TAG = "evenhand.value_names"
# MLflow stores the address of this process in these variables, for its subprocesses.
_ADDRESSES = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")
# The registry's error codes for something that does not exist.
ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
# Variables with the name of the acting person; the last two are set by CI systems.
ACTORS = ("EVENHAND_ACTOR", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")


@dataclass(frozen=True)
class Published:
    """A version in the registry, and the digest of its content."""

    version: str
    content: str


def tracking_uri(store: Store) -> str:
    """``MLFLOW_TRACKING_URI``, or a SQLite file inside the store."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(store.local / 'mlflow.db').resolve()}"


def artifact_root(store: Store, uri: str) -> str | None:
    """Folder for the files of a registry without a server; None for a server, which has its own folder."""
    if uri.startswith(("http://", "https://")):
        return None
    return str((store.local / "mlflow-artifacts").resolve())


@contextmanager
def registry_client(uri: str) -> Iterator[MlflowClient]:
    """
    Open MLflow without log output and telemetry; every connection error becomes a `NotCarriedOut`.

    The address in the environment is restored afterwards. Otherwise the next store that this process opens
    would take this registry for the user's choice, and publish to it.
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
            # MLflow logs every database migration.
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
        # A database URI may hold a password, and the error's text may quote the URI.
        shown = without_secrets(uri)
        reason = without_secrets((str(error).splitlines() or [""])[0].replace(uri, shown))[:200]
        raise NotCarriedOut(
            f"the model registry at {shown} gave no valid answer ({type(error).__name__}: {reason}): "
            "check MLFLOW_TRACKING_URI and the server, then run again."
        ) from None
    finally:
        for name, address in before.items():
            if address is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = address


# versions


def published(uri: str, name: str, alias: str) -> Published | None:
    """Version that has the alias now; None if there is none."""

    def look_up() -> dict[str, str] | None:
        found = _look_up(uri, lambda client: client.get_model_version_by_alias(name, alias))
        return None if found is None else asdict(found)

    found = ask_once(uri, f"alias {name}@{alias}", look_up)
    return None if found is None else Published(**found)


def published_version(uri: str, name: str, version: str) -> Published | None:
    """Version by its number; None if there is none."""
    return _look_up(uri, lambda client: client.get_model_version(name, version))


def _look_up(uri: str, read: Callable[[MlflowClient], ModelVersion]) -> Published | None:
    with registry_client(uri) as client:
        from mlflow import MlflowException

        try:
            version = read(client)
        except MlflowException as error:
            if error.error_code in ABSENT:
                return None
            raise
    return Published(str(version.version), version.tags.get(DIGEST_TAG, ""))


def value_names(uri: str, name: str, version: str) -> dict[str, dict[str, str]]:
    """Names of coded values, by column and by value, that a version was last published with."""

    def look_up() -> Any:
        with registry_client(uri) as client:
            return json.loads(client.get_model_version(name, version).tags.get(NAMES_TAG, "{}"))

    return dict(ask_once(uri, f"value names of {name}/{version}", look_up))


def fetch_bundle(uri: str, name: str, version: str, folder: Path) -> Path:
    """Download a version's parameter files into a folder below `folder`."""
    with registry_client(uri):
        import mlflow

        place = mlflow.artifacts.download_artifacts(
            artifact_uri=f"models:/{name}/{version}/artifacts/bundle", dst_path=str(folder)
        )
    return Path(place)


def read_card(uri: str, name: str, version: str) -> dict[str, Any] | None:
    """
    Model card that a version was published with; None if it cannot be read.

    An unreachable registry raises no error here, because the card is only shown.
    """

    def look_up() -> str:
        with registry_client(uri) as client:
            run = client.get_run(client.get_model_version(name, version).run_id)
        return f"{run.info.artifact_uri}/card/model_card.json"

    try:
        address = ask_once(uri, f"card of {name}/{version}", look_up)
        path = address.removeprefix("file://")
        if path.startswith("/"):  # a file on this machine needs no MLflow
            text = Path(path).read_text()
        else:
            with registry_client(uri):
                import mlflow

                text = mlflow.artifacts.load_text(address)
        card = json.loads(text)
    except (NotCarriedOut, OSError, ValueError):
        return None
    return card if isinstance(card, dict) else None


def record_evaluation(client: MlflowClient, name: str, version: str, evaluation: Mapping[str, Any]) -> None:
    """Store the result of a version's latest evaluation with the version; :func:`promote` reads it."""
    client.set_model_version_tag(name, version, EVALUATION_TAG, json.dumps(dict(evaluation), sort_keys=True))


def recorded_evaluation(client: MlflowClient, name: str, version: str) -> dict[str, Any] | None:
    """Result of a version's latest evaluation; None if none is recorded."""
    tag = client.get_model_version(name, version).tags.get(EVALUATION_TAG)
    return None if tag is None else dict(json.loads(tag))


# aliases


@dataclass(frozen=True)
class AliasChange:
    """The record of one move of an alias."""

    number: int  # of the model's moves, from 1
    when: str  # UTC, ISO 8601
    who: str
    alias: str
    from_version: str | None
    to_version: str
    reason: str  # "run" (a retraining run published the version) or "promote"
    evaluation: Mapping[str, Any]  # the evaluation that allowed the move
    previous: str = ""  # digest of the record before; empty for the first

    def to_json(self) -> str:
        """Canonical JSON, of which :attr:`digest` is taken."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def digest(self) -> str:
        """sha256 of the record."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


@dataclass(frozen=True)
class History:
    """All recorded moves of a model's aliases, oldest first, and the versions that the aliases have now."""

    name: str
    changes: Sequence[AliasChange]
    aliases: Mapping[str, str]
    faults: Sequence[str]  # sentences: records that were changed or removed, aliases moved without a record


def actor() -> str:
    """Name of the acting person: ``EVENHAND_ACTOR``, else who started the CI job, else user@machine."""
    for name in ACTORS:
        if os.environ.get(name):
            return os.environ[name]
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        user = f"uid {os.getuid()}"
    return f"{user}@{platform.node()}"


def move_alias(
    client: MlflowClient, name: str, alias: str, version: str, *, reason: str, evaluation: Mapping[str, Any]
) -> AliasChange | None:
    """
    Record the move, then make it; None if the version has the alias already.

    The record is written first. A process that is killed between the two leaves a record without a move,
    which :func:`alias_history` reports, and never a move without a record.
    """
    model = client.get_registered_model(name)
    before = dict(model.aliases).get(alias)
    if before is not None and str(before) == version:
        return None
    changes = _changes(model.tags)
    change = AliasChange(
        number=changes[-1].number + 1 if changes else 1,
        when=now(),
        who=actor(),
        alias=alias,
        from_version=None if before is None else str(before),
        to_version=version,
        reason=reason,
        evaluation=dict(evaluation),
        previous=changes[-1].digest if changes else "",
    )
    # The registry has no compare-and-set. A random key keeps simultaneous moves from overwriting each other.
    key = f"{AUDIT_TAG}{change.number:06d}.{secrets.token_hex(4)}"
    client.set_registered_model_tag(name, key, change.to_json())
    client.set_registered_model_alias(name, alias, version)
    return change


def promote(uri: str, name: str, version: str, alias: str) -> AliasChange | None:
    """
    Give a version an alias if its recorded evaluation passed; None if it has the alias already.

    Raises `InputError` if no gates judged the version, or they did not pass it.
    """
    with registry_client(uri) as client:
        evaluation = recorded_evaluation(client, name, version) or {}
        reason = _refusal(evaluation) or _outdated(client, name, version, alias, evaluation)
        if reason:
            raise InputError(
                f"{name} version {version} cannot become {alias}: {reason}. `evenhand evaluate "
                f"models:/{name}/{version} --data … --gates …` evaluates it."
            )
        return move_alias(client, name, alias, version, reason="promote", evaluation=evaluation)


def _refusal(evaluation: Mapping[str, Any]) -> str | None:
    """Reason why an evaluation does not allow a promotion; None if it does."""
    verdict = evaluation.get("verdict")
    if verdict == "passed":
        same = "its recorded evaluation is on the table that it learned from"
        return same if evaluation.get("same_table") else None
    reasons = {
        None: "no evaluation of it is recorded",
        "no_gates": "it was never judged by gates",
        "refused": "its recorded evaluation was refused by the gates",
    }
    return reasons.get(verdict, "its recorded evaluation lacks evidence for a gate")


def _outdated(
    client: MlflowClient, name: str, version: str, alias: str, evaluation: Mapping[str, Any]
) -> str | None:
    """
    Reason why the evaluation's baseline no longer counts: another version has the alias now.

    A version that had the alias before may get it back: a rollback is always possible.
    """
    model = client.get_registered_model(name)
    current, baseline = dict(model.aliases).get(alias), str(evaluation.get("baseline") or "")
    ours = baseline.startswith(f"models:/{name}/")
    if current is None or not ours or baseline == f"models:/{name}/{current}" or str(current) == version:
        return None
    if any(change.alias == alias and change.from_version == version for change in _changes(model.tags)):
        return None
    return f"it was compared with version {baseline.rpartition('/')[2]}, and version {current} is {alias} now"


def current_aliases(uri: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Version of every alias of each model; models that are not in the registry are left out."""
    with registry_client(uri) as client:
        wanted = set(names)
        return {
            model.name: {alias: str(version) for alias, version in dict(model.aliases).items()}
            for model in client.search_registered_models(max_results=1000)
            if model.name in wanted
        }


def alias_history(uri: str, name: str) -> History:
    """Read a model's history; an `InputError` if there is no such model."""
    with registry_client(uri) as client:
        from mlflow import MlflowException

        try:
            model = client.get_registered_model(name)
        except MlflowException as error:
            if error.error_code in ABSENT:
                raise InputError(
                    f"the model {name!r} is not in the registry: `evenhand run JOB` publishes one."
                ) from None
            raise
        aliases = {alias: str(version) for alias, version in dict(model.aliases).items()}
    changes = _changes(model.tags)
    return History(name, changes, aliases, _faults(changes, aliases))


def _changes(tags: Mapping[str, str]) -> list[AliasChange]:
    """Records in order; an unreadable record is left out and thus shows as a gap in the chain."""
    found = []
    for key, text in tags.items():
        if not key.startswith(AUDIT_TAG):
            continue
        try:
            found.append(AliasChange(**json.loads(text)))
        except (ValueError, TypeError):
            continue
    return sorted(found, key=lambda change: (change.number, change.when, change.digest))


def _faults(changes: Sequence[AliasChange], aliases: Mapping[str, str]) -> list[str]:
    """Check the chain of digests, and each alias against the last record of a move."""
    faults = []
    digests: dict[int, set[str]] = {0: {""}}
    for change in changes:
        digests.setdefault(change.number, set()).add(change.digest)
    for change in changes:
        if change.previous not in digests.get(change.number - 1, set()):
            faults.append(f"the record before number {change.number} was changed or taken out")
    # Of several moves with the same number, any may have been made last.
    last: dict[str, list[AliasChange]] = {}
    for change in changes:
        known = last.setdefault(change.alias, [])
        last[change.alias] = [item for item in known if item.number == change.number] + [change]
    for alias in sorted({*last, *aliases}):
        recorded, actual = [change.to_version for change in last.get(alias, [])], aliases.get(alias)
        if actual not in recorded:
            place = "at no version" if actual is None else f"at version {actual}"
            expected = f"version {recorded[-1]} by the last record" if recorded else "in no record"
            faults.append(f"{alias} is {place}, but {expected}: it was moved without a record")
    return faults
