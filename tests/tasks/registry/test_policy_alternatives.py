"""A policy asks for a search for less discriminatory alternatives: which searches count, and what
they may have found.
"""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.registry.ledger import Chain, Record
from evenhand.tasks.registry.policy import holds_back, judge
from evenhand.tasks.registry.policy_alternatives import alternative_in_words, alternative_rules
from evenhand.tasks.registry.policy_people import ROLES
from tests.tasks.registry.test_policy_terms import PASSED, POLICY, VERSION

RULES = alternative_rules(0.02, "gap_max.sex", 30, ())
SEARCH: dict[str, Any] = {
    "version": "1",
    "metric": "gap_max.sex",
    "alternative_gap": 0.01,
    "models": 60,
    "judged_models": 40,
    "no_worse": ["balanced_accuracy by 0.005"],
    "where": [],
    "min_cell": 5,
}


def reason(*searches: dict[str, Any], again: bool = False, **rules: Any) -> str | None:
    """Why a version with these searches for alternatives is not promoted; `again` publishes the
    same model as version 2 first, and version 3 with another one.
    """
    content = {**POLICY, "alternative": RULES, **rules}
    when = "2026-01-01T00:00:00+00:00"
    policy = Record(2, when, "ada", "policy", content, "a", "b")
    records = [VERSION, policy]
    if again:
        for number, digest in (("1", "e" * 64), ("2", "e" * 64), ("3", "f" * 64)):
            content = {"version": number, "files": "", "model": digest}
            records.append(Record(2, when, "ada", "version", content, "", f"v{number}"))
    for number, search in enumerate(searches, start=3):
        records.append(Record(number, when, "ada", "alternative", search, "", f"d{number}"))
    return judge(policy, Chain("people", records), "1", [PASSED])[1]


def test_a_search_that_found_little_allows_a_promotion() -> None:
    assert reason(SEARCH) is None
    assert reason(SEARCH | {"alternative_gap": 0.02}) is None
    # without the gate nothing is asked for
    assert reason(alternative=None) is None


@pytest.mark.parametrize("key", ["where", "min_cell"])
def test_a_record_that_does_not_say_what_it_kept_is_none(key: str) -> None:
    """Older versions wrote such records; what they found counts all the same."""
    older = {name: value for name, value in SEARCH.items() if name != key}
    assert "does not say what it left out or had to keep" in str(reason(older))
    assert "smaller by 0.3" in str(reason(older | {"alternative_gap": 0.3}, SEARCH))


def test_of_a_metric_named_twice_the_smaller_number_counts() -> None:
    """Both are limits of the search, so its alternatives had to keep more than the policy asks."""
    twice = SEARCH | {"no_worse": ["balanced_accuracy by 0", "balanced_accuracy by 0.005"]}
    assert "had to keep balanced_accuracy within 0" in str(reason(twice))
    with pytest.raises(InputError, match="--alternative-no-worse names auc twice: keep one"):
        alternative_rules(0.02, None, None, ("auc by 0.1", "auc by 0.2"))


def test_without_a_search_there_is_a_refusal_with_its_cure() -> None:
    words = str(reason())
    assert "no search for less discriminatory alternatives in gap_max.sex to it" in words
    assert "`evenhand tune JOB --alternative-to models:/people/1`" in words
    for other in (SEARCH | {"version": "2"}, SEARCH | {"metric": "gap_max.age"}):
        assert reason(other) == words


def test_an_alternative_counts_whichever_search_found_it() -> None:
    """A later search that finds less does not undo it, and a small one may find it."""
    small = SEARCH | {"alternative_gap": 0.05, "judged_models": 2}
    for order in ((small, SEARCH), (SEARCH, small)):
        words = str(reason(*order))
        assert "gap_max.sex smaller by 0.05, and the policy allows 0.02" in words
    assert "record 3" in str(reason(small, SEARCH))


