"""The report of a proxy: its sections, plots and sentences."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from evenhand.tasks.reporting.balance import balance_findings, balance_sections, kept_rows_section
from evenhand.tasks.reporting.balance_plots import GroupShares, heat_map, share_bars
from evenhand.tasks.reporting.context import Section
from evenhand.tasks.reporting.markup import drawing, paragraph
from evenhand.tasks.reporting.page import render_report

SVG = "{http://www.w3.org/2000/svg}"


def metric(value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    status = "ok" if value is not None else "insufficient_evidence"
    return {"value": value, "low": low, "high": high, "status": status, "reason": ""}


@pytest.fixture
def evaluation() -> dict[str, Any]:
    return {
        "n": 300,
        "settings": {"draws": 20, "level": 0.9, "min_cell": 5, "seed": 0, "intersections": False},
        "counts": {},
        "metrics": {
            "disclosivity": metric(0.25, 0.2, 0.31),
            "disclosivity_of_probability": metric(0.33),
            "imbalance": metric(0.1, 0.05, 0.2),
            "imbalance_before": metric(0.4, 0.35, 0.45),
            "smallest_growth": metric(2.5, 2.0, 3.0),
            "kept": metric(0.4, 0.35, 0.45),
        },
    }


@pytest.fixture
def balance() -> dict[str, Any]:
    return {
        "attributes": {"sex": ["F", "M"], "tow<n": ["a", "b", "c"]},
        "groups": ["sex=F", "sex=M", "tow<n=a", "tow<n=b", "tow<n=c"],
        "target": [0.5, 0.5, 0.2, 0.3, 0.5],
        "base_rates": [0.2, 0.8, 0.3, 0.7, None],
        "base_rates_train": [0.2, 0.8, 0.3, 0.6, 0.1],
        "compositions": [[0.08, 0.9, 0.25, 0.75, None], None, [0.6, 0.41, 0.25, 0.75, None]],
        "compositions_train": [
            [0.08, 0.9, 0.3, 0.6, 0.1],
            [0.2, 0.8, 0.2, 0.7, 0.1],
            [0.55, 0.46, 0.3, 0.6, 0.1],
        ],
        "rows": [200.0, 2.0, 98.0],
        "masses": [0.3, 0.1, 0.6],
        "acceptance": [1.0, 0.0, 0.25],
        "shares_before": [0.2, 0.8, 0.3, 0.7, None],
        "shares_after": [0.45, 0.55, 0.35, 0.65, None],
        "shares_after_train": [0.5, 0.5, 0.3, 0.6, 0.1],
        "distances": [0.4, 0.1],
        "bound": {
            "epsilon": 0.4,
            "disclosivity": 1.1,
            "imbalance": 1.5,
            "smallest_leaf": 40.0,
            "splits": 2.0,
        },
    }


def by_title(sections: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    for section in sections:
        Section.model_validate(section)
        for text in section["html_safe_paragraphs"]:
            paragraph(text)
        for key in ("svg", "svg_narrow"):
            if key in section:
                drawing(section[key])
    return {section["title"]: section for section in sections}


def test_sections_say_what_it_does_what_it_tells_and_what_not(
    evaluation: dict[str, Any], balance: dict[str, Any]
) -> None:
    found = by_title(balance_sections(evaluation, balance, 0.2))
    assert list(found) == [
        "What the proxy does",
        "Groups by sex, before and after",
        "Groups by tow<n, before and after",
        "What each proxy group tells",
        "The paper’s bound",
        "What this does not say",
    ]
    said = " ".join(found["What the proxy does"]["html_safe_paragraphs"])
    assert "3 proxy groups" in said
    assert "0.2 (alpha)" in said
    assert "tow&lt;n" in said
    assert "tells more: up to 0.330" in found["What this does not say"]["html_safe_paragraphs"][0]
    unlimited = by_title(balance_sections(evaluation, balance, None))["What the proxy does"]
    assert "Nothing limits" in unlimited["html_safe_paragraphs"][0]


def test_the_table_of_groups_has_before_after_and_how_many_times(
    evaluation: dict[str, Any], balance: dict[str, Any]
) -> None:
    found = by_title(balance_sections(evaluation, balance, 0.2))
    assert found["Groups by sex, before and after"]["table"]["rows"] == [
        ["F", "20.0%", "45.0%", "50.0%", pytest.approx(2.25)],
        ["M", "80.0%", "55.0%", "50.0%", pytest.approx(0.6875)],
    ]
    assert found["Groups by tow<n, before and after"]["table"]["rows"][2] == [
        "c",
        "not available",
        "not available",
        "50.0%",
        None,
    ]


def test_the_table_of_proxy_groups_names_the_largest_difference(
    evaluation: dict[str, Any], balance: dict[str, Any]
) -> None:
    table = by_title(balance_sections(evaluation, balance, 0.2))["What each proxy group tells"]["table"]
    assert [row[1:] for row in table["rows"]] == [
        ["60.0%", 0.25, 98, pytest.approx(0.4), "sex=F", pytest.approx(0.35)],
        ["30.0%", 1.0, 200, pytest.approx(0.12), "sex=F", pytest.approx(0.12)],
        ["10.0%", 0.0, 2, None, None, pytest.approx(0.1)],
    ]


@pytest.mark.parametrize(
    ("told", "apart", "words"),
    [
        (1.0, 2.1, "Both are"),
        (1.2, 1.9, "The first of these is"),
        (0.9, 2.0, "The second of these is"),
        (0.9, 1.9, None),
    ],
)
def test_an_empty_promise_is_called_one(
    evaluation: dict[str, Any], balance: dict[str, Any], told: float, apart: float, words: str | None
) -> None:
    """Of two attributes, shares can be 2 apart."""
    balance["bound"] |= {"disclosivity": told, "imbalance": apart}
    section = by_title(balance_sections(evaluation, balance, 0.2))["The paper’s bound"]
    text = " ".join(section["html_safe_paragraphs"])
    assert ("no limit at all" in text) == (words is not None)
    assert words is None or f"{words} <strong>no limit" in text
    balance["bound"] = None
    assert "The paper’s bound" not in by_title(balance_sections(evaluation, balance, 0.2))


def test_findings_name_the_rarest_group_and_those_that_lost(
    evaluation: dict[str, Any], balance: dict[str, Any]
) -> None:
    found = balance_findings(evaluation, balance)
    assert found[0].startswith("It keeps 40.0% of the rows")
    assert "25.0 percentage points" in found[1]
    assert found[2] == (
        "By sex: the rarest group, “F”, goes from 20.0% of all rows to 45.0% of those kept (wanted: 50.0%)."
    )
    assert found[3].startswith("By tow<n: the rarest group, “a”")
    assert found[4] == "Farther from the wanted share than before: “a”."
    for name in ("imbalance", "disclosivity"):
        evaluation["metrics"][name] = metric(None)
    assert not [text for text in balance_findings(evaluation, balance) if "keeps" in text or "moves" in text]


def test_bars_are_as_long_as_the_shares() -> None:
    rows = [GroupShares("a<b", 0.2, 0.4, 0.5), GroupShares("few", None, None, 0.5)]
    for compact in (False, True):
        text = share_bars(rows, uid="u", title="t", description="d", compact=compact)
        root = ElementTree.fromstring(text)
        drawn = [r for r in root.findall(f"{SVG}rect")] or list(root.findall("rect"))
        widths = {
            kind: [float(r.get("width")) for r in drawn if r.get("class") == kind] for kind in ("pale", "bar")
        }
        assert len(widths["pale"]) == len(widths["bar"]) == 1
        assert widths["bar"][0] == pytest.approx(2 * widths["pale"][0], abs=0.2)
        assert text.count("too few") == 2
        assert "a&lt;b" in text


def test_cells_are_the_stronger_the_more_they_tell() -> None:
    deviations = [[0.1, -0.2, None], [0.0, 0.05, -0.004]]
    text = heat_map(["1", "2", "3"], ["g", "h"], deviations, uid="u", title="t", description="d")
    cells = [r for r in ElementTree.fromstring(text).iter() if "heat" in (r.get("class") or "")]
    assert [cell.get("class") for cell in cells] == [
        "heat up",
        "heat down",
        "heat down",
        "heat up",
        "heat down",
    ]
    strengths = [float(cell.get("fill-opacity") or "nan") for cell in cells]
    assert strengths == pytest.approx([0.3, 0.6, 0.0, 0.15, 0.012])
    words = [item.text for item in ElementTree.fromstring(text).iter() if item.text]
    assert {"+10", "\u221220", "+5", "0", "–"} <= set(words)


def test_a_map_of_many_proxy_groups_stays_within_the_page() -> None:
    columns = [str(i) for i in range(1, 31)]
    for compact, width in ((False, 720), (True, 340)):
        text = heat_map(columns, ["g"], [[0.1] * 30], uid="u", title="t", description="d", compact=compact)
        cells = [r for r in ElementTree.fromstring(text).iter() if "heat" in (r.get("class") or "")]
        assert len(cells) == 30
        assert max(float(c.get("x") or 0) + float(c.get("width") or 0) for c in cells) <= width


def test_many_proxy_groups_are_folded(evaluation: dict[str, Any], balance: dict[str, Any]) -> None:
    for name in ("compositions", "compositions_train", "rows", "masses", "acceptance"):
        balance[name] = balance[name] * 5
    section = by_title(balance_sections(evaluation, balance, 0.2))["What each proxy group tells"]
    assert "table" not in section
    assert len(section["folded"]["rows"]) == 15


def test_a_page_without_a_split_says_why_nothing_is_published(
    evaluation: dict[str, Any], balance: dict[str, Any]
) -> None:
    page = render_report(
        {
            "title": "people-proxy",
            "job": {"name": "people-proxy", "method": "proxy"},
            "run_id": "r",
            "created": "2026-01-01T00:00:00+00:00",
            "status": "gated",
            "refusal": "no split of the training rows stays within alpha = 0.",
            "findings": balance_findings(evaluation, balance),
            "table": {
                "name": "people",
                "rows": 500,
                "train_rows": 200,
                "test_rows": 300,
                "features": 4,
                "fingerprint": "f",
                "contract_name": "people",
                "contract_version": "1",
            },
            "evaluation": evaluation,
            "gates": {"verdict": "passed", "results": [], "note": ""},
            "sections": balance_sections(evaluation, balance, 0.0),
            "environment": {"python": "3"},
        }
    )
    assert "It is not published: no split of the training rows stays within alpha = 0." in page
    assert "not enough evidence to decide" not in page
    assert "a proxy tree" in page
    assert '<h2 id="rates-h">' not in page
    assert "tow<n" not in page


def test_kept_training_rows_are_told() -> None:
    section = kept_rows_section(
        {"proxy": "a&b", "version": "3", "rows_before": 1000, "rows_after": 98, "rows_expected": 101.4}
    )
    (text,) = by_title([section])["Balanced training rows"]["html_safe_paragraphs"]
    for words in ("<strong>98</strong> of 1,000", "a&amp;b, version 3", "101 rows", "none was left out"):
        assert words in text
