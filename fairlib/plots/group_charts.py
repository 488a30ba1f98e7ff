"""Groups side by side: rates with intervals, distributions, shares before and after, heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from evenhand.fairlib.plots import theme
from evenhand.fairlib.plots.theme import Rows, colour, data, distinct, finish, is_narrow, records

# Opacity of the strongest cell of a heat map: text on it stays legible in both colour schemes.
DARKEST = 0.6


def group_rates(rows: Rows, *, width: int = 680) -> alt.VConcatChart:
    """Rates of each group with their intervals, one panel a rate; the span between the groups is
    shaded.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
        With ``rate`` (title of the panel), ``group``, ``value``, ``low`` and ``high``; None where
        rows are too few.
    width : int, default 680
        In pixels.

    Returns
    -------
    altair.VConcatChart
    """
    entries = records(rows)
    label = 180
    if is_narrow(width):
        label = 110
    y = alt.Y("group:N", sort=distinct(entries, "group"), title=None, axis=theme.name_axis(label))
    x = alt.X("value:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", title=None))
    panels = []
    for title in distinct(entries, "rate"):
        panel_records = [record for record in entries if record["rate"] == title]
        size = {"width": width - label - 24, "height": max(26 * len(panel_records), 40)}
        panels.append(_rate_panel(panel_records, x, y).properties(title=title, **size))
    return finish(alt.vconcat(*panels, spacing=18), width)


def _rate_panel(entries: list[dict[str, Any]], x: alt.X, y: alt.Y) -> Any:
    """One rate of all groups: their span, their intervals, their values, and too small groups."""
    base = alt.Chart(data(entries))
    layers: list[Any] = []
    values = [record["value"] for record in entries if record["value"] is not None]
    if len(values) > 1:
        span = alt.Chart(data([{"low": min(values), "high": max(values)}]))
        layers.append(
            span.mark_rect(color=colour("soft"), opacity=0.7).encode(x="low:Q", x2="high:Q")
        )
    whisker = base.mark_rule(color=colour("c0"), strokeWidth=2).transform_filter(
        "datum.low != null"
    )
    layers.append(whisker.encode(x="low:Q", x2="high:Q", y=y))
    dots = base.mark_point(filled=True, size=80, opacity=1, color=colour("c0"))
    layers.append(dots.transform_filter("datum.value != null").encode(x=x, y=y))
    few = base.mark_text(
        align="left", color=colour("muted"), fontStyle="italic", dx=4, text="too few rows"
    )
    layers.append(few.transform_filter("datum.value == null").encode(x=alt.value(0), y=y))
    return alt.layer(*layers)


def score_distribution(
    edges: list[float], shares: list[float], reference: list[float], top: float, *, width: int = 330
) -> alt.LayerChart:
    """Which share of a group gets which score, over the outline of all groups together.

    Parameters
    ----------
    edges : list of float, length b + 1
        Ends of the bins of scores.
    shares : list of float, length b
        Shares of the group.
    reference : list of float, length b
        Shares of all shown groups.
    top : float
        Largest share of any group: charts of one attribute share their scale.
    width : int, default 330
        Width of the page in pixels; the chart takes 220, as several stand next to each other.

    Returns
    -------
    altair.LayerChart
    """
    rows = []
    for start, end, share, every in zip(edges, edges[1:], shares, reference, strict=False):
        rows.append({"left": start, "right": end, "share": share, "all": every})
    last = {"left": edges[-1], "right": edges[-1], "share": shares[-1], "all": reference[-1]}
    scale = alt.Scale(domain=[0, top])
    bars = alt.Chart(data(rows)).mark_bar(color=colour("c0"), opacity=0.75, binSpacing=1)
    x = alt.X("left:Q", bin="binned", title="score", axis=alt.Axis(tickCount=3))
    y = alt.Y("share:Q", scale=scale, title=None, axis=alt.Axis(format="%", tickCount=3))
    outline = alt.Chart(data([*rows, last])).mark_line(
        interpolate="step-after", color=colour("muted"), strokeDash=[3, 3], strokeWidth=1.3
    )
    layers = [
        bars.encode(x=x, x2="right:Q", y=y),
        outline.encode(x="left:Q", y=alt.Y("all:Q", scale=scale)),
    ]
    return finish(alt.layer(*layers).properties(width=150, height=90), width)


def histogram(
    edges: Sequence[float],
    counts: Sequence[int],
    *,
    x_title: str,
    y_title: str = "people",
    shares: bool = False,
    width: int = 680,
) -> alt.LayerChart:
    """Counts as upright bars, with the number above a bar where it fits.

    Parameters
    ----------
    edges : sequence of float, length b + 1
        Ends of the bins; for counts of whole numbers they are halfway between these.
    counts : sequence of int, length b
    x_title : str
    y_title : str, default "people"
    shares : bool, default False
        Whether bars show each count's share of the sum.
    width : int, default 680
        In pixels.

    Returns
    -------
    altair.LayerChart
    """
    total = max(sum(counts), 1)
    bar_width = (width - 60) / max(len(counts), 1)
    rows = []
    for start, end, count in zip(edges, edges[1:], counts, strict=False):
        if shares:
            height = count / total
            text = f"{height:.1%}"
        else:
            height = count
            text = f"{count:,}"
        if not count or theme.CHARACTER * len(text) >= bar_width:
            text = ""
        middle = (start + end) / 2
        rows.append({"left": start, "right": end, "height": height, "middle": middle, "text": text})
    y_axis = alt.Axis(tickMinStep=1, tickCount=5)
    if shares:
        y_axis = alt.Axis(format="%", tickCount=5)
    base = alt.Chart(data(rows)).encode(y=alt.Y("height:Q", title=y_title, axis=y_axis))
    # no tick between whole numbers where the bins are of one
    x_axis = alt.Axis(tickMinStep=edges[1] - edges[0])
    scale = alt.Scale(domain=[edges[0], edges[-1]], nice=False)
    x = alt.X("left:Q", bin="binned", title=x_title, scale=scale, axis=x_axis)
    bars = base.mark_bar(color=colour("c0"), binSpacing=2).encode(x=x, x2="right:Q")
    texts = base.mark_text(dy=-7, color=colour("ink")).encode(x="middle:Q", text="text:N")
    return finish(alt.layer(bars, texts), width, 190)


def group_shares(
    rows: Rows, *, before: str = "all rows", after: str = "kept rows", width: int = 680
) -> alt.LayerChart:
    """Two bars a group, its share before and after, with a mark at the target where there is one.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
        With ``group``, ``before`` and ``after``, None for a share of too few rows; optionally
        ``target``.
    before : str, default "all rows"
    after : str, default "kept rows"
        Names in the legend.
    width : int, default 680
        In pixels.

    Returns
    -------
    altair.LayerChart
    """
    entries = records(rows)
    narrow = is_narrow(width)
    if narrow:
        label_width = 0
        row_height = 52
        slots = ["name", before, after]  # the group's name has a line of its own
        names = None
        target_offset = 8
    else:
        label_width = 150
        row_height = 38
        slots = [before, after]
        names = theme.name_axis(label_width)
        target_offset = 0
    order = distinct(entries, "group")
    inner_width = width - label_width - 24
    shares = _numbers(entries, ("before", "after", "target"))
    x_scale = alt.Scale(domain=[0, max(shares, default=1.0) * 1.2], nice=False)
    ticks = alt.Axis(format="%", title=None, tickCount=6, labelFlush=False)
    x = alt.X("share:Q", scale=x_scale, axis=ticks)
    y = alt.Y("group:N", sort=order, axis=names, scale=alt.Scale(paddingInner=0.2))
    base = alt.Chart().encode(y=y, yOffset=alt.YOffset("kind:N", scale=alt.Scale(domain=slots)))
    fills = alt.Scale(domain=[before, after], range=[colour("soft"), colour("c0")])
    fill = alt.Fill("kind:N", scale=fills, legend=alt.Legend(symbolType="square"))
    text = base.mark_text(align="right", fontSize=11, color=colour("muted"))
    bars = base.mark_bar(stroke=colour("c0"), strokeWidth=1).encode(x, fill)
    layers = [bars, text.encode(x=alt.value(inner_width), text="text:N")]
    if _numbers(entries, ("target",)):
        layers.append(_target_marks(y, target_offset))
    if narrow:
        name = base.mark_text(align="left", color=colour("ink"), fontSize=12)
        layers.append(name.encode(x=alt.value(0), yOffset=alt.YOffset(datum="name"), text="name:N"))
    size = {"width": inner_width, "height": row_height * len(order)}
    rows_of_bars = _share_bars(entries, before, after, narrow)
    return finish(alt.layer(*layers, data=data(rows_of_bars)).properties(**size), width)


def _numbers(entries: list[dict[str, Any]], keys: Sequence[str]) -> list[float]:
    """All numbers of some fields."""
    numbers = []
    for record in entries:
        for key in keys:
            if record.get(key) is not None:
                numbers.append(record[key])
    return numbers


def _share_bars(
    entries: list[dict[str, Any]], before: str, after: str, narrow: bool
) -> list[dict[str, Any]]:
    """A record for each bar; the first one of a group has its name on a narrow page."""
    bars = []
    for record in entries:
        for kind, key in ((before, "before"), (after, "after")):
            share = record[key]
            bar = {**record, "kind": kind, "share": share, "goal": "target share"}
            bar["name"] = record["group"] if narrow and kind == before else ""
            bar["text"] = "too few rows" if share is None else f"{share:.1%}"
            bars.append(bar)
    return bars


def _target_marks(y: alt.Y, offset: int) -> alt.Chart:
    """An upright line at each group's target share."""
    scale = alt.Scale(domain=["target share"], range=[theme.UPRIGHT])
    marks = alt.Chart().mark_point(size=784, stroke=colour("ink"), strokeWidth=2, yOffset=offset)
    shape = alt.Shape("goal:N", scale=scale, legend=alt.Legend())
    return marks.encode(x="target:Q", y=y, shape=shape)


