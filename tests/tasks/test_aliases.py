"""Aliases and their history, versions and their cards, on a registry that is a few dictionaries."""

from __future__ import annotations

import getpass
import json
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.tasks import registry
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.registry import (
    ABSENT,
    ACTORS,
    AUDIT_TAG,
    DIGEST_TAG,
    AliasChange,
    Published,
    actor,
    alias_history,
    artifact_root,
    current_aliases,
    move_alias,
    promote,
    published,
    published_version,
    read_card,
    record_evaluation,
    recorded_evaluation,
    tracking_uri,
)
from evenhand.tasks.store import Store

PASSED = {"verdict": "passed", "baseline": "models:/loans/1"}


class AbsentError(Exception):
    """An answer of the registry with an error code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.error_code = code


class Client:
    """The calls of MLflow's client that aliases need."""

    def __init__(self) -> None:
        self.models = {"loans": SimpleNamespace(name="loans", aliases={}, tags={})}
        self.versions: dict[str, dict[str, str]] = {str(k): {} for k in range(1, 5)}
        self.calls: list[str] = []

    def get_registered_model(self, name: str) -> Any:
        if name not in self.models:
            raise AbsentError(name)
        return self.models[name]

    def get_model_version(self, name: str, version: str) -> Any:
        if version not in self.versions:
            raise AbsentError(version)
        return SimpleNamespace(version=int(version), tags=self.versions[version], run_id=f"run{version}")

    def get_model_version_by_alias(self, name: str, alias: str) -> Any:
        return self.get_model_version(
            name, str(self.models[name].aliases.get(alias, "INVALID_PARAMETER_VALUE"))
        )

    def get_run(self, run_id: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(artifact_uri=f"mlflow-artifacts:/1/{run_id}"))

    def set_model_version_tag(self, name: str, version: str, key: str, value: str) -> None:
        self.versions[version][key] = value

    def set_registered_model_tag(self, name: str, key: str, value: str) -> None:
        self.calls.append("record")
        self.models[name].tags[key] = value

    def set_registered_model_alias(self, name: str, alias: str, version: str) -> None:
        self.calls.append("move")
        self.models[name].aliases[alias] = int(version)

    def search_registered_models(self, max_results: int) -> list[Any]:
        return [*self.models.values(), SimpleNamespace(name="other", aliases={"champion": 9}, tags={})]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()

    @contextmanager
    def opened(uri: str) -> Iterator[Client]:
        yield made

    monkeypatch.setattr(registry, "registry_client", opened)
    monkeypatch.setattr(registry, "actor", lambda: "someone")
    monkeypatch.setattr(registry, "now", lambda: f"at {len(made.calls)}")
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(MlflowException=AbsentError))
    return made


def move(client: Client, version: str, alias: str = "champion") -> AliasChange | None:
    return move_alias(client, "loans", alias, version, reason="run", evaluation={"a": 1})  # type: ignore[arg-type]


def faults(client: Client) -> list[str]:
    return list(alias_history("uri", "loans").faults)


def test_moves_are_recorded_first_numbered_and_chained(client: Client) -> None:
    first, second = move(client, "1"), move(client, "2")
    assert client.calls == ["record", "move"] * 2
    assert first == AliasChange(1, "at 0", "someone", "champion", None, "1", "run", {"a": 1}, "")
    assert second == AliasChange(2, "at 2", "someone", "champion", "1", "2", "run", {"a": 1}, first.digest)
    assert client.models["loans"].aliases == {"champion": 2}
    keys = sorted(client.models["loans"].tags)
    assert re.fullmatch(r"evenhand\.audit\.000001\.[0-9a-f]{8}", keys[0])
    assert keys[1].startswith("evenhand.audit.000002.")
    # a version that has the alias keeps it, and nothing is written
    assert move(client, "2") is None
    assert len(client.calls) == 4
    history = alias_history("uri", "loans")
    assert (history.name, list(history.changes)) == ("loans", [first, second])
    assert (history.aliases, list(history.faults)) == ({"champion": "2"}, [])


def test_tags_of_others_and_records_that_cannot_be_read_are_left_out(client: Client) -> None:
    change = move(client, "1")
    tags = client.models["loans"].tags
    tags |= {"note": "{}", f"{AUDIT_TAG}000002.x": "{", f"{AUDIT_TAG}000000.x": '{"number": 1}'}
    assert list(alias_history("uri", "loans").changes) == [change]


def test_a_record_that_was_changed_or_removed_is_a_fault(client: Client) -> None:
    for version in "123":
        move(client, version)
    tags = client.models["loans"].tags
    first, second, _ = sorted(tags)
    kept = dict(tags)
    changed = json.loads(tags[second]) | {"who": "someone else"}
    tags[second] = json.dumps(changed)
    assert faults(client) == ["the record before number 3 was changed or taken out"]
    tags.clear()
    tags.update({key: text for key, text in kept.items() if key != first})
    assert faults(client) == ["the record before number 2 was changed or taken out"]


def test_an_alias_that_was_moved_without_a_record_is_a_fault(client: Client) -> None:
    move(client, "1")
    move(client, "2", "challenger")
    aliases = client.models["loans"].aliases
    assert faults(client) == []
    aliases["champion"] = 3
    assert faults(client) == [
        "champion is at version 3, but version 1 by the last record: it was moved without a record"
    ]
    del aliases["champion"]
    aliases["next"] = 4
    assert faults(client) == [
        "champion is at no version, but version 1 by the last record: it was moved without a record",
        "next is at version 4, but in no record: it was moved without a record",
    ]


