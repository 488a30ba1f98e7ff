"""The section on what outputs disclose: its warning, and what it says without evidence."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.pages.page_model import Table
from evenhand.tasks.pages.sections.disclosure_section import build


def section(value: float | None, low: float | None = None, *, attributes: bool = True) -> list[Any]:
    reason = "" if value is not None else "3 members or others of the training rows, fewer than 5"
    high = None if low is None else value
    auc = {"value": value, "low": low, "high": high, "reason": reason}
    attack = {"auc": auc, "true_positive_rate": None if value is None else 0.02}
    told = {
        "attribute": "marital_status",
        "source": "both",
        "group": "<25",
        "auc": 0.7,
        "base_rate": 0.25,
    }
    content = {
        "shadows": 8,
        "members": 1200,
        "false_positive_rate": 0.01,
        "attacks": dict.fromkeys(("online", "offline", "threshold"), attack),
        "attributes": [told] if attributes else [],
    }
    (found,) = build({"membership": content, "metrics": {"settings": {"level": 0.9}}})
    return list(found.blocks)


def test_it_warns_above_the_limit_only() -> None:
    found = section(0.551, 0.52)
    assert found[0].endswith("AUC of **0.551** (90% interval: 0.520 to 0.551); 0.5 is chance.")
    assert found[1].startswith("**This is above 0.55")
    assert not any(isinstance(block, str) and "above" in block for block in section(0.55, 0.52))


def test_tables_have_every_attack_and_attribute() -> None:
    attacks, attributes = (block for block in section(0.5, 0.48) if isinstance(block, Table))
    assert attacks.columns[2] == "Members found at 1.0% false alarms"
    assert [row[2] for row in attacks.rows] == [0.02] * 3
    ((attribute, source, group, auc, share),) = attributes.rows
    assert (attribute, source, auc, share) == (
        "marital status",
        "The score and the true label",
        0.7,
        "25.0%",
    )
    assert group.text == "“<25”"  # type: ignore[union-attr]


def test_without_evidence_it_says_why() -> None:
    found = section(None, attributes=False)
    assert found[0].endswith(
        "cannot be measured: 3 members or others of the training rows, fewer than 5."
    )
    assert [type(block) for block in found] == [str, Table, str]
    assert "1,200 training rows" in found[2]
