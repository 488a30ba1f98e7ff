"""What can go wrong with a contract, with the data under it, or with the checking itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


class ContractError(ValueError):
    """The contract itself is wrong: the file, a key, a value or a rule between columns."""


class CheckCrashed(RuntimeError):
    """A check could not be carried out, so nothing is known about the data."""


@dataclass(frozen=True)
class Violation:
    """One expectation that the data does not meet.

    Attributes
    ----------
    column : str or None
        Name of the column; None where the whole table is meant.
    expectation : str
        What was expected, in words that hold no value of a sensitive column.
    count : int
        Number of rows (or, for the table, of items) that fail.
    examples : tuple of str
        Up to five distinct offending values; always empty for sensitive and id columns.
    cure : str
        What to do about it.
    scope : str
        ``row`` where single rows can be set aside, ``table`` where they cannot.
    found : str
        What was found instead, again without values of sensitive columns.
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

    def __str__(self) -> str:
        where = "the table" if self.column is None else f"column '{self.column}'"
        shown = f" (for example {', '.join(self.examples)})" if self.examples else ""
        found = self.found or f"{self.count} that fail"
        return f"{where}: expected {self.expectation}, found {found}{shown}; {self.cure}"


class ContractViolation(ValueError):
    """The data breaks its contract.

    Parameters
    ----------
    violations : sequence of Violation
        At least one; the first is the one that the message names.
    contract : str, default=""
        Name of the contract, for the message.
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


def nearest(name: str, known: Iterable[object], count: int = 1) -> list[str]:
    """Return the names closest in spelling to ``name``, best first.

    Parameters
    ----------
    name : str
        What was written.
    known : iterable of object
        What could have been written.
    count : int, default=1
        How many to return at most.

    Returns
    -------
    list of str
        Possibly empty.
    """
    names = [str(item) for item in known]
    found = difflib.get_close_matches(str(name), names, n=count, cutoff=0.5)
    if not found:  # spelling in another case is the commonest slip, and difflib minds case
        lower = {item.lower(): item for item in names}
        found = [
            lower[item] for item in difflib.get_close_matches(str(name).lower(), lower, n=count, cutoff=0.5)
        ]
    return found


def did_you_mean(name: str, known: Iterable[object]) -> str:
    """Return ``"; did you mean 'x'?"``, or the list of known names where none is close."""
    names = [str(item) for item in known]
    found = nearest(name, names)
    if found:
        return f"; did you mean '{found[0]}'?"
    return f"; known: {', '.join(names)}" if names else ""
