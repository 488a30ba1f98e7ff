"""Numbers, times, lists, long names and links as pages show them."""

from __future__ import annotations

import pytest

from evenhand.tasks.pages import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not available"),
        (0, "0.000"),
        (1, "1.000"),
        (0.12345, "0.123"),
        (-0.5, "\u22120.500"),
        (0.00713, "0.00713"),
        (0.0000123, "1.23e-05"),
        (1234.5, "1,234"),
        (3.2e12, "3.2e+12"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert formats.number(value) == text


def test_signs_and_counts() -> None:
    signs = [formats.signed(v) for v in (0.5, -0.5, 0.0, None)]
    assert signs == ["+0.500", "\u22120.500", "0.000", "not available"]
    assert [formats.plural(n, "gate") for n in (0, 1, 2000)] == ["0 gates", "1 gate", "2,000 gates"]
    assert formats.shortlist(["a", "b", "c", "d"], most=2) == "a, b and 2 more"


def test_times_and_lists() -> None:
    assert formats.moment("2026-11-20T19:42:10+00:00") == "20 November 2026, 19:42 UTC"
    assert formats.moment("2026-01-02T00:30:00+02:00") == "1 January 2026, 22:30 UTC"
    assert formats.moment("2026-01-02T00:30:00") == "2 January 2026, 00:30"
    assert formats.moment("soon") == "soon"
    times = [formats.seconds(s) for s in (0, 0.04, 59.94, 119.4, 119.6, 3601, 7300)]
    assert times == [
        "0.00 s",
        "0.04 s",
        "59.9 s",
        "119.4 s",
        "2 min 00 s",
        "60 min 01 s",
        "2 h 01 min",
    ]
    assert [formats.join(items) for items in (["a"], ["a", "b", "c"], [])] == [
        "a",
        "a, b and c",
        "",
    ]
    assert formats.flatten({"a": {"b": 1, "c": [1, 0.5]}, "d": None, "e": True, "f": {}}) == [
        ("a.b", "1"),
        ("a.c", "1, 0.5"),
        ("d", "none"),
        ("e", "yes"),
        ("f", "none"),
    ]


def test_two_numbers_are_told_apart() -> None:
    assert formats.apart(0.9498, 0.95) == ("0.9498", "0.9500")
    assert formats.apart(0.95, 0.95) == ("0.950", "0.950")
    assert formats.apart(None, 0.95) == ("not available", "0.950")


def test_long_names_may_break_and_stay_escaped() -> None:
    assert formats.breakable("a_b.c&<d>") == "a_<wbr>b.<wbr>c&amp;<wbr>&lt;d&gt;"


@pytest.mark.parametrize(
    "href",
    [
        "https://example.org/x",
        "javascript:alert(1)",
        " JAVASCRIPT:alert(1)",
        "//host/x",
        "java\nscript:x",
        "\\\\h\\x",
        "",
    ],
)
def test_links_stay_beside_the_page(href: str) -> None:
    assert formats.relative_link(href) is None
    assert formats.relative_link("sub/metrics.json") == "sub/metrics.json"
