"""Estimates as marks or bars with their intervals, a row each, and which features a model
asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from evenhand.fairlib.plots.theme import (
    CHARACTER,
    UPRIGHT,
    Rows,
    colour,
    data,
    finish,
    is_narrow,
    line_at,
    records,
    series,
)

ROW = 34
NARROW_ROW = 54


def row_axis(found: list[dict[str, Any]], width: int) -> alt.Y:
    """A row for each record's ``label``, in their order; on a narrow page :func:`row_names` stand
    above.
    """
    order = [record["label"] for record in found]
    beside = alt.Axis(title=None, labelLimit=340, ticks=False, domain=False, grid=True)
    return alt.Y("label:N", sort=order, axis=None if is_narrow(width) else beside)


def row_names(base: alt.Chart, y: alt.Y, width: int) -> list[alt.Chart]:
    """On a narrow page, the row's label as text above its mark."""
    if not is_narrow(width):
        return []
    text = base.mark_text(
        align="left", baseline="bottom", dy=-8, color=colour("ink"), fontSize=12, limit=width - 20
    )
    return [text.encode(x=alt.value(2), y=y, text="label:N")]


def finish_rows(layers: list[Any], count: int, width: int) -> Any:
    """Layer charts whose rows have one height, and apply the theme."""
    row = NARROW_ROW if is_narrow(width) else ROW
    return finish(alt.layer(*layers), width, max(count, 1) * row)


def metric_intervals(
    rows: Rows,
    *,
    width: int = 680,
    interval: str = "95% interval",
    floor: float | None = None,
    ceiling: float | None = None,
    names: Mapping[str, str] | None = None,
    percent: bool = False,
    reference: float | None = None,
) -> alt.LayerChart:
    """Metrics as points with whiskers, beside a printed result, a baseline and the limits of gates.

    Rows have ``label``, ``value``, ``low``, ``high``; optionally ``paper`` and ``paper_sd`` (mean
    and standard deviation of a printed result), ``baseline``, ``baseline_low``, ``baseline_high``,
    and ``limit`` of a gate. Missing numbers are None.

    `interval` is the name of the whiskers, `floor` and `ceiling` are ends of the axis, `percent`
    writes it in percent, `names` are what the legend calls ``value``, ``baseline``, ``paper`` and
    ``limit``, and an upright line stands at `reference`.
    """
    found = records(rows)
    for record in found:
        mean = record.get("paper")
        deviation = record.get("paper_sd") or 0.0
        record["paper_low"] = None if mean is None else mean - deviation
        record["paper_high"] = None if mean is None else mean + deviation
    base = alt.Chart(data(found))
    y = row_axis(found, width)
    scale = alt.Scale(zero=False, nice=True, **_ends(found, floor, ceiling))
    kinds = [key for key in KINDS if any(record.get(key) is not None for record in found)]
    called = {key: (names or {}).get(key, KINDS[key][0]) for key in kinds}
    tints, shapes = (
        alt.Scale(domain=list(called.values()), range=[KINDS[key][of] for key in kinds])
        for of in (1, 2)
    )
    tint = alt.Color("kind:N", scale=tints, legend=alt.Legend() if len(kinds) > 1 else None)
    stroke = alt.Stroke("kind:N", scale=tints, legend=None)
    titled = alt.Axis(title=f"bars: {interval}", format="%" if percent else "")

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scale, axis=titled)

    layers: list[Any] = line_at(x("zero"), reference, name="ink", dash=())
    if "paper" in kinds:
        band = base.mark_bar(color=colour("band"), height=14).transform_filter(
            "datum.paper != null"
        )
        layers.append(band.encode(x=x("paper_low"), x2="paper_high:Q", y=y))
    if "baseline" in kinds:
        line = base.mark_rule(color=colour("c1"), strokeWidth=1.5, yOffset=7)
        layers.append(line.encode(x=x("baseline_low"), x2="baseline_high:Q", y=y))
    whisker = base.mark_rule(color=colour("c0"), strokeWidth=2).transform_filter(
        "datum.low != null"
    )
    layers.append(whisker.encode(x=x("low"), x2="high:Q", y=y))
    for key in kinds:
        offset = 7 if key == "baseline" else 0
        marks = base.transform_filter(f"datum['{key}'] != null").transform_calculate(
            kind=f"'{called[key]}'"
        )
        points = marks.mark_point(filled=True, size=90, opacity=1, strokeWidth=1.5, yOffset=offset)
        layers.append(points.encode(x(key), y, tint, alt.Shape("kind:N", scale=shapes), stroke))
    return finish_rows([*layers, *row_names(base, y, width)], len(found), width)


# Name in the legend, colour and shape of each kind of mark.
KINDS = {
    "value": ("this model", colour("c0"), "circle"),
    "unclear": ("no difference can be told", colour("muted"), "diamond"),
    "baseline": ("baseline", colour("c1"), "square"),
    "paper": ("paper", colour("c1"), "diamond"),
    "limit": ("limit of a gate", colour("ink"), UPRIGHT),
}


def _ends(
    found: list[dict[str, Any]], floor: float | None, ceiling: float | None
) -> dict[str, Any]:
    """Domain that covers all numbers and reaches the given ends."""
    keys = ["value", "unclear", "low", "high", "limit", "baseline"]
    keys += [f"{of}_{end}" for of in ("paper", "baseline") for end in ("low", "high")]
    known = [record[key] for record in found for key in keys if record.get(key) is not None]
    if not known:
        return {}
    low = min(known) if floor is None else min(floor, *known)
    high = max(known) if ceiling is None else max(ceiling, *known)
    return {"domain": [low, high if high > low else low + 1.0]}


