"""What a policy pins: neither a caller nor a job's author changes how, and on whom, is measured."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from evenhand.data_contracts.arrow import bin_names
from evenhand.data_contracts.column import Column
from evenhand.data_contracts.model import Contract
from evenhand.flows.cli import set_policy
from evenhand.flows.job import Evaluate
from evenhand.tasks.registry.ledger import Chain, Record
from evenhand.tasks.registry.policy import holds_back, judge
from evenhand.tasks.registry.policy_terms import (
    MAX_UNNOTICED,
    MIN_KEPT,
    OVERLAP_METHOD,
    SETTINGS,
    favourable_outcome,
    group_sizes,
    is_older_than,
    judged_columns,
    judged_copies,
    judged_otherwise,
    kept_shares,
    measured_otherwise,
    terms_of,
)

SEX = Column("sex", "string", role="sensitive", allowed=("F", "M", "X"))
AGE = Column("age", "integer", role="sensitive", bins=(40,))
PAY = Column("pay", "number", is_feature=True)
PAID = Column("paid", "string", True, role="label", allowed=("no", "yes"), positive="yes")
CONTRACT = Contract("people", "1", "", (SEX, AGE, PAY, PAID))
GATES = {"auc": {"min": 0.5}, "consistency.work": {"min": 0.9}}
COPIES = {"work": {"job": "all"}}
POLICY: dict[str, Any] = {
    "gates": GATES,
    "required": [],
    "holdout": {"data": "h.csv", "overrides": [], "rows": 9, "salt": "s", "digest": "d"},
    "max_overlap": 0.05,
    "min_age": 0.0,
    "approvals": 0,
    "promoters": [],
    "signed_by": [],
    "measure": SETTINGS,
    "min_kept": 0.95,
    "judged": judged_columns(CONTRACT),
    "copies": COPIES,
    "favourable": favourable_outcome(CONTRACT),
    "group_sizes": {"sex": {"F": 50}},
    "min_version": "0.2.0",
    "overlap_method": OVERLAP_METHOD,
    "keys": {},
}
PASSED: dict[str, Any] = {
    "kind": "evaluate",
    "verdict": "passed",
    "gates": GATES,
    "holdout": "d",
    "overlap": 0.0,
    "values": {"auc": 0.7},
    "settings": SETTINGS,
    "judged": judged_columns(CONTRACT),
    "copies": COPIES,
    "kept": {"rows": 1.0, "least": 1.0, "group": None},
    "favourable": favourable_outcome(CONTRACT),
    "sizes": {"sex": {"F": 50}},
    "evenhand": "0.2.0",
    "overlap_method": OVERLAP_METHOD,
}
VERSION = Record(
    1, "2026-01-01T00:00:00+00:00", "ada", "version", {"version": "1", "files": ""}, "", "a"
)


def reason(*evaluations: dict[str, Any], **rules: Any) -> str | None:
    """Why a version with these evaluations is not promoted under the policy, changed by `rules`."""
    content = {**POLICY, **rules}
    policy = Record(2, "2026-01-01T00:00:00+00:00", "ada", "policy", content, "a", "b")
    return judge(policy, Chain("people", [VERSION, policy]), "1", list(evaluations))[1]


def with_settings(**settings: Any) -> dict[str, Any]:
    return {**PASSED, "settings": {**SETTINGS, **settings}}


def with_contract(contract: Contract) -> dict[str, Any]:
    return {**PASSED, "judged": judged_columns(contract)}


def changed(column: Column, **parts: Any) -> Contract:
    """The contract with one column changed."""
    columns = [
        replace(item, **parts) if item.name == column.name else item for item in CONTRACT.columns
    ]
    return replace(CONTRACT, columns=tuple(columns))


def test_the_defaults_are_those_of_a_job_and_of_the_option() -> None:
    evaluate = Evaluate().model_dump()
    for key, default in SETTINGS.items():
        assert key == "seed" or evaluate[key] == default
    assert inspect.signature(set_policy).parameters["min_kept"].default.default == MIN_KEPT


def test_an_evaluation_by_the_policys_terms_counts() -> None:
    assert reason(PASSED) is None


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"level": 0.01}, "measured with level 0.01, and the policy pins 0.95"),
        ({"level": 0.96}, "level"),
        ({"draws": 0}, "draws"),
        ({"draws": 1001}, "draws"),
        ({"min_cell": 500}, "min_cell"),
        ({"min_cell": 1}, "min_cell"),
        ({"intersections": True}, "intersections true, and the policy pins false"),
        ({"seed": 7}, "seed 7"),
    ],
)
def test_an_evaluation_by_other_settings_counts_for_nothing(setting: Any, words: str) -> None:
    """Neither does it pass a version, nor undo a refusal."""
    assert words in str(reason(with_settings(**setting)))
    refused = {**PASSED, "verdict": "refused"}
    assert "refused by the gates" in str(reason(refused, with_settings(**setting)))
    assert reason(PASSED, {**with_settings(**setting), "verdict": "refused"}) is None


def test_an_older_record_does_not_say_how_it_was_measured() -> None:
    older = {key: value for key, value in PASSED.items() if key not in ("judged", "copies", "kept")}
    assert "does not say by which contract" in str(reason(older))
    older["settings"] = {
        key: SETTINGS[key] for key in ("draws", "level", "min_cell", "intersections")
    }
    assert "does not say with which seed" in str(reason(older))


@pytest.mark.parametrize(
    ("contract", "words"),
    [
        (changed(SEX, missing=("X",)), "'missing' of the column 'sex'"),
        (changed(SEX, allowed=("F", "M")), "'allowed' of the column 'sex'"),
        (changed(AGE, bins=(99,)), "'bins' of the column 'age'"),
        (changed(PAID, positive="no"), "'positive' of the column 'paid'"),
        (changed(PAID, missing=("no",)), "'missing' of the column 'paid'"),
        (replace(CONTRACT, missing_sensitive="drop"), "missingSensitive"),
        (changed(AGE, role="ignore", bins=None), "lacks the label or sensitive column 'age'"),
    ],
)
def test_another_contract_of_the_judged_columns_is_refused(contract: Contract, words: str) -> None:
    assert words in str(reason(with_contract(contract)))


def test_other_parts_of_a_contract_are_the_authors() -> None:
    contract = changed(PAY, description="monthly", missing=("?",))
    assert reason(with_contract(replace(contract, version="2"))) is None


def test_the_copies_that_a_gate_is_about_are_pinned() -> None:
    copies = {"work": {"owner": "all"}}
    assert "other values of people for 'work'" in str(reason({**PASSED, "copies": copies}))
    defined = {
        "counterfactuals": {"work": {"job": "all"}, "other": {}},
        "terms": {"names": {"column": "a"}},
    }
    assert judged_copies(["auc", "consistency.work", "flips.names"], defined) == {
        "work": {"job": "all"},
        "names": {"column": "a"},
    }


def test_too_few_kept_rows_of_all_or_of_a_group_are_refused() -> None:
    for kept, words in (
        ({"rows": 0.9, "least": 0.96, "group": None}, "measured 90.0% of the rows"),
        ({"rows": 0.99, "least": 0.5, "group": "sex = X"}, "50.0% of the people with sex = X"),
        ({}, "does not say how many rows"),
    ):
        assert words in str(reason({**PASSED, "kept": kept}))
    assert (
        reason({**PASSED, "kept": {"rows": 0.9, "least": 0.5, "group": "sex = X"}}, min_kept=0.5)
        is None
    )


def test_the_kept_share_is_of_the_smallest_group() -> None:
    """It is that before rows were set aside."""
    raw = pa.table(
        {
            "sex": ["F"] * 60 + ["M"] * 30 + ["X"] * 8 + [None] * 2,
            "age": [30] * 100,
            "pay": [1.0] * 100,
            "paid": ["no", "yes"] * 50,
        }
    )
    kept = pa.concat_tables([raw[:90], raw[90:94]])
    assert kept_shares(raw, kept, CONTRACT, 5) == {"rows": 0.94, "least": 0.5, "group": "sex = X"}
    # eight people are too few to speak of
    (young, _) = bin_names(AGE)
    assert kept_shares(raw, kept, CONTRACT, 9) == {
        "rows": 0.94,
        "least": 0.94,
        "group": f"age = {young}",
    }


def test_an_older_policy_has_defaults_and_its_holdouts_terms() -> None:
    new = ("measure", "min_kept", "judged", "copies", "min_version", "favourable", "group_sizes")
    older = {key: value for key, value in POLICY.items() if key not in new}
    terms = terms_of(older)
    assert (terms.older, terms.settings, terms.min_kept, terms.judged) == (
        True,
        SETTINGS,
        0.95,
        None,
    )
    given = ["table.delimiter=;", "evaluate.level=0.99", "seed=3"]
    settings = terms_of({**older, "holdout": {**POLICY["holdout"], "overrides": given}}).settings
    assert settings == {**SETTINGS, "level": 0.99, "seed": 3}
    assert terms_of({**older, "gates": {"gap_max.age&sex": {"max": 0.1}}}).settings["intersections"]
    assert terms_of(POLICY).older is False


def test_without_a_pinned_contract_nobody_is_read_as_missing() -> None:
    terms = terms_of({**POLICY, "judged": None})
    assert judged_otherwise(terms, PASSED) is None
    hidden = with_contract(changed(SEX, missing=("X",)))
    assert "reads values of 'sex' as missing" in str(judged_otherwise(terms, hidden))


def test_a_run_may_measure_more_strictly_but_not_less() -> None:
    rules = {**POLICY, "holdout": None, "group_sizes": {}}
    run = {**PASSED, "kind": "run", "kept": {"rows": 1.0}}
    strict = {"level": 0.99, "draws": 5000, "min_cell": 1, "intersections": True, "seed": 9}
    assert holds_back(rules, {**run, "settings": strict}) is None
    for key, value in (("level", 0.5), ("draws", 20), ("min_cell", 50)):
        weak = {**run, "settings": {**SETTINGS, key: value}}
        assert f"measured with {key} {value}" in str(holds_back(rules, weak))
    assert "'missing'" in str(
        holds_back(rules, {**run, **with_contract(changed(SEX, missing=("X",)))})
    )
    assert measured_otherwise(terms_of(rules), {**PASSED, "settings": strict}) is not None


def test_the_terms_are_options_of_an_evaluation() -> None:
    assert terms_of(POLICY).overrides() == [
        "evaluate.level=0.95",
        "evaluate.draws=1000",
        "evaluate.min_cell=5",
        "evaluate.intersections=false",
        "seed=0",
    ]


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("0.1.9", "evenhand 0.1.9 measured it, and the policy pins min_version 0.2.0"),
        ("unknown", "evenhand unknown measured it"),
        (None, "does not say which version"),
    ],
)
def test_older_code_measures_nothing(version: Any, words: str) -> None:
    """Neither does it pass a version, nor undo a refusal."""
    older = {**PASSED, "evenhand": version}
    assert words in str(reason(older))
    assert reason(PASSED, {**older, "verdict": "refused"}) is None
    assert "refused by the gates" in str(reason({**PASSED, "verdict": "refused"}, older))


def test_versions_are_compared_by_number() -> None:
    rising = ["unknown", "0.2", "0.2.1", "0.10.0", "1", "1.0.1rc1", "1.1"]
    for lower, higher in itertools.pairwise(rising):
        assert is_older_than(lower, higher)
        assert not is_older_than(higher, lower)
    assert not is_older_than("1", "1.0.0")
    assert not is_older_than("1.0.0", "1")


def test_another_measure_of_overlap_counts_for_nothing() -> None:
    assert "overlap_method is other, and the policy pins" in str(
        reason({**PASSED, "overlap_method": "other"})
    )


def test_what_cannot_be_told_about_copies_is_refused() -> None:
    """A holdout whose copied tenth could go unnoticed, unless the policy accepts that."""
    coarse = {**PASSED, "overlap": None, "overlap_noticed_from": 0.337}
    for evaluation in (coarse, {**coarse, "overlap": 0.04}):
        words = str(reason(evaluation))
        assert "cannot tell whether it was trained on rows of the holdout" in words
        assert "noticed from 34% of its rows on, and the policy asks for 10%" in words
        assert "`evenhand policy set --max-unnoticed 0.34`" in words
        assert reason(evaluation, max_unnoticed=0.34) is None
        assert "34%" in str(reason(evaluation, max_unnoticed=0.33))
    fine = {**PASSED, "overlap_noticed_from": 0.02}
    assert reason(fine, max_unnoticed=0.1) is None
    assert "at most 5% may be" in str(reason({**fine, "overlap": 0.2}, max_unnoticed=1.0))
    # an older record does not say it, and counts under an older policy only
    assert reason(PASSED) is None
    assert "which copied share would be noticed: evaluate it again" in str(
        reason(PASSED, max_unnoticed=0.1)
    )
    default = inspect.signature(set_policy).parameters["max_unnoticed"].default.default
    assert default == MAX_UNNOTICED


def test_a_share_that_is_not_known_names_a_cure_that_helps() -> None:
    words = str(reason({**PASSED, "overlap": None}))
    assert "by `EVENHAND_OVERLAP_KEY=FILE evenhand evaluate MODEL --policy`" in words
    bits = str(reason({**PASSED, "overlap_method": "bits"}))
    assert "its overlap_method is bits" in bits
    assert "an older version published it, so publish it again" in bits


def test_another_favourable_outcome_is_refused() -> None:
    """Also where the label's columns are not pinned."""
    other = {"column": "paid", "code": 0, "favourable": "no", "adverse": "yes"}
    for pinned in (POLICY["judged"], None):
        words = str(reason({**PASSED, "favourable": other}, judged=pinned))
        assert (
            "another outcome counts as favourable in it than the policy pins (paid = yes)" in words
        )


