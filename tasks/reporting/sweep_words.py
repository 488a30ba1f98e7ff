"""What a sweep found, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.tasks.reporting import formats, words

__all__ = ["headline", "interval_name", "main_fairness"]

Value = Mapping[str, Any]


def headline(document: Mapping[str, Any]) -> list[str]:
    """
    Say what was swept, what is traded for what, and which value is best under the limits.

    Parameters
    ----------
    document : mapping
        Content of ``tradeoff.json``.
    """
    sentences = [_swept(document)]
    if document["best"]:
        sentences.append(_best(document))
    elif document["miss"]:
        sentences.append(f"{document['miss'][0].upper()}{document['miss'][1:]}")
    sentences += _ends(document)
    if document["best"]:
        sentences.append(
            "The value was chosen on the rows that also measure it, which flatters it a little: measure it "
            "again on seeds that had no part in the choice."
        )
    return sentences


def interval_name(document: Mapping[str, Any]) -> str:
    """Name the intervals and say what they are of."""
    level = f"{100 * document['level']:g}% interval"
    if len(document["seeds"]) == 1:
        return f"{level} of the one run (bootstrap over its test rows)"
    return f"{level} of the mean over {len(document['seeds'])} seeds (Student’s t)"


def main_fairness(document: Mapping[str, Any]) -> str | None:
    """Pick the fairness metric to tell about: the goal's, else the first of consistency, of gaps, of any."""
    names = [name for name in document["fronts"] if "&" not in name]
    limited = [name for name in names if name in document["limits"]]
    kinds = [name for kind in ("consistency.", "gap_max.") for name in names if name.startswith(kind)]
    return next(iter([*limited, *kinds, *names]), None)


def _swept(document: Mapping[str, Any]) -> str:
    runs = sum(value["runs"] for value in document["values"])
    failed = sum(value["failed"] for value in document["values"])
    seeds = formats.plural(len(document["seeds"]), "seed")
    text = f"{formats.plural(runs, 'run')} of {document['job']}: "
    text += f"{formats.plural(len(document['values']), 'value')} of {formats.join(document['keys'])}"
    text += f", {seeds} each." if len(document["values"]) > 1 else f", {seeds}."
    return text + (f" {formats.plural(failed, 'run')} failed." if failed else "")


def _best(document: Mapping[str, Any]) -> str:
    best = document["best"]
    found = [
        f"{_within(words.metric_phrase(name))} {formats.number(best['metrics'][name]['mean'])}"
        for name in document["goal_metrics"]
    ]
    return f"Best for “{document['goal']}”: {best['name']}, with {formats.join(found)}."


def _ends(document: Mapping[str, Any]) -> list[str]:
    """The value that performs best and the one that is fairest, and what lies between them."""
    performance, fairness = document["performance"], main_fairness(document)
    known = [
        value
        for value in document["values"]
        if fairness and all(_mean(value, name) is not None for name in (performance, fairness))
    ]
    if fairness is None or len(known) < 2:
        return []
    good, fair = _top(document, known, performance), _top(document, known, fairness)
    label, other = words.metric_phrase(performance), _within(words.metric_phrase(fairness))
    if good is fair:
        return [
            f"{good['name']} is the best value both in {_within(label)} ({_shown(good, performance)}) and in "
            f"“{other}” ({_shown(good, fairness)}): between these two nothing is traded here."
        ]
    sentence = (
        f"{label} is best at {good['name']} ({_shown(good, performance)}), where “{other}” is "
        f"{_shown(good, fairness)}; that is best at {fair['name']} ({_shown(fair, fairness)}), where "
        f"{_within(label)} is {_shown(fair, performance)}."
    )
    close = [name for name in (performance, fairness) if _touch(good["metrics"][name], fair["metrics"][name])]
    if close:
        listed = formats.join([_within(words.metric_phrase(name)) for name in close])
        sentence += f" Their intervals overlap in {listed}: that difference may be chance."
    return [sentence]


def _within(phrase: str) -> str:
    """A metric's phrase within a sentence."""
    return phrase[0].lower() + phrase[1:]


def _top(document: Mapping[str, Any], values: Sequence[Value], name: str) -> Value:
    sign = 1.0 if document["metrics"][name] == "higher" else -1.0
    return max(values, key=lambda value: sign * value["metrics"][name]["mean"])


def _mean(value: Value, name: str) -> float | None:
    mean: float | None = value["metrics"].get(name, {}).get("mean")
    return mean


def _shown(value: Value, name: str) -> str:
    return formats.number(value["metrics"][name]["mean"])


def _touch(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if one["low"] is None or other["low"] is None:
        return False
    return bool(one["low"] <= other["high"] and other["low"] <= one["high"])
