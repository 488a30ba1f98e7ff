"""The page of a contract check: whether the table keeps it, what is wrong with the cure, and every check."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Cell, Documents, Front, Section, Table

NEEDS = ("result",)


def front(documents: Documents) -> Front:
    """Build the front from a check's result (``CheckResult.to_json``)."""
    result, what = documents["result"], documents["run"]["title"]
    contract, failed = result["contract"], sum(not check["success"] for check in result["checks"])
    badge = ("passed", "\u2713", "passed") if result["success"] else ("refused", "\u2715", "refused")
    if result["success"] and result["quarantined"]:
        badge = ("passed", "\u2713", "passed, with rows set aside")
    version = f", version {contract['version']}" if contract.get("version") else ""
    facts = [("Contract", Cell(f"{contract['name']}{version}", code=contract.get("digest") or ""))]
    checks = formats.plural(len(result["checks"]), "check")
    sentences = [
        f"{formats.plural(result['rows'], 'row')} of {what} checked.",
        f"All {checks} passed." if not failed else f"{failed} of {checks} failed.",
    ]
    if result["success"]:
        sentences.append(f"{formats.plural(result['rows_kept'], 'row')} kept.")
    else:
        sentences.append("The run stops until the table keeps its contract.")
    if result["quarantined"] and result["success"]:
        sentences.append(
            f"{formats.plural(result['quarantined'], 'row')} set aside for breaking the contract."
        )
    if result["dropped_missing_sensitive"]:
        dropped = formats.plural(result["dropped_missing_sensitive"], "row")
        sentences.append(f"{dropped} dropped for lack of a sensitive value.")
    title = f"Data contract {contract['name']}"
    return Front("contract check", title, [f"Checks of {what}"], sentences, badge=badge, facts=facts)


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
