"""Sections on what a model asks for: the document's numbers, and sentences that follow from
them.
"""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import charts, rows, said, table, tables

from evenhand.tasks.pages.build import render
from evenhand.tasks.pages.page_model import Front, Page, Section
from evenhand.tasks.pages.sections import acquisition_section as module

HOSTILE = '<script>alert("1")</script>&'
# share, mean place, asked first, AUC of the outcome and of the group from it alone
FEATURES: dict[str, tuple[float, float | None, float, float, float]] = {
    "X1": (0.99, 1.2, 0.8, 0.561, 0.501),
    "X2": (0.96, 2.4, 0.15, 0.559, 0.497),
    "X5": (0.02, 5.5, 0.0, 0.558, 0.761),
    "X6": (0.0, None, 0.0, 0.557, 0.752),
    "X9": (0.97, 3.1, 0.05, 0.583, 0.502),
    "X10": (0.58, 4.0, 0.0, 0.556, 0.638),
}


def feature(name: str, people: dict[str, int]) -> dict[str, Any]:
    share, place, first, outcome, group = FEATURES[name]
    return {
        "name": name,
        "allowed": True,
        "share": share,
        "low": max(share - 0.01, 0.0),
        "high": min(share + 0.01, 1.0),
        "mean_position": place,
        "first_share": first,
        "by_label": {"0": share, "1": min(share + 0.005, 1.0)},
        "by_group": {
            "group": {
                value: {"share": min(share + 0.004 * i, 1.0), "rows": count}
                if count >= 25
                else None
                for i, (value, count) in enumerate(people.items())
            }
        },
        "classifier_auc": outcome,
        "adversary_auc": group,
    }


def example(people: dict[str, int] | None = None) -> dict[str, Any]:
    """Build a fresh ``acquisition.json``."""
    counts = people if people is not None else {"a": 4990, "b": 5010}
    return {
        "gamma": 0.5,
        "criterion": "demographic_parity",
        "attributes": ["group"],
        "groups": [feature(name, counts) for name in FEATURES],
        "asked": {
            "mean": 3.556,
            "low": 3.541,
            "high": 3.571,
            "histogram": [0, 40, 260, 3900, 5700, 100, 0],
        },
        "auc": {
            "all": {"classifier_auc": 0.679, "adversary_auc": 0.881},
            "acquired": {"classifier_auc": 0.651, "adversary_auc": 0.523},
        },
        "full_information": {
            "accuracy": 0.631,
            "auc": 0.682,
            "gap_max.group": None,
            "demographic_parity_difference.group": 0.187,
            "demographic_parity_difference.group&sex": 0.3,
        },
    }


def measured(value: float) -> dict[str, Any]:
    return {"value": value, "low": value - 0.01, "high": value + 0.01, "status": "ok", "reason": ""}


def metrics(**others: float) -> dict[str, Any]:
    values = {"accuracy": 0.604, "auc": 0.648, "gap_max.group": 0.05, **others}
    values |= {
        "demographic_parity_difference.group": 0.021,
        "demographic_parity_difference.group&sex": 0.022,
    }
    return {
        "n": 10000,
        "settings": {"draws": 200, "level": 0.9, "min_cell": 25, "seed": 0, "intersections": False},
        "counts": {},
        "metrics": {name: measured(value) for name, value in values.items()},
    }


def sections(
    acquisition: dict[str, Any], found: dict[str, Any] | None = None
) -> dict[str, Section]:
    documents = {"acquisition": acquisition, "metrics": found or metrics()}
    return {section.id: section for section in module.build(documents)}


def features(section: Section) -> dict[str, list[str]]:
    return rows(table(section, "Every feature"))


