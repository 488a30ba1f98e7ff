"""Group by group: the rates of every group, and how its scores are distributed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evenhand.fairlib.catalogue import describe, is_intersection, spoken
from evenhand.fairlib.evaluation.closed_intervals import rate_interval
from evenhand.fairlib.evaluation.group_selection import is_missing
from evenhand.fairlib.evaluation.outcomes import GroupRates, Rate, group_rates
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import (
    Block,
    Cell,
    Chart,
    Charts,
    Documents,
    Heading,
    Json,
    Section,
    Table,
)

PAGES = {"run": 40, "evaluation": 40}
NEEDS = ("metrics",)

# A chart with more groups cannot be read; the tables have every group.
MOST_GROUPS = 8
MOST_LABELS = 15
IMPACT = describe("impact_ratio.group")[0].title
# Categories that New York City's rule lets an auditor leave out (6 RCNY 5-301).
SMALL_SHARE = 0.02
RATES = {
    "positive": "Base rate",
    "selected": "Selection rate",
    "tpr": "True positive rate (TPR)",
    "tnr": "True negative rate (TNR)",
}


def build(documents: Documents) -> list[Section]:
    """The rates of the model, and of the baseline where there is one; the model's scores."""
    metrics = documents["metrics"]
    baseline = documents.get("baseline")
    if "classes" in metrics["settings"]:
        return [_labels(metrics, baseline)]
    sections = []
    if metrics["counts"]:
        sections.append(_rates(metrics, baseline))
    if documents.get("histograms"):
        sections.append(_scores(documents["histograms"]))
    return sections


def _rates(metrics: Json, baseline: Json | None) -> Section:
    settings = metrics["settings"]
    labels = ""
    if settings.get("labelled", True):
        labels = (
            "The base rate is the share of a group whose true outcome is "
            f"{texts.outcome_value(settings)}. TPR and TNR are the shares of its true positives "
            f"and of its true negatives that are predicted right{texts.positive_means(settings)}. "
        )
    lead = (
        f"The selection rate is the share of a group that is {texts.selected_as(settings)}. The "
        "impact ratio is that rate over the highest of any group; less than "
        f"{texts.FOUR_FIFTHS:g} (four fifths) counts as evidence of adverse impact. "
        f"{labels}The shaded span reaches from the lowest group to the highest. Whiskers are "
        f"{texts.interval_name(settings)}s (exact; of ratios MOVER-R); a rate over fewer than "
        f"{settings.get('min_cell', 5)} rows is not shown. Rows without a value of the attribute "
        "are no group: their rates are shown and not compared."
    )
    blocks: list[Block] = [lead]
    if baseline:
        blocks += _of(metrics, "The model: ")
        blocks += _of(baseline, "The baseline: ")
    else:
        blocks += _of(metrics, "")
    return Section("rates", "Group by group", blocks)


def _labels(metrics: Json, baseline: Json | None) -> Section:
    """Of more than two labels, each label's share predicted right by group, and what it is taken
    for.
    """
    settings = metrics["settings"]
    blocks: list[Block] = [
        "The share of each label's people that is predicted right (the recall), with its "
        f"{texts.interval_name(settings)} (of groups exact), and below it the labels that most of "
        "the others get. The gap is between the lowest and the highest group. Nothing is shown of "
        f"fewer than {settings['min_cell']} people."
    ]
    sides = [("", metrics)]
    if baseline:
        sides = [("The model: ", metrics), ("The baseline: ", baseline)]
    for who, side in sides:
        for name, cells in side["counts"].items():
            if not is_intersection(name, side["counts"]):
                blocks += _of_labels(f"{who}by {spoken(name)}", cells, side)
        if not side["counts"]:
            rows: list[list[Any]] = [
                [spoken(name), _everybody(side, name)] for name in settings["classes"]
            ]
            caption = formats.sentence(f"{who}share of each label that is predicted right")
            blocks.append(Table(caption, ["Label", "Everybody"], rows))
    return Section("rates", "Label by label", blocks)


def _everybody(metrics: Json, label: str) -> Cell:
    return texts.estimate_cell(metrics["metrics"].get(f"recall.{label}"), formats.percent)


