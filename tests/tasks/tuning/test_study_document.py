"""The document of a search: what follows from its trials, in numbers and in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evenhand.fairlib.tuning.study import Trial
from evenhand.tasks.pages.fronts.tune_front import _badge
from evenhand.tasks.tuning.study_document import (
    _notes_on_evidence,
    _notes_on_failed_rules,
    compromise,
    exit_code_of,
    notes_of,
    study_document,
)


def test_what_follows_from_the_standings_to_the_exit_code() -> None:
    kept = {"value": 0.1, "kept_by": "value"}
    missed = {"value": 0.3, "kept_by": None}
    unknown = {"value": None, "kept_by": None}
    assert exit_code_of({"within_limits": True, "standings": [kept]}) == 0
    assert exit_code_of({"within_limits": False, "standings": [kept, missed]}) == 1
    assert exit_code_of({"within_limits": False, "standings": [kept]}) == 3
    assert exit_code_of({"within_limits": False, "standings": [unknown]}) == 3


IDENTITY = {
    **dict.fromkeys(("job", "methods", "decisions", "halving")),
    "level": 0.95,
}


def test_the_compromise_has_its_value_and_its_intervals_end() -> None:
    ends = {"value": 0.1, "low": 0.05, "high": 0.45, "below": 0.0, "above": 0.5}
    document = document_of_limit(ends, 0.2, 0.9)
    line = compromise(document, Path("people.tuned.yaml"))
    assert line == (
        "the only trial is not within the limits: the best compromise, number 3, is in "
        "people.tuned.yaml; "
        "gap_max.sex <= 0.2: kept by the value, not shown to hold (value 0.1, "
        "P(gap_max.sex <= 0.2) = .69 on unseen rows); no trial reaches --confidence 0.9."
    )
    missed = document_of_limit(ends, 0.05, None)
    assert (
        "gap_max.sex <= 0.05: missed by 0.05 (value 0.1, P(gap_max.sex <= 0.05) = .40 on unseen "
        "rows)." in compromise(missed, Path("people.tuned.yaml"))
    )


def test_a_limit_that_may_be_missed_is_offered_as_a_gate() -> None:
    """Of an answer within the limits: a compromise has them as gates."""
    ends = {"value": 0.1, "low": 0.05, "high": 0.45, "below": 0.0, "above": 0.5}
    gate = (
        "only a compromise has its limits as gates: write `gap_max.sex: {max: 0.11}` under gates "
        "of the tuned job, and `evenhand run` publishes no model that misses it on the test rows"
    )
    by_value = document_of_limit(ends, 0.11, None)
    assert by_value["within_limits"]
    assert notes_of(by_value)[-1] == gate
    shown = document_of_limit(ends, 0.6, None)
    assert not any("as gates" in note for note in notes_of(shown))
    shown["test"] = {"gap_max.sex": {"value": 0.7}}
    assert notes_of(shown)[-1] == gate.replace("0.11", "0.6")
    nearest = document_of_limit(ends, 0.05, None)
    assert not nearest["within_limits"]
    assert not any("as gates" in note for note in notes_of(nearest))


def test_what_follows_from_a_model_is_compared_on_its_rows() -> None:
    """The test rows change the model's value too, so they neither keep nor miss such a limit."""
    ends = {"value": 0.1, "low": 0.05, "high": 0.45, "below": 0.0, "above": 0.5}
    document = document_of_limit(ends, 0.11, 0.5, no_worse=1)
    (standing,) = document["standings"]
    assert (standing["kept_by"], standing["chance"]) == ("model", None)
    assert (
        standing["text"] == "gap_max.sex <= 0.11: kept, on the same rows as the model (value 0.1)"
    )
    document["test"] = {"gap_max.sex": {"value": 0.7}}
    assert not [note for note in notes_of(document) if "test rows" in note]
    own = document_of_limit(ends, 0.11, 0.5) | {"test": document["test"]}
    assert [
        note for note in notes_of(own) if note.startswith("on the test rows gap_max.sex is 0.7")
    ]
    assert _badge(document)[2] == "A model is within the limits"
    assert _badge(own)[2] == "Within the limits on validation rows, not on the test rows"
    missed = document_of_limit(ends, 0.05, 0.5, no_worse=1)
    assert missed["standings"][0]["kept_by"] is None


