"""Errors of a contract, of the data that it describes, and of the check itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


class ContractError(ValueError):
    """The contract is wrong: its file, a key, a value or a rule between columns."""


class CheckCrashed(RuntimeError):
    """A check could not be carried out, so that its outcome is unknown."""


@dataclass(frozen=True)
class Violation:
    """One expectation that the data does not meet."""

    column: str | None  # name of the column; None for the whole table
    expectation: str  # the expectation in words, without values of a sensitive column
    count: int  # number of rows (or, for the table, of items) that fail
    # up to five distinct offending values; always empty for sensitive and id columns
    examples: tuple[str, ...]
    cure: str  # how to correct the data or the contract
    # row if single rows can be set aside, table if they cannot
    scope: str = "row"
    found: str = ""  # the finding in words, without values of a sensitive column

    def to_dict(self) -> dict[str, Any]:
        """Return the violation as plain JSON types."""
        return {**asdict(self), "examples": list(self.examples)}

    def __str__(self) -> str:
        where = "the table" if self.column is None else f"column '{self.column}'"
        shown = f" (for example {', '.join(self.examples)})" if self.examples else ""
        found = self.found or f"{self.count} that fail"
        return f"{where}: expected {self.expectation}, found {found}{shown}; {self.cure}"


class ContractViolation(ValueError):
    """The data breaks its contract, named for the message; the message names the first of the
    violations.
    """

    def __init__(self, violations: Sequence[Violation], contract: str = "") -> None:
        if not violations:
            raise ValueError("violations is empty: a ContractViolation needs at least one")
        self.violations = tuple(violations)
        self.contract = contract
        rest = len(self.violations) - 1
        more = f" (and {rest} more violation{'s' if rest > 1 else ''})" if rest else ""
        name = f"contract '{contract}': " if contract else ""
        super().__init__(" ".join(f"{name}{self.violations[0]}{more}".split()))


def nearest(name: str, known: Iterable[object]) -> str | None:
    """Return the name closest in spelling to ``name``; None if all are far from it."""
    names = [str(item) for item in known]
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    if not close:  # difflib counts a letter in another case as wrong
        lower = {item.lower(): item for item in names}
        close = [
            lower[item]
            for item in difflib.get_close_matches(str(name).lower(), lower, n=1, cutoff=0.5)
        ]
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[object]) -> str:
    """Return ``"; did you mean 'x'?"``, or the list of known names if none is close."""
    names = [str(item) for item in known]
    if close := nearest(name, names):
        return f"; did you mean '{close}'?"
    return f"; known: {', '.join(names)}" if names else ""


def shorten(text: str, length: int) -> str:
    """Return ``text``, cut to ``length`` characters with dots at its end if it is longer."""
    return text if len(text) <= length else text[: length - 3] + "..."
