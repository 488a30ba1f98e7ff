"""SHA-256 of the files of a folder, and the faults of a published model's folder.

:func:`model_faults` alone decides whether a model's folder is what was published. It follows no
link, opens regular files only, and reads every file once. A published model has a copy of this
module and carries out the same function before anything else of its code is imported; so the module
imports the standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

LIST = "digests.json"
BUNDLE = "artifacts/bundle"  # of a model's folder
# Python writes these folders below a model's code when it is imported from there.
BYTECODE = "__pycache__"
# MLflow's own files in a model's folder; the registry has their digests, the model's list has not.
MLFLOW_FILES = (
    "MLmodel",
    "conda.yaml",
    "input_example.json",
    "python_env.yaml",
    "requirements.txt",
    "serving_input_example.json",
)
DOWNLOADED = "registered_model_meta"
# Models with this file, or with one of these keys in a file of their bundle, were published with a
# list: every release that wrote one of them wrote lists.
CHECKS = "code/evenhand/fairlib/file_digests.py"
LISTED_KEY = "files_listed"
LISTED_KEYS = {
    "evaluation.json": (LISTED_KEY, "evenhand"),
    "reference.json": ("membership",),
    "training_rows.json": ("format",),
}
CHUNK_BYTES = 1 << 20
# The only kinds of files that a model may have, by the folder that they are in.
TOP_FILES = (*MLFLOW_FILES, "model_code.py")
CODE = "code/evenhand"
PARAMETER_SUFFIXES = (".json", ".safetensors", ".ubj")
# An estimator of scikit-learn by skops: the only file of its kind, in the model's own folder.
ESTIMATOR_FILE = "estimator.skops"
ESTIMATOR = f"{BUNDLE}/model/{ESTIMATOR_FILE}"
ENCODER = f"{BUNDLE}/sentence_encoder"
ENCODER_SUFFIXES = (".json", ".safetensors", ".txt", ".md", ".model")
ENCODER_NAMES = (".gitattributes", "LICENSE", "NOTICE")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
FORBIDDEN = "is no kind of file that a model may have"


def sha256_of_file(path: Path) -> str:
    """Digest of a file's bytes.

    Parameters
    ----------
    path : Path
        Path of the file.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_digests(folder: Path) -> dict[str, str]:
    """Digest of each file below a folder, by its path in it.

    Parameters
    ----------
    folder : Path
        Any folder.

    Returns
    -------
    dict
        Path within the folder to digest.
    """
    members = sorted(item for item in folder.rglob("*") if item.is_file())
    return {item.relative_to(folder).as_posix(): sha256_of_file(item) for item in members}


def sized_digests(folder: Path) -> dict[str, dict[str, str | int]]:
    """Size and digest of each file below a folder, as a model's list has them.

    Parameters
    ----------
    folder : Path
        Any folder.

    Returns
    -------
    dict
        Path within the folder to ``sha256`` and ``bytes``.
    """
    listed: dict[str, dict[str, str | int]] = {}
    for path, digest in file_digests(folder).items():
        listed[path] = {"sha256": digest, "bytes": (folder / path).stat().st_size}
    return listed


def is_allowed(path: str) -> bool:
    """Whether a model may have a file of this name in this place.

    A model has MLflow's files and ``model_code.py``; Python source below ``code/evenhand``; and in
    its bundle parameters as JSON, safetensors and UBJSON, perhaps with a sentence encoder or with
    one estimator by skops.

    Parameters
    ----------
    path : str
        Path of the file within the model.

    Returns
    -------
    bool
        False for every other kind of file, such as bytecode, a compiled library or a ``.pth``.
    """
    folder, _, name = path.rpartition("/")
    parts = path.split("/")
    if name in ENCODER_NAMES and f"{folder}/".startswith(f"{ENCODER}/"):
        parts = parts[:-1]
    if not all(PLAIN_NAME.fullmatch(part) for part in parts):
        return False
    if not folder:
        return path in TOP_FILES
    if path == ESTIMATOR:
        return True
    if f"{folder}/".startswith(f"{CODE}/"):
        return name.endswith(".py") or name == "py.typed"
    if f"{folder}/".startswith(f"{ENCODER}/"):
        return name.endswith(ENCODER_SUFFIXES) or name in ENCODER_NAMES
    return f"{folder}/".startswith(f"{BUNDLE}/") and name.endswith(PARAMETER_SUFFIXES)


