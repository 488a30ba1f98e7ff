"""Names of decisions, and which of them say nothing or only deny another."""

from __future__ import annotations

import pytest

from evenhand.fairlib.decision_words import decision_words, is_code, is_negation, said_decision


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("was_hired", "1", "hired"),
        ("was_hired", "0", "not hired"),
        ("not_hired", "1", "not hired"),
        ("not_hired", "0", "hired"),
        ("loan_approved", "no", "loan not approved"),
        ("loanDenied", "true", "loan denied"),
        ("fully_paid", "0", "not fully paid"),
        ("called_back", "0", "not called back"),
        ("charged_off", "0", "not charged off"),
        ("abgelehnt", "ja", "abgelehnt"),
        ("abgelehnt", "nein", "nicht abgelehnt"),
        ("wurde_eingestellt", "0", "nicht eingestellt"),
        ("Kredit_bewilligt", "nein", "Kredit nicht bewilligt"),
        ("need", "1", "need: yes"),
        ("consent", "0", "consent: no"),
        ("was", "1", "was: yes"),
        ("credit", "bad", "bad"),
    ],
)
def test_a_decision_is_named_in_words(column: str, value: str, words: str) -> None:
    assert decision_words(column, value) == words


@pytest.mark.parametrize(
    ("column", "shown", "code"),
    [
        ("y", "1", True),
        ("grade", "A2", True),
        ("grade", "B", True),
        ("y", "y: no", True),
        ("Ziel", "Ziel: yes", True),
        ("", "nein", True),
        ("risk", "low", False),
        ("gets_benefit", "gets benefit: no", False),
    ],
)
def test_a_code_says_nothing_to_a_person(column: str, shown: str, code: bool) -> None:
    assert is_code(column, shown) == code
    assert (said_decision(column, shown, "en").shown == "") == code


@pytest.mark.parametrize(
    ("shown", "other", "negation"),
    [
        ("not hired", "hired", True),
        ("hired", "not hired", True),
        ("loan not approved", "loan approved", True),
        ("nicht bewilligt", "bewilligt", True),
        ("benefit: no", "benefit: yes", True),
        ("bad", "good", False),
        ("hired", "hired", False),
    ],
)
def test_a_denied_decision_is_recognised(shown: str, other: str, negation: bool) -> None:
    assert is_negation(shown, other) == negation


def test_other_words_keep_their_own_language() -> None:
    assert said_decision("hired", "not hired", "de").shown == "nicht eingestellt"
    assert said_decision("pass", "pass: no", "de").shown == "pass: nein"
    # a noun of another language is no word of the letter
    assert said_decision("loan", "loan not approved", "de").shown == ""
