"""What the page of a run says of a learned fair metric."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.tasks.pages.page_model import Table
from evenhand.tasks.pages.sections.fair_metric_section import build, summary, taken_share


def report(**changes: Any) -> dict[str, Any]:
    columns = [
        ("sex", "sensitive", 1.0, None),
        ("skill", "kept", 0.51, None),
        ("rating", "shift", 0.7801, 0.021),
        ("club", "removed", 0.78, 0.0001),
        ("height", "removed", 0.85, -0.0002),
        ("training", "legitimate", 0.66, None),
    ]
    names = ("column", "verdict", "auc", "signal")
    return {
        "columns": [dict(zip(names, column, strict=True)) for column in columns],
        "leaks": {"sex": {"before": 0.97, "after": 0.52, "low": 0.47, "high": 0.57}},
        "label_auc": [0.8, 0.77],
    } | changes


def test_one_line_says_what_is_neutralised_and_taken() -> None:
    assert summary(report()) == (
        "The learned metric removes height (AUC 0.85 alone) and club (0.78); adapts rating (AUC "
        "0.78 alone); keeps training. With counterparts from half of the training rows, what is "
        "left of the other half predicts sex given training with an AUC of 0.52 [0.47, 0.57]; all "
        "columns but the sensitive ones with 0.97 (0.5 is chance). The AUC of the label from the columns goes "
        "from 0.80 to 0.77: 10% of the label’s signal is taken."
    )


def test_without_the_attribute_nothing_is_called_adapted() -> None:
    hidden = report(adapts=False)
    text = summary(hidden)
    assert "removes the directions in which groups differ in rating (AUC 0.78 alone)" in text
    assert "What is left of half of the training rows predicts sex" in text
    blocks = build({"metric_report": hidden}).blocks
    table = next(block for block in blocks if isinstance(block, Table))
    assert ["rating", "differences between groups removed", 0.7801, 0.021] in table.rows
    assert "adapt" not in text


@pytest.mark.parametrize(
    ("aucs", "share"),
    [([0.8, 0.77], 0.1), ([0.8, 0.5], 1.0), ([0.8, 0.4], 1.0), ([0.7, 0.71], 0.0), ([0.5, 0.5], 0)],
)
def test_the_share_is_of_what_exceeds_chance(aucs: list[float], share: float) -> None:
    assert taken_share(report(label_auc=aucs)) == pytest.approx(share)


def test_nothing_found_and_nothing_taken_is_said() -> None:
    columns = [{"column": "skill", "verdict": "kept", "auc": 0.5, "signal": None}]
    text = summary(report(columns=columns, label_auc=[0.8, 0.8]))
    assert text.startswith("The learned metric found no proxy feature.")
    assert "nothing of the label’s signal is taken" in text
    # of more than two labels there is no such AUC
    assert "label’s signal" not in summary(report(label_auc=None))


def test_many_columns_are_counted() -> None:
    columns = []
    for number in range(9):
        columns.append({"column": f"c{number}", "verdict": "removed", "auc": 0.6, "signal": 0.0})
    assert "c5 (0.60) and 3 more." in summary(report(columns=columns))


def test_the_table_has_every_column_but_the_sensitive_ones() -> None:
    section = build({"metric_report": report()})
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert [row[0] for row in table.rows] == ["height", "rating", "club", "training", "skill"]
    assert table.rows[0] == ["height", "removed", 0.85, -0.0002]
    assert table.rows[1][1] == "adapted: shifted"
