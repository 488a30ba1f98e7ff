"""How a decision is named, and stated to the person whom it is about, in English and German.

A label may be a word (``approved``), or 1 and 0 under a column's name (``was_hired``), or a code
that says nothing to anybody (``A2``). A letter says "You were not hired." of the first two kinds,
and of the last only whether the decision is in the person's favour.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from evenhand.fairlib.outcome_words import (
    AFFIRMATIONS,
    DENIALS,
    ENGLISH_ANSWERS,
    is_participle,
)

_ENGLISH_AUXILIARIES = {"was", "were", "is", "are", "be", "been", "being", "has", "had", "got"}
_GERMAN_AUXILIARIES = {"wurde", "wurden", "wird", "werden", "worden", "ist", "war", "hat"}
AUXILIARIES = _ENGLISH_AUXILIARIES | _GERMAN_AUXILIARIES
"""Words of a column's name that a decision is named without: ``was_hired`` is "hired"."""

NEGATIONS = {"not", "nicht", "never"}
"""Words before a participle that turn it round."""

ANSWERS = AFFIRMATIONS | DENIALS
"""What follows the column's name where no participle makes a sentence: ``benefit: no``."""

_PARTICLES = ("off", "down", "back", "out", "in", "up")

_NAMES_OF_NOTHING = {
    "class",
    "decision",
    "entscheidung",
    "ergebnis",
    "klasse",
    "label",
    "outcome",
    "prediction",
    "result",
    "response",
    "target",
    "ziel",
}
_GRADES = {"good", "bad", "positive", "negative", "gut", "schlecht", "positiv", "negativ"}
"""Names that judge the person where a letter should say what was decided."""

_CODE = re.compile(r"[a-z]{0,2}[\W_]*\d[\d.,]*|[a-z]", re.IGNORECASE)


class Participle(NamedTuple):
    """What happens to a person or to an application, in both languages."""

    english: str
    german: str
    is_about_person: bool = False

    def in_language(self, language: str) -> str:
        """The word of a language: ``en`` or ``de``."""
        return self.german if language == "de" else self.english


_OF_PEOPLE = (
    Participle("hired", "eingestellt", True),
    Participle("employed", "eingestellt", True),
    Participle("admitted", "zugelassen", True),
    Participle("enrolled", "aufgenommen", True),
    Participle("invited", "eingeladen", True),
    Participle("called back", "eingeladen", True),
    Participle("interviewed", "eingeladen", True),
    Participle("selected", "ausgewählt", True),
    Participle("chosen", "ausgewählt", True),
    Participle("shortlisted", "ausgewählt", True),
    Participle("promoted", "befördert", True),
)
_OF_APPLICATIONS = (
    Participle("approved", "genehmigt"),
    Participle("granted", "bewilligt"),
    Participle("accepted", "angenommen"),
    Participle("rejected", "abgelehnt"),
    Participle("denied", "abgelehnt"),
    Participle("declined", "abgelehnt"),
    Participle("refused", "abgelehnt"),
    Participle("turned down", "abgelehnt"),
)
PARTICIPLES = (*_OF_PEOPLE, *_OF_APPLICATIONS)
"""Decisions that a letter says in a sentence."""


class SaidDecision(NamedTuple):
    """A decision for the person's letter.

    - `shown`: its name in the letter's language; empty for a code or grade such as "bad", which no
      letter shows
    - `participle`: the word of its sentence; empty without one
    - `is_negated`: whether the sentence says that it did not happen
    - `subject`: ``person``, ``application``, or what the column names, such as ``loan``
    """

    shown: str
    participle: str = ""
    is_negated: bool = False
    subject: str = ""


def decision_words(column: str, value: str) -> str:
    """Name a decision: by its value, or by its column too where the value only affirms or denies.

    Parameters
    ----------
    column : str
        Name of the label's column.
    value : str
        The label as text.

    Returns
    -------
    str

    Examples
    --------
    >>> decision_words("was_hired", "1"), decision_words("loan_approved", "0")
    ('hired', 'loan not approved')
    >>> decision_words("gets_benefit", "N"), decision_words("credit", "bad")
    ('gets benefit: no', 'bad')
    >>> decision_words("Dispo gekündigt", "nein")
    'Dispo gekündigt: nein'
    """
    word = value.strip().lower()
    if word not in AFFIRMATIONS and word not in DENIALS:
        return value
    happened = word in AFFIRMATIONS
    parts = _parts_of(column)
    if parts is None:
        spoken = column.replace("_", " ").strip()
        if word not in ENGLISH_ANSWERS:
            # a word of another language stays as it is, next to a column of that language
            return f"{spoken}: {value.strip()}"
        return f"{spoken}: yes" if happened else f"{spoken}: no"
    is_negated = parts.is_negated == happened
    negation = _negation_of(parts.participle) if is_negated else ""
    words = [parts.subject, negation, parts.participle]
    return " ".join(word for word in words if word)


