"""Jobs that learn a proxy: learned, measured, held to gates and published, or not."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evenhand.fairlib.methods.registry import PROXIES, load_proxy
from evenhand.flows.job_file import load_job, shipped_jobs
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.execution.dataset import read_dataset

STEPS = [
    "ingest",
    "contract",
    "preprocess",
    "profile",
    "learn_proxy",
    "measure_proxy",
    "gate",
    "publish",
]


def balance_of(done: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        Path(done.json["artifacts"]["measure_proxy.balance"]).read_text()
    )
    return content


def test_a_proxy_is_learned_measured_and_published(proxies: Any) -> None:
    done = proxies.run("--json")
    assert done.code == 0, done.err
    assert list(done.json["seconds"]) == STEPS
    assert done.json["model"]["uri"] == "models:/people-proxy@champion"
    metrics = done.json["metrics"]
    assert metrics["disclosivity.train"] <= 0.3 + 1e-9
    assert metrics["imbalance"] < metrics["imbalance_before"]
    assert metrics["smallest_growth"] > 1
    assert metrics["disclosivity.low"] <= metrics["disclosivity.high"]
    assert "disclosivity.train.low" not in metrics
    again = proxies.run("--json")
    assert again.json["cached"] == STEPS
    assert again.json["metrics"] == metrics


def test_what_is_written_is_what_the_proxy_does_on_the_rows(published_proxy: Any) -> None:
    done = published_proxy
    balance, artifacts = balance_of(done), done.json["artifacts"]
    proxy = load_proxy(artifacts["learn_proxy.proxy"])
    assert balance["attributes"] == {"sex": ["F", "M"]}
    assert balance["groups"] == ["sex=F", "sex=M"]
    assert balance["target"] == [0.5, 0.5]
    for part, suffix in (("test", ""), ("train", "_train")):
        data = read_dataset(Path(artifacts[f"preprocess.{part}"]))
        women = data.sensitive["sex"] == "F"
        kept = proxy.acceptance(data.X)
        assert balance[f"base_rates{suffix}"][0] == pytest.approx(women.mean())
        assert balance[f"shares_after{suffix}"][0] == pytest.approx(kept[women].sum() / kept.sum())
        shares = proxy.shares(data.X)
        for j, composition in enumerate(balance[f"compositions{suffix}"]):
            assert composition == pytest.approx(
                [
                    shares[women, j].sum() / shares[:, j].sum(),
                    shares[~women, j].sum() / shares[:, j].sum(),
                ]
            )
        if part == "test":
            assert balance["rows"] == pytest.approx(shares.sum(axis=0).tolist())
            assert done.json["metrics"]["kept"] == pytest.approx(kept.mean())
        else:
            assert balance["masses"] == pytest.approx(shares.mean(axis=0).tolist())
    assert balance["shares_before"] == balance["base_rates"]
    assert balance["acceptance"] == proxy.acceptance_.tolist()


@pytest.mark.long
def test_a_changed_limit_runs_learning_onward_only(proxies: Any) -> None:
    assert proxies.run("--json").code == 0
    other = proxies.run("--set", "method.alpha=0.2", "--json")
    assert other.json["cached"] == ["ingest", "contract", "preprocess", "profile"]
    assert other.json["metrics"]["disclosivity.train"] <= 0.2 + 1e-9
    back = proxies.run("--json")
    # the first proxy is put back as champion
    assert back.json["cached"] == [*STEPS[:-1]]
    more = proxies.run("--set", "evaluate.level=0.9", "--json")
    assert more.json["cached"] == STEPS[:5]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in PROXIES if name != "proxy"])
def test_every_proxy_of_the_registry_runs(proxies: Any, name: str) -> None:
    proxies.job["method"] = {"name": name}
    done = proxies.run("--set", "gates={}", "--json")
    assert done.code == 0, done.err
    balance = balance_of(done)
    assert sum(balance["masses"]) == pytest.approx(1)


def test_a_sample_is_split_by_its_groups(proxies: Any) -> None:
    proxies.job["sensitive"] = ["sex", "age"]
    done = proxies.run("--set", "gates={}", "--json")
    parts = {}
    for part in ("train", "test"):
        data = read_dataset(Path(done.json["artifacts"][f"preprocess.{part}"]))
        crossed = zip(data.sensitive["sex"], data.sensitive["age"], strict=True)
        parts[part] = Counter(crossed)
        assert list(data.numbers) == ["age"]
        assert not {"age", "sex"} & set(data.groups)
    assert len(parts["train"]) == 4
    for cell, count in parts["test"].items():
        assert abs(count - 0.4 * (count + parts["train"][cell])) <= 1
    assert balance_of(done)["attributes"] == {"age": ["<40", ">=40"], "sex": ["F", "M"]}


def test_the_contracts_sensitive_columns_are_the_default(proxies: Any) -> None:
    del proxies.job["sensitive"]
    resolved = resolve(*load_job(str(proxies.write())))
    assert [column.name for column in resolved.contract.sensitive] == ["age", "sex"]


def test_a_feature_can_be_the_attribute(
    proxies: Any,
) -> None:
    """The other sensitive ones follow their use."""
    proxies.properties["age"]["customProperties"].append({"property": "use", "value": "feature"})
    proxies.job["sensitive"] = ["job"]
    done = proxies.run("--set", "gates={}", "--json")
    assert done.code == 0, done.err
    data = read_dataset(Path(done.json["artifacts"]["preprocess.train"]))
    assert list(data.sensitive) == ["job"]
    assert "age" in data.groups
    assert not {"job", "sex", "key", "paid"} & set(data.groups)


def test_the_report_has_groups_and_leaves_and_no_predictions(published_proxy: Any) -> None:
    done = published_proxy
    page = Path(done.json["artifacts"]["report"]).read_text()
    for title in (
        "What the proxy does",
        "Shares by sex before and after",
        "What each proxy group reveals",
    ):
        assert title in page
    assert "What this does not say" in page
    assert "positive answer" not in page
    card = Path(done.json["artifacts"]["model_card.md"]).read_text()
    assert "## What it is" in card
    assert "A proxy for sex" in card


def test_shipped_proxies_are_right_as_written() -> None:
    found = [name for name in shipped_jobs() if name.endswith("-proxy")]
    assert found == ["adult-proxy", "bank-proxy"]
    for name in found:
        resolved = resolve(*load_job(name))
        assert resolved.is_proxy
        assert {"disclosivity", "smallest_growth", "imbalance_reduction", "support"} <= set(
            resolved.job.gates
        )
        assert resolved.arguments["support"] == {"adult-proxy": 0.1, "bank-proxy": 0.03}[name]