def heat_map(rows: Rows, *, x_title: str, width: int = 680) -> alt.LayerChart:
    """Shares about 0 as cells, in percent: below 0 in one colour, above in another, the darker the
    larger.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
        With ``column``, ``row`` and ``value`` (None for a dash).
    x_title : str
    width : int, default 680
        In pixels.

    Returns
    -------
    altair.LayerChart
    """
    entries = records(rows)
    sizes = [abs(value) for value in _numbers(entries, ("value",))]
    largest = max(sizes, default=0.0) or 1.0
    for record in entries:
        value = record["value"] or 0.0
        record["text"] = _percent(record["value"])
        record["side"] = "below" if value < 0 else "above"
        record["dark"] = DARKEST * abs(value) / largest
    label = 170
    if is_narrow(width):
        label = 96
    columns = distinct(entries, "column")
    lines = distinct(entries, "row")
    cell = min((width - label - 16) / max(len(columns), 1), 64)
    font = 11 if cell > 24 else 9
    head = alt.Axis(
        orient="top", title=x_title, labelAngle=0, labelOverlap=True, ticks=False, domain=False
    )
    side = alt.Scale(domain=["below", "above"], range=[colour("c0"), colour("c1")])
    y = alt.Y("row:N", sort=lines, axis=theme.name_axis(label, ticks=False))
    base = alt.Chart(data(entries)).encode(alt.X("column:N", sort=columns, axis=head), y)
    fill = alt.Fill("side:N", scale=side, legend=None)
    opacity = alt.FillOpacity("dark:Q", scale=None)
    layers = [base.mark_rect(stroke=colour("page"), strokeWidth=2).encode(fill, opacity)]
    if all(0.56 * font * len(record["text"]) < cell for record in entries):
        layers.append(base.mark_text(fontSize=font, color=colour("ink")).encode(text="text:N"))
    size = {"width": cell * len(columns), "height": 26 * len(lines)}
    return finish(alt.layer(*layers).properties(**size), width)


def _percent(share: float | None) -> str:
    """A share in percent with its sign; 0 without one, and a dash for None."""
    if share is None:
        return "\u2013"
    text = f"{100.0 * share:+.0f}".replace("-", "\u2212")
    if text in ("+0", "\u22120"):
        return "0"
    return text
