"""Performance and fairness: every metric with its interval, beside a paper's row or a baseline."""

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
        yield Section("differences", "Beside the baseline", _differences(documents, interval))


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
        shown = f"{text}: model less baseline"
        way = direction(names[0])
        blocks += [
            Heading(text),
            difference_chart(shown, differences, names, interval, way, limits),
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
        own = "certificate" if name.startswith("certificate.") else ""
        own = "other" if name.startswith("certificate.radius.") else own
        panels.setdefault(own or SCALES.get(name) or direction(name) or "other", []).append(name)
    return [(key, text, panels[key]) for key, text in PANELS if key in panels]


def without_labels(names: Iterable[str]) -> list[str]:
    """Leave the recalls out: labels have a section of their own."""
    return [name for name in names if not name.startswith("recall.")]


def panels(documents: Documents, found: Json, interval: str) -> list[Block]:
    """Charts of the metrics with their intervals, a panel a scale."""
    paper = (documents["run"].get("paper") or {}).get("row", {})
    others = (documents.get("baseline") or {}).get("metrics", {})
    limits = _limits(documents, of_differences=False)
    blocks: list[Block] = []
    for key, text, names in by_scale(without_intersections(found, documents["metrics"]["counts"])):
        rows = []
        said = []
        for name in names:
            metric = found[name]
            other = texts.ends(others.get(name) or {})
            mean, deviation = paper.get(name, (None, None))
            row = {"label": title(name), **texts.ends(metric), "paper": mean, "paper_sd": deviation}
            row |= {"baseline": other["value"], "limit": limits.get(name)}
            rows.append(row | {"baseline_low": other["low"], "baseline_high": other["high"]})
            beside = (
                "" if other["value"] is None else f" (baseline {formats.number(other['value'])})"
            )
            said.append(f"{title(name)} {texts.estimate_cell(metric).text}{beside}")
        lows = [row[end] for row in rows for end in ("value", "low") if row[end] is not None]
        data = {
            "rows": rows,
            "interval": interval,
            "floor": 0.0 if key in ("lower", "asked") and min(lows, default=0.0) >= 0 else None,
            "ceiling": 1.0 if key == "higher" else None,
        }
        shown = f"{text}: metrics with {interval}s"
        described = f"{'; '.join(said)}."
        blocks += [Heading(text), Chart("intervals.metric_intervals", data, shown, described)]
    return blocks


def _table(documents: Documents, interval: str) -> Table:
    """All metrics, beside a paper's numbers, or a baseline's with the paired differences."""
    own = documents["metrics"]["metrics"]
    paper = documents["run"].get("paper")
    baseline = documents.get("baseline")
    printed = paper["row"] if paper else {}
    other = baseline["metrics"] if baseline else {}
    compared = (documents.get("comparison") or {"differences": {}})["differences"]
    rows: list[list[Any]] = []
    for name in without_labels(dict.fromkeys([*own, *printed, *other])):
        way = direction(name)
        found = own.get(name)
        without = texts.groups_left_out(documents["metrics"], name)
        row = [
            texts.metric_cell(name, f"{way} is better" if way else "", without),
            texts.estimate_cell(found),
        ]
        if paper and name not in printed:
            row.append(texts.lack("not in the paper", span=2))
        elif paper:
            mean, deviation = printed[name]
            spread = "" if deviation is None else f" ± {formats.number(deviation)}"
            apart = None if found is None or found["value"] is None else found["value"] - mean
            row.append(Cell(formats.number(mean) + spread))
            row.append(texts.known(apart, formats.signed, "cannot be computed"))
        if baseline:
            row += [texts.estimate_cell(other.get(name)), difference_cell(name, compared.get(name))]
        rows.append(row)
    columns = ["Metric", "Model", *(["Paper", "Difference"] if paper else [])]
    columns += ["Baseline", "Model less baseline"] if baseline else []
    caption = f"All metrics with their {interval}s"
    return Table(f"{caption}, beside {paper['source']}" if paper else caption, columns, rows)


FINDINGS = {
    "better": "better",
    "worse": "worse",
    "other": "differs",
    "same": "the same",
    "unclear": "no difference can be told",
    "lacking": "not enough evidence",
}


def finding(name: str, difference: Json) -> str:
    """What follows from a paired difference: only an interval without 0 tells model and baseline
    apart.
    """
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
    said = []
    for name in names:
        found: dict[str, Any] = texts.ends(differences[name])
        limit = limits.get(name)
        kind = finding(name, found)
        if direction(name) != way:
            low, value, high = (-found[end] for end in ("high", "value", "low"))
            found = {"value": value, "low": low, "high": high}
        row = {
            "label": title(name),
            **found,
            "limit": limit if limit is None or way == "lower" else -limit,
        }
        row["finding"] = "difference" if kind not in ("unclear", "lacking") else FINDINGS["unclear"]
        rows.append(row)
        said.append(f"{title(name)}: {formats.signed(found['value'])}, {FINDINGS[kind]}")
    data = {"rows": rows, "better": way, "interval": interval}
    return Chart("intervals.differences", data, text, f"{'; '.join(said)}.", caption)


def glossary(names: Iterable[str]) -> list[Block]:
    """Explain each metric once, for all the subjects that it is reported by."""
    subjects: dict[MetricInfo, list[str]] = {}
    for name in names:
        try:
            info, subject = describe(name)
        except KeyError:
            continue
        subjects.setdefault(info, []).extend([spoken(subject)] if subject else [])
    entries = []
    for info, about in subjects.items():
        many = {"class": "in question"}.get(info.subject, "several attributes, one at a time")
        listed = formats.join(about, "or") if len(about) < 5 else many
        way = f"{info.direction} is better" if info.direction else ""
        source = f" ({info.source})" if info.source else ""
        text = info.explanation.replace("{subject}", listed)
        entries.append((info.title, way, f"{text} Formula: `{info.formula}`{source}."))
    return [Heading("What the numbers mean"), Terms(entries)] if entries else []
