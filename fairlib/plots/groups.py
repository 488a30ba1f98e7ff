"""Groups side by side: rates with intervals, distributions of scores, shares before and after, heat maps."""

from __future__ import annotations

from typing import Any

import altair as alt

from evenhand.fairlib.plots.theme import (
    Rows,
    colour,
    data,
    finish,
    is_narrow,
    records,
)

__all__ = ["group_rates", "kept_by_group", "paired_shares", "score_distribution"]


def group_rates(rows: Rows, *, width: int = 680) -> Any:
    """
    Rates of each group with Wilson intervals, one panel a rate; the span between the groups is shaded.

    Parameters
    ----------
    rows : records or data frame
        ``rate`` (title of the panel), ``group``, ``value``, ``low``, ``high``; None where rows are too few.
    width : int

    Returns
    -------
    altair.VConcatChart
    """
    found = records(rows)
    panels = []
    titles = list(dict.fromkeys(record["rate"] for record in found))
    order = list(dict.fromkeys(record["group"] for record in found))
    label = 110 if is_narrow(width) else 180
    for title in titles:
        own = [record for record in found if record["rate"] == title]
        known = [record["value"] for record in own if record["value"] is not None]
        base = alt.Chart(data(own))
        y = alt.Y(
            "group:N",
            sort=order,
            title=None,
            axis=alt.Axis(minExtent=label, maxExtent=label, labelLimit=label - 8),
        )
        x = alt.X("value:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", title=None))
        layers: list[Any] = []
        if len(known) > 1:
            span = alt.Chart(alt.Data(values=[{"low": min(known), "high": max(known)}]))
            layers.append(span.mark_rect(color=colour("soft"), opacity=0.7).encode(x="low:Q", x2="high:Q"))
        whisker = base.mark_rule(color=colour("c0"), strokeWidth=2).transform_filter("datum.low != null")
        layers.append(whisker.encode(x="low:Q", x2="high:Q", y=y))
        dots = base.mark_point(filled=True, size=80, opacity=1, color=colour("c0"))
        layers.append(dots.transform_filter("datum.value != null").encode(x=x, y=y))
        few = base.mark_text(
            align="left", color=colour("muted"), fontStyle="italic", dx=4, text="too few rows"
        )
        layers.append(few.transform_filter("datum.value == null").encode(x=alt.value(0), y=y))
        size = {"width": width - label - 24, "height": max(26 * len(own), 40)}
        panels.append(alt.layer(*layers).properties(title=title, **size))
    return finish(alt.vconcat(*panels, spacing=18), width)


def score_distribution(
    edges: list[float], shares: list[float], reference: list[float], top: float, *, width: int = 330
) -> alt.LayerChart:
    """
    Which share of a group gets which score, over the outline of all groups together.

    Parameters
    ----------
    edges : list of float, length b + 1
        Ends of the bins.
    shares, reference : list of float, length b
        Of the group, and of all shown groups.
    top : float
        Largest share of any group: charts of one attribute share their scale.
    width : int
        Of the page; the chart takes 220 pixels, as several stand side by side.

    Returns
    -------
    altair.LayerChart
    """
    rows = [
        {"left": left, "right": right, "share": share, "all": every}
        for left, right, share, every in zip(edges, edges[1:], shares, reference, strict=False)
    ]
    last = {"left": edges[-1], "right": edges[-1], "share": shares[-1], "all": reference[-1]}
    scale = alt.Scale(domain=[0, top])
    bars = alt.Chart(data(rows)).mark_bar(color=colour("c0"), opacity=0.75, binSpacing=1)
    x = alt.X("left:Q", bin="binned", title="score", axis=alt.Axis(tickCount=3))
    y = alt.Y("share:Q", scale=scale, title=None, axis=alt.Axis(format="%", tickCount=3))
    outline = alt.Chart(data([*rows, last])).mark_line(
        interpolate="step-after", color=colour("muted"), strokeDash=[3, 3], strokeWidth=1.3
    )
    layers = [bars.encode(x=x, x2="right:Q", y=y), outline.encode(x="left:Q", y=alt.Y("all:Q", scale=scale))]
    return finish(alt.layer(*layers).properties(width=150, height=90), width)


def paired_shares(rows: Rows, *, width: int = 680) -> Any:
    """
    Shares of two sets of rows, two bars a name.

    Parameters
    ----------
    rows : records or data frame
        ``name``, ``rows`` (which set) and ``share``.
    width : int

    Returns
    -------
    altair.Chart
    """
    found = records(rows)
    order = list(dict.fromkeys(record["name"] for record in found))
    sets = list(dict.fromkeys(record["rows"] for record in found))
    colours = alt.Scale(domain=sets, range=[colour("c4"), colour("c0")])
    label = 110 if is_narrow(width) else 200
    axis = alt.Axis(title=None, minExtent=label, maxExtent=label, labelLimit=label - 8)
    bars = (
        alt.Chart(data(found))
        .mark_bar(height={"band": 0.9})
        .encode(
            x=alt.X("share:Q", title=None, axis=alt.Axis(format="%")),
            y=alt.Y("name:N", sort=order, axis=axis, scale=alt.Scale(paddingInner=0.3)),
            yOffset=alt.YOffset("rows:N", sort=sets),
            color=alt.Color("rows:N", scale=colours, sort=sets, legend=alt.Legend(symbolType="square")),
        )
    )
    return finish(bars.properties(width=width - label - 24, height=30 * len(order)), width)


def kept_by_group(rows: Rows, *, width: int = 680) -> Any:
    """
    Share of a batch in each group as a bar, filled as far as its rows are kept, with a tick for comparison.

    Parameters
    ----------
    rows : records or data frame
        ``group``, ``share``, ``kept`` (part of the share that is kept), ``training`` (share to compare with,
        or None).
    width : int

    Returns
    -------
    altair.LayerChart
    """
    found = records(rows)
    order = [record["group"] for record in found]
    kinds = ["rows of this batch", "expected to be kept", "share of the training rows"]
    scale = alt.Scale(domain=kinds, range=[colour("soft"), colour("c0"), colour("ink")])
    y = alt.Y("group:N", sort=order, title="proxy group")

    def layer(chart: alt.Chart, field: str, kind: str) -> alt.Chart:
        x = alt.X(f"{field}:Q", title=None, axis=alt.Axis(format="%"))
        legend = alt.Legend(symbolType="square")
        marked = chart.transform_calculate(kind=f"'{kind}'")
        return marked.encode(x=x, y=y, color=alt.Color("kind:N", scale=scale, legend=legend))

    base = alt.Chart(data(found))
    layers = [layer(base.mark_bar(), "share", kinds[0]), layer(base.mark_bar(), "kept", kinds[1])]
    tick = base.mark_tick(thickness=2, size=18).transform_filter("datum.training != null")
    layers.append(layer(tick, "training", kinds[2]))
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return finish(alt.layer(*layers).properties(width=width, height=26 * len(order), autosize=fit), width)
