"""SHA-256 of the files of a folder, and what was changed since they were listed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

LIST = "digests.json"
BUNDLE = "artifacts/bundle"  # of a model's folder
# Python writes these folders below a model's code when it is imported.
BYTECODE = "__pycache__"


def sha256_of_file(path: Path) -> str:
    """Digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_digests(folder: Path) -> dict[str, str]:
    """Digest of each file below a folder, by its path in it."""
    members = sorted(item for item in folder.rglob("*") if item.is_file())
    return {item.relative_to(folder).as_posix(): sha256_of_file(item) for item in members}


def changed_files(found: Mapping[str, str], listed: Mapping[str, str]) -> list[str]:
    """Compare digests with a list; say of each file that differs how: missing, changed or added."""
    faults = [f"{path} is missing" for path in listed if path not in found]
    faults += [f"{path} was changed" for path in listed if found.get(path, listed[path]) != listed[path]]
    new = [path for path in found if path not in listed and not is_of_others(path)]
    return faults + [f"{path} was added" for path in new]


def is_of_others(path: str) -> bool:
    """Whether MLflow, on a download, or Python, on an import, may have added a file to a model."""
    return path == "registered_model_meta" or BYTECODE in path.split("/")


def check_bundle(bundle: Path) -> list[str]:
    """Compare a bundle, and the model's code beside it if it lies in a model's folder, with its list.

    Returns what was changed, in words; nothing for a bundle of an older version, which has no list. A list
    that was changed too is found only by comparison with the registry.
    """
    if not (bundle / LIST).is_file():
        return []
    try:
        listed: dict[str, str] = json.loads((bundle / LIST).read_text())
    except ValueError:
        return [f"{LIST} was changed"]
    prefix = f"{BUNDLE}/"
    found = {prefix + path: digest for path, digest in file_digests(bundle).items() if path != LIST}
    root = bundle.parents[1]
    if bundle.as_posix().endswith(f"/{BUNDLE}") and (root / "MLmodel").is_file():
        code = file_digests(root / "code")
        found |= {f"code/{path}": digest for path, digest in code.items()}
        found |= {name: sha256_of_file(root / name) for name in ("model_code.py",) if (root / name).is_file()}
    else:
        listed = {path: digest for path, digest in listed.items() if path.startswith(prefix)}
    return changed_files(found, listed)
