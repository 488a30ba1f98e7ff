"""Ways around a policy, each tried: the champion stays, one line says why, and the chain keeps it.

The registry is in memory; the chain, the keys and the judgement are the real ones. Each attempt is
a function of `WAYS`, whose docstring says what somebody tries. `World` is complete without it: the
first test promotes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from evenhand.tasks.errors import GateRefused, InputError, NotCarriedOut
from evenhand.tasks.registry import client as registry
from evenhand.tasks.registry import ledger as audit
from evenhand.tasks.registry import policy, policy_traces, signatures
from evenhand.tasks.registry.ledger import Record, read_chain
from evenhand.tasks.registry.policy_people import false_records, unsigned_moves
from evenhand.tasks.registry.signed_records import own_key, signing_with, with_signature
from tests.tasks.registry.test_ledger import AbsentError, Client
from tests.tasks.registry.test_policy_terms import (
    AGE,
    CONTRACT,
    PAID,
    PASSED,
    POLICY,
    SEX,
    changed,
    judged_columns,
    replace,
)

NAME = "loans"
GATES = {
    "auc": {"min": 0.5, "bound": "interval", "groups": ["F"]},
    "consistency.work": {"min": 0.9},
}
PEOPLE = ("trainer", "measurer", "ada", "grace", "promoter", "officer", "stranger")
WAYS: dict[str, Callable[[World], None]] = {}


def way(attempt: Callable[[World], None]) -> Callable[[World], None]:
    WAYS[attempt.__name__] = attempt
    return attempt


class World:
    """A chain of records, and the people with their keys."""

    def __init__(self, client: Client, keys: dict[str, Path]) -> None:
        self.client = client
        self.keys = keys
        self.alias = "champion"
        self.promoter: str | None = "promoter"
        self.measured: str | None = None

    def public(self, *people: str) -> list[str]:
        keys = []
        for person in people:
            with signing_with(self.keys[person]):
                keys.append(own_key())
        return keys

    def write(self, person: str | None, kind: str, content: dict[str, Any]) -> Record:
        with signing_with(self.keys[person]) if person else nullcontext():
            return audit.append(self.client, NAME, kind, content)

    def publish(self, person: str | None = "trainer", version: str = "2") -> None:
        self.write(person, "version", {"version": version, "files": f"files of {version}"})

    def rules(self, **changes: Any) -> dict[str, Any]:
        keys = {
            "trained_by": self.public("trainer"),
            "measured_by": self.public("measurer"),
            "approved_by": self.public("ada", "grace"),
            "promoted_by": self.public("promoter"),
            "set_by": self.public("officer"),
        }
        keys |= changes.pop("keys", {})
        return {**POLICY, "gates": GATES, "approvals": 2, "keys": keys, **changes}

    def set_policy(self, person: str | None = "officer", **changes: Any) -> None:
        with signing_with(self.keys[person]) if person else nullcontext():
            policy.set_policy("uri", NAME, self.rules(**changes))

    def evaluate(
        self, person: str | None = "measurer", version: str = "2", **changes: Any
    ) -> Record:
        content = {**PASSED, "gates": GATES, "version": version, **changes}
        return self.write(person, "evaluation", content)

    def approve(self, *people: str, version: str = "2") -> None:
        for person in people or ("ada", "grace"):
            with signing_with(self.keys[person]):
                policy.approve("uri", NAME, version)

    def before_evaluation(self) -> None:
        self.publish()
        self.set_policy()

    def complete(self, **changes: Any) -> None:
        """All that a promotion needs, with another evaluation."""
        self.before_evaluation()
        self.evaluate(**changes)
        self.approve()

    def forge(self, person: str | None, kind: str, content: dict[str, Any], **changes: Any) -> None:
        """Add a record as somebody who can write to the registry, with the key in capitals."""
        text = audit._record_text(read_chain(self.client, NAME), kind, content)
        record = json.loads(text) | changes
        if person is not None:
            with signing_with(self.keys[person]):
                record = with_signature(record, NAME)
            record["record_key"] = record["record_key"].upper()
        self.client.records[max(self.client.records) + 1] = json.dumps(record, sort_keys=True)

    def rewrite(self, number: int, **content: Any) -> None:
        """Change a record where it stands, as somebody who can write to the registry."""
        record = json.loads(self.client.records[number])
        record["content"] |= content
        self.client.records[number] = json.dumps(record, sort_keys=True)

    def copy(self, number: int, **content: Any) -> None:
        """Add a record again at the end, with its signature, which is of another place."""
        record = json.loads(self.client.records[number])
        last = read_chain(self.client, NAME).records[-1]
        record["content"] |= content
        record |= {"number": last.number + 1, "previous": last.digest}
        self.client.create_model_version(NAME, "", {audit.RECORD_TAG: json.dumps(record)})

    def promote(self) -> Record | None:
        with signing_with(self.keys[self.promoter]) if self.promoter else nullcontext():
            return policy.promote("uri", NAME, "2", self.alias, self.measured)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("keys")
    files = {}
    for person in PEOPLE:
        files[person] = folder / f"{person}.pem"
        pem = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        files[person].write_bytes(pem)
    return files


@pytest.fixture
def world(keys: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> World:
    """Version 1 of the model is champion by a record of its own."""
    client = Client()

    @contextmanager
    def opened(uri: str) -> Iterator[Client]:
        yield client

    for module in (registry, policy, policy_traces):
        monkeypatch.setattr(module, "registry_client", opened)
    monkeypatch.setattr(audit.time, "sleep", lambda seconds: None)
    # the files of models have tests of their own
    monkeypatch.setattr(policy, "damage", lambda *arguments, **options: None)
    monkeypatch.setattr(policy, "_of_another_model", lambda *arguments: None)
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(MlflowException=AbsentError))
    monkeypatch.delenv("EVENHAND_KEY", raising=False)
    monkeypatch.setenv("EVENHAND_ACTOR", "somebody")
    made = World(client, keys)
    made.publish(version="1")
    audit.move_alias(client, NAME, "champion", "1", reason="promote", evaluation={})
    return made


def test_what_meets_the_policy_is_promoted(world: World) -> None:
    """The record names the policy and both approvals, and the chain verifies."""
    world.complete()
    made = world.promote()
    chain = read_chain(world.client, NAME)
    assert made is not None
    assert chain.policy is not None
    assert chain.aliases["champion"] == "2"
    assert made.content["policy"] == chain.policy.digest
    approvals = sorted(record.digest for record in chain.of("approval"))
    assert made.content["approvals"] == approvals
    assert [*chain.faults, *false_records(chain), *unsigned_moves(chain)] == []


# an evaluation that was measured otherwise, signed by the measurer


def measured_with(**settings: Any) -> Callable[[World], None]:
    def attempt(world: World) -> None:
        world.before_evaluation()
        world.evaluate(settings={**PASSED["settings"], **settings})

    return attempt


def measured_so(**changes: Any) -> Callable[[World], None]:
    return lambda world: world.before_evaluation() or world.evaluate(**changes) and None


def approved_so(**changes: Any) -> Callable[[World], None]:
    return lambda world: world.complete(**changes)


def contract_of(column: Any, **parts: Any) -> Callable[[World], None]:
    return approved_so(judged=judged_columns(changed(column, **parts)))


WAYS |= {
    "a_lower_level": measured_with(level=0.01),
    "fewer_draws": measured_with(draws=10),
    "a_larger_smallest_group": measured_with(min_cell=500),
    "a_smaller_smallest_group": measured_with(min_cell=1),
    "intersections": measured_with(intersections=True),
    "a_lucky_seed": measured_with(seed=7),
    "no_settings": measured_so(settings={}),
    "laxer_gates": measured_so(gates={**GATES, "consistency.work": {"min": 0.1}}),
    "a_gate_left_out": measured_so(gates={"consistency.work": {"min": 0.9}}),
    "another_bound": measured_so(gates={**GATES, "auc": {"min": 0.5, "groups": ["F"]}}),
    "a_group_left_out_of_a_gate": measured_so(
        gates={**GATES, "auc": {"min": 0.5, "bound": "interval"}}
    ),
    "other_rows": measured_so(holdout="another"),
    "no_rows_named": measured_so(holdout=None),
    "code_before_the_lowest_version": measured_so(evenhand="0.1.0"),
    "code_without_a_version": measured_so(evenhand=None),
    "another_measure_of_overlap": measured_so(overlap_method="none"),
    "training_rows": approved_so(overlap=0.06),
    "an_unknown_overlap": approved_so(overlap=None),
    "the_table_it_learned_from": approved_so(same_table=True),
    "rows_set_aside": approved_so(kept={"rows": 0.9, "least": 0.96, "group": None}),
    "a_group_set_aside": approved_so(kept={"rows": 0.99, "least": 0.1, "group": "sex = F"}),
    "no_share_of_rows": approved_so(kept={}),
    "a_named_group_of_few": approved_so(sizes={"sex": {"F": 49}}),
    "a_named_group_not_counted": approved_so(sizes={}),
    "a_group_read_as_missing": contract_of(SEX, missing=("F",)),
    "a_group_not_allowed": contract_of(SEX, allowed=("M", "X")),
    "one_bin_for_all_ages": contract_of(AGE, bins=(99,)),
    "an_attribute_ignored": contract_of(AGE, role="ignore", bins=None),
    "a_label_turned_around": contract_of(PAID, positive="no"),
    "a_label_read_as_missing": contract_of(PAID, missing=("no",)),
    "missing_people_dropped": approved_so(
        judged=judged_columns(replace(CONTRACT, missing_sensitive="drop"))
    ),
    "no_contract_named": approved_so(judged=None),
    "the_adverse_outcome_counted": approved_so(
        favourable={"column": "paid", "code": 0, "favourable": "no", "adverse": "yes"}
    ),
    "other_copies_of_people": approved_so(copies={"work": {"owner": "all"}}),
    "too_little_evidence": approved_so(verdict="insufficient_evidence"),
    "no_verdict": approved_so(verdict="no_gates"),
    "a_refused_evaluation": approved_so(verdict="refused"),
}


# an evaluation that others wrote


@way
def an_unsigned_evaluation(world: World) -> None:
    """Somebody who can write to the registry records an evaluation that never took place."""
    world.complete(verdict="refused")
    world.evaluate(person=None)


@way
def an_evaluation_by_the_trainer(world: World) -> None:
    world.complete(verdict="refused")
    world.evaluate(person="trainer")


@way
def an_evaluation_by_an_approver(world: World) -> None:
    world.complete(verdict="refused")
    world.evaluate(person="ada")


@way
def an_evaluation_with_a_copied_signature(world: World) -> None:
    """The refused record is copied to the end with its signature, and says passed."""
    world.complete(verdict="refused")
    evaluation = read_chain(world.client, NAME).of("evaluation")[-1]
    world.copy(int(evaluation.place), verdict="passed")


@way
def an_evaluation_of_another_version(world: World) -> None:
    """Version 1 passed; its record is copied with the number of version 2."""
    world.before_evaluation()
    other = world.evaluate(version="1")
    world.copy(int(other.place), version="2")


@way
def an_evaluation_changed_in_place(world: World) -> None:
    world.before_evaluation()
    evaluation = world.evaluate(verdict="refused")
    world.rewrite(int(evaluation.place), verdict="passed")
    world.evaluate(person=None, version="1")


@way
def a_required_metric_without_a_value(world: World) -> None:
    world.publish()
    world.set_policy(required=["accuracy"])
    world.evaluate()
    world.approve()


@way
def a_record_forged_after_the_measurement(world: World) -> None:
    """`promote --remeasure` has measured; meanwhile another passed evaluation is recorded."""
    world.complete()
    evaluations = read_chain(world.client, NAME).of("evaluation", "2")
    world.measured = evaluations[-1].digest
    world.evaluate()


# approvals


@way
def no_approval(world: World) -> None:
    world.before_evaluation()
    world.evaluate()


@way
def approvals_by_name(world: World) -> None:
    """Two records of approvals under the names of the approvers, without their keys."""
    world.complete()
    approval = read_chain(world.client, NAME).of("approval")[-1]
    world.client.records = dict(list(world.client.records.items())[:-2])
    for _ in range(2):
        world.write(None, "approval", dict(approval.content))


@way
def approvals_by_other_keys(world: World) -> None:
    world.before_evaluation()
    world.evaluate()
    world.approve("ada")
    approval = read_chain(world.client, NAME).of("approval")[-1]
    for person in ("stranger", "officer", "trainer", "measurer", "promoter"):
        world.write(person, "approval", dict(approval.content))


@way
def one_approver_twice(world: World) -> None:
    world.before_evaluation()
    world.evaluate()
    world.approve("ada", "ada")


@way
def an_approver_who_trained(world: World) -> None:
    """Ada's key is listed for both by a policy that somebody wrote without `policy set`."""
    world.publish("ada")
    world.set_policy(keys={"trained_by": world.public("ada")})
    world.evaluate()
    world.approve("grace")
    approval = read_chain(world.client, NAME).of("approval")[-1]
    world.write("ada", "approval", dict(approval.content))


