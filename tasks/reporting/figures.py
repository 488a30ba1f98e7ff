"""The parts of a report that have a plot: each plot with the table of the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from markupsafe import Markup

from evenhand.tasks.reporting import charts, formats, row_plots, words
from evenhand.tasks.reporting.context import Evaluation, Gates, Histogram, ReportContext, Step

Limits = dict[str, list[tuple[Literal["min", "max"], float]]]

# A plot with more rows cannot be read; the tables hold every group and point.
MOST_GROUPS = 8
MOST_POINTS = 60
MOST_CURVES = 6


def both(plot: Any, uid: str, **arguments: Any) -> Markup:
    """
    Draw a plot in its wide and its narrow form.

    Only one of the two is displayed, by the width of the page; the other is hidden from screen readers too.
    """
    wide = plot(uid=f"{uid}-w", **arguments)
    return Markup(wide + plot(uid=f"{uid}-n", compact=True, **arguments))


def panels_by_scale(names: list[str]) -> list[tuple[str, str, list[str]]]:
    """Sort metrics into panels of one scale and direction: a title, a key, and the metrics' names."""
    # Certificates bound losses, which have another scale than shares and gaps.
    titles = {
        "higher": "Higher is better",
        "asked": "Features asked of a person: lower is better",
        "growth": "How many times: higher is better",
        "lower": "Lower is better",
        "certificate": "Certificates: lower is better",
        "bound": "The paper’s bound: lower is better",
        "other": "Other numbers",
    }
    kinds = {name: _scale(name) or words.metric(name).better for name in names}
    panels = [
        (title, key, [n for n in names if (kinds[n] or "other") == key]) for key, title in titles.items()
    ]
    return [panel for panel in panels if panel[2]]


def _scale(name: str) -> str | None:
    """A scale that is neither that of shares nor that of gaps."""
    if name.startswith("certificate."):
        return "certificate"
    if name.endswith(".bound"):
        return "bound"
    return {"smallest_growth": "growth", "features_asked": "asked"}.get(name)


def limits_of(gates: Gates | None) -> Limits:
    """Give the limits that a plot of metrics can show, by metric: none against a baseline."""
    limits: Limits = {}
    for result in gates.results if gates else []:
        if result.kind != "no_worse_than_baseline":
            limits.setdefault(result.metric, []).append((result.kind, result.limit))
    return limits


def metric_panels(
    evaluation: Evaluation,
    interval: str,
    limits: Limits,
    paper: Mapping[str, tuple[float, float | None]] | None = None,
    baseline: Evaluation | None = None,
) -> list[dict[str, Any]]:
    """Draw the metrics with their intervals, a panel a scale, beside a paper's row or a baseline."""
    panels = []
    others = baseline.metrics if baseline else {}
    for title, key, names in panels_by_scale(plotted(evaluation)):
        rows, spoken = [], []
        for name in names:
            metric, said = evaluation.metrics[name], words.metric(name)
            other = others.get(name)
            rows.append(
                row_plots.IntervalRow(
                    said.label,
                    said.about,
                    metric.value,
                    metric.low,
                    metric.high,
                    paper=(paper or {}).get(name),
                    limits=tuple(limits.get(name, ())),
                    baseline=None
                    if other is None or other.value is None
                    else (other.value, other.low, other.high),
                )
            )
            value = "not enough evidence" if metric.value is None else formats.number(metric.value)
            beside = f" (baseline {formats.number(other.value)})" if other and other.value is not None else ""
            spoken.append(f"{words.metric_phrase(name)} {value}{beside}")
        low, _ = row_plots.interval_range(rows)
        plot = both(
            row_plots.interval_plot,
            f"metrics-{key}",
            rows=rows,
            title=f"{title}: metrics with their {interval}s",
            description="; ".join(spoken) + ". The table below has every number.",
            floor=0.0 if key in ("lower", "asked") and low >= 0 else None,
            ceiling=1.0 if key == "higher" else None,
            interval_name=interval,
        )
        panels.append({"title": title, "plot": plot})
    return panels


