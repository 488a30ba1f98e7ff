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
        "although leaving it out changes little, because other columns have the same information.",
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
    drawn = columns[:MOST]
    bars = []
    for entry in drawn:
        value = max(entry["value"], 0.0)
        bars.append(
            {"label": entry["name"], "value": value, "text": formats.number(entry["value"])}
        )
    first = [f"{entry['name']} ({formats.number(entry['value'])})" for entry in drawn[:3]]
    names = [entry["name"] for entry in drawn]
    described = f"From the most important column down: {formats.join(names)}."
    caption = texts.left_out(drawn, columns, "The most important columns")
    data = {"rows": bars, "x_title": unit}
    blocks: list[Block] = [
        f"Most important: {formats.join(first)}. "
        f"{text.format(rows=formats.count(content['rows']))}",
        Chart("intervals.ranked_bars", data, "What drives the model", described, caption),
    ]
    attributes = columns[0]["groups"] if columns else ()
    for attribute in attributes:
        caption = f"{formats.sentence(unit)}, by {spoken(attribute)}"
        blocks.append(_group_table(columns, attribute, caption))
    return Section("drivers", "What drives the model", blocks)


def _group_table(columns: Sequence[Json], attribute: str, caption: str) -> Table:
    """The importance of each column, overall and by group of an attribute."""
    groups = list(columns[0]["groups"][attribute])
    rows = []
    for entry in columns:
        by_group = entry["groups"][attribute]
        cells = [texts.known(by_group[group]) for group in groups]
        rows.append([entry["name"], entry["value"], *cells])
    return Table(caption, ["Column", "Everybody", *groups], rows, folded=True)


def _training(history: Json) -> list[Section]:
    """The losses, thinned to points that the table can hold."""
    series = {}
    for name in SERIES:
        losses = history.get(name, [])
        if any(_finite(loss) is not None for loss in losses):
            series[name] = losses
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
    places = formats.evenly(range(len(steps)), MOST_POINTS)
    drawn_steps = [steps[place] for place in places]
    curves = {}
    for name, values in series.items():
        curves[name.replace("_", " ")] = [_finite(values[place]) for place in places]
    if _alike(curves):
        blocks: list[Block] = [_curves_chart(drawn_steps, curves)]
    else:
        blocks = [_curves_chart(drawn_steps, {name: curves[name]}) for name in curves]
    caption = "Training by step"
    if len(steps) > len(drawn_steps):
        caption += (
            f": {len(drawn_steps)} of {formats.count(len(steps))} recorded steps, evenly spaced, "
            "as plotted"
        )
    rows = []
    for step, *losses in zip(drawn_steps, *curves.values(), strict=True):
        rows.append([formats.count(step), *losses])
    blocks.append(Table(caption, ["Step", *curves], rows, folded=True))
    return Section("training", title, blocks)


def _curves_chart(steps: Sequence[int], curves: Mapping[str, Sequence[float | None]]) -> Chart:
    """A chart of one curve or several; the text alternative has the ends of each."""
    points = []
    described = []
    for name, values in curves.items():
        for step, value in zip(steps, values, strict=True):
            points.append({"step": step, "series": name, "value": value})
        finite = [value for value in values if value is not None]
        if finite:
            first = formats.number(finite[0])
            last = formats.number(finite[-1])
            described.append(f"{name} goes from {first} to {last}")
    text = f"{formats.join(list(curves))} by step"
    return Chart("curves.training_curves", {"rows": points}, text, f"{'; '.join(described)}.")


def _finite(value: float | None) -> float | None:
    """A loss may overflow; the curve then has a gap."""
    if value is None or not math.isfinite(value):
        return None
    return value


def _alike(curves: Mapping[str, Sequence[float | None]]) -> bool:
    """Whether one chart flattens none of the curves: each spans a tenth of all."""
    if len(curves) > MOST_CURVES:
        return False
    lowest = []
    highest = []
    for values in curves.values():
        finite = [value for value in values if value is not None] or [0.0]
        lowest.append(min(finite))
        highest.append(max(finite))
    reach = max(highest) - min(lowest)
    return all(high - low >= 0.1 * reach for low, high in zip(lowest, highest, strict=True))
