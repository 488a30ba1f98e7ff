"""The front of a contract check's page: which contract, and whether the table keeps it."""

from __future__ import annotations

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Cell, Documents, Front

__all__ = ["front"]


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
    return Front("contract check", title, [(f"Checks of {what}", None)], sentences, badge, facts)
