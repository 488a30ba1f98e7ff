"""The model registry: versions and their files, and the present versions of aliases."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from evenhand.fairlib.file_digests import (
    BUNDLE,
    LIST,
    ModelFiles,
    file_digests,
    is_of_others,
    model_faults,
)
from evenhand.tasks.errors import (
    InputError,
    NotCarriedOut,
    NotPermitted,
    ServiceAway,
    disk_is_full,
    waits_for_service,
    without_secrets,
)
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.registry_file import SQLITE, prepare_registry_file, sqlite_file

if TYPE_CHECKING:
    from mlflow import MlflowClient, MlflowException
    from mlflow.entities.model_registry import ModelVersion


MLFLOW_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # a request that is repeated blindly may be carried out twice: `waits_for_service` looks again
    # instead
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
DIGEST_TAG = "evenhand.content"
PROVENANCE_TAG = "evenhand.provenance"
# Digest of data, job and contract without the code, and the code by step, as JSON.
INPUTS_TAG = "evenhand.inputs"
CODE_TAG = "evenhand.code"
FILES_TAG = "evenhand.files"
EVALUATION_TAG = "evenhand.evaluation"
NAMES_TAG = "evenhand.value_names"
# Of a model and of its versions: the policy that was in force, also if the chain is lost.
POLICY_TAG = "evenhand.policy"
CASE_TAG = "evenhand.case_terms"
# MLflow stores the address of this process in these variables, for its subprocesses.
ADDRESSES = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")
# Characters that could end or change a text in quotes in a filter of the registry.
UNQUOTED = re.compile(r"['\"`\\%\x00-\x1f]")
# What a server answers to a client without a password, or without a permission.
FORBIDDEN = 403
REFUSALS = (401, FORBIDDEN)
REFUSED_CODES = {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": FORBIDDEN}
# The registry's error codes for something that does not exist.
ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


Answer = TypeVar("Answer")

_uses_kept_answers: ContextVar[bool] = ContextVar("uses_kept_answers", default=True)

# Bytes; SQLite's journal of a small change needs more.
LEAST_SPACE = 16_384


class Published(NamedTuple):
    """A version in the registry, and the digest of its content."""

    version: str
    content: str


def tracking_uri(store: Store) -> str:
    """``MLFLOW_TRACKING_URI``, or a SQLite file inside the store."""
    return (
        os.environ.get("MLFLOW_TRACKING_URI")
        or f"sqlite:///{(store.local / 'mlflow.db').resolve()}"
    )


def artifact_root(store: Store, uri: str) -> str | None:
    """Folder for the files of a registry without a server; None for a server, which has its own
    folder.
    """
    if is_server(uri):
        return None
    return str((store.local / "mlflow-artifacts").resolve())


@contextmanager
def registry_client(uri: str) -> Iterator[MlflowClient]:
    """Open MLflow without log output and telemetry; every connection error becomes a
    `NotCarriedOut`.

    It is a `ServiceAway` if a server or a database may answer again in a moment, and a
    `NotPermitted` if a server refuses the name and the password.

    The address in the environment is restored afterwards. Otherwise the next store that this
    process opens would take this registry for the user's choice, and publish to it.
    """
    for name, value in MLFLOW_DEFAULTS.items():
        os.environ.setdefault(name, value)
    import mlflow
    import requests
    import sqlalchemy.exc

    before = {name: os.environ.get(name) for name in ADDRESSES}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # MLflow logs every migration, and the traceback of every error that it raises.
            logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
            logging.getLogger("mlflow.pyfunc").setLevel(logging.WARNING)  # of the example row
            prepare_registry_file(uri)
            mlflow.set_tracking_uri(uri)
            mlflow.set_registry_uri(uri)
            yield mlflow.MlflowClient()
    except (
        mlflow.MlflowException,
        requests.RequestException,
        sqlalchemy.exc.SQLAlchemyError,
        sqlite3.Error,
        OSError,
    ) as error:
        # A database URI may hold a password, and the error's text may quote the URI.
        public_uri = without_secrets(uri)
        reason = without_secrets((str(error).splitlines() or [""])[0].replace(uri, public_uri))[
            :200
        ]
        if disk_is_full(error) or _has_no_space(uri):
            raise NotCarriedOut(
                f"the disk of the model registry at {public_uri}, or that of temporary files, is "
                "full: free some space, then run again."
            ) from None
        if _status(error) in REFUSALS:
            raise NotPermitted(_refusal(_status(error), public_uri)) from None
        away = "://" in uri and not uri.startswith("sqlite:") and _may_pass(error)
        raise (ServiceAway if away else NotCarriedOut)(
            f"the model registry at {public_uri} gave no valid answer ({type(error).__name__}: "
            f"{reason}): check MLFLOW_TRACKING_URI and the server, then run again."
        ) from None
    finally:
        for name, address in before.items():
            if address is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = address


def _status(error: Exception) -> int | None:
    """Return the status of a server's answer; None if the error is no answer."""
    response = getattr(error, "response", None)
    if response is not None:
        return int(response.status_code)
    code = getattr(error, "error_code", None)
    return REFUSED_CODES.get(code or "")