def plotted(evaluation: Evaluation) -> list[str]:
    """Name the metrics that plots show: intersections of attributes are many and stand in tables alone."""
    return [n for n in evaluation.metrics if not words.crossed(n.partition(".")[2], evaluation.counts)]


def metrics(context: ReportContext) -> dict[str, Any] | None:
    """Give every metric with its interval, beside the paper's row and the gates' limits."""
    evaluation = context.evaluation
    if evaluation is None or not evaluation.metrics:
        return None
    paper = context.paper.row if context.paper else {}
    panels = metric_panels(evaluation, context.interval, limits_of(context.gates), paper)
    table = []
    for name in [*evaluation.metrics, *(n for n in paper if n not in evaluation.metrics)]:
        found = evaluation.metrics.get(name)
        row: dict[str, Any] = {
            "paper": None,
            "difference": None,
            "words": words.metric(name),
            "name": name,
            "metric": found,
        }
        if name in paper:
            mean, sd = paper[name]
            row["paper"] = formats.number(mean) + (f" ± {formats.number(sd)}" if sd is not None else "")
            if found is not None and found.value is not None:
                difference = found.value - mean
                sign = "+" if difference >= 0 else "\u2212"
                row["difference"] = sign + formats.number(abs(difference))
        table.append(row)
    return {
        "panels": panels,
        "table": table,
        "glossary": words.glossary(list(evaluation.metrics)),
        "hidden": len(evaluation.metrics) - len(plotted(evaluation)),
    }


def _gap(rates: list[words.Rate]) -> str:
    known = [rate.value for rate in rates if rate.value is not None]
    if len(known) < 2:
        return "nothing to compare"
    text = f"{formats.points(max(known) - min(known))} apart"
    return text if len(known) == len(rates) else f"{text} where rows suffice"


def rates(evaluation: Evaluation, uid: str = "rates") -> list[dict[str, Any]]:
    """Give selection rate, true positive rate and true negative rate of every group of every attribute."""
    parts = []
    for i, (name, cells) in enumerate(evaluation.counts.items()):
        groups = words.group_rates(cells, evaluation.settings.min_cell, evaluation.settings.level)
        about = words.attribute(name)
        shown = sorted(groups, key=lambda g: -g.n)[:MOST_GROUPS]
        shown = [group for group in groups if group in shown]
        plot = None
        if not words.crossed(name, evaluation.counts):
            blocks = []
            for title, key in (
                ("Get the positive answer", "selected"),
                ("True positives who get it (TPR)", "tpr"),
                ("True negatives who do not (TNR)", "tnr"),
            ):
                these: list[words.Rate] = [getattr(group, key) for group in groups]
                rows = [
                    row_plots.RateRow(g.group, rate.value, rate.low, rate.high, f"too few rows ({rate.n})")
                    for g in shown
                    for rate in [getattr(g, key)]
                ]
                blocks.append((title, _gap(these), rows))
            plot = both(
                row_plots.rate_plot,
                f"{uid}-{i}",
                blocks=blocks,
                title=f"Rates by {about}",
                description="; ".join(f"{title}: groups {gap}" for title, gap, _ in blocks)
                + ". The table below has every number.",
            )
        parts.append({"about": about, "plot": plot, "groups": groups, "left": len(groups) - len(shown)})
    return parts


def _shares(counts: list[int]) -> list[float]:
    total = sum(counts)
    return [n / total if total else 0.0 for n in counts]


