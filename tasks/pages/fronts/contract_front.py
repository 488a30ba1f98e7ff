"""The page of a contract check: whether the table keeps it, what is wrong with the cure, and every
check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Cell, Documents, Front, Json, Section, Table
from evenhand.tasks.pages.texts import lack

NEEDS = ("result",)
# Stands for the column of a check of the whole table.
TABLE = "(table)"


def front(documents: Documents) -> Front:
    """Build the front from a check's result (``CheckResult.to_json``)."""
    result = documents["result"]
    table = documents["run"]["title"]
    contract = result["contract"]
    name = contract["name"]
    if contract.get("version"):
        name += f", version {contract['version']}"
    facts = [("Contract", Cell(name, code=contract.get("digest") or ""))]
    failed = sum(not check["success"] for check in result["checks"])
    outcome = f"{failed} of {formats.plural(len(result['checks']), 'check')} failed."
    if not failed:
        outcome = f"All {formats.plural(len(result['checks']), 'check')} passed."
    sentences = [f"{formats.plural(result['rows'], 'row')} of {table} checked.", outcome]
    badge = ("refused", "\u2715", "refused")
    if result["success"]:
        badge = ("passed", "\u2713", "passed")
        sentences.append(f"{formats.plural(result['rows_kept'], 'row')} kept.")
        if result["quarantined"]:
            badge = ("passed", "\u2713", "passed, with rows set aside")
            set_aside = formats.plural(result["quarantined"], "row")
            sentences.append(f"{set_aside} set aside for breaking the contract.")
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
        table = _violations(result["violations"])
        sections.append(Section("violations", "What is wrong", [table]))
    # the table's own checks first; within a column in the order in which they ran
    names = list(dict.fromkeys([None, *(check["column"] for check in result["checks"])]))
    checks = sorted(result["checks"], key=lambda check: names.index(check["column"]))
    rows: list[list[Any]] = []
    for check in checks:
        verdict = "passed" if check["success"] else "failed"
        rows.append(
            [
                check["column"] or TABLE,
                check["expectation"],
                Cell(verdict, kind=verdict),
                check["checked"],
                check["unexpected_count"],
            ]
        )
    head = ["Column", "Expected", "Result", "Checked", "Failing"]
    caption = f"{len(checks)} checks, {sum(not check['success'] for check in checks)} failed"
    return [*sections, Section("checks", "Every check", [Table(caption, head, rows)])]


def _violations(violations: Sequence[Json]) -> Table:
    """What breaks the contract, with examples and the cure."""
    rows = []
    for violation in violations:
        examples = ", ".join(map(str, violation["examples"])) or lack("none shown")
        rows.append(
            [
                violation["column"] or TABLE,
                violation["expectation"],
                str(violation["found"] or violation["count"]),
                examples,
                violation["cure"],
            ]
        )
    caption = "Each violation with its cure; values of sensitive columns and ids are never shown"
    return Table(caption, ["Column", "Expected", "Found", "Examples", "Cure"], rows)