def _of_labels(about: str, cells: Sequence[Json], metrics: Json) -> list[Block]:
    rows: list[list[Any]] = []
    bars: list[dict[str, Any]] = []
    groups = list(dict.fromkeys(cell["group"] for cell in cells))
    for label, label_cells in texts.by_label(cells).items():
        ends = texts.label_gap(label_cells)
        gap = None
        if ends is not None:
            lowest, highest = ends
            gap = highest["rate"] - lowest["rate"]
            bars.append({"label": spoken(label), "value": gap})
        recalls = [_right(cell, metrics["settings"]) for cell in label_cells]
        points = texts.known(gap, lambda gap: f"{100 * gap:.1f}")
        rows.append([spoken(label), _everybody(metrics, label), *recalls, points])
    bars.sort(key=lambda bar: -bar["value"])
    drawn = bars[:MOST_LABELS]
    blocks: list[Block] = [Heading(formats.sentence(about))]
    if drawn:
        data = {"rows": drawn, "x_title": "gap in the share predicted right"}
        described = (
            f"The widest gap is that of {drawn[0]['label']}, {formats.points(drawn[0]['value'])}."
        )
        caption = texts.left_out(drawn, bars, "The labels with the widest gaps")
        blocks.append(
            Chart("intervals.ranked_bars", data, f"Gaps by label, {about}", described, caption)
        )
    caption = formats.sentence(f"{about}: share of each label that is predicted right")
    return [*blocks, Table(caption, ["Label", "Everybody", *groups, "Gap in points"], rows)]


def _right(cell: Json, settings: Json) -> Cell:
    n = cell["n"]
    if not cell["enough"]:
        return _cell(Rate(cell["right"], n))
    ends = rate_interval(cell["right"], n, settings["level"])
    recall = _cell(Rate(cell["right"], n, cell["rate"], *ends))
    if not cell["taken_for"]:
        return recall
    labels = [spoken(label) for label in cell["taken_for"]]
    return replace(recall, below=(*recall.below, f"most others: {formats.join(labels)}"))


def _of(metrics: Json, who: str) -> list[Block]:
    settings = metrics["settings"]
    counts = metrics["counts"]
    rates: Mapping[str, str] = RATES
    if not settings.get("labelled", True):
        rates = {"selected": RATES["selected"]}
    numbers = f"with counts and {texts.interval_name(settings)}s"
    blocks: list[Block] = []
    for name, cells in counts.items():
        groups = group_rates(
            cells,
            settings.get("min_cell", 5),
            settings.get("level", 0.95),
            texts.favourable_label(settings),
        )
        blocks.append(Heading(formats.sentence(f"{who}by {spoken(name)}")))
        if not is_intersection(name, counts):
            blocks.append(_chart(spoken(name), groups, rates))
        without = texts.groups_left_out(metrics, f"gap_max.{name}")
        if without:
            blocks.append(formats.sentence(f"in the gaps of error rates {without}") + ".")
        caption = formats.sentence(f"{who}rates by {spoken(name)}, {numbers}")
        blocks.append(_rates_table(caption, groups, rates))
    return blocks


def _rates_table(caption: str, groups: Sequence[GroupRates], rates: Mapping[str, str]) -> Table:
    """A row a group: its size, its rates, its impact ratio."""
    rows: list[list[Any]] = []
    total = sum(group.n for group in groups)
    for group in groups:
        small = ""
        if group.n < SMALL_SHARE * total:
            small = "under 2% of the rows"
        size = Cell(formats.count(group.n), (small,))
        cells = [_cell(getattr(group, key)) for key in rates]
        ratio = _impact(group.impact)
        if is_missing(group.group):
            ratio = texts.lack("no group")
        rows.append([group.group, size, *cells, ratio])
    return Table(caption, ["Group", "Rows", *rates.values(), IMPACT], rows)


def _chart(about: str, groups: Sequence[GroupRates], rates: Mapping[str, str]) -> Chart:
    drawn = texts.largest(groups, MOST_GROUPS, lambda group: group.n)
    rows = []
    described = []
    for key, text in rates.items():
        values = []
        for group in groups:
            value = getattr(group, key).value
            if value is not None and not is_missing(group.group):
                values.append(value)
        difference = "nothing to compare"
        if len(values) > 1:
            difference = f"groups {formats.points(max(values) - min(values))} apart"
        described.append(f"{text}: {difference}")
        for group in drawn:
            rate: Rate = getattr(group, key)
            ends = {"value": rate.value, "low": rate.low, "high": rate.high}
            rows.append({"rate": text, "group": group.group, **ends})
    caption = texts.left_out(drawn, groups, "The largest groups")
    return Chart(
        "group_charts.group_rates",
        {"rows": rows},
        f"Rates by {about}",
        f"{'; '.join(described)}.",
        caption,
    )


