"""The page of the demonstration: what fairness costs, and every number in one table."""

from __future__ import annotations

import pytest
from demo_documents import MODELS, demo_documents
from page_blocks import charts, page, rows, said, table

from evenhand.tasks.pages.build import build
from evenhand.tasks.pages.fronts.demo_front import CONSISTENCY, depends


def test_the_headline_has_the_numbers_and_what_fairness_costs() -> None:
    found = build("demo", demo_documents()).front.headline
    assert found[0].startswith("1,000 synthetic applicants were held out, whom no model had seen.")
    assert "differently about 30.0% of them" in found[1]
    assert found[1].endswith("individually fair trees about 2.0%.")
    assert (
        "the club still decides about 15.0%. Trees that see neither cannot depend on them"
        in found[2]
    )
    assert found[3] == (
        "The selection rates of women and men are 25.0 percentage points apart with plain trees, "
        "12.0 "
        "percentage points without the gender, 8.0 percentage points without gender and club, 2.0 "
        "percentage "
        "points with fair trees."
    )
    assert found[4].startswith(
        "Fair trees cost 3.5 percentage points of accuracy, leaving both columns out 2.5 "
        "percentage points."
    )


def test_every_number_is_in_the_table_with_interval_and_link() -> None:
    section = page("demo", demo_documents())["models"]
    found = table(section, "Four models on the same table")
    assert rows(found)["trees | hiring-gbdt"] == [
        "82.0% | 81.0% to 83.0%",
        "30.0% | 28.0% to 32.0%",
        "25.0% | 22.0% to 28.0%",
    ]
    assert [row[0].href for row in found.rows] == [f"{name}/report.html" for name in MODELS]
    assert "with its 95% interval" in said(section)


def test_a_chart_a_number_has_all_models_with_their_intervals() -> None:
    accuracy, dependence, gap = charts(page("demo", demo_documents())["models"])
    assert [row["label"] for row in accuracy.data["rows"]] == [
        label for label, *_ in MODELS.values()
    ]
    assert [(row["value"], row["low"], row["high"]) for row in dependence.data["rows"]][
        3
    ] == pytest.approx((0.02, 0.0, 0.04))
    assert (accuracy.data["floor"], gap.data["floor"]) == (0.5, 0.0)


def test_dependence_is_1_less_consistency_with_ends_exchanged() -> None:
    found = depends({CONSISTENCY: {"value": 0.9, "low": 0.85, "high": 0.97}})
    assert [found[end] for end in ("value", "low", "high")] == pytest.approx([0.1, 0.03, 0.15])
    # a model that reads no changed column is not measured: there is no interval, not one of width 0
    assert depends({}) == {"value": 0.0, "low": None, "high": None}


def test_the_page_says_how_the_table_is_made() -> None:
    text = said(page("demo", demo_documents())["table"])
    assert "40% of women and 10% of men name a choir" in text
    assert (
        "trained against an adversary who may exchange people that differ only in gender and club"
        in text
    )
