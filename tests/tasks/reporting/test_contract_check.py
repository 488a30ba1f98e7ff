from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from contract_samples import PEOPLE, make_people, put

from evenhand.data_contracts.checking import check_table
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import parse_contract
from evenhand.tasks.reporting.contract_check import render_check

VOID = {"meta", "link", "br", "hr", "img", "input", "!doctype"}


class Balance(HTMLParser):
    """Fails on a tag that is closed out of order; collects tags and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(page: str) -> Balance:
    parser = Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture
def contract() -> Contract:
    return parse_contract(PEOPLE)


def test_every_check_is_on_the_page(contract):
    result = check_table(make_people(), contract).to_json()
    page = read(render_check(result))
    assert sum(tag == "tr" for tag, _ in page.tags) == 1 + len(result["checks"])
    assert all(attrs.get("scope") in ("col", "row") for tag, attrs in page.tags if tag == "th")
    assert ("html", {"lang": "en"}) in page.tags
    assert any(tag == "meta" and attrs.get("name") == "viewport" for tag, attrs in page.tags)
    assert sum(tag == "h1" for tag, _ in page.tags) == 1
    assert page.words.count("passed") == len(result["checks"]) + 1
    assert contract.digest in page.words


def test_violations_are_escaped_and_nothing_is_fetched(contract):
    hostile = "<script>alert(1)</script>"
    table = put(make_people(), "job", {0: hostile})
    table = table.append_column(hostile, table.column("job"))
    result = check_table(table, contract).to_json()
    text = render_check(result)
    page = read(text)
    assert not any(tag == "script" for tag, _ in page.tags)
    assert hostile in page.words
    assert not re.search(r"(src|href)=|url\(|https?://|@import", text)
    assert "refused" in page.words
    assert page.words.count("failed") == sum(not check["success"] for check in result["checks"])


def test_rows_set_aside_are_stated(contract):
    import dataclasses

    lenient = dataclasses.replace(contract, on_violation="quarantine", missing_sensitive="drop")
    table = put(put(make_people(), "job", {0: "x"}), "sex", {1: None})
    text = render_check(check_table(table, lenient).to_json())
    assert "passed, with rows set aside" in text
    assert "1 row set aside" in text
    assert "1 row dropped for lack of a sensitive value" in text


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_contrast_in_light_and_dark(contract):
    text = render_check(check_table(make_people(), contract).to_json())
    for ink in ("ink", "soft", "good", "bad"):
        assert_contrast(text, ink)


def assert_contrast(text, ink):
    themes = list(
        zip(re.findall(rf"--{ink}: (#\w{{6}})", text), re.findall(r"--paper: (#\w{6})", text), strict=True)
    )
    assert len(themes) == 2
    for fore, back in themes:
        high, low = sorted((_luminance(fore), _luminance(back)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5