def _cell(rate: Rate) -> Cell:
    if rate.value is None:
        return texts.lack("too few rows", formats.count(rate.n))
    counts = f"{formats.count(rate.hits)} of {formats.count(rate.n)}"
    ends = formats.interval(rate.low, rate.high, formats.percent)
    return Cell(formats.percent(rate.value), (counts, ends))


def _impact(ratio: Rate) -> Cell:
    if ratio.value is None:
        return texts.lack("too few rows")
    ends = ""
    if ratio.low is not None:
        ends = formats.interval(ratio.low, ratio.high)
    if ratio.value >= texts.FOUR_FIFTHS:
        return Cell(formats.number(ratio.value), (ends,))
    return Cell(formats.number(ratio.value), (ends, "below four fifths"), kind="refused")


def _scores(histograms: Json) -> Section:
    """A small chart a group, and a table with the numbers of rows."""
    blocks: list[Block] = [
        "The distribution of the predicted probability within each group; the dashed outline is "
        "that of all shown groups together. Groups of different sizes have the same area."
    ]
    for name, histogram in histograms.items():
        blocks += _distribution(spoken(name), histogram, is_intersection(name, histograms))
    return Section("scores", "Scores", blocks)


def _shares(counts: Sequence[int]) -> list[float]:
    total = sum(counts)
    if not total:
        return [0.0] * len(counts)
    return [n / total for n in counts]


def _distribution(about: str, histogram: Json, crossed: bool) -> list[Block]:
    counts = {}
    hidden = []
    for group, group_counts in histogram["groups"].items():
        if group_counts and any(group_counts):
            counts[group] = group_counts
        else:
            hidden.append(group)
    blocks: list[Block] = [Heading(f"Scores by {about}")]
    if hidden:
        blocks.append(f"Not shown because there are too few rows: {', '.join(hidden)}.")
    if not counts:
        return blocks
    edges = histogram["edges"]
    summed = [sum(column) for column in zip(*counts.values(), strict=True)]
    if not crossed:
        charts = _score_charts(edges, counts, _shares(summed))
        blocks.append(Charts(charts))
        caption = texts.left_out(charts, list(counts), "The charts show the largest groups")
        if caption:
            blocks.append(caption)
    caption = f"Scores by {about}: part of each group in each range, with the number of rows"
    columns = [*counts.items(), ("All shown groups", summed)]
    blocks.append(_score_table(caption, edges, columns))
    return blocks


def _score_charts(
    edges: Sequence[float], counts: Mapping[str, Sequence[int]], reference: Sequence[float]
) -> list[Chart]:
    """The distribution of each of the largest groups against that of all, on one scale."""
    shares = {group: _shares(group_counts) for group, group_counts in counts.items()}
    top = max(map(max, [*shares.values(), reference])) or 1.0
    charts = []
    for group in texts.largest(list(counts), MOST_GROUPS, lambda group: sum(counts[group])):
        peak = max(range(len(shares[group])), key=shares[group].__getitem__)
        most = formats.percent(shares[group][peak])
        described = f"The fullest range is {edges[peak]:.3g} to {edges[peak + 1]:.3g}, with {most}."
        data = {"edges": edges, "shares": shares[group], "reference": reference, "top": top}
        caption = f"{group}: {formats.plural(sum(counts[group]), 'row')}"
        charts.append(
            Chart("group_charts.score_distribution", data, f"Scores of {group}", described, caption)
        )
    return charts


def _score_table(
    caption: str, edges: Sequence[float], columns: Sequence[tuple[str, Sequence[int]]]
) -> Table:
    """A row a range of scores, a column a group with its counts."""
    shares = [_shares(counts) for _, counts in columns]
    decimals = 2 if edges[-1] - edges[0] >= 0.5 else 4
    rows: list[list[Any]] = []
    for i, (low, high) in enumerate(zip(edges, edges[1:], strict=False)):
        row: list[Any] = [f"{low:.{decimals}f} to {high:.{decimals}f}"]
        for (_, counts), parts in zip(columns, shares, strict=True):
            row.append(Cell(formats.percent(parts[i]), (formats.count(counts[i]),)))
        rows.append(row)
    names = [name for name, _ in columns]
    return Table(caption, ["Score", *names], rows, folded=True)