def test_an_alternative_to_the_same_model_counts_too() -> None:
    """Publishing a model again under another number does not shed what a search has found."""
    found = SEARCH | {"version": "2", "alternative_gap": 0.3}
    assert "smaller by 0.3" in str(reason(found, SEARCH, again=True))
    assert reason(found | {"version": "3"}, SEARCH, again=True) is None
    # nor has it to be searched again
    assert reason(SEARCH | {"version": "2"}, again=True) is None


def test_a_search_for_what_cannot_be_better_counts_for_nothing() -> None:
    """Unless the policy names this disparity, and no other."""
    perfect = SEARCH | {"metric": "consistency.copy", "value": 1.0, "alternative_gap": 0.0}
    any_metric = alternative_rules(0.02, None, 30, ())
    words = str(reason(perfect, alternative=any_metric))
    assert "consistency.copy of the model can be better by 0 at most, so that there was" in words
    # another search of the same would not help
    assert not words.endswith("searches them")
    assert "by 0.015 at most" in str(reason(perfect | {"value": 0.985}, alternative=any_metric))
    assert reason(perfect | {"value": 0.9}, alternative=any_metric) is None
    named = alternative_rules(0.02, "consistency.copy", 30, ())
    assert reason(perfect, alternative=named) is None


def test_what_was_found_counts_if_it_kept_as_much_as_asked() -> None:
    """A search that allows a worse model says nothing about one that is as good."""
    loose = SEARCH | {"alternative_gap": 0.3, "no_worse": ["balanced_accuracy by 0.3"]}
    assert reason(loose, SEARCH) is None
    # and is no evidence that there is none
    assert "it found a difference of 0.3 with models that may be worse" in str(reason(loose))
    assert reason(loose | {"alternative_gap": 0.01}) is None
    strict = loose | {"no_worse": ["balanced_accuracy by 0.001", "auc by 0.1"]}
    assert "smaller by 0.3" in str(reason(strict, SEARCH))
    # a value that is no number hides nothing
    odd = SEARCH | {"alternative_gap": 0.3, "value": "n/a"}
    assert "smaller by 0.3" in str(reason(odd, SEARCH))
    # a gap that is no number refuses
    assert "policy allows 0.02" in str(reason(SEARCH | {"alternative_gap": float("nan")}))


def test_a_search_for_performance_is_none_for_alternatives() -> None:
    rules = alternative_rules(0.02, None, 30, ())
    words = str(reason(SEARCH | {"metric": "log_loss"}, alternative=rules))
    assert "no search for less discriminatory alternatives to it" in words
    assert reason(SEARCH, alternative=rules) is None
    higher = SEARCH | {"metric": "impact_ratio.sex", "alternative_gap": 0.3}
    assert "impact_ratio.sex larger by 0.3" in str(reason(higher, alternative=rules))


@pytest.mark.parametrize(
    "changes",
    [
        {"metric": 5},
        {"metric": "foo.bar", "alternative_gap": 9.0},
        {"alternative_gap": "n/a"},
        {"alternative_gap": None},
        {"judged_models": "many"},
        {"no_worse": "balanced_accuracy"},
        {"no_worse": 3},
        {"min_cell": "few"},
        {"models": float("inf"), "judged_models": float("inf")},
        {"version": ["1"]},
        {"version": {"1": 1}},
    ],
)
def test_a_record_that_was_made_by_hand_counts_for_nothing(changes: dict[str, Any]) -> None:
    assert "no search for less discriminatory alternatives" in str(reason(SEARCH | changes))
    assert reason(SEARCH | changes, SEARCH) is None


def test_a_policy_of_an_older_version_may_name_no_disparity() -> None:
    assert RULES is not None
    words = str(reason(SEARCH, alternative={**RULES, "metric": "log_loss"}))
    assert "names log_loss for alternatives, which is no disparity: set it again" in words


