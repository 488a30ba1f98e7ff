"""Performance and fairness: every metric with its interval, a paper's row and a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

from evenhand.fairlib.catalogue import (
    MetricInfo,
    better_or_worse,
    describe,
    direction,
    spoken,
    title,
    without_intersections,
)
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import (
    Block,
    Cell,
    Chart,
    Documents,
    Heading,
    Json,
    Section,
    Table,
    Terms,
)

PAGES = {"run": 30, "evaluation": 20}
NEEDS = ("metrics",)

# Panels of one chart hold metrics of one scale and direction.
PANELS = (
    ("higher", "Higher is better"),
    ("asked", "Features asked of a person: lower is better"),
    ("growth", "Growth in times: higher is better"),
    ("lower", "Lower is better"),
    ("certificate", "Certificates: lower is better"),
    ("other", "Other numbers"),
)
SCALES = {"smallest_growth": "growth", "features_asked": "asked"}


def build(documents: Documents) -> Iterator[Section]:
    """A chart a scale, the table of all metrics, what they mean, and the differences from a
    baseline.
    """
    metrics = documents["metrics"]
    if not metrics["metrics"]:
        return
    baseline = documents.get("baseline")
    paper = documents["run"].get("paper")
    interval = texts.interval_name(metrics["settings"])
    unseen = " that the model had not seen" if "job" in documents["run"] else ""
    lead = (
        f"Measured on {formats.count(metrics['n'])} rows{unseen}. The {interval} says how far a "
        "number could move had other people been drawn from the same population."
    )
    if paper:
        lead += (
            f" Diamonds are the results of {paper['source']}, with a band of one standard "
            "deviation."
        )
    if baseline:
        lead += (
            " The intervals of model and baseline may overlap although the two differ: the "
            "interval of their difference on the same rows decides."
        )
    blocks: list[Block] = [lead, *panels(documents, metrics["metrics"], interval)]
    hidden = len(metrics["metrics"]) - len(
        without_intersections(metrics["metrics"], metrics["counts"])
    )
    if hidden:
        crossed = formats.plural(hidden, "metric of intersections", "metrics of intersections")
        blocks.append(
            f"{crossed} of attributes {'is' if hidden == 1 else 'are'} in the table only."
        )
    blocks.append(_table(documents, interval))
    yield Section("metrics", "Performance and fairness", [*blocks, *glossary(metrics["metrics"])])
    if documents.get("comparison"):
        yield Section(
            "differences", "Compared with the baseline", _differences(documents, interval)
        )


def _differences(documents: Documents, interval: str) -> list[Block]:
    """A chart a scale, of metrics that are better in the same direction."""
    differences = documents["comparison"]["differences"]
    limits = _limits(documents, of_differences=True)
    blocks: list[Block] = [
        "Model less baseline on the same rows. A diamond is a difference whose paired interval "
        "contains 0; a tick is the difference that a gate allows."
    ]
    for _, text, names in by_scale(
        without_intersections(differences, documents["metrics"]["counts"])
    ):
        chart_title = f"{text}: model less baseline"
        way = direction(names[0])
        blocks += [
            Heading(text),
            difference_chart(chart_title, differences, names, interval, way, limits),
        ]
    return blocks if len(blocks) > 1 else []


def _limits(documents: Documents, *, of_differences: bool) -> dict[str, float]:
    """Limits of gates by metric: those on differences from the baseline, or all others."""
    results = texts.gate_results(documents)
    relative = "no_worse_than_baseline"
    return {r["metric"]: r["limit"] for r in results if (r["kind"] == relative) == of_differences}


def by_scale(names: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """Sort metrics into panels: a key, a title, and the metrics' names."""
    panels: dict[str, list[str]] = {}
    for name in without_labels(names):
        panels.setdefault(_panel(name), []).append(name)
    return [(key, text, panels[key]) for key, text in PANELS if key in panels]