def test_of_two_moves_at_one_moment_either_may_be_the_last(client: Client) -> None:
    move(client, "1")
    second = move(client, "2")
    assert second is not None
    beside = replace(second, to_version="3", when="at 3")
    client.models["loans"].tags[f"{AUDIT_TAG}000002.beside"] = beside.to_json()
    for version, found in (("2", 0), ("3", 0), ("1", 1)):
        client.models["loans"].aliases["champion"] = int(version)
        assert len(faults(client)) == found, version
    # the next move follows both
    third = move(client, "4")
    assert third is not None
    assert (third.number, third.previous) == (3, beside.digest)
    assert faults(client) == []


@pytest.mark.parametrize(
    ("evaluation", "words"),
    [
        (None, "no evaluation of it is recorded"),
        ({"verdict": "no_gates"}, "it was never judged by gates"),
        ({"verdict": "refused"}, "its recorded evaluation was refused by the gates"),
        ({"verdict": "insufficient_evidence"}, "its recorded evaluation lacks evidence for a gate"),
        (PASSED | {"same_table": True}, "its recorded evaluation is on the table that it learned from"),
        (PASSED, "it was compared with version 1, and version 2 is champion now"),
    ],
)
def test_a_version_is_promoted_only_where_its_evaluation_allows_it(
    client: Client, evaluation: dict[str, Any] | None, words: str
) -> None:
    move(client, "2")
    if evaluation is not None:
        record_evaluation(client, "loans", "3", evaluation)  # type: ignore[arg-type]
        assert recorded_evaluation(client, "loans", "3") == evaluation  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"^loans version 3 cannot become champion: {words}. `evenhand eval"):
        promote("uri", "loans", "3", "champion")
    assert client.models["loans"].aliases == {"champion": 2}


@pytest.mark.parametrize(
    ("baseline", "before"),
    [
        ("models:/loans/1", ""),  # nobody has the alias
        ("models:/loans/1", "1"),  # judged beside the version that has it
        ("models:/loans/1", "3"),  # it has the alias itself
        ("models:/others/1", "2"),  # judged beside a model of another name
        (None, "2"),
        ("models:/loans/1", "32"),  # it had the alias before: a way back
    ],
)
def test_a_baseline_that_no_longer_counts_stops_only_what_was_judged_beside_it(
    client: Client, baseline: str | None, before: str
) -> None:
    for version in before:
        move(client, version)
    evaluation = {"verdict": "passed", "baseline": baseline}
    record_evaluation(client, "loans", "3", evaluation)  # type: ignore[arg-type]
    change = promote("uri", "loans", "3", "champion")
    if before == "3":
        assert change is None
    else:
        assert change is not None
        assert (change.reason, change.evaluation, change.to_version) == ("promote", evaluation, "3")
    assert client.models["loans"].aliases == {"champion": 3}


def test_what_another_alias_had_is_no_way_back(client: Client) -> None:
    for version, alias in (("3", "challenger"), ("4", "challenger"), ("2", "champion")):
        move(client, version, alias)
    record_evaluation(client, "loans", "3", PASSED)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="version 2 is champion now"):
        promote("uri", "loans", "3", "champion")


@pytest.mark.parametrize("code", ABSENT)
def test_a_model_that_is_not_there_is_named(client: Client, code: str) -> None:
    with pytest.raises(InputError, match=f"^the model '{code}' is not in the registry"):
        alias_history("uri", code)
    # another error is none of ours
    with pytest.raises(AbsentError, match="INTERNAL_ERROR"):
        alias_history("uri", "INTERNAL_ERROR")


def test_aliases_of_the_models_that_are_asked_for(client: Client) -> None:
    move(client, "2")
    assert current_aliases("uri", ["loans", "none"]) == {"loans": {"champion": "2"}}


@pytest.mark.parametrize("code", ABSENT)
def test_a_version_is_found_by_its_alias_or_number(client: Client, code: str) -> None:
    client.versions["2"][DIGEST_TAG] = "ab"
    move(client, "2")
    assert published("uri", "loans", "champion") == Published("2", "ab")
    assert published("uri", "loans", "challenger") is None
    assert published_version("uri", "loans", "2") == Published("2", "ab")
    # a version that was not published by us has no digest
    assert published_version("uri", "loans", "1") == Published("1", "")
    assert published_version("uri", "loans", code) is None
    with pytest.raises(AbsentError, match="INTERNAL_ERROR"):
        published_version("uri", "loans", "INTERNAL_ERROR")


@pytest.mark.parametrize(
    ("text", "card"), [('{"a": 1}', {"a": 1}), ("[1]", None), ("no json", None), (None, None)]
)
def test_a_card_that_cannot_be_read_is_none(
    client: Client, text: str | None, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(uri: str) -> str:
        assert uri == "mlflow-artifacts:/1/run3/card/model_card.json"
        if text is None:
            raise NotCarriedOut("out of reach")
        return text

    monkeypatch.setattr(sys.modules["mlflow"], "artifacts", SimpleNamespace(load_text=load), raising=False)
    assert read_card("uri", "loans", "3") == card


def test_who_acts_is_the_first_name_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ACTORS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(getpass, "getuser", lambda: "me")
    assert actor() == f"me@{platform.node()}"

    def nameless() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert re.fullmatch(rf"uid \d+@{re.escape(platform.node())}", actor())
    for name in reversed(ACTORS):
        monkeypatch.setenv(name, name.lower())
        assert actor() == name.lower()


def test_where_a_registry_and_its_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    store = Store(str(tmp_path / "store"))
    uri = tracking_uri(store)
    assert uri == f"sqlite:///{tmp_path}/store/mlflow.db"
    assert artifact_root(store, uri) == f"{tmp_path}/store/mlflow-artifacts"
    for server in ("http://host:5000", "https://host"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
        assert tracking_uri(store) == server
        assert artifact_root(store, server) is None
