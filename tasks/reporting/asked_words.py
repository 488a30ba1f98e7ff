"""What an agent asks, and of whom, in sentences."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.tasks.reporting import formats, words

__all__ = ["DIFFERENT", "asked_sentences", "guessed", "named"]

Json = Mapping[str, Any]

# Asked of nearly everybody, of hardly anybody; and a difference between people that is worth a word.
ALWAYS, NEVER, DIFFERENT = 0.95, 0.05, 0.1
# An AUC from which on a feature alone gives the group away; guessing has 0.5.
TELLING = 0.55
MOST_NAMES = 8

CRITERIA = {
    "demographic_parity": "the group must not show in what is known of all people",
    "equal_opportunity": "the group must not show in what is known of those with the positive outcome",
    "equalized_odds": "the group must not show in what is known, among people of either outcome",
}


def asked_sentences(acquisition: Json, interval: str) -> list[str]:
    """
    Say how much is asked, what of everybody, what of some, what of nobody, and what it gives away.

    Parameters
    ----------
    acquisition : mapping
        Content of ``acquisition.json``.
    interval : str
        Name of the intervals.

    Returns
    -------
    list of str
        Paragraphs, whose markup is kept.
    """
    groups = [group for group in acquisition["groups"] if group["allowed"]]
    told = [*_of_everybody(groups), *_of_some(groups), *_between_groups(groups), *_of_nobody(acquisition)]
    if acquisition["asked"]["mean"] == 0:
        told = []
    return [
        f"{_how_many(acquisition, len(groups), interval)} {_aim(acquisition)}",
        *_what_is_given_away(acquisition),
        *([" ".join(told)] if told else []),
    ]


def guessed(acquisition: Json) -> str:
    """Name what the adversary guesses."""
    return formats.join([words.attribute(name) for name in acquisition["attributes"]])


def named(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """List names for a paragraph, the last of many only counted."""
    listed = [_safe(name) for name in names[:most]]
    rest = len(names) - len(listed)
    return formats.join([*listed, f"{rest} more"] if rest else listed)


def _how_many(acquisition: Json, allowed: int, interval: str) -> str:
    asked = acquisition["asked"]
    if asked["mean"] is None:
        return f"It may ask for {formats.plural(allowed, 'feature')}; the test rows are too few to say more."
    if asked["mean"] == 0:
        return (
            f"Of {formats.plural(allowed, 'feature')} that it may ask for it asks <strong>none</strong>, of "
            "nobody: everybody gets the same answer."
        )
    ends = ""
    if asked["low"] is not None and asked["high"] is not None:
        ends = f" ({interval} {formats.interval(asked['low'], asked['high'])})"
    return (
        f"Of {formats.plural(allowed, 'feature')} that it may ask for, it asks a person "
        f"<strong>{formats.number(asked['mean'])}</strong> on average{ends}, one after another; each answer "
        "decides what is asked next, and when it is enough."
    )


def _aim(acquisition: Json) -> str:
    about = _persons(acquisition)
    criterion = CRITERIA.get(acquisition["criterion"])
    return (
        f"Its trade-off gamma is {acquisition['gamma']:g}: at 1 it asks for whatever helps to predict, at 0 "
        f"only for what tells nothing of {about}" + (f" ({criterion})." if criterion else ".")
    )


def _of_everybody(groups: Sequence[Json]) -> list[str]:
    found = [group for group in groups if group["share"] >= ALWAYS]
    return [f"It asks nearly everybody (at least {ALWAYS:.0%}) for {_names(found)}."] if found else []


def _of_some(groups: Sequence[Json]) -> list[str]:
    varying = [group for group in groups if group["varies_with"] is not None]
    if not varying:
        return []
    group = max(varying, key=lambda group: float(group["varies_with"]["spread"]))
    found = group["varies_with"]
    if found["spread"] < DIFFERENT:
        return [
            "Whom it asks depends little on their other answers: by no categorical feature does the share "
            f"who are asked for something differ by more than {formats.points(found['spread'])}."
        ]
    by, shares = _safe(found["feature"]), found["shares"]
    most, least = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
    return [
        f"Whom it asks differs most for {_safe(group['name'])}, by {by}: {formats.percent(shares[most])} of "
        f"those whose {by} is “{_safe(most)}”, and {formats.percent(shares[least])} where it is "
        f"“{_safe(least)}”."
    ]


def _between_groups(groups: Sequence[Json]) -> list[str]:
    """The largest difference between groups of one attribute, where it is worth a word."""
    found = []
    for group in groups:
        for attribute, values in group["by_group"].items():
            known = [(cell["share"], value) for value, cell in values.items() if cell is not None]
            if len(known) > 1:
                found.append((max(known), min(known), attribute, group["name"]))
    if not found:
        return []
    (high, most), (low, least), attribute, name = max(found, key=lambda item: item[0][0] - item[1][0])
    if high - low < DIFFERENT:
        return []
    return [
        f"By {_safe(words.attribute(attribute))} it differs most for {_safe(name)}: {formats.percent(high)} "
        f"of “{_safe(most)}” are asked, and {formats.percent(low)} of “{_safe(least)}”."
    ]


def _of_nobody(acquisition: Json) -> list[str]:
    never = [group for group in acquisition["groups"] if group["allowed"] and group["share"] <= NEVER]
    closed = [group["name"] for group in acquisition["groups"] if not group["allowed"]]
    sentences = []
    if never:
        sentences.append(f"It asks hardly anybody (at most {NEVER:.0%}) for {_names(never)}.")
        sentences += _why(never, _persons(acquisition))
    if closed:
        verbs = ("has", "is") if len(closed) == 1 else ("have", "are")
        sentences.append(
            f"It may not ask for {named(closed)}, which {verbs[0]} a single value in the training rows or "
            f"{verbs[1]} what must not be told."
        )
    return sentences


def _why(never: Sequence[Json], about: str) -> list[str]:
    """Why features may be left out: what the adversary guesses from each alone."""
    known = [group for group in never if group["adversary_auc"] is not None]
    telling = [group for group in known if group["adversary_auc"] >= TELLING]
    others = [group for group in known if group["adversary_auc"] < TELLING]
    sentences = []
    if telling:
        sentences.append(
            f"What gives {about} away alone is {_names(telling)} (the adversary’s AUC is {_range(telling)}): "
            "that may be why."
        )
    if others:
        verbs = ("tells", "adds") if len(others) == 1 else ("tell", "add")
        sentences.append(
            f"Alone, {_names(others)} {verbs[0]} little of {about} (AUC {_range(others)}), but perhaps "
            f"{verbs[1]} little to what is asked."
        )
    return sentences


def _persons(acquisition: Json) -> str:
    return f"a person’s {_safe(guessed(acquisition))}"


def _names(groups: Sequence[Json]) -> str:
    return named([group["name"] for group in groups])


def _range(groups: Sequence[Json]) -> str:
    """The adversary's AUC of one feature, or the least and the largest."""
    ends = [formats.number(end([group["adversary_auc"] for group in groups])) for end in (min, max)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _what_is_given_away(acquisition: Json) -> list[str]:
    asked, everything = (acquisition["auc"].get(name) or {} for name in ("acquired", "all"))
    if asked.get("adversary_auc") is None or everything.get("adversary_auc") is None:
        return []
    text = (
        f"A second network, the adversary, tries to guess {_persons(acquisition)}. From what is asked "
        f"it ranks people with an AUC of <strong>{formats.number(asked['adversary_auc'])}</strong>; from all "
        f"features it would reach <strong>{formats.number(everything['adversary_auc'])}</strong>, and "
        "guessing has 0.5."
    )
    if asked.get("classifier_auc") is not None and everything.get("classifier_auc") is not None:
        text += (
            f" The outcome itself is ranked with {formats.number(asked['classifier_auc'])} and "
            f"{formats.number(everything['classifier_auc'])}."
        )
    return [text]


def _safe(text: str) -> str:
    return html.escape(text, quote=False)