@way
def an_approver_who_measured(world: World) -> None:
    world.publish()
    world.set_policy(keys={"measured_by": world.public("ada")})
    world.evaluate("ada")
    world.approve()


@way
def approvals_of_an_earlier_evaluation(world: World) -> None:
    """The same verdict, other values."""
    world.complete()
    world.evaluate(values={"auc": 0.51})


@way
def approvals_under_an_earlier_policy(world: World) -> None:
    world.complete()
    world.set_policy(min_kept=0.5)


@way
def approvals_of_another_version(world: World) -> None:
    world.before_evaluation()
    world.evaluate()
    world.evaluate(version="1")
    world.approve(version="1")


@way
def approvals_copied_from_another_version(world: World) -> None:
    approvals_of_another_version(world)
    for approval in read_chain(world.client, NAME).of("approval"):
        world.copy(int(approval.place), version="2")


@way
def approvals_by_an_older_version(world: World) -> None:
    """They name neither the evaluation nor the policy."""
    world.before_evaluation()
    world.evaluate()
    for person in ("ada", "grace"):
        world.write(person, "approval", {"version": "2", "files": "files of 2"})


@way
def an_approver_who_measured_with_a_key_in_capitals(world: World) -> None:
    """The key that signed is the same, though the record writes it otherwise."""
    world.publish()
    world.set_policy(keys={"measured_by": []})
    world.forge("ada", "evaluation", {**PASSED, "gates": GATES, "version": "2"})
    world.approve()


