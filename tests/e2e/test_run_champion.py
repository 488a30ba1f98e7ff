"""What a run's report says of the version that was champion before it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import evenhand.flows.run
from evenhand.fairlib.catalogue import title
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import read_card, tracking_uri
from tests.flows.people import Done

HEADING = "What changed since the champion"


def report(done: Any) -> str:
    return Path(done.verdict["artifacts"]["report"]).read_text()


@pytest.mark.long
def test_refused_published_and_repeated_runs_name_the_champion(
    champion: Any, published: Done
) -> None:
    first = published
    assert HEADING not in report(first)

    champion.job["gates"] = {"auc": {"min": 0.999}}
    refused = champion.run("--set", "method.max_depth=3")
    assert refused.code == 1, refused.err
    page = report(refused)
    assert f"Version 1 was champion before, and stays it: {title('auc')} " in page
    assert "on the same table, with other values of max_depth." in page
    before = json.loads(
        (first.store / "runs" / first.verdict["run_id"] / "metrics.json").read_text()
    )
    assert before["metrics"]["auc"]["value"] is not None

    champion.job["gates"] = {"auc": {"min": 0.3}}
    champion.put("income", 0, 2500.5)
    (champion.folder / "people.csv").unlink()
    second = champion.run()
    assert second.code == 0, second.err
    assert second.verdict["model"]["version"] == "2"
    assert "Version 1 was champion before: " in report(second)
    assert "on new data" in report(second)

    again = champion.run()
    assert again.verdict["model"]["version"] == "2"
    assert "This model is the champion: version 2 has the same content" in report(again)


def test_a_card_that_is_gone_is_no_error(champion: Any) -> None:
    store = Store(str(champion.store))
    uri = tracking_uri(store)
    card = read_card(uri, "people-gbdt", "1")
    assert card is not None
    assert card["method"] == "gbdt"
    assert read_card(uri, "people-gbdt", "9") is None
    for folder in (champion.store / "mlflow-artifacts").rglob("card"):
        shutil.rmtree(folder)
    assert read_card(uri, "people-gbdt", "1") is None
    done = champion.run("--set", "method.max_depth=3", "--set", "gates={auc: {min: 0.999}}")
    assert done.code == 1, done.err
    assert "Its model card could not be read." in report(done)


@pytest.mark.parametrize(
    "card", [[], {}, {"metrics": 1, "parameters": None, "contract": "x", "seed": "y"}]
)
def test_a_card_of_another_make_is_read_as_far_as_it_goes(
    champion: Any, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evenhand.flows.run.registry, "read_card", lambda *_: card or None)
    done = champion.run("--set", "method.max_depth=3", "--set", "gates={auc: {min: 0.999}}")
    assert done.code == 1, done.err
    assert "Its model card could not be read." in report(done)


def test_no_registry_is_made_by_a_run_that_publishes_nothing(bench: Any) -> None:
    bench.job["gates"] = {"auc": {"min": 0.999}}
    done = bench.run()
    assert done.code == 1, done.err
    assert not (bench.store / "mlflow.db").exists()
    assert HEADING not in report(done)


def test_a_registry_out_of_reach_is_no_error_of_a_refused_run(
    publishing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: Any) -> None:
        raise NotCarriedOut("the model registry did not answer")

    monkeypatch.setattr(evenhand.flows.run.registry, "published", unreachable)
    publishing.job["gates"] = {"auc": {"min": 0.999}}
    done = publishing.run()
    assert done.code == 1, done.err
    assert HEADING not in report(done)


def test_a_damaged_registry_is_no_error_of_a_refused_run(publishing: Any) -> None:
    publishing.job["gates"] = {"auc": {"min": 0.999}}
    assert publishing.run().code == 1
    with sqlite3.connect(publishing.store / "mlflow.db") as database:
        database.execute("DROP TABLE registered_model_aliases")
    database.close()
    done = publishing.run("--set", "method.max_depth=3")
    assert done.code == 1, done.err