def _refusal(status: int | None, public_uri: str) -> str:
    """Say in one line what a server that refuses its client needs."""
    pair = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    if status == FORBIDDEN:
        who = f"the user {user!r}" if user else "this user"
        return (
            f"the model registry at {public_uri} does not permit {who} to do this: ask its "
            f"administrator for the permission, or set {pair} to those of another user, then run "
            "again."
        )
    if user and os.environ.get("MLFLOW_TRACKING_PASSWORD"):
        return (
            f"the model registry at {public_uri} refused the name {user!r} with its password: "
            f"correct {pair}, then run again."
        )
    return (
        f"the model registry at {public_uri} asks for a name and a password: set {pair}, then "
        "run again."
    )


def read_registry(uri: str, read: Callable[[Any], Answer]) -> Answer:
    """Call `read` with a client of the registry: without MLflow if a server answers as expected.

    `read` may be called twice, and must only read. Raises what `registry_client` raises.
    """
    if is_server(uri):
        from evenhand.tasks.registry.rest_reader import UnusualAnswer, can_read, rest_reader

        if can_read(uri):
            with suppress(UnusualAnswer), rest_reader(uri) as reader:
                return read(reader)
    with registry_client(uri) as client:
        return read(client)


def check_access(uri: str, name: str) -> None:
    """Ask a server once for a model's versions; raise `NotPermitted` if it refuses this client.

    A run asks before it trains. A server that is away is no reason to wait here: publishing does.
    """
    if not is_server(uri):
        return
    try:
        read_registry(uri, lambda client: client.search_model_versions(named(name), 1))
    except NotPermitted:
        raise
    except NotCarriedOut:
        return


def is_server(uri: str) -> bool:
    """Whether a registry's address is that of an MLflow server."""
    return uri.startswith(("http://", "https://"))


def absence() -> type[MlflowException]:
    """Return MLflow's exception, by whose code a client says that something is absent.

    After ``except`` this is called only once something was raised, so that other readers do without
    MLflow.
    """
    from mlflow import MlflowException

    return MlflowException


def _has_no_space(uri: str) -> bool:
    """Whether a full disk may be the reason of an error that does not say so, such as "disk I/O
    error".
    """
    path = sqlite_file(uri)
    if path is None or not path.parent.is_dir():
        return False
    return shutil.disk_usage(path.parent).free < LEAST_SPACE


def _may_pass(error: Exception) -> bool:
    """Whether an outage may be the reason: no connection, no answer, or a server's internal
    error.
    """
    import requests
    import sqlalchemy.exc

    code = getattr(error, "error_code", None)
    if code is not None:  # MLflow's exceptions of wrong addresses have types of their own
        kinds = ("MlflowException", "RestException")
        codes = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE")
        return type(error).__name__ in kinds and code in codes
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return error.response.status_code >= 500
    lost = (
        sqlalchemy.exc.OperationalError,
        sqlalchemy.exc.InterfaceError,
        ConnectionError,
        TimeoutError,
    )
    return isinstance(error, (requests.RequestException, *lost))


