"""Which value of a label is the favourable outcome for a person, inferred from words.

Laws and guidelines compare how often groups get the *favourable* outcome. A label may well be about
the other one (``denied``, ``defaulted``), so its positive value alone does not say which is which.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from evenhand.data_contracts.column import Column, Value, value_text

ADVERSE = (
    "abandon", "adverse", "arrear", "arrest", "attrition", "bad", "bankrupt", "breach", "charged off",
    "chargeoff", "convict", "cut off", "dead", "death", "declin", "default", "delinquen", "denial", "denied",
    "deny", "detain", "died", "dismiss", "disqualif", "drop out", "dropout", "dropped", "evict", "expel",
    "fail", "failed", "failure", "fails", "fired", "foreclos", "fraud", "guilty", "harmed", "high risk",
    "incarcerat", "ineligible", "injur", "jail", "laid off", "late", "layoff", "loss", "lost", "missed",
    "mortality", "offend", "overdue", "poor", "prison", "readmi", "rearrest", "recid", "redundan", "refus",
    "reject", "reoffen", "repossess", "revok", "risky", "sanction", "suspend", "terminat", "toxic",
    "turned down", "unemploy", "unfit", "unpaid", "unsuccess", "unsuitable", "violat", "withdrawn",
    # German, French, Spanish, Italian
    "abgelehnt", "ablehnung", "absage", "ausfall", "betrug", "gekuendigt", "gekündigt", "rückfall",
    "zahlungsausfall", "schlecht", "refusé", "rejeté", "rechazado", "denegado", "impago", "moroso",
    "rifiutato", "respinto", "insolvente",
)  # fmt: skip
"""Words that name an outcome which people do not want: whole ones of up to 4 letters, else
beginnings.
"""

FAVOURABLE = (
    "accept", "admit", "admission", "approv", "award", "benefit", "callback", "called back", "eligib",
    "employed", "enrol", "fully paid", "funded", "good", "graduat", "grant", "hire", "hired", "hiring",
    "interview", "invit", "low risk", "offer", "offered", "paid", "parole", "pass", "passed", "promot",
    "qualified", "recommend", "recovered", "released", "reliable", "repaid", "repay", "retained",
    "scholarship", "selected", "shortlist", "solvent", "success", "suitable", "surviv",
    # German, French, Spanish, Italian
    "angenommen", "bewilligt", "eingestellt", "genehmigt", "zusage", "bezahlt", "accepté", "accordé",
    "admis", "aprobado", "aceptado", "concedido", "contratado", "accettato", "approvato", "concesso",
)  # fmt: skip
"""Words that name an outcome which people want, as `ADVERSE` has them."""

SHORT_WORD = 4
NEGATIONS = {"no", "not", "non", "never", "without", "kein", "keine", "nicht", "pas", "sans", "sin"}
AFFIRMATIONS = {
    "1",
    "true",
    "yes",
    "y",
    "t",
    "ja",
    "j",
    "oui",
    "o",
    "sí",
    "si",
    "sim",
    "tak",
    "positive",
}
DENIALS = {"0", "false", "no", "n", "f", "nein", "non", "não", "nao", "nie", "negative"}


@dataclass(frozen=True)
class FavourableGuess:
    """The value of a label that is read as favourable, and why."""

    value: Any  # one of the label's values
    reason: str  # such as "'denied' reads as an adverse outcome"


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
    first, second = values
    tones = [_tone(value_text(value)) for value in values]
    if tones[0] * tones[1] < 0 or (tones[0] == 0) != (tones[1] == 0):
        favourable = first if tones[0] > tones[1] else second
        adverse = second if favourable == first else first
        if min(tones) < 0:
            return FavourableGuess(
                favourable, f"{value_text(adverse)!r} reads as an adverse outcome"
            )
        return FavourableGuess(
            favourable, f"{value_text(favourable)!r} reads as a favourable outcome"
        )
    affirmed = _affirmed(values)
    tone = _tone(name)
    if affirmed is None or tone == 0:
        return None
    denied = second if affirmed == first else first
    kind = "a favourable" if tone > 0 else "an adverse"
    return FavourableGuess(
        affirmed if tone > 0 else denied, f"the label's name {name!r} reads as {kind} outcome"
    )


def _affirmed(values: Sequence[Any]) -> Any:
    """The value that says that what the column's name says is so; None where the values say
    neither.
    """
    for value, other in (values, values[::-1]):
        text = value_text(value).strip().lower()
        other_text = value_text(other).strip().lower()
        if text in AFFIRMATIONS and other_text in DENIALS:
            return value
    return None


def _tone(text: str) -> int:
    """1 for words of a favourable outcome, -1 for those of an adverse one, 0 for neither.

    With words of both kinds the adverse ones decide: a "benefit denied" is no benefit.
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    words = re.sub(r"[\W_]+", " ", words).strip().lower()
    tone = 0
    if _names_one_of(words, ADVERSE):
        tone = -1
    elif _names_one_of(words, FAVOURABLE):
        tone = 1
    negated = any(word in NEGATIONS for word in words.split())
    return -tone if negated else tone


def _names_one_of(words: str, listed: Sequence[str]) -> bool:
    for entry in listed:
        ending = r"\b" if len(entry) <= SHORT_WORD else ""
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
    favourable = label.favourable_value
    if favourable is None:
        adverse = label.positive
    else:
        others = [value for value in label.allowed or () if value != favourable]
        adverse = others[0] if len(others) == 1 else None
        if adverse is None and favourable != label.positive:
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
    shown = f"{label.name} = {names.get(outcome['favourable'], outcome['favourable'])}"
    return shown if outcome["stated"] else f"{shown} (taken, because the contract does not say)"


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
    taken = f"{label.name} = {_text_of(label.positive)}"
    return (
        f"the contract does not say which outcome of {label.name} is favourable: selection rates "
        "and impact "
        f"ratios are of {taken}; to state it, give the label {{property: favourable, value: ...}}"
    )


def _text_of(value: Value | None) -> str | None:
    return None if value is None else value_text(value)
