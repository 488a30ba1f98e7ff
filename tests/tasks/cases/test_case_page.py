"""Titles and single sections of a case file."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.cases.case_page import _alternative_blocks, _title

SEARCH: dict[str, Any] = {
    "when": "2026-11-20T08:00:00+00:00",
    "models": 120,
    "metric": "gap_max.sex",
    "alternative_gap": 0.0123,
    "multiplicity": {"models": 14, "people": 4000, "ambiguity": 0.081, "discrepancy": 0.032},
}


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
    assert list(_alternative_blocks({})) == list(_alternative_blocks({"alternatives": None})) == []
    text = " ".join(map(str, _alternative_blocks({"alternatives": SEARCH})))
    assert "on 2026-11-20 judged 120 models" in text
    assert "gap_max.sex that is better by 0.0123" in text
    assert "14 settings are as good. At least one of them decides otherwise about" in text
    assert "8.1% of 4,000 people" in text
    groups = {"sex": {"F": {"people": 1200.0, "ambiguity": 0.12, "mean": 0.03}, "X": None}}
    counts = {**SEARCH["multiplicity"], "by_group": groups}
    shown = list(_alternative_blocks({"alternatives": {**SEARCH, "multiplicity": counts}}))
    assert [list(row) for row in shown[-1].rows] == [["sex: F", "1,200", "12.0%"]]  # type: ignore[union-attr]
    assert "is not known: the search keeps no person." in text
    asked = {"models": 20, "otherwise": 0, "low": 0.0, "high": 0.1684, "level": 0.95}
    for otherwise, words in ((0, "all of 20 models decide the same"), (3, "3 of 20 models decide")):
        person = {**asked, "otherwise": otherwise}
        text = " ".join(
            map(str, _alternative_blocks({"alternatives": {**SEARCH, "person": person}}))
        )
        assert words in text
        assert "between 0.0% and 16.8% would decide otherwise" in text
    person = {"models": 0, "reason": "its search kept no such model"}
    text = " ".join(map(str, _alternative_blocks({"alternatives": {**SEARCH, "person": person}})))
    assert "is not known: its search kept no such model." in text
    earlier = {**SEARCH, "multiplicity": None}
    assert len(list(_alternative_blocks({"alternatives": earlier}))) == 1
