"""Lines: training curves, and what a budget of fair distance allows."""

from __future__ import annotations

from typing import Any

import altair as alt

from evenhand.fairlib.plots import theme
from evenhand.fairlib.plots.theme import (
    Rows,
    colour,
    data,
    distinct,
    finish,
    line_at,
    records,
    series,
)

# A logarithmic axis has no 0: an interval that reaches towards it is cut at this part of the
# smallest value.
LEAST_PART = 0.1
DASHES = [[1, 0], [7, 4], [2, 3], [10, 3, 2, 3], [4, 2], [12, 5]]


def training_curves(rows: Rows, *, width: int = 680) -> Any:
    """Numbers over the steps of a training, a line each.

    Rows have ``step``, ``series`` and ``value``; None leaves a gap.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
    width : int, default 680
        In pixels.

    Returns
    -------
    altair.Chart
    """
    entries = records(rows)
    names = distinct(entries, "series")
    x = alt.X("step:Q", title="step", scale=alt.Scale(nice=False))
    y = alt.Y("value:Q", title=None if len(names) > 1 else names[0], scale=alt.Scale(zero=False))
    return finish(_lines(entries, x, y), width, 240)


def budget_curve(
    rows: Rows, *, x_title: str, y_title: str, marked: float | None = None, width: int = 680
) -> Any:
    """A number against a budget with its interval as a band, both axes logarithmic.

    Rows have ``budget`` and ``value``, above 0, and ``low`` and ``high``, or None. A diamond and a
    dashed line stand at the budget `marked`.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
    x_title, y_title : str
    marked : float or None, default None
        A budget of the rows.
    width : int, default 680
        In pixels.

    Returns
    -------
    altair.LayerChart
    """
    entries = records(rows)
    floor = LEAST_PART * min((record["value"] for record in entries), default=1.0)
    band = []
    for record in entries:
        if record.get("low") is not None and record.get("high") is not None:
            band.append({**record, "low": max(record["low"], floor)})
    axis = alt.Axis(format="~g", tickCount=5, labelOverlap=True)
    x = alt.X("budget:Q", title=x_title, scale=alt.Scale(type="log", nice=False), axis=axis)
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(type="log"), axis=axis)
    area = alt.Chart(data(band)).mark_area(color=colour("soft"), opacity=1)
    base = alt.Chart(data(entries)).encode(x, y)
    at_mark = [record for record in entries if record["budget"] == marked]
    diamond = alt.Chart(data(at_mark)).mark_point(filled=True, size=170, opacity=1, shape="diamond")
    layered = alt.layer(
        area.encode(x=x, y="low:Q", y2="high:Q"),
        *line_at(x, *(record["budget"] for record in at_mark)),
        base.mark_line(color=colour("c0"), strokeWidth=2),
        base.mark_point(filled=True, size=45, opacity=1, color=colour("c0")),
        diamond.encode(x, y, color=alt.value(colour("c1"))),
    )
    return finish(layered, width, 250)


def reliability(rows: Rows, *, width: int = 680) -> Any:
    """Share of positives against mean probability, with intervals, and the line on which they are
    equal.

    Rows have ``series``, ``mean``, ``share``, ``low`` and ``high``; all shares.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
    width : int, default 680
        In pixels.

    Returns
    -------
    altair.LayerChart
    """
    entries = records(rows)
    unit = alt.Scale(domain=[0, 1])
    x = alt.X("mean:Q", title="mean probability", scale=unit, axis=alt.Axis(format="%"))
    y = alt.Y("share:Q", title="share of positives", scale=unit, axis=alt.Axis(format="%"))
    encodings = series(distinct(entries, "series"))
    base = alt.Chart(data(entries)).encode(x, encodings["color"])
    equal = alt.Chart(data([{"mean": 0.0, "share": 0.0}, {"mean": 1.0, "share": 1.0}]))
    layered = alt.layer(
        equal.mark_line(color=colour("muted"), strokeDash=[4, 3]).encode(x, y),
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(
            y=alt.Y("low:Q", scale=unit), y2="high:Q"
        ),
        base.mark_line(strokeWidth=1.2, opacity=0.6).encode(y),
        base.mark_point(filled=True, size=60, opacity=1).encode(y, encodings["shape"]),
    )
    return finish(layered, width, 300)


def decision_curve(rows: Rows, *, marked: float | None = None, width: int = 680) -> Any:
    """Shares by decision threshold, a line each.

    Rows have ``threshold``, ``series`` and ``value``; all shares. A dashed line stands at the
    threshold `marked`.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
    marked : float or None, default None
        A threshold, from 0 to 1.
    width : int, default 680
        In pixels.

    Returns
    -------
    altair.LayerChart
    """
    x = alt.X("threshold:Q", title="threshold", axis=alt.Axis(format="%"))
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    lines = _lines(records(rows), x, y)
    return finish(alt.layer(lines, *line_at(x, marked, name="ink")), width, 240)


def _lines(entries: list[dict[str, Any]], x: alt.X, y: alt.Y) -> alt.Chart:
    """A line for each series, distinguished by colour and dash."""
    names = distinct(entries, "series")
    legend = alt.Legend() if len(names) > 1 else None
    dashes = alt.StrokeDash("series:N", scale=theme.scale_of(names, DASHES), legend=legend)
    return (
        alt.Chart(data(entries))
        .mark_line(strokeWidth=2)
        .encode(x, y, series(names)["color"], dashes)
    )
