"""Which methods are better or worse than the reference in what, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.tasks.reporting import formats, words

__all__ = ["explained", "method_sentences", "no_test", "short_verdict"]

Json = Mapping[str, Any]

SHORT = {"not significant": "n.s."}
FINDINGS = ("better", "worse")


def no_test(document: Json) -> bool:
    """Whether there is one split only, so that nothing can be tested."""
    return bool(document["comparison"]["splits"] < 2)


def short_verdict(document: Json, entry: Json, name: str) -> str:
    """Give the verdict of one test as a mark; nothing for the reference itself."""
    if entry["against"] is None:
        return ""
    verdict = entry["tests"][name]["verdict"]
    return SHORT.get(verdict, verdict)


def method_sentences(document: Json) -> str:
    """
    Say in one paragraph what is significantly better or worse than the reference method, and in what.

    Parameters
    ----------
    document : mapping
        Content of ``tradeoff.json`` with a `comparison`.
    """
    comparison = document["comparison"]
    others = [entry for entry in comparison["values"] if entry["against"] is not None]
    against = f"{comparison['reference']}, the reference"
    if any(len(value["settings"]) > 1 for value in document["values"]):
        against += ", at the same values of the other keys"
    if no_test(document):
        return (
            f"One split: no test. The differences from {against}, may come from the split alone; sweep over "
            "several seeds to tell."
        )
    sentences, even, untested = [], [], []
    for entry in others:
        label = document["values"][entry["value"]]["label"]
        verdicts = {test["verdict"] for test in entry["tests"].values()}
        if not verdicts.isdisjoint(FINDINGS):
            sentences.append(f"{label} is {_found(entry['tests'])}.")
        elif "not significant" in verdicts:
            even.append(label)
        else:
            untested.append(label)
    if even:
        sentences.append(f"No significant difference was found for {formats.join(even)}.")
    if untested:
        sentences.append(f"Nothing could be tested for {formats.join(untested)}.")
    splits = f"the same {comparison['splits']} splits"
    return f"Compared with {against}, on {splits}: {' '.join(sentences)}"


def _found(tests: Json) -> str:
    """The measures in which a value is better, and those in which it is worse."""
    parts = []
    for verdict in FINDINGS:
        names = [_within(words.metric_phrase(name)) for name, t in tests.items() if t["verdict"] == verdict]
        if names:
            parts.append(f"significantly {verdict} in {formats.join(names)}")
    return ", and ".join(parts)


def _within(phrase: str) -> str:
    return phrase[0].lower() + phrase[1:]


def explained(document: Json) -> str:
    """Say what bars, whiskers and marks are, and how differences were tested."""
    comparison = document["comparison"]
    seeds = comparison["splits"]
    if no_test(document):
        return "Bars are the numbers of the one run of each method. The reference is in bold."
    level = f"{100 * comparison['significance']:g}%"
    return (
        f"Bars are means over the {seeds} seeds, and whiskers reach one standard deviation to either side. "
        "The reference is in bold. A difference from it is tested on the splits that both have a number for, "
        "by the corrected resampled t-test (Nadeau and Bengio 2003), which allows for rows that the splits "
        "share, with Holm’s correction for the number of comparisons in each measure. The mark n.s. stands "
        f"where a difference is not significant at {level}; with few splits only large ones are, so it does "
        "not say that two methods are alike."
    )