def test_the_sentences_say_what_is_asked_and_what_it_reveals() -> None:
    """They say of whom, and how much."""
    found = sections(example())
    assert list(found) == ["asked", "asked-of", "amount", "all-features"]
    for text in (
        "Of 6 features that it may ask for, it asks a person for 3.556 on average (90% interval: "
        "3.541 to "
        "3.571)",
        "trade-off gamma is 0.5",
        "does not reveal a person’s group (demographic parity: among all people)",
        "Its AUC is 0.523 from the asked features and 0.881 from all features; random guessing "
        "gives 0.5",
        "The AUC of the outcome is 0.651 and 0.679.",
        "It asks at least 95% of people for X1, X2 and X9.",
        "It asks at most 5% of people for X5 and X6.",
    ):
        assert text in said(found["asked"])


def test_a_difference_between_groups_is_told_where_it_is_large() -> None:
    acquisition = example()
    assert "By group the share" not in said(sections(acquisition)["asked"])
    cells = acquisition["groups"][5]["by_group"]["group"]
    cells["a"]["share"], cells["b"]["share"] = 0.45, 0.7
    text = said(sections(acquisition)["asked"])
    assert (
        "By group the share differs most for X10: 70.0% of “b” and 45.0% of “a” are asked." in text
    )


def test_the_tables_have_the_numbers_of_the_document() -> None:
    acquisition = example()
    found = sections(acquisition)
    asked = features(found["asked"])
    assert list(asked) == ["X1", "X9", "X2", "X10", "X5", "X6", "asked features", "all features"]
    assert asked["asked features"][-2:] == ["0.651", "0.523"]
    assert asked["all features"][-2:] == ["0.679", "0.881"]
    assert asked["X10"] == ["58.0% | 57.0% to 59.0%", "4.0", "0.0%", "0.556", "0.638"]
    assert asked["X6"][1] == "–"
    by_group = table(found["asked-of"], "Share of people asked")
    assert list(by_group.columns) == [
        "Feature",
        "Negative label",
        "Positive label",
        "group: a",
        "group: b",
    ]
    assert rows(by_group)["X10"] == ["58.0%", "58.5%", "58.0%", "58.4%"]
    counts = rows(table(found["amount"], "People by the number"))
    assert [int(row[0].replace(",", "")) for row in counts.values()] == acquisition["asked"][
        "histogram"
    ]
    assert counts["4"] == ["5,700", "57.0%"]


def test_groups_with_too_few_rows_have_no_share_anywhere() -> None:
    loose = example({"a": 9970, "rare": 30})
    for group in loose["groups"]:
        group["by_group"]["group"]["rare"] |= {"rows": 24, "share": 0.1234}
    for document in (example({"a": 9970, "rare": 5}), loose):
        found = sections(document)
        by_group = table(found["asked-of"], "Share of people asked")
        assert {row[-1] for row in rows(by_group).values()} == {"too few"}
        assert "fewer than 25 rows" in by_group.caption
        assert "“rare”" not in said(found["asked"])
        assert "0.1234" not in repr(found)
        assert "12.3%" not in repr(found["asked-of"]) + repr(found["asked"])


def test_all_features_are_compared_where_both_numbers_are_known() -> None:
    section = sections(example())["all-features"]
    (found,) = tables(section)
    assert list(rows(found)) == [
        "Accuracy",
        "Area under the ROC curve",
        "Demographic parity difference by group",
    ]
    assert rows(found)["Area under the ROC curve"] == [
        "0.648 | 0.638 to 0.658",
        "0.682",
        "\u22120.034",
        "higher",
    ]
    assert "Area under the ROC curve 0.682 instead of 0.648" in said(section)
    assert "Demographic parity difference by group 0.187 instead of 0.021" in said(section)
    only = metrics()
    only["metrics"] = {"auc": only["metrics"]["auc"]}
    section = sections(example(), only)["all-features"]
    assert list(rows(tables(section)[0])) == ["Area under the ROC curve"]
    assert "instead of" not in said(section)


