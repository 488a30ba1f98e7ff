"""Shares of more than two labels by group, against hand-counted ones."""

from __future__ import annotations

from typing import Any

from page_blocks import said, tables

from evenhand.tasks.pages.label_outcomes import labels_section
from evenhand.tasks.pages.label_shares import labels_of_groups, shares_sentence


def cells() -> list[dict[str, Any]]:
    """Of 40 women 4 and of 50 men 30 are predicted high."""
    counts = {
        "women": {"high": (6, 4), "low": (20, 26), "medium": (14, 10)},
        "men": {"high": (20, 30), "low": (15, 10), "medium": (15, 10)},
        "other": {"high": (1, 3), "low": (1, 0), "medium": (1, 0)},
    }
    rows = []
    for group, labels in counts.items():
        for label, (n, predicted) in labels.items():
            rows.append({"group": group, "label": label, "n": n, "predicted": predicted})
    return rows


def test_every_group_is_counted_once() -> None:
    women, men, _ = labels_of_groups(cells())
    assert (women.n, men.n) == (40, 50)
    assert women.predicted == {"high": 4, "low": 26, "medium": 10}
    assert men.observed == {"high": 20, "low": 15, "medium": 15}


def test_the_sentence_names_the_widest_difference() -> None:
    assert shares_sentence("sex", cells()) == (
        "By sex: “high” is predicted for 60.0% of “men” and 10.0% of “women” (observed: 40.0% and "
        "15.0%)."
    )
    assert shares_sentence("sex", cells()[:3]) == ""


def test_the_section_has_every_share_and_none_of_few_rows() -> None:
    metrics = {
        "counts": {"sex": cells()},
        "settings": {"classes": ["high", "low", "medium"], "min_cell": 5, "level": 0.95},
    }
    section = labels_section(metrics)
    assert section is not None
    assert "No label is taken to be better than another" in said(section)
    (table,) = tables(section)
    assert table.columns == ["Group", "Rows", "high", "low", "medium"]
    women, _, other = table.rows
    assert women[2].text == "10.0%"
    assert women[2].below == ("4.0% to 23.1%", "observed 15.0%")
    assert other[2].kind == "lack"
    assert labels_section({**metrics, "counts": {}}) is None
