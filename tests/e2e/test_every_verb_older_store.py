"""A store and a registry that were made before pages, steps and packages had their present form.

The archive holds what commit 8be483f wrote: two versions of trees, a network and a proxy, learned
from 400 generated loans, an evaluation and a promotion on record, a drift check, filtered rows, and
what the published models predicted for the generated rows of ``rows.parquet``.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xgboost as xgb
import yaml
from typer.testing import CliRunner

from tests.e2e.stored_archives import call, copied, unpack
from tests.flows.people import predict

# of the method, as the release had them
DEFAULTS = {
    **{"eta": 0.3, "reg_lambda": 1.0, "min_child_weight": 1.0, "base_score": 0.5},
    **{"balance_classes": True, "n_iter_no_change": None},
}
# when rows.parquet, the filtered file, was written
WRITTEN = 1795364155518738909


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the archive, with the addresses of this machine."""
    folder = tmp_path_factory.mktemp("older").resolve()
    return unpack("older_store.tar.xz", "/tmp/oldstore", WRITTEN, folder)


@pytest.fixture
def older(unpacked: Path, tmp_path: Path) -> Path:
    """A copy of the folder, for a test that writes into its store."""
    return copied(unpacked, tmp_path)


@pytest.mark.long
def test_published_models_predict_the_same(unpacked: Path) -> None:
    expected = json.loads((unpacked / "predictions.json").read_text())
    assert list(expected) == ["loans-gbdt/1", "loans-gbdt/2", "loans-net/1", "loans-proxy/1"]
    rows = unpacked / "rows.parquet"
    found = predict(unpacked / "store", *((f"models:/{model}", rows) for model in expected))
    for predicted, columns in zip(found, expected.values(), strict=True):
        assert list(predicted) == list(columns)
        for name, values in columns.items():
            np.testing.assert_allclose(predicted[name][: len(values)], values, rtol=1e-6)


def test_a_job_runs_again_and_its_model_is_that_of_the_registry(older: Path) -> None:
    """Steps whose code has changed are computed again; the trees are those on record."""
    job = older / "gbdt.yaml"
    content = yaml.safe_load(job.read_text())
    content = content | {
        "calibration": "none",
        "decision": "own",
        "method": DEFAULTS | content["method"],
    }
    content |= {"publish": {"without_policy": True}}
    job.write_text(yaml.safe_dump(content))
    done = call(older, "run", str(older / "gbdt.yaml"), "--direct")
    assert done["status"] == "published"
    before, after = (
        _trees(older / "store", 1),
        _trees(older / "store", int(done["model"]["version"])),
    )
    # thresholds lie between the training rows' values now; all else is as it was
    splits = before["Feature"] != "Leaf"
    assert splits.any()
    assert not np.array_equal(before["Split"][splits], after["Split"][splits])
    for column in ("Tree", "Node", "Feature", "Yes", "No"):
        assert before[column].equals(after[column])
    for column in ("Gain", "Cover"):
        np.testing.assert_allclose(before[column], after[column], rtol=1e-4, atol=1e-6)
    again = call(older, "run", str(older / "gbdt.yaml"), "--direct")
    assert "train" in again["cached"]
    assert again["model"] == done["model"]
    history = call(older, "history", "loans-gbdt")
    assert history["aliases"]["champion"] == done["model"]["version"]


def _trees(store: Path, version: int) -> pd.DataFrame:
    """The trees of a published version; `Gain` holds the values of the leaves too."""
    with contextlib.closing(sqlite3.connect(store / "mlflow.db")) as registry:
        (source,) = registry.execute(
            "select storage_location from model_versions where name = 'loans-gbdt' and version = ?",
            (version,),
        ).fetchone()
    booster = xgb.Booster(
        model_file=Path(source.removeprefix("file://")) / "artifacts/bundle/model/booster.ubj"
    )
    return booster.trees_to_dataframe()


def test_versions_are_evaluated_promoted_and_watched(older: Path, unpacked: Path) -> None:
    rows = str(unpacked / "rows.parquet")
    history = call(older, "history", "loans-gbdt")
    assert [(c["from_version"], c["to_version"], c["reason"]) for c in history["changes"]] == [
        (None, "1", "run"),
        ("1", "2", "run"),
        ("2", "1", "promote"),
    ]
    gates = ("--gates", str(older / "gates.yaml"))
    model, baseline = "models:/loans-gbdt/2", "models:/loans-gbdt/1"
    found = call(
        older, "evaluate", model, "--data", rows, *gates, "--baseline", baseline, "--direct"
    )
    assert (found["status"], found["gates"]["verdict"]) == ("evaluated", "passed")
    # version 1 was evaluated by the older code, version 2 just now
    assert call(older, "promote", model)["change"]["from_version"] == "1"
    assert call(older, "promote", baseline)["change"]["from_version"] == "2"
    drift = call(older, "monitor", "loans-gbdt", "--data", rows, "--direct")
    assert drift["status"] == "monitored"


def test_a_filter_continues_in_an_older_output(older: Path, unpacked: Path) -> None:
    """It gives the same rows."""
    shutil.copytree(unpacked / "kept", older / "kept")
    given = (
        "filter",
        str(older / "proxy.yaml"),
        "--input",
        str(unpacked / "rows.parquet"),
        "--direct",
    )
    (part,) = (older / "kept").glob("part-*")
    before = part.read_bytes()
    done = call(older, *given, "--output", str(older / "kept"))
    assert (done["metrics"]["files_done_before"], done["metrics"]["files_filtered"]) == (1, 0)
    assert part.read_bytes() == before
    anew = call(older, *given, "--output", str(older / "anew"))
    assert (anew["metrics"]["files_done_before"], anew["metrics"]["files_filtered"]) == (0, 1)
    (again,) = (older / "anew").glob("part-*")
    assert pq.read_table(again).equals(pq.read_table(part))


def test_older_runs_are_reported_and_cached(older: Path) -> None:
    from evenhand.flows.cli import app

    where = ("--store", str(older / "store"))
    index = CliRunner().invoke(app, ["report", "--all", *where])
    assert index.exit_code == 0, index.stderr
    page = Path(index.stdout.strip()).read_text()
    for run in (older / "store" / "runs").glob("*-*"):
        assert f'href="{run.name}/report.html"' in page
        found = CliRunner().invoke(app, ["report", run.name, *where])
        assert (found.exit_code, Path(found.stdout.strip())) == (0, run / "report.html"), (
            found.stderr
        )
    cached = CliRunner().invoke(app, ["cache", "ls", *where])
    assert cached.exit_code == 0, cached.stderr
    assert "train" in cached.stdout
