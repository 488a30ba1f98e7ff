"""Lines: training curves, and what a budget of fair distance allows."""

from __future__ import annotations

from typing import Any

import altair as alt

from evenhand.fairlib.plots.theme import Rows, colour, data, finish, records, series_scale, shape_scale

# A logarithmic axis has no 0: an interval that reaches towards it is cut at this part of the smallest value.
LEAST_PART = 0.1
DASHES = [[1, 0], [7, 4], [2, 3], [10, 3, 2, 3], [4, 2], [12, 5]]


def training_curves(rows: Rows, *, width: int = 680) -> Any:
    """Numbers over the steps of a training, a line each.

    Rows have ``step``, ``series`` and ``value``; None leaves a gap.
    """
    found = records(rows)
    names = _series(found)
    several = len(names) > 1
    x = alt.X("step:Q", title="step", scale=alt.Scale(nice=False))
    y = alt.Y("value:Q", title=None if several else names[0], scale=alt.Scale(zero=False))
    return finish(_lines(found, x, y, alt.Legend() if several else None), width, 240)


def budget_curve(
    rows: Rows, *, x_title: str, y_title: str, marked: float | None = None, width: int = 680
) -> Any:
    """A number against a budget with its interval as a band, both axes logarithmic.

    Rows have ``budget`` and ``value``, above 0, and ``low`` and ``high``, or None. A diamond and a dashed
    line stand at the budget `marked`.
    """
    found = records(rows)
    floor = LEAST_PART * min((record["value"] for record in found), default=1.0)
    band = [
        {**record, "low": max(record["low"], floor)}
        for record in found
        if record.get("low") is not None and record.get("high") is not None
    ]
    axis = alt.Axis(format="~g", tickCount=5, labelOverlap=True)
    x = alt.X("budget:Q", title=x_title, scale=alt.Scale(type="log", nice=False), axis=axis)
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(type="log"), axis=axis)
    area = alt.Chart(data(band)).mark_area(color=colour("soft"), opacity=1)
    base = alt.Chart(data(found)).encode(x=x, y=y)
    mark = alt.Chart(data([record for record in found if record["budget"] == marked])).encode(x=x)
    layered = alt.layer(
        area.encode(x=x, y="low:Q", y2="high:Q"),
        mark.mark_rule(color=colour("muted"), strokeDash=[4, 3]),
        base.mark_line(color=colour("c0"), strokeWidth=2),
        base.mark_point(filled=True, size=45, opacity=1, color=colour("c0")),
        mark.mark_point(filled=True, size=170, opacity=1, color=colour("c1"), shape="diamond").encode(y=y),
    )
    return finish(layered, width, 250)


def reliability(rows: Rows, *, width: int = 680) -> Any:
    """Share of positives against mean probability, with intervals, beside the line on which they are equal.

    Rows have ``series``, ``mean``, ``share``, ``low`` and ``high``; all shares.
    """
    found = records(rows)
    names = _series(found)
    unit = alt.Scale(domain=[0, 1])
    x = alt.X("mean:Q", title="mean probability", scale=unit, axis=alt.Axis(format="%"))
    y = alt.Y("share:Q", title="share of positives", scale=unit, axis=alt.Axis(format="%"))
    legend = alt.Legend() if len(names) > 1 else None
    base = alt.Chart(data(found)).encode(
        x=x, color=alt.Color("series:N", scale=series_scale(names), legend=legend)
    )
    equal = alt.Chart(alt.Data(values=[{"mean": 0.0, "share": 0.0}, {"mean": 1.0, "share": 1.0}]))
    layered = alt.layer(
        equal.mark_line(color=colour("muted"), strokeDash=[4, 3]).encode(x=x, y=y),
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y=alt.Y("low:Q", scale=unit), y2="high:Q"),
        base.mark_line(strokeWidth=1.2, opacity=0.6).encode(y=y),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            y=y, shape=alt.Shape("series:N", scale=shape_scale(names), legend=legend)
        ),
    )
    return finish(layered, width, 300)


def decision_curve(rows: Rows, *, marked: float | None = None, width: int = 680) -> Any:
    """Shares by decision threshold, a line each.

    Rows have ``threshold``, ``series`` and ``value``; all shares. A dashed line stands at the threshold
    `marked`.
    """
    x = alt.X("threshold:Q", title="threshold", axis=alt.Axis(format="%"))
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    mark = alt.Chart(data([] if marked is None else [{"threshold": marked}]))
    rule = mark.mark_rule(color=colour("ink"), strokeDash=[4, 3]).encode(x=x)
    return finish(alt.layer(_lines(records(rows), x, y, alt.Legend()), rule), width, 240)


def _series(found: list[dict[str, Any]]) -> list[str]:
    """Names of the series in the order of the records."""
    return list(dict.fromkeys(record["series"] for record in found))


def _lines(found: list[dict[str, Any]], x: alt.X, y: alt.Y, legend: alt.Legend | None) -> alt.Chart:
    """A line for each series, told apart by colour and dash."""
    names = _series(found)
    dashes = alt.Scale(domain=names, range=[DASHES[i % len(DASHES)] for i in range(len(names))])
    return (
        alt.Chart(data(found))
        .mark_line(strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=alt.Color("series:N", scale=series_scale(names), legend=legend),
            strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=legend),
        )
    )
