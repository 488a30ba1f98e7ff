"""The page on FAIAS and the comparators."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.page_generators import faias_page
from evenhand.fairlib.plots.palette import LIGHT

SVG = "{http://www.w3.org/2000/svg}"


def _runs(*, accuracy: float = 0.7, gap: float = 0.2, theil: float = 0.1) -> list[dict[str, Any]]:
    """Three splits."""
    return [
        {
            "accuracy": accuracy + off,
            "balanced_accuracy": accuracy + off,
            "equal_opportunity_difference.sex": gap + off,
            "average_odds_difference.sex": gap + off,
            "balanced_accuracy_difference.sex": gap + off,
            "theil_index": theil,
        }
        for off in (-0.03, 0.0, 0.03)
    ]


@pytest.mark.parametrize("metrics", [faias_page.METRICS[:2], faias_page.METRICS[2:]])
def test_pictures_have_a_bar_a_method_and_are_well_formed(metrics: Any) -> None:
    result = {"german": {"logistic": _runs(), "other": _runs()}}
    found = ElementTree.fromstring(faias_page.draw(result, metrics, "Title & more"))
    colours = {LIGHT["c0"], LIGHT["c1"]}
    bars = [item for item in found.iter(f"{SVG}path") if item.get("fill") in colours]
    assert len(bars) == 2 * len(metrics) + 2  # the bars, and the legend
    assert "NaN" not in ElementTree.tostring(found, encoding="unicode")


def test_rows_of_aif360_stand_beside_ours() -> None:
    ours = {"german": {"other": _runs(), "logistic": _runs()}}
    theirs = {"german": {"remover (AIF360)": _runs(gap=0.1)}}
    found = {
        "tables": {"result": ours, "measured": "first"},
        "aif360": {"result": theirs, "measured": "then"},
    }
    text = "\n".join(faias_page.sections(found, lambda part: str(part["measured"])))
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.count(" ± ") == 6]
    assert rows == ["| logistic", "| other", "| remover (AIF360)"]
    assert [line for line in text.splitlines() if line in ("first", "then")] == ["first", "then"]
    found["blind"] = {"result": {"german": {"logistic, blind": _runs()}}, "measured": "between"}
    text = "\n".join(faias_page.sections(found, lambda part: str(part["measured"])))
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.count(" ± ") == 6]
    assert rows == ["| logistic", "| logistic, blind", "| other", "| remover (AIF360)"]
    marks = ("first", "between", "then")
    assert [line for line in text.splitlines() if line in marks] == ["first", "between", "then"]
    assert "remover" not in "\n".join(
        faias_page.sections({"tables": found["tables"]}, lambda _: "")
    )


def test_paragraphs_are_wrapped_and_tables_are_not() -> None:
    words, row = "word " * 60, "| " + "cell " * 60 + "|"
    lines = faias_page.wrapped(f"{words}\n\n{row}").split("\n")
    assert max(map(len, lines[:-1])) <= 120
    assert lines[-1] == row
