"""Performance and fairness: every metric with its interval, beside a paper's row or a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.catalogue import describe, spoken, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Heading, Json, Section, Table, Terms
from evenhand.tasks.pages.texts import direction, estimate_cell, interval_name, metric_cell, plotted

PAGES = {"run": 30, "evaluation": 20}
NEEDS = ("metrics",)

# Panels of one chart hold metrics of one scale and direction.
PANELS = (
    ("higher", "Higher is better"),
    ("asked", "Features asked of a person: lower is better"),
    ("growth", "Growth in times: higher is better"),
    ("lower", "Lower is better"),
    ("certificate", "Certificates: lower is better"),
    ("bound", "The paper’s bound: lower is better"),
    ("other", "Other numbers"),
)
SCALES = {"smallest_growth": "growth", "features_asked": "asked"}


def build(documents: Documents) -> Section | None:
    """A chart a scale, the table of all metrics, and what they mean."""
    metrics = documents["metrics"]
    if not metrics["metrics"]:
        return None
    baseline, paper = documents.get("baseline"), documents["run"].get("paper")
    interval = interval_name(metrics["settings"])
    lead = (
        f"Measured on {formats.count(metrics['n'])} rows that the model had not seen. The {interval} says "
        "how far a number could move had other people been drawn from the same population."
    )
    if paper:
        lead += f" Diamonds are the results of {paper['source']}, with a band of one standard deviation."
    if baseline:
        lead += (
            " The intervals of model and baseline may overlap although the two differ: the interval of their "
            "difference on the same rows decides."
        )
    blocks: list[Block] = [lead, *panels(documents, metrics["metrics"], interval)]
    hidden = len(metrics["metrics"]) - len(plotted(metrics["metrics"], metrics["counts"]))
    if hidden:
        crossed = formats.plural(hidden, "metric of intersections", "metrics of intersections")
        blocks.append(f"{crossed} of attributes {'is' if hidden == 1 else 'are'} in the table only.")
    table = _beside_baseline(documents, interval) if baseline else _alone(documents, interval)
    return Section(
        "metrics", "Performance and fairness", [*blocks, table, *glossary(list(metrics["metrics"]))]
    )


def by_scale(names: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """Sort metrics into panels: a key, a title, and the metrics' names."""
    kinds = {name: _scale(name) for name in names}
    found = [(key, text, [name for name in names if kinds[name] == key]) for key, text in PANELS]
    return [panel for panel in found if panel[2]]


def _scale(name: str) -> str:
    if name.startswith("certificate."):
        return "certificate"
    if name.endswith(".bound"):
        return "bound"
    known = direction(name)
    return SCALES.get(name) or (known if known in ("higher", "lower") else "other")


def panels(documents: Documents, found: Json, interval: str) -> list[Block]:
    """Charts of the metrics with their intervals, a panel a scale."""
    paper = (documents["run"].get("paper") or {}).get("row", {})
    others = (documents.get("baseline") or {}).get("metrics", {})
    limits = {
        result["metric"]: result
        for result in (documents.get("decision") or {"results": []})["results"]
        if result["kind"] != "no_worse_than_baseline"
    }
    blocks: list[Block] = []
    for key, text, names in by_scale(plotted(found, documents["metrics"]["counts"])):
        rows, said = [], []
        for name in names:
            metric, other, limit = found[name], others.get(name) or {}, limits.get(name, {})
            mean, deviation = paper.get(name, (None, None))
            rows.append(
                {
                    "label": title(name),
                    **{end: metric.get(end) for end in ("value", "low", "high")},
                    "paper": mean,
                    "paper_sd": deviation,
                    "baseline": other.get("value"),
                    "baseline_low": other.get("low"),
                    "baseline_high": other.get("high"),
                    "limit": limit.get("limit"),
                }
            )
            value = "not enough evidence" if metric["value"] is None else formats.number(metric["value"])
            beside = f" (baseline {formats.number(other['value'])})" if other.get("value") is not None else ""
            said.append(f"{title(name)} {value}{beside}")
        lows = [row[end] for row in rows for end in ("value", "low") if row[end] is not None]
        ends = {
            "floor": 0.0 if key in ("lower", "asked") and min(lows, default=0.0) >= 0 else None,
            "ceiling": 1.0 if key == "higher" else None,
        }
        described = f"{'; '.join(said)}. The table below has every number."
        data = {"rows": rows, "interval": interval, **ends}
        blocks += [
            Heading(text),
            Chart("intervals.metric_intervals", data, f"{text}: metrics with {interval}s", described),
        ]
    return blocks


