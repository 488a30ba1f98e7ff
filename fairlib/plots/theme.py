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
    """Colour by its name in the palette."""
    return LIGHT[name]


def records(rows: Rows) -> list[dict[str, Any]]:
    """Records or a data frame as new records."""
    return [
        dict(row) for row in (rows.to_dict(orient="records") if hasattr(rows, "to_dict") else rows)
    ]


def data(rows: Rows) -> alt.Data:
    """Records or a data frame as inline data of a chart."""
    return alt.Data(values=records(rows))


def scale_of(names: Sequence[str], values: Sequence[Any]) -> alt.Scale:
    """A value, such as a colour or a shape, for each name; from the start again where there are too
    few.
    """
    return alt.Scale(domain=names, range=[values[i % len(values)] for i in range(len(names))])


def distinct(found: Iterable[Mapping[str, Any]], key: str) -> list[Any]:
    """Values of a field, each once, in the order of the records."""
    return list(dict.fromkeys(record.get(key) for record in found))


def series(names: Sequence[str], field: str = "series:N", *, least: int = 2) -> dict[str, Any]:
    """Encodings that tell series apart by colour and shape; with a legend from `least`
    series on.
    """
    legend = alt.Legend() if len(names) >= least else None
    return {
        "color": alt.Color(field, scale=scale_of(names, TINTS), legend=legend),
        "shape": alt.Shape(field, scale=scale_of(names, SHAPES), legend=legend),
    }


def line_at(
    axis: alt.X | alt.Y, *values: float | None, name: str = "muted", dash: Sequence[int] = (4, 3)
) -> list[alt.Chart]:
    """Dashed lines across a chart at the known values of an axis, as one layer; none without a
    value.
    """
    field = axis["shorthand"].partition(":")[0]
    known = [{field: value} for value in values if value is not None]
    line = alt.Chart(data(known)).mark_rule(color=colour(name), strokeDash=dash or alt.Undefined)
    return [line.encode(axis)] if known else []


def name_axis(size: int, *, ticks: bool = True) -> alt.Axis:
    """Axis of names that takes so many pixels, whatever the names are."""
    return alt.Axis(title=None, minExtent=size, maxExtent=size, labelLimit=size - 8, ticks=ticks)


def is_narrow(width: int) -> bool:
    """Whether a chart of this width is for a narrow page."""
    return width < NARROW


def finish(chart: Any, width: int, height: float | None = None) -> Any:
    """Apply the theme.

    `width` is in pixels; long labels are cut to a share of it. `height` is that of a chart that
    takes the whole width, and None for one that is sized already.
    """
    if height is not None:
        fit = alt.AutoSizeParams(type="fit-x", contains="padding")
        chart = chart.properties(width=width, height=height, autosize=fit)
    text: dict[str, Any] = {
        "labelFont": FONT,
        "titleFont": FONT,
        "labelFontSize": 12,
        "titleFontSize": 12,
    }
    text |= {"labelColor": LIGHT["ink"], "labelLimit": (0.45 if is_narrow(width) else 0.36) * width}
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
    columns, ticks = (1, 5) if is_narrow(width) else (4, 8)
    return chart.configure(
        background="transparent",
        font=FONT,
        padding=4,
        axis=axis,
        axisQuantitative={"tickCount": ticks},
        view={"stroke": None},
        legend={"orient": "top", "title": None, "symbolType": "circle", "columns": columns, **text},
        header={"labelFontWeight": "bold", "title": None, **text},
        title={"color": LIGHT["ink"], "font": FONT, "fontSize": 13, "anchor": "start"},
        range={"category": TINTS, "symbol": list(SHAPES)},
    )
