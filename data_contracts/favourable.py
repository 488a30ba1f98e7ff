"""Which value of a label is the favourable outcome for a person, inferred from words.

Laws and guidelines compare how often groups get the *favourable* outcome. A label may well be about
the other one (``denied``, ``defaulted``), so its positive value alone does not say which is which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from evenhand.data_contracts.column import Column, Value, value_text
from evenhand.fairlib.outcome_words import favourable_by_words, outcome_in_words


@dataclass(frozen=True)
class FavourableGuess:
    """The value of a label that is read as favourable, and why.

    Parameters
    ----------
    value : object
        One of the label's values.
    reason : str
        Such as ``'denied' reads as an adverse outcome``.
    """

    value: Any
    reason: str


def guess_favourable(name: str, values: Sequence[Any]) -> FavourableGuess | None:
    """Infer which of a label's two values is the favourable outcome for a person.

    The values' own words decide ("granted", "charged off"). Where they only affirm or deny (1 and
    0, yes and no), the name of the column does ("denied", "hired").

    Parameters
    ----------
    name : str
        Name of the label's column.
    values : sequence
        Its two values.

    Returns
    -------
    FavourableGuess or None
        None where neither the values nor the name say it, or where they contradict each other.
    """
    texts = [value_text(value) for value in values]
    outcome = favourable_by_words(name, texts)
    if outcome is None:
        return None
    return FavourableGuess(values[outcome.place], outcome.reason)


def guess_side(name: str) -> FavourableGuess | None:
    """Infer which side of a label's threshold is favourable, from the name of its column.

    Parameters
    ----------
    name : str
        Name of the label's column.

    Returns
    -------
    FavourableGuess or None
        Its value is ``at-least`` or ``below``; None where the name does not say it.

    Examples
    --------
    >>> guess_side("default_amount").value
    'below'
    """
    guess = guess_favourable(name, (0, 1))
    if guess is None:
        return None
    side = "at-least" if guess.value == 1 else "below"
    return replace(guess, value=side)


def describe_outcome(label: Column) -> dict[str, Any]:
    """Say which outcome of a label counts as favourable, as plain JSON types.

    Parameters
    ----------
    label : Column
        A label of two values.

    Returns
    -------
    dict
        ``column``; ``code``, 1 if the favourable outcome is the positive label, else 0;
        ``favourable`` and ``adverse``, the values as text, None where the contract does not list
        them; ``stated``, whether the contract says which one is favourable. If it does not, the
        positive one counts as favourable.
    """
    label = label.outcome
    favourable = label.favourable_value
    if favourable is None:
        adverse = label.positive
    else:
        unfavourable = [value for value in label.allowed or () if value != favourable]
        adverse = None
        if len(unfavourable) == 1:
            adverse = unfavourable[0]
        elif favourable != label.positive:
            adverse = label.positive
    return {
        "column": label.name,
        "code": label.favourable_code,
        "favourable": _text_of(favourable),
        "adverse": _text_of(adverse),
        "stated": label.states_favourable,
    }


def favourable_in_words(label: Column, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Write the favourable outcome as column and value, and whether the contract states it.

    Parameters
    ----------
    label : Column
        A label of two values.
    names : mapping of str to str
        Names of its values, by value as text, where codes have names.

    Returns
    -------
    str
        Such as ``denied = no`` or ``hired = 1 (taken, because the contract does not say)``.
    """
    outcome = describe_outcome(label)
    if outcome["favourable"] is None:
        adverse = names.get(outcome["adverse"], outcome["adverse"])
        return f"any value of {label.name} but {adverse}"
    value = names.get(outcome["favourable"], outcome["favourable"])
    text = outcome_in_words(label.name, value)
    if not outcome["stated"]:
        text += " (taken, because the contract does not say)"
    return text


def positive_meaning(column: str, value: str) -> str:
    """Say what the positive label means.

    Parameters
    ----------
    column : str
        Name of the label's column.
    value : str
        Its positive value as text.

    Returns
    -------
    str

    Examples
    --------
    >>> positive_meaning("credit_risk", "good")
    'positive means credit_risk = good'
    """
    return f"positive means {outcome_in_words(column, value)}"


def favourable_not_stated(label: Column) -> str:
    """Say that a contract does not name the favourable outcome, which one was taken, and the cure.

    Parameters
    ----------
    label : Column
        A label of two values.

    Returns
    -------
    str
        A sentence without its full stop.
    """
    choice = "..."
    if label.at_least is not None:
        choice = "at-least or below"
    assumed = outcome_in_words(label.name, _text_of(label.outcome.positive))
    return (
        f"the contract does not say which outcome of {label.name} is favourable: selection rates "
        f"and impact ratios are of {assumed}; to state it, give the label "
        f"{{property: favourable, value: {choice}}}"
    )


def _text_of(value: Value | None) -> str | None:
    if value is None:
        return None
    return value_text(value)
