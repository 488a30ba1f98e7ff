"""Text of others on pages, in Markdown and at terminals: shown, never obeyed."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree import ElementTree

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from evenhand.fairlib.escaping import (
    PlainLines,
    html_text,
    markdown_code,
    markdown_of_person,
    markdown_paragraphs,
    markdown_text,
    plain_text,
    terminal_text,
)
from evenhand.tasks.evaluating.summaries import junit_of_failure, markdown_of_failure
from evenhand.tasks.pages.formats import printable
from evenhand.tasks.steps.publish_step import card_markdown

ESCAPE = "\x1b[31mred\x1b]0;title\x07"
REORDERED = "user\u202eexe.txt\u2066a\u2069\u200f"
HOSTILE = (
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![x](https://evil.example/p.png)",
    "<https://evil.example>",
    "https://evil.example/x",
    "www.evil.example",
    "mailto:someone@evil.example",
    "@team and @org/team",
    "see #12 and group/repo#12 and !34",
    "| a | b |",
    "`code` **bold** _em_ ~~gone~~",
    "# heading",
    "1. list",
    "- list",
    "+ list",
    "= x",
    "> quote",
    "&lt;img onerror=x&gt; &#60;b&#62;",
    "a\n\n<b>next</b>\n/close",
    ESCAPE,
    REORDERED,
    "end with a backslash \\",
)
# as GitHub and GitLab find names of people and bare addresses after rendering
MENTION = re.compile(r"(^|[^\w/`])@\w")
ADDRESS = re.compile(r"(https?|ftp)://|www\.\w|mailto:", re.IGNORECASE)
REFERENCE = re.compile(r"[#!]\d")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def rendered(text: str) -> str:
    return MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(text)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("place", ["{}", "- {}", "# {}", "| a | {} |"])
def test_markdown_shows_text_as_it_is(text: str, place: str) -> None:
    written = place.format(markdown_text(text))
    if place.startswith("|"):
        written = f"| x | y |\n|---|---|\n{written}"
    page = rendered(written)
    assert "\n" not in markdown_text(text)
    tags = set(re.findall(r"<(\w+)", page))
    assert tags <= {"p", "ul", "li", "h1", "table", "thead", "tbody", "tr", "th", "td"}, page
    shown = re.sub(r"<[^>]*>", "", page)
    assert not MENTION.search(shown)
    assert not ADDRESS.search(shown)
    assert not REFERENCE.search(shown)
    assert not CONTROLS.search(page)


@given(st.text(max_size=60))
def test_markdown_text_has_no_markup_whatever_is_written(text: str) -> None:
    page = rendered(f"- {markdown_text(text)}")
    assert set(re.findall(r"<(\w+)", page)) <= {"ul", "li"}
    assert not CONTROLS.search(page)


def test_ordinary_names_stay_readable() -> None:
    assert (
        markdown_text("impact_ratio.gender 0.80 (at least 4/5)")
        == "impact_ratio.gender 0.80 (at least 4/5)"
    )
    assert markdown_text("שלום, ÅÄÖ, 日本") == "שלום, ÅÄÖ, 日本"
    assert markdown_paragraphs("one\ntwo\n\n*three*") == "one two\n\n\\*three\\*"
    assert markdown_code("a`b\nc") == "`a'b c`"


def test_a_person_keeps_markdown_but_no_tag_and_no_script_link() -> None:
    note = "**Checked** by us.\n\n- [report](https://ours.example)\n<script>x</script>"
    page = rendered(markdown_of_person(note))
    assert "<strong>" in page
    assert 'href="https://ours.example"' in page
    assert "<script" not in page
    for link in ("javascript:x", "JAVASCRIPT\\:x", "java&#115;cript:x", "data:text/html,x"):
        assert "href" not in re.sub(
            r'href="(?!\w+:)[^"]*"', "", rendered(markdown_of_person(f"[a]({link})"))
        )


@pytest.mark.parametrize("text", [ESCAPE, REORDERED, "\x9b31m", "a\rb", "\x00\x7f"])
def test_neither_terminal_nor_page_gets_a_control(text: str) -> None:
    stream = io.StringIO()
    print(text, file=PlainLines(stream))
    assert not CONTROLS.search(stream.getvalue().replace("\n", ""))
    assert not CONTROLS.search(terminal_text(text))
    assert not CONTROLS.search(printable(text).replace("\r", ""))
    assert plain_text("tab\tand\nline") == terminal_text("tab\tand\nline") == "tab\tand\nline"


def test_ci_reports_hold_no_control_and_notify_nobody() -> None:
    """These are JUnit files and summaries."""
    error = f"column '@team {ESCAPE}{REORDERED}' https://evil.example ]]> <b>"
    xml = junit_of_failure(
        error, model=REORDERED, created="2026-01-01T00:00:00", properties={"a": ESCAPE}
    )
    assert ElementTree.fromstring(xml).find(".//error") is not None
    assert not CONTROLS.search(xml)
    comment = markdown_of_failure(error, REORDERED)
    assert not CONTROLS.search(comment)
    assert not MENTION.search(comment)
    assert not ADDRESS.search(comment)


def test_a_model_card_shows_what_others_wrote() -> None:
    bad = "<script>x</script> [a](javascript:x) @team \x1b[2J \u202e | https://evil.example"
    metric = {"value": 0.5, "low": None, "high": None}
    card = {
        "name": bad,
        "description": f"{bad}\n\n# {bad}",
        "kind": "proxy",
        "sensitive": [bad],
        "table": {"name": bad, "path": bad},
        "data_fingerprint": None,
        "contract": {"name": bad, "version": "1"},
        "method": "gbdt",
        "seed": 1,
        "git_commit": bad,
        "balance": {"rows_after": 1, "rows_before": 2, "proxy": bad, "version": 1},
        "parameters": {bad: bad},
        "metrics": {bad: metric, f"{bad}2": {"value": None, "reason": bad}},
        "gates": {"verdict": "passed", "results": [{"text": bad}]},
        "copies": {bad: bad},
        "intended_use": f"{bad}\n\n{bad}",
        "packages": {"numpy": "2"},
    }
    text = card_markdown(card)
    page = rendered(text)
    assert not re.search(r"<(script|a|img)\b", page)
    assert not CONTROLS.search(text)
    assert not MENTION.search(page)
    assert not ADDRESS.search(page)
    assert text.count("\n# ") == 0


def shown_everywhere() -> dict[str, Callable[[str], str]]:
    """Each writer of text of others, by its name, as a function of that text."""
    from evenhand.fairlib.evaluation.audit_page import audit_page
    from evenhand.tasks.pages.build import render
    from evenhand.tasks.pages.page_model import Front, Page, Section, Table

    def page(text: str) -> str:
        table = Table(text, [text, "b"], [[text, text]])
        section = Section("one", text, [text, table])
        return render(Page(Front("run", text, [], [text]), [section]))

    def audit(text: str) -> str:
        row = {"attribute": text, "group": text, "metric": "count", "n": 5}
        groups = pd.DataFrame([{**row, "value": 5.0, "lower": None, "status": "ok"}])
        return audit_page({text: [text]}, groups, pd.DataFrame(), 0.95, text)

    return {"page": page, "audit": audit, "text": lambda text: f"<p>{html_text(text)}</p>"}


@pytest.mark.parametrize("writer", ["page", "audit", "text"])
def test_pages_show_text_as_it_is(writer: str) -> None:
    write = shown_everywhere()[writer]
    # a page marks **bold** and `code` of its own sentences up, and of names in them
    ordinary = tags_of(write("people")) | {"strong", "code"}
    for text in HOSTILE:
        page = write(text)
        assert tags_of(page) <= ordinary, text
        assert not CONTROLS.search(page.replace("\r", "")), text
        assert "javascript:" not in "".join(re.findall(r'href="[^"]*"', page))


def tags_of(page: str) -> set[str]:
    """Names of a page's elements, with those of their attributes that run or load something."""
    parser = Elements()
    parser.feed(page)
    return parser.found


class Elements(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.found |= {name for name, _ in attrs if name.startswith("on") or name == "src"}


def test_a_run_is_summarised_for_prefect_as_text() -> None:
    from evenhand.flows.engine import Verdict
    from evenhand.flows.flow_records import summary_of

    for text in HOSTILE:
        verdict = Verdict("run-1", "refused", 1, artifacts={"report": text})
        verdict.gates = {"results": [{"text": text, "passed": False}]}
        page = rendered(summary_of(verdict))
        assert set(re.findall(r"<(\w+)", page)) <= {"p", "strong", "code", "ul", "li"}, page
        assert not CONTROLS.search(page)


def test_a_line_on_stderr_obeys_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    from evenhand.flows.commands.terminal import print_note

    print_note(f"evenhand: {ESCAPE}{REORDERED}")
    (line,) = capsys.readouterr().err.splitlines()
    assert not CONTROLS.search(line)