def is_of_others(path: str) -> bool:
    """Whether MLflow, on a download, or Python, on an import, may have added a file to a model.

    Parameters
    ----------
    path : str
        Path of the file within the model.

    Returns
    -------
    bool
        True if no list has to name the file.
    """
    return path == DOWNLOADED or BYTECODE in path.split("/")


class ListedFile(NamedTuple):
    """A file of a list; an older list has no sizes."""

    sha256: str
    size: int | None


class ModelFiles(Protocol):
    """Where a model's files are, such as a server; a folder is :class:`FolderFiles`."""

    def entries(self) -> tuple[dict[str, bool], dict[str, str]]:
        """List all that there is.

        Returns
        -------
        tuple of dict and dict
            Regular files and folders by their path (whether it is a folder), and what is neither
            with the fault that it is.
        """

    def content(self, path: str) -> bytes:
        """Read a regular file; OSError for anything else.

        Parameters
        ----------
        path : str
            Path of the file within the model.

        Returns
        -------
        bytes
            The file's bytes.
        """

    def is_listed(self, path: str, listed: ListedFile, target: Path | None) -> bool:
        """Whether a file is the regular one that a list has.

        Parameters
        ----------
        path : str
            Path of the file within the model.
        listed : ListedFile
            Its digest and size.
        target : Path, optional
            A file that gets the bytes that were compared.

        Returns
        -------
        bool
            False if it differs, or is no regular file.
        """


def model_faults(
    folder: Path | ModelFiles,
    published: str | None = None,
    *,
    copy_to: Path | None = None,
    running: str = "",
) -> list[str] | None:
    """Compare all that lies below a model's folder with the list of its files.

    Only the listed files may be there, as regular files, and the folders that they need. A link, a
    device, a pipe, a socket, another file or folder, bytecode, and a file that is missing or
    differs in size or content are faults, and so is a listed file of a kind that no model may have.

    Parameters
    ----------
    folder : Path or ModelFiles
        The folder of a model, with its bundle in ``artifacts/bundle``, or a bundle alone. Links on
        the way to it are followed.
    published : str, optional
        The registry's digests, as JSON, of the files that the model's own list lacks. Without them
        MLflow's own files may have any content, since no list covers them.
    copy_to : Path, optional
        A folder that gets the files of the bundle: the same bytes that were compared.
    running : str, optional
        Name, without its suffix, of a file next to the bundle that is being executed: Python may
        have written its bytecode just now, so that is no fault.

    Returns
    -------
    list of str or None
        A sentence for each fault. None for a model that has no list: an older version published it,
        or it is none of ours.
    """
    files: ModelFiles = FolderFiles(folder) if isinstance(folder, Path) else folder
    entries, irregular = files.entries()
    if running:
        entries = _without_bytecode_of(running, entries)
    whole = published is not None or _is_whole(entries, irregular)
    place = f"{BUNDLE}/{LIST}" if whole else LIST
    if place not in entries:
        return _faults_without_list(files, entries, irregular, place, published)
    if irregular:
        return [f"{path} {fault}" for path, fault in irregular.items()]
    try:
        expected = _expected_digests(files, place, published, whole=whole)
    except _ChangedError as error:
        return [str(error)]
    bundle = f"{BUNDLE}/" if whole else ""
    within = "" if whole else f"{BUNDLE}/"
    faults = [f"{path} {FORBIDDEN}" for path in expected if not is_allowed(f"{within}{path}")]
    if faults:
        return faults
    faults = [f"{path} is missing" for path in expected if path not in entries]
    faults += _added(entries, expected, published, whole=whole)
    for path in sorted(set(expected) & set(entries)):
        target = None
        if copy_to is not None and path.startswith(bundle):
            target = copy_to / path.removeprefix(bundle)
        if not files.is_listed(path, expected[path], target):
            faults.append(f"{path} was changed")
    return faults