@way
def an_author_who_approves_with_a_key_in_capitals(world: World) -> None:
    world.forge("ada", "version", {"version": "2", "files": "files of 2"})
    world.set_policy(keys={"trained_by": []})
    world.evaluate()
    world.approve("grace")
    approval = read_chain(world.client, NAME).of("approval")[-1]
    world.write("ada", "approval", dict(approval.content))


def twins(world: World) -> None:
    """Ada refuses version 2; it is version 3 too, and Grace approves that."""
    world.set_policy(approvals=1)
    world.write("trainer", "version", {"version": "3", "content": "same", "files": "other"})
    world.write("trainer", "version", {"version": "2", "content": "same", "files": "files of 2"})
    with signing_with(world.keys["ada"]):
        policy.refuse("uri", NAME, "3", "it refuses women over fifty")
    world.evaluate()
    world.approve("grace")


@way
def a_refused_model_under_another_number(world: World) -> None:
    twins(world)


@way
def a_refused_model_with_another_card(world: World) -> None:
    """The description of the job was changed, so that the content of the version is another."""
    world.set_policy(approvals=1)
    for version, content in (("3", "before"), ("2", "after")):
        published = {"version": version, "content": content, "model": "same", "files": "files"}
        world.write("trainer", "version", published)
    with signing_with(world.keys["ada"]):
        policy.refuse("uri", NAME, "3", "it refuses women over fifty")
    world.evaluate()
    world.approve("grace")


