"""A store and a registry that the version before has made, 0.1.0 as of commit 861be668.

The archive holds two versions of trees and a proxy, learned from 400 generated loans: a policy, an
evaluation and a promotion on record, a drift check, filtered rows, and what the second version of
the trees predicted for the rows of ``rows.parquet``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.e2e.stored_archives import call, copied, unpack

# when rows.parquet, the filtered file, was written
WRITTEN = 1795839962546747839


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the archive, with the addresses of this machine."""
    folder = tmp_path_factory.mktemp("previous").resolve()
    return unpack("previous_store.tar.xz", "/tmp/older861/new", WRITTEN, folder)


@pytest.fixture
def previous(unpacked: Path, tmp_path: Path) -> Path:
    """A copy of the folder, for a test that writes into its store."""
    return copied(unpacked, tmp_path)


def only_part(folder: Path) -> Path:
    """The one file of rows of an output folder."""
    (part,) = folder.glob("part-*.parquet")
    return part


def test_the_record_and_the_files_are_whole(previous: Path) -> None:
    history = call(previous, "history", "loans-gbdt")
    assert history["aliases"] == {"challenger": "2", "champion": "1"}
    assert history["faults"] == []
    assert [record["kind"] for record in history["records"]] == [
        "policy",
        *("version", "evaluation", "move"),
        *("version", "evaluation", "move"),
        *("evaluation", "move"),
    ]
    from evenhand.flows.cli import app

    options = ["verify", "loans-gbdt", "--store", str(previous / "store")]
    verified = CliRunner().invoke(app, options)
    assert verified.exit_code == 0, verified.stderr
    assert "the files of 2 versions" in verified.stdout


def test_a_published_model_predicts_the_same(previous: Path, unpacked: Path) -> None:
    rows = str(unpacked / "rows.parquet")
    output = previous / "scored"
    model = "models:/loans-gbdt/2"
    call(previous, "predict", model, "--input", rows, "--output", str(output), "--direct")
    expected = pq.read_table(only_part(unpacked / "scored"))
    assert pq.read_table(only_part(output)).equals(expected)


def test_its_versions_do_not_say_which_code_made_them(previous: Path) -> None:
    report = call(previous, "upgrade-report", str(previous / "gbdt.yaml"))
    (model,) = report["models"]
    assert (model["change"], model["version"]) == ("unrecorded", "1")


@pytest.mark.long  # whole commands; an older store has their like
def test_its_policy_decides_a_promotion(previous: Path, unpacked: Path) -> None:
    """The policy has no terms: those of the version before are read, with a line of warning."""
    model = "models:/loans-gbdt/2"
    refused = call(previous, "promote", model, code=1)
    assert "no evaluation of it by the policy's gates is recorded" in refused["error"]
    rows = ("--data", str(unpacked / "rows.parquet"))
    evaluated = call(previous, "evaluate", model, *rows, "--policy", "--direct")
    assert (evaluated["status"], evaluated["gates"]["verdict"]) == ("evaluated", "passed")
    assert call(previous, "promote", model)["change"]["from_version"] == "1"
    assert call(previous, "monitor", "loans-gbdt", *rows, "--direct")["status"] == "monitored"


@pytest.mark.long  # whole commands; an older store has their like
def test_a_filter_continues_in_its_output(previous: Path, unpacked: Path) -> None:
    shutil.copytree(unpacked / "kept", previous / "kept")
    job = str(previous / "proxy.yaml")
    rows = ("--input", str(unpacked / "rows.parquet"))
    before = only_part(previous / "kept").read_bytes()
    again = call(previous, "filter", job, *rows, "--output", str(previous / "kept"), "--direct")
    assert (again["metrics"]["files_done_before"], again["metrics"]["files_filtered"]) == (1, 0)
    assert only_part(previous / "kept").read_bytes() == before
    anew = call(previous, "filter", job, *rows, "--output", str(previous / "anew"), "--direct")
    assert (anew["metrics"]["files_done_before"], anew["metrics"]["files_filtered"]) == (0, 1)
    kept = pq.read_table(only_part(previous / "kept"))
    assert pq.read_table(only_part(previous / "anew")).equals(kept)


@pytest.mark.long  # whole commands; an older store has their like
def test_its_job_runs_again_and_its_runs_are_reported(previous: Path) -> None:
    from evenhand.flows.cli import app

    job = previous / "gbdt.yaml"
    before = sorted(path.name for path in (previous / "store" / "runs").glob("*-*"))
    done = call(previous, "run", str(job), "--direct")
    assert done["status"] == "published"
    # code that has changed computes another version; its gates are not all of the policy's
    assert (done["model"]["version"], done["model"]["alias"]) == ("3", "challenger")
    index = CliRunner().invoke(app, ["report", "--all", "--store", str(previous / "store")])
    assert index.exit_code == 0, index.stderr
    page = Path(index.stdout.strip()).read_text()
    assert before
    for name in [*before, done["run_id"]]:
        assert f'href="{name}/report.html"' in page
