"""Names of a table's columns, where the header has empty ones or one more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evenhand.tasks.errors import InputError

NUMBERED = "numbered"
"""The key `headers` of a table whose empty and repeated names get numbers."""
UNNAMED = "unnamed"


def column_name(name: str) -> str:
    """A column's name; pandas writes its index under an empty one, which a contract cannot
    describe.
    """
    if not name.strip():
        return UNNAMED
    return name


def numbered_names(names: Sequence[str]) -> list[str]:
    """Names of which none is empty and none occurs twice.

    The first of equal names stays, and the next ones get ``_2``, ``_3`` and so on behind them.
    """
    used_names = {column_name(name) for name in names}
    occurrences = Counter[str]()
    unique = []
    for name in map(column_name, names):
        occurrences[name] += 1
        numbered = name
        while occurrences[name] > 1:
            numbered = f"{name}_{occurrences[name]}"
            if numbered not in used_names:
                break
            occurrences[name] += 1
        used_names.add(numbered)
        unique.append(numbered)
    return unique


def names_twice(names: Sequence[str]) -> list[str]:
    """Names that occur more than once, sorted."""
    counts = Counter(names)
    return sorted(name for name, count in counts.items() if count > 1)


def check_unique(names: Sequence[str], where: str) -> None:
    """Raise `InputError` if a column name occurs more than once."""
    repeated = names_twice(names)
    if repeated:
        raise InputError(
            f"the column name {repeated[0]!r} occurs more than once in {where}: rename all but one."
        )


def headers_note(names: Sequence[str]) -> str | None:
    """Say which names of a header get numbers; None if none does."""
    unique = numbered_names(names)
    changes = []
    for place, (before, after) in enumerate(zip(names, unique, strict=True), start=1):
        if before.strip() and before != after:
            changes.append(f"column {place}, another {before!r}, is {after}")
        elif not before.strip():
            changes.append(f"column {place}, without a name, is {after}")
    if not changes:
        return None
    note = "; ".join(changes[:5])
    if len(changes) > 5:
        note += f"; and {len(changes) - 5} more"
    return note