# people


@way
def a_promoter_by_name(world: World) -> None:
    world.complete()
    world.promoter = None


@way
def a_promoter_with_another_key(world: World) -> None:
    world.complete()
    world.promoter = "stranger"


@way
def a_version_that_nobody_listed_trained(world: World) -> None:
    world.publish("stranger")
    world.set_policy()
    world.evaluate()
    world.approve()


@way
def a_version_without_a_signed_publication(world: World) -> None:
    world.publish(None)
    world.set_policy()
    world.evaluate()
    world.approve()


@way
def a_second_publication_by_a_listed_key(world: World) -> None:
    """The first record of a version counts."""
    a_version_that_nobody_listed_trained(world)
    world.publish("trainer")


@way
def a_version_that_is_too_young(world: World) -> None:
    world.publish()
    world.set_policy(min_age=1.0)
    world.evaluate()
    world.approve()


@way
def a_version_with_an_early_time(world: World) -> None:
    """The clock of who publishes is two days behind; the policy was set a moment before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "now", lambda: "2026-01-01T00:00:00+00:00")
        world.client.records.clear()
        world.client.models[NAME].aliases.clear()
        world.publish(version="1")
        audit.move_alias(world.client, NAME, "champion", "1", reason="promote", evaluation={})
    world.set_policy(min_age=48.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "now", lambda: "2026-01-02T00:00:00+00:00")
        world.publish()
    world.evaluate()
    world.approve()


@way
def a_version_with_an_early_time_by_the_registry(world: World) -> None:
    """No record before it is of today, but the registry knows when it got the record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "now", lambda: "2026-01-01T00:00:00+00:00")
        world.client.records.clear()
        world.client.models[NAME].aliases.clear()
        world.publish(version="1")
        audit.move_alias(world.client, NAME, "champion", "1", reason="promote", evaluation={})
        world.set_policy(min_age=48.0)
        world.client.added_ms[max(world.client.records) + 1] = int(time.time() * 1000)
        world.publish()
    world.evaluate()
    world.approve()


