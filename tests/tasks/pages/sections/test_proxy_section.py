"""The page of a proxy: its sections, the headline, and the rows that a proxy kept for a
classifier.
"""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import RUN, charts, rows, said, sections, table, tables

from evenhand.tasks.pages.build import build
from evenhand.tasks.pages.sections.proxy_section import proxy_sentences, share_differences


def metric(
    value: float | None, low: float | None = None, high: float | None = None
) -> dict[str, Any]:
    status = "ok" if value is not None else "insufficient_evidence"
    return {"value": value, "low": low, "high": high, "status": status, "reason": ""}


@pytest.fixture
def documents() -> dict[str, Any]:
    metrics = {
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
    balance = {
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
    }
    return {"run": {**RUN, "alpha": 0.2}, "metrics": metrics, "balance": balance}


def test_sections_say_what_it_does_what_it_reveals_and_what_not(documents: dict[str, Any]) -> None:
    found = sections(documents)
    assert list(found) == ["training", "proxy", "shares", "disclosivity", "limits"]
    text = said(found["proxy"])
    assert "one of 3 proxy groups" in text
    assert "differs by at most 0.2 (alpha)" in text
    assert "groups by sex and tow<n" in text
    assert "reveals more: up to 0.330 on the held-out rows" in said(found["limits"])
    documents["run"]["alpha"] = None
    assert "Nothing limits what its proxy groups reveal" in said(sections(documents)["proxy"])


def test_the_support_is_shown_where_it_was_measured(documents: dict[str, Any]) -> None:
    found = {"support": 0.62, "support_none": 0.1, "support_size": 0.31, "support_shift": 1.5}
    documents["metrics"]["metrics"] |= {name: metric(value) for name, value in found.items()}
    section = sections(documents)["support"]
    # the chances are 1, 0 and .25
    assert "2 of 3 proxy groups" in said(section)
    assert [row[1] for row in tables(section)[0].rows] == list(found.values())


def test_the_curve_of_the_training_starts_before_the_first_split(documents: dict[str, Any]) -> None:
    (chart,) = charts(sections(documents)["training"])
    assert [(row["step"], row["value"]) for row in chart.data["rows"]] == [(0, 0.4), (1, 0.1)]
    for distances in (None, [0.4]):
        documents["balance"]["distances"] = distances
        assert "training" not in sections(documents)


def test_shares_before_and_after_are_in_chart_and_table(
    documents: dict[str, Any],
) -> None:
    """So is the factor between them."""
    section = sections(documents)["shares"]
    first, second = charts(section)
    assert first.data["rows"][0] == {"group": "F", "before": 0.2, "after": 0.45, "target": 0.5}
    assert "F 20.0% to 45.0%; M 80.0% to 55.0%" in first.description
    assert rows(table(section, "Shares by sex")) == {
        "F": ["20.0%", "45.0%", "50.0%", "2.250"],
        "M": ["80.0%", "55.0%", "50.0%", "0.688"],
    }
    hidden = ["not available", "not available", "50.0%", "not available"]
    assert rows(table(section, "Shares by tow<n"))["c"] == hidden
    assert second.data["rows"][2]["after"] is None


def test_the_table_of_proxy_groups_names_the_largest_difference(documents: dict[str, Any]) -> None:
    section = sections(documents)["disclosivity"]
    (found,) = tables(section)
    assert rows(found) == {
        "1": ["60.0%", "0.250", "98", "0.400", "sex=F", "0.350"],
        "2": ["30.0%", "1.000", "200", "0.120", "sex=F", "0.120"],
        "3": ["10.0%", "0.000", "2", "not available", "not available", "0.100"],
    }
    assert not found.folded
    assert (
        "The largest difference on the held-out rows is 0.250 (90% interval: 0.200 to 0.310)."
        in said(section)
    )


def test_the_map_has_a_cell_for_each_group_and_proxy_group(
    documents: dict[str, Any],
) -> None:
    """The largest groups come first."""
    (chart,) = charts(sections(documents)["disclosivity"])
    cells = {(cell["row"], cell["column"]): cell["value"] for cell in chart.data["rows"]}
    assert len(cells) == 15
    assert cells["sex=F", "1"] == pytest.approx(0.4)
    assert cells["sex=F", "3"] is None
    assert cells["tow<n=c", "1"] is None


def test_with_one_attribute_its_name_is_not_repeated(documents: dict[str, Any]) -> None:
    documents["balance"] |= {"attributes": {"sex": ["F", "M"]}, "groups": ["sex=F", "sex=M"]}
    for key in ("target", "base_rates", "base_rates_train", "shares_before", "shares_after"):
        documents["balance"][key] = documents["balance"][key][:2]
    for key in ("compositions", "compositions_train"):
        documents["balance"][key] = [shares and shares[:2] for shares in documents["balance"][key]]
    (chart,) = charts(sections(documents)["disclosivity"])
    assert {cell["row"] for cell in chart.data["rows"]} == {"F", "M"}


def test_many_proxy_groups_are_folded(
    documents: dict[str, Any],
) -> None:
    """The map has the largest."""
    for name in ("compositions", "compositions_train", "rows", "masses", "acceptance"):
        documents["balance"][name] = documents["balance"][name] * 15
    section = sections(documents)["disclosivity"]
    assert tables(section)[0].folded
    assert len(rows(tables(section)[0])) == 45
    assert len({cell["column"] for cell in charts(section)[0].data["rows"]}) == 30


def test_a_hidden_share_has_no_difference() -> None:
    found = share_differences([[0.5, None], None], [0.25, 0.5])
    assert found == [[0.25, None], [None, None]]
    assert share_differences([[0.5]], [None]) == [[None]]


def test_the_headline_names_the_rarest_group_and_those_that_lost(documents: dict[str, Any]) -> None:
    found = proxy_sentences(documents)
    assert found[0].startswith(
        "It keeps 40.0% of the rows. Their group shares are 0.100 from the target"
    )
    assert "at most 25.0 percentage points" in found[1]
    assert found[2] == (
        "By sex: the rarest group, “F”, is 20.0% of all rows and 45.0% of those kept (target: "
        "50.0%)."
    )
    assert found[3].startswith("By tow<n: the rarest group, “a”")
    assert found[4] == "Farther from the target share than before: “a”."
    assert build("run", documents).front.headline[-6:-1] == found
    for name in ("imbalance", "disclosivity"):
        documents["metrics"]["metrics"][name] = metric(None)
    # without evidence for the first two only the sentences on the groups are left
    assert proxy_sentences(documents) == found[2:]


def test_a_hidden_rarest_group_is_not_named(documents: dict[str, Any]) -> None:
    documents["balance"]["shares_after"][0] = None
    shown = proxy_sentences(documents)
    assert [text[:4] for text in shown[2:]] == ["By t", "Fart"]
    documents["balance"]["shares_before"] = [None] * 5
    assert proxy_sentences(documents) == shown[:2]


def test_a_page_without_a_split_says_why_nothing_is_published(documents: dict[str, Any]) -> None:
    refusal = "no split of the training rows stays within alpha = 0."
    documents["run"] |= {"status": "gated", "model": None, "refusal": refusal}
    documents["run"]["job"] = {"name": "people-proxy", "method": "proxy", "parameters": {}}
    documents["decision"] = {"verdict": "passed", "results": [], "note": ""}
    headline = build("run", documents).front.headline
    assert headline[0] == f"Not published: {refusal}"
    assert "a proxy tree" in headline[-1]
    assert "rates" not in sections(documents)


def test_kept_training_rows_are_told(documents: dict[str, Any]) -> None:
    kept = {
        "proxy": "a&b",
        "version": "3",
        "rows_before": 1000,
        "rows_after": 98,
        "rows_expected": 101.4,
    }
    found = sections({"run": RUN, "metrics": documents["metrics"], "kept_rows": kept})
    assert list(found) == ["kept-rows"]
    for words in (
        "on 98 of 1,000 training rows",
        "a&b, version 3",
        "101 rows",
        "None of the test rows",
    ):
        assert words in said(found["kept-rows"])
