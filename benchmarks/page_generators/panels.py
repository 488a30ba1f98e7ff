"""Small multiples: lines of several series, and bars of several methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from evenhand.fairlib.plots.curves import DASHES
from evenhand.fairlib.plots.palette import SHAPES
from evenhand.fairlib.plots.theme import TINTS, Rows, colour, data, finish, records, scale_of


def series_panels(
    rows: Rows,
    *,
    x_title: str | Mapping[str, str],
    columns: int = 2,
    log: bool = False,
    zero: Sequence[str] = (),
    width: int = 680,
) -> Any:
    """Lines with marks, one panel for each number, in the same colours, shapes and dashes.

    Parameters
    ----------
    rows : records or data frame
        ``panel``, ``series``, ``x``, ``y``; optionally ``low`` and ``high`` (an interval of y),
        ``label``, and ``draw``: "both" (line and mark, the default), "line", "mark", or "hollow" (a
        larger open mark). A line joins a series in the order of its rows.
    x_title : str or mapping
        Title of the x axes, or of each panel's.
    columns : int
        Panels side by side.
    log : bool
        Whether both axes are logarithmic.
    zero : sequence of {"x", "y"}
        Axes that start at 0.
    width : int

    Returns
    -------
    altair.ConcatChart
    """
    missing = {"low": None, "high": None, "label": "", "draw": "both"}
    found = [{**missing, **record, "place": i} for i, record in enumerate(records(rows))]
    names = list(dict.fromkeys(record["series"] for record in found))
    size = {"width": (width - 24 * (columns - 1)) / columns - 62, "height": 210}
    hue = alt.Color("series:N", scale=scale_of(names, TINTS))
    dash = alt.StrokeDash("series:N", scale=scale_of(names, DASHES))
    shape = alt.Shape("series:N", scale=scale_of(names, SHAPES))
    panels = []
    for panel in dict.fromkeys(record["panel"] for record in found):
        base = alt.Chart(data([record for record in found if record["panel"] == panel]))
        kind: dict[str, Any] = {"type": "log", "padding": 14} if log else {}
        scales = {a: alt.Scale(zero=a in zero and not log, nice=not log, **kind) for a in "xy"}
        below = x_title if isinstance(x_title, str) else x_title.get(panel)
        axis = alt.Axis(tickCount=5, labelOverlap=True, format=",~g" if log else "")
        x = alt.X("x:Q", title=below, scale=scales["x"], axis=axis)
        y = alt.Y("y:Q", title=None, scale=scales["y"], axis=axis)
        line = base.transform_filter("datum.draw == 'both' || datum.draw == 'line'")
        mark = base.transform_filter("datum.draw == 'both' || datum.draw == 'mark'")
        hollow = base.transform_filter("datum.draw == 'hollow'").mark_point(size=130, strokeWidth=2)
        ends = base.transform_filter("datum.low != null").mark_rule(strokeWidth=1.2)
        layers = [
            ends.encode(
                x=x, y=alt.Y("low:Q", title=None, scale=scales["y"]), y2="high:Q", color=hue
            ),
            line.mark_line(strokeWidth=1.8).encode(
                x=x, y=y, color=hue, strokeDash=dash, order="place:Q"
            ),
            mark.mark_point(filled=True, size=45, opacity=1).encode(
                x=x, y=y, color=hue, shape=shape
            ),
            hollow.encode(x=x, y=y, color=hue, shape=shape),
            base.mark_text(align="left", dx=6, dy=10, color=colour("ink")).encode(
                x=x, y=y, text="label:N"
            ),
        ]
        panels.append(alt.layer(*layers).properties(title=panel, **size))
    return finish(alt.concat(*panels, columns=columns, spacing=24), width)


def bar_panels(rows: Rows, *, width: int = 680) -> Any:
    """Upright bars with whiskers: a row of panels for each number, a panel for each table, a bar a
    method.

    Parameters
    ----------
    rows : records or data frame
        ``row``, ``column``, ``series``, ``value``, ``low``, ``high``.
    width : int

    Returns
    -------
    altair.VConcatChart
        Panels of one row share their scale.
    """
    found = records(rows)
    names, columns = (
        list(dict.fromkeys(record[key] for record in found)) for key in ("series", "column")
    )
    wide = (width - 50 - 20 * (len(columns) - 1)) / max(len(columns), 1)
    lines = []
    for row in dict.fromkeys(record["row"] for record in found):
        own = [record for record in found if record["row"] == row]
        base = alt.Chart().encode(x=alt.X("series:N", sort=names, axis=None))
        bars = base.mark_bar().encode(
            y=alt.Y("value:Q", title=None, axis=alt.Axis(tickCount=5)),
            color=alt.Color("series:N", scale=scale_of(names, TINTS)),
        )
        whiskers = base.mark_rule(color=colour("ink"), strokeWidth=1.2).encode(
            y="low:Q", y2="high:Q"
        )
        layered = alt.layer(bars, whiskers, data=data(own)).properties(width=wide, height=140)
        lines.append(
            layered.facet(column=alt.Column("column:N", sort=columns), title=row, spacing=20)
        )
    return finish(alt.vconcat(*lines, spacing=18), width)
