"""One look for all charts, and the helpers that they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from evenhand.fairlib.plots.palette import LIGHT, SERIES, SHAPES

Rows = Sequence[Mapping[str, Any]] | Any
"""Records, or a data frame with ``to_dict(orient="records")``."""

# A font whose widths are the same on all systems: text is measured when the picture is made.
FONT = "Arial, Helvetica, Liberation Sans, sans-serif"
# An upright line: the built-in shape of a line lies.
UPRIGHT = "M0,-1L0,1"
NARROW = 480
TINTS = [LIGHT[name] for name in SERIES]
# Estimated width of a character in pixels, to leave out text that would not fit.
CHARACTER = 6.5


def colour(name: str) -> str:
    """Colour by its name in the palette.

    Parameters
    ----------
    name : str
        A key of :data:`.palette.LIGHT`.

    Returns
    -------
    str
        Such as ``#0b5f91``.
    """
    return LIGHT[name]


def records(rows: Rows) -> list[dict[str, Any]]:
    """Records or a data frame as new records.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame

    Returns
    -------
    list of dict
    """
    if hasattr(rows, "to_dict"):
        rows = rows.to_dict(orient="records")
    return [dict(row) for row in rows]


def data(rows: Rows) -> alt.Data:
    """Records or a data frame as inline data of a chart.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame

    Returns
    -------
    altair.Data
    """
    return alt.Data(values=records(rows))


def scale_of(names: Sequence[str], values: Sequence[Any]) -> alt.Scale:
    """A value, such as a colour or a shape, for each name; from the start again where there are too
    few.

    Parameters
    ----------
    names : sequence of str
    values : sequence
        At least one.

    Returns
    -------
    altair.Scale
    """
    return alt.Scale(domain=names, range=[values[i % len(values)] for i in range(len(names))])


def distinct(records: Iterable[Mapping[str, Any]], key: str) -> list[Any]:
    """Values of a field, each once, in the order of the records.

    Parameters
    ----------
    records : iterable of mapping
        The records.
    key : str
        Name of the field.

    Returns
    -------
    list
    """
    return list(dict.fromkeys(record.get(key) for record in records))


def series(names: Sequence[str], field: str = "series:N", *, least: int = 2) -> dict[str, Any]:
    """Encodings that distinguish series by colour and shape.

    Parameters
    ----------
    names : sequence of str
        The series.
    field : str, default "series:N"
        Field of the series, with its type.
    least : int, default 2
        Fewest series for a legend.

    Returns
    -------
    dict
        ``color`` and ``shape``, arguments of ``encode``.
    """
    legend = alt.Legend() if len(names) >= least else None
    return {
        "color": alt.Color(field, scale=scale_of(names, TINTS), legend=legend),
        "shape": alt.Shape(field, scale=scale_of(names, SHAPES), legend=legend),
    }


def line_at(
    axis: alt.X | alt.Y, *values: float | None, name: str = "muted", dash: Sequence[int] = (4, 3)
) -> list[alt.Chart]:
    """Dashed lines across a chart at values of an axis, as one layer.

    Parameters
    ----------
    axis : altair.X or altair.Y
        The axis that the lines cross.
    *values : float or None
        None gives no line.
    name : str, default "muted"
        Colour, by its name in the palette.
    dash : sequence of int, default (4, 3)
        Lengths of dashes and gaps in pixels; empty for a solid line.

    Returns
    -------
    list of altair.Chart
        One chart, or none without a value.
    """
    field = axis["shorthand"].partition(":")[0]
    places = [{field: value} for value in values if value is not None]
    if not places:
        return []
    line = alt.Chart(data(places)).mark_rule(color=colour(name), strokeDash=dash or alt.Undefined)
    return [line.encode(axis)]


def name_axis(size: int, *, ticks: bool = True) -> alt.Axis:
    """Axis of names that takes so many pixels, whatever the names are.

    Parameters
    ----------
    size : int
        Width in pixels.
    ticks : bool, default True

    Returns
    -------
    altair.Axis
    """
    return alt.Axis(title=None, minExtent=size, maxExtent=size, labelLimit=size - 8, ticks=ticks)


def is_narrow(width: int) -> bool:
    """Whether a chart of this width is for a narrow page.

    Parameters
    ----------
    width : int
        In pixels.

    Returns
    -------
    bool
    """
    return width < NARROW


def finish(chart: Any, width: int, height: float | None = None) -> Any:
    """Apply the theme.

    Parameters
    ----------
    chart : altair chart
    width : int
        In pixels; long labels are cut to a share of it.
    height : float or None, default None
        Height of a chart that takes the whole width; None for one that is sized already.

    Returns
    -------
    altair chart
    """
    if height is not None:
        fit = alt.AutoSizeParams(type="fit-x", contains="padding")
        chart = chart.properties(width=width, height=height, autosize=fit)
    if is_narrow(width):
        label_share = 0.45
        legend_columns = 1
        tick_count = 5
    else:
        label_share = 0.36
        legend_columns = 4
        tick_count = 8
    text: dict[str, Any] = {
        "labelFont": FONT,
        "titleFont": FONT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelColor": LIGHT["ink"],
        "labelLimit": label_share * width,
    }
    axis = {
        "titleColor": LIGHT["muted"],
        "titleFontWeight": "normal",
        "gridColor": LIGHT["faint"],
        "domainColor": LIGHT["muted"],
        "tickColor": LIGHT["muted"],
        "titlePadding": 8,
        "labelFlush": False,
        "labelSeparation": 6,
        **text,
    }
    legend = {
        "orient": "top",
        "title": None,
        "symbolType": "circle",
        "columns": legend_columns,
        **text,
    }
    return chart.configure(
        background="transparent",
        font=FONT,
        padding=4,
        axis=axis,
        axisQuantitative={"tickCount": tick_count},
        view={"stroke": None},
        legend=legend,
        header={"labelFontWeight": "bold", "title": None, **text},
        title={"color": LIGHT["ink"], "font": FONT, "fontSize": 13, "anchor": "start"},
        range={"category": TINTS, "symbol": list(SHAPES)},
    )
