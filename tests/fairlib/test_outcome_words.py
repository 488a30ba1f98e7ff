"""Words of favourable and adverse outcomes; tests/data_contracts/test_favourable.py has more."""

from __future__ import annotations

import pytest

from evenhand.fairlib.outcome_words import favourable_by_words, outcome_in_words, tone_of


@pytest.mark.parametrize(
    ("name", "texts", "place"),
    [
        ("", ["denied", "approved"], 1),
        ("", ["approved", "denied"], 0),
        ("denied", ["1", "0"], 1),
        ("Ablehnung", ["ja", "nein"], 1),
        ("decision", ["A", "abgelehnt"], 0),
        ("decision", ["A", "B"], None),
        ("denied", ["A", "B"], None),
        ("hired", ["yes"], None),
        ("", ["good", "suitable"], None),
    ],
)
def test_two_values(name: str, texts: list[str], place: int | None) -> None:
    outcome = favourable_by_words(name, texts)
    assert (None if outcome is None else outcome.place) == place


@pytest.mark.parametrize(
    ("text", "tone"),
    [
        ("stroke", -1),
        ("unapproved", -1),
        ("hospitalized", -1),
        ("Kreditausfall", -1),
        ("denial_overturned", 1),
        ("loanDenied", -1),
        ("not denied", 1),
        ("benefit denied", -1),
        ("north", 0),
        ("bad", -1),
    ],
)
def test_tone(text: str, tone: int) -> None:
    assert tone_of(text) == tone


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("credit_risk", "good", "credit_risk = good"),
        ("hired", 1, "hired = 1"),
        ("hired", True, "hired = true"),
        ("hired", "hired", "hired"),
        ("Loan_Granted", "loan granted", "loan granted"),
        ("loan_granted", "LOAN_GRANTED", "LOAN_GRANTED"),
        ("income", ">50K", "income >50K"),
        ("income", "at least 50,000", "income at least 50,000"),
        ("job", "belower", "job = belower"),
    ],
)
def test_an_outcome_is_named_once(column: str, value: object, text: str) -> None:
    assert outcome_in_words(column, value) == text