def _is_whole(entries: Mapping[str, bool], irregular: Mapping[str, str]) -> bool:
    """Whether a folder is a whole model with its bundle, not a bundle alone."""
    if "artifacts" in irregular:
        return True
    return any(path == BUNDLE or path.startswith(f"{BUNDLE}/") for path in (*entries, *irregular))


def other_code(described: object) -> str | None:
    """Say whether MLflow's description of a model names other code or files than the listed ones.

    Parameters
    ----------
    described : object
        The content of the file ``MLmodel``, which the model's own list does not cover.

    Returns
    -------
    str or None
        The fault; None for a description such as a publication writes it.
    """
    flavors = None
    if isinstance(described, Mapping):
        flavors = described.get("flavors")
    if not isinstance(flavors, Mapping) or set(flavors) != {"python_function"}:
        return "MLmodel was changed: it names another kind of model"
    flavor = flavors["python_function"]
    loader = str(flavor.get("loader_module"))
    script = str(flavor.get("model_code_path")).replace("\\", "/").rpartition("/")[2]
    fits = loader.startswith("mlflow.pyfunc.") and script == "model_code.py"
    if not fits or flavor.get("code") != "code" or "data" in flavor or "python_model" in flavor:
        return "MLmodel was changed: it names other code than the listed"
    return None


def _listed(content: Mapping[str, Any]) -> dict[str, ListedFile]:
    """The files of a list, in the form of today or of an older version."""
    listed = {}
    for path, entry in content.items():
        if isinstance(entry, Mapping):
            listed[str(path)] = ListedFile(str(entry["sha256"]), int(entry["bytes"]))
        else:
            listed[str(path)] = ListedFile(str(entry), None)
    return listed


class _ChangedError(Exception):
    """A list that cannot be used; its text is the fault."""