def published(uri: str, name: str, alias: str) -> Published | None:
    """Version that has the alias now; None if there is none."""

    def look_up() -> Published | None:
        return _look_up(uri, lambda client: client.get_model_version_by_alias(name, alias))

    answer = ask_once(uri, f"version of {name}@{alias}", look_up)
    return None if answer is None else Published(*answer)


def published_version(uri: str, name: str, version: str) -> Published | None:
    """Version by its number; None if there is none."""
    return _look_up(uri, lambda client: client.get_model_version(name, version))


@waits_for_service
def _look_up(uri: str, read: Callable[[MlflowClient], ModelVersion]) -> Published | None:
    def look_up(client: MlflowClient) -> ModelVersion | None:
        try:
            return read(client)
        except absence() as error:
            if error.error_code in ABSENT:
                return None
            raise

    version = read_registry(uri, look_up)
    if version is None:
        return None
    return Published(str(version.version), version.tags.get(DIGEST_TAG, ""))


@waits_for_service
def value_names(uri: str, name: str, version: str) -> dict[str, dict[str, str]]:
    """Names of coded values, by column and by value, that a version was last published with."""

    def look_up() -> Any:
        tags = read_registry(uri, lambda client: client.get_model_version(name, version).tags)
        return json.loads(tags.get(NAMES_TAG, "{}"))

    return dict(ask_once(uri, f"value names of {name}/{version}", look_up))


@waits_for_service
def case_terms(uri: str, name: str, version: str) -> dict[str, dict[str, Any]]:
    """What the contract of a version's last publication says for case files, by column."""

    def look_up() -> Any:
        tags = read_registry(uri, lambda client: client.get_model_version(name, version).tags)
        return json.loads(tags.get(CASE_TAG, "{}"))

    return dict(ask_once(uri, f"case terms of {name}/{version}", look_up))


@waits_for_service
def fetch_bundle(uri: str, name: str, version: str, folder: Path) -> Path:
    """Copy a version's parameter files into a folder below `folder`, and check the bytes of the
    whole model.

    Raises `InputError` if a file is not the one that was published. A version of an older evenhand
    has no list of files, and is not checked.
    """
    place, listed = _files(uri, name, version)
    place = place or _downloaded(uri, name, version, folder / "model")
    bundle = folder / "bundle"
    faults = _compare(place, listed, copy_to=bundle)
    if faults:
        raise InputError(
            f"{name} version {version} is not what was published: {faults[0]}. `evenhand verify "
            f"{name}` lists all; restore the files, or publish it again."
        )
    if not listed and (place / BUNDLE).is_dir():
        shutil.copytree(place / BUNDLE, bundle, dirs_exist_ok=True)
    return bundle


@waits_for_service
def fetch_files(uri: str, name: str, version: str, folder: Path) -> tuple[Path, str]:
    """Copy all files of a version into a folder below `folder`; return it, with the registry's
    digests of the files that the model's own list lacks.

    Raises `InputError` if a file is not the one that was published, or there is no list of them.
    """
    place, listed = _files(uri, name, version)
    if not listed:
        raise InputError(f"{name} version {version} has no list of its files: publish it again.")
    copy = folder / "files"
    if place is None:
        copy = _downloaded(uri, name, version, copy)
    elif not place.is_symlink():
        shutil.copytree(place, copy, symlinks=True)
    faults = _compare(copy, listed)
    if faults:
        raise InputError(f"{name} version {version} is not what was published: {faults[0]}.")
    return copy, listed


