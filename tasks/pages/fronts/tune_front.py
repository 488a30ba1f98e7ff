"""The page of a study: the winner and the controls, what limits cost, and the trials."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from evenhand.fairlib.catalogue import better, title
from evenhand.fairlib.evaluation.comparison import pareto_front
from evenhand.fairlib.tuning.space import shown
from evenhand.fairlib.tuning.study import BY_VALUE, shown_chance
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep_front import mark, tradeoff_chart, within
from evenhand.tasks.pages.page_model import Block, Cell, Documents, Front, Json, Section, Table
from evenhand.tasks.pages.texts import estimate_cell, interval_name, known, lack, metric_cell

KINDS = {
    "majority": "the majority-class baseline",
    "plain": "without mitigation",
    "blind": "without the sensitive columns",
    "job": "the job as it is",
}
# Controls of the tuned job, in the order of their table.
TUNED_JOBS_CONTROLS = {
    "majority": KINDS["majority"],
    "plain": KINDS["plain"],
    "blind": KINDS["blind"],
    "leave_out": "without sensitive columns and proxy features",
    "reweigh": "on rows reweighed by group and label",
}
NEEDS = ("tuning",)
# A chart has so many marks that are not on the front, and a table so many trials.
MOST_MARKS = 150
MOST_ROWS = 100
STATES = {"judged": "Judged", "pruned": "Ended early", "failed": "Failed"}
# Trials of models that had no time for all folds; most searches have none.
PARTIAL = {"partial": "On a part of the rows"}
# By what evidence a limit is kept, for readers.
EVIDENCE = {
    "proof": "proved for the training rows",
    "chance": "kept",
    "value": "kept by the value; not shown to hold",
    "model": "no worse than the model on these rows",
    None: "missed",
}
# How the page was made is folded.
FOLDS = True


def front(documents: Documents) -> Front:
    """Build the front; a study without a trial within the limits is marked as a compromise."""
    run = documents["run"]
    study = documents["tuning"]
    subject = f"{study['job']}: {study['aim']}"
    meta = [f"Job {study['job']}", f"study {study['study']}"]
    return Front(
        kind="tuning report",
        title=subject,
        meta=meta,
        headline=headline(study),
        created=run["created"],
        badge=_badge(study, documents.get("alternative")),
        verdict_place=0,
    )


def _badge(study: Json, alternative: Json | None = None) -> tuple[str, str, str]:
    """Say whether the answer is within the limits, and whether it is an `alternative`: a tick only
    where that is shown, and the test rows do not contradict it.
    """
    if study["winner"] is None:
        return ("refused", "\u2715", "Nothing is within the limits: a compromise")
    if alternative is not None and alternative["alternative_gap"] == 0:
        text = "No less discriminatory alternative was found"
        return ("insufficient_evidence", "\u2013", text)
    test = study["test"] or {}
    measured = [limit for limit in asked_limits(study) if test.get(limit["metric"])]
    unknown = [limit for limit in measured if test[limit["metric"]].get("value") is None]
    if not all(holds(limit, test) for limit in measured if limit not in unknown):
        text = "Within the limits on validation rows, not on the test rows"
        return ("insufficient_evidence", "\u2013", text)
    if unknown:
        text = "Within the limits on validation rows; too few test rows to tell"
        return ("insufficient_evidence", "\u2013", text)
    if any(row["kept_by"] == "value" for row in study["standings"]):
        text = "Within the limits by the values, not shown to hold"
        return ("insufficient_evidence", "\u2013", text)
    if alternative is not None and alternative["held"] is None:
        text = "An alternative on these rows, not shown to be as good on unseen ones"
        return ("insufficient_evidence", "\u2013", text)
    if alternative is not None:
        text = "An alternative is no worse on unseen rows, and less discriminatory on these"
        return ("passed", "\u2713", text)
    return ("passed", "\u2713", "A model is within the limits")


def headline(study: Json) -> list[str]:
    """Say what won, how it did on the test rows, what a limit costs, and what was tried."""
    trials = study["trials"]
    models = [trial for trial in trials if trial["rule"] == 0]
    judged = sum(trial["state"] == "judged" for trial in models)
    were = "was" if judged == 1 else "were"
    tried = (
        f"{formats.plural(len(models), 'model')} of {formats.join(study['methods'])}; {judged} "
        f"{were} judged on all folds of the training rows. With the rules of decisions there "
        f"{'is' if len(trials) == 1 else 'are'} {formats.plural(len(trials), 'trial')}."
    )
    sentences: list[str] = []
    winner = trial_of(study, study["winner"])
    if winner is None:
        sentences += _compromise(study)
    else:
        sentences += _winner(study, winner)
    # the page has the names of commands in quotation marks, the terminal in backticks
    notes = [f"{formats.sentence(quoted(note))}." for note in study["notes"]]
    return [*sentences, *notes, tried]


def quoted(text: str) -> str:
    """Replace the backticks about code by quotation marks."""
    return re.sub("`([^`]*)`", "“\\1”", text)


def _compromise(study: Json) -> list[str]:
    """Say which trial is nearest to the limits, and which of them it misses."""
    nearest = trial_of(study, study["nearest"])
    if nearest is None:
        return []
    misses = [row["text"] for row in study["standings"] if row["kept_by"] in (None, "value")]
    return [
        f"No trial is within the limits. The best compromise is {nearest['label']}: "
        f"{'; '.join(misses)}.",
        "Its job is written, and says so in its description.",
    ]


def _winner(study: Json, winner: Json) -> list[str]:
    """Say which trial won, how good it is on validation and test rows, and which limits held."""
    name = study["prefer"]
    test_metrics = study["test"] or {}
    sentences = [
        f"The winner is {winner['label']}, with {within(name)} "
        f"{formats.number(winner['metrics'][name]['value'])} on validation rows."
    ]
    test = test_metrics.get(name)
    if test and test["value"] is not None:
        ends = ""
        if test["low"] is not None:
            ends = f" ({formats.interval(test['low'], test['high'])})"
        sentences.append(
            f"On {formats.plural(study['test_rows'], 'test row')}, which the search did not see, "
            f"{within(name)} is {formats.number(test['value'])}{ends}."
        )
    asked = asked_limits(study)
    held = [f"“{limit['text']}”" for limit in asked if holds(limit, test_metrics)]
    if held:
        sentences.append(f"On the test rows {formats.join(held)} held too.")
    return sentences


def asked_limits(study: Json) -> list[Json]:
    """The limits that were asked for; not those that follow from what a model has on other rows."""
    # studies of older versions do not have the mark
    return [limit for limit in study["limits"] if not limit.get("of_model")]


def holds(limit: Json, metrics: Json) -> bool:
    """Whether a metric's value keeps a limit."""
    value = (metrics.get(limit["metric"]) or {}).get("value")
    if value is None:
        return False
    if limit["sign"] == ">=":
        return bool(value >= limit["value"])
    return bool(value <= limit["value"])


