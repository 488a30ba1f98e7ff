"""Which value of a label is the favourable outcome for a person, inferred from words.

Laws and guidelines compare how often groups get the *favourable* outcome. A label may well be about
the other one (``denied``, ``defaulted``), so its positive value alone does not say which is which.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from evenhand.data_contracts.column import Column, Value, value_text

_LOST_CREDIT = (
    "arrear",
    "bankrupt",
    "charged off",
    "chargeoff",
    "default",
    "delinquen",
    "foreclos",
)
_UNPAID = ("breach", "late", "loss", "lost", "missed", "overdue", "repossess", "unpaid")
_DENIED = ("declin", "denial", "denied", "deny", "refus", "reject", "revok", "turned down")
_WITHDRAWN = ("cut", "reduced", "stopped", "withheld")
_SUSPECTED = ("audit", "flagged", "inspect", "investigat", "suspect")
_UNSUITED = ("disqualif", "ineligible", "poor", "redundan", "unfit", "unsuccess", "unsuitable")
_LOST_WORK = ("dismiss", "fired", "laid off", "layoff", "suspend", "terminat", "unemploy")
_LEFT = ("abandon", "attrition", "cut off", "drop out", "dropout", "dropped", "evict", "expel")
_FAILED = ("bad", "fail", "failed", "failure", "fails", "toxic", "withdrawn")
_CRIME = ("arrest", "convict", "detain", "fraud", "guilty", "incarcerat", "jail", "prison")
_REPEATED = ("offend", "readmi", "rearrest", "recid", "reoffen", "sanction", "violat")
_HARM = ("adverse", "dead", "death", "died", "harmed", "high risk", "injur", "mortality", "risky")
_GERMAN_ADVERSE = (
    "abgelehnt",
    "ablehnung",
    "absage",
    "ausfall",
    "betrug",
    "gekuendigt",
    "gekündigt",
)
_GERMAN_DEFAULT = ("rückfall", "zahlungsausfall", "schlecht")
_FRENCH_ADVERSE = ("refusé", "rejeté")
_SPANISH_ADVERSE = ("rechazado", "denegado", "impago", "moroso")
_ITALIAN_ADVERSE = ("rifiutato", "respinto", "insolvente")
ADVERSE = (
    *_LOST_CREDIT,
    *_UNPAID,
    *_DENIED,
    *_WITHDRAWN,
    *_SUSPECTED,
    *_UNSUITED,
    *_LOST_WORK,
    *_LEFT,
    *_FAILED,
    *_CRIME,
    *_REPEATED,
    *_HARM,
    *_GERMAN_ADVERSE,
    *_GERMAN_DEFAULT,
    *_FRENCH_ADVERSE,
    *_SPANISH_ADVERSE,
    *_ITALIAN_ADVERSE,
)
"""Words that name an outcome which people do not want: whole ones of up to 4 letters, else
beginnings.
"""

_GRANTED = (
    "accept",
    "admit",
    "admission",
    "approv",
    "award",
    "benefit",
    "eligib",
    "enrol",
    "grant",
)
_HIRED = ("callback", "called back", "employed", "hire", "hired", "hiring", "interview", "invit")
_CHOSEN = ("offer", "offered", "promot", "qualified", "recommend", "selected", "shortlist")
_REPAID = ("fully paid", "funded", "paid", "reliable", "repaid", "repay", "solvent")
_SUCCEEDED = ("good", "graduat", "pass", "passed", "scholarship", "success", "suitable")
_SAFE = ("low risk", "parole", "recovered", "released", "retained", "surviv")
_GERMAN_FAVOURABLE = ("angenommen", "bewilligt", "eingestellt", "genehmigt", "zusage", "bezahlt")
_FRENCH_FAVOURABLE = ("accepté", "accordé", "admis")
_SPANISH_FAVOURABLE = ("aprobado", "aceptado", "concedido", "contratado")
_ITALIAN_FAVOURABLE = ("accettato", "approvato", "concesso")
FAVOURABLE = (
    *_GRANTED,
    *_HIRED,
    *_CHOSEN,
    *_REPAID,
    *_SUCCEEDED,
    *_SAFE,
    *_GERMAN_FAVOURABLE,
    *_FRENCH_FAVOURABLE,
    *_SPANISH_FAVOURABLE,
    *_ITALIAN_FAVOURABLE,
)
"""Words that name an outcome which people want, as `ADVERSE` has them."""

SHORT_WORD = 4
NEGATIONS = {
    "no",
    "free",
    "not",
    "non",
    "never",
    "without",
    "kein",
    "keine",
    "nicht",
    "pas",
    "sans",
    "sin",
}
_ENGLISH_YES = ("1", "true", "yes", "y", "t", "positive")
AFFIRMATIONS = {*_ENGLISH_YES, "ja", "j", "oui", "o", "sí", "si", "sim", "tak"}
DENIALS = {"0", "false", "no", "n", "f", "nein", "non", "não", "nao", "nie", "negative"}


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
    if len(values) != 2:
        return None
    guess = _guess_from_values(values)
    if guess is not None:
        return guess
    affirmed = _affirmed(values)
    tone = _tone(name)
    if affirmed is None or tone == 0:
        return None
    if tone > 0:
        return FavourableGuess(affirmed, f"the label's name {name!r} reads as a favourable outcome")
    denied = _other_of(values, affirmed)
    return FavourableGuess(denied, f"the label's name {name!r} reads as an adverse outcome")


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


def _guess_from_values(values: Sequence[Any]) -> FavourableGuess | None:
    """The favourable one of two values by their own words; None where these do not say it."""
    first_tone, second_tone = (_tone(value_text(value)) for value in values)
    contrast = first_tone * second_tone < 0
    only_one_speaks = (first_tone == 0) != (second_tone == 0)
    if not contrast and not only_one_speaks:
        return None
    favourable = values[0] if first_tone > second_tone else values[1]
    if min(first_tone, second_tone) < 0:
        adverse = _other_of(values, favourable)
        return FavourableGuess(favourable, f"{value_text(adverse)!r} reads as an adverse outcome")
    return FavourableGuess(favourable, f"{value_text(favourable)!r} reads as a favourable outcome")


def _other_of(values: Sequence[Any], value: Any) -> Any:
    """The one of two values that is not the given one."""
    if value == values[0]:
        return values[1]
    return values[0]


def _affirmed(values: Sequence[Any]) -> Any:
    """The value that affirms the column's name, where the other one denies it; else None."""
    for value, opposite in (values, values[::-1]):
        text = value_text(value).strip().lower()
        opposite_text = value_text(opposite).strip().lower()
        if text in AFFIRMATIONS and opposite_text in DENIALS:
            return value
    return None