@waits_for_service
def damaged_files(uri: str, name: str, version: str, files: str | None = None) -> list[str] | None:
    """Compare a version's bytes with the digests that it was published with, or with `files`.

    Returns what was changed, in words; None if there is no list, because an older version published
    it. A model that must have a list in the registry is changed if it has none. With `files` the
    registry itself is asked where the bytes are, and no kept answer.
    """
    place, listed = (place_of(uri, name, version), files) if files else _files(uri, name, version)
    if place is not None:
        faults = _compare(place, listed)
    else:
        faults = _compare_served(uri, name, version, listed)
    if not listed and not faults:
        return None
    return faults


def _compare_served(uri: str, name: str, version: str, listed: str) -> list[str]:
    """Compare the files of a version that are on no disk of this machine."""
    if is_server(uri):
        from evenhand.tasks.registry.rest_reader import UnusualAnswer, can_read, rest_reader

        if can_read(uri):
            address = _address_of(uri, name, version)
            with suppress(UnusualAnswer), rest_reader(uri) as reader:
                return _faults_of(reader.files_at(address), listed)
    with tempfile.TemporaryDirectory() as scratch:
        return _compare(_downloaded(uri, name, version, Path(scratch)), listed)


def place_of(uri: str, name: str, version: str) -> Path | None:
    """Folder of a version's files, by the registry itself; None if it is not on this machine."""
    place = _address_of(uri, name, version).removeprefix("file://")
    return Path(place) if place.startswith("/") else None


def _address_of(uri: str, name: str, version: str) -> str:
    """Return the address of a version's files, as the registry has it."""

    def look_up(client: MlflowClient) -> str:
        return client.get_model_version_download_uri(name, version)

    return str(read_registry(uri, look_up))


