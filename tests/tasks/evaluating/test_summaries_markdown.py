"""The summary: a table for every reader, and no name that becomes markup."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.tasks.evaluating.summaries import markdown_of_evaluation, markdown_of_failure

MODEL = {"name": "credit_model", "version": "3"}


def metric(
    value: float | None, low: float | None = None, high: float | None = None
) -> dict[str, Any]:
    return {
        "value": value,
        "low": low,
        "high": high,
        "status": "ok" if value is not None else "no",
        "reason": "",
    }


def written(documents: dict[str, Any] | None = None, report: str = "r", **changes: Any) -> str:
    run = {
        "id": "r-1",
        "status": "refused",
        "judged": MODEL,
        "baseline": None,
        "data": {"shown": "new.csv", "rows": 12345},
        "notes": ["a <b>note</b>"],
    }
    result = {
        "metric": "auc",
        "kind": "min",
        "bound": "point",
        "limit": 0.9,
        "status": "ok",
        "passed": False,
        "text": "auc is 0.800 and must be at least 0.900: refused, 0.1 too low",
    }
    measured = {
        "metrics": {
            "settings": {"level": 0.9},
            "metrics": {"auc": metric(0.8, 0.75, 0.85), "gap_max.a|b": metric(None)},
        },
        "decision": {"results": [result]},
    }
    return markdown_of_evaluation(run | changes, measured | (documents or {}), report)


def cells(text: str, name: str) -> list[str]:
    """The cells of the last table row that has this metric."""
    line = [
        line for line in text.splitlines() if line.startswith("| ") and f"| {name} |" in f"|{line}"
    ][-1]
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_verdict_gates_metrics_notes_and_run() -> None:
    text = written(report="/store/report.html")
    assert text.startswith("## ❌ credit_model version 3 was refused by the gates\n")
    assert "On 12,345 rows of `new.csv`." in text
    assert "0.1 too low" in text
    assert cells(text, "auc") == ["auc", "0.800", "0.750 to 0.850"]
    assert cells(text, "gap_max.a\\|b")[1] == "insufficient evidence"
    assert "90% interval" in text
    assert "- ⚠️ a &lt;b&gt;note&lt;/b&gt;" in text
    assert text.endswith("Run `r-1`, report `/store/report.html`\n")


def test_beside_a_baseline_only_what_can_be_told_is_bold() -> None:
    old = {"name": "old", "version": None}
    documents = {
        "baseline": {"metrics": {"auc": metric(0.7), "gap_max.a|b": metric(None)}},
        "comparison": {"differences": {"auc": metric(0.1, 0.02, 0.2)}},
    }
    text = written(documents, baseline=old)
    assert cells(text, "auc")[3:] == ["0.700", "**+0.100**", "+0.020 to +0.200"]
    same = written(
        {
            "baseline": {"metrics": {"auc": metric(0.7)}},
            "comparison": {"differences": {"auc": metric(0.1, -0.02, 0.2)}},
        },
        baseline=old,
    )
    assert cells(same, "auc")[4] == "+0.100"


@pytest.mark.parametrize("status", ["passed", "insufficient_evidence", "no_gates"])
def test_every_verdict_has_words(status: str) -> None:
    text = written({"decision": None}, status=status)
    assert "refused" not in text


def test_a_failure_is_one_line() -> None:
    text = markdown_of_failure("no\nsuch *model*", "a_b")
    assert text == "🛑 **a_b was not evaluated**: no such \\*model\\*\n"