def _one_attribute(i: int, name: str, histogram: Histogram, crossed: bool) -> dict[str, Any]:
    about = words.attribute(name)
    kept: dict[str, list[int]] = {g: n for g, n in histogram.groups.items() if n is not None and any(n)}
    summed = [int(sum(column)) for column in zip(*kept.values(), strict=True)]
    reference = _shares(summed)
    shares = {group: _shares(counts) for group, counts in kept.items()}
    top = max((max(values) for values in [*shares.values(), reference] if values), default=1.0)
    largest = sorted(kept, key=lambda group: -sum(kept[group]))[:MOST_GROUPS]
    plots = []
    for j, group in enumerate(g for g in kept if g in largest and not crossed):
        peak = max(range(len(shares[group])), key=shares[group].__getitem__)
        described = (
            f"The fullest range is {histogram.edges[peak]:.3g} to {histogram.edges[peak + 1]:.3g}, with "
            f"{formats.percent(shares[group][peak])}. The table below has every number."
        )
        plot = charts.distribution(
            histogram.edges,
            shares[group],
            reference,
            top,
            uid=f"scores-{i}-{j}",
            title=f"Scores of {group}",
            description=described,
        )
        plots.append({"group": group, "n": sum(kept[group]), "plot": Markup(plot)})
    decimals = 2 if histogram.edges[-1] - histogram.edges[0] >= 0.5 else 4
    bins = [
        {
            "range": f"{left:.{decimals}f} to {right:.{decimals}f}",
            "cells": [(shares[group][b], kept[group][b]) for group in kept],
            "all": (reference[b], summed[b]),
        }
        for b, (left, right) in enumerate(zip(histogram.edges, histogram.edges[1:], strict=False))
        if kept
    ]
    return {
        "about": about,
        "plots": plots,
        "groups": list(kept),
        "bins": bins,
        "suppressed": [group for group in histogram.groups if group not in kept],
        "left": len(kept) - len(plots) if plots else 0,
    }


def scores(histograms: Mapping[str, Histogram]) -> list[dict[str, Any]]:
    """Give distributions of the score by group, with the groups that are too small named."""
    return [
        _one_attribute(i, name, histogram, words.crossed(name, histograms))
        for i, (name, histogram) in enumerate(histograms.items())
    ]


def _alike(curves: dict[str, list[float | None]]) -> bool:
    # Curves share one plot when the plot would not flatten any of them.
    spans = []
    for values in curves.values():
        known = [v for v in values if v is not None]
        spans.append((min(known), max(known)) if known else (0.0, 0.0))
    low, high = min(s[0] for s in spans), max(s[1] for s in spans)
    return len(curves) <= MOST_CURVES and all(b - a >= 0.1 * (high - low) for a, b in spans)


def training(context: ReportContext) -> dict[str, Any] | None:
    """Give curves over the steps of training, thinned to points that the table can hold."""
    curves = context.training
    if curves is None or not curves.steps:
        return None
    series = {n: v for n, v in curves.series.items() if any(value is not None for value in v)}
    if not series:
        return None
    last = len(curves.steps) - 1
    wanted = min(last + 1, MOST_POINTS)
    kept = sorted({round(k * last / max(wanted - 1, 1)) for k in range(wanted)})
    steps = [curves.steps[k] for k in kept]
    thinned = {name.replace("_", " "): [values[k] for k in kept] for name, values in series.items()}
    together = [list(thinned.items())] if _alike(thinned) else [[pair] for pair in thinned.items()]
    plots = []
    for i, group in enumerate(together):
        spoken = []
        for name, values in group:
            known = [v for v in values if v is not None]
            if known:
                spoken.append(f"{name} goes from {formats.number(known[0])} to {formats.number(known[-1])}")
        plots.append(
            both(
                charts.line_plot,
                f"training-{i}",
                steps=steps,
                series=group,
                title=f"{formats.join([name for name, _ in group])} by training step",
                description="; ".join(spoken) + ". The table below has every number.",
            )
        )
    rows = [(step, [values[k] for values in thinned.values()]) for k, step in enumerate(steps)]
    return {"plots": plots, "names": list(thinned), "rows": rows, "of": curves.steps[-1]}


def steps(taken: Sequence[Step]) -> dict[str, Any] | None:
    """Tell how long each step took, and which were taken from the cache."""
    if not taken:
        return None
    reused = [step.name for step in taken if step.cached]
    total = sum(step.seconds for step in taken)
    plot = both(
        row_plots.timeline,
        "steps",
        bars=[row_plots.Bar(step.name, step.seconds, step.cached) for step in taken],
        title="Time of each step",
        description=f"{formats.plural(len(taken), 'step')}, {formats.seconds(total)} in all, "
        f"{len(reused)} reused from the cache. The table below has every number.",
    )
    return {"plot": plot, "rows": taken, "reused": reused, "total": total}
