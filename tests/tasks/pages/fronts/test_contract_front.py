"""The page of a contract check, from the result that the step wrote."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest
from contract_samples import PEOPLE, make_people, put

from evenhand.data_contracts.checking import check_table
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import parse_contract
from evenhand.tasks.pages.build import build, write_page
from evenhand.tasks.pages.page_model import Table

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


def documents(table: pa.Table, contract: Contract) -> dict[str, Any]:
    return {"result": check_table(table, contract).to_json(), "run": {"title": "the table"}}


def test_every_check_is_on_the_page(contract):
    given = documents(make_people(), contract)
    (section,) = build("contract", given).sections
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert len(table.rows) == len(given["result"]["checks"])
    page = read(write_page("contract", given))
    assert all(attrs.get("scope") in ("col", "row") for tag, attrs in page.tags if tag == "th")
    assert ("html", {"lang": "en"}) in page.tags
    assert any(tag == "meta" and attrs.get("name") == "viewport" for tag, attrs in page.tags)
    assert sum(tag == "h1" for tag, _ in page.tags) == 1
    assert contract.digest in page.words


def test_violations_are_escaped_and_nothing_is_fetched(contract):
    hostile = "<script>alert(1)</script>"
    table = put(make_people(), "job", {0: hostile})
    table = table.append_column(hostile, table.column("job"))
    given = documents(table, contract)
    text = write_page("contract", given)
    page = read(text)
    assert not any(tag == "script" for tag, _ in page.tags)
    assert hostile in page.words
    assert not re.search(r"""src=|href="[^#]|url\(|https?://|@import""", text)
    assert any("refused" in word for word in page.words)
    violations, checks = build("contract", given).sections
    assert len(violations.blocks[0].rows) == len(given["result"]["violations"]) == 2
    failed = [row for row in checks.blocks[0].rows if row[2].kind == "failed"]
    assert len(failed) == sum(not check["success"] for check in given["result"]["checks"])


def test_rows_set_aside_are_stated(contract):
    lenient = dataclasses.replace(contract, on_violation="quarantine", missing_sensitive="drop")
    table = put(put(make_people(), "job", {0: "x"}), "sex", {1: None})
    text = " ".join(read(write_page("contract", documents(table, lenient))).words)
    assert "passed, with rows set aside" in text
    assert "1 row set aside" in text
    assert "1 row dropped for lack of a sensitive value" in text
