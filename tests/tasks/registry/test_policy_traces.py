"""A policy that was removed with its chain: what its traces refuse, and who may set another one."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evenhand.tasks.errors import GateRefused, InputError
from evenhand.tasks.registry import policy_traces
from evenhand.tasks.registry.client import POLICY_TAG
from evenhand.tasks.registry.ledger import read_chain
from evenhand.tasks.registry.policy_traces import (
    PIN_VARIABLE,
    Trace,
    expected_policy,
    expecting_policy,
    faults_of_policy,
    missing_policy,
    refuse_without_policy,
)
from tests.tasks.registry.test_policy_ways_around import GATES, NAME, World, keys, world

__all__ = ["keys", "world"]
LAX = {"auc": {"min": 0.1}}


def delete_chain(world: World) -> None:
    world.client.records.clear()


def refusal(world: World) -> str:
    with pytest.raises(GateRefused) as caught:
        world.promote()
    assert caught.value.exit_code == 1
    assert read_chain(world.client, NAME).aliases == {"champion": "1"}
    return str(caught.value)


def test_a_policy_leaves_its_digest_on_model_and_versions(world: World) -> None:
    world.complete()
    chain = read_chain(world.client, NAME)
    assert chain.policy is not None
    tags = [world.client.models[NAME].tags, *world.client.versions.values()]
    for of_one in tags:
        content = json.loads(of_one[POLICY_TAG])
        assert content["digest"] == chain.policy.digest
        assert content["set_by"] == world.public("officer")
    assert faults_of_policy(chain, world.client.versions) == []


def test_without_its_chain_nothing_is_promoted_or_recorded(world: World) -> None:
    world.complete()
    (record,) = read_chain(world.client, NAME).of("policy")
    delete_chain(world)
    message = refusal(world)
    assert f"names record {record.number}, set by somebody, {record.when}" in message
    assert "the chain evenhand.audit.loans has no such record" in message
    assert "`evenhand policy set loans --key FILE` (a key that it lists in set_by: " in message
    assert world.client.records == {}
    chain = read_chain(world.client, NAME)
    assert len(faults_of_policy(chain, world.client.versions)) == 1


@pytest.mark.parametrize("person", [None, "stranger"])
def test_a_new_chain_with_a_lax_policy_does_not_help(world: World, person: str | None) -> None:
    """Neither by `policy set`, nor written past it, nor as a policy that was removed."""
    world.complete()
    delete_chain(world)
    with pytest.raises(GateRefused, match="lists the keys that may replace it"):
        world.set_policy(person, gates=LAX, keys={"set_by": []})
    assert world.client.records == {}
    for rules in (world.rules(gates=LAX, approvals=0, keys={}), {"gates": None}):
        delete_chain(world)
        world.publish(person)
        world.write(person, "policy", rules)
        world.evaluate(person, gates=LAX)
        assert "its policy is missing" in refusal(world)


def test_an_owner_of_a_listed_key_sets_a_policy_again(world: World) -> None:
    world.complete()
    delete_chain(world)
    world.complete()
    assert world.promote() is not None
    assert faults_of_policy(read_chain(world.client, NAME), world.client.versions) == []


@pytest.mark.parametrize("set_by", [True, False])
def test_an_earlier_policy_does_not_come_back(world: World, set_by: bool) -> None:
    """The newer policy and all records after it are deleted, so the rest of the chain is whole."""
    keys = {} if set_by else {"set_by": []}
    world.publish()
    world.set_policy(gates=LAX, approvals=0, keys={**keys, "approved_by": []})
    world.evaluate(gates=LAX)
    world.write("officer", "refusal", {"action": "promote", "reason": "a pause"})
    before = len(world.client.records)
    lax = read_chain(world.client, NAME).policy
    assert lax is not None
    world.set_policy(gates=GATES, keys=keys)
    text = world.client.models[NAME].tags[POLICY_TAG]
    # the clock of a test stands still
    later = json.dumps(json.loads(text) | {"when": f"{lax.when}Z"})
    world.client.models[NAME].tags[POLICY_TAG] = later
    for number in [number for number in world.client.records if number > before]:
        del world.client.records[number]
    assert read_chain(world.client, NAME).breaks == []
    assert "its policy is missing" in refusal(world)


def test_one_tag_of_any_version_is_enough(world: World) -> None:
    world.complete()
    delete_chain(world)
    del world.client.models[NAME].tags[POLICY_TAG]
    for number in ("1", "2", "3"):
        del world.client.versions[number][POLICY_TAG]
    assert "the tag evenhand.policy of its version 4 names record" in refusal(world)


def test_a_tag_that_cannot_be_read_is_a_trace(world: World) -> None:
    world.complete()
    for text in ("", "{", "[]", "{}", "7", "[" * 5000, '{"digest": "x", "set_by": 3}'):
        assert Trace.read(text, "a tag").digest == ""
    world.client.versions["2"][POLICY_TAG] = "{"
    assert "which names it, cannot be read" in refusal(world)


def test_a_model_without_a_policy_has_no_trace(world: World) -> None:
    world.evaluate(None, gates=LAX)
    assert world.promote() is not None
    chain = read_chain(world.client, NAME)
    assert missing_policy(chain, world.client.versions) is None
    assert POLICY_TAG not in world.client.models[NAME].tags


# the digest that a person expects


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("", None),
        ("a" * 64, "a" * 64),
        (f"loans={'b' * 64}", "b" * 64),
        (f"people={'b' * 64}", None),
        (f"{'a' * 64},loans={'b' * 64}", "b" * 64),
        (f"people={'a' * 64}\n# of the bank\nloans = {'c' * 64}  # since May\n", "c" * 64),
    ],
)
def test_the_expected_digest_is_read_from_text_and_file(
    text: str, digest: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PIN_VARIABLE, text)
    assert expected_policy(NAME) == digest
    if text:
        (tmp_path / "policies.txt").write_text(text)
        monkeypatch.setenv(PIN_VARIABLE, f"@{tmp_path}/policies.txt")
        assert expected_policy(NAME) == digest


@pytest.mark.parametrize("text", ["x", "loans=", f"loans={'a' * 63}", f"{'A' * 64}", ",", "@none"])
def test_a_pin_that_cannot_be_read_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PIN_VARIABLE, text)
    with pytest.raises(InputError, match=PIN_VARIABLE), expecting_policy(None):
        raise AssertionError("nothing runs")


def test_only_the_expected_policy_promotes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds where chain and tags were deleted, which nothing in the registry shows."""
    world.complete()
    policy = read_chain(world.client, NAME).policy
    assert policy is not None
    with expecting_policy("0" * 64):
        assert f"expects the policy {'0' * 12}, and its policy is {policy.digest[:12]}" in refusal(
            world
        )
    delete_chain(world)
    for tags in (world.client.models[NAME].tags, *world.client.versions.values()):
        tags.clear()
    world.evaluate(None, gates=LAX)

    @contextmanager
    def opened(uri: str) -> Any:
        yield world.client

    monkeypatch.setattr(policy_traces, "registry_client", opened)
    with expecting_policy(policy.digest):
        assert "and it has no policy: find out who changed it" in refusal(world)
        with pytest.raises(GateRefused, match="and it has no policy"):
            refuse_without_policy("uri", NAME)
    assert PIN_VARIABLE not in policy_traces.os.environ
    assert world.promote() is not None
