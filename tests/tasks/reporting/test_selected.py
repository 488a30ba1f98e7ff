"""The section on a selector: the lowest first, words that follow from the numbers, caution, no NaN."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from html_tree import read
from hypothesis import given
from hypothesis import strategies as st
from report_example import example
from test_report_svg import assert_apart, boxes, parse

from evenhand.fairlib.evaluation.selection import selection_report
from evenhand.tasks.reporting.context import Section
from evenhand.tasks.reporting.markup import drawing, paragraph
from evenhand.tasks.reporting.page import render_report
from evenhand.tasks.reporting.selected import selection_sections, telling

HOSTILE = '<script>alert("1")</script>&'
MEANS = {"job": 0.8, "sex": 0.0, "savings": 0.1, "housing": 0.75, "status_of_checking_account": 0.15}


def selection(
    means: dict[str, float] | None = None, *, dependent: bool = False, rows: int = 40, spread: float = 0.0
) -> dict[str, Any]:
    """Build a fresh ``selection.json``, in which people differ by `spread` to either side."""
    found = MEANS if means is None else means
    attributes = [name for name in found if name in ("sex", "race")]
    sides = np.linspace(-spread, spread, rows)[:, None] * np.array([name not in attributes for name in found])
    table = np.array(list(found.values())) + sides
    groups = selection_report(table, list(found), attributes, data_dependent=dependent, min_cell=5)
    return {"attributes": attributes, "data_dependent": dependent, "rows": rows, "groups": groups}


def section(document: dict[str, Any]) -> dict[str, Any]:
    (found,) = selection_sections(document)
    Section.model_validate(found)
    for text in found["html_safe_paragraphs"]:
        paragraph(text)
    for key in ("svg", "svg_narrow"):
        if key in found:
            drawing(found[key])
            assert_apart(found[key])
    return found


def said(document: dict[str, Any]) -> str:
    return " ".join(section(document)["html_safe_paragraphs"])


def test_without_a_selector_there_is_no_section() -> None:
    assert selection_sections(None) == []


@pytest.mark.parametrize("dependent", [False, True])
def test_bars_stand_from_the_lowest_to_the_highest_and_to_scale(dependent: bool) -> None:
    found = section(selection(dependent=dependent))
    assert found["title"] == "What tells the sensitive attribute"
    order = ["sex", "savings", "status_of_checking_account", "housing", "job"]
    assert [str(row[0]).removesuffix(" (sensitive)") for row in found["table"]["rows"]] == order
    for key in ("svg", "svg_narrow"):
        names = {text: top for text, _, _, top, _ in boxes(found[key]) if text in MEANS}
        assert sorted(names, key=names.__getitem__) == order
        widths = [float(node.get("width", 0)) for node in parse(found[key]).findall("rect")]
        whole = widths[-1] / 0.8
        assert widths == pytest.approx([whole * MEANS[name] for name in order], abs=0.2)
        assert not [node for node in parse(found[key]).findall("path") if node.get("class") == "limit"]


def test_people_who_differ_give_whiskers_between_the_quartiles() -> None:
    found = section(selection(dependent=True, rows=41, spread=0.1))
    root = parse(found["svg"])
    widths = [float(node.get("width", 0)) for node in root.findall("rect")]
    whiskers = [node.get("d", "") for node in root.findall("path") if node.get("class") == "limit"]
    assert len(whiskers) == 4, "what is sensitive has none"
    ends = [float(stroke.split()[0]) for stroke in whiskers[0].replace("L", "M").split("M")[1:]]
    # of evenly spread people the quartiles are half as far out as the ends
    assert max(ends) - min(ends) == pytest.approx(0.1 * widths[-1] / 0.8, abs=0.3)
    assert found["table"]["columns"][1:] == [
        "Mean",
        "Standard deviation",
        "Lower quartile",
        "Median",
        "Upper quartile",
    ]
    savings = next(row for row in found["table"]["rows"] if row[0] == "savings")
    assert [savings[1], *savings[3:]] == pytest.approx([0.1, 0.05, 0.1, 0.15])
    assert "means over 41 test rows" in said(selection(dependent=True, rows=41, spread=0.1))


def test_the_features_well_below_the_others_are_named_with_caution() -> None:
    text = said(selection())
    assert (
        "Found most relevant to sex: <strong>savings and status_of_checking_account</strong>, with a "
        "probability of 0.100 to 0.150; the next has 0.750." in text
    )
    assert "The probabilities are the same for everybody." in text
    assert "on the training rows" in text
    assert "it is no proof" in text


def test_nothing_is_named_where_nothing_stands_apart() -> None:
    text = said(selection({"sex": 0.0, "job": 0.41, "housing": 0.45, "savings": 0.5}))
    assert "Found most relevant" not in text
    assert (
        "No feature stands apart from the others: probabilities go from 0.410 (job) to 0.500 (savings)."
        in text
    )


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([0.1, 0.12, 0.8, 0.9], [0.1, 0.12]),
        ([0.3, 0.1, 0.4, 0.95], [0.1, 0.3, 0.4]),
        # the widest gap lies above one half, where nothing is left out
        ([0.55, 0.6, 0.95], []),
        ([0.1, 0.25, 0.55, 0.99], [0.1, 0.25]),
        ([0.1, 0.15, 0.2, 0.25], []),
        ([0.1], []),
        ([], []),
    ],
)
def test_what_tells_stands_below_the_widest_gap(means: list[float], expected: list[float]) -> None:
    groups = [{"name": str(i), "sensitive": False, "mean": mean} for i, mean in enumerate(means)]
    groups.append({"name": "sex", "sensitive": True, "mean": 0.0})
    assert [group["mean"] for group in telling(groups)] == expected


@given(st.lists(st.floats(0, 1), max_size=12))
def test_whatever_tells_is_seldom_selected_and_below_all_others(means: list[float]) -> None:
    groups = [{"name": str(i), "sensitive": False, "mean": mean} for i, mean in enumerate(means)]
    found = telling(groups)
    rest = [group["mean"] for group in groups if group not in found]
    if found:
        assert max(group["mean"] for group in found) < 0.5
        assert max(group["mean"] for group in found) + 0.1 <= min(rest) + 1e-12


def test_of_too_few_people_nothing_is_drawn_or_ranked() -> None:
    found = section(selection(dependent=True, rows=3))
    assert "svg" not in found
    assert any(
        "There are too few people to say more: 3 test rows." in t for t in found["html_safe_paragraphs"]
    )
    few = section(selection(dependent=True, rows=8, spread=0.05))
    assert "svg" in few
    assert not [node for node in parse(few["svg"]).findall("path") if node.get("class") == "limit"]


def test_many_features_are_drawn_as_far_as_they_can_be_read() -> None:
    means = {"sex": 0.0} | {f"feature_{i}": i / 40 for i in range(1, 41)}
    found = section(selection(means))
    assert len(parse(found["svg"]).findall("rect")) == 30
    assert "It has the 30 features of lowest probability; the table has all." in said(selection(means))
    assert len(found["table"]["rows"]) == 41


DOCUMENTS = {
    "same for everybody": selection(),
    "by person": selection(dependent=True, spread=0.1),
    "few": selection(dependent=True, rows=3),
    "two attributes": selection(MEANS | {"race": 0.0}),
    "only sensitive": selection({"sex": 0.0}),
    "hostile": selection({HOSTILE: 0.1, "job": 0.9, "sex": 0.0}),
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_whole_html_without_nan_that_speaks(document: dict[str, Any]) -> None:
    html = render_report(example() | {"sections": selection_sections(document)})
    root = read(html)
    ids = [node.attrs["id"] for node in root.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))
    (part,) = (node for node in root.all("section") if node.attrs.get("id") == "extra-1")
    assert not re.search(r"\b(nan|None|inf)\b", part.text())
    assert "<script>" not in html
    for plot in part.all("svg"):
        assert plot.all("title")[0].text()
        assert plot.all("desc")[0].text().endswith("The table below has every number.")
