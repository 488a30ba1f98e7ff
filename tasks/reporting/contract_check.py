"""The page about the check of a table against its contract."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

__all__ = ["render_check"]


def render_check(result: Mapping[str, Any]) -> str:
    """
    Write one self-contained page about a check: HTML without scripts and without requests.

    Parameters
    ----------
    result : mapping
        :meth:`evenhand.data_contracts.checking.CheckResult.to_json`.
    """
    # grouped by column, those of the table first; within a column in the order in which they ran
    order: dict[str | None, int] = {None: -1}
    for rank, check in enumerate(result["checks"]):
        order.setdefault(check["column"], rank)
    checks = sorted(result["checks"], key=lambda check: order[check["column"]])
    failed = sum(not check["success"] for check in checks)
    verdict = "passed, with rows set aside" if result["quarantined"] else "passed"
    return _template().render(
        result={**result, "checks": checks},
        verdict=verdict if result["success"] else "refused",
        failed=failed,
        summary=_summary(result, failed),
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("evenhand.tasks.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("validation.html.j2")


def _summary(result: Mapping[str, Any], failed: int) -> str:
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
