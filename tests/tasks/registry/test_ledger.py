"""Aliases and their history, versions and their cards, on a registry that is a few dictionaries."""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.tasks.errors import GateRefused, InputError, NotCarriedOut
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry import client as registry
from evenhand.tasks.registry import ledger as audit
from evenhand.tasks.registry import policy, policy_traces
from evenhand.tasks.registry.client import (
    ABSENT,
    DIGEST_TAG,
    Published,
    artifact_root,
    current_aliases,
    published,
    published_version,
    read_card,
    tracking_uri,
)
from evenhand.tasks.registry.ledger import (
    ACTORS,
    AUDIT_TAG,
    CHAIN,
    RECORD_TAG,
    Record,
    actor,
    append,
    evaluations_of,
    history,
    move_alias,
    read_chain,
    record_evaluation,
)
from evenhand.tasks.registry.policy import promote

PASSED = {"verdict": "passed", "baseline": "models:/loans/1"}


class AbsentError(Exception):
    """An answer of the registry with an error code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.error_code = code


class Page(list[Any]):
    """One page of a search, which is the last."""

    token = ""


class Client:
    """The calls of MLflow's client that aliases need."""

    def __init__(self) -> None:
        self.models = {"loans": SimpleNamespace(name="loans", aliases={}, tags={})}
        self.versions: dict[str, dict[str, str]] = {str(k): {} for k in range(1, 5)}
        self.calls: list[str] = []
        self.records: dict[int, str] = {}
        self.added_ms: dict[int, int] = {}  # when the registry got a record

    def search_model_versions(self, wanted: str, **_: Any) -> Page:
        if not wanted.startswith(f"name = '{CHAIN}"):
            return Page(
                SimpleNamespace(version=number, tags=tags) for number, tags in self.versions.items()
            )
        return Page(
            SimpleNamespace(
                version=number,
                tags={RECORD_TAG: text},
                creation_timestamp=self.added_ms.get(number),
            )
            for number, text in self.records.items()
        )

    def create_registered_model(self, name: str) -> None:
        if self.records:
            raise AbsentError("RESOURCE_ALREADY_EXISTS")

    def create_model_version(self, name: str, source: str, tags: dict[str, str]) -> Any:
        self.calls.append("record")
        number = max(self.records, default=0) + 1
        self.records[number] = tags[RECORD_TAG]
        return SimpleNamespace(version=number)

    def delete_model_version(self, name: str, version: str) -> None:
        del self.records[int(version)]

    def get_registered_model(self, name: str) -> Any:
        if name not in self.models:
            raise AbsentError(name)
        return self.models[name]

    def get_model_version(self, name: str, version: str) -> Any:
        if version not in self.versions:
            raise AbsentError(version)
        return SimpleNamespace(
            version=int(version), tags=self.versions[version], run_id=f"run{version}"
        )

    def get_model_version_by_alias(self, name: str, alias: str) -> Any:
        return self.get_model_version(
            name, str(self.models[name].aliases.get(alias, "INVALID_PARAMETER_VALUE"))
        )

    def get_run(self, run_id: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(artifact_uri=f"mlflow-artifacts:/1/{run_id}"))

    def set_model_version_tag(self, name: str, version: str, key: str, value: str) -> None:
        self.versions[version][key] = value

    def set_registered_model_tag(self, name: str, key: str, value: str) -> None:
        self.models[name].tags[key] = value

    def set_registered_model_alias(self, name: str, alias: str, version: str) -> None:
        self.calls.append("move")
        self.models[name].aliases[alias] = int(version)

    def search_registered_models(self, max_results: int) -> list[Any]:
        return [
            *self.models.values(),
            SimpleNamespace(name="other", aliases={"champion": 9}, tags={}),
        ]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()

    @contextmanager
    def opened(uri: str) -> Iterator[Client]:
        yield made

    for module in (registry, policy, policy_traces):
        monkeypatch.setattr(module, "registry_client", opened)
    monkeypatch.setattr(audit, "actor", lambda: "someone")
    monkeypatch.setattr(audit, "now", lambda: f"2026-01-01T00:00:{len(made.calls):02d}+00:00")
    monkeypatch.setattr(audit.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(policy, "damaged_files", lambda *given: [])
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(MlflowException=AbsentError))
    return made


def move(client: Client, version: str, alias: str = "champion") -> Record | None:
    return move_alias(client, "loans", alias, version, reason="run", evaluation={"a": 1})  # type: ignore[arg-type]


def faults(client: Client) -> list[str]:
    return list(history("uri", "loans").faults)