def test_nobody_is_asked_for_anything() -> None:
    acquisition = example()
    acquisition["asked"] = {
        "mean": 0.0,
        "low": 0.0,
        "high": 0.0,
        "histogram": [10000, 0, 0, 0, 0, 0, 0],
    }
    for group in acquisition["groups"]:
        group |= {
            "share": 0.0,
            "low": 0.0,
            "high": 0.0004,
            "mean_position": None,
            "first_share": 0.0,
        }
    found = sections(acquisition)
    assert "it asks nobody for any" in said(found["asked"])
    assert "at most 5%" not in said(found["asked"])
    assert "for 0 features: 100.0% of people" in said(found["amount"])


def test_a_single_feature() -> None:
    acquisition = example()
    acquisition["groups"] = [feature("X1", {"a": 4990, "b": 5010})]
    acquisition["asked"] |= {"mean": 0.99, "low": None, "high": None, "histogram": [100, 9900]}
    found = sections(acquisition)
    assert "Of 1 feature that it may ask for, it asks a person for 0.990 on average" in said(
        found["asked"]
    )
    assert len(tables(found["amount"])) == 1


def test_without_evidence_nothing_is_claimed() -> None:
    acquisition = example({"a": 3, "b": 2})
    acquisition["asked"] |= {"mean": None, "low": None, "high": None}
    acquisition["auc"] = {
        n: {"classifier_auc": None, "adversary_auc": None} for n in ("all", "acquired")
    }
    acquisition["full_information"] = {"auc": None}
    for group in acquisition["groups"]:
        group |= {"classifier_auc": None, "adversary_auc": None, "by_label": {"0": None, "1": None}}
    found = sections(acquisition)
    assert "too few to say more" in said(found["asked"])
    assert "adversary" not in said(found["asked"])
    assert "AUC" not in said(found["asked"])
    assert found["all-features"].blocks == []
    assert len(charts(found["asked"])[0].data["rows"]) == 6
    row = rows(table(found["asked-of"], "Share of people asked"))["X1"]
    assert row == ["not available", "not available", "too few", "too few"]


def test_what_may_not_be_asked_is_named_but_not_drawn() -> None:
    acquisition = example()
    acquisition["groups"][0]["allowed"] = False
    found = sections(acquisition)
    assert "Of 5 features that it may ask for" in said(found["asked"])
    assert "It may not ask for X1: sensitive, or of one value in the training rows." in said(
        found["asked"]
    )
    assert features(found["asked"])["X1"][0] == "may not be asked"
    assert "X1" not in [row["name"] for row in charts(found["asked"])[0].data["rows"]]
    assert "X1" not in rows(table(found["asked-of"], "Share of people asked"))


def test_of_many_features_the_chart_has_those_asked_most() -> None:
    """The table has all."""
    acquisition = example()
    acquisition["groups"] = [
        feature("X1", {"a": 4990, "b": 5010}) | {"name": f"f{i}", "share": i / 40}
        for i in range(40)
    ]
    section = sections(acquisition)["asked"]
    assert {f"f{i}" for i in range(40)} <= set(features(section))
    assert "It has the 24 features that are asked most; the table has all." in said(section)
    names = [row["name"] for row in charts(section)[0].data["rows"]]
    assert names == [*(f"f{i}" for i in range(39, 15, -1)), "asked features", "all features"]


def test_the_chart_gets_no_numbers_of_sensitive_groups() -> None:
    for row in charts(sections(example())["asked"])[0].data["rows"]:
        assert set(row) <= {"name", "share", "low", "high", "classifier_auc", "adversary_auc"}


@pytest.mark.parametrize("attribute", ["group", HOSTILE])
def test_hostile_names_stay_text(attribute: str) -> None:
    acquisition = example()
    acquisition["attributes"] = [attribute]
    for group in acquisition["groups"]:
        group["name"] = HOSTILE + group["name"]
        group["by_group"] = {HOSTILE: {HOSTILE: {"share": 0.5, "rows": 100}}}
    found = [
        Section(s.id, s.title, [b for b in s.blocks if b not in charts(s)])
        for s in sections(acquisition).values()
    ]
    page = render(Page(Front("run", "t", [], ["s"]), found))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
