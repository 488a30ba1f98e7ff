"""Titles and single sections of a case file."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.tasks.cases.case_page import _alternative_blocks, _title

SEARCH: dict[str, Any] = {
    "when": "2026-11-20T08:00:00+00:00",
    "models": 120,
    "metric": "gap_max.sex",
    "alternative_gap": 0.0123,
    "multiplicity": {"models": 14, "people": 4000, "ambiguity": 0.081, "discrepancy": 0.032},
}
ADVERSE = {"favourable": False, "favourable_outcome": "hired"}


def test_a_title_does_not_repeat_the_label() -> None:
    titles = [
        ("hired", "hired", "hired"),
        ("hired", "not hired", "not hired"),
        ("credit", "bad", "credit: bad"),
        ("loan_paid", "loan paid", "loan paid"),
        ("loan_paid", "loan not paid", "loan not paid"),
        ("was_hired", "hired", "hired"),
        ("target", "target: no", "target: no"),
    ]
    for label, shown, title in titles:
        assert _title({"label": label, "shown": shown}) == title


def test_a_recorded_search_for_alternatives_is_shown() -> None:
    assert (
        list(_alternative_blocks({}))
        == list(_alternative_blocks({"decision": ADVERSE, "alternatives": None}))
        == []
    )
    text = " ".join(map(str, _alternative_blocks({"decision": ADVERSE, "alternatives": SEARCH})))
    assert (
        "On 2026-11-20 a search for alternatives to this version with a better gap_max.sex judged "
        "120 models: the best is better there by 0.0123." in text
    )
    assert "14 settings are as good; at least one of them decides otherwise about" in text
    assert "The table that it searched has 4,000 people." in text
    by_group = {**SEARCH, "by_group": True, "value": 0.02, "best_with_one_rule": 0.018}
    (first, *_) = _alternative_blocks({"decision": ADVERSE, "alternatives": by_group})
    assert str(first).endswith("by 0.0123, with thresholds by group (without them by 0.002).")
    groups = {"sex": {"F": {"people": 1200.0, "ambiguity": 0.12, "mean": 0.03}, "X": None}}
    counts = {**SEARCH["multiplicity"], "by_group": groups}
    shown = list(
        _alternative_blocks(
            {"decision": ADVERSE, "alternatives": {**SEARCH, "multiplicity": counts}}
        )
    )
    assert [list(row) for row in shown[-2].rows] == [["sex: F", "1,200", "12.0%"]]  # type: ignore[union-attr]
    assert "about this person is not known: its search kept no such model." in text
    kept = {**SEARCH, "no_worse": ["balanced_accuracy by 0.3"], "alternative_gap": 0.0}
    text = " ".join(map(str, _alternative_blocks({"decision": ADVERSE, "alternatives": kept})))
    assert "judged 120 models: none is better there." in text
    assert (
        "As good means balanced_accuracy no worse by more than 0.3, on the training rows." in text
    )
    earlier = {**SEARCH, "multiplicity": None}
    assert len(list(_alternative_blocks({"decision": ADVERSE, "alternatives": earlier}))) == 1


ASKED: dict[str, Any] = {
    "models": 20,
    "otherwise": 0,
    "drawn": 20,
    "of": None,
    "low": 0.0,
    "high": 0.1684,
    "level": 0.95,
}
OF_ALL = "between 0.0% and 16.9% of all settings that are as good decide otherwise, with a confidence of 95.0%."
ABOUT_A_PERSON = {
    "none": (ASKED, ["all 20 equally good models that were asked decide the same", OF_ALL]),
    "some": (
        ASKED | {"otherwise": 3},
        ["3 of 20 equally good models decide otherwise, for “hired”.", OF_ALL],
    ),
    "one of them": (ASKED | {"otherwise": 1}, ["1 of 20 equally good models decides", OF_ALL]),
    "one": (
        ASKED | {"models": 1, "drawn": 1},
        ["the one equally good model", "drew 1 setting at random"],
    ),
    "not all asked": (
        ASKED | {"models": 8},
        ["What the other 12 decide is not known", OF_ALL],
    ),
    "all there are": (ASKED | {"of": 20}, ["found 20 different settings as good as the model."]),
    "no model": ({"models": 0, "reason": "they are lost"}, ["is not known: they are lost."]),
}


@pytest.mark.parametrize("name", ABOUT_A_PERSON)
def test_what_equally_good_models_decide_is_said(name: str) -> None:
    person, words = ABOUT_A_PERSON[name]
    # also where the decisions of the search were lost, so that there is no multiplicity
    for counts in (SEARCH["multiplicity"], None):
        search = {**SEARCH, "multiplicity": counts, "person": person}
        text = " ".join(
            map(str, _alternative_blocks({"decision": ADVERSE, "alternatives": search}))
        )
        for word in words:
            assert word in text
        assert ("So between" in text) == (OF_ALL in words or name == "one")
