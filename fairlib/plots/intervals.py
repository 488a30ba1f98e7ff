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
# A baseline's mark is so many pixels below that of the model, so that neither covers the other.
BASELINE_OFFSET = 11


def row_axis(records: list[dict[str, Any]], width: int) -> alt.Y:
    """A row for each record's ``label``, in their order; on a narrow page :func:`row_names` stand
    above.

    Parameters
    ----------
    records : list of dict
        The records.
    width : int
        Width of the page in pixels.

    Returns
    -------
    altair.Y
    """
    order = [record["label"] for record in records]
    axis = None
    if not is_narrow(width):
        # a mark at the left end of the axis must not cover the label
        axis = alt.Axis(
            title=None, labelLimit=340, labelPadding=9, ticks=False, domain=False, grid=True
        )
    return alt.Y("label:N", sort=order, axis=axis)


def row_names(base: alt.Chart, y: alt.Y, width: int) -> list[alt.Chart]:
    """On a narrow page, the row's label as text above its mark.

    Parameters
    ----------
    base : altair.Chart
        A chart with the records.
    y : altair.Y
        The rows.
    width : int
        Width of the page in pixels.

    Returns
    -------
    list of altair.Chart
        Empty on a wide page.
    """
    if not is_narrow(width):
        return []
    text = base.mark_text(
        align="left", baseline="bottom", dy=-8, color=colour("ink"), fontSize=12, limit=width - 20
    )
    return [text.encode(x=alt.value(2), y=y, text="label:N")]


def finish_rows(layers: list[Any], count: int, width: int) -> Any:
    """Layer charts whose rows have one height, and apply the theme.

    Parameters
    ----------
    layers : list of altair.Chart
    count : int
        Number of rows.
    width : int
        Width of the page in pixels.

    Returns
    -------
    altair.LayerChart
    """
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
    """Metrics as points with whiskers, next to a printed result, a baseline and the limits of
    gates.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
        With ``label``, ``value``, ``low``, ``high``; optionally ``paper`` and ``paper_sd`` (mean
        and standard deviation of a printed result), ``baseline``, ``baseline_low``,
        ``baseline_high``, and ``limit`` of a gate. Missing numbers are None.
    width : int, default 680
        In pixels.
    interval : str, default "95% interval"
        Name of the whiskers.
    floor, ceiling : float or None, default None
        Ends of the axis.
    names : mapping or None, default None
        Texts of the legend for ``value``, ``baseline``, ``paper`` and ``limit``.
    percent : bool, default False
        Whether the axis is in percent.
    reference : float or None, default None
        Place of an upright line.

    Returns
    -------
    altair.LayerChart
    """
    entries = records(rows)
    for record in entries:
        _add_paper_interval(record)
    base = alt.Chart(data(entries))
    y = row_axis(entries, width)
    scale = alt.Scale(zero=False, nice=True, **_ends(entries, floor, ceiling))
    axis = alt.Axis(title=f"bars: {interval}", format="%" if percent else "")

    def _x_of(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scale, axis=axis)

    kinds = [key for key in KINDS if _has_number(entries, key)]
    layers: list[Any] = line_at(_x_of("zero"), reference, name="ink", dash=())
    if "paper" in kinds:
        band = base.mark_bar(color=colour("band"), height=14).transform_filter(
            "datum.paper != null"
        )
        layers.append(band.encode(x=_x_of("paper_low"), x2="paper_high:Q", y=y))
    if "baseline" in kinds:
        line = base.mark_rule(color=colour("c1"), strokeWidth=1.5, yOffset=BASELINE_OFFSET)
        layers.append(line.encode(x=_x_of("baseline_low"), x2="baseline_high:Q", y=y))
    whisker = base.mark_rule(color=colour("c0"), strokeWidth=2).transform_filter(
        "datum.low != null"
    )
    layers.append(whisker.encode(x=_x_of("low"), x2="high:Q", y=y))
    titles = {key: (names or {}).get(key, KINDS[key][0]) for key in kinds}
    encodings = _kind_encodings(titles)
    for key, title in titles.items():
        offset = BASELINE_OFFSET if key == "baseline" else 0
        marks = base.transform_filter(f"datum['{key}'] != null").transform_calculate(
            kind=f"'{title}'"
        )
        points = marks.mark_point(filled=True, size=90, opacity=1, strokeWidth=1.5, yOffset=offset)
        layers.append(points.encode(_x_of(key), y, *encodings))
    return finish_rows([*layers, *row_names(base, y, width)], len(entries), width)