def trial_of(study: Json, number: str | None) -> Json | None:
    """The trial of a number."""
    return next((trial for trial in study["trials"] if trial["number"] == number), None)


def label_of(trial: Mapping[str, Any]) -> str:
    """Name a trial: a control, or a method with its parameters and its rule of decisions."""
    if trial["method"] is None:
        return KINDS.get(trial["kind"], f"model {trial['model']}") + _under(trial)
    arguments = []
    for name, value in trial["arguments"].items():
        if value != []:
            arguments.append(f"{name}={shown(_short(value))}")
    method = str(trial["method"])
    if arguments:
        method += f" ({', '.join(arguments)})"
    return method + _under(trial)


def _short(value: Any) -> Any:
    """A parameter's value for a label: a number with three digits, and null for none."""
    if value is None:
        return "null"
    if isinstance(value, float):
        return float(f"{value:.3g}")
    return value


def _under(trial: Mapping[str, Any]) -> str:
    """Name the rule of decisions, unless it is the job's."""
    calibration = ""
    if trial.get("calibration") is not None:
        calibration = f", calibration {trial['calibration']}"
    if trial["decision"] == "job":
        return calibration
    limit = "" if trial["tolerance"] is None else f" within {trial['tolerance']:.3g}"
    return f", {trial['decision'].replace('_', ' ')}{limit}{calibration}"


def is_fixed(trial: Mapping[str, Any]) -> bool:
    """Whether a trial is a control, or the job with its own rule of decisions."""
    has_own_calibration = trial.get("calibration") is not None
    return trial["kind"] in KINDS and trial["decision"] == "job" and not has_own_calibration


def metrics_of(study: Json) -> list[str]:
    """Metrics that a study is about: its objectives, then those of its limits."""
    limited = (limit["metric"] for limit in study["limits"])
    return list(dict.fromkeys([*study["objectives"], study["prefer"], *limited]))


