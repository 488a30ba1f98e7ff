"""The fixed sentences of the letter to the person, by language.

Reasons and names of values have their own texts in the contract.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.fairlib.decision_words import SaidDecision, is_code, is_negation, said_decision

FALLBACK = "en"


@dataclass(frozen=True)
class LetterTexts:
    """Sentences of the letter in one language; braces are places for values."""

    language: str
    day: str  # format of a date
    title: str
    note: str
    sensitive_note: str
    language_note: str
    address: str
    heading: str
    greeting: str
    name: str
    plain_heading: str  # of a decision whose name says nothing to people
    decided: str
    decision: str
    of_person: str
    not_of_person: str
    of_application: str
    not_of_application: str
    of_subject: str
    not_of_subject: str
    in_favour: str
    not_in_favour: str
    not_favourable: str
    by_program: str
    why: str
    reasons: str
    own_value: str
    recourse: str
    recourse_lead: str
    step: str
    no_promise: str
    rights: str
    right_to_data: str
    right_to_review: str
    right_to_object: str
    contact: str
    contact_place: str
    closing: str
    signature: str

    def shown_day(self, day: str) -> str:
        """A date of ISO 8601 as people of this language write it."""
        return datetime.date.fromisoformat(day).strftime(self.day)

    def heading_of(self, decision: Mapping[str, Any]) -> str:
        """The letter's heading: the decision, if its name says something to people."""
        wording = self._said(decision)
        if not wording.shown:
            return self.plain_heading
        return self.heading.format(shown=wording.shown)

    def sentences_of(self, decision: Mapping[str, Any]) -> list[str]:
        """What was decided, in one or two sentences that say it once.

        A decision that is a code is not shown: the letter says whether it is in the person's
        favour.
        """
        wording = self._said(decision)
        if wording.participle:
            return [self._sentence_of(wording)]
        favourable = bool(decision["favourable"])
        if not wording.shown:
            return [self.in_favour if favourable else self.not_in_favour]
        sentences = [self.decision.format(shown=wording.shown)]
        other = str(decision["favourable_outcome"])
        is_said = is_negation(str(decision["shown"]), other) or is_code(_label(decision), other)
        if not favourable and not is_said:
            sentences.append(self.not_favourable.format(favourable=other))
        return sentences

    def _said(self, decision: Mapping[str, Any]) -> SaidDecision:
        return said_decision(_label(decision), str(decision["shown"]), self.language)

    def _sentence_of(self, wording: SaidDecision) -> str:
        forms = {
            ("person", False): self.of_person,
            ("person", True): self.not_of_person,
            ("application", False): self.of_application,
            ("application", True): self.not_of_application,
        }
        other_form = self.not_of_subject if wording.is_negated else self.of_subject
        form = forms.get((wording.subject, wording.is_negated), other_form)
        subject = wording.subject
        if form.startswith("{subject}"):
            subject = subject[:1].upper() + subject[1:]
        return form.format(subject=subject, participle=wording.participle)


def _label(decision: Mapping[str, Any]) -> str:
    return str(decision.get("label", ""))


