"""The page of a contract check: whether the table keeps it, what is wrong with the cure, and every
check.
"""

from __future__ import annotations

from typing import Any

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Cell, Documents, Front, Section, Table
from evenhand.tasks.pages.texts import lack

NEEDS = ("result",)
# Stands for the column of a check of the whole table.
TABLE = "(table)"


def front(documents: Documents) -> Front:
    """Build the front from a check's result (``CheckResult.to_json``)."""
    result = documents["result"]
    table = documents["run"]["title"]
    contract = result["contract"]
    failed = sum(not check["success"] for check in result["checks"])
    aside = ", with rows set aside" if result["quarantined"] else ""
    badge = ("refused", "\u2715", "refused")
    version = f", version {contract['version']}" if contract.get("version") else ""
    facts = [("Contract", Cell(f"{contract['name']}{version}", code=contract.get("digest") or ""))]
    checks = formats.plural(len(result["checks"]), "check")
    sentences = [
        f"{formats.plural(result['rows'], 'row')} of {table} checked.",
        f"All {checks} passed." if not failed else f"{failed} of {checks} failed.",
    ]
    if result["success"]:
        badge = ("passed", "\u2713", f"passed{aside}")
        sentences.append(f"{formats.plural(result['rows_kept'], 'row')} kept.")
        if aside:
            left = formats.plural(result["quarantined"], "row")
            sentences.append(f"{left} set aside for breaking the contract.")
    else:
        sentences.append("The run stops until the table keeps its contract.")
    if result["dropped_missing_sensitive"]:
        dropped = formats.plural(result["dropped_missing_sensitive"], "row")
        sentences.append(f"{dropped} dropped for lack of a sensitive value.")
    title = f"Data contract {contract['name']}"
    return Front(
        "contract check", title, [f"Checks of {table}"], sentences, badge=badge, facts=facts
    )


def build(documents: Documents) -> list[Section]:
    """Violations first, then all checks, those of one column together."""
    result = documents["result"]
    sections = []
    if result["violations"]:
        rows = []
        for found in result["violations"]:
            examples = ", ".join(map(str, found["examples"])) or lack("none shown")
            count = str(found["found"] or found["count"])
            rows.append(
                [found["column"] or TABLE, found["expectation"], count, examples, found["cure"]]
            )
        caption = (
            "Each violation with its cure; values of sensitive columns and ids are never shown"
        )
        head = ["Column", "Expected", "Found", "Examples", "Cure"]
        sections.append(Section("violations", "What is wrong", [Table(caption, head, rows)]))
    # the table's own checks first; within a column in the order in which they ran
    names = list(dict.fromkeys([None, *(check["column"] for check in result["checks"])]))
    checks = sorted(result["checks"], key=lambda check: names.index(check["column"]))
    table: list[list[Any]] = []
    for check in checks:
        verdict = "passed" if check["success"] else "failed"
        numbers = check["checked"], check["unexpected_count"]
        table.append(
            [check["column"] or TABLE, check["expectation"], Cell(verdict, kind=verdict), *numbers]
        )
    head = ["Column", "Expected", "Result", "Checked", "Failing"]
    caption = f"{len(checks)} checks, {sum(not check['success'] for check in checks)} failed"
    return [*sections, Section("checks", "Every check", [Table(caption, head, table)])]