def build(documents: Documents) -> Iterator[Section]:
    """Validation and test of the winner and the controls, costs of limits, and the trials."""
    study = documents["tuning"]
    winner = trial_of(study, study["winner"])
    chosen = winner or trial_of(study, study["nearest"])
    if chosen is not None:
        text = "The winner" if study["winner"] is not None else "The best compromise"
        blocks = [*_compared(study, chosen), *_limits(study), *_repeats(study)]
        yield Section("winner", text, blocks)
    if study["limits"]:
        yield Section("costs", "What each limit costs", _costs(study))
    yield Section("front", "What is traded for what", _chart(study))
    trials: list[Block] = [*_by_method(study), _best(study)]
    errors = Counter(trial["error"] for trial in study["trials"] if trial["error"])
    if errors:
        trials.append(Table("Why trials failed", ["Reason", "Trials"], errors.most_common()))
    yield Section("trials", "The trials", trials, folded=True)


def _compared(study: Json, chosen: Json) -> list[Block]:
    """Tables of validation and test: of the chosen trial, and of the controls."""
    name = interval_name(study)
    test = study["test"]
    metrics = metrics_of(study)
    text = (
        f"The trial is **{chosen['label']}**. The validation numbers are of training rows, each "
        "predicted by a model that was not trained on it. The trial was chosen by them, so on "
        "average they are too good"
    )
    columns = ["Metric", f"Validation ({name})"]
    caption = "Validation of the chosen trial"
    if test:
        text += ", as the difference from the test rows may show."
        columns += [f"Test ({name})", "Test less validation"]
        caption = "Validation and test of the chosen trial"
    else:
        text += ". It was not measured on the test rows."
    rows = []
    for metric in metrics:
        on_validation = chosen["metrics"].get(metric)
        row = [metric_cell(metric), estimate_cell(on_validation or None)]
        if test:
            on_test = test.get(metric)
            row += [estimate_cell(on_test), _difference(on_test, on_validation)]
        rows.append(row)
    table = Table(caption, columns, rows)
    return [text, table, *_controls_of_search(study), *_controls_of_tuned_job(study, chosen)]


def _controls_of_search(study: Json) -> list[Block]:
    """A table of the controls on the validation rows; none where no control was judged."""
    controls = [
        trial for trial in study["trials"] if is_fixed(trial) and trial["state"] == "judged"
    ]
    if not controls:
        return []
    rows = []
    for name in metrics_of(study):
        cells = [_or_lack(_value(control, name), "not measured") for control in controls]
        rows.append([metric_cell(name), *cells])
    head = [formats.sentence(KINDS[control["kind"]]) for control in controls]
    caption = "The controls of the search, on the validation rows"
    return [Table(caption, ["Metric", *head], rows)]


def _controls_of_tuned_job(study: Json, chosen: Json) -> list[Block]:
    """A table of the controls that the tuned job is compared with on the test rows. They are other
    models than those of the search; nothing where there is none.
    """
    measured = study["test_controls"]
    kinds = [kind for kind in TUNED_JOBS_CONTROLS if kind in measured]
    if not kinds:
        return []
    text = (
        "On the test rows the tuned job is compared with controls of its own. They have the "
        "learner and the settings of the chosen trial, and those of the search have the job's."
    )
    left_out = chosen["arguments"].get("leave_out", ())
    if left_out:
        text += f" As the tuned job leaves out {', '.join(left_out)}, none of them sees it."
    elif chosen["kind"] == "blind":
        text += " As the tuned job leaves out the sensitive columns, none of them sees these."
    rows = []
    for name in metrics_of(study):
        cells = [_or_lack(measured[kind].get(name), "not measured") for kind in kinds]
        rows.append([metric_cell(name), *cells])
    head = [formats.sentence(TUNED_JOBS_CONTROLS[kind]) for kind in kinds]
    return [text, Table("The controls of the tuned job, on the test rows", ["Metric", *head], rows)]