def old_move(
    client: Client, number: int, version: str, previous: str = "", beside: str = "x"
) -> Record:
    """A move as older versions recorded it: a tag, whose digest is that of its JSON."""
    content = {"alias": "champion", "from_version": None, "to_version": version, "reason": "run"}
    head = {
        "number": number,
        "when": f"2025-01-01T00:00:{number:02d}+00:00",
        "who": "someone",
        "previous": previous,
    }
    text = json.dumps({**head, **content, "evaluation": {}}, sort_keys=True)
    client.models["loans"].tags[f"{AUDIT_TAG}{number:06d}.{beside}"] = text
    client.models["loans"].aliases["champion"] = int(version)
    found = Record.read(text)
    assert found is not None
    return found


def test_moves_are_recorded_first_numbered_and_chained(client: Client) -> None:
    first, second = move(client, "1"), move(client, "2")
    assert client.calls == ["record", "move"] * 2
    assert first is not None
    assert second is not None
    assert (first.number, first.who, first.kind, first.previous) == (1, "someone", "move", "")
    assert (second.number, second.previous) == (2, first.digest)
    assert second.content == {
        "alias": "champion",
        "from_version": "1",
        "to_version": "2",
        "reason": "run",
        "evaluation": {"a": 1},
    }
    assert client.models["loans"].aliases == {"champion": 2}
    # a version that has the alias keeps it, and nothing is written
    assert move(client, "2") is None
    assert len(client.calls) == 4
    found = history("uri", "loans")
    assert (found.name, list(found.records)) == ("loans", [first, second])
    assert (found.aliases, list(found.faults)) == ({"champion": "2"}, [])


def test_a_record_that_was_changed_or_removed_is_a_fault(client: Client) -> None:
    for version in "123":
        move(client, version)
    kept = dict(client.records)
    lost = {}
    for number in (2, 3):
        digest = hashlib.sha256(kept[number - 1].encode()).hexdigest()[:12]
        said = f"the record before number {number} was changed or taken out"
        lost[number] = f"{said}: expected one with the digest {digest}"
    client.records[2] = json.dumps(json.loads(kept[2]) | {"who": "someone else"}, sort_keys=True)
    assert faults(client) == [lost[3]]
    client.records = {number: text for number, text in kept.items() if number != 1}
    assert faults(client) == [lost[2]]
    client.records = kept | {2: "{"}
    assert faults(client) == [
        "the record at place 2 cannot be read: it was changed",
        lost[3],
    ]


def test_the_chain_goes_on_after_the_moves_of_older_versions(client: Client) -> None:
    first = old_move(client, 1, "1")
    second = old_move(client, 2, "2", first.digest)
    beside = old_move(client, 2, "3", first.digest, "beside")
    assert faults(client) == []
    third = move(client, "4")
    assert third is not None
    last = sorted((second, beside), key=lambda record: record.digest)[-1]
    assert (third.number, third.previous) == (3, last.digest)
    assert faults(client) == []
    del client.models["loans"].tags[f"{AUDIT_TAG}000001.x"]
    digest = first.digest[:12]
    assert set(faults(client)) == {
        "the record before number 2 was changed or taken out: expected one with the digest "
        f"{digest}"
    }


@pytest.mark.parametrize(
    "change",
    [
        {"content": {"version": "1"}},
        {"content": {"version": "one", "files": "{}"}},
        {"content": {"version": 1, "files": "{}"}},
        {"content": []},
        {"kind": "move", "content": {"alias": "champion", "to_version": "1"}},
        {"kind": "move", "content": {"alias": 1, "from_version": None, "to_version": "1"}},
        {"kind": "policy", "content": {}},
        {"kind": None},
        {"who": ["ada"]},
        {"number": "1"},
        {"when": "yesterday"},
        {"when": "2026-11-23T00:00:00"},
    ],
)
def test_a_record_whose_content_was_changed_is_none(change: dict[str, Any]) -> None:
    """Every reader relies on these parts; a writer of the registry can write anything."""
    head = {
        "number": 1,
        "when": "2026-11-23T00:00:00+00:00",
        "who": "ada",
        "kind": "version",
        "previous": "",
    }
    right = head | {"content": {"version": "1", "files": "{}"}}
    assert Record.read(json.dumps(right)) is not None
    assert Record.read(json.dumps(right | change)) is None