def said_decision(column: str, shown: str, language: str) -> SaidDecision:
    """Find the words in which a letter says a decision.

    Parameters
    ----------
    column : str
        Name of the label's column; "" if it is not known.
    shown : str
        The decision as `decision_words` or the contract names it.
    language : str
        ``en`` or ``de``.

    Returns
    -------
    SaidDecision

    Examples
    --------
    >>> said_decision("was_hired", "not hired", "de")
    SaidDecision(shown='nicht eingestellt', participle='eingestellt', is_negated=True, \
subject='person')
    >>> said_decision("target", "target: yes", "en").shown
    ''
    """
    if is_code(column, shown) or shown.strip().lower() in _GRADES:
        return SaidDecision("")
    parts = _parts_of(shown)
    if parts is None:
        return SaidDecision(_answered_in(language, shown))
    listed = _known_participle(parts.participle)
    if listed is None:
        return SaidDecision(shown)
    participle = listed.in_language(language)
    negation = _negation_in(language) if parts.is_negated else ""
    phrase = " ".join(word for word in (negation, participle) if word)
    if not parts.subject:
        subject = "person" if listed.is_about_person else "application"
        return SaidDecision(phrase, participle, parts.is_negated, subject)
    is_of_language = parts.participle == participle
    if not is_of_language:
        return SaidDecision("")
    if not listed.is_about_person:
        return SaidDecision(shown, participle, parts.is_negated, parts.subject)
    return SaidDecision(shown)


def is_code(column: str, shown: str) -> bool:
    """Say whether the name of a decision means nothing to a person.

    Parameters
    ----------
    column : str
        Name of the label's column.
    shown : str
        The decision as it is named.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_code("y", "1"), is_code("grade", "A2"), is_code("label", "label: no")
    (True, True, True)
    >>> is_code("credit", "bad"), is_code("gets_benefit", "gets benefit: no")
    (False, False)
    """
    text = shown.strip().lower()
    if _CODE.fullmatch(text) or text in AFFIRMATIONS or text in DENIALS:
        return True
    subject, colon, answer = text.rpartition(": ")
    if not colon or answer not in ANSWERS or subject != column.replace("_", " ").lower():
        return False
    last = subject.split()[-1] if subject else ""
    return last in _NAMES_OF_NOTHING or bool(_CODE.fullmatch(subject))


def is_negation(shown: str, other: str) -> bool:
    """Say whether one decision's name only denies the other.

    Parameters
    ----------
    shown, other : str
        Names of the two decisions.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_negation("not hired", "hired"), is_negation("benefit: no", "benefit: yes")
    (True, True)
    >>> is_negation("bad", "good")
    False
    """
    if _without_answer(shown) and _without_answer(shown) == _without_answer(other):
        return True
    first = shown.lower().split()
    second = other.lower().split()
    plain_first = [word for word in first if word not in NEGATIONS]
    plain_second = [word for word in second if word not in NEGATIONS]
    return plain_first == plain_second and len(first) != len(second)


def _answered_in(language: str, shown: str) -> str:
    """``name: yes`` with the answer in a language."""
    name, colon, answer = shown.rpartition(": ")
    answers = {"yes": "ja", "no": "nein"}
    if language != "de" or not colon or answer not in answers:
        return shown
    return f"{name}: {answers[answer]}"


def _without_answer(shown: str) -> str:
    """The name of ``name: yes`` and ``name: nein``; empty for others."""
    name, colon, answer = shown.lower().rpartition(": ")
    return name if colon and answer in ANSWERS else ""


class _Parts(NamedTuple):
    subject: str
    participle: str
    is_negated: bool


def _parts_of(text: str) -> _Parts | None:
    """What comes before a participle, the participle, and whether it is negated.

    None for a text that does not end with one.
    """
    words = re.sub(r"(?<=[a-zäöü])(?=[A-ZÄÖÜ])", " ", text).replace("_", " ").split()
    words = [word for word in words if word.lower() not in AUXILIARIES]
    if not words:
        return None
    length = 1
    if len(words) > 1 and words[-1].lower() in _PARTICLES:
        length = 2
    if len(words) > length and words[-length - 1].lower().endswith("ly"):
        length += 1
    participle = " ".join(words[-length:]).lower()
    if not _is_participle(participle):
        return None
    before = words[:-length]
    negations = [word for word in before if word.lower() in NEGATIONS]
    subject = " ".join(word for word in before if word.lower() not in NEGATIONS)
    return _Parts(subject, participle, len(negations) % 2 == 1)


def _is_participle(words: str) -> bool:
    if any(words == entry.german for entry in PARTICIPLES):
        return True
    parts = words.split()
    if parts[-1] in _PARTICLES:
        parts = parts[:-1]
    return bool(parts) and is_participle(parts[-1])


def _is_german(participle: str) -> bool:
    return any(participle == entry.german for entry in PARTICIPLES)


def _negation_of(participle: str) -> str:
    return "nicht" if _is_german(participle) else "not"


def _negation_in(language: str) -> str:
    return "nicht" if language == "de" else "not"


def _known_participle(word: str) -> Participle | None:
    for entry in PARTICIPLES:
        # several English words stand for one German one: the first is the plainest
        if word in (entry.english, entry.german):
            return entry
    return None