def _limits(study: Json) -> list[Block]:
    """How the chosen trial stands to each limit: by its value, and by what the interval shows."""
    if not study["standings"]:
        return []
    rows: list[list[Any]] = []
    for standing in study["standings"]:
        verdict = EVIDENCE[standing["kept_by"]]
        if standing["value"] is None:
            verdict = "not enough evidence"
        elif standing["kept_by"] is None:
            verdict = f"missed by {formats.number(standing['missed_by'])}"
        value = _or_lack(standing["value"], "not measured")
        end = _or_lack(standing["end"], "not measured")
        chance: str | Cell = lack("not measured")
        if standing["kept_by"] == "model":
            chance = lack("not stated: the model’s value changes too")
        if standing["chance"] is not None:
            chance = shown_chance(standing["chance"])
        rows.append([standing["limit"], value, end, chance, verdict])
    text = (
        "The value says whether a limit is kept on the validation rows. The chance is an estimate "
        "of how often as many unseen rows as the test rows keep it, from the rates of the groups "
        "and the numbers of rows; of calibration gaps, from the residuals of the groups; of other "
        "metrics of probabilities, from the interval."
    )
    columns = ["Limit", "Value", "End of the interval", "Chance on unseen rows", "Kept?"]
    return [text, Table("The limits and the chosen trial, on validation rows", columns, rows)]


def _or_lack(value: float | None, reason: str) -> float | Cell:
    """A number, or why there is none."""
    if value is None:
        return lack(reason)
    return value


def _difference(one: Json | None, other: Json | None) -> Cell:
    value = (one or {}).get("value")
    subtracted = (other or {}).get("value")
    if value is None or subtracted is None:
        return lack("not measured")
    return Cell(formats.signed(value - subtracted))


def _value(trial: Json, metric: str) -> float | None:
    """A metric of a trial, which may have no number of it."""
    value: float | None = (trial["metrics"].get(metric) or {}).get("value")
    return value


def _repeats(study: Json) -> list[Block]:
    if not study["repeats"]:
        return []
    runs = [study["test"]]
    runs += [repeat["metrics"] for repeat in study["repeats"]]
    rows = []
    for metric in metrics_of(study):
        values = [run[metric]["value"] for run in runs if run.get(metric)]
        numbers = [value for value in values if value is not None]
        if numbers:
            mean = sum(numbers) / len(numbers)
            span = formats.interval(min(numbers), max(numbers))
            rows.append([metric_cell(metric), mean, span])
    text = (
        f"The winner was trained {formats.plural(len(study['repeats']), 'more time')} with other "
        "seeds, on the same training rows, and measured on the same test rows."
    )
    columns = ["Metric", "Mean", "Smallest to largest"]
    return [text, Table("The winner with several seeds, on the test rows", columns, rows)]


def _costs(study: Json) -> list[Block]:
    condition = "its value on the validation rows is"
    if study["confidence"] != BY_VALUE:
        chance = shown_chance(study["confidence"])
        condition = f"its value keeps it, and unseen rows do with a chance of at least {chance}"
    text = (
        f"A trial is within a limit if {condition}. Each "
        f"row has the best `{study['prefer']}` of the trials within all limits, and within all but "
        "this one. Another column has the best where the values of the validation rows keep all "
        "limits. A search without the limit might have found better ones."
    )
    rows = []
    for cost in study["costs"]:
        within_all = cost["with"]
        without_this = cost["without"]
        price = "no trial to compare"
        if within_all is not None and without_this is not None:
            price = formats.signed(within_all - without_this)
        ends = (within_all, cost.get("by_value"), without_this)
        best = [_or_lack(end, "no trial") for end in ends]
        rows.append([cost["limit"], *best, price])
    columns = ["Limit", "Within all limits", "If values decided", "Without this one", "Difference"]
    return [text, Table("The best trial with and without each limit", columns, rows)]


def _chart(study: Json) -> list[Block]:
    names = metrics_of(study)
    if len(names) < 2:
        return []
    y, x = names[:2]
    judged = _drawable(study, x, y)
    if len(judged) < 2:
        return []
    values = np.array([[_value(trial, name) for name in (y, x)] for trial in judged], np.float64)
    on_front = set(pareto_front(values, [better(y), better(x)]))
    rows = _marks(judged, on_front, study["winner"], x, y)
    described = (
        f"{len(rows)} of {len(judged)} trials judged on all folds; {len(on_front)} are on the "
        "front."
    )
    lead = (
        f"{title(y)} against {title(x)} on the validation rows: all trials on the front of these "
        "two metrics, and the controls but the majority-class baseline. Lines across a mark are "
        "its intervals; dashed lines are limits."
    )
    chart = tradeoff_chart(
        x,
        y,
        rows,
        described,
        x_limits=_limits_of(study, x),
        y_limits=_limits_of(study, y),
    )
    return [lead, chart]