def _add_paper_interval(record: dict[str, Any]) -> None:
    """Add the ends of a printed result's interval, a standard deviation to either side."""
    mean = record.get("paper")
    deviation = record.get("paper_sd") or 0.0
    record["paper_low"] = None
    record["paper_high"] = None
    if mean is not None:
        record["paper_low"] = mean - deviation
        record["paper_high"] = mean + deviation


def _has_number(entries: list[dict[str, Any]], key: str) -> bool:
    return any(record.get(key) is not None for record in entries)


def _kind_encodings(titles: Mapping[str, str]) -> list[Any]:
    """Colour, shape and stroke of each kind of mark, by its title in the legend."""
    domain = list(titles.values())
    tints = alt.Scale(domain=domain, range=[KINDS[key][1] for key in titles])
    shapes = alt.Scale(domain=domain, range=[KINDS[key][2] for key in titles])
    legend = alt.Legend() if len(titles) > 1 else None
    return [
        alt.Color("kind:N", scale=tints, legend=legend),
        alt.Shape("kind:N", scale=shapes),
        alt.Stroke("kind:N", scale=tints, legend=None),
    ]


# Name in the legend, colour and shape of each kind of mark.
KINDS = {
    "value": ("this model", colour("c0"), "circle"),
    "unclear": ("no significant difference", colour("muted"), "diamond"),
    "baseline": ("baseline", colour("c1"), "square"),
    "paper": ("paper", colour("c1"), "diamond"),
    "limit": ("limit of a gate", colour("ink"), UPRIGHT),
}


# Fields of a record that its row must show.
_NUMBERS = (
    *("value", "unclear", "low", "high", "limit"),
    *("baseline", "baseline_low", "baseline_high", "paper_low", "paper_high"),
)


def _ends(
    entries: list[dict[str, Any]], floor: float | None, ceiling: float | None
) -> dict[str, Any]:
    """Domain that covers all numbers and reaches the given ends."""
    numbers = []
    for record in entries:
        for key in _NUMBERS:
            if record.get(key) is not None:
                numbers.append(record[key])
    if not numbers:
        return {}
    low = min(numbers)
    high = max(numbers)
    if floor is not None:
        low = min(floor, low)
    if ceiling is not None:
        high = max(ceiling, high)
    return {"domain": [low, high if high > low else low + 1.0]}


