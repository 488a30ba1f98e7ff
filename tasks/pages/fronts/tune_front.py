"""The page of a study: the winner beside the controls, what limits cost, and the trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from evenhand.fairlib.catalogue import better, title
from evenhand.fairlib.evaluation.comparison import pareto_front
from evenhand.fairlib.tuning.space import shown
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep_front import mark, tradeoff_chart, within
from evenhand.tasks.pages.page_model import Block, Cell, Documents, Front, Json, Section, Table
from evenhand.tasks.pages.texts import estimate_cell, interval_name, known, lack, metric_cell

KINDS = {
    "majority": "the commonest answer",
    "plain": "without mitigation",
    "blind": "without the sensitive columns",
    "job": "the job as it is",
}
NEEDS = ("tuning",)
# A chart has so many marks beside the front, and a table so many trials.
MOST_MARKS = 150
MOST_ROWS = 100
STATES = {"judged": "Judged", "pruned": "Ended early", "failed": "Failed"}
# By what evidence a limit is kept, for readers.
EVIDENCE = {
    "prediction": "kept, also by what the test rows may show",
    "interval": "kept, by the whole interval",
    "value": "kept by the value; not shown to hold",
    None: "missed",
}


def front(documents: Documents) -> Front:
    """Build the front; a study without a trial within the limits is marked as a compromise."""
    run = documents["run"]
    study = documents["tuning"]
    badge = ("refused", "\u2715", "Nothing is within the limits: a compromise")
    if study["winner"] is not None:
        badge = ("passed", "\u2713", "A model is within the limits")
    named = f"{study['job']}: {study['aim']}"
    meta = [f"Job {study['job']}", f"study {study['study']}"]
    return Front("tuning report", named, meta, headline(study), run["created"], badge=badge)


def headline(study: Json) -> list[str]:
    """Say what was tried, what won, how it did on the test rows, and what a limit costs."""
    trials = study["trials"]
    models = [trial for trial in trials if trial["rule"] == 0]
    judged = sum(trial["state"] == "judged" for trial in models)
    sentences = [
        f"{formats.plural(len(models), 'model')} of {formats.join(study['methods'])}; {judged} "
        "were judged on all folds of the training rows. With their rules of decisions these are "
        f"{len(trials):,} trials."
    ]
    winner = trial_of(study, study["winner"])
    if winner is None:
        close = trial_of(study, study["nearest"])
        if close is not None:
            misses = [
                row["text"] for row in study["standings"] if row["kept_by"] in (None, "value")
            ]
            sentences.append(
                f"None is within the limits. The best compromise is {close['label']}: "
                f"{'; '.join(misses)}."
            )
            sentences.append("Its job is written, and says so in its description.")
        return [*sentences, *(f"{formats.sentence(note)}." for note in study["notes"])]
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
        sentences.append(
            f"On the test rows {formats.join([f'“{text}”' for text in held])} held too."
        )
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
    if trial["method"] is None:
        return KINDS.get(trial["kind"], f"model {trial['model']}") + _under(trial)
    values = []
    for name, value in ((name, value) for name, value in trial["arguments"].items() if value != []):
        short = (
            float(f"{value:.3g}")
            if isinstance(value, float)
            else "null"
            if value is None
            else value
        )
        values.append(f"{name}={shown(short)}")
    return (
        f"{trial['method']} ({', '.join(values)})" if values else str(trial["method"])
    ) + _under(trial)


def _under(trial: Mapping[str, Any]) -> str:
    """Name the rule of decisions, unless it is the job's."""
    if trial["decision"] == "job":
        return ""
    limit = "" if trial["tolerance"] is None else f" within {trial['tolerance']:.3g}"
    return f", {trial['decision'].replace('_', ' ')}{limit}"


def is_fixed(trial: Mapping[str, Any]) -> bool:
    """Whether a trial is a control, or the job with its own rule of decisions."""
    return trial["kind"] in KINDS and trial["decision"] == "job"


def metrics_of(study: Json) -> list[str]:
    """Metrics that a study is about: its objectives, then those of its limits."""
    limited = (limit["metric"] for limit in study["limits"])
    return list(dict.fromkeys([*study["objectives"], study["prefer"], *limited]))


def build(documents: Documents) -> Iterator[Section]:
    """Validation beside test of the winner and the controls, costs of limits, and the trials."""
    study = documents["tuning"]
    chosen = trial_of(study, study["winner"]) or trial_of(study, study["nearest"])
    if chosen is not None:
        text = "The winner" if study["winner"] is not None else "The best compromise"
        yield Section(
            "winner", text, [*_compared(study, chosen), *_limits(study), *_repeats(study)]
        )
    if study["limits"]:
        yield Section("costs", "What each limit costs", _costs(study))
    yield Section("front", "What is traded for what", _chart(study))
    errors = Counter(trial["error"] for trial in study["trials"] if trial["error"]).most_common()
    failures = [Table("Why trials failed", ["Reason", "Trials"], errors)] if errors else []
    yield Section("trials", "The trials", [*_by_method(study), _best(study), *failures])