def _panel(name: str) -> str:
    """Key of the panel that a metric is in."""
    if name.startswith("certificate.radius."):
        return "other"
    if name.startswith("certificate."):
        return "certificate"
    return SCALES.get(name) or direction(name) or "other"


def without_labels(names: Iterable[str]) -> list[str]:
    """Leave the recalls out: labels have a section of their own."""
    return [name for name in names if not name.startswith("recall.")]


def panels(documents: Documents, metrics: Json, interval: str) -> list[Block]:
    """Charts of the metrics with their intervals, a panel a scale."""
    paper = (documents["run"].get("paper") or {}).get("row", {})
    baseline = (documents.get("baseline") or {}).get("metrics", {})
    limits = _limits(documents, of_differences=False)
    blocks: list[Block] = []
    of_attributes = without_intersections(metrics, documents["metrics"]["counts"])
    for key, text, names in by_scale(of_attributes):
        rows = []
        described = []
        for name in names:
            marks = paper.get(name, (None, None))
            row = _panel_row(name, metrics[name], baseline.get(name), marks, limits.get(name))
            rows.append(row)
            description = f"{title(name)} {texts.estimate_cell(metrics[name]).text}"
            if row["baseline"] is not None:
                description += f" (baseline {formats.number(row['baseline'])})"
            described.append(description)
        data = {
            "rows": rows,
            "interval": interval,
            "floor": _floor(key, rows),
            "ceiling": 1.0 if key == "higher" else None,
        }
        caption = f"{text}: metrics with {interval}s"
        chart = Chart("intervals.metric_intervals", data, caption, f"{'; '.join(described)}.")
        blocks += [Heading(text), chart]
    return blocks


def _panel_row(
    name: str,
    metric: Json,
    baseline: Json | None,
    paper: Sequence[float | None],
    limit: float | None,
) -> dict[str, Any]:
    """A metric's marks: its estimate, a paper's mean and deviation, the baseline's, a gate's
    limit.
    """
    mean, deviation = paper
    compared = texts.ends(baseline or {})
    return {
        "label": title(name),
        **texts.ends(metric),
        "paper": mean,
        "paper_sd": deviation,
        "baseline": compared["value"],
        "limit": limit,
        "baseline_low": compared["low"],
        "baseline_high": compared["high"],
    }


def _floor(key: str, rows: Sequence[Json]) -> float | None:
    """Where the axis of a panel begins: at 0 where less is better and nothing is below 0."""
    if key not in ("lower", "asked"):
        return None
    lowest = 0.0
    for row in rows:
        for end in ("value", "low"):
            if row[end] is not None:
                lowest = min(lowest, row[end])
    return 0.0 if lowest >= 0 else None


def _table(documents: Documents, interval: str) -> Table:
    """All metrics, with a paper's numbers, or a baseline's with the paired differences."""
    metrics = documents["metrics"]["metrics"]
    paper = documents["run"].get("paper")
    baseline = documents.get("baseline")
    columns = ["Metric", "Model"]
    caption = f"All metrics with their {interval}s"
    printed: Json = {}
    if paper:
        printed = paper["row"]
        columns += ["Paper", "Difference"]
        caption += f", compared with {paper['source']}"
    of_baseline: Json = {}
    if baseline:
        of_baseline = baseline["metrics"]
        columns += ["Baseline", "Model less baseline"]
    differences = (documents.get("comparison") or {"differences": {}})["differences"]
    rows: list[list[Any]] = []
    for name in without_labels(dict.fromkeys([*metrics, *printed, *of_baseline])):
        way = direction(name)
        remark = f"{way} is better" if way else ""
        without = texts.groups_left_out(documents["metrics"], name)
        metric = metrics.get(name)
        row = [texts.metric_cell(name, remark, without), texts.estimate_cell(metric)]
        if paper:
            row += _paper_cells(metric, printed.get(name))
        if baseline:
            row.append(texts.estimate_cell(of_baseline.get(name)))
            row.append(difference_cell(name, differences.get(name)))
        rows.append(row)
    return Table(caption, columns, rows)


