"""Pages for people: the result of a check as HTML, and a contract's columns as a Markdown table."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evenhand.data_contracts.model import Column, Contract


def validation_html(result: dict[str, Any]) -> str:
    """Return one self-contained page about a check.

    Parameters
    ----------
    result : dict
        From :meth:`evenhand.data_contracts.result.CheckResult.to_json`.

    Returns
    -------
    str
        HTML without scripts and without anything from the network.
    """
    environment = Environment(
        loader=PackageLoader("evenhand.data_contracts", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    # one column's checks together, the table's first; within a column as they ran
    order = {
        column: rank for rank, column in reversed(list(enumerate(c["column"] for c in result["checks"])))
    }
    order[None] = -1
    checks = sorted(result["checks"], key=lambda check: order[check["column"]])
    failed = sum(not check["success"] for check in result["checks"])
    if not result["success"]:
        verdict = "refused"
    else:
        verdict = "passed, with rows set aside" if result["quarantined"] else "passed"
    return environment.get_template("validation.html.j2").render(
        result={**result, "checks": checks}, verdict=verdict, failed=failed, summary=_summary(result, failed)
    )


def _summary(result: dict[str, Any], failed: int) -> str:
    checks = len(result["checks"])
    parts = [
        f"{_rows(result['rows'])} checked.",
        f"All {checks} checks passed." if not failed else f"{failed} of {checks} checks failed.",
    ]
    if result["success"]:
        parts.append(f"{_rows(result['rows_kept'])} kept.")
    else:
        parts.append("Nothing goes on until this is mended.")
    if result["quarantined"] and result["success"]:
        parts.append(f"{_rows(result['quarantined'])} set aside for breaking the contract.")
    if result["dropped_missing_sensitive"]:
        parts.append(f"{_rows(result['dropped_missing_sensitive'])} dropped for lack of a sensitive value.")
    return " ".join(parts)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def expected_columns_markdown(contract: Contract) -> str:
    """Return a Markdown table of a contract's columns, for the documentation.

    Parameters
    ----------
    contract : Contract
        What to describe.

    Returns
    -------
    str
        One line per column: name, type, role, what it may hold, whether it is required, description.
    """
    lines = ["| column | type | role | may hold | required | description |", "|---|---|---|---|---|---|"]
    for column in contract.columns:
        role = (
            f"{column.role}, model input" if column.role == "sensitive" and column.is_feature else column.role
        )
        if column.role == "label":
            role = f"label (1 = `{_cell(str(column.positive))}`)"
        cells = [
            f"`{_cell(column.name)}`",
            column.logical_type,
            role,
            _holds(column),
            "yes" if column.required else "no",
            _cell(column.description),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _holds(column: Column) -> str:
    parts = []
    if column.allowed is not None:
        parts.append(", ".join(f"`{_cell(str(value))}`" for value in column.allowed))
    low, high = column.minimum, column.maximum
    if low is not None and high is not None:
        parts.append(f"{low} to {high}")
    elif low is not None:
        parts.append(f"at least {low}")
    elif high is not None:
        parts.append(f"at most {high}")
    if column.bins is not None:
        parts.append("groups cut at " + ", ".join(f"{cut:g}" for cut in column.bins))
    return "; ".join(parts) or "anything"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