def test_of_two_records_at_one_moment_the_second_looks_again(client: Client) -> None:
    move(client, "1")
    create, others = client.create_model_version, []

    def race(*given: Any, **more: Any) -> Any:
        if not others:  # another process has read the same records, and writes first
            others.append("evaluation")
            append(client, "loans", "evaluation", {"version": "9"})  # type: ignore[arg-type]
        return create(*given, **more)

    client.create_model_version = race  # type: ignore[method-assign]
    moved = move(client, "2")
    assert moved is not None
    chain = read_chain(client, "loans")  # type: ignore[arg-type]
    assert [(record.number, record.kind) for record in chain.records] == [
        (1, "move"),
        (2, "evaluation"),
        (3, "move"),
    ]
    assert chain.faults == []
    # a record that lost and was left there, by a process that was killed, changes nothing
    client.records[max(client.records) + 1] = client.records[1]
    assert read_chain(client, "loans").records == chain.records  # type: ignore[arg-type]


def test_of_two_moves_at_one_moment_the_second_gives_up(client: Client) -> None:
    move(client, "1")
    create, others = client.create_model_version, []

    def race(*given: Any, **more: Any) -> Any:
        if not others:
            others.append("move")
            move(client, "3")
        return create(*given, **more)

    client.create_model_version = race  # type: ignore[method-assign]
    with pytest.raises(
        NotCarriedOut, match="loans version 3 became champion at the same moment, by someone"
    ):
        move(client, "2")
    assert client.models["loans"].aliases == {"champion": 3}
    assert faults(client) == []
    assert len(client.records) == 2


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
        "champion is at no version, but version 1 by the last record: it was moved without a "
        "record",
        "next is at version 4, but in no record: it was moved without a record",
    ]


@pytest.mark.parametrize(
    ("evaluation", "words"),
    [
        (None, "no evaluation of it is recorded"),
        ({"verdict": "no_gates"}, "it was never judged by gates"),
        ({"verdict": "refused"}, "its recorded evaluation was refused by the gates"),
        ({"verdict": "insufficient_evidence"}, "its recorded evaluation lacks evidence for a gate"),
        (
            PASSED | {"same_table": True},
            "its recorded evaluation is on the table that it learned from",
        ),
        (PASSED, "it was compared with version 1, and version 2 is champion now"),
    ],
)
def test_a_version_is_promoted_where_its_evaluation_allows_it(
    client: Client, evaluation: dict[str, Any] | None, words: str
) -> None:
    move(client, "2")
    if evaluation is not None:
        record_evaluation(client, "loans", "3", evaluation)  # type: ignore[arg-type]
        chain = read_chain(client, "loans")  # type: ignore[arg-type]
        (found,) = evaluations_of(client, chain, "3")  # type: ignore[arg-type]
        assert evaluation.items() <= found.items()
    with pytest.raises(
        GateRefused, match=f"^loans version 3 cannot become champion: {words}. `evenhand eval"
    ):
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
def test_a_stale_baseline_stops_only_what_was_judged_with_it(
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
        assert (change.content["reason"], change.content["to_version"]) == ("promote", "3")
        assert evaluation.items() <= change.content["evaluation"].items()
    assert client.models["loans"].aliases == {"champion": 3}


def test_what_another_alias_had_is_no_way_back(client: Client) -> None:
    for version, alias in (("3", "challenger"), ("4", "challenger"), ("2", "champion")):
        move(client, version, alias)
    record_evaluation(client, "loans", "3", PASSED)  # type: ignore[arg-type]
    with pytest.raises(GateRefused, match="version 2 is champion now"):
        promote("uri", "loans", "3", "champion")


@pytest.mark.parametrize("code", ABSENT)
def test_a_model_that_is_not_there_is_named(client: Client, code: str) -> None:
    with pytest.raises(InputError, match=f"^the model '{code}' is not in the registry"):
        history("uri", code)
    # another error is none of ours
    with pytest.raises(AbsentError, match="INTERNAL_ERROR"):
        history("uri", "INTERNAL_ERROR")


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

    monkeypatch.setattr(
        sys.modules["mlflow"], "artifacts", SimpleNamespace(load_text=load), raising=False
    )
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


def test_where_a_registry_and_its_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    store = Store(str(tmp_path / "store"))
    uri = tracking_uri(store)
    assert uri == f"sqlite:///{tmp_path}/store/mlflow.db"
    assert artifact_root(store, uri) == f"{tmp_path}/store/mlflow-artifacts"
    for server in ("http://host:5000", "https://host"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
        assert tracking_uri(store) == server
        assert artifact_root(store, server) is None


def test_the_name_of_who_acts_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_ACTOR", "ada\nrecord 9: grace approves loans version 2")
    assert actor() == "ada record 9: grace approves loans version 2"
