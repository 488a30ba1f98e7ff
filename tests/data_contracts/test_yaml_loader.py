"""YAML that would cost much, or that means something else than it shows, is refused."""

from __future__ import annotations

import pytest

from evenhand.data_contracts.yaml_loader import MAX_CHARACTERS, StrictError, load_strictly


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [" + "1, " * (MAX_CHARACTERS // 3) + "1]", "more than 4,000,000 characters"),
        ("b: 1\na: " + "9" * 301, "line 2 has a number of more than 300 digits"),
        ("a: &a [x, *a]", "an alias contains itself"),
        ("a: 1\na: 2", "key 'a' is given twice"),
        ('a: "\\ud800"', "half of a character"),
    ],
)
def test_a_document_is_refused(text: str, words: str) -> None:
    with pytest.raises(StrictError, match=words):
        load_strictly(text)


def test_long_texts_and_numbers_of_300_digits_are_read() -> None:
    assert load_strictly("a: " + "9" * 300) == {"a": int("9" * 300)}
    assert load_strictly("a: '" + "9" * 1000 + "'") == {"a": "9" * 1000}
