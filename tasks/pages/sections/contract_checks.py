"""A contract check: what is wrong and how to cure it, and every check that was made."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.pages.model import Cell, Documents, Section, Table

PAGES = {"contract": 10}
NEEDS = ("result",)


def build(documents: Documents) -> list[Section]:
    """Violations first, then all checks, those of one column together."""
    result = documents["result"]
    found = []
    if result["violations"]:
        rows = [
            [
                _column(violation["column"]),
                violation["expectation"],
                str(violation["found"] or violation["count"]),
                ", ".join(map(str, violation["examples"])) or Cell("none shown", kind="lack"),
                violation["cure"],
            ]
            for violation in result["violations"]
        ]
        caption = "Each violation with its cure; values of sensitive columns and ids are never shown"
        head = ["Column", "Expected", "Found", "Examples", "Cure"]
        found.append(Section("violations", "What is wrong", [Table(caption, head, rows)]))
    # the table's own checks first; within a column in the order in which they ran
    names = list(dict.fromkeys([None, *(check["column"] for check in result["checks"])]))
    checks = sorted(result["checks"], key=lambda check: names.index(check["column"]))
    table: list[list[Any]] = [
        [
            _column(check["column"]),
            check["expectation"],
            Cell("passed", kind="passed") if check["success"] else Cell("failed", kind="failed"),
            check["checked"],
            check["unexpected_count"],
        ]
        for check in checks
    ]
    head = ["Column", "Expected", "Result", "Checked", "Failing"]
    caption = f"{len(checks)} checks, {sum(not check['success'] for check in checks)} failed"
    return [*found, Section("checks", "Every check", [Table(caption, head, table)])]


def _column(name: str | None) -> str:
    return "(table)" if name is None else name
