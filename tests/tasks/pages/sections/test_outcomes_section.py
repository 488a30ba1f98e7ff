"""Who gets the unfavourable outcome: the words of the contract, and numbers as counted."""

from __future__ import annotations

from typing import Any

from page_blocks import charts, page, rows, said, tables
from page_examples import run_documents

OUTCOME = {
    "column": "income",
    "code": 1,
    "favourable": ">50K",
    "adverse": "<=50K",
    "stated": True,
}


def documents(**outcome: Any) -> dict[str, Any]:
    found = run_documents()
    found["metrics"]["settings"]["outcome"] = {**OUTCOME, **outcome}
    return found


def test_shares_are_counted_by_group_and_for_everybody() -> None:
    section = page("run", documents())["who"]
    found = rows(tables(section)[0])
    assert list(found)[0] == "age: <25"  # the widest difference first
    # of 6,121 men 1,904 + 311... are counted in page_examples: 4,217 of label 0, 2,088 selected
    assert found["sex: Male"][0] == "6,121"
    assert found["sex: Male"][1].startswith("68.9% | ")
    assert found["sex: Male"][2].startswith("65.9% | ")
    assert found["sex: Male"][3] == "\u22123.0"
    assert found["Everybody"][0] == "9,045"
    (chart,) = charts(section)
    assert [row["label"] for row in chart.data["rows"]] == list(found)[:-1]
    assert "sex: Male: predicted 65.9%, observed 68.9%" in chart.description


def test_the_outcome_has_the_words_of_the_contract() -> None:
    text = said(page("run", documents())["who"])
    assert text.startswith("The unfavourable outcome is income <=50K: it is predicted for 73.3%")
    named = documents()
    named["run"]["value_names"] = {"income": {"<=50K": "low", ">50K": "high"}}
    section = page("run", named)["who"]
    assert "The unfavourable outcome is “low”" in said(section)
    assert tables(section)[0].caption == "Shares with “low”, the unfavourable outcome"


def test_an_inferred_outcome_is_marked_as_such() -> None:
    section = page("run", documents(stated=False))["who"]
    assert "(inferred from the words of the label)" in said(section)


def test_without_labels_nothing_is_observed() -> None:
    found = documents()
    found["metrics"]["settings"]["labelled"] = False
    built = page("run", found)
    assert tables(built["who"])[0].columns == ["Group", "Rows", "Predicted"]
    assert "observed" not in said(built["who"])
    assert "errors" not in built


def test_further_groups_are_counted() -> None:
    found = documents()
    cells = found["metrics"]["counts"]["sex"]
    found["metrics"]["counts"] |= dict.fromkeys(("b", "c", "d"), cells)
    assert "4 further groups are in “Group by group” below." in said(page("run", found)["who"])