@way
def a_version_with_a_late_time(world: World) -> None:
    world.set_policy(min_age=1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "now", lambda: "2099-01-01T00:00:00+00:00")
        world.publish()
    world.evaluate()
    world.approve()


@way
def a_version_without_its_signature(world: World) -> None:
    world.publish()
    world.set_policy(signed_by=world.public("officer"))
    world.evaluate()
    world.approve()


@way
def a_signature_of_other_files(world: World) -> None:
    a_version_without_its_signature(world)
    key = signatures.read_private_key(world.keys["officer"])
    made = signatures.signature(key, NAME, "files of 1")
    world.write(None, "signature", {"version": "2", **made})


@way
def another_alias(world: World) -> None:
    """Services may read another alias than champion."""
    world.complete(verdict="refused")
    world.alias = "production"


@way
def a_publication_in_a_tag_of_older_versions(world: World) -> None:
    """Tags held moves alone: one says that the version was published long ago by the trainer."""
    world.set_policy(min_age=48.0, keys={"trained_by": []})
    world.publish()
    world.evaluate()
    world.approve()
    record = {"number": 1, "when": "2020-01-01T00:00:00+00:00", "who": "trainer", "previous": ""}
    record |= {"kind": "version", "content": {"version": "2", "files": "files of 2"}}
    world.client.models[NAME].tags[audit.AUDIT_TAG + "1"] = json.dumps(record)