def document_of_limit(
    ends: dict[str, float], value: float, confidence: float | None, **identity: int
) -> dict[str, Any]:
    """The document of a study with one trial and one limit on its gap."""
    metrics = {"gap_max.sex": ends, "auc": {"value": 0.7}}
    trial = Trial(3, "search", "judged", metrics=metrics)
    limit = {"metric": "gap_max.sex", "sign": "<=", "value": value}
    aim = {"objectives": ["auc"], "limits": [limit], "confidence": confidence}
    return study_document({**IDENTITY, "aim": aim, **identity}, None, "a-study", [trial])


def test_the_page_counts_misses_by_the_confidence_reached() -> None:
    """A study of an older version has a bound in place of the confidence."""
    ends = {"value": 0.1, "low": 0.05, "high": 0.15, "below": 0.0, "above": 0.3}
    trial = Trial(0, "search", "judged", metrics={"gap_max.sex": ends, "auc": {"value": 0.7}})
    limit = {"metric": "gap_max.sex", "sign": "<=", "value": 0.2}
    aim = {"objectives": ["auc"], "limits": [limit], "bound": "auto"}
    document = study_document({**IDENTITY, "aim": aim}, None, "a-study", [trial])
    # the chance is .84: the normal distribution at 0.1 / (0.2 / 1.96)
    assert (document["confidence"], document["confidence_asked"]) == (0.8, None)
    assert document["standings"][0]["chance"] == pytest.approx(0.8365, abs=1e-4)
    assert document["standings"][0]["kept_by"] == "value"
    assert (document["winner"], document["trials"][0]["miss"]) == ("0", 0.0)


def test_a_rule_that_no_model_can_have_is_explained() -> None:
    fewer = "1 of 4 groups have too few rows."
    trials = [
        {"decision": "job", "error": None},
        {"decision": "balanced", "error": "too slow"},
        {"decision": "balanced", "error": None},
        {"decision": "equalized_odds by group", "error": fewer},
    ]
    assert _notes_on_failed_rules({"trials": trials}) == [
        "no model could be judged under the rule equalized odds by group: "
        "1 of 4 groups have too few rows"
    ]


def judged(model: int, kind: str, state: str = "judged", **values: float | None) -> Trial:
    """A trial with these values of its metrics, for a study that makes `auc` large."""
    metrics = {name: {"value": value} for name, value in values.items()}
    return Trial(model, kind, state, metrics=metrics)  # type: ignore[arg-type]


def notes_on(trials: list[Trial], prefer: str | None = None) -> list[str]:
    aim = {"objectives": ["auc"], "limits": [], "confidence": None}
    return notes_of(study_document({**IDENTITY, "aim": aim}, prefer, "a-study", trials))


def test_no_mitigation_is_needed_only_where_one_was_compared() -> None:
    needless = "no mitigation is needed: the control without it is the best within the limits"
    majority = judged(0, "majority", auc=0.5)
    plain = judged(1, "plain", auc=0.7)
    partial = judged(2, "search", "partial", auc=0.6)
    assert needless not in notes_on([majority, plain, partial])
    assert needless in notes_on([majority, plain, judged(2, "search", auc=0.6)])


