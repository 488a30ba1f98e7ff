"""The trained model: what drives it, and losses over the steps of its training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import Block, Chart, Documents, Json, Section, Table

PAGES = {"run": 55}
NEEDS = ("run",)

SERIES = ("adversarial_loss", "classification_loss", "adversary_loss", "loss")
# Points that a table can hold, and lines that a chart can.
MOST_POINTS = 60
MOST_CURVES = 6


MOST = 15
KINDS = {
    "contribution": (
        "mean absolute contribution to the log-odds",
        "A column's contribution for a person is how far its value moves the log-odds "
        "(TreeSHAP). The mean of its size over {rows} test rows is shown. A column can matter "
        "although leaving it out changes little, because others tell the same.",
    ),
    "permutation": (
        "rise of the log loss",
        "The values of one column are exchanged between people at random, and the mean rise of "
        "the log loss (nats) over {rows} test rows is shown. A column whose information others "
        "have too seems less important than it is.",
    ),
}


def build(documents: Documents) -> Iterator[Section]:
    """What drives the model, and its training, each where the run has it."""
    if documents.get("drivers") is not None:
        yield _drivers(documents["drivers"])
    if documents.get("history") is not None:
        yield from _training(documents["history"])


def _drivers(content: Json) -> Section:
    """A bar for the importance of each table column, and a table with the groups."""
    unit, text = KINDS[content["kind"]]
    columns = content["columns"]
    shown = columns[:MOST]
    rows = [
        {
            "label": entry["name"],
            "value": max(entry["value"], 0.0),
            "text": formats.number(entry["value"]),
        }
        for entry in shown
    ]
    data = {"rows": rows, "x_title": unit}
    first = formats.join(
        [f"{entry['name']} ({formats.number(entry['value'])})" for entry in shown[:3]]
    )
    described = (
        f"From the most important column down: {formats.join([entry['name'] for entry in shown])}."
    )
    left = texts.left_out(shown, columns, "The most important columns")
    blocks: list[Block] = [
        f"Most important: {first}. {text.format(rows=formats.count(content['rows']))}",
        Chart("intervals.ranked_bars", data, "What drives the model", described, left),
    ]
    for attribute in columns[0]["groups"] if columns else ():
        groups = list(columns[0]["groups"][attribute])
        table = [
            [
                entry["name"],
                entry["value"],
                *(texts.known(entry["groups"][attribute][g]) for g in groups),
            ]
            for entry in columns
        ]
        caption = f"{formats.sentence(unit)}, by {spoken(attribute)}"
        blocks.append(Table(caption, ["Column", "Everybody", *groups], table, folded=True))
    return Section("drivers", "What drives the model", blocks)


def _training(history: Json) -> list[Section]:
    """The losses, thinned to points that the table can hold."""
    series = {
        name: history[name]
        for name in SERIES
        if any(_finite(v) is not None for v in history.get(name, []))
    }
    if not series:
        return []
    length = len(next(iter(series.values())))
    # networks record means at some steps, boosting every step
    steps = [int(step) for step in history.get("step", range(1, length + 1))]
    return [curves_section("Training", steps, series)]


def curves_section(
    title: str, steps: Sequence[int], series: Mapping[str, Sequence[Any]]
) -> Section:
    """Curves over steps, in one chart where no curve would be flattened."""
    kept = formats.evenly(range(len(steps)), MOST_POINTS)
    shown = [steps[k] for k in kept]
    thinned = {
        name.replace("_", " "): [_finite(values[k]) for k in kept]
        for name, values in series.items()
    }
    blocks: list[Block] = []
    for names in [list(thinned)] if _alike(thinned) else [[name] for name in thinned]:
        rows = []
        for name in names:
            points = zip(shown, thinned[name], strict=True)
            rows += [{"step": step, "series": name, "value": value} for step, value in points]
        known = {name: [v for v in thinned[name] if v is not None] for name in names}
        said = [
            f"{n} goes from {formats.number(v[0])} to {formats.number(v[-1])}"
            for n, v in known.items()
            if v
        ]
        text = f"{formats.join(names)} by step"
        blocks.append(Chart("curves.training_curves", {"rows": rows}, text, f"{'; '.join(said)}."))
    caption = "Training by step"
    if len(steps) > len(shown):
        caption += (
            f": {len(shown)} of {formats.count(len(steps))} recorded steps, evenly spaced, as "
            "plotted"
        )
    table = [
        [formats.count(step), *row] for step, *row in zip(shown, *thinned.values(), strict=True)
    ]
    return Section(
        "training", title, [*blocks, Table(caption, ["Step", *thinned], table, folded=True)]
    )


def _finite(value: float | None) -> float | None:
    """A loss may overflow; the curve then has a gap."""
    return value if value is not None and math.isfinite(value) else None


def _alike(curves: Mapping[str, Sequence[float | None]]) -> bool:
    """Whether one chart flattens none of the curves: each spans a tenth of all."""
    known = [[v for v in values if v is not None] or [0.0] for values in curves.values()]
    reach = max(map(max, known)) - min(map(min, known))
    return len(curves) <= MOST_CURVES and all(
        max(values) - min(values) >= 0.1 * reach for values in known
    )