def test_named_groups_have_a_smallest_size() -> None:
    few = {**PASSED, "sizes": {"sex": {"F": 49}}}
    assert "measured 49 people with sex = F, and the policy asks for 50" in str(reason(few))
    for sizes in ({}, {"sex": {"M": 50}}, {"age": {"F": 50}}):
        assert "does not count the people with sex = F" in str(reason({**PASSED, "sizes": sizes}))
    raw = pa.table(
        {"sex": ["F", "M", "F"], "age": [30, 50, 50], "pay": [1.0] * 3, "paid": ["no"] * 3}
    )
    (_, older) = bin_names(AGE)
    wanted = {"sex": {"F": 1, "X": 1}, "age": {older: 1}}
    assert group_sizes(raw, CONTRACT, wanted) == {"sex": {"F": 2, "X": 0}, "age": {older: 2}}


def test_a_gate_with_its_default_bound_is_the_same_gate() -> None:
    gates = {**GATES, "auc": {"bound": "point", "min": 0.5}}
    assert reason({**PASSED, "gates": gates}) is None
    weaker = {**GATES, "auc": {"bound": "interval", "min": 0.5}}
    assert "no evaluation of it by the policy's gates" in str(reason({**PASSED, "gates": weaker}))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"promoters": ["nobody"]}, "names who may promote (nobody)"),
        ({"keys": {"measured_by": ["k"]}}, "lists keys in measured_by"),
        ({"keys": {"trained_by": ["k"]}}, "lists keys in trained_by"),
        ({"keys": {"promoted_by": ["k"]}}, "lists keys in promoted_by"),
        ({"group_sizes": {"sex": {"F": 1}}}, "asks for a count of named groups"),
    ],
)
def test_a_run_cannot_meet_what_asks_for_people(rules: Any, words: str) -> None:
    run = {**PASSED, "kind": "run"}
    policy = {**POLICY, "holdout": None, "group_sizes": {}}
    assert holds_back(policy, run) is None
    assert words in str(holds_back({**policy, **rules}, run))


def test_a_run_that_lost_most_of_a_group_is_held_back() -> None:
    """All rows together keep enough: the group is small."""
    run = {**PASSED, "kind": "run", "kept": {"rows": 0.97, "least": 0.0, "group": "sex = X"}}
    assert "0.0% of the people with sex = X" in str(
        holds_back({**POLICY, "holdout": None, "group_sizes": {}}, run)
    )