def differences(
    rows: Rows, *, width: int = 680, better: str | None = None, interval: str = "95% interval"
) -> alt.LayerChart:
    """Differences of a model from a baseline as points with whiskers about a line at 0.

    Rows have ``label``, ``value`` (model less baseline), ``low``, ``high``, ``finding``
    ("difference" or "no difference can be told"), and optionally ``limit``, the difference that a
    gate allows. `better`, "higher" or "lower", is the side on which the model is, and `interval`
    the name of the whiskers.
    """
    found = records(rows)
    for record in found:
        if record["finding"] != "difference":
            record |= {"unclear": record["value"], "value": None}
    direction = {"higher": ", model better →", "lower": ", ← model better"}.get(better or "", "")
    names = {"value": "difference", "limit": "allowed by a gate"}
    text = f"{interval}{direction}"
    return metric_intervals(
        found, width=width, interval=text, names=names, floor=0.0, ceiling=0.0, reference=0.0
    )


# Widest column of a chart with few of them.
WIDEST = 92


def ranked_bars(
    rows: Rows,
    *,
    x_title: str,
    domain: Sequence[float] = (),
    reference: float | None = None,
    width: int = 680,
) -> alt.LayerChart:
    """Horizontal bars from zero in their order, with whiskers, and a dashed line to compare with.

    Rows have ``label``, ``value``, and optionally ``low``, ``high`` (None for no whisker) and
    ``text`` at the end of the bar. `domain` are the ends of the axis; default: 0 and the largest
    number.
    """
    found = [{"low": None, "high": None, "text": "", **record} for record in records(rows)]
    for record in found:
        record["end"] = max(
            [v for v in (record["value"], record["high"]) if v is not None], default=0.0
        )
    base = alt.Chart(data(found))
    y = row_axis(found, width)
    reach = list(domain) or [0.0, max((record["end"] for record in found), default=0.0) or 1.0]
    x = alt.X("value:Q", title=x_title, scale=alt.Scale(domain=reach))
    bars = base.mark_bar(color=colour("c0"), height=12).encode(x=x, y=y)
    whisker = base.mark_rule(color=colour("ink"), strokeWidth=1.5).transform_filter(
        "datum.low != null"
    )
    text = base.mark_text(align="left", dx=5, color=colour("muted")).encode(
        x="end:Q", y=y, text="text:N"
    )
    layers = [bars, whisker.encode(x="low:Q", x2="high:Q", y=y), text, *row_names(base, y, width)]
    return finish_rows([*layers, *line_at(x, reference)], len(found), width)


def asked_features(rows: Rows, *, predicted: str, width: int = 680) -> Any:
    """AUCs of each feature above the share of people who are asked for it.

    Rows have ``name``; ``share`` with ``low`` and ``high`` (absent or None for a set of features,
    which has AUCs only); ``classifier_auc`` of the outcome and ``adversary_auc`` of the group
    `predicted`, or None. Where no AUC is known there is only the lower panel.
    """
    found = [{"share": None, "low": None, **record} for record in records(rows)]
    order = [record["name"] for record in found]
    step = min((width - 60) / max(len(found), 1), WIDEST)
    angle = (
        0
        if all(CHARACTER * len(name) < step for name in order)
        else -90
        if is_narrow(width)
        else -45
    )
    font = 12 if step > 14 else 9
    names = alt.Axis(
        title=None, labelAngle=angle, labelLimit=120, labelOverlap=False, labelFontSize=font
    )
    x = alt.X("name:N", sort=order, scale=alt.Scale(domain=order), axis=names)
    unit = alt.Scale(domain=[0, 1])
    y = alt.Y("share:Q", title="share who are asked", scale=unit, axis=alt.Axis(format="%"))
    base = alt.Chart(data([record for record in found if record["share"] is not None]))
    whisker = base.mark_rule(color=colour("ink"), strokeWidth=1.5).transform_filter(
        "datum.low != null"
    )
    bars = base.mark_bar(color=colour("c0"), width=0.7 * step).encode(x=x, y=y)
    size = {"width": step * len(found)}
    shares = alt.layer(bars, whisker.encode(x=x, y="low:Q", y2="high:Q")).properties(
        height=150, **size
    )
    known = any(
        record[key] is not None for record in found for key in ("classifier_auc", "adversary_auc")
    )
    aucs = auc_panel(found, order, f"predicts {predicted}").properties(height=130, **size)
    return finish(alt.vconcat(*([aucs] if known else []), shares, spacing=14), width)


def auc_panel(found: list[dict[str, Any]], order: list[str], predicts: str) -> Any:
    """Marks of how well each feature alone predicts the outcome and the group."""
    kinds = {"predicts the outcome": "classifier_auc", predicts: "adversary_auc"}
    points = []
    for record in found:
        known = {kind: record[key] for kind, key in kinds.items() if record[key] is not None}
        points += [
            {"name": record["name"], "kind": kind, "auc": auc} for kind, auc in known.items()
        ]
    values = [0.5, *(point["auc"] for point in points)]
    scale = alt.Scale(domain=[min(values), max(max(values), 0.6)], nice=True)
    x = alt.X("name:N", sort=order, scale=alt.Scale(domain=order), axis=None)
    beside = alt.XOffset("kind:N", scale=alt.Scale(domain=list(kinds)))
    y = alt.Y("auc:Q", title="AUC of this feature alone", scale=scale)
    marks = alt.Chart(data(points)).mark_point(filled=True, size=60, opacity=1)
    return alt.layer(*line_at(y, 0.5), marks.encode(x, beside, y, **series(list(kinds), "kind:N")))
