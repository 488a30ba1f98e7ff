"""Plots with a scale on each side, as SVG text: pure functions from numbers to a string.

Colours, strokes and fonts come from the page's style by class name. Marks differ in shape and place, never
in colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.tasks.reporting import axes, draw, formats

__all__ = ["distribution", "histogram", "line_plot"]


def distribution(
    edges: Sequence[float],
    shares: Sequence[float],
    reference: Sequence[float],
    top: float,
    *,
    uid: str,
    title: str,
    description: str,
) -> str:
    """Draw one group's scores as a stepped outline, before the outline of all shown groups together.

    Parameters
    ----------
    edges : sequence of float, length bins + 1
        Rising bin edges.
    shares, reference : sequence of float, length bins
        The part of the group (of all shown groups) that falls in each bin; each sums to one.
    top : float
        Upper end of the vertical axis, the same for all groups that are compared.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.

    Returns
    -------
    str
        An SVG image.
    """
    width, height, x0, x1, y0, y1 = 230.0, 128.0, 38.0, 222.0, 104.0, 10.0
    x = axes.scale(edges[0], edges[-1], x0, x1)
    marks = draw.ticks(0.0, top, 4)
    y = axes.scale(0.0, marks[-1], y0, y1)

    def outline(values: Sequence[float]) -> str:
        steps = [f"M{draw.num(x(edges[0]))} {draw.num(y0)}"]
        for right, value in zip(edges[1:], values, strict=True):
            steps.append(f"V{draw.num(y(value))}H{draw.num(x(right))}")
        return "".join(steps) + f"V{draw.num(y0)}"

    body = [draw.strokes([(x0, y(mark), x1, y(mark)) for mark in marks], "grid")]
    for mark in marks:
        text = draw.tick_label(100 * mark, [100 * m for m in marks]) + "%"
        body.append(draw.label(x0 - 5, y(mark) + 4, text, "xs m", "end"))
    body.append(f'<path d="{outline(shares)}" class="outline"/>')
    body.append(f'<path d="{outline(reference)}" class="reference"/>')
    body.append(draw.line(x0, y0, x1, y0, "axis"))
    ends = (edges[0], (edges[0] + edges[-1]) / 2, edges[-1])
    for mark, anchor in zip(ends, ("start", "middle", "end"), strict=True):
        body.append(draw.label(x(mark), y0 + 16, f"{mark:.3g}".replace("-", "\u2212"), "xs m", anchor))
    return draw.frame(uid, width, height, title, description, "".join(body), "small")


def histogram(
    edges: Sequence[float],
    counts: Sequence[int],
    *,
    uid: str,
    title: str,
    description: str,
    axis: str,
    unit: str = "people",
    compact: bool = False,
) -> str:
    """Draw counts as upright bars, with the count on a bar where it fits.

    Parameters
    ----------
    edges : sequence of float, length bins + 1
        Rising.
    counts : sequence of int, length bins
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    axis, unit : str
        What the edges are, and what is counted.
    compact : bool
        For a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width, height = (axes.NARROW, 230.0) if compact else (axes.WIDE, 260.0)
    # Parts of a person are not counted.
    marks = [mark for mark in draw.ticks(0.0, max(*counts, 1), 5) if mark == int(mark)]
    texts = [draw.tick_label(mark, marks) for mark in marks]
    across = draw.ticks(edges[0], edges[-1], 5 if compact else 8)
    # The last label is centred under its mark and may stand out on the right.
    last = draw.text_width(draw.tick_label(across[-1], across), 12) / 2
    x0, x1 = max(draw.text_width(text, 12) for text in texts) + 10, width - last
    y0, y1 = height - 42, 32.0
    x, y = axes.scale(across[0], across[-1], x0, x1), axes.scale(0.0, marks[-1], y0, y1)
    body = [draw.label(0, 12, unit, "s m")]
    body.append(draw.strokes([(x0, y(mark), x1, y(mark)) for mark in marks], "grid"))
    for mark, text in zip(marks, texts, strict=True):
        body.append(draw.label(x0 - 7, y(mark) + 4, text, "s m", "end"))
    for left, right, n in zip(edges, edges[1:], counts, strict=False):
        if n == 0:
            continue
        wide = x(right) - x(left)
        # A bar too low to see still leaves a mark.
        top = min(y(n), y0 - 1.5)
        body.append(draw.rect(x(left) + 1, top, wide - 2, y0 - top, "bar"))
        if draw.text_width(formats.count(n), 12) < wide:
            body.append(draw.label(x(left) + wide / 2, top - 5, formats.count(n), "s", "middle"))
    body.append(draw.line(x0, y0, x1, y0, "axis"))
    for mark in across:
        body.append(draw.label(x(mark), y0 + 18, draw.tick_label(mark, across), "s m", "middle"))
    middle = (x0 + x1) / 2
    named = draw.shorten(axis, 2 * min(middle, width - middle), 12)
    body.append(draw.label(middle, height - 4, named, "s m", "middle"))
    return draw.frame(uid, width, height, title, description, "".join(body), axes.form(compact))


