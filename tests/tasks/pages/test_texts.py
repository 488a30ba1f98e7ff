"""Shared sentences, rates of groups, and numbers in words."""

from __future__ import annotations

from typing import Any

import pytest
from page_examples import gate

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.texts import gate_findings, positive_means, selected_as


def test_findings_name_refusals_first_and_metrics_by_title() -> None:
    results = [
        gate("auc", "min", 0.8, None),
        gate("accuracy", "max", 0.8, 0.9),
        gate("brier", "max", 1, 0),
    ]
    assert gate_findings(results, "It does not pass") == [
        "It does not pass: 1 of 3 gates refused it.",
        "Accuracy in one line.",
        "Area under the ROC curve in one line.",
    ]
    assert gate_findings(results[:1], "No")[0] == "No: there is not enough evidence to decide."


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


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (None, "predicted positive"),
        (
            {"column": "denied", "favourable": "0", "adverse": "1", "stated": True},
            "predicted denied = 0, the favourable outcome",
        ),
        (
            {"column": "y", "favourable": "1", "adverse": "0", "stated": False},
            "predicted y = 1, taken as the favourable outcome",
        ),
        (
            {"column": "y", "favourable": None, "adverse": "bad", "stated": True},
            "predicted other than y = bad, the favourable outcome",
        ),
        (
            {"column": "y", "favourable": "hired", "name": "hired", "adverse": "0", "stated": True},
            "predicted “hired”, the favourable outcome",
        ),
    ],
)
def test_the_favourable_outcome_is_said_in_words(outcome: Any, words: str) -> None:
    settings = {} if outcome is None else {"outcome": outcome}
    assert selected_as(settings) == words


def test_what_positive_means_is_said_where_it_is_adverse() -> None:
    adverse = {"column": "denied", "code": 0, "favourable": "0", "adverse": "1", "stated": True}
    assert positive_means({"outcome": adverse}) == ", where positive means denied = 1"
    assert positive_means({"outcome": {**adverse, "code": 1}}) == ""
    assert positive_means({}) == ""
