"""The winner of a study beside the controls, on validation rows and on test rows; and what limits cost."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.tune import KINDS, is_fixed, metrics_of, trial_of
from evenhand.tasks.pages.model import Block, Cell, Documents, Json, Section, Table
from evenhand.tasks.pages.texts import estimate_cell, interval_name, lack, metric_cell

PAGES = {"tune": 10}
NEEDS = ("tuning",)


def build(documents: Documents) -> list[Section]:
    """Validation beside test for the winner and the controls, repeats with other seeds, costs of limits."""
    study = documents["tuning"]
    chosen = trial_of(study, study["winner"]) or trial_of(study, study["nearest"])
    sections = []
    if chosen is not None:
        title = "The winner" if study["winner"] is not None else "The nearest trial"
        sections.append(Section("winner", title, [*_compared(study, chosen), *_repeats(study)]))
    if study["limits"]:
        sections.append(Section("costs", "What each limit costs", [_bound(study), _costs(study)]))
    return sections


def _compared(study: Json, chosen: Json) -> list[Block]:
    """A table of validation and test, and one of the controls on the validation rows."""
    name, test = interval_name(study), study["test"]
    blocks: list[Block] = [
        f"**{formats.sentence(chosen['label'])}**. The validation numbers are of training rows, each "
        "predicted by a model that was not trained on it. The trial was chosen by them, so they tend to be "
        "too good: the difference to the test rows shows by how much here."
    ]
    columns = ["Metric", f"Validation ({name})"]
    columns += [f"Test ({name})", "Test less validation"] if test else []
    rows = []
    for metric in metrics_of(study):
        own = chosen["metrics"].get(metric)
        row = [metric_cell(metric), estimate_cell(own or None)]
        if test:
            found = test.get(metric)
            row += [estimate_cell(found), _difference(found, own)]
        rows.append(row)
    blocks.append(Table("Validation and test of the chosen trial", columns, rows))
    controls = [trial for trial in study["trials"] if is_fixed(trial) and trial["state"] == "judged"]
    if controls:
        rows = [
            [metric_cell(metric), *(_control(study, trial, metric) for trial in controls)]
            for metric in metrics_of(study)
        ]
        head = [formats.sentence(KINDS[trial["kind"]]) for trial in controls]
        blocks.append(Table("The controls: validation, and below it the test rows", ["Metric", *head], rows))
    return blocks


def _difference(one: Json | None, other: Json | None) -> Cell:
    values: list[Any] = [(item or {}).get("value") for item in (one, other)]
    return Cell(formats.signed(values[0] - values[1])) if None not in values else lack("not measured")


def _control(study: Json, trial: Json, metric: str) -> Cell:
    found = trial["metrics"].get(metric)
    if not found or found["value"] is None:
        return lack("not measured")
    value = study["test_controls"].get(trial["kind"], {}).get(metric)
    return Cell(formats.number(found["value"]), () if value is None else (f"test {formats.number(value)}",))


def _repeats(study: Json) -> list[Block]:
    if not study["repeats"]:
        return []
    rows = []
    for metric in metrics_of(study):
        runs = [study["test"], *(repeat["metrics"] for repeat in study["repeats"])]
        values = [run[metric]["value"] for run in runs if run.get(metric)]
        known = [value for value in values if value is not None]
        if known:
            ends = f"{formats.number(min(known))} to {formats.number(max(known))}"
            rows.append([metric_cell(metric), Cell(formats.number(sum(known) / len(known))), Cell(ends)])
    text = (
        f"The winner was trained {formats.plural(len(study['repeats']), 'more time')} with other seeds, on "
        "the same training rows, and measured on the same test rows."
    )
    columns = ["Metric", "Mean", "Smallest to largest"]
    return [text, Table("The winner with several seeds, on the test rows", columns, rows)]


def _bound(study: Json) -> str:
    ends = {
        "interval": "the unfavourable end of its interval",
        "point": "the value itself",
        "prediction": "the unfavourable end of what the test rows may show, as expected from its interval,",
    }
    return (
        f"A trial is within a limit if {ends[study['bound']]} is, on the validation rows. Each row has the "
        f"best `{study['prefer']}` of the trials within all limits, and within all but this one. A search "
        "without the limit might have found better ones."
    )


def _costs(study: Json) -> Table:
    rows = []
    for cost in study["costs"]:
        both = None not in (cost["with"], cost["without"])
        price = formats.signed(cost["with"] - cost["without"]) if both else "no trial to compare"
        shown = [
            lack("no trial") if cost[key] is None else Cell(formats.number(cost[key]))
            for key in ("with", "without")
        ]
        rows.append([Cell(cost["limit"]), *shown, Cell(price)])
    columns = ["Limit", "Within all limits", "Without this one", "Difference"]
    return Table("The best trial with and without each limit", columns, rows)
