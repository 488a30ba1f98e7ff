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
    """One expectation that the data does not meet.

    Parameters
    ----------
    column : str or None
        Name of the column; None for the whole table.
    expectation : str
        The expectation in words, without values of a sensitive column.
    count : int
        Number of rows (or, for the table, of items) that fail.
    examples : tuple of str
        Up to five distinct offending values; always empty for sensitive and id columns.
    cure : str
        How to correct the data or the contract.
    scope : {"row", "table"}, default "row"
        ``row`` if single rows can be set aside, ``table`` if they cannot.
    found : str, default ""
        The finding in words, without values of a sensitive column.
    """

    column: str | None
    expectation: str
    count: int
    examples: tuple[str, ...]
    cure: str
    scope: str = "row"
    found: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the violation as plain JSON types."""
        return {**asdict(self), "examples": list(self.examples)}

    @property
    def subject(self) -> str:
        """What is wrong, in words."""
        return "the table" if self.column is None else f"column '{self.column}'"

    def __str__(self) -> str:
        subject = self.subject
        finding = self.found or f"{self.count} that fail"
        if self.examples:
            finding += f" (for example {', '.join(self.examples)})"
        return f"{subject}: expected {self.expectation}, found {finding}; {self.cure}"


# Violations that a message names after the first one.
MOST_NAMED = 12


class ContractViolation(ValueError):
    """The data breaks its contract; the message says what is wrong with the first violation, and
    names the others.

    Parameters
    ----------
    violations : sequence of Violation
        At least one.
    contract : str, default ""
        Name of the contract, for the message.
    """

    def __init__(self, violations: Sequence[Violation], contract: str = "") -> None:
        if not violations:
            raise ValueError("violations is empty: a ContractViolation needs at least one")
        self.violations = tuple(violations)
        self.contract = contract
        message = str(self.violations[0])
        if contract:
            message = f"contract '{contract}': {message}"
        more = len(self.violations) - 1
        if more:
            plural = ""
            if more > 1:
                plural = "s"
            message += f" (and {more} more violation{plural}{self._others()})"
        super().__init__(" ".join(message.split()))

    def _others(self) -> str:
        """``: column 'job' (1 of 600 rows with another value), …`` of all but the first one."""
        first, *further = self.violations
        descriptions = []
        for violation in further:
            if violation.subject == first.subject:
                continue
            found_instead = f" ({violation.found})" if violation.found else ""
            descriptions.append(violation.subject + found_instead)
        if not descriptions:
            return ""
        listed = ", ".join(descriptions[:MOST_NAMED])
        dots = ", …" if len(descriptions) > MOST_NAMED else ""
        return f": {listed}{dots}"


# A column is taken for a misspelt one only if its name is at least so alike.
RENAMED = 0.7


def nearest(name: str, known: Iterable[object], *, likeness: float = 0.5) -> str | None:
    """Return the name closest in spelling to ``name``; None if all are far from it.

    Parameters
    ----------
    name : str
        A name that may be misspelled.
    known : iterable
        The names that exist; they are read as text.
    likeness : float, default 0.5
        The least share of letters in the same order, from 0 to 1, that makes a name close.

    Returns
    -------
    str or None
    """
    names = [str(item) for item in known]
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=likeness)
    if close:
        return close[0]
    # difflib counts a letter in another case as wrong
    by_lower_case = {item.lower(): item for item in names}
    close = difflib.get_close_matches(str(name).lower(), by_lower_case, n=1, cutoff=likeness)
    if close:
        return by_lower_case[close[0]]
    return None


def did_you_mean(name: str, known: Iterable[object]) -> str:
    """Return ``"; did you mean 'x'?"``, or the list of known names if none is close.

    Parameters
    ----------
    name : str
        A name that is not known.
    known : iterable
        The names that exist.

    Returns
    -------
    str
        The end of a message; empty if no name is known.
    """
    names = [str(item) for item in known]
    close = nearest(name, names)
    if close:
        return f"; did you mean '{close}'?"
    if names:
        return f"; known: {', '.join(names)}"
    return ""


def shorten(text: str, length: int) -> str:
    """Return ``text``, cut to ``length`` characters with dots at its end if it is longer.

    Parameters
    ----------
    text : str
        Text of any length.
    length : int
        Largest number of characters, at least 3.

    Returns
    -------
    str
    """
    if len(text) <= length:
        return text
    return text[: length - 3] + "..."
