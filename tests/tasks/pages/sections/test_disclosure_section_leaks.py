"""Suspected leaks and proxy features: each column is named with its reason, and many are cut with a
word of it.
"""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import headings, page, rows, said, table, tables
from page_examples import run_documents

from evenhand.tasks.pages.page_model import Section
from evenhand.tasks.pages.sections import disclosure_section as disclosure
from evenhand.tasks.pages.sections.disclosure_section import KINDS, MOST


def build(documents: dict[str, Any]) -> Section:
    (section,) = disclosure.build(documents)
    return section


def suspect(
    name: str, kind: str, auc: float | None = None, attribute: str | None = None
) -> dict[str, Any]:
    return {"name": name, "kind": kind, "auc": auc, "attribute": attribute}


def documents(*columns: dict[str, Any], **stand_ins: list[dict[str, Any]]) -> dict[str, Any]:
    return {"leaks": {"columns": list(columns), "stand_ins": stand_ins}}


def stand_in(name: str, auc: float) -> dict[str, Any]:
    return {"name": name, "group": "F", "auc": auc}


def test_every_suspected_column_has_its_reason_and_its_auc() -> None:
    found = build(
        documents(
            suspect("outcome_code", "label"),
            suspect("paid", "alone", 0.991),
            suspect("visits", "joint", 0.984),
            suspect("title", "sensitive", attribute="sex"),
        )
    )
    assert found is not None
    assert "4 model inputs may leak the label or a sensitive column" in said(found)
    assert "`role: ignore`" in said(found)
    assert rows(table(found, "Suspected columns")) == {
        "outcome_code": ["determines the label", ""],
        "paid": ["predicts the label almost perfectly", "0.991"],
        "visits": [
            "predicts the label almost perfectly together with the other columns of this kind",
            "0.984",
        ],
        "title": ["is computed from the sensitive column sex", ""],
    }
    assert headings(found) == []
    one = build(documents(suspect("paid", "alone", 0.99)))
    assert one is not None
    assert "1 model input may leak" in said(one)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_reason_has_a_gap_left_in_it(kind: str) -> None:
    found = build(documents(suspect("a", kind, attribute="race")))
    assert found is not None
    (reason, _) = rows(table(found, "Suspected columns"))["a"]
    assert "{" not in reason
    assert ("race" in reason) == kind.startswith("sensitive")


def test_proxy_features_are_listed_by_attribute_with_a_group() -> None:
    """It is the group that they predict best."""
    found = build(
        documents(sex=[stand_in("club", 0.93), stand_in("shoe", 0.8)], race=[], age_group=[])
    )
    assert found is not None
    assert headings(found) == ["Proxy features of a sensitive attribute"]
    (only,) = tables(found)
    assert only.caption == "Proxy features of sex"
    assert rows(only) == {"club": ["“F”", "0.930"], "shoe": ["“F”", "0.800"]}
    assert "They are not removed." in said(found)
    assert "may leak" not in said(found)


def test_of_many_proxy_features_the_first_are_shown() -> None:
    """All are counted."""
    many = [stand_in(f"c{i}", 0.9 - i / 100) for i in range(MOST + 3)]
    found = build(documents(sex=many, race=many[:MOST]))
    assert found is not None
    cut, whole = tables(found)
    assert cut.caption == f"Proxy features of sex, the {MOST} strongest of {MOST + 3}"
    assert list(rows(cut)) == [f"c{i}" for i in range(MOST)]
    assert whole.caption == "Proxy features of race"
    assert len(rows(whole)) == MOST


def test_without_a_finding_there_is_no_section() -> None:
    assert build(documents()).blocks == []
    assert build(documents(sex=[])).blocks == []
    nothing, something = documents(), documents(suspect("paid", "alone", 0.99))
    assert "leaks" not in page("run", run_documents() | nothing)
    assert "leaks" in page("run", run_documents() | something)
