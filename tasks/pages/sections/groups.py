"""Group by group: the rates of every group, and how its scores are distributed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Cell, Chart, Charts, Documents, Heading, Section, Table
from evenhand.tasks.pages.texts import GroupRates, Rate, group_rates, interval_name, is_intersection

PAGES = {"run": 40, "evaluation": 40}
NEEDS = ("metrics",)

# A chart with more groups cannot be read; the tables have every group.
MOST_GROUPS = 8
RATES = (
    ("selected", "Selection rate"),
    ("tpr", "True positive rate (TPR)"),
    ("tnr", "True negative rate (TNR)"),
)


def build(documents: Documents) -> list[Section]:
    """The rates of the model, and of the baseline where there is one; the model's scores."""
    found = (
        [_rates(documents["metrics"], documents.get("baseline"))] if documents["metrics"]["counts"] else []
    )
    return found + ([_scores(documents["histograms"])] if documents.get("histograms") else [])


def _rates(metrics: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> Section:
    settings = metrics["settings"]
    lead = (
        "The selection rate is the share of a group that is predicted positive; TPR and TNR are the shares "
        "of its true positives and of its true negatives that are predicted right. The shaded span reaches "
        f"from the lowest group to the highest. Whiskers are {interval_name(settings)}s (Wilson); a rate "
        f"over fewer than {settings.get('min_cell', 5)} rows is not shown."
    )
    blocks: list[Block] = [lead, *_of(metrics, "The model: " if baseline else "")]
    if baseline:
        blocks += _of(baseline, "The baseline: ")
    return Section("rates", "Group by group", blocks)


def _of(metrics: Mapping[str, Any], who: str) -> list[Block]:
    settings, counts = metrics["settings"], metrics["counts"]
    blocks: list[Block] = []
    for name, cells in counts.items():
        groups = group_rates(cells, settings.get("min_cell", 5), settings.get("level", 0.95))
        blocks.append(
            Heading(f"{who}by {spoken(name)}".capitalize() if not who else f"{who}by {spoken(name)}")
        )
        if not is_intersection(name, counts):
            blocks.append(_chart(spoken(name), groups))
        blocks.append(_table(f"{who}rates by {spoken(name)}", groups, interval_name(settings)))
    return blocks


def _chart(about: str, groups: Sequence[GroupRates]) -> Chart:
    largest = sorted(groups, key=lambda group: -group.n)[:MOST_GROUPS]
    shown = [group for group in groups if group in largest]
    rows, said = [], []
    for key, text in RATES:
        rates: list[Rate] = [getattr(group, key) for group in groups]
        known = [rate.value for rate in rates if rate.value is not None]
        apart = formats.points(max(known) - min(known)) if len(known) > 1 else "nothing to compare"
        said.append(f"{text}: groups {apart} apart" if len(known) > 1 else f"{text}: {apart}")
        for group in shown:
            rate = getattr(group, key)
            rows.append(
                {"rate": text, "group": group.group, "value": rate.value, "low": rate.low, "high": rate.high}
            )
    left = len(groups) - len(shown)
    caption = f"The largest groups; {left} more are in the table." if left else ""
    described = f"{'; '.join(said)}. The table below has every number."
    return Chart("groups.group_rates", {"rows": rows}, f"Rates by {about}", described, caption)


def _table(caption: str, groups: Sequence[GroupRates], interval: str) -> Table:
    rows: list[list[Any]] = [
        [f"{group.group}", group.n, *(_cell(getattr(group, key)) for key, _ in RATES)] for group in groups
    ]
    head = ["Group", "Rows", *(text for _, text in RATES)]
    return Table(f"{caption[0].upper()}{caption[1:]}, with counts and {interval}s", head, rows)


def _cell(rate: Rate) -> Cell:
    if rate.value is None:
        return Cell("too few rows", (formats.count(rate.n),), kind="lack")
    counts = f"{formats.count(rate.hits)} of {formats.count(rate.n)}"
    return Cell(
        formats.percent(rate.value), (counts, f"{formats.percent(rate.low)} to {formats.percent(rate.high)}")
    )


def _scores(histograms: Mapping[str, Any]) -> Section:
    """A small chart a group, and a table with the numbers of rows."""
    blocks: list[Block] = [
        "The distribution of the predicted probability within each group; the dashed outline is that of all "
        "shown groups together. Groups of different sizes have the same area."
    ]
    for name, histogram in histograms.items():
        blocks += _distribution(spoken(name), histogram, is_intersection(name, histograms))
    return Section("scores", "Scores", blocks)


def _shares(counts: list[int]) -> list[float]:
    total = sum(counts)
    return [n / total if total else 0.0 for n in counts]


def _distribution(about: str, histogram: Mapping[str, Any], crossed: bool) -> list[Block]:
    edges = histogram["edges"]
    kept = {
        group: counts for group, counts in histogram["groups"].items() if counts is not None and any(counts)
    }
    hidden = [group for group in histogram["groups"] if group not in kept]
    blocks: list[Block] = [Heading(f"Scores by {about}")]
    if hidden:
        blocks.append(f"Not shown because there are too few rows: {', '.join(hidden)}.")
    if not kept:
        return blocks
    summed = [sum(column) for column in zip(*kept.values(), strict=True)]
    reference, shares = _shares(summed), {group: _shares(counts) for group, counts in kept.items()}
    top = max(max(values) for values in [*shares.values(), reference]) or 1.0
    largest = sorted(kept, key=lambda group: -sum(kept[group]))[:MOST_GROUPS]
    charts = []
    for group in (g for g in kept if g in largest and not crossed):
        peak = max(range(len(shares[group])), key=shares[group].__getitem__)
        described = (
            f"The fullest range is {edges[peak]:.3g} to {edges[peak + 1]:.3g}, with "
            f"{formats.percent(shares[group][peak])}. The table below has every number."
        )
        data = {"edges": edges, "shares": shares[group], "reference": reference, "top": top}
        caption = f"{group}: {formats.plural(sum(kept[group]), 'row')}"
        charts.append(Chart("groups.score_distribution", data, f"Scores of {group}", described, caption))
    if charts:
        blocks.append(Charts(charts))
        left = len(kept) - len(charts)
        if left:
            blocks.append(f"The charts show the largest groups; {left} more are in the table.")
    decimals = 2 if edges[-1] - edges[0] >= 0.5 else 4
    rows: list[list[Any]] = []
    for place, (low, high) in enumerate(zip(edges, edges[1:], strict=False)):
        found = [(shares[group][place], kept[group][place]) for group in kept]
        rows.append(
            [
                f"{low:.{decimals}f} to {high:.{decimals}f}",
                *(Cell(formats.percent(share), (formats.count(n),)) for share, n in found),
                Cell(formats.percent(reference[place]), (formats.count(summed[place]),)),
            ]
        )
    caption = f"Scores by {about}: part of each group in each range, with the number of rows"
    blocks.append(Table(caption, ["Score", *kept, "All shown groups"], rows, folded=True))
    return blocks
