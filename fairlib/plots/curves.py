"""Lines: training curves, and what a budget of fair distance allows."""

from __future__ import annotations

from typing import Any

import altair as alt

from evenhand.fairlib.plots.theme import Rows, data, finish, records, series_scale

__all__ = ["training_curves"]

DASHES = [[1, 0], [7, 4], [2, 3], [10, 3, 2, 3], [4, 2], [12, 5]]


def training_curves(rows: Rows, *, width: int = 680) -> Any:
    """
    Numbers over the steps of a training, a line each.

    Parameters
    ----------
    rows : records or data frame
        ``step``, ``series``, ``value``; None leaves a gap.
    width : int

    Returns
    -------
    altair.Chart
    """
    found = records(rows)
    names = list(dict.fromkeys(record["series"] for record in found))
    chart = alt.Chart(data(found)).mark_line(strokeWidth=2)
    legend = alt.Legend() if len(names) > 1 else None
    dashes = alt.Scale(domain=names, range=[DASHES[i % len(DASHES)] for i in range(len(names))])
    encoded = chart.encode(
        x=alt.X("step:Q", title="step", scale=alt.Scale(nice=False)),
        y=alt.Y("value:Q", title=None if len(names) > 1 else names[0], scale=alt.Scale(zero=False)),
        color=alt.Color("series:N", scale=series_scale(names), legend=legend),
        strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=legend),
    )
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return finish(encoded.properties(width=width, height=240, autosize=fit), width)