def test_trials_without_the_preferred_number_are_counted() -> None:
    """They were judged before it was asked for, and nothing is said of what wins against them."""
    other = "consistency.sex"
    measured = judged(1, "blind", **{"auc": 0.6, other: 1.0})
    before = [judged(2, "search", auc=0.7), judged(3, "search", auc=0.8)]
    (note,) = notes_on([measured, *before], other)
    assert note.startswith("2 trials have no number for consistency.sex, which was not asked for")
    assert "1 trial has no number" in notes_on([measured, before[0]], other)[0]
    compared = [measured, judged(2, "search", **{"auc": 0.7, other: 0.9})]
    # what was measured and has no number was asked for, and a constant model cannot win
    compared += [judged(3, "search", **{"auc": 0.7, other: None}), judged(0, "majority", auc=0.5)]
    (note,) = notes_on(compared, other)
    assert note.startswith("leaving out the sensitive columns is enough")


def test_a_method_that_was_not_tried_is_named() -> None:
    aim = {"objectives": ["auc"], "limits": [], "confidence": None}
    identity = {**IDENTITY, "methods": ["gbdt", "budro"], "aim": aim}
    trials = [judged(0, "plain", auc=0.7)]
    (note,) = notes_of(study_document(identity, None, "a-study", trials))
    assert note.startswith("no model of budro was tried: the search ended before, or had no time")
    trials.append(Trial(1, "default", "failed", method="budro", error="too slow"))
    assert not any(
        "was tried" in note for note in notes_of(study_document(identity, None, "a", trials))
    )


def test_groups_that_are_not_compared_are_named() -> None:
    """Of the limit on validation rows, or else on the test rows, which are fewer."""
    ends = {"value": 0.1, "low": 0.05, "high": 0.15, "below": 0.0, "above": 0.3}
    document = document_of_limit(ends | {"left_out": "W (284 rows, 0 of one label)"}, 0.2, None)  # type: ignore[dict-item]
    note = "gap_max.sex does not compare W (284 rows, 0 of one label)"
    assert notes_of(document)[0] == note
    on_test = {"gap_max.sex": {"value": 0.1, "left_out": "W (3 rows)"}, "auc": {"value": 0.7}}
    assert notes_of(document | {"test": on_test})[0] == note
    compared = document_of_limit(ends, 0.2, None) | {"test": on_test}
    assert notes_of(compared)[0] == "on the test rows gap_max.sex does not compare W (3 rows)"


def test_a_limit_without_a_number_on_test_rows_is_named() -> None:
    ends = {"value": 0.1, "low": 0.05, "high": 0.15, "below": 0.0, "above": 0.3}
    document = document_of_limit(ends, 0.2, None)
    measured = {"gap_max.sex": {"value": None}, "auc": {"value": 0.7}}
    assert (
        "whether the test rows keep gap_max.sex <= 0.2 is not known: too few people are "
        "comparable there" in notes_of(document | {"test": measured})
    )


def test_numbers_of_limits_are_written_as_they_were_asked() -> None:
    ends = {"value": 0.1, "low": 0.05, "high": 0.45, "below": 0.0, "above": 0.5}
    notes = notes_of(document_of_limit(ends, 0.1234567, None))
    assert any("`gap_max.sex: {max: 0.1234567}`" in note for note in notes)


def test_of_an_objective_without_ends_no_loss_is_named() -> None:
    document = {
        "limits": ["gap_max.sex <= 0.1"],
        "confidence_asked": None,
        "confidence": 0.5,
        "standings": [{"limit": "gap_max.sex <= 0.1", "chance": 0.6}],
        "objectives": ["log_loss"],
    }
    (note,) = _notes_on_evidence(document)
    assert "a chance of .90, which more rows would allow: of the winner" in note


def test_a_note_names_the_metric_whose_loss_was_measured() -> None:
    """It is the first objective, not the metric that chooses among the winners."""
    standing = {"limit": "gap_max.sex <= 0.1", "chance": 0.6}
    document = {
        "limits": ["gap_max.sex <= 0.1"],
        "confidence_asked": None,
        "confidence": 0.5,
        "standings": [standing],
        "objectives": ["balanced_accuracy"],
        "prefer": "auc",
    }
    (note,) = _notes_on_evidence(document)
    assert "loses at most 0.05 of balanced_accuracy" in note
