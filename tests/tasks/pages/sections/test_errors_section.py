"""Errors by group: who is wrongly given the unfavourable outcome."""

from __future__ import annotations

from page_blocks import page, rows, said, tables
from page_examples import run_documents


def test_both_kinds_of_errors_stand_side_by_side() -> None:
    section = page("run", run_documents())["errors"]
    found = rows(tables(section)[0])
    women = found["sex: Female"]
    # 130 of 2,613 and 311 less 196 of 311
    assert women[0].startswith("8.4% | ")
    assert women[1].startswith("37.0% | ")
    assert women[2].startswith("5.0% | ")
    assert tables(section)[0].columns[2] == (
        "Predicted the negative label, of those with the positive label"
    )


def test_the_widest_difference_is_named() -> None:
    text = said(page("run", run_documents())["errors"])
    assert text == (
        "Of those with the positive label, 38.9% of “age: >=60” and 22.0% of “age: 25-59” are "
        "predicted the negative label."
    )


def test_of_several_labels_the_share_that_is_wrong() -> None:
    documents = run_documents()
    documents["metrics"]["settings"] |= {"classes": ["a", "b", "c"]}
    cells = []
    for label, right in (("a", 30), ("b", 20), ("c", 10)):
        cell = {"group": "F", "label": label, "n": 40, "right": right, "rate": right / 40}
        cells.append({**cell, "enough": True, "taken_for": []})
    documents["metrics"]["counts"] = {"sex": cells}
    documents["histograms"] = None
    built = page("run", documents)
    assert "who" not in built
    found = rows(tables(built["errors"])[0])
    assert found["F"][0] == "120"
    assert found["F"][1].startswith("50.0% | ")
