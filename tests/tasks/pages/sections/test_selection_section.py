"""The section on a selector: the lowest first, sentences that follow from the numbers, caution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from page_blocks import charts, rows, said, tables

from evenhand.fairlib.evaluation.drivers import selection_report
from evenhand.tasks.pages.page_model import Section
from evenhand.tasks.pages.sections import selection_section as module

MEANS = {
    "job": 0.8,
    "sex": 0.0,
    "savings": 0.1,
    "housing": 0.75,
    "status_of_checking_account": 0.15,
}
ORDER = ["sex", "savings", "status_of_checking_account", "housing", "job"]


def selection(
    means: dict[str, float] | None = None,
    *,
    dependent: bool = False,
    people: int = 40,
    spread: float = 0.0,
) -> dict[str, Any]:
    """Build a fresh ``selection.json``, in which people differ by `spread` to either side."""
    found = MEANS if means is None else means
    attributes = [name for name in found if name in ("sex", "race")]
    sides = np.linspace(-spread, spread, people)[:, None] * np.array(
        [name not in attributes for name in found]
    )
    probabilities = np.array(list(found.values())) + sides
    groups = selection_report(
        probabilities, list(found), attributes, data_dependent=dependent, min_cell=5
    )
    return {"attributes": attributes, "data_dependent": dependent, "rows": people, "groups": groups}


def section(document: dict[str, Any]) -> Section:
    return module.build({"selection": document})


@pytest.mark.parametrize("dependent", [False, True])
def test_features_are_ranked_from_the_lowest_probability(dependent: bool) -> None:
    found = section(selection(dependent=dependent))
    assert [name.removesuffix(" (sensitive)") for name in rows(tables(found)[0])] == ORDER
    (chart,) = charts(found)
    bars = chart.data["rows"]
    assert [bar["label"] for bar in bars] == ORDER
    assert [bar["value"] for bar in bars] == pytest.approx([MEANS[name] for name in ORDER])
    assert not any("low" in bar for bar in bars)
    assert bars[0]["text"] == "0, by design"
    assert "savings 0.100; status_of_checking_account 0.150" in chart.description


def test_people_who_differ_give_whiskers_between_the_quartiles() -> None:
    found = section(selection(dependent=True, people=41, spread=0.1))
    savings = charts(found)[0].data["rows"][1]
    assert (savings["low"], savings["high"]) == pytest.approx((0.05, 0.15))
    (table,) = tables(found)
    assert list(table.columns) == [
        "Feature",
        "Mean",
        "Standard deviation",
        "Lower quartile",
        "Median",
        "Upper quartile",
    ]
    assert rows(table)["savings"] == ["0.100", "0.059", "0.050", "0.100", "0.150"]
    assert "bars are means over 41 test rows" in said(found)


def test_seldom_selected_features_are_named_with_caution() -> None:
    found = section(selection())
    assert (
        "Found to reveal most about sex: savings (0.100) and status_of_checking_account (0.150)."
        in said(found)
    )
    assert "The probabilities are the same for everybody." in said(found)
    assert "on the training rows" in said(found)
    assert "it is not a proof" in said(found)


def test_at_most_three_are_named() -> None:
    """None is named that is selected as often as not."""
    many = said(section(selection({"sex": 0.0, "a": 0.4, "b": 0.3, "c": 0.1, "d": 0.2})))
    assert "most about sex: c (0.100), d (0.200) and b (0.300)." in many
    none = said(section(selection({"sex": 0.0, "job": 0.51, "housing": 0.5})))
    assert "Found to reveal" not in none
    assert "Every feature is selected at least as often as not." in none


def test_of_too_few_people_nothing_is_drawn_or_ranked() -> None:
    found = section(selection(dependent=True, people=3))
    assert not charts(found)
    assert "There are too few people to say more: 3 test rows." in said(found)
    few = section(selection(dependent=True, people=8, spread=0.05))
    assert not any("low" in bar for bar in charts(few)[0].data["rows"])


def test_only_sensitive_attributes_are_named_and_nothing_more() -> None:
    found = section(selection({"sex": 0.0, "race": 0.0}))
    assert "a person’s sex and race" in said(found)
    assert "as often as not" not in said(found)
    assert rows(tables(found)[0]) == {"sex (sensitive)": ["0.000"], "race (sensitive)": ["0.000"]}


def test_many_features_are_drawn_as_far_as_they_can_be_read() -> None:
    means = {"sex": 0.0} | {f"feature_{i}": i / 40 for i in range(1, 41)}
    found = section(selection(means))
    (chart,) = charts(found)
    assert len(chart.data["rows"]) == 30
    assert (
        "The chart has the 30 features of lowest probability; the table has all." in chart.caption
    )
    assert len(rows(tables(found)[0])) == 41