@way
def a_record_taken_out_behind_one_with_a_small_number(world: World) -> None:
    """Numbers are what writers say: a break after the policy stays one after the policy."""
    world.complete()
    world.forge(None, "approval", {"version": "1"}, number=-7)
    world.forge(None, "approval", {"version": "1"}, number=-6, previous="0" * 64)


# the policy itself


@way
def a_weaker_policy_without_a_key(world: World) -> None:
    world.complete(verdict="refused")
    world.write(None, "policy", world.rules(gates={}, approvals=0, holdout=None, keys={}))


@way
def a_weaker_policy_by_another_key(world: World) -> None:
    world.complete(verdict="refused")
    with pytest.raises(GateRefused, match="only a key that it lists in set_by may replace it"):
        world.set_policy("trainer", gates={})
    world.write("trainer", "policy", world.rules(gates={}))


@way
def a_policy_removed_without_a_key(world: World) -> None:
    world.complete(verdict="refused")
    world.write(None, "policy", {"gates": None})


@way
def a_policy_that_lists_other_keys(world: World) -> None:
    """Its own key would be on the list, but the policy before does not have it."""
    world.complete(verdict="refused")
    listed = {role: world.public("stranger") for role in ("set_by", "measured_by")}
    world.write("stranger", "policy", world.rules(keys=listed))
    world.evaluate("stranger")


@way
def a_policy_taken_out(world: World) -> None:
    """The record of the policy is deleted from the registry: the later records lack it."""
    world.complete(verdict="refused")
    world.evaluate()
    (record,) = read_chain(world.client, NAME).of("policy")
    del world.client.records[int(record.place)]


@way
def a_policy_weakened_in_place(world: World) -> None:
    world.before_evaluation()
    lax = {"auc": {"min": 0.1}}
    world.evaluate(gates=lax)
    (record,) = read_chain(world.client, NAME).of("policy")
    world.rewrite(int(record.place), gates=lax, keys={}, approvals=0)


@way
def the_policy_before_the_present_one(world: World) -> None:
    """The stricter one is deleted, so that the first one would be in force again."""
    world.publish()
    world.set_policy(approvals=0, keys={"approved_by": []})
    world.set_policy()
    world.evaluate()
    (_, record) = read_chain(world.client, NAME).of("policy")
    del world.client.records[int(record.place)]


@way
def a_policy_set_while_it_is_promoted(world: World) -> None:
    """Between the last look and the record of the move a stricter policy is set."""
    world.complete()
    meanwhile(world, lambda: world.set_policy(gates={**GATES, "accuracy": {"min": 0.9}}))


@way
def a_refusal_recorded_while_it_is_promoted(world: World) -> None:
    world.complete()
    meanwhile(world, lambda: world.evaluate(verdict="refused"))


@way
def a_policy_of_other_approvers_set_meanwhile(world: World) -> None:
    world.complete()
    listed = {"approved_by": world.public("officer", "stranger")}
    meanwhile(world, lambda: world.set_policy(keys=listed))


def meanwhile(world: World, act: Callable[[], Any]) -> None:
    """Act once, at the moment when the registry is asked to add the record of the move."""
    create = world.client.create_model_version
    pending = [act]

    def create_after_others(name: str, source: str, tags: dict[str, str]) -> Any:
        if pending and json.loads(tags[audit.RECORD_TAG])["kind"] == "move":
            pending.pop()()
        return create(name, source, tags)

    world.client.create_model_version = create_after_others  # type: ignore[method-assign]


