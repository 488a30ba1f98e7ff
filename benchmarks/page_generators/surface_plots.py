"""Decision surfaces over two features, with the people as marks, as Altair charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.plots.theme import colour, data, finish

# Upper ends of the shades of a probability, from surely below one half to surely above.
SHADES = {
    0.2: "#f0b48a",
    0.35: "#f6cdb0",
    0.5: "#fbe6d8",
    0.65: "#dcebf5",
    0.8: "#b9d6eb",
    1.0: "#93bfde",
}
LABELS = ["label 0", "label 1"]
# Pixels between the tip of an arrow and the middle of a mark.
TIP = 6.0


def decision_surfaces(
    panels: Sequence[Mapping[str, Any]], *, x_title: str, y_title: str, width: int = 980
) -> Any:
    """Probabilities of label 1 over two features as shades, with the border between predictions and
    people.

    Parameters
    ----------
    panels : sequence of mapping
        ``title``; ``notes`` (lines above the panel); ``grid``, array-like of shape (rows, columns),
        the probabilities at the middles of equal cells, the lowest row first; ``x`` and ``y``, the
        ends of the axes; ``points``, array-like of shape (n, 2), and ``labels``, shape (n,);
        optionally ``targets``, shape (n,): the person at whose place an arrow from each person
        ends. Arrows replace the border.
    x_title, y_title : str
    width : int

    Returns
    -------
    altair.HConcatChart
    """
    side = (width - 30 - 16 * (len(panels) - 1)) / max(len(panels), 1) - 14
    names = [f"to {end:.0%}" for end in SHADES]
    shading = alt.Scale(domain=names, range=list(SHADES.values()))
    legend = alt.Legend(title="probability of label 1", symbolType="square", columns=len(SHADES))
    charts = []
    for place, panel in enumerate(panels):
        (left, right), (bottom, top) = panel["x"], panel["y"]
        size = {"width": side, "height": 0.95 * side}
        x_scale, y_scale = (alt.Scale(domain=list(panel[axis]), nice=False) for axis in "xy")
        ticks = alt.Axis(labels=False, ticks=False, grid=False, domain=False)
        x = alt.X("x:Q", title=x_title, scale=x_scale, axis=ticks)
        y = alt.Y("y:Q", title=None if place else y_title, scale=y_scale, axis=ticks)
        grid, arrows = np.asarray(panel["grid"], dtype=np.float64), panel.get("targets") is not None
        cell = (right - left) / grid.shape[1], (top - bottom) / grid.shape[0]

        def box(
            edges: Sequence[int], cell: Any = cell, start: Any = (left, bottom)
        ) -> dict[str, float]:
            """Ends of cells in the units of the axes."""
            first, end, low, high = edges
            found = {"x": (0, first), "x2": (0, end), "y": (1, low), "y2": (1, high)}
            return {
                key: float(start[axis] + place * cell[axis]) for key, (axis, place) in found.items()
            }

        shades = np.searchsorted(list(SHADES)[:-1], grid, side="right")
        areas = [
            {**box(r), "shade": n} for s, n in enumerate(names) for r in rectangles(shades == s)
        ]
        # strokes close the seams between areas
        area = alt.Chart(data(areas)).mark_rect(
            opacity=0.4 if arrows else 1, strokeWidth=0 if arrows else 1
        )
        fill, stroke = (
            alt.Fill("shade:N", scale=shading, legend=legend),
            alt.Stroke("shade:N", scale=shading),
        )
        layers: list[Any] = [area.encode(x=x, x2="x2:Q", y=y, y2="y2:Q", fill=fill, stroke=stroke)]
        points, labels = np.asarray(panel["points"], dtype=np.float64), np.asarray(panel["labels"])
        if arrows:
            layers += _arrows(points, labels, np.asarray(panel["targets"]), size, panel, (x, y))
        else:
            border = alt.Chart(data([box(edge) for edge in _border(grid > 0.5)]))
            drawn = border.mark_rule(color=colour("ink"), strokeWidth=1.8, strokeCap="square")
            layers.append(drawn.encode(x=x, x2="x2:Q", y=y, y2="y2:Q"))
        people = [
            {"x": float(a), "y": float(b), "label": LABELS[int(label)]}
            for (a, b), label in zip(points, labels, strict=True)
        ]
        dots = alt.Chart(data(people)).mark_point(filled=True, size=30, opacity=1, strokeWidth=0.8)
        layers.append(
            dots.encode(
                x=x,
                y=y,
                color=_label_colours(alt.Legend()),
                shape=alt.Shape(
                    "label:N", scale=alt.Scale(domain=LABELS, range=["square", "circle"])
                ),
            )
        )
        titled = alt.TitleParams(
            panel["title"], subtitle=list(panel["notes"]), subtitleColor=colour("muted")
        )
        charts.append(alt.layer(*layers).properties(title=titled, **size))
    return finish(alt.hconcat(*charts, spacing=16), width)


def _label_colours(legend: alt.Legend | None) -> alt.Color:
    scale = alt.Scale(domain=LABELS, range=[colour("c1"), colour("c0")])
    return alt.Color("label:N", scale=scale, legend=legend)


def _arrows(
    points: NDArray[np.float64],
    labels: Any,
    targets: Any,
    size: Mapping[str, float],
    panel: Any,
    axes: Any,
) -> list[Any]:
    """Lines from people to their targets, each with a head; nobody who stays has one."""
    (left, right), (bottom, top) = panel["x"], panel["y"]
    units = [size["width"] / (right - left), size["height"] / (top - bottom)]
    rows = []
    for person in np.flatnonzero(targets != np.arange(len(points))):
        start, end = points[person], points[targets[person]]
        across, up = (end - start) * units
        length = math.hypot(across, up)
        if length <= 2 * TIP:
            continue  # the two marks leave no room
        end = start + (1 - TIP / length) * (end - start)
        row = {"x": start[0], "y": start[1], "x2": end[0], "y2": end[1]}
        row["angle"] = math.degrees(math.atan2(across, up))
        label = LABELS[int(labels[person])]
        rows.append({**{key: float(value) for key, value in row.items()}, "label": label})
    base, hue = alt.Chart(data(rows)), _label_colours(None)
    x, y = axes
    angle = alt.Angle("angle:Q", scale=alt.Scale(domain=[-180, 180], range=[-180, 180]))
    head = base.transform_calculate(x="datum.x2", y="datum.y2")
    head = head.mark_point(shape="triangle", filled=True, size=40, opacity=1)
    return [
        base.mark_rule(strokeWidth=1, opacity=0.75).encode(
            x=x, y=y, x2="x2:Q", y2="y2:Q", color=hue
        ),
        head.encode(x=x, y=y, color=hue, angle=angle),
    ]


def rectangles(chosen: NDArray[np.bool_]) -> list[tuple[int, int, int, int]]:
    """Cover the chosen cells of a grid once each with rectangles.

    Returns
    -------
    list of tuple
        First column, end column, first row, end row.
    """
    done: list[tuple[int, int, int, int]] = []
    unfinished: dict[tuple[int, int], int] = {}
    for row in range(len(chosen) + 1):
        runs = set(_runs(chosen[row])) if row < len(chosen) else set()
        for run in [run for run in unfinished if run not in runs]:
            done.append((*run, unfinished.pop(run), row))
        for run in runs:
            unfinished.setdefault(run, row)
    return done


def _runs(cells: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and end of each run of chosen cells."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], cells, [False]]).astype(np.int8)))
    return [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]


def _border(above: ArrayLike) -> list[tuple[int, int, int, int]]:
    """Edges between cells that are above and cells that are not, as rectangles without an area."""
    cells = np.asarray(above, dtype=bool)
    level = [
        (first, end, row + 1, row + 1)
        for row, line in enumerate(cells[1:] != cells[:-1])
        for first, end in _runs(line)
    ]
    upright = [
        (column + 1, column + 1, first, end)
        for column, line in enumerate((cells[:, 1:] != cells[:, :-1]).T)
        for first, end in _runs(line)
    ]
    return level + upright
