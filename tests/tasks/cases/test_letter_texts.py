"""The letter's sentences in each language."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from evenhand.fairlib.decision_words import decision_words
from evenhand.tasks.cases.case_page import letter
from evenhand.tasks.cases.letter_texts import LANGUAGES, letter_texts


def adverse_case(language: str) -> dict[str, Any]:
    """A case with one reason of a sensitive column, and one change."""
    change = {"name": "years", "unit": "Jahre", "from_shown": "2", "to_shown": "5"}
    reason = {"text": "Zu <jung>", "value": "19", "column": "age", "is_sensitive": True}
    return {
        "case": "0123456789abcdef",
        "language": language,
        "made": {"when": "2026-11-28T10:00:00+00:00"},
        "decision": {"shown": "nein", "favourable": False, "favourable_outcome": "ja"},
        "reasons": {"principal": [reason]},
        "recourse": {"changes": [change]},
    }


def test_every_language_has_the_same_places_for_values() -> None:
    for texts in LANGUAGES.values():
        for item in fields(texts):
            places = re.findall(r"{\w+}", getattr(texts, item.name))
            assert places == re.findall(r"{\w+}", getattr(LANGUAGES["en"], item.name)), item.name
            assert getattr(texts, item.name).strip()


@pytest.mark.parametrize("language", ["de", "de-AT", "DE_ch"])
def test_a_german_letter_has_no_english_sentence(language: str) -> None:
    page = letter(adverse_case(language))
    assert '<html lang="de">' in page
    assert "years: 5 Jahre statt 2 Jahre" in page
    assert "28.11.2026" in page
    assert "Zu &lt;jung&gt; (Ihr Wert: 19)" in page
    assert "age ist ein sensibles Merkmal" in page
    assert "die Nummer 0123456789abcdef" in page
    for text in ("Dear", "decision", "You can", "instead of", "{"):
        body = page.partition("</style>")[2]
        assert text not in body, text


def test_an_unknown_language_has_the_english_letter() -> None:
    page = letter(adverse_case("fr"))
    assert '<html lang="en">' in page
    assert "years: 5 Jahre instead of 2 Jahre" in page
    assert letter_texts("fr") is letter_texts("en")


@pytest.mark.parametrize(
    ("language", "of_reason", "is_named"),
    [
        ("de", "de", False),
        ("de-AT", "de", False),
        ("de", "en", True),
        ("de", "", True),  # the column's name
        ("en", "", False),
        ("fr", "fr", True),  # the letter is in English
        ("fr", "en", False),
    ],
)
def test_reasons_of_another_language_are_named(
    language: str, of_reason: str, is_named: bool
) -> None:
    case = adverse_case(language)
    case["reasons"]["principal"][0]["language"] = of_reason
    note = letter(case).partition('class="note"')[2].partition("</p>")[0]
    assert ("Zu &lt;jung&gt;" in note) == is_named


@pytest.mark.parametrize(
    ("label", "values", "language", "heading", "sentences"),
    [
        ("was_hired", "01", "en", "Our decision: not hired", ["You were not hired."]),
        ("was_hired", "01", "de", "Unsere Entscheidung: nicht eingestellt", None),
        ("abgelehnt", ["ja", "nein"], "de", None, ["Ihr Antrag wurde abgelehnt."]),
        ("abgelehnt", ["ja", "nein"], "en", None, ["Your application was rejected."]),
        ("loan_approved", "01", "en", None, ["Your loan was not approved."]),
        ("loan_approved", "01", "de", "Unsere Entscheidung", None),
        ("Kredit_bewilligt", "01", "de", None, ["Kredit: nicht bewilligt."]),
        ("decision", ["denied", "approved"], "en", None, ["Your application was denied."]),
        (
            "credit",
            ["bad", "good"],
            "en",
            "Our decision",
            ["The decision is not in your favour."],
        ),
        (
            "tier",
            ["basic", "full"],
            "en",
            None,
            ["The decision is “basic”.", "You did not get “full”."],
        ),
        ("gets_benefit", "01", "en", None, ["The decision is “gets benefit: no”."]),
        ("target", "01", "en", "Our decision", ["The decision is not in your favour."]),
        ("grade", ["A2", "A1"], "de", None, ["Die Entscheidung ist nicht zu Ihren Gunsten."]),
        ("risk", ["high", "A1"], "en", None, ["The decision is “high”."]),
    ],
)
def test_a_letter_says_a_decision_once_and_no_code(
    label: str, values: Any, language: str, heading: str | None, sentences: list[str] | None
) -> None:
    adverse, favourable = (decision_words(label, value) for value in values)
    decision = {
        "label": label,
        "shown": adverse,
        "favourable": False,
        "favourable_outcome": favourable,
    }
    texts = letter_texts(language)
    if heading is not None:
        assert texts.heading_of(decision) == heading
    if sentences is not None:
        assert texts.sentences_of(decision) == sentences
