"""The front of a study's page, and how its sections name trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.tuning.space import shown
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import within
from evenhand.tasks.pages.model import Documents, Front, Json

KINDS = {
    "majority": "the commonest answer",
    "plain": "without mitigation",
    "blind": "without the sensitive columns",
    "job": "the job as it is",
}


def front(documents: Documents) -> Front:
    """Build the front; a study without a trial within the limits is marked as refused."""
    run, study = documents["run"], documents["tuning"]
    badge = ("refused", "\u2715", "Nothing is within the limits")
    if study["winner"] is not None:
        badge = ("passed", "\u2713", "A model is within the limits")
    return Front(
        "tuning report",
        f"{study['job']}: {study['aim']}",
        [f"Job {study['job']}", f"study {study['study']}"],
        headline(study),
        run["created"],
        badge=badge,
    )


def headline(study: Json) -> list[str]:
    """Say what was tried, what won, how it did on the test rows, and what a limit costs."""
    trials = study["trials"]
    models = [trial for trial in trials if trial["rule"] == 0]
    judged = sum(trial["state"] == "judged" for trial in models)
    sentences = [
        f"{formats.plural(len(models), 'model')} of {formats.join(study['methods'])}; {judged} were judged "
        f"on all folds of the training rows. With their rules of decisions these are {len(trials):,} trials."
    ]
    winner = trial_of(study, study["winner"])
    if winner is None:
        close = trial_of(study, study["nearest"])
        if close is not None:
            sentences.append(
                f"None is within the limits. The nearest, {close['label']}, misses them by "
                f"{close['miss']:.3g} in all."
            )
        return sentences
    name = study["prefer"]
    sentences.append(
        f"The winner is {winner['label']}, with {within(name)} "
        f"{formats.number(winner['metrics'][name]['value'])} on validation rows."
    )
    test = (study["test"] or {}).get(name)
    if test and test["value"] is not None:
        ends = "" if test["low"] is None else f" ({formats.interval(test['low'], test['high'])})"
        sentences.append(
            f"On {formats.plural(study['test_rows'], 'test row')}, which the search did not see, "
            f"{within(name)} is {formats.number(test['value'])}{ends}."
        )
    held = [limit["text"] for limit in study["limits"] if holds(limit, study["test"] or {})]
    if held:
        sentences.append(f"On the test rows {formats.join([f'“{text}”' for text in held])} held too.")
    return [*sentences, *(f"{formats.sentence(note)}." for note in study["notes"])]


def holds(limit: Json, metrics: Json) -> bool:
    """Whether a metric's value keeps a limit."""
    value = (metrics.get(limit["metric"]) or {}).get("value")
    if value is None:
        return False
    return bool(value >= limit["value"] if limit["sign"] == ">=" else value <= limit["value"])


def trial_of(study: Json, number: str | None) -> Json | None:
    """The trial of a number."""
    return next((trial for trial in study["trials"] if trial["number"] == number), None)


def label_of(trial: Mapping[str, Any]) -> str:
    """Name a trial: a control, or a method with its parameters and its rule of decisions."""
    if trial["kind"] in KINDS:
        return KINDS[trial["kind"]]
    if trial["method"] is None:
        return f"model {trial['model']}"
    values = [f"{name}={shown(_short(value))}" for name, value in trial["arguments"].items() if value != []]
    text = f"{trial['method']} ({', '.join(values)})" if values else str(trial["method"])
    if trial["decision"] == "job":
        return text
    limit = "" if trial["tolerance"] is None else f" within {trial['tolerance']:.3g}"
    return f"{text}, {trial['decision'].replace('_', ' ')}{limit}"


def _short(value: Any) -> Any:
    return float(f"{value:.3g}") if isinstance(value, float) else "null" if value is None else value


def metrics_of(study: Json) -> list[str]:
    """Metrics that a study is about: its objectives, then those of its limits."""
    names: Sequence[str] = [
        *study["objectives"],
        study["prefer"],
        *(limit["metric"] for limit in study["limits"]),
    ]
    return list(dict.fromkeys(names))