def _marks(
    judged: list[Json], on_front: set[int], winner: str | None, x: str, y: str
) -> list[dict[str, Any]]:
    """Marks of trials: of those that are neither on the front nor fixed only some, without
    intervals.
    """
    marks = []
    ordinary = []
    for i, trial in enumerate(judged):
        kind = "other"
        if trial["number"] == winner:
            kind = "best"
        elif i in on_front:
            kind = "front"
        ends = [trial["metrics"][name] for name in (x, y)]
        if kind == "other":
            ends = [{**item, "low": None, "high": None} for item in ends]
        fixed = is_fixed(trial)
        if kind == "other" and not fixed:
            ordinary.append(i)
        marks.append(mark(trial["kind"] if fixed else "", kind, *ends))
    left_out = set(ordinary) - set(formats.evenly(ordinary, MOST_MARKS))
    shown = [drawn for i, drawn in enumerate(marks) if i not in left_out]
    # the winner last, above a trial that decides the same
    return sorted(shown, key=lambda drawn: drawn["kind"] == "best")


def _drawable(study: Json, x: str, y: str) -> list[Json]:
    """Judged trials with both metrics of a chart.

    The majority-class baseline is left out: it is so far from all others that they would look like
    one point.
    """
    judged = [
        trial
        for trial in study["trials"]
        if trial["state"] == "judged" and trial["kind"] != "majority"
    ]
    return [
        trial for trial in judged if _value(trial, x) is not None and _value(trial, y) is not None
    ]


def _limits_of(study: Json, metric: str) -> list[float]:
    """Values of the limits that a metric has."""
    return [limit["value"] for limit in study["limits"] if limit["metric"] == metric]


def states_of(study: Json) -> dict[str, str]:
    """Return the states that trials are counted by, with their names."""
    if any(trial["state"] == "partial" for trial in study["trials"]):
        return STATES | PARTIAL
    return STATES


def _by_method(study: Json) -> list[Block]:
    """How many trials of each method and rule ended how, and the best of each within the limits."""
    name = study["prefer"]
    groups: dict[tuple[str, str], list[Json]] = {}
    for trial in study["trials"]:
        if trial["method"] is not None:
            groups.setdefault((trial["method"], trial["decision"]), []).append(trial)
    best = max if better(name) == "higher" else min
    shown_states = states_of(study)
    rows: list[list[Any]] = []
    for (method, decision), trials in groups.items():
        states = Counter(trial["state"] for trial in trials)
        rule = "the job’s" if decision == "job" else decision.replace("_", " ")
        values = []
        for trial in trials:
            value = _value(trial, name)
            if trial["state"] == "judged" and trial["miss"] == 0 and value is not None:
                values.append(value)
        counts = [states[state] for state in shown_states]
        rows.append([method, rule, *counts, known(best(values, default=None), why="none")])
    columns = [
        "Method",
        "Decisions",
        *shown_states.values(),
        f"Best {title(name)} within the limits",
    ]
    table = Table("Trials by method and rule of decisions", columns, rows)
    if not study["halving"]:
        return [table]
    return ["Trials that ended early were judged on a part of the rows only.", table]


def _best(study: Json) -> Table:
    name = study["prefer"]
    sign = -1.0 if better(name) == "higher" else 1.0
    metrics = metrics_of(study)
    judged = [
        trial
        for trial in study["trials"]
        if trial["state"] == "judged" and _value(trial, name) is not None
    ]
    order = sorted(
        judged, key=lambda trial: (trial["miss"], sign * trial["metrics"][name]["value"])
    )
    best = order[:MOST_ROWS]
    rows = [_trial_row(trial, metrics) for trial in best]
    count = f"All {len(order)}"
    if len(best) < len(order):
        count = f"The best {len(best)} of {len(order):,}"
    titles = [title(metric) for metric in metrics]
    condition = "Within the limits"
    if study["limits"] and study["confidence"] != BY_VALUE:
        condition += f" (chance {shown_chance(study['confidence'])})"
    columns = ["Trial", *titles, condition, "Time"]
    caption = f"{count} trials that were judged on all folds, on validation rows"
    return Table(caption, columns, rows, folded=True)


def _trial_row(trial: Json, metrics: list[str]) -> list[Any]:
    """A trial's metrics, whether it is within the limits, and the time of its model."""
    cells = [estimate_cell(trial["metrics"].get(metric) or None) for metric in metrics]
    within_limits = "yes"
    if trial["miss"] != 0:
        within_limits = f"misses by {formats.number(trial['miss'])}"
    time = f"model of {trial['model']}"
    if trial["rule"] == 0:
        time = formats.seconds(trial["seconds"])
    return [Cell(str(trial["number"]), (trial["label"],)), *cells, within_limits, time]