@pytest.mark.parametrize("name", WAYS)
def test_no_way_around_a_policy(world: World, name: str) -> None:
    WAYS[name](world)
    with pytest.raises(GateRefused) as caught:
        world.promote()
    chain = read_chain(world.client, NAME)
    assert chain.aliases == {"champion": "1"}
    assert caught.value.exit_code == 1
    assert str(caught.value).startswith(f"{NAME} version 2 cannot become {world.alias}: ")
    refusals = chain.of("refusal", "2")
    assert refusals[-1] == chain.records[-1]
    assert refusals[-1].content["reason"] in str(caught.value)
    policies = chain.of("policy")
    if chain.policy is not None:
        assert f"set by somebody, {chain.policy.when}" in str(caught.value)
    else:
        assert policies == []


def test_there_are_enough_ways() -> None:
    assert len(WAYS) >= 70


def test_a_policy_in_place_of_one_with_keys_is_a_fault(world: World) -> None:
    a_policy_removed_without_a_key(world)
    (fault,) = false_records(read_chain(world.client, NAME))
    assert "a policy by somebody, counts for nothing: no key of the policy before it" in fault


def test_a_move_without_a_listed_key_is_a_fault(world: World) -> None:
    """Somebody who writes the registry records and makes the move, as this program would."""
    world.complete()
    audit.move_alias(world.client, NAME, "champion", "2", reason="promote", evaluation={})
    (fault,) = unsigned_moves(read_chain(world.client, NAME))
    assert "champion is version 2 by record" in fault


def test_a_signed_record_that_was_changed_is_a_fault(world: World) -> None:
    world.complete()
    last = read_chain(world.client, NAME).records[-1]
    world.rewrite(int(last.place), files="other")
    assert f"record {last.number} has a false signature" in false_records(
        read_chain(world.client, NAME)
    )


def test_approvals_hold_for_the_same_measurement(world: World) -> None:
    """Measured again, by another run and in the last bits of a float: nobody approves anew."""
    world.before_evaluation()
    world.evaluate(values={"auc": 0.7}, run_id="first")
    world.approve()
    world.evaluate(values={"auc": 0.7 + 1e-14}, run_id="second")
    assert world.promote() is not None


def test_only_a_key_of_the_list_replaces_a_policy(world: World) -> None:
    world.set_policy()
    with pytest.raises(GateRefused, match=r"the policy of loans was not set: .*set_by"):
        world.set_policy(None)
    assert read_chain(world.client, NAME).records[-1].content["action"] == "policy set"
    world.set_policy(min_kept=0.5)
    chain = read_chain(world.client, NAME)
    assert chain.policy is not None
    assert chain.policy.content["min_kept"] == 0.5


@pytest.mark.parametrize(
    ("person", "words"),
    [
        (None, "the policy counts approvals by the keys in approved_by"),
        ("stranger", "is none of those that the policy lists in approved_by"),
        ("ada", "signed its publication, and an author approves nothing"),
    ],
)
def test_an_approval_that_cannot_count_is_refused(
    world: World, person: str | None, words: str
) -> None:
    world.publish("ada")
    world.set_policy()
    world.evaluate()
    with (
        signing_with(world.keys[person]) if person else nullcontext(),
        pytest.raises(GateRefused, match=words),
    ):
        policy.approve("uri", NAME, "2")
    last = read_chain(world.client, NAME).records[-1]
    assert (last.kind, last.content["action"]) == ("refusal", "approve")


def test_nothing_is_approved_before_it_is_measured(world: World) -> None:
    world.before_evaluation()
    with pytest.raises(InputError, match="there is nothing to approve of loans version 2: no eval"):
        world.approve("ada")


def test_an_approval_after_a_refusal_holds_under_each_number(world: World) -> None:
    twins(world)
    world.approve("ada")
    assert world.promote() is not None


