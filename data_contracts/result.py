"""What a check found, ready for people, reports and the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data_contracts.errors import ContractViolation, Violation
from evenhand.data_contracts.model import Contract

MAX_EXAMPLES = 5
MAX_EXAMPLE_LENGTH = 40


@dataclass(frozen=True, eq=False)
class CheckResult:
    """Outcome of checking one table.

    Attributes
    ----------
    success : bool
        True where the run may go on with the kept rows.
    rows, rows_kept : int
        Rows in the table, and rows that may be used.
    violations : tuple of Violation
        Empty on a clean table. With ``on_violation: quarantine`` a success can carry row violations.
    checks : list of dict
        One entry per expectation: column, expectation, success, unexpected_count, checked.
    contract_name, contract_version, contract_digest : str
        What was checked against.
    keep : ndarray of bool, shape (rows,)
        False for rows that break a row-level expectation or are dropped.
    quarantined : int
        Rows set aside for breaking an expectation.
    dropped : int
        Rows dropped by ``missing_sensitive: drop``; these are no violation.
    """

    success: bool
    rows: int
    rows_kept: int
    violations: tuple[Violation, ...]
    checks: list[dict[str, Any]]
    contract_name: str
    contract_version: str
    contract_digest: str
    keep: NDArray[np.bool_]
    quarantined: int = 0
    dropped: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return everything but the row mask as plain JSON types; no sensitive value is in it."""
        return {
            "success": self.success,
            "rows": self.rows,
            "rows_kept": self.rows_kept,
            "quarantined": self.quarantined,
            "dropped_missing_sensitive": self.dropped,
            "contract": {
                "name": self.contract_name,
                "version": self.contract_version,
                "digest": self.contract_digest,
            },
            "violations": [violation.to_dict() for violation in self.violations],
            "checks": [dict(check) for check in self.checks],
        }


def raise_for(result: CheckResult) -> None:
    """Raise :class:`ContractViolation` unless the result is a success."""
    if not result.success:
        raise ContractViolation(result.violations, result.contract_name)


class Findings:
    """Collects the checks of one table, then decides.

    Parameters
    ----------
    rows : int
        Rows of the table.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.bad = np.zeros(rows, dtype=bool)
        self.dropped = np.zeros(rows, dtype=bool)
        self.violations: list[Violation] = []
        self.checks: list[dict[str, Any]] = []

    def passed(self, column: str | None, expectation: str, checked: int) -> None:
        """Note a check that holds."""
        self.note(column, expectation, True, 0, checked)

    def failed(self, violation: Violation, checked: int, mask: NDArray[np.bool_] | None = None) -> None:
        """Note a check that does not hold; ``mask`` marks its rows, for row-level ones."""
        self.note(violation.column, violation.expectation, False, violation.count, checked)
        self.violations.append(violation)
        if mask is not None:
            self.bad |= mask

    def note(self, column: str | None, expectation: str, success: bool, count: int, checked: int) -> None:
        """Note a check without a violation of its own."""
        self.checks.append(
            {
                "column": column,
                "expectation": expectation,
                "success": success,
                "unexpected_count": int(count),
                "checked": int(checked),
            }
        )

    @property
    def keep(self) -> NDArray[np.bool_]:
        """Rows that no check has spoken against so far."""
        return ~(self.bad | self.dropped)

    def result(
        self,
        name: str,
        version: str,
        digest: str,
        *,
        on_violation: str = "stop",
        quarantine_share: float = 0.0,
    ) -> CheckResult:
        """Decide, by the contract's ``on_violation``."""
        quarantined = int((self.bad & ~self.dropped).sum())
        share = f"at most {quarantine_share:.1%} of the rows set aside"
        if on_violation == "quarantine" and self.rows:
            if quarantined > quarantine_share * self.rows + 1e-9:
                self.failed(
                    Violation(
                        None,
                        share,
                        quarantined,
                        (),
                        "mend the rows at their source, or raise quarantineShare in the contract",
                        "table",
                        f"{quarantined:,} of {self.rows:,} rows that break the contract",
                    ),
                    self.rows,
                )
            else:
                self.passed(None, share, self.rows)
        stops = [v for v in self.violations if on_violation == "stop" or v.scope == "table"]
        keep = self.keep
        return CheckResult(
            success=not stops,
            rows=self.rows,
            rows_kept=int(keep.sum()),
            violations=tuple(self.violations),
            checks=self.checks,
            contract_name=name,
            contract_version=version,
            contract_digest=digest,
            keep=keep,
            quarantined=quarantined,
            dropped=int(self.dropped.sum()),
        )

    def result_for(self, contract: Contract) -> CheckResult:
        """Decide under ``contract``."""
        return self.result(
            contract.name,
            contract.version,
            contract.digest,
            on_violation=contract.on_violation,
            quarantine_share=contract.quarantine_share,
        )
