"""Descriptions that `init` wrote: notes about a table's values, which say nothing to people who are
asked for one.
"""

from __future__ import annotations

import re

_NOTES = (
    r"(?:Whole number|Number)\b.*, (?:two|[\d,]+) values\.",
    r"Category with [\d,]+ (?:values?|codes|others?)\b",
    r"Ordered category with [\d,]+ values",
    r"True or false(?:,|\.$)",
    r"Date: used as ",
    r"Sensitive: (?:its )?[\d,]+ groups",
    r"Ignored: ",
    r"Outcome to predict: ",
    r"Names people or places: rows with ",
)
_NOTE = re.compile("|".join(_NOTES))


def is_note_of_init(description: str) -> bool:
    """Say whether a column's description is one that `init` wrote.

    Parameters
    ----------
    description : str
        Of a column of a contract.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_note_of_init("Whole number, 46 values.")
    True
    >>> is_note_of_init("Number of children who live in the household")
    False
    """
    return _NOTE.match(description) is not None


def people_description(description: str) -> str:
    """Return a column's description; empty if `init` wrote it.

    Parameters
    ----------
    description : str
        Of a column of a contract.

    Returns
    -------
    str
    """
    return "" if is_note_of_init(description) else description
