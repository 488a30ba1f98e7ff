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

    Rows have ``rate`` (title of the panel), ``group``, ``value``, ``low`` and ``high``; None where
    rows are too few.
    """
    found = records(rows)
    panels = []
    label = 110 if is_narrow(width) else 180
    y = alt.Y("group:N", sort=distinct(found, "group"), title=None, axis=theme.name_axis(label))
    x = alt.X("value:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", title=None))
    for title in distinct(found, "rate"):
        own = [record for record in found if record["rate"] == title]
        known = [record["value"] for record in own if record["value"] is not None]
        base = alt.Chart(data(own))
        layers: list[Any] = []
        if len(known) > 1:
            span = alt.Chart(data([{"low": min(known), "high": max(known)}]))
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
        size = {"width": width - label - 24, "height": max(26 * len(own), 40)}
        panels.append(alt.layer(*layers).properties(title=title, **size))
    return finish(alt.vconcat(*panels, spacing=18), width)


def score_distribution(
    edges: list[float], shares: list[float], reference: list[float], top: float, *, width: int = 330
) -> alt.LayerChart:
    """Which share of a group gets which score, over the outline of all groups together.

    `edges` are the ends of the b bins. `shares` are those of the group, `reference` those of all
    shown groups, both of length b. `top` is the largest share of any group: charts of one attribute
    share their scale. The width is that of the page; the chart takes 220 pixels, as several stand
    side by side.
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

    `edges` are the ends of the b bins; for counts of whole numbers they are halfway between these.
    With `shares` bars show each count's share of the sum.
    """
    total = max(sum(counts), 1)
    room = (width - 60) / max(len(counts), 1)
    rows = []
    for left, right, n in zip(edges, edges[1:], counts, strict=False):
        text = f"{n / total:.1%}" if shares else f"{n:,}"
        text = text if n and theme.CHARACTER * len(text) < room else ""
        height = n / total if shares else n
        middle = (left + right) / 2
        rows.append(
            {"left": left, "right": right, "height": height, "middle": middle, "text": text}
        )
    upward = alt.Axis(format="%", tickCount=5) if shares else alt.Axis(tickMinStep=1, tickCount=5)
    base = alt.Chart(data(rows)).encode(y=alt.Y("height:Q", title=y_title, axis=upward))
    # no tick between whole numbers where the bins are of one
    across = alt.Axis(tickMinStep=edges[1] - edges[0])
    scale = alt.Scale(domain=[edges[0], edges[-1]], nice=False)
    x = alt.X("left:Q", bin="binned", title=x_title, scale=scale, axis=across)
    bars = base.mark_bar(color=colour("c0"), binSpacing=2).encode(x=x, x2="right:Q")
    texts = base.mark_text(dy=-7, color=colour("ink")).encode(x="middle:Q", text="text:N")
    return finish(alt.layer(bars, texts), width, 190)


def group_shares(
    rows: Rows, *, before: str = "all rows", after: str = "kept rows", width: int = 680
) -> alt.LayerChart:
    """Two bars a group, its share before and after, with a mark at the target where there is one.

    Rows have ``group``, ``before`` and ``after``, None for a share of too few rows; optionally
    ``target``. `before` and `after` are names in the legend.
    """
    found = records(rows)
    narrow = is_narrow(width)
    order = distinct(found, "group")
    label = 0 if narrow else 150
    bars = [
        {**record, "kind": kind, "share": record[key], "goal": "target share"}
        for record in found
        for kind, key in ((before, "before"), (after, "after"))
    ]
    for bar in bars:
        bar["name"] = bar["group"] if narrow and bar["kind"] == before else ""
        bar["text"] = "too few rows" if bar["share"] is None else f"{bar['share']:.1%}"
    known = [
        r[key] for r in found for key in ("before", "after", "target") if r.get(key) is not None
    ]
    wide = width - label - 24
    ticks = alt.Axis(format="%", title=None, tickCount=6, labelFlush=False)
    x = alt.X(
        "share:Q",
        scale=alt.Scale(domain=[0, max(known, default=1.0) * 1.2], nice=False),
        axis=ticks,
    )
    names = None if narrow else theme.name_axis(label)
    y = alt.Y("group:N", sort=order, axis=names, scale=alt.Scale(paddingInner=0.2))
    slots = alt.Scale(domain=[*(["name"] if narrow else []), before, after])
    base = alt.Chart().encode(y=y, yOffset=alt.YOffset("kind:N", scale=slots))
    fills = alt.Scale(domain=[before, after], range=[colour("soft"), colour("c0")])
    fill = alt.Fill("kind:N", scale=fills, legend=alt.Legend(symbolType="square"))
    text = base.mark_text(align="right", fontSize=11, color=colour("muted"))
    shares = base.mark_bar(stroke=colour("c0"), strokeWidth=1).encode(x, fill)
    layers = [shares, text.encode(x=alt.value(wide), text="text:N")]
    if any(record.get("target") is not None for record in found):
        line = alt.Scale(domain=["target share"], range=[theme.UPRIGHT])
        goal = alt.Chart().mark_point(
            size=784, stroke=colour("ink"), strokeWidth=2, yOffset=8 if narrow else 0
        )
        layers.append(
            goal.encode(
                x="target:Q", y=y, shape=alt.Shape("goal:N", scale=line, legend=alt.Legend())
            )
        )
    if narrow:
        name = base.mark_text(align="left", color=colour("ink"), fontSize=12)
        layers.append(name.encode(x=alt.value(0), yOffset=alt.YOffset(datum="name"), text="name:N"))
    size = {"width": wide, "height": (52 if narrow else 38) * len(order)}
    return finish(alt.layer(*layers, data=data(bars)).properties(**size), width)


def heat_map(rows: Rows, *, x_title: str, width: int = 680) -> alt.LayerChart:
    """Shares about 0 as cells, in percent: below 0 in one colour, above in another, the darker the
    larger.

    Rows have ``column``, ``row`` and ``value`` (None for a dash).
    """
    found = records(rows)
    largest = max((abs(r["value"]) for r in found if r["value"] is not None), default=0.0) or 1.0
    label = 96 if is_narrow(width) else 170
    head = alt.Axis(
        orient="top", title=x_title, labelAngle=0, labelOverlap=True, ticks=False, domain=False
    )
    side = alt.Scale(domain=["below", "above"], range=[colour("c0"), colour("c1")])
    columns = distinct(found, "column")
    lines = distinct(found, "row")
    cell = min((width - label - 16) / max(len(columns), 1), 64)
    font = 11 if cell > 24 else 9
    for record in found:
        value = record["value"] or 0.0
        text = f"{100.0 * value:+.0f}".replace("-", "\u2212")
        text = "0" if text in ("+0", "\u22120") else text
        record["text"] = "\u2013" if record["value"] is None else text
        record["side"] = "below" if value < 0 else "above"
        record["dark"] = DARKEST * abs(value) / largest
    y = alt.Y("row:N", sort=lines, axis=theme.name_axis(label, ticks=False))
    base = alt.Chart(data(found)).encode(alt.X("column:N", sort=columns, axis=head), y)
    fill = alt.Fill("side:N", scale=side, legend=None), alt.FillOpacity("dark:Q", scale=None)
    layers = [base.mark_rect(stroke=colour("page"), strokeWidth=2).encode(*fill)]
    if all(0.56 * font * len(record["text"]) < cell for record in found):
        layers.append(base.mark_text(fontSize=font, color=colour("ink")).encode(text="text:N"))
    size = {"width": cell * len(columns), "height": 26 * len(lines)}
    return finish(alt.layer(*layers).properties(**size), width)