def line_plot(
    steps: Sequence[int],
    series: Sequence[tuple[str, Sequence[float | None]]],
    *,
    uid: str,
    title: str,
    description: str,
    axis: str = "step",
    compact: bool = False,
) -> str:
    """Draw curves over steps, each named at its end and told apart by its dashes.

    Parameters
    ----------
    steps : sequence of int
    series : sequence of (str, sequence of float or None)
        At most six are told apart; None leaves a gap.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    axis : str
        Name of the horizontal axis.
    compact : bool
        For a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width, height = (axes.NARROW, 230.0) if compact else (axes.WIDE, 270.0)
    values = [v for _, points in series for v in points if v is not None]
    marks = draw.ticks(min(values, default=0.0), max(values, default=1.0), 5)
    texts = [draw.tick_label(mark, marks) for mark in marks]
    x0 = max(draw.text_width(text, 12) for text in texts) + 10
    room = min(max(draw.text_width(name, 12) for name, _ in series) + 18, width * 0.36)
    x1, y0, y1 = width - room, height - 42, 12.0
    x = axes.scale(min(steps), max(steps), x0, x1)
    y = axes.scale(marks[0], marks[-1], y0, y1)
    body = []
    body.append(draw.strokes([(x0, y(mark), x1, y(mark)) for mark in marks], "grid"))
    for mark, text in zip(marks, texts, strict=True):
        body.append(draw.label(x0 - 7, y(mark) + 4, text, "s m", "end"))
    first, final = min(steps), max(steps)
    across = [t for t in draw.ticks(first, final, 5 if compact else 7) if first <= t <= final]
    for mark in across:
        body.append(draw.label(x(mark), y0 + 18, draw.tick_label(mark, across), "s m", "middle"))
    body.append(draw.label((x0 + x1) / 2, height - 6, axis, "s m", "middle"))
    ends = []
    for i, (name, points) in enumerate(series):
        path, pen, last = [], "M", None
        for step, value in zip(steps, points, strict=True):
            if value is None:
                pen = "M"
                continue
            path.append(f"{pen}{draw.num(x(step))} {draw.num(y(value))}")
            pen, last = "L", (x(step), y(value))
        if last is not None:
            body.append(f'<path d="{"".join(path)}" class="curve c{i % 6}"/>')
            body.append(draw.dot(*last, f"end c{i % 6}", 3))
            ends.append((name, last))
    placed = axes.spread([point[1] for _, point in ends], 16.0, y1, y0)
    for (name, point), at in zip(ends, placed, strict=True):
        if abs(at - point[1]) > 3:
            body.append(draw.line(point[0] + 4, point[1], x1 + 10, at, "track"))
        body.append(draw.label(x1 + 12, at + 4, draw.shorten(name, room - 14, 12), "s"))
    return draw.frame(uid, width, height, title, description, "".join(body), axes.form(compact))
