"""Filtering beside the jobs that publish proxies, and those that learn from what they keep."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner, Result

from evenhand.flows.cli import app
from evenhand.tasks.execution.dataset import read_dataset

CLASSIFIER: dict[str, Any] = {
    "name": "people-balanced",
    "publish": {"without_policy": True},
    "table": {"name": "people", "path": "people.csv"},
    "contract": "people.contract.yaml",
    "seed": 4,
    "method": {"name": "gbdt", "n_steps": 4, "max_depth": 2, "n_jobs": 1},
    "evaluate": {"draws": 20},
}


@pytest.fixture
def published(proxies: Any) -> Any:
    """A proxy of whose groups one is kept in part, for which the uniform number matters."""
    proxies.job |= {"method": {"name": "naive-tree"}, "gates": {}}
    (proxies.folder / "in").mkdir()
    pq.write_table(proxies.table, proxies.folder / "in" / "a.parquet")
    return proxies


def filtered(bench: Any, *arguments: str, output: str = "out", code: int = 0) -> Result:
    given = ("--input", "in", "--output", output, "--direct", "--store", str(bench.store))
    done = CliRunner().invoke(app, ["filter", str(bench.write()), *given, *arguments])
    assert done.exit_code == code, (done.exception, done.stdout, done.stderr)
    return done


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def keys_of(folder: Path) -> set[str]:
    parts = [pq.read_table(path) for path in folder.glob("part-*")]
    return set(pa.concat_tables(parts)["key"].to_pylist())


@pytest.mark.long
@pytest.mark.parametrize("ending", ["parquet", pytest.param("csv", marks=pytest.mark.long)])
def test_a_filter_keeps_the_rows_of_a_balanced_classifier(published: Any, ending: str) -> None:
    assert published.run().code == 0
    job = published.folder / "balanced.yaml"
    job.write_text(
        yaml.safe_dump({**copy.deepcopy(CLASSIFIER), "balance": {"proxy": "people-proxy"}})
    )
    done = published.run("--json", job=job)
    assert done.code == 0, done.err
    if ending == "csv":
        (published.folder / "in" / "a.parquet").unlink()
        pyarrow.csv.write_csv(published.table, published.folder / "in" / "a.csv")
    keys = np.array(published.table["key"].to_pylist())
    whole, kept = (
        set(keys[read_dataset(Path(done.json["artifacts"][name])).rows])
        for name in ("preprocess.train", "balance.train")
    )
    filtered(published, "--set", "filter.seed=4")
    assert keys_of(published.folder / "out") & whole == kept
    filtered(published, "--set", "filter.seed=5", output="other")
    assert keys_of(published.folder / "other") & whole != kept


@pytest.mark.long
def test_a_new_version_filters_again(published: Any) -> None:
    """The old one filters again when it comes back."""
    assert published.run().code == 0
    filtered(published)
    first = contents(published.folder / "out")
    assert published.run("--set", "method.name=qp-tree").code == 0
    pq.write_table(published.table.slice(0, 300), published.folder / "in" / "b.parquet")
    done = json.loads(filtered(published, "--json").stdout)
    assert done["model"]["version"] == "2"
    assert (done["metrics"]["files_filtered"], done["metrics"]["files_done_before"]) == (2, 0)
    filtered(published, output="fresh")
    assert contents(published.folder / "out") == contents(published.folder / "fresh")
    assert contents(published.folder / "out") != first
    assert published.run().code == 0
    (published.folder / "in" / "b.parquet").unlink()
    back = json.loads(filtered(published, "--json").stdout)
    assert back["model"]["version"] == "1"
    assert back["metrics"]["files_filtered"] == 1
    assert first.items() <= contents(published.folder / "out").items()
    # the file that is gone from the input was another version's work, and the report says so
    summary = json.loads(Path(back["artifacts"]["filter"]).read_text())["summary"]
    assert summary["others"] == 1
    assert sorted(tuple(proxy.values()) for proxy in summary["proxies"].values()) == [
        ("1", 1),
        ("2", 1),
    ]
    page = Path(back["artifacts"]["report"]).read_text()
    assert "The output also contains 1 file filtered by another proxy (version 2)" in page


@pytest.mark.long
def test_rows_that_break_the_contract_are_set_aside_and_counted(published: Any) -> None:
    share = {"onViolation": "quarantine", "quarantineShare": 0.01}
    published.contract["customProperties"] = [{"property": k, "value": v} for k, v in share.items()]
    assert published.run().code == 0
    published.put("job", 7, "astronaut")
    pq.write_table(published.table, published.folder / "in" / "a.parquet")
    done = filtered(published)
    assert "1 set aside: they break the contract" in done.stdout
    (aside,) = (published.folder / "out" / "_evenhand" / "quarantine").iterdir()
    assert pq.read_table(aside)["key"].to_pylist() == ["p-00007"]
    for row in range(11):
        published.put("job", row, "astronaut")
    pq.write_table(published.table, published.folder / "in" / "a.parquet")
    done = filtered(published, code=2)
    assert "11 of 1,000 rows break the contract, more than the 1.0%" in done.stderr
    assert not list((published.folder / "out").rglob("part-*"))


def test_a_classifier_has_nothing_to_filter_with(published: Any) -> None:
    published.write()
    job = published.folder / "classifier.yaml"
    job.write_text(yaml.safe_dump(CLASSIFIER))
    refused = published.run("--json", "--set", "filter.seed=9", job=job)
    assert refused.code == 2
    assert "filter is for jobs of a proxy" in refused.err


@pytest.mark.long
def test_filter_settings_change_nothing_in_a_run_of_the_job(published: Any) -> None:
    published.write()
    job = published.folder / "job.yaml"
    first = published.run("--json", job=job)
    assert first.code == 0, first.err
    given = ("--set", "filter={seed: 9, key: [key], probability: true, workers: 1}")
    again = published.run("--json", *given, job=job)
    assert again.json["cached"] == list(first.json["seconds"])
    assert again.json["metrics"] == first.json["metrics"]
    assert again.json["model"] == first.json["model"]
    wrong = published.run("--set", "filter.kye=[key]", job=job)
    assert wrong.code == 2
    assert "unknown key 'filter.kye' (did you mean 'key'?)" in wrong.err


@pytest.mark.long
def test_a_published_classifier_is_no_proxy(published: Any) -> None:
    published.write()
    job = published.folder / "classifier.yaml"
    job.write_text(
        yaml.safe_dump({**CLASSIFIER, "publish": {"model": "people-proxy", "without_policy": True}})
    )
    assert published.run(job=job).code == 0
    done = filtered(published, code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "evenhand: the published model 'people-proxy' is a classifier, not a proxy"
    )
    assert not (published.folder / "out").exists()
