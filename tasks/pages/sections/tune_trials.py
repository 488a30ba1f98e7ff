"""The trials of a study: a chart of what is traded for what, a table by method, and the best trials."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from evenhand.fairlib.catalogue import better, title
from evenhand.fairlib.evaluation.tradeoff import pareto_front
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import mark, of_axis
from evenhand.tasks.pages.fronts.tune import KINDS, metrics_of
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Json, Section, Table
from evenhand.tasks.pages.texts import estimate_cell, lack

PAGES = {"tune": 20}
NEEDS = ("tuning",)
# A chart has so many marks beside the front, and a table so many trials.
MOST_MARKS, MOST_ROWS = 150, 100
STATES = {"judged": "Judged", "pruned": "Ended early", "failed": "Failed"}


def build(documents: Documents) -> list[Section]:
    """The chart of two metrics, the trials by method, the best trials, and why some failed."""
    study = documents["tuning"]
    chart = _chart(study)
    sections = [] if chart is None else [Section("front", "What is traded for what", chart)]
    return [*sections, Section("trials", "The trials", [*_by_method(study), _best(study), *_failures(study)])]


def _chart(study: Json) -> list[Block] | None:
    names = metrics_of(study)
    judged = [
        trial
        for trial in study["trials"]
        if trial["state"] == "judged"
        # far from all others: the rest would look like one point
        and trial["kind"] != "majority"
        and all((trial["metrics"].get(name) or {}).get("value") is not None for name in names[:2])
    ]
    if len(names) < 2 or len(judged) < 2:
        return None
    y, x = names[:2]
    values = np.array([[trial["metrics"][name]["value"] for name in (y, x)] for trial in judged])
    on_front = set(pareto_front(values, [better(y), better(x)]))
    special = [i for i, trial in enumerate(judged) if i in on_front or trial["kind"] in KINDS]
    special += [
        i for i, trial in enumerate(judged) if trial["number"] == study["winner"] and i not in special
    ]
    others = formats.evenly([i for i in range(len(judged)) if i not in special], MOST_MARKS)
    rows: list[dict[str, Any]] = []
    for i in sorted([*special, *others]):
        trial = judged[i]
        kind = "best" if trial["number"] == study["winner"] else "front" if i in on_front else "other"
        label = trial["kind"] if trial["kind"] in KINDS else ""
        ends = [trial["metrics"][name] for name in (x, y)]
        if kind == "other":
            ends = [{**item, "low": None, "high": None} for item in ends]
        rows.append(mark(label, kind, ends[0], ends[1]))
    limits = {
        name: [limit["value"] for limit in study["limits"] if limit["metric"] == name] for name in (x, y)
    }
    data = {
        "rows": rows,
        "x_title": of_axis(x),
        "y_title": of_axis(y),
        "x_limits": limits[x],
        "y_limits": limits[y],
    }
    said = f"{len(rows)} of {len(judged)} trials judged on all folds; {len(on_front)} are on the front."
    lead = (
        f"{title(y)} against {title(x)} on the validation rows: all trials on the front of these two "
        "metrics, and the controls but the commonest answer. Lines across a mark are its intervals; "
        "dashed lines are limits."
    )
    return [lead, Chart("tradeoffs.tradeoff", data, f"{title(y)} against {title(x)}", said)]


def _by_method(study: Json) -> list[Block]:
    """How many trials of each method and rule ended how, and the best of each within the limits."""
    name, rows = study["prefer"], []
    found = [trial for trial in study["trials"] if trial["method"] is not None]
    for key in dict.fromkeys((trial["method"], trial["decision"]) for trial in found):
        own = [trial for trial in found if (trial["method"], trial["decision"]) == key]
        states = Counter(trial["state"] for trial in own)
        rule = "the job’s" if key[1] == "job" else key[1].replace("_", " ")
        rows.append([key[0], rule, *(states[state] for state in STATES), _top(own, name)])
    columns = ["Method", "Decisions", *STATES.values(), f"Best {title(name)} within the limits"]
    text = "Trials that ended early were judged on a part of the rows only." if study["halving"] else ""
    table = Table("Trials by method and rule of decisions", columns, rows)
    return [text, table] if text else [table]


def _top(trials: list[Json], name: str) -> Cell:
    within = [trial for trial in trials if trial["state"] == "judged" and trial["miss"] == 0]
    values = [trial["metrics"][name]["value"] for trial in within if trial["metrics"].get(name)]
    known = [value for value in values if value is not None]
    if not known:
        return lack("none")
    return Cell(formats.number(max(known) if better(name) == "higher" else min(known)))


def _best(study: Json) -> Table:
    name = study["prefer"]
    sign = -1.0 if better(name) == "higher" else 1.0
    judged = [
        trial
        for trial in study["trials"]
        if trial["state"] == "judged" and (trial["metrics"].get(name) or {}).get("value") is not None
    ]
    order = sorted(judged, key=lambda trial: (trial["miss"], sign * trial["metrics"][name]["value"]))
    shown = order[:MOST_ROWS]
    rows: list[list[Any]] = []
    for trial in shown:
        cells = [estimate_cell(trial["metrics"].get(metric) or None) for metric in metrics_of(study)]
        missed = "yes" if trial["miss"] == 0 else f"misses by {formats.number(trial['miss'])}"
        label = Cell(str(trial["number"]), (trial["label"],))
        rows.append([label, *cells, missed, formats.seconds(trial["seconds"])])
    count = f"The best {len(shown)} of {len(order):,}" if len(shown) < len(order) else f"All {len(order)}"
    columns = ["Trial", *(title(metric) for metric in metrics_of(study)), "Within the limits", "Time"]
    return Table(
        f"{count} trials that were judged on all folds, on validation rows", columns, rows, folded=True
    )


def _failures(study: Json) -> list[Block]:
    errors = Counter(trial["error"] for trial in study["trials"] if trial["error"])
    if not errors:
        return []
    return [
        Table(
            "Why trials failed", ["Reason", "Trials"], [[text, count] for text, count in errors.most_common()]
        )
    ]
