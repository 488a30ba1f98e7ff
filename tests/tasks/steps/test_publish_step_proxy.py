"""A published proxy: what it answers to raw rows, what a filter finds in it, and nothing about
anybody.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from evenhand.data_contracts.model import Contract
from evenhand.fairlib.methods.registry import load_proxy
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.filtering.filter_bundle import ProxyBundle
from evenhand.tasks.registry.client import fetch_bundle, published

pytestmark = pytest.mark.usefixtures("flow_environment")

# in a process that has the libraries and nothing of this project
ACCEPT = """
import json, sys
import mlflow, pandas as pd, pyarrow.parquet as pq
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
raw = pq.read_table(sys.argv[3]).to_pandas()
print(json.dumps(model.predict(raw).to_dict("list")))
ours = ("evenhand.flows", "evenhand.tasks", "evenhand.data_contracts")
assert not [name for name in sys.modules if name.startswith(ours)]
"""


@pytest.fixture
def done(published_proxy: Any) -> Any:
    return published_proxy


def bundle_of(done: Any, folder: Path) -> Path:
    uri = f"sqlite:///{done.store / 'mlflow.db'}"
    found = published(uri, "people-proxy", "champion")
    assert found is not None
    return fetch_bundle(uri, "people-proxy", found.version, folder)


@pytest.mark.long
def test_a_fresh_process_gives_the_measured_probabilities(proxies: Any, done: Any) -> None:
    """Raw rows without the sensitive columns, the label and the id."""
    data = read_dataset(Path(done.json["artifacts"]["preprocess.test"]))
    raw = proxies.table.take(data.rows).drop_columns(["sex", "age", "paid", "key"])
    pq.write_table(raw, proxies.folder / "raw.parquet")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    finished = subprocess.run(
        [
            *(sys.executable, "-c", ACCEPT),
            f"sqlite:///{done.store / 'mlflow.db'}",
            done.json["model"]["uri"],
            str(proxies.folder / "raw.parquet"),
        ],
        cwd=done.store.parent.parent,
        env={**kept, "MLFLOW_DISABLE_TELEMETRY": "true"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    (answer,) = (json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{"))
    proxy = load_proxy(done.json["artifacts"]["learn_proxy.proxy"])
    assert list(answer) == ["acceptance_probability"]
    np.testing.assert_array_equal(answer["acceptance_probability"], proxy.acceptance(data.X))
    assert len(set(answer["acceptance_probability"])) > 1


def test_a_filter_finds_all_that_it_needs(proxies: Any, done: Any, tmp_path: Path) -> None:
    folder = bundle_of(done, tmp_path / "fetched")
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {
        "balance.json",
        "digests.json",
        "encoder.json",
        "evaluation.json",
        "inputs.json",
        "reference.json",
        "training_rows.json",
        "model/graph.safetensors",
        "model/proxy.json",
    }
    bundle = ProxyBundle.load(folder)
    assert set(bundle.features) == {"income", "job", "owner", "since"}
    assert bundle.sensitive == {"sex", "age"}
    assert bundle.contract == Contract.from_dict(
        json.loads((folder / "inputs.json").read_text())["contract"]
    )
    assert bundle.contract.column("age").role == "sensitive"
    data = read_dataset(Path(done.json["artifacts"]["preprocess.test"]))
    checked = pq.read_table(done.json["artifacts"]["contract.checked"]).take(data.rows)
    expected = load_proxy(done.json["artifacts"]["learn_proxy.proxy"]).acceptance(data.X)
    np.testing.assert_allclose(bundle.raw.evaluate(checked).probabilities, expected, rtol=1e-12)


def test_the_bundle_grows_with_the_proxy_and_not_with_the_rows(
    proxies: Any, done: Any, tmp_path: Path
) -> None:
    folder = bundle_of(done, tmp_path / "fetched")
    files = [path for path in folder.rglob("*") if path.is_file()]
    # keyed digests, about ten bytes a row; any digits may be in them
    said = b"".join(path.read_bytes() for path in files if path.name != "training_rows.json")
    # of which the list of files has half
    assert len(said) < 50_000
    for word in (b"p-000", b"2020-0"):
        assert word not in said
    for income in proxies.table["income"].to_pylist():
        assert str(income).encode() not in said


def test_only_the_champion_is_found(done: Any) -> None:
    uri = f"sqlite:///{done.store / 'mlflow.db'}"
    assert published(uri, "people-proxy", "other") is None
    assert published(uri, "people", "champion") is None
