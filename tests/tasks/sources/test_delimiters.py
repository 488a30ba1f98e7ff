"""Tests of finding the delimiter of a CSV file."""

from __future__ import annotations

import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.delimiters import delimiter_of, find_delimiter, first_row


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb\n1,5\t2;5\n", "\t"),
        ("a|b|c\n1|2|3\n", "|"),
        # the header has as many commas as semicolons, and the rows say which of them divide
        ("income, gross;age, years\n1.234;30\n2.000;40\n", ";"),
        ('"a;b",c\n"1;2",3\n', ","),
        ("a;b;c\n1;2\n", ";"),
        # one column of decimal commas
        ("alone\n1,5\n2,5\n", ";"),
        ("alone\n1\n2\n", ","),
        ("\ufeffa;b\n1;2\n", ";"),
    ],
)
def test_the_delimiter_divides_the_rows_as_the_header(text: str, delimiter: str) -> None:
    assert delimiter_of(text, "people.csv") == delimiter


def test_a_row_that_is_cut_off_does_not_count() -> None:
    text = "a, b;c\n" + "1;2\n" * 20000
    assert find_delimiter(text.encode(), "people.csv") == ";"


def test_a_header_over_several_lines_is_one_row() -> None:
    assert first_row('\n"a\nb";c\n1;2\n', ";") == (["a\nb", "c"], 1, False)
    assert first_row(";;\na;b;c\n", ";") == (["a", "b", "c"], 1, True)


def test_a_file_of_blank_lines_is_refused() -> None:
    with pytest.raises(InputError, match="people.csv is empty"):
        find_delimiter(b"\n \n", "people.csv")
