"""Words that say which outcome people want, in English, German, French, Spanish and Italian.

Laws and guidelines compare how often groups get the *favourable* outcome. A label may well be about
the other one (``denied``, ``defaulted``), so its positive value alone does not say which is which.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

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
_DENIED = (
    "declin",
    "denial",
    "denied",
    "deny",
    "refus",
    "reject",
    "revok",
    "turned down",
    "unapprov",
    "waitlist",
)
_WITHDRAWN = ("cut", "reduced", "stopped", "withheld")
_SUSPECTED = ("audit", "flagged", "inspect", "investigat", "suspect")
_UNSUITED = ("disqualif", "ineligible", "poor", "redundan", "unfit", "unsuccess", "unsuitable")
_LOST_WORK = ("dismiss", "fired", "laid off", "layoff", "suspend", "terminat", "unemploy")
_LEFT = ("abandon", "attrition", "cut off", "drop out", "dropout", "dropped", "evict", "expel")
_FAILED = ("bad", "fail", "failed", "failure", "fails", "toxic", "withdrawn")
_CRIME = ("arrest", "convict", "detain", "fraud", "guilty", "incarcerat", "jail", "prison")
_REPEATED = ("offend", "readmi", "rearrest", "recid", "reoffen", "sanction", "violat")
_HARM = ("adverse", "dead", "death", "died", "harmed", "high risk", "injur", "mortality", "risky")
_ILLNESS = ("complication", "disease", "hospitali", "illness", "infect", "relaps", "sick", "stroke")
_PENALTY = ("penalt", "punish")
_GERMAN_ADVERSE = (
    "abgelehnt",
    "ablehnung",
    "absage",
    "ausfall",
    "betrug",
    "gekuendigt",
    "gekündigt",
    "krank",
    "kreditausfall",
    "kuendigung",
    "kündigung",
    "strafe",
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
    *_ILLNESS,
    *_PENALTY,
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
    "avoided",
    "averted",
    "overturned",
    "reversed",
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
ENGLISH_ANSWERS = {*_ENGLISH_YES, "0", "false", "no", "n", "f", "negative"}

PARTICIPLES = ("ed", "paid", "chosen", "taken", "sold", "given")
"""Endings of words that follow "are": approved, hired."""
SHORT_PARTICIPLES = ("won", "sent", "let")
"""Whole words that follow "are": "consent" is none."""

COMPARISONS = ("<", ">", "=", "at least ", "below ")
"""Starts of values that are comparisons: >50K."""


class WordedOutcome(NamedTuple):
    """Which of two values words name as the favourable outcome."""

    place: int  # 0 or 1: position of the favourable value
    reason: str  # such as ``'denied' reads as an adverse outcome``


def outcome_in_words(column: str, value: object) -> str:
    """Write a column's value for readers.

    Parameters
    ----------
    column : str
        Name of the column.
    value : object
        One of its values, or the value's name.

    Returns
    -------
    str
        ``credit_risk = good``; but ``income >50K``, whose value is a comparison, and ``hired``, a
        value with its column's name.

    Examples
    --------
    >>> outcome_in_words("credit_risk", "good"), outcome_in_words("hired", "Hired")
    ('credit_risk = good', 'Hired')
    """
    text = str(value)
    if isinstance(value, bool):
        text = text.lower()  # as contracts write it
    if text.replace("_", " ").lower() == column.replace("_", " ").lower():
        return text
    if text.startswith(COMPARISONS):
        return f"{column} {text}"
    return f"{column} = {text}"


def favourable_by_words(name: str, texts: Sequence[str]) -> WordedOutcome | None:
    """Infer which of a label's two values is the favourable outcome for a person.

    The values' own words decide ("granted", "charged off"). Where they only affirm or deny (1 and
    0, yes and no), the name of the column does ("denied", "hired").

    Parameters
    ----------
    name : str
        Name of the label's column; "" for none.
    texts : sequence of str
        Its two values as text.

    Returns
    -------
    WordedOutcome or None
        None where neither the values nor the name say it, or where they contradict each other.

    Examples
    --------
    >>> favourable_by_words("decision", ["denied", "approved"]).place
    1
    >>> favourable_by_words("default", ["0", "1"]).reason
    "the label's name 'default' reads as an adverse outcome"
    """
    if len(texts) != 2:
        return None
    outcome = _by_values(texts)
    if outcome is not None:
        return outcome
    affirmed = _affirmed(texts)
    tone = tone_of(name)
    if affirmed is None or tone == 0:
        return None
    if tone > 0:
        reason = f"the label's name {name!r} reads as a favourable outcome"
        return WordedOutcome(affirmed, reason)
    reason = f"the label's name {name!r} reads as an adverse outcome"
    return WordedOutcome(1 - affirmed, reason)


def _by_values(texts: Sequence[str]) -> WordedOutcome | None:
    """The favourable one of two values by their own words; None where these do not say it."""
    first_tone, second_tone = (tone_of(text) for text in texts)
    contrast = first_tone * second_tone < 0
    only_one_speaks = (first_tone == 0) != (second_tone == 0)
    if not contrast and not only_one_speaks:
        return None
    place = int(second_tone >= first_tone)
    if min(first_tone, second_tone) < 0:
        return WordedOutcome(place, f"{texts[1 - place]!r} reads as an adverse outcome")
    return WordedOutcome(place, f"{texts[place]!r} reads as a favourable outcome")


def _affirmed(texts: Sequence[str]) -> int | None:
    """Position of the value that affirms the column's name, where the other one denies it."""
    words = [text.strip().lower() for text in texts]
    for place in (0, 1):
        if words[place] in AFFIRMATIONS and words[1 - place] in DENIALS:
            return place
    return None


def is_participle(text: str) -> bool:
    """Say whether the last word can follow "are".

    Parameters
    ----------
    text : str
        A name of a column or value in words.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_participle("rejected"), is_participle("income")
    (True, False)
    """
    words = text.lower().split()
    if not words or not words[-1].isalpha() or words[-1].endswith("eed"):
        return False
    return words[-1] in SHORT_PARTICIPLES or words[-1].endswith(PARTICIPLES)


def tone_of(text: str) -> int:
    """Say whether words name an outcome that people want.

    With words of both kinds only a denial decides: a "benefit denied" is no benefit, but who is
    "selected for audit" may have been selected for anything.

    Parameters
    ----------
    text : str
        A value of a label, or the name of its column.

    Returns
    -------
    int
        1 for words of a favourable outcome, -1 for those of an adverse one, 0 for neither.
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