def differences(
    rows: Rows, *, width: int = 680, better: str | None = None, interval: str = "95% interval"
) -> alt.LayerChart:
    """Differences of a model from a baseline as points with whiskers about a line at 0.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
        With ``label``, ``value`` (model less baseline), ``low``, ``high``, ``finding`` (any but
        "difference" is drawn as not significant), and optionally ``limit``, the difference that a
        gate allows.
    width : int, default 680
        In pixels.
    better : {"higher", "lower"} or None, default None
        The side on which the model is better.
    interval : str, default "95% interval"
        Name of the whiskers.

    Returns
    -------
    altair.LayerChart
    """
    entries = records(rows)
    for record in entries:
        if record["finding"] != "difference":
            record["unclear"] = record["value"]
            record["value"] = None
    direction = {"higher": ", model better →", "lower": ", ← model better"}.get(better or "", "")
    return metric_intervals(
        entries,
        width=width,
        interval=f"{interval}{direction}",
        names={"value": "difference", "limit": "allowed by a gate"},
        floor=0.0,
        ceiling=0.0,
        reference=0.0,
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

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
        With ``label``, ``value``, and optionally ``low``, ``high`` (None for no whisker) and
        ``text`` at the end of the bar.
    x_title : str
    domain : sequence of two floats, default ()
        Ends of the axis; by default 0 and the largest number.
    reference : float or None, default None
        Place of the dashed line.
    width : int, default 680
        In pixels.

    Returns
    -------
    altair.LayerChart
    """
    entries = [{"low": None, "high": None, "text": "", **record} for record in records(rows)]
    for record in entries:
        ends = [end for end in (record["value"], record["high"]) if end is not None]
        record["end"] = max(ends, default=0.0)
    base = alt.Chart(data(entries))
    y = row_axis(entries, width)
    largest = max((record["end"] for record in entries), default=0.0)
    scale = alt.Scale(domain=list(domain) or [0.0, largest or 1.0])
    x = alt.X("value:Q", title=x_title, scale=scale)
    bars = base.mark_bar(color=colour("c0"), height=12).encode(x=x, y=y)
    whisker = base.mark_rule(color=colour("ink"), strokeWidth=1.5).transform_filter(
        "datum.low != null"
    )
    text = base.mark_text(align="left", dx=5, color=colour("muted")).encode(
        x="end:Q", y=y, text="text:N"
    )
    layers = [bars, whisker.encode(x="low:Q", x2="high:Q", y=y), text, *row_names(base, y, width)]
    return finish_rows([*layers, *line_at(x, reference)], len(entries), width)


def asked_features(rows: Rows, *, predicted: str, width: int = 680) -> Any:
    """AUCs of each feature above the share of people who are asked for it.

    Where no AUC is known there is only the lower panel.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
        With ``name``; ``share`` with ``low`` and ``high`` (absent or None for a set of features,
        which has AUCs only); ``classifier_auc`` of the outcome and ``adversary_auc`` of the group
        `predicted`, or None.
    predicted : str
        Name of the group that the adversary predicts.
    width : int, default 680
        In pixels.

    Returns
    -------
    altair.VConcatChart
    """
    entries = [{"share": None, "low": None, **record} for record in records(rows)]
    order = [record["name"] for record in entries]
    step = min((width - 60) / max(len(entries), 1), WIDEST)
    names = alt.Axis(
        title=None,
        labelAngle=_label_angle(order, step, width),
        labelLimit=120,
        labelOverlap=False,
        labelFontSize=12 if step > 14 else 9,
    )
    x = alt.X("name:N", sort=order, scale=alt.Scale(domain=order), axis=names)
    unit = alt.Scale(domain=[0, 1])
    y = alt.Y("share:Q", title="share who are asked", scale=unit, axis=alt.Axis(format="%"))
    base = alt.Chart(data([record for record in entries if record["share"] is not None]))
    whisker = base.mark_rule(color=colour("ink"), strokeWidth=1.5).transform_filter(
        "datum.low != null"
    )
    bars = base.mark_bar(color=colour("c0"), width=0.7 * step).encode(x=x, y=y)
    size = {"width": step * len(entries)}
    shares = alt.layer(bars, whisker.encode(x=x, y="low:Q", y2="high:Q")).properties(
        height=150, **size
    )
    panels = [shares]
    if _has_number(entries, "classifier_auc") or _has_number(entries, "adversary_auc"):
        aucs = auc_panel(entries, order, f"predicts {predicted}").properties(height=130, **size)
        panels.insert(0, aucs)
    return finish(alt.vconcat(*panels, spacing=14), width)


def _label_angle(names: Sequence[str], step: float, width: int) -> int:
    """Angle of the names of columns: level where all fit into a step of so many pixels."""
    if all(CHARACTER * len(name) < step for name in names):
        return 0
    if is_narrow(width):
        return -90
    return -45


def auc_panel(records: list[dict[str, Any]], order: list[str], predicts: str) -> Any:
    """Marks of how well each feature alone predicts the outcome and the group.

    Parameters
    ----------
    records : list of dict
        Records with ``name``, ``classifier_auc`` and ``adversary_auc``.
    order : list of str
        Names of the features, in the order of the columns.
    predicts : str
        Text of the legend for the group.

    Returns
    -------
    altair.LayerChart
    """
    kinds = {"predicts the outcome": "classifier_auc", predicts: "adversary_auc"}
    points = []
    for record in records:
        for kind, key in kinds.items():
            if record[key] is not None:
                points.append({"name": record["name"], "kind": kind, "auc": record[key]})
    values = [0.5, *(point["auc"] for point in points)]
    scale = alt.Scale(domain=[min(values), max(max(values), 0.6)], nice=True)
    x = alt.X("name:N", sort=order, scale=alt.Scale(domain=order), axis=None)
    offset = alt.XOffset("kind:N", scale=alt.Scale(domain=list(kinds)))
    y = alt.Y("auc:Q", title="AUC of this feature alone", scale=scale)
    marks = alt.Chart(data(points)).mark_point(filled=True, size=60, opacity=1)
    return alt.layer(*line_at(y, 0.5), marks.encode(x, offset, y, **series(list(kinds), "kind:N")))
