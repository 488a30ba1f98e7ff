"""Classifiers that learn from the rows that a published proxy kept."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml

from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.registry import load_model, load_proxy, method_class
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.proxies.hash_uniform import hash_uniforms
from evenhand.tasks.execution.dataset import read_dataset
from tests.flows.people import STEPS

FEATURES = ["income", "job", "owner", "since"]
CLASSIFIER: dict[str, Any] = {
    "name": "people-balanced",
    "publish": {"without_policy": True},
    "table": {"name": "people", "path": "people.csv"},
    "contract": "people.contract.yaml",
    "seed": 4,
    "balance": {"proxy": "people-proxy"},
    "method": {"name": "gbdt", "n_steps": 4, "max_depth": 2, "n_jobs": 1},
    "evaluate": {"draws": 20},
    "gates": {},
}
BALANCED = [*STEPS[:4], "balance", *STEPS[4:]]


@pytest.fixture
def classifier(proxies: Any) -> Path:
    """A job with a proxy, written beside that of the proxy."""
    proxies.write()
    path = proxies.folder / "balanced.yaml"
    path.write_text(yaml.safe_dump(copy.deepcopy(CLASSIFIER)))
    return path


def refused(done: Any, *words: str) -> None:
    assert done.code == 2, (done.code, done.out, done.err)
    (line,) = done.err.splitlines()
    for word in words:
        assert word in line, (word, line)


def test_a_proxy_that_is_not_published_is_named_with_the_cure(
    proxies: Any, classifier: Path
) -> None:
    refused(
        proxies.run(job=classifier),
        "balance.proxy 'people-proxy' is not published in this store: run `evenhand run "
        "people-proxy` first.",
    )


@pytest.mark.long
def test_a_classifier_learns_from_the_accepted_rows(proxies: Any, classifier: Path) -> None:
    """A row is accepted where its number falls below its probability."""
    proxy = proxies.run("--json").json["artifacts"]
    done = proxies.run("--json", job=classifier)
    assert done.code == 0, done.err
    assert list(done.json["seconds"]) == BALANCED
    artifacts = done.json["artifacts"]
    whole, kept = (
        read_dataset(Path(artifacts[name])) for name in ("preprocess.train", "balance.train")
    )
    raw = pq.read_table(artifacts["contract.checked"]).take(whole.rows)
    encoded = TableEncoder.load(proxy["preprocess.encoder"]).transform(raw.to_pandas())
    probability = load_proxy(proxy["learn_proxy.proxy"]).acceptance(encoded)
    keep = hash_uniforms(raw, FEATURES, 4) < probability
    assert 20 < keep.sum() < len(keep)
    np.testing.assert_array_equal(kept.rows, whole.rows[keep])
    np.testing.assert_array_equal(kept.X, whole.X[keep])
    np.testing.assert_array_equal(kept.y, whole.y[keep])
    assert kept.groups == whole.groups
    assert kept.sensitive["sex"].tolist() == whole.sensitive["sex"][keep].tolist()
    np.testing.assert_array_equal(kept.numbers["age"], whole.numbers["age"][keep])
    # test rows are as they were
    test = read_dataset(Path(artifacts["preprocess.test"]))
    assert pq.read_table(artifacts["evaluate.predictions"])["row"].to_pylist() == test.rows.tolist()
    assert len(test.rows) + len(whole.rows) == len(proxies.table)
    # the model is the one that these rows give
    expected = method_class("gbdt")(
        n_steps=4, max_depth=2, n_jobs=1, random_state=derive_seed(4, "train")
    )
    expected.fit(kept.X, kept.y)
    found = load_model(artifacts["train.model"])
    np.testing.assert_array_equal(found.predict_proba(test.X), expected.predict_proba(test.X))
    # and says so
    card = json.loads(Path(artifacts["model_card.json"]).read_text())
    assert card["balance"] == {
        "proxy": "people-proxy",
        "version": "1",
        "rows_before": len(keep),
        "rows_after": int(keep.sum()),
    }
    assert "Balanced training rows" in Path(artifacts["report"]).read_text()


@pytest.mark.long
def test_a_new_champion_trains_again_and_the_same_one_does_not(
    proxies: Any, classifier: Path
) -> None:
    proxies.run()
    first = proxies.run("--json", job=classifier)
    again = proxies.run("--json", job=classifier)
    assert again.json["cached"] == BALANCED
    assert proxies.run("--set", "method.alpha=0.15").code == 0
    other = proxies.run("--json", job=classifier)
    assert other.json["cached"] == ["ingest", "contract", "preprocess", "profile"]
    assert other.json["artifacts"]["balance.train"] != first.json["artifacts"]["balance.train"]
    assert other.json["model"]["version"] == "2"


@pytest.mark.long
def test_another_seed_keeps_other_rows(proxies: Any, classifier: Path) -> None:
    proxies.run()
    kept = []
    for seed in (4, 5):
        done = proxies.run(
            "--json", "--set", f"seed={seed}", "--set", "split.test=0.25", job=classifier
        )
        kept.append(set(read_dataset(Path(done.json["artifacts"]["balance.train"])).rows.tolist()))
    assert kept[0] != kept[1]


@pytest.mark.long
def test_another_alias_is_another_proxy(proxies: Any, classifier: Path) -> None:
    proxies.run("--set", "publish.alias=candidate")
    refused(proxies.run(job=classifier), "is not published")
    done = proxies.run("--json", "--set", "balance.alias=candidate", job=classifier)
    assert done.code == 0, done.err


def test_a_published_classifier_is_no_proxy(proxies: Any, classifier: Path) -> None:
    proxies.run("--set", "balance=null", "--set", "publish.model=people-proxy", job=classifier)
    refused(proxies.run(job=classifier), "'people-proxy' names a published model that is no proxy")


def test_a_proxy_of_another_table_is_named(proxies: Any, classifier: Path) -> None:
    proxies.run()
    columns = proxies.contract["schema"][0]["properties"]
    columns.remove(proxies.properties["income"])
    (proxies.folder / "less.contract.yaml").write_text(yaml.safe_dump(proxies.contract))
    pyarrow.csv.write_csv(proxies.table.drop_columns(["income"]), proxies.folder / "less.csv")
    given = ("--set", "contract=less.contract.yaml", "--set", "table.path=less.csv")
    refused(proxies.run(*given, job=classifier), "'people-proxy' needs the column 'income'")


def test_too_few_kept_rows_are_said(proxies: Any, classifier: Path) -> None:
    proxies.run()
    done = proxies.run("--set", "split.test=0.97", job=classifier)
    refused(done, "'people-proxy' keeps", "of 30 training rows, too few")


@pytest.mark.long
def test_a_lost_class_is_said(proxies: Any, classifier: Path) -> None:
    """Only clerks have nearly as many women as are wanted, and so only they are kept; all have one
    label.
    """
    clerk = np.array(proxies.table["job"].to_pylist()) == "clerk"
    place = np.arange(len(clerk)) % 20
    proxies.set("sex", np.where(place < np.where(clerk, 12, 1), "F", "M").tolist())
    proxies.set("paid", np.where(clerk, "yes", "no").tolist())
    for name in ("income", "owner", "since"):
        proxies.properties[name]["customProperties"] = [{"property": "role", "value": "ignore"}]
    proxies.job["method"] = {"name": "qp-tree", "target": {"sex": {"F": 0.8, "M": 0.2}}}
    (proxies.folder / "people.csv").unlink()
    done = proxies.run("--set", "gates={}")
    assert done.code == 0, done.err
    refused(proxies.run(job=classifier), "one value of the label only")