def _tone(text: str) -> int:
    """1 for words of a favourable outcome, -1 for those of an adverse one, 0 for neither.

    With words of both kinds only a denial decides: a "benefit denied" is no benefit, but who is
    "selected for audit" may have been selected for anything.
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    words = re.sub(r"[\W_]+", " ", words).strip().lower()
    adverse = _names_one_of(words, ADVERSE)
    favourable = _names_one_of(words, FAVOURABLE)
    tone = 0
    if adverse and favourable:
        if _names_one_of(words, _DENIED):
            tone = -1
    elif adverse:
        tone = -1
    elif favourable:
        tone = 1
    negated = any(word in NEGATIONS for word in words.split())
    if negated:
        return -tone
    return tone


def _names_one_of(words: str, listed: Sequence[str]) -> bool:
    for entry in listed:
        ending = ""
        if len(entry) <= SHORT_WORD:
            ending = r"\b"
        if re.search(rf"\b{re.escape(entry)}{ending}", words):
            return True
    return False


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
    text = f"{label.name} = {value}"
    if not outcome["stated"]:
        text += " (taken, because the contract does not say)"
    return text


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
    assumed = f"{label.name} = {_text_of(label.outcome.positive)}"
    return (
        f"the contract does not say which outcome of {label.name} is favourable: selection rates "
        f"and impact ratios are of {assumed}; to state it, give the label "
        f"{{property: favourable, value: {choice}}}"
    )


def _text_of(value: Value | None) -> str | None:
    if value is None:
        return None
    return value_text(value)
