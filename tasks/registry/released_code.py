"""The code in a published model, compared with the code of the release that published it.

The digests of a release's files are in the ``RECORD`` of its wheel: those of the installed package,
or of a list that the release carries (``deploy/code_digests.py``). A development install has none.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from evenhand.fairlib.file_digests import BUNDLE, CODE, LIST, read_regular
from evenhand.tasks.errors import InputError

PACKAGE = "evenhand"
# of the evaluation.json of a model: the version that published it
VERSION_KEY = "evenhand"
# files of the package, by their place in a model
COPIED = {
    f"{PACKAGE}/fairlib/": f"{CODE}/fairlib/",
    f"{PACKAGE}/__init__.py": f"{CODE}/__init__.py",
    f"{PACKAGE}/tasks/serving/model_code.py": "model_code.py",
}
Digests = dict[str, str]


def installed_version() -> str | None:
    """Version of the installed package; None if there is none."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return None


def released_lists(files: Sequence[Path]) -> dict[str, Digests]:
    """Digests of a model's code by version: of the installed wheel, and of lists in files.

    Raises `InputError` for a file that holds no such list.
    """
    lists: dict[str, Digests] = {}
    installed = _installed_digests()
    version = installed_version()
    if installed and version is not None:
        lists[version] = installed
    for path in files:
        try:
            content = json.loads(path.read_text())
            digests = {str(name): str(digest) for name, digest in content["files"].items()}
            lists[str(content["version"])] = digests
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"--code {path} holds no digests of released code: a release has them as "
                "evenhand-VERSION.code.json."
            ) from None
    return lists


def code_faults(model: Path, lists: Mapping[str, Mapping[str, str]]) -> list[str] | None:
    """Where the code of a model, whose files were compared with its list, is not the released one.

    Returns None if the model does not say its version, or no list of that version is given.
    """
    evaluation = json.loads(read_regular(model / BUNDLE / "evaluation.json"))
    version = evaluation.get(VERSION_KEY)
    if version not in lists:
        return None
    released = lists[version]
    listed = json.loads(read_regular(model / BUNDLE / LIST))
    faults = []
    for path, entry in listed.items():
        if path.startswith(f"{BUNDLE}/"):
            continue
        digest = entry["sha256"] if isinstance(entry, dict) else entry
        if released.get(path) != digest:
            faults.append(f"{path} is not that of evenhand {version}")
    faults += [
        f"{path} of evenhand {version} is missing" for path in released if path not in listed
    ]
    return sorted(faults)


def place_in_model(path: str) -> str | None:
    """Place in a model of a file of the package; None if no model has it."""
    for prefix, place in COPIED.items():
        if path == prefix or (prefix.endswith("/") and path.startswith(prefix)):
            return place + path.removeprefix(prefix)
    return None


def _installed_digests() -> Digests:
    """Digests of the installed wheel's files; none of a development install."""
    digests: Digests = {}
    try:
        files = metadata.files(PACKAGE) or ()
    except metadata.PackageNotFoundError:
        return digests
    for file in files:
        place = place_in_model(file.as_posix())
        if place is not None and file.hash is not None and file.hash.mode == "sha256":
            padded = file.hash.value + "=" * (-len(file.hash.value) % 4)
            digests[place] = base64.urlsafe_b64decode(padded).hex()
    return digests
