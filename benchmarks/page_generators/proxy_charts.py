"""Shares before and after of several proxies side by side, and heat maps of several below each
other.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from evenhand.fairlib.plots import theme
from evenhand.fairlib.plots.group_charts import DARKEST
from evenhand.fairlib.plots.theme import Rows, colour, data, distinct, finish, is_narrow, records


def group_shares(
    rows: Rows,
    *,
    before: str = "all rows",
    after: str = "kept rows",
    target: str = "target share",
    width: int = 680,
) -> alt.LayerChart | alt.FacetChart:
    """Two bars a group, its share before and after, with a mark at the target where there is one.

    Rows have ``group``, ``before`` and ``after``, None for a share of too few rows; optionally
    ``target``, and ``column`` for several results side by side on one scale. `before`, `after` and
    `target` are names in the legend.
    """
    found, narrow = records(rows), is_narrow(width)
    columns, order = distinct(found, "column"), distinct(found, "group")
    grid, label = len(columns) > 1, 0 if narrow else 150
    bars = [
        {**record, "kind": kind, "share": record[key], "goal": target, "name": "", "text": ""}
        for record in found
        for kind, key in ((before, "before"), (after, "after"))
    ]
    for bar in bars:
        if narrow and bar["kind"] == before and bar.get("column") == columns[0]:
            bar["name"] = bar["group"]
        if bar["share"] is None:
            bar["text"] = "too few" if grid else "too few rows"
        elif not grid:
            bar["text"] = f"{bar['share']:.1%}"
    known = [
        r[key] for r in found for key in ("before", "after", "target") if r.get(key) is not None
    ]
    wide = (width - label - 24) / max(len(columns), 1) - (12 if grid else 0)
    ticks = alt.Axis(format="%", title=None, tickCount=2 if grid else 6, labelFlush=grid)
    top = max(known, default=1.0) * (1.0 if grid else 1.2)
    x = alt.X("share:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=ticks)
    names = None if narrow else theme.name_axis(label)
    y = alt.Y("group:N", sort=order, axis=names, scale=alt.Scale(paddingInner=0.2))
    slots = alt.Scale(domain=[*(["name"] if narrow else []), before, after])
    base = alt.Chart().encode(y=y, yOffset=alt.YOffset("kind:N", scale=slots))
    fills = alt.Scale(domain=[before, after], range=[colour("soft"), colour("c0")])
    square = alt.Legend(symbolType="square")
    upright = alt.Shape(
        "goal:N", scale=alt.Scale(domain=[target], range=[theme.UPRIGHT]), legend=alt.Legend()
    )
    goal = alt.Chart().mark_point(
        size=784, stroke=colour("ink"), strokeWidth=2, yOffset=8 if narrow else 0
    )
    text = base.mark_text(align="right", fontSize=11, color=colour("muted"))
    fill = alt.Fill("kind:N", scale=fills, legend=square)
    shares = base.mark_bar(stroke=colour("c0"), strokeWidth=1).encode(x, fill)
    layers = [shares, text.encode(x=alt.value(wide), text="text:N")]
    if any(record.get("target") is not None for record in found):
        layers.append(goal.encode(x="target:Q", y=y, shape=upright))
    if narrow:
        name = base.mark_text(align="left", color=colour("ink"), fontSize=12)
        layers.append(name.encode(x=alt.value(0), yOffset=alt.YOffset(datum="name"), text="name:N"))
    height = (52 if narrow else 38) * len(order)
    layered: Any = alt.layer(*layers, data=data(bars)).properties(width=wide, height=height)
    if grid:
        layered = layered.facet(
            column=alt.Column("column:N", sort=columns), spacing=12, bounds="flush"
        )
    return finish(layered, width)


def heat_map(
    rows: Rows,
    *,
    x_title: str,
    strongest: float | None = None,
    signed: bool = True,
    width: int = 680,
) -> alt.VConcatChart:
    """Shares about 0 as cells, in percent: below 0 in one colour, above in another, the darker the
    larger.

    Rows have ``column``, ``row``, ``value`` (None for a dash), and optionally ``panel``: a map
    each, below each other, in the same colours. `strongest` is the size that has the darkest
    colour, for charts that are compared; None for the largest here. `signed` writes a plus before
    numbers above 0.
    """
    found = records(rows)
    largest = (
        strongest
        or max((abs(r["value"]) for r in found if r["value"] is not None), default=0.0)
        or 1.0
    )
    label = 96 if is_narrow(width) else 170
    head = alt.Axis(
        orient="top", title=x_title, labelAngle=0, labelOverlap=True, ticks=False, domain=False
    )
    side = alt.Scale(domain=["below", "above"], range=[colour("c0"), colour("c1")])
    fill, maps = alt.Fill("side:N", scale=side, legend=None), []
    for panel in distinct(found, "panel"):
        own = [record for record in found if record.get("panel") == panel]
        columns, lines = distinct(own, "column"), distinct(own, "row")
        cell = min((width - label - 16) / len(columns), 64)
        font = 11 if cell > 24 else 9
        for record in own:
            value = record["value"] or 0.0
            text = f"{100.0 * value:{'+' if signed else ''}.0f}".replace("-", "\u2212")
            text = "0" if text in ("+0", "\u22120") else text
            record["text"] = "\u2013" if record["value"] is None else text
            record["side"] = "below" if value < 0 else "above"
            record["dark"] = DARKEST * min(abs(value) / largest, 1.0)
        fits = all(0.56 * font * len(record["text"]) < cell for record in own)
        y = alt.Y("row:N", sort=lines, axis=theme.name_axis(label, ticks=False))
        base = alt.Chart(data(own)).encode(alt.X("column:N", sort=columns, axis=head), y)
        cells = base.mark_rect(stroke=colour("page"), strokeWidth=2)
        filled = cells.encode(fill, fillOpacity=alt.FillOpacity("dark:Q", scale=None))
        texts = base.mark_text(fontSize=font, color=colour("ink")).encode(text="text:N")
        size = {"width": cell * len(columns), "height": 26 * len(lines)}
        titled = {} if panel is None else {"title": panel}
        maps.append(alt.layer(filled, *([texts] if fits else [])).properties(**size, **titled))
    return finish(alt.vconcat(*maps, spacing=18), width)
