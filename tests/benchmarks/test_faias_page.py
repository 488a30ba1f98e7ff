"""The page on FAIAS: what was demanded is judged as the demand says."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from benchmarks import faias_page
from evenhand.fairlib.plots.palette import LIGHT

SVG = "{http://www.w3.org/2000/svg}"


def _runs(
    shift: float, *, accuracy: float = 0.7, gap: float = 0.2, theil: float = 0.1
) -> list[dict[str, Any]]:
    """Three splits; differences have the sign of `shift`."""
    return [
        {
            "accuracy": accuracy + off,
            "balanced_accuracy": accuracy + off,
            "equal_opportunity_difference.sex": gap + off,
            "average_odds_difference.sex": gap + off,
            "balanced_accuracy_difference.sex": gap + off,
            "theil_index": theil,
            "signed": {"equal_opportunity": shift + off, "average_odds": shift + off},
        }
        for off in (-0.03, 0.0, 0.03)
    ]


def _judged(**own: Any) -> dict[str, bool]:
    methods = {"faias": _runs(own.pop("shift", 0.2), **own), "logistic": _runs(0.2)}
    return {demand.split(" ")[0]: met for demand, _, met in faias_page.checks(methods, "german")}


def test_accuracy_may_lack_one_standard_error() -> None:
    # standard deviation .03 over three splits: .0173
    assert _judged(accuracy=0.6828)["accuracy"]
    assert not _judged(accuracy=0.6826)["accuracy"]


def test_differences_are_halved_or_not_told_from_zero() -> None:
    assert _judged(gap=0.0999)["equal_opportunity_difference"]
    assert not _judged(gap=0.1001)["equal_opportunity_difference"]
    assert _judged(shift=-0.0173)["equal_opportunity_difference"]
    assert not _judged(shift=-0.0174)["equal_opportunity_difference"]
    assert not _judged(gap=0.1001, shift=0.0)["balanced_accuracy_difference"]


def test_theil_must_not_be_higher_and_nobody_ahead_in_all_five() -> None:
    assert _judged(theil=0.1)["theil_index"]
    assert not _judged(theil=0.101)["theil_index"]
    assert _judged(accuracy=0.71)["no"]
    assert not _judged(accuracy=0.69, gap=0.21, theil=0.11)["no"]
    assert _judged(accuracy=0.69, gap=0.21, theil=0.1)["no"]


@pytest.mark.parametrize("metrics", [faias_page.METRICS[:2], faias_page.METRICS[2:]])
def test_pictures_have_a_bar_a_method_and_are_well_formed(metrics: Any) -> None:
    result = {"german": {"logistic": _runs(0.2), "faias": _runs(0.1)}}
    found = ElementTree.fromstring(faias_page.draw(result, metrics, "Title & more"))
    colours = {LIGHT["c0"], LIGHT["c1"]}
    bars = [item for item in found.iter(f"{SVG}path") if item.get("fill") in colours]
    assert len(bars) == 2 * len(metrics) + 2  # the bars, and the legend
    assert "NaN" not in ElementTree.tostring(found, encoding="unicode")


def test_rows_of_aif360_stand_beside_ours() -> None:
    ours = {"german": {"faias": _runs(0.1), "logistic": _runs(0.2)}}
    theirs = {"german": {"remover (AIF360)": _runs(0.3, gap=0.1)}}
    found = {
        "tables": {"result": ours, "measured": "first"},
        "aif360": {"result": theirs, "measured": "then"},
    }
    text = "\n".join(faias_page.sections(found, lambda part: str(part["measured"])))
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.count(" ± ") == 6]
    assert rows == ["| faias", "| logistic", "| remover (AIF360)"]
    assert [line for line in text.splitlines() if line in ("first", "then")] == ["first", "then"]
    assert "remover" not in "\n".join(faias_page.sections({"tables": found["tables"]}, lambda _: ""))


def test_paragraphs_are_wrapped_and_tables_are_not() -> None:
    words, row = "word " * 60, "| " + "cell " * 60 + "|"
    lines = faias_page.wrapped(f"{words}\n\n{row}").split("\n")
    assert max(map(len, lines[:-1])) <= 120
    assert lines[-1] == row