def _compared(study: Json, chosen: Json) -> list[Block]:
    """A table of validation and test, and one of the controls on the validation rows."""
    name = interval_name(study)
    test = study["test"]
    metrics = metrics_of(study)
    blocks: list[Block] = [
        f"**{formats.sentence(chosen['label'])}**. The validation numbers are of training rows, "
        "each predicted by a model that was not trained on it. The trial was chosen by them, so "
        "they tend to be too good: the difference to the test rows shows by how much here."
    ]
    columns = ["Metric", f"Validation ({name})"]
    columns += [f"Test ({name})", "Test less validation"] if test else []
    rows = []
    for metric in metrics:
        own = chosen["metrics"].get(metric)
        found = (test or {}).get(metric)
        beside = [estimate_cell(found), _difference(found, own)] if test else []
        rows.append([metric_cell(metric), estimate_cell(own or None), *beside])
    blocks.append(Table("Validation and test of the chosen trial", columns, rows))
    controls = [
        trial for trial in study["trials"] if is_fixed(trial) and trial["state"] == "judged"
    ]
    if controls:
        rows = [
            [metric_cell(name), *(_control(study, one, name) for one in controls)]
            for name in metrics
        ]
        head = [formats.sentence(KINDS[trial["kind"]]) for trial in controls]
        blocks.append(
            Table("The controls: validation, and below it the test rows", ["Metric", *head], rows)
        )
    return blocks


def _limits(study: Json) -> list[Block]:
    """How the chosen trial stands to each limit: by its value, and by what the interval shows."""
    if not study["standings"]:
        return []
    rows: list[list[Any]] = []
    for standing in study["standings"]:
        ends = [
            lack("not measured") if standing[key] is None else standing[key]
            for key in ("value", "end")
        ]
        verdict = EVIDENCE[standing["kept_by"]]
        if standing["value"] is None:
            verdict = "not enough evidence"
        elif standing["kept_by"] is None:
            verdict = f"missed by {formats.number(standing['missed_by'])}"
        rows.append([standing["limit"], *ends, verdict])
    text = (
        "The value says whether a limit is kept on the validation rows, and the end of the "
        "interval whether that is shown to hold for rows like these."
    )
    columns = ["Limit", "Value", "End of the interval", "Kept?"]
    return [text, Table("The limits and the chosen trial, on validation rows", columns, rows)]


def _difference(one: Json | None, other: Json | None) -> Cell:
    values: list[Any] = [(item or {}).get("value") for item in (one, other)]
    return (
        Cell(formats.signed(values[0] - values[1])) if None not in values else lack("not measured")
    )


def _value(trial: Json, metric: str) -> float | None:
    """A metric of a trial, which may have no number of it."""
    found: float | None = (trial["metrics"].get(metric) or {}).get("value")
    return found


def _control(study: Json, trial: Json, metric: str) -> Cell:
    found = _value(trial, metric)
    value = study["test_controls"].get(trial["kind"], {}).get(metric)
    if found is None:
        return lack("not measured")
    return Cell(formats.number(found), () if value is None else (f"test {formats.number(value)}",))


def _repeats(study: Json) -> list[Block]:
    if not study["repeats"]:
        return []
    rows = []
    for metric in metrics_of(study):
        runs = [study["test"], *(repeat["metrics"] for repeat in study["repeats"])]
        values = [run[metric]["value"] for run in runs if run.get(metric)]
        found = [value for value in values if value is not None]
        if found:
            rows.append(
                [
                    metric_cell(metric),
                    sum(found) / len(found),
                    formats.interval(min(found), max(found)),
                ]
            )
    text = (
        f"The winner was trained {formats.plural(len(study['repeats']), 'more time')} with other "
        "seeds, on the same training rows, and measured on the same test rows."
    )
    columns = ["Metric", "Mean", "Smallest to largest"]
    return [text, Table("The winner with several seeds, on the test rows", columns, rows)]


def _costs(study: Json) -> list[Block]:
    bounds = {
        "interval": "the unfavourable end of its interval",
        "point": "the value itself",
        "prediction": "the unfavourable end of what the test rows may show, as expected from its interval,",
    }
    text = (
        f"A trial is within a limit if {bounds[study['bound']]} is, on the validation rows. Each "
        f"row has the best `{study['prefer']}` of the trials within all limits, and within all "
        "but this one. A search without the limit might have found better ones."
    )
    rows = []
    for cost in study["costs"]:
        ends = cost["with"], cost["without"]
        price = "no trial to compare" if None in ends else formats.signed(ends[0] - ends[1])
        rows.append(
            [cost["limit"], *(lack("no trial") if end is None else end for end in ends), price]
        )
    columns = ["Limit", "Within all limits", "Without this one", "Difference"]
    return [text, Table("The best trial with and without each limit", columns, rows)]


