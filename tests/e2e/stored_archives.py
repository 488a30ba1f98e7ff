"""Archives of stores that earlier versions made, unpacked for this machine."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tests.flows.people import copy_store, move_store

DATA = Path(__file__).parent / "data"


def unpack(archive: str, made_at: str, written: int, folder: Path) -> Path:
    """The folder of an archive, with the addresses of this machine.

    - `made_at`: the folder where the archive's files were made; its store is ``store`` in it
    - `written`: modification time in nanoseconds of ``rows.parquet``, which archives round
    """
    with tarfile.open(DATA / archive) as packed:
        packed.extractall(folder, filter="data")
    move_store(folder / "store", f"{made_at}/store")
    source = folder / "kept" / "_evenhand" / "input.json"
    source.write_text(source.read_text().replace(made_at, str(folder)))
    os.utime(folder / "rows.parquet", ns=(written, written))
    return folder


def copied(unpacked: Path, folder: Path) -> Path:
    """A copy of store and jobs, for a test that writes into them."""
    copy_store(unpacked / "store", folder / "store")
    for path in unpacked.glob("*.yaml"):
        shutil.copy2(path, folder)
    return folder


def call(folder: Path, *arguments: str, code: int = 0) -> Any:
    """What a command prints as JSON."""
    from evenhand.flows.cli import app

    done = CliRunner().invoke(app, [*arguments, "--store", str(folder / "store"), "--json"])
    assert done.exit_code == code, (done.exception, done.stdout, done.stderr)
    return json.loads(done.stdout)