def _alone(documents: Documents, interval: str) -> Table:
    metrics, paper = documents["metrics"]["metrics"], documents["run"].get("paper")
    printed = paper["row"] if paper else {}
    rows = []
    for name in [*metrics, *(name for name in printed if name not in metrics)]:
        found = metrics.get(name)
        row: list[Any] = [metric_cell(name)]
        if found is None:
            row.append(Cell("not measured in this run", kind="lack", span=2))
        elif found["value"] is None:
            reason = (found["reason"],) if found.get("reason") else ()
            row.append(Cell("not enough evidence", reason, kind="lack", span=2))
        else:
            row += [formats.number(found["value"]), formats.interval(found.get("low"), found.get("high"))]
        if paper:
            row += _printed(printed.get(name), found)
        rows.append([*row, direction(name)])
    beside = ["Paper", "Difference"] if paper else []
    caption = f"All metrics, beside {paper['source']}" if paper else "All metrics"
    return Table(caption, ["Metric", "This run", interval, *beside, "Better"], rows)


def _printed(row: tuple[float, float | None] | None, found: Json | None) -> list[Cell]:
    """A paper's number, and how far this run's is from it."""
    if row is None:
        return [Cell("not in the paper", kind="lack", span=2)]
    mean, deviation = row
    text = formats.number(mean) + (f" ± {formats.number(deviation)}" if deviation is not None else "")
    if found is None or found["value"] is None:
        return [Cell(text), Cell("cannot be computed", kind="lack")]
    return [Cell(text), Cell(formats.signed(found["value"] - mean))]


def _beside_baseline(documents: Documents, interval: str) -> Table:
    """The model's metrics, the baseline's, and the paired difference with what follows from it."""
    own, other = documents["metrics"]["metrics"], documents["baseline"]["metrics"]
    compared = (documents.get("comparison") or {"differences": {}})["differences"]
    rows = []
    for name in dict.fromkeys([*own, *other]):
        way = direction(name)
        rows.append(
            [
                metric_cell(name, f"{way} is better" if way in ("higher", "lower") else ""),
                estimate_cell(own.get(name)),
                estimate_cell(other.get(name)),
                difference_cell(name, compared.get(name)),
            ]
        )
    caption = (
        f"All metrics with their {interval}s, and whether the model is better or worse than the baseline"
    )
    return Table(caption, ["Metric", "Model", "Baseline", "Model less baseline"], rows)


FINDINGS = {
    "better": "better",
    "worse": "worse",
    "other": "differs",
    "same": "the same",
    "unclear": "no difference can be told",
    "lacking": "not enough evidence",
}


def finding(name: str, difference: Json) -> str:
    """What follows from a paired difference: only an interval without 0 tells model and baseline apart."""
    low, high, value = difference.get("low"), difference.get("high"), difference["value"]
    if value is None:
        return "lacking"
    if low is None or high is None:
        return "unclear"
    if low == high == 0:
        return "same"
    if low <= 0 <= high:
        return "unclear"
    way = direction(name)
    if way not in ("higher", "lower"):
        return "other"
    return "better" if (value > 0) == (way == "higher") else "worse"


def difference_cell(name: str, difference: Json | None) -> Cell:
    """A paired difference with its interval and what follows from it."""
    if difference is None:
        return Cell("not compared", kind="lack")
    kind = finding(name, difference)
    if kind == "lacking":
        return estimate_cell(difference)
    cell = estimate_cell(difference, formats.signed)
    symbol = {"better": "\u2713", "worse": "\u2715"}.get(kind, "")
    colour = {"better": "passed", "worse": "refused"}.get(kind, "")
    return Cell(cell.text, (*cell.below, f"{symbol} {FINDINGS[kind]}".strip()), kind=colour)


def glossary(names: Sequence[str]) -> list[Block]:
    """Explain each metric once, for all the subjects that it is reported by."""
    subjects: dict[str, list[str]] = {}
    infos = {}
    for name in names:
        try:
            info, subject = describe(name)
        except KeyError:
            continue
        infos[info.pattern] = info
        subjects.setdefault(info.pattern, []).append(spoken(subject))
    entries = []
    for pattern, info in infos.items():
        about = [subject for subject in subjects[pattern] if subject]
        listed = formats.join(about, "or") if len(about) < 5 else "several attributes, one at a time"
        way = f"{info.direction} is better" if info.direction else ""
        text = info.explanation.replace("{subject}", listed)
        entries.append((info.title, way, f"{text} {_formula(info.formula, info.source)}"))
    return [Heading("What the numbers mean"), Terms(entries)] if entries else []


def _formula(formula: str, source: str) -> str:
    return f"Formula: `{formula}`{f' ({source})' if source else ''}."