ENGLISH = LetterTexts(
    language="en",
    day="%Y-%m-%d",
    title="Letter about the decision of {day}",
    note=(
        "Before you send this letter: fill in the marked places, and add the notice that the law "
        "in your place asks for. Evenhand does not know which law that is. This note is not "
        "printed."
    ),
    sensitive_note=(
        "{column} is a sensitive attribute and a principal reason: have the decision reviewed "
        "before you send the letter."
    ),
    language_note=(
        "These reasons are in another language than the letter: {reasons}. Translate them before "
        "you send it."
    ),
    address="[Name and address of the person]",
    heading="Our decision: {shown}",
    greeting="Dear",
    name="[name]",
    plain_heading="Our decision",
    decided="we decided about your application.",
    decision="The decision is “{shown}”.",
    of_person="You were {participle}.",
    not_of_person="You were not {participle}.",
    of_application="Your application was {participle}.",
    not_of_application="Your application was not {participle}.",
    of_subject="Your {subject} was {participle}.",
    not_of_subject="Your {subject} was not {participle}.",
    in_favour="The decision is in your favour.",
    not_in_favour="The decision is not in your favour.",
    not_favourable="You did not get “{favourable}”.",
    by_program="A computer program helped to make this decision.",
    why="Why",
    reasons="These were the main reasons, the most important one first:",
    own_value="(your value: {value})",
    recourse="What would have changed the decision",
    recourse_lead="With these values the same program would have decided in your favour:",
    step="{name}: {after} instead of {before}",
    no_promise="This is about the decision of {day}. It is no promise about a later one.",
    rights="What you can do",
    right_to_data=(
        "You can ask which data about you were used, and have wrong data corrected. Then we decide "
        "again."
    ),
    right_to_review="You can ask that a person looks at the decision.",
    right_to_object="You can tell us why you disagree.",
    contact="Write to {place} and give the number {case}.",
    contact_place="[address, telephone, e-mail]",
    closing="Yours sincerely,",
    signature="[name and organisation]",
)
GERMAN = LetterTexts(
    language="de",
    day="%d.%m.%Y",
    title="Brief zur Entscheidung vom {day}",
    note=(
        "Bevor Sie diesen Brief senden: Füllen Sie die markierten Stellen aus, und ergänzen Sie "
        "die Hinweise, die das Recht bei Ihnen verlangt. Evenhand weiß nicht, welches Recht gilt. "
        "Dieser Hinweis wird nicht gedruckt."
    ),
    sensitive_note=(
        "{column} ist ein sensibles Merkmal und ein Hauptgrund: Lassen Sie die Entscheidung "
        "prüfen, bevor Sie den Brief senden."
    ),
    language_note=(
        "Diese Gründe sind in einer anderen Sprache als der Brief: {reasons}. Übersetzen Sie sie, "
        "bevor Sie ihn senden."
    ),
    address="[Name und Anschrift der Person]",
    heading="Unsere Entscheidung: {shown}",
    greeting="Guten Tag",
    name="[Name]",
    plain_heading="Unsere Entscheidung",
    decided="wir haben über Ihren Antrag entschieden.",
    decision="Die Entscheidung lautet: „{shown}“.",
    of_person="Sie wurden {participle}.",
    not_of_person="Sie wurden nicht {participle}.",
    of_application="Ihr Antrag wurde {participle}.",
    not_of_application="Ihr Antrag wurde nicht {participle}.",
    of_subject="{subject}: {participle}.",
    not_of_subject="{subject}: nicht {participle}.",
    in_favour="Die Entscheidung ist zu Ihren Gunsten.",
    not_in_favour="Die Entscheidung ist nicht zu Ihren Gunsten.",
    not_favourable="Das Ergebnis „{favourable}“ haben Sie nicht erhalten.",
    by_program="Ein Computerprogramm hat bei dieser Entscheidung geholfen.",
    why="Warum",
    reasons="Das waren die wichtigsten Gründe, der wichtigste zuerst:",
    own_value="(Ihr Wert: {value})",
    recourse="Was die Entscheidung geändert hätte",
    recourse_lead="Mit diesen Werten hätte dasselbe Programm zu Ihren Gunsten entschieden:",
    step="{name}: {after} statt {before}",
    no_promise=(
        "Das gilt für die Entscheidung vom {day}. Es ist kein Versprechen für eine spätere."
    ),
    rights="Was Sie tun können",
    right_to_data=(
        "Sie können fragen, welche Daten über Sie verwendet wurden, und falsche Daten berichtigen "
        "lassen. Dann entscheiden wir neu."
    ),
    right_to_review="Sie können verlangen, dass ein Mensch die Entscheidung prüft.",
    right_to_object="Sie können uns sagen, warum Sie anderer Meinung sind.",
    contact="Schreiben Sie an {place} und nennen Sie die Nummer {case}.",
    contact_place="[Anschrift, Telefon, E-Mail]",
    closing="Mit freundlichen Grüßen",
    signature="[Name und Organisation]",
)
LANGUAGES = {texts.language: texts for texts in (ENGLISH, GERMAN)}
"""Languages that the letter is written in, by their code."""


def primary(language: str) -> str:
    """The language of a code that may name a region too: ``de`` of ``de-AT``."""
    return language.replace("_", "-").partition("-")[0].lower()


def letter_texts(language: str) -> LetterTexts:
    """The texts of a language, or English for one that has none."""
    return LANGUAGES.get(primary(language), LANGUAGES[FALLBACK])
