"""``evenhand documents``: a version's model card, data sheet and technical file, as Markdown and
PDF.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from evenhand.flows.commands.report_command import indexed_runs
from evenhand.flows.runtime import prepare_environment, store_for_reading
from evenhand.tasks.documents.writing import read_facts, to_pdf, write_documents
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.bundle import open_bundle
from evenhand.tasks.registry.client import tracking_uri
from evenhand.tasks.written_input import read_yaml


def documents(
    model: str,
    output: Path,
    notes: Path | None,
    pdf: bool,
    store_url: str | None,
    as_json: bool = False,
) -> None:
    """Write a version's documents to the folder NAME-VERSION below `output`, and print what is
    missing.
    """
    written_notes = _read_notes(notes)
    store_url = store_for_reading(store_url)
    prepare_environment(store_url)
    store = Store(store_url)
    with store.workdir() as scratch:
        bundle = open_bundle(model, store, scratch)
        if bundle.version is None:
            raise InputError(
                f"{model} is a folder, and documents need the records of a version: name one."
            )
        monitors = _monitor_runs(store, bundle.digest)
        facts = read_facts(bundle, tracking_uri(store)) | {"monitors": monitors}
        texts, open_points = write_documents(facts, written_notes)
    files = {f"{name}.md": text.encode() for name, text in texts.items()}
    if pdf:
        files |= {f"{name}.pdf": to_pdf(text) for name, text in texts.items()}
    folder = output / f"{bundle.name}-{bundle.version}"
    _write(folder, files, bundle.digest)
    if as_json:
        paths = [str(folder / name) for name in files]
        print(json.dumps({"files": paths, "open_points": open_points}))
        return
    for name in files:
        print(folder / name)
    for name, points in open_points.items():
        print(f"\n{name}: {points}")


def _read_notes(path: Path | None) -> dict[str, str]:
    """Read the texts by heading that a person has written; none without a file."""
    if path is None:
        return {}
    content = read_yaml(path, "--notes")
    if not isinstance(content, dict) or not all(isinstance(text, str) for text in content.values()):
        raise InputError(
            f"--notes {path} is no mapping of headings to texts, such as 1b: It runs alone."
        )
    return {str(key): text for key, text in content.items()}


def _monitor_runs(store: Store, digest: str) -> list[dict[str, Any]]:
    """Return the verdicts of the store's runs that monitored the model with this digest."""
    monitors = []
    for run in indexed_runs(store):
        verdict = run["verdict"]
        is_monitoring = isinstance(verdict, dict) and verdict["status"] == "monitored"
        if is_monitoring and verdict["model"]["content"] == digest:
            monitors.append(verdict)
    return monitors


def _write(folder: Path, files: dict[str, bytes], digest: str) -> None:
    """Write files of the model with this digest, each under a temporary name at first."""
    file = folder / "technical-file.md"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (file.is_file() and digest in file.read_text()):
            raise InputError(
                f"{folder} has files of another model: move them, or give another --output."
            )
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as part:
            for name, content in files.items():
                Path(part, name).write_bytes(content)
            for name in files:
                Path(part, name).replace(folder / name)
    except OSError as error:
        raise NotCarriedOut(f"--output {folder} could not be written ({error.strerror}).") from None
