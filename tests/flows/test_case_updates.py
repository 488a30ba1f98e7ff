"""Two people at one case at once, and the last day of a case in other time zones."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evenhand.flows import case as cases
from evenhand.flows.case import expired, last_day_of, review, today
from evenhand.tasks.cases.case_store import CaseStore, new_case
from evenhand.tasks.errors import InputError


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CaseStore:
    """A store with one case."""

    def pages(content: Mapping[str, Any], **_: bool) -> dict[str, str]:
        return {"case.html": f"<p>{len(content['reviews'])}</p>"}

    monkeypatch.setattr(cases, "pages", pages)
    store = CaseStore(tmp_path / "cases")
    content: dict[str, Any] = {"case": new_case(), "keep_until": "2028-02-29"}
    content |= {"model": {"uri": "models:/people/1"}, "reviews": [], "replays": []}
    with store.writing():
        store.add(content, pages(content))
    return store


def test_a_review_at_the_same_moment_is_kept(
    store: CaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay takes seconds: a review that is recorded meanwhile must not be written over."""
    (case,) = store.log().last_of()
    update = cases._update
    others = ["a test was graded wrongly"]

    def update_after_others(*arguments: Any) -> Any:
        if others:
            review(store, case, "changed", others.pop())
        return update(*arguments)

    monkeypatch.setattr(cases, "_update", update_after_others)
    review(store, case, "upheld", "nothing new")
    outcomes = [entry["outcome"] for entry in store.read(case)["reviews"]]
    assert outcomes == ["changed", "upheld"]
    assert store.page(case, "case.html") == "<p>2</p>"
    assert store.faults() == []


def test_the_last_day_is_that_of_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # 14 hours ahead
    time.tzset()
    try:
        assert today() == datetime.datetime.now(datetime.UTC).date()
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_a_case_is_kept_for_its_last_day(store: CaseStore) -> None:
    last_day = datetime.date(2028, 2, 29)
    assert expired(store, last_day) == []
    assert expired(store, last_day + datetime.timedelta(days=1)) == list(store.log().last_of())


@pytest.mark.parametrize("days", [10**7, 10**11, 10**30])
def test_a_day_that_no_calendar_has_is_refused(days: int) -> None:
    with pytest.raises(InputError, match="--keep-days"):
        last_day_of(days)


def test_a_reason_is_no_book(store: CaseStore) -> None:
    (case,) = store.log().last_of()
    with pytest.raises(InputError, match="2,001 characters"):
        review(store, case, "upheld", "x" * 2001)