def _downloaded(uri: str, name: str, version: str, folder: Path) -> Path:
    if is_server(uri):
        from evenhand.tasks.registry.rest_reader import UnusualAnswer, can_read, rest_reader

        copy = folder / "copy"
        if can_read(uri):
            address = _address_of(uri, name, version)
            with suppress(UnusualAnswer), rest_reader(uri) as reader:
                reader.copy_files(address, copy)
                return copy
        shutil.rmtree(copy, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    with registry_client(uri):
        import mlflow

        source = f"models:/{name}/{version}"
        return Path(mlflow.artifacts.download_artifacts(artifact_uri=source, dst_path=str(folder)))


def _compare(root: Path, listed: str, copy_to: Path | None = None) -> list[str]:
    """Compare a model's files with its list of digests, and the list with its digest in the
    registry.

    `copy_to` gets the bundle's files as they were compared. A version of an older evenhand has no
    list in the registry: then nothing is compared, unless the model itself must have had one.
    """
    if root.is_symlink():
        return ["its folder is a link"]
    if not root.is_dir():
        return ["its files are missing"]
    return _faults_of(root, listed, copy_to)


def _faults_of(files: Path | ModelFiles, listed: str, copy_to: Path | None = None) -> list[str]:
    """Return the faults by both lists; without one in the registry by the model's own, if it must
    have one.
    """
    faults = model_faults(files, listed or None, copy_to=copy_to)
    if listed:
        return faults or []
    # a version of ours has its list in the registry too
    return [] if faults is None else ["the registry's list of its files was removed"]


def _files(uri: str, name: str, version: str) -> tuple[Path | None, str]:
    """Folder of a version's files, None if it is not on this machine, and their digests as
    published.
    """

    def look_up() -> dict[str, str]:
        tags = read_registry(uri, lambda client: client.get_model_version(name, version).tags)
        place = str(place_of(uri, name, version) or "")
        return {"place": place, "files": tags.get(FILES_TAG, "")}

    answer = ask_once(uri, f"files of {name}/{version}", look_up)
    return (Path(answer["place"]) if answer["place"].startswith("/") else None), answer["files"]


def listed_files(root: Path) -> str:
    """Digests of a model's files but those that its own list has, for the registry."""
    inner = json.loads((root / BUNDLE / LIST).read_text())
    digests = file_digests(root).items()
    outer = {
        path: digest for path, digest in digests if path not in inner and not is_of_others(path)
    }
    return json.dumps(outer, sort_keys=True)


def read_card(uri: str, name: str, version: str) -> dict[str, Any] | None:
    """Model card that a version was published with; None if it cannot be read.

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


def named(name: str) -> str:
    """The registry's filter of a model's versions; an `InputError` for a name that would end it."""
    if UNQUOTED.search(name):
        raise InputError(f"the model {name!r} is not in the registry: no name has such characters.")
    return f"name = '{name}'"


def tags_of_versions(client: MlflowClient, name: str) -> dict[str, dict[str, str]]:
    """Return the tags of each version of a model, by number; none if there is no such model."""
    tags = {}
    token = None
    while token != "":
        page = client.search_model_versions(named(name), max_results=1000, page_token=token)
        for item in page:
            tags[str(item.version)] = dict(item.tags)
        token = page.token or ""
    return tags


@waits_for_service
def registered(uri: str, name: str) -> tuple[list[str], list[str]]:
    """Names of all models, and the versions of one of them, none if it is not there."""
    with registry_client(uri) as client:
        names = [model.name for model in client.search_registered_models(max_results=1000)]
        versions: list[str] = []
        if name in names:
            entries = client.search_model_versions(named(name), max_results=1000)
            versions = sorted((str(entry.version) for entry in entries), key=int)
    return sorted(names), versions


@waits_for_service
def current_aliases(uri: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Version of every alias of each model; models that are not in the registry are left out."""
    with registry_client(uri) as client:
        unique_names = set(names)
        return {
            model.name: {alias: str(version) for alias, version in dict(model.aliases).items()}
            for model in client.search_registered_models(max_results=1000)
            if model.name in unique_names
        }


@contextmanager
def without_kept_answers() -> Iterator[None]:
    """Ask the registry itself in this block: anybody who can write to the store can change kept
    answers.
    """
    token = _uses_kept_answers.set(False)
    try:
        yield
    finally:
        _uses_kept_answers.reset(token)


def ask_once(uri: str, question: str, ask: Callable[[], Any]) -> Any:
    """Answer a question about the registry from the kept answers, or with `ask` if the registry has
    changed.

    Answers are kept of a registry in a SQLite file only. `question` names the answer among those
    about the same state of the registry. `ask` returns the answer in JSON types; None is not kept.

    A run whose steps are all cached only asks which version has the alias, and for its card.
    Importing MLflow and opening its database would take as long as the rest of such a run.
    """
    state = _state(uri)
    if state is None or not _uses_kept_answers.get():
        return ask()
    file = Path(f"{uri.removeprefix(SQLITE)}.answers.json")
    try:
        cache = json.loads(file.read_text())
    except (OSError, ValueError):
        cache = None
    if not isinstance(cache, dict) or cache.get("state") != state:
        cache = {"state": state, "answers": {}}
    answers = cache["answers"]
    if question not in answers:
        answers[question] = ask()
        if answers[question] is not None and _state(uri) == state:
            part = file.with_name(f"{file.name}.{os.getpid()}.part")
            with suppress(OSError):  # a registry that this process may only read
                part.write_text(json.dumps(cache))
                part.replace(file)
    return answers[question]


def _state(uri: str) -> str | None:
    """State of a SQLite file, which every change of its content changes; None for any other
    registry.

    The header counts the changes (bytes 24 to 27), unless the database writes ahead (bytes 18 and
    19 are 2). A journal next to the file means that a change is under way or was interrupted.
    """
    path = Path(uri.removeprefix(SQLITE))
    if not uri.startswith(SQLITE) or Path(f"{path}-journal").exists():
        return None
    try:
        with path.open("rb") as file:
            header = file.read(28)
            status = os.fstat(file.fileno())
    except OSError:
        return None
    if len(header) < 28 or header[18:20] != b"\1\1":
        return None
    return f"{header[24:28].hex()} {status.st_ino} {status.st_size} {status.st_mtime_ns}"