def _chart(study: Json) -> list[Block]:
    names = metrics_of(study)
    if len(names) < 2:
        return []
    y, x = names[:2]
    # the commonest answer is far from all others: the rest would look like one point
    judged = [
        one for one in study["trials"] if one["state"] == "judged" and one["kind"] != "majority"
    ]
    judged = [trial for trial in judged if None not in (_value(trial, x), _value(trial, y))]
    if len(judged) < 2:
        return []
    values = np.array([[_value(trial, name) for name in (y, x)] for trial in judged], np.float64)
    on_front = set(pareto_front(values, [better(y), better(x)]))
    marks = []
    plain = []
    for i, trial in enumerate(judged):
        kind = (
            "best" if trial["number"] == study["winner"] else "front" if i in on_front else "other"
        )
        ends = [trial["metrics"][name] for name in (x, y)]
        if kind == "other":
            ends = [{**item, "low": None, "high": None} for item in ends]
        if kind == "other" and not is_fixed(trial):
            plain.append(i)
        marks.append(mark(trial["kind"] if is_fixed(trial) else "", kind, *ends))
    left_out = {*plain} - {*formats.evenly(plain, MOST_MARKS)}
    rows = [found for i, found in enumerate(marks) if i not in left_out]
    limits: dict[str, Any] = {
        f"{axis}_limits": [one["value"] for one in study["limits"] if one["metric"] == name]
        for axis, name in (("x", x), ("y", y))
    }
    said = (
        f"{len(rows)} of {len(judged)} trials judged on all folds; {len(on_front)} are on the "
        "front."
    )
    lead = (
        f"{title(y)} against {title(x)} on the validation rows: all trials on the front of these "
        "two metrics, and the controls but the commonest answer. Lines across a mark are its "
        "intervals; dashed lines are limits."
    )
    return [lead, tradeoff_chart(x, y, rows, said, **limits)]


def _by_method(study: Json) -> list[Block]:
    """How many trials of each method and rule ended how, and the best of each within the limits."""
    name = study["prefer"]
    rows = []
    trials = [trial for trial in study["trials"] if trial["method"] is not None]
    for key in dict.fromkeys((trial["method"], trial["decision"]) for trial in trials):
        own = [trial for trial in trials if (trial["method"], trial["decision"]) == key]
        states = Counter(trial["state"] for trial in own)
        rule = "the job’s" if key[1] == "job" else key[1].replace("_", " ")
        kept = [
            _value(trial, name)
            for trial in own
            if trial["state"] == "judged" and trial["miss"] == 0
        ]
        found = [value for value in kept if value is not None]
        top = (max if better(name) == "higher" else min)(found, default=None)
        rows.append([key[0], rule, *(states[state] for state in STATES), known(top, why="none")])
    columns = ["Method", "Decisions", *STATES.values(), f"Best {title(name)} within the limits"]
    text = "Trials that ended early were judged on a part of the rows only."
    table = Table("Trials by method and rule of decisions", columns, rows)
    return [text, table] if study["halving"] else [table]


def _best(study: Json) -> Table:
    name = study["prefer"]
    sign = -1.0 if better(name) == "higher" else 1.0
    judged = [t for t in study["trials"] if t["state"] == "judged" and _value(t, name) is not None]
    order = sorted(
        judged, key=lambda trial: (trial["miss"], sign * trial["metrics"][name]["value"])
    )
    shown = order[:MOST_ROWS]
    rows: list[list[Any]] = []
    for trial in shown:
        cells = [
            estimate_cell(trial["metrics"].get(metric) or None) for metric in metrics_of(study)
        ]
        missed = "yes" if trial["miss"] == 0 else f"misses by {formats.number(trial['miss'])}"
        time = (
            formats.seconds(trial["seconds"])
            if trial["rule"] == 0
            else f"model of {trial['model']}"
        )
        rows.append([Cell(str(trial["number"]), (trial["label"],)), *cells, missed, time])
    count = (
        f"The best {len(shown)} of {len(order):,}"
        if len(shown) < len(order)
        else f"All {len(order)}"
    )
    columns = [
        "Trial",
        *(title(metric) for metric in metrics_of(study)),
        "Within the limits",
        "Time",
    ]
    caption = f"{count} trials that were judged on all folds, on validation rows"
    return Table(caption, columns, rows, folded=True)