class FolderFiles:
    """The files of a folder on this machine; no link in it is followed.

    Parameters
    ----------
    folder : Path
        The folder of a model, or of a bundle.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def entries(self) -> tuple[dict[str, bool], dict[str, str]]:
        """List what lies below the folder; see :class:`ModelFiles`."""
        entries: dict[str, bool] = {}
        irregular: dict[str, str] = {}
        waiting = [""]
        while waiting:
            inner = waiting.pop()
            with os.scandir(self._folder / inner) as members:
                names = sorted(member.name for member in members)
            for name in names:
                path = f"{inner}/{name}" if inner else name
                mode = os.lstat(self._folder / path).st_mode
                if stat.S_ISDIR(mode):
                    entries[path] = True
                    waiting.append(path)
                elif stat.S_ISREG(mode):
                    entries[path] = False
                elif stat.S_ISLNK(mode):
                    irregular[path] = "is a link"
                else:
                    irregular[path] = "is no regular file"
        return entries, irregular

    def content(self, path: str) -> bytes:
        """Read a regular file."""
        return read_regular(self._folder / path)

    def is_listed(self, path: str, listed: ListedFile, target: Path | None) -> bool:
        """Whether a file is the regular one that a list has; its bytes are also written to
        `target`.
        """
        try:
            descriptor = _open_regular(self._folder / path)
        except OSError:
            return False
        with os.fdopen(descriptor, "rb") as stream:
            # a file that was made larger is not read
            if listed.size is not None and os.fstat(descriptor).st_size != listed.size:
                return False
            if target is None:
                return hashlib.file_digest(stream, "sha256").hexdigest() == listed.sha256
            digest = hashlib.sha256()
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as output:
                for chunk in iter(lambda: stream.read(CHUNK_BYTES), b""):
                    digest.update(chunk)
                    output.write(chunk)
        return digest.hexdigest() == listed.sha256


def _without_bytecode_of(name: str, entries: Mapping[str, bool]) -> dict[str, bool]:
    """Leave out the bytecode of one file of the folder itself."""
    other_files = {
        path: is_folder
        for path, is_folder in entries.items()
        if not path.startswith(f"{BYTECODE}/{name}.")
    }
    if not any(path.startswith(f"{BYTECODE}/") for path in other_files):
        other_files.pop(BYTECODE, None)
    return other_files


def _faults_without_list(
    files: ModelFiles,
    entries: Mapping[str, bool],
    irregular: Mapping[str, str],
    place: str,
    published: str | None,
) -> list[str] | None:
    """Faults of a model whose list is not there: it is missing where there must have been one."""
    must_have = bool(published) or CHECKS in entries
    for name, keys in LISTED_KEYS.items():
        path = str(Path(place).with_name(name))
        if entries.get(path) is False:
            must_have = must_have or _has_key(files, path, keys)
    for path, fault in irregular.items():
        if place == path or place.startswith(f"{path}/"):
            return [f"{path} {fault}"]
    if must_have:
        return [f"{place} is missing"]
    return None


def _has_key(files: ModelFiles, path: str, keys: tuple[str, ...]) -> bool:
    """Whether a JSON file has one of these keys; also if it cannot be read as one."""
    try:
        content = json.loads(files.content(path))
    except (ValueError, RecursionError):
        return True
    return isinstance(content, dict) and any(key in content for key in keys)


def _expected_digests(
    files: ModelFiles, place: str, published: str | None, *, whole: bool
) -> dict[str, ListedFile]:
    """Digest and size of each file that must be there, by its path in the model."""
    content = files.content(place)
    outer: dict[str, ListedFile] = {}
    of_list = {place: ListedFile(hashlib.sha256(content).hexdigest(), len(content))}
    try:
        if published is not None:
            outer = _listed(json.loads(published))
        inner = _listed(json.loads(content))
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        raise _ChangedError(f"{place} was changed") from None
    if published is not None:
        published_list = outer.get(place)
        if published_list is None or published_list.sha256 != of_list[place].sha256:
            raise _ChangedError(f"{place} was changed")
    if whole:
        return {**inner, **outer, **of_list}
    prefix = f"{BUNDLE}/"
    in_bundle = {}
    for path, digest in inner.items():
        if path.startswith(prefix):
            in_bundle[path.removeprefix(prefix)] = digest
    return in_bundle | of_list


def _added(
    entries: Mapping[str, bool],
    expected: Mapping[str, ListedFile],
    published: str | None,
    *,
    whole: bool,
) -> list[str]:
    """Name files and folders that no list has; of the files in such a folder the folder alone."""
    allowed_files = set(expected)
    if whole:
        allowed_files.add(DOWNLOADED)
    if whole and published is None:
        allowed_files.update(MLFLOW_FILES)
    needed_folders: set[str] = set()
    for path in expected:
        needed_folders.update(_parents(path))
    faults = []
    added_folders: set[str] = set()
    for path, is_folder in entries.items():
        if path in (needed_folders if is_folder else allowed_files):
            continue
        if is_folder:
            added_folders.add(path)
        if not added_folders.isdisjoint(_parents(path)):
            continue
        if BYTECODE in path.split("/"):
            faults.append(
                f"{path} was added: delete bytecode, which Python would execute unchecked"
            )
        else:
            faults.append(f"{path} was added")
    return faults


def _parents(path: str) -> list[str]:
    """Folders above a path, the nearest first."""
    parents = []
    parent = path.rpartition("/")[0]
    while parent:
        parents.append(parent)
        parent = parent.rpartition("/")[0]
    return parents


def read_regular(path: Path) -> bytes:
    """Read a regular file; OSError for a link and for anything else.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    bytes
        Its content.

    Raises
    ------
    OSError
        If there is no file, or what is there is no regular one.
    """
    with os.fdopen(_open_regular(path), "rb") as stream:
        return stream.read()


def _open_regular(path: Path) -> int:
    """File descriptor of a regular file, without following a link."""
    # a pipe without a writer would block
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return descriptor