@pytest.mark.parametrize("text", ["02", " 2", "\uff12", "2.0", "+2", "", "0", "9" * 5000])
def test_a_version_is_named_as_its_records_name_it(world: World, text: str) -> None:
    """The registry reads "02" as 2, and of a version "02" no refusal is recorded."""
    world.publish()
    policy.refuse("uri", NAME, "2", "unfair")
    acts: list[Callable[[], Any]] = [
        lambda: policy.promote("uri", NAME, text, "champion"),
        lambda: policy.approve("uri", NAME, text),
        lambda: policy.refuse("uri", NAME, text, "unfair"),
    ]
    for act in acts:
        with pytest.raises(InputError, match="loans has no version"):
            act()


def test_of_two_policies_at_one_moment_the_second_is_not_set(world: World) -> None:
    """By the first, the second could count for nothing, though its writer read that it is set."""
    world.set_policy(keys={"set_by": world.public("officer", "stranger")})
    create = world.client.create_model_version
    others: list[Callable[[], None]] = [world.set_policy]

    def create_after_others(name: str, source: str, tags: dict[str, str]) -> Any:
        if others:
            others.pop()()
        return create(name, source, tags)

    world.client.create_model_version = create_after_others  # type: ignore[method-assign]
    with pytest.raises(NotCarriedOut, match="another policy was set at the same moment"):
        world.set_policy("stranger", min_kept=0.1)
    chain = read_chain(world.client, NAME)
    assert (len(chain.of("policy")), false_records(chain)) == (2, [])


def test_a_forged_move_is_not_taken_for_an_own_one(world: World) -> None:
    """Somebody recorded the move before, in the name of the promoter and without the key."""
    world.complete()
    move = {"alias": "champion", "from_version": "1", "to_version": "2", "reason": "promote"}
    world.write(None, "move", move | {"evaluation": {}})
    assert world.promote() is not None
    chain = read_chain(world.client, NAME)
    assert [record.kind for record in chain.records[-2:]] == ["move", "move"]
    assert unsigned_moves(chain) == []


def test_a_policy_names_the_refusals_that_no_longer_count(world: World) -> None:
    world.complete()
    with signing_with(world.keys["ada"]):
        policy.refuse("uri", NAME, "2", "unfair")
    world.set_policy(keys={"approved_by": world.public("grace", "stranger")})
    chain = read_chain(world.client, NAME)
    assert chain.policy is not None
    (lapsed,) = policy.lapsed_refusals(chain, chain.policy)
    assert lapsed.startswith("version 2: somebody refused it (record ")
    assert lapsed.endswith("unfair, which counts no more")


def test_times_that_cannot_be_are_named_and_are_no_fault(world: World) -> None:
    """A clock that was wrong once must not leave a fault for ever."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "now", lambda: "2026-01-01T00:00:00+00:00")
        world.publish()
        patch.setattr(audit, "now", lambda: "2099-01-01T00:00:00+00:00")
        world.client.added_ms[max(world.client.records) + 1] = 1_800_000_000_000
        world.set_policy()
    chain = read_chain(world.client, NAME)
    early, late = chain.odd_times()
    assert "record 3 says 2026-01-01T00:00:00+00:00, and record 2 before it" in early
    assert "and the registry got it at 2027-01-15T08:00:00+00:00" in late
    assert chain.faults == []


def test_a_clock_that_was_ahead_holds_no_later_version(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "now", lambda: "2099-01-01T00:00:00+00:00")
        world.evaluate(version="1")
    world.client.added_ms.clear()
    world.set_policy(min_age=1.0)
    world.publish()
    chain = read_chain(world.client, NAME)
    (published,) = chain.of("version", "2")
    assert chain.earliest_time(published).isoformat() == published.when


def test_a_copy_without_a_record_needs_a_policy(world: World) -> None:
    """MLflow copies a version that a person refused; the copy passes an evaluation."""
    policy.refuse("uri", NAME, "1", "unfair")
    world.client.versions["2"] = {registry.FILES_TAG: "files of 1"}
    world.evaluate(person=None)
    with pytest.raises(GateRefused, match="no record has its publication: MLflow added it"):
        world.promote()