SHORT = {
    "copies of a model": ({"distinct": 3}, "it judged 3 different models, and the policy asks for"),
    "groups left out": ({"min_cell": 500}, "it measured groups with min_cell 500"),
    "groups of a few": ({"min_cell": 4}, "it measured groups with min_cell 4"),
    "few models": ({"judged_models": 29}, "it judged 29 different models, and the policy asks"),
    "a further limit": ({"where": ["auc >= 0.9"]}, "had to keep auc >= 0.9 as well"),
    "a smaller tolerance": (
        {"no_worse": ["balanced_accuracy by 0.001"]},
        "balanced_accuracy within 0.001, and the policy allows 0.005",
    ),
    "another metric kept": ({"no_worse": ["auc by 0.5"]}, "had to keep auc, which the policy does"),
}


def test_another_search_is_no_cure_for_other_groups() -> None:
    """The version's job has the number, so each search for it has."""
    words = str(reason(SEARCH | {"min_cell": 4}))
    assert "or `evenhand policy set` with --set evaluate.min_cell=4" in words
    assert "evenhand tune" not in words
    assert "evenhand evaluate" not in words


@pytest.mark.parametrize("case", list(SHORT))
def test_a_search_that_could_find_less_counts_for_nothing(case: str) -> None:
    changes, words = SHORT[case]
    assert words in str(reason(SEARCH | changes))
    # one of the right size next to it is enough
    assert reason(SEARCH | changes, SEARCH) is None


def test_a_policy_may_ask_for_enough_random_settings() -> None:
    rules = alternative_rules(0.02, "gap_max.sex", 30, (), 0.05)
    assert "at most 0.05 of random settings better than the best" in alternative_in_words(
        rules or {}
    )
    assert reason(SEARCH | {"share_bound": 0.05}, alternative=rules) is None
    for share, words in ((0.06, "up to 0.06 of them are better"), (float("nan"), "up to nan")):
        assert words in str(reason(SEARCH | {"share_bound": share}, alternative=rules))
    # records of searches without a random setting, or that do not say it
    assert "up to 1 of them are better" in str(reason(SEARCH, alternative=rules))


def test_a_search_by_a_key_that_may_not_measure_does_not_count() -> None:
    keys = {role: [] for role in ROLES} | {"measured_by": ["k"]}
    words = str(reason(SEARCH, keys=keys))
    assert "no key that the policy lists in measured_by" in words


def test_a_run_under_such_a_policy_publishes_a_challenger() -> None:
    plain = {**POLICY, "holdout": None, "group_sizes": {}}
    assert holds_back({**plain, "alternative": None}, PASSED) is None
    assert "a search for alternatives" in str(holds_back({**plain, "alternative": RULES}, PASSED))


def test_options_are_checked_and_shown() -> None:
    assert alternative_rules(None, None, None, ()) is None
    assert RULES is not None
    assert "in 30 models: a gap of 0.02 at most" in alternative_in_words(RULES)
    assert alternative_rules(0.0, None, None, ()) == {
        "gap": 0.0,
        "metric": None,
        "models": 50,
        "no_worse": ["balanced_accuracy by 0.005"],
    }
    for arguments, words in (
        ((None, "auc", None, ()), "need --alternative-gap"),
        ((None, None, None, (), 0.1), "need --alternative-gap"),
        ((0.1, None, None, (), 0.0), "no search can show that so few are better"),
        ((0.1, "gap_mex.sex", None, ()), "--alternative-metric 'gap_mex.sex'"),
        ((0.1, "auc", None, ()), "--alternative-metric 'auc' is no disparity"),
        ((0.1, None, None, ("auc",)), "--alternative-no-worse 'auc' is not of the form"),
        ((0.1, None, None, ("aucc by 0.1",)), "--alternative-no-worse 'aucc by 0.1'"),
    ):
        with pytest.raises(InputError, match=words):
            alternative_rules(*arguments)
