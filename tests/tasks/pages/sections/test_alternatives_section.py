"""The page of a search for alternatives: numbers, bounds, groups, and what was not searched."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.pages.page_model import Table
from evenhand.tasks.pages.sections.alternatives_section import build
from evenhand.tasks.tuning.alternatives_text import bound_sentences, found_sentence

CONTENT: dict[str, Any] = {
    "to": "people",
    "metric": "gap_max.sex",
    "no_worse": [
        {
            "metric": "balanced_accuracy",
            "by": 0.005,
            "value": 0.7,
            "limit": "balanced_accuracy >= 0.695",
        }
    ],
    "champion": {"number": "0", "value": 0.2},
    "best": {"number": "3", "value": 0.08},
    "alternative_gap": 0.12,
    "models": 40,
    "judged_models": 30,
    "settings": 300,
    "random": 16,
    "random_as_good": 11,
    "share_level": 0.95,
    "share_bound": 0.31,
    "longer": 10.0,
    "gain_level": 0.9,
    "gain_bound": 0.01,
    "gain_reason": "",
    "tail": 30,
    "shape": -0.1,
    "p_value": 0.5,
    "multiplicity": {
        "models": 149,
        "people": 800,
        "ambiguity": 0.54,
        "discrepancy": 0.2,
        "mean": 0.14,
        "min_cell": 5,
        "by_group": {
            "sex": {"f": {"people": 110.0, "ambiguity": 0.65, "mean": 0.18}, "x": None},
        },
    },
    "space": [["Space of gbdt", "eta: 0.02 to 0.5"]],
    "rules": ["balanced", "job"],
}


def test_what_was_found_and_both_bounds_are_said() -> None:
    assert found_sentence(CONTENT) == (
        "alternative to people: number 3 has gap_max.sex 0.08 in place of 0.2, with "
        "balanced_accuracy no worse by more than 0.005, among 30 models judged on all folds"
    )
    held, share, gain, people = bound_sentences(CONTENT)
    assert held.startswith("no alternative is shown to be no worse on unseen rows too")
    shown = {"number": "7", "value": 0.1, "alternative_gap": 0.1, "chance": 0.93, "level": 0.9}
    assert bound_sentences(CONTENT | {"held": shown})[0] == (
        "number 7, with gap_max.sex 0.1, is no worse on unseen rows with a chance of .93, rather "
        "less as it is the best of many"
    )
    named = shown | {"metrics": ["balanced_accuracy"]}
    (_, words) = bound_sentences(CONTENT | {"held": named})[0].split(", is ")
    assert words.startswith("no worse in balanced_accuracy by more than 0.005 on unseen rows with")
    # further limits are what alternatives were looked for within
    within = CONTENT | {"where": ["auc >= 0.9"], "alternative_gap": 0.0}
    assert "by more than 0.005 and auc >= 0.9, among 30 models" in found_sentence(within)
    assert share == (
        "at most 31% of random settings of this space are better on these rows than the best found, "
        "with all that an alternative keeps (95% confidence, by 16 of them)"
    )
    mean = bound_sentences(CONTENT | {"mean_gain_bound": 0.00123})[2]
    assert mean == (
        "one further random setting would gain at most 0.0013 of gap_max.sex on average over the "
        "best found, on these rows (95% confidence, for any distribution)"
    )
    asked = {"mean_gain_bound": 0.00123, "until_gain": {"asked": 0.001, "is_reached": False}}
    assert bound_sentences(CONTENT | asked)[3] == (
        "the mean gain of 0.001 that was asked for was not reached"
    )
    kept = bound_sentences(CONTENT | {"kept": {"models": 20, "drawn": 21, "of": None}})[-1]
    assert kept.startswith("models of 20 different settings that are as good, drawn at random, are")
    one = bound_sentences(CONTENT | {"kept": {"models": 1, "drawn": 2, "of": None}})[-1]
    assert one.startswith("the model of one setting that is as good, drawn at random, is kept: ")
    none = bound_sentences(CONTENT | {"random": 0, "share_bound": 1.0})[1]
    assert none.startswith("how many settings of this space are better is not known: ")
    few = bound_sentences(CONTENT | {"random": 2, "share_bound": 0.996})[1]
    assert few.startswith("2 independent random settings are too few to bound how many settings")
    one = bound_sentences(CONTENT | {"random": 1, "share_bound": 0.996})[1]
    assert one.startswith("1 independent random setting is too few to bound")
    assert gain.startswith(
        "10 times as many random settings would gain at most 0.01 of gap_max.sex"
    )
    nothing = bound_sentences(CONTENT | {"gain_bound": 0.0})[2]
    assert nothing.startswith("none of 10 times as many random settings would be better")
    assert nothing.endswith("what a longer guided search finds is not bounded")
    assert people.startswith("149 settings are as good; at least one of them decides otherwise")


def test_bounds_are_rounded_up() -> None:
    """What is said to be at most so much is not more."""
    content = CONTENT | {"share_bound": 0.1249, "gain_bound": 0.012341}
    _, share, gain, _ = bound_sentences(content)
    assert share.startswith("at most 13% of random settings")
    assert "would gain at most 0.0124 of gap_max.sex" in gain
    smaller = bound_sentences(content | {"share_bound": 0.02343})[1]
    assert smaller.startswith("at most 2.4% of random settings")


def test_what_was_not_sought_is_not_said_to_be_missing() -> None:
    """Values decided, or no metric that is kept follows from decisions."""
    sentences = bound_sentences(CONTENT | {"held_sought": False})
    assert sentences[0].startswith("at most 31% of random settings")


def test_of_more_models_than_are_compared_both_numbers_are_said() -> None:
    counts = CONTENT["multiplicity"] | {"as_good": 4000, "models": 300}
    people = bound_sentences(CONTENT | {"multiplicity": counts})[-1]
    assert people.startswith("4,000 settings are as good, and 300 of them were compared; at least")
    assert "at least one of those decides otherwise about 54% of the people" in people
    one = bound_sentences(CONTENT | {"multiplicity": counts | {"as_good": 1, "models": 1}})[-1]
    assert one == "1 setting is as good; it decides otherwise about 54% of the people"


def test_an_alternative_by_group_is_said_to_be_that() -> None:
    """Its decision depends on the group of a person, and the best of the others is named."""
    best = {"number": "3", "value": 0.08, "label": "gbdt, by sex", "by_group": True, "chance": 0.87}
    other = {"number": "5", "value": 0.15, "label": "logistic"}
    content = CONTENT | {"best": best, "best_with_one_rule": other, "utility_by_decisions": True}
    assert "number 3, gbdt, by sex, has gap_max.sex 0.08 in place of 0.2" in found_sentence(content)
    rule, chance, held = bound_sentences(content)[:3]
    assert rule.startswith("number 3 has thresholds by group, so that its decision about a person")
    assert rule.endswith("number 5, logistic, is the best, with gap_max.sex 0.15")
    assert chance == (
        "on unseen rows number 3 has a better gap_max.sex than the model with a chance of .87, as "
        "if both were independent, and rather less as it is the best of many"
    )
    assert held.startswith("no alternative is shown to be no worse")
    alone = content | {"best_with_one_rule": {"number": "0", "value": 0.2, "label": "the job"}}
    assert bound_sentences(alone)[0].endswith("none has a better gap_max.sex than the model")
    one_rule = content | {"best": best | {"by_group": False, "chance": None}}
    assert bound_sentences(one_rule)[0].startswith("no alternative is shown to be no worse")


def test_utility_that_does_not_follow_from_decisions_is_named() -> None:
    content = CONTENT | {"utility_by_decisions": False, "held_sought": False}
    assert bound_sentences(content)[0].startswith(
        "what an alternative keeps, balanced_accuracy, does not follow from decisions"
    )


def test_without_an_alternative_or_a_bound_that_is_said() -> None:
    content = CONTENT | {
        "alternative_gap": 0.0,
        "gain_bound": None,
        "gain_reason": "too few",
        "multiplicity": None,
        "tail": 0,
        "p_value": None,
    }
    assert "none found with a better gap_max.sex than 0.2" in found_sentence(content)
    sentences = bound_sentences(content)
    assert len(sentences) == 2
    assert sentences[1].endswith("not known: too few")
    captions = [
        block.caption
        for block in build({"alternative": content}).blocks
        if isinstance(block, Table)
    ]
    assert captions == ["The search in numbers", "The space that was searched"]


def test_the_page_says_of_which_model_and_table_it_is() -> None:
    content = CONTENT | {
        "model": {"name": "people", "version": "3", "uri": "models:/people/3"},
        "job": "people",
        "allowed": 0.05,
        "study": "people-1",
        "table": "0" * 64,
        "rows": 1200,
        "folds": 5,
        "distinct": 28,
    }
    tables = [block for block in build({"alternative": content}).blocks if isinstance(block, Table)]
    rows = {row[0]: row[1] for row in tables[0].rows}
    assert rows["The model"] == "people version 3"
    assert rows["Study"] == "people-1"
    assert rows["SHA-256 of the table"] == "0" * 64
    assert rows["Training rows, judged in so many folds"] == "1,200 in 5"
    assert rows["Largest difference that was asked for"] == "0.05: above it"
    assert rows["Of these with different values"] == "28"
    within = build({"alternative": content | {"allowed": 0.2}}).blocks
    assert any("0.2: within it" in str(getattr(block, "rows", "")) for block in within)


def test_a_bound_that_is_all_there_is_is_said_to_be_that() -> None:
    sentences = bound_sentences(CONTENT | {"gain_bound": 0.08, "gain_possible": 0.08})
    assert sentences[2] == (
        "no search can gain more than 0.08 of gap_max.sex: it has no better value"
    )


def test_small_groups_are_not_shown() -> None:
    section = build({"alternative": CONTENT})
    tables = {block.caption: block for block in section.blocks if isinstance(block, Table)}
    people = tables["Decisions that depend on the choice of the model"]
    assert [list(row) for row in people.rows] == [["sex: f", "110", "65%", "18%"]]
    assert any("Not searched:" in str(block) for block in section.blocks)