def _paper_cells(metric: Json | None, printed: Sequence[float | None] | None) -> list[Cell]:
    """A paper's mean ± deviation, and the difference from it."""
    if printed is None:
        return [texts.lack("not in the paper", span=2)]
    mean, deviation = printed
    text = formats.number(mean)
    if deviation is not None:
        text += f" ± {formats.number(deviation)}"
    difference = None
    if mean is not None and metric is not None and metric["value"] is not None:
        difference = metric["value"] - mean
    return [Cell(text), texts.known(difference, formats.signed, "cannot be computed")]


FINDINGS = {
    "better": "better",
    "worse": "worse",
    "other": "differs",
    "same": "the same",
    "unclear": "no significant difference",
    "lacking": "not enough evidence",
}


def finding(name: str, difference: Json) -> str:
    """Finding from a paired difference: significant only if the interval does not contain 0."""
    low = difference.get("low")
    high = difference.get("high")
    value = difference["value"]
    if value is None:
        return "lacking"
    if low is None or high is None:
        return "unclear"
    if low == high == 0:
        return "same"
    if low <= 0 <= high:
        return "unclear"
    return better_or_worse(name, value) or "other"


def difference_cell(name: str, difference: Json | None) -> Cell:
    """A paired difference with its interval and what follows from it."""
    if difference is None:
        return texts.lack("not compared")
    kind = finding(name, difference)
    value = difference["value"]
    if value is not None and abs(value) < texts.ROUNDING:
        difference = {**difference, "value": 0.0}
    cell = texts.estimate_cell(difference, formats.signed)
    if value is None or difference["low"] is None:
        return cell
    symbol, colour = {"better": ("\u2713 ", "passed"), "worse": ("\u2715 ", "refused")}.get(
        kind, ("", "")
    )
    return Cell(cell.text, (*cell.below, f"{symbol}{FINDINGS[kind]}"), kind=colour)


def difference_chart(
    text: str,
    differences: Json,
    names: Sequence[str],
    interval: str,
    way: str | None,
    limits: Json = MappingProxyType({}),
    caption: str = "",
) -> Chart:
    """Paired differences, with those that gates allow; metrics whose better `way` is another change
    sign.
    """
    rows = []
    described = []
    for name in names:
        difference: dict[str, Any] = texts.ends(differences[name])
        kind = finding(name, difference)
        if direction(name) != way:
            difference = {
                "value": -difference["value"],
                "low": -difference["high"],
                "high": -difference["low"],
            }
        limit = limits.get(name)
        if limit is not None and way != "lower":
            limit = -limit
        row = {"label": title(name), **difference, "limit": limit}
        row["finding"] = "difference"
        if kind in ("unclear", "lacking"):
            row["finding"] = FINDINGS["unclear"]
        rows.append(row)
        described.append(f"{title(name)}: {formats.signed(difference['value'])}, {FINDINGS[kind]}")
    data = {"rows": rows, "better": way, "interval": interval}
    return Chart("intervals.differences", data, text, f"{'; '.join(described)}.", caption)


def glossary(names: Iterable[str]) -> list[Block]:
    """Explain each metric once, for all the subjects that it is reported by."""
    subjects: dict[MetricInfo, list[str]] = {}
    for name in names:
        try:
            info, subject = describe(name)
        except KeyError:
            continue
        of_metric = subjects.setdefault(info, [])
        if subject:
            of_metric.append(spoken(subject))
    if not subjects:
        return []
    entries = []
    for info, about in subjects.items():
        if len(about) < 5:
            listed = formats.join(about, "or")
        elif info.subject == "class":
            listed = "in question"
        else:
            listed = "several attributes, one at a time"
        way = f"{info.direction} is better" if info.direction else ""
        source = f" ({info.source})" if info.source else ""
        text = info.explanation.replace("{subject}", listed)
        entries.append((info.title, way, f"{text} Formula: `{info.formula}`{source}."))
    return [Heading("What the numbers mean"), Terms(entries)]
