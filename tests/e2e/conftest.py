"""Whole runs in processes of their own, as a user starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.fairlib.datasets.generated import make_loans

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "from evenhand.flows.cli import main; main()"]


@pytest.fixture(autouse=True)
def every_flow(flow_environment: None) -> None:
    """Every test here runs in the environment of flows."""


@dataclass
class Cli:
    """The command line with a store of its own; `source` may be a changed copy of the project."""

    store: Path
    source: Path = ROOT

    @property
    def environment(self) -> dict[str, str]:
        # nor a registry of the user's, or one that a test in this process left
        foreign = ("PREFECT_", "MLFLOW_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        return {**kept, "EVENHAND_STORE": str(self.store), "PYTHONPATH": str(self.source)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            env=self.environment,
            cwd=self.store.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self("run", *arguments, "--json")
        content: dict[str, Any] = json.loads(done.stdout)
        return content


@pytest.fixture
def cli(tmp_path: Path) -> Callable[..., Any]:
    return Cli(tmp_path / "store")


def put_loans(path: Path, rows: int, seed: int) -> None:
    """Loans with an id, in row groups of a thousand."""
    path.parent.mkdir(exist_ok=True)
    table = pa.Table.from_pandas(make_loans(rows, seed=seed), preserve_index=False)
    ids = pa.array(np.arange(rows) + 10_000_000 * seed)
    pq.write_table(table.append_column("id", ids), path, row_group_size=1000)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
