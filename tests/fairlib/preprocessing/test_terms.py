"""Replacement of terms in sentences, by hand: case, plural, groups, word boundaries,
hostile text.
"""

from __future__ import annotations

import pytest

from evenhand.fairlib.preprocessing.terms import Terms

IDENTITY = Terms("comment", (("gay", "african american", "deaf", "sikh", "spanish"),))


@pytest.mark.parametrize(
    ("sentence", "version", "expected"),
    [
        ("some gay people", 2, "some deaf people"),
        ("Some Gays, and a GAY.", 3, "Some Sikhs, and a SIKH."),
        ("two gays", 4, "two spanishes"),
        ("An African American man", 0, "An Gay man"),  # no "african" is left behind
        ("gaya and deafened", 3, "gaya and deafened"),
        ("gay-friendly, deaf_1", 3, "sikh-friendly, deaf_1"),
        ("she is gay\U0001f600", 2, "she is deaf\U0001f600"),
        ("שלום gay مرحبا", 3, "שלום sikh مرحبا"),
        ("\u4f60\u597d", 1, "\u4f60\u597d"),
        ("", 1, ""),
    ],
)
def test_terms_keep_case_and_plural_at_word_boundaries(
    sentence: str, version: int, expected: str
) -> None:
    assert IDENTITY.replaced(sentence, version) == expected


@pytest.mark.parametrize(
    ("sentence", "version", "expected"),
    [
        ("女性が好きです", 1, "男性が好きです"),  # no space, and the particle is a letter
        ("彼はwomanです", 1, "彼は男性です"),
        ("ผู้หญิงคนนั้น", 1, "男性คนนั้น"),
        ("womanly", 1, "womanly"),
    ],
)
def test_scripts_without_spaces_have_no_word_boundaries(
    sentence: str, version: int, expected: str
) -> None:
    terms = Terms("c", (("女性", "男性"), ("woman", "男性1"), ("ผู้หญิง", "男性2")))
    assert terms.replaced(sentence, version).replace("1", "").replace("2", "") == expected
    assert terms.versions_of([sentence]).tolist() == [-1 if sentence == expected else 0]


def test_a_version_has_its_own_term_in_every_group() -> None:
    pronouns = Terms.read(
        "bio", "# he and she\nhe, she\nhis, her\nhim, her  # the first group wins\n"
    )
    assert pronouns.names == ["he/his/him", "she/her/her"]
    assert (
        pronouns.replaced("He sold his car, and she saw him.", 1)
        == "She sold her car, and she saw her."
    )
    assert pronouns.replaced("Her car", 0) == "His car"
    assert pronouns.versions_of(["he", "Her car", "nobody", None, ""]).tolist() == [
        0,
        1,
        -1,
        -1,
        -1,
    ]
    assert list(pronouns.copies(["he", "his"])) == [["he", "his"], ["she", "her"]]


def test_a_list_with_a_term_a_line_is_one_group() -> None:
    assert Terms.read("c", "\ufeffgay\n\n deaf \n").groups == (("gay", "deaf"),)
    assert Terms.read("c", "middle aged\nold").versions_of(["MIDDLE AGED men"]).tolist() == [0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gay\n", "one entry"),
        ("", "one entry"),
        ("he, she\nhis\n", "one entry"),
        ("he, she\na, b, c\n", "different sizes"),
        ("gay\nGay\n", "repeated term"),
        ("he, \nshe, her\n", "empty or a repeated"),
    ],
)
def test_a_list_that_exchanges_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Terms.read("c", text)


def test_a_very_long_sentence_passes() -> None:
    long = "word " * 20_000 + "gay"
    assert IDENTITY.replaced(long, 2).endswith(" deaf")
