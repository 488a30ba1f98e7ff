"""``evenhand export``: a published model as one archive, an ONNX or PMML file, or a SQL query."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.flows.commands.terminal import exact_stdout, print_note
from evenhand.tasks.errors import InputError, NotCarriedOut

if TYPE_CHECKING:
    from evenhand.tasks.execution.store import Store
    from evenhand.tasks.registry.bundle import Bundle

# the library of the extra that each format needs
NEEDS = {"onnx": "onnx", "sql": None, "pmml": None, "bundle": None}


def export(
    *,
    model: str,
    to: str,
    output: Path | None,
    dialect: str | None,
    table: str,
    job: str | None,
    overrides: Sequence[str] | None,
    store_url: str | None,
    as_json: bool = False,
) -> None:
    """Write a published model in another format, or print its SQL."""
    _check_options(to, output, dialect)
    from evenhand.flows.runtime import prepare_environment, store_for_reading
    from evenhand.tasks.execution.store import Store
    from evenhand.tasks.registry.bundle import open_bundle

    store_url = store_for_reading(store_url)
    prepare_environment(store_url)
    store = Store(store_url)
    if to == "bundle":
        assert output is not None
        _write_archive(model, output, store, as_json=as_json)
        return
    with store.workdir() as scratch:
        bundle = open_bundle(model, store, scratch)
        for note in bundle.notes:
            print_note(f"evenhand: {note}")
        if to == "onnx":
            from evenhand.tasks.exporting.onnx_graph import export_onnx

            content = export_onnx(bundle)
        elif to == "pmml":
            from evenhand.tasks.exporting.pmml import export_pmml

            content = export_pmml(bundle)
        else:
            content = _sql(bundle, dialect or "duckdb", table, job, list(overrides or ())).encode()
    if output is not None:
        _write(output, content)
        if as_json:
            document = {"format": to, "file": str(output), "bytes": len(content)}
            print(json.dumps(document))
        else:
            print(f"wrote {output}  ({to} of {bundle.uri}, {len(content):,} bytes)")
    elif as_json:
        print(json.dumps({"format": to, "query": content.decode()}))
    else:
        exact_stdout().write(content.decode())


def _write_archive(model: str, output: Path, store: Store, *, as_json: bool) -> None:
    """Write a model's files as one archive, and print its SHA-256."""
    from evenhand.tasks.registry.bundle import checked_folder, find_version, parse_address
    from evenhand.tasks.registry.client import fetch_files, tracking_uri
    from evenhand.tasks.registry.model_archive import write_archive

    address = parse_address(model)
    with store.workdir() as scratch:
        if address.folder is not None:
            checked_folder(address.folder, scratch / "checked", address.digest)
            folder = address.folder
            name = address.run_name
            version = None
            registered = None
        else:
            uri = tracking_uri(store)
            name = address.name
            version = find_version(uri, address).version
            folder, registered = fetch_files(uri, name, version, scratch / "model")
        archive = scratch / "archive.zip"
        digest = write_archive(folder, archive, name, version, registered)
        _write(output, archive.read_bytes())
    size = output.stat().st_size
    printed_name = model
    if version is not None:
        printed_name = f"models:/{name}/{version}"
    if as_json:
        document = {"format": "bundle", "file": str(output), "bytes": size, "sha256": digest}
        print(json.dumps({**document, "model": printed_name}))
    else:
        print(f"wrote {output}  (bundle of {printed_name}, {size:,} bytes)")
        print(f"sha256:{digest}")


def _check_options(to: str, output: Path | None, dialect: str | None) -> None:
    """Raise `InputError` for an unknown format, a missing extra, or a path that cannot be."""
    if to not in NEEDS:
        raise InputError(f"--to {to!r} is no format: give bundle, onnx, sql or pmml.")
    library = NEEDS[to]
    if library is not None and importlib.util.find_spec(library) is None:
        raise InputError(
            "`evenhand export` needs an optional extra: pip install 'evenhand[export]'."
        )
    if to != "sql" and (output is None or dialect is not None):
        raise InputError(
            f"--format {to} needs --output, the path of the file, and takes no --dialect."
        )
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise InputError(
            f"--output {output} is no path of a file in a folder that exists: correct it."
        )


def _write(output: Path, content: bytes) -> None:
    """Write the file atomically."""
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(output)
    except OSError as error:
        raise NotCarriedOut(f"--output {output} could not be written ({error.strerror}).") from None
    finally:
        temporary.unlink(missing_ok=True)


def _sql(bundle: Bundle, dialect: str, table: str, job: str | None, overrides: list[str]) -> str:
    """Return the query of a classifier, or of the filter that a job's section ``filter``
    describes.
    """
    from evenhand.flows.filter import plan_filter
    from evenhand.tasks.exporting.sql import DIALECTS, classifier_query, filter_query

    if dialect not in DIALECTS:
        raise InputError(
            f"--dialect {dialect!r} is not one of {', '.join(DIALECTS)}: give one of them."
        )
    if bundle.is_proxy:
        settings = plan_filter(job or bundle.name, overrides, "", "").settings
        return filter_query(bundle, settings, dialect, table)
    if job is not None or overrides:
        raise InputError(
            "--job and --set are for proxies: they choose the section filter of a job."
        )
    return classifier_query(bundle, dialect, table)
