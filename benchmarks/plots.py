"""
Pictures of BuDRO's results: ``python -m benchmarks.plots [RESULTS.json]``.

The trade-off goes to ``docs/budro-trade-off.svg`` and the growth with the number of rows to
``docs/budro-growth.svg``; a part that the results lack leaves its picture as it is.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS
from evenhand.flows.job import load_job

DOCS = Path(__file__).parent.parent / "docs"
INK, SOFT, GRID, PAPER = "#16212b", "#4a5560", "#dcdad2", "#fcfbf7"

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """A method along one swept parameter, and how it is drawn: apart for colour-blind eyes too."""

    job: str
    over: str
    label: str
    colour: str
    shape: str
    dash: str = ""


# a parameter of "" has no curve: only its printed point is drawn
SERIES = (
    Series("adult-budro", "perturbation_budget", "BuDRO, over budgets", "#0067a5", "circle"),
    Series("adult-budro", "scale_pos_weight", "BuDRO, over class weights", "#0067a5", "circle", "6 4"),
    Series("adult-gbdt", "scale_pos_weight", "plain boosting", "#d55e00", "square"),
    Series("adult-project", "scale_pos_weight", "projection", "#00795a", "triangle"),
    Series("adult-reweigh", "scale_pos_weight", "reweighing", "#a8437f", "diamond"),
    Series("adult-nn", "", "neural network", "#4a5560", "cross"),
)
# name, what its axis says, and its value from the metrics: less is fairer in all of them
FAIRNESS: tuple[tuple[str, str, Callable[[dict[str, float]], float]], ...] = (
    ("gap by sex", "group gap by sex (RMS)", lambda m: m["gap_rms.sex"]),
    ("gap by race", "group gap by race (RMS)", lambda m: m["gap_rms.race"]),
    (
        "husband or wife",
        "share whose answer depends on husband or wife",
        lambda m: 1.0 - m["consistency.spouse"],
    ),
    (
        "sex and race",
        "share whose answer depends on sex and race",
        lambda m: 1.0 - m["consistency.gender_race"],
    ),
)


def main(arguments: Sequence[str] = ()) -> None:
    """Draw what the results allow."""
    path = Path(arguments[0]) if arguments else RESULTS / "budro.json"
    write(json.loads(path.read_text()), DOCS)


def write(results: dict[str, Any], folder: Path) -> list[Path]:
    """Draw the pictures of the parts that are there, and say which files were written."""
    written = []
    for part, name, draw in (
        ("curve", "budro-trade-off.svg", lambda found: trade_off(found, printed_points())),
        ("growth", "budro-growth.svg", growth),
    ):
        if part in results:
            written.append(folder / name)
            written[-1].write_text(draw(results[part]["result"]))
    return written


def series_points(curve: list[dict[str, Any]], job: str, over: str) -> list[dict[str, Any]]:
    """The points of one line, in the order of what was swept."""
    found = [point for point in curve if point["job"] == job and point["over"] == over]
    return sorted(found, key=lambda point: float(point["at"]))


def printed_points() -> dict[str, dict[str, float]]:
    """Mean of every metric of the paper's row, by job."""
    found = {}
    for job in dict.fromkeys(series.job for series in SERIES):
        paper = load_job(job)[0].paper
        assert paper is not None
        found[job] = {metric: float(row[0]) for metric, row in paper.row.items() if row[0] is not None}
    return found


# ------------------------------------------------------------------------------------------- the trade-off


def trade_off(curve: list[dict[str, Any]], printed: dict[str, dict[str, float]]) -> str:
    """Every fairness column against balanced accuracy, a line for each method and swept parameter."""
    lines = {series: series_points(curve, series.job, series.over) for series in SERIES}
    drawn = [series for series, points in lines.items() if points or series.job in printed]
    everything = [point["metrics"] for points in lines.values() for point in points] + list(printed.values())
    accuracies = [metrics["balanced_accuracy"] for metrics in everything]
    body = []
    for index, (_, label, value) in enumerate(FAIRNESS):
        left, top = 62 + 500 * (index % 2), 46 + 330 * (index // 2)
        x = Axis.around(accuracies, left, left + 420)
        y = Axis.around([0.0, *(value(metrics) for metrics in everything)], top + 245, top)
        body += frame(x, y, label, "balanced accuracy", ticks=(x.ticks(5), y.ticks(5)))
        for series, points in lines.items():
            at = [(x.at(p["metrics"]["balanced_accuracy"]), y.at(value(p["metrics"]))) for p in points]
            body.append(polyline(at, series.colour, series.dash))
            body += [mark(series.shape, point, series.colour) for point in at]
        for job, metrics in printed.items():
            style = next(series for series in SERIES if series.job == job)
            place = (x.at(metrics["balanced_accuracy"]), y.at(value(metrics)))
            body.append(mark(style.shape, place, style.colour, hollow=True))
        # once is enough to say in which direction the budget grows
        budgets = lines[SERIES[0]] if index == 0 else []
        for point in budgets[:1] + budgets[1:][-1:]:
            metrics = point["metrics"]
            place = (x.at(metrics["balanced_accuracy"]) + 7, y.at(value(metrics)) + 16)
            body.append(halo(place, f"ε = {point['at']:g}"))
    for index, series in enumerate(drawn):
        body += legend(62 + 232 * (index % 3), 706 + 24 * (index // 3), series, bool(lines[series]))
    body += [
        mark("circle", (784, 702), SOFT, hollow=True),
        text((800, 706), "hollow: printed in the paper"),
        text((776, 730), "Better: right and low."),
    ]
    names = ", ".join(series.label for series in drawn)
    return picture(
        1000,
        746,
        "Accuracy against fairness on Adult",
        "Four panels over balanced accuracy: the group gap by sex, the group gap by race, the share of "
        "people whose answer depends on being called husband or wife, and the share whose answer depends on "
        f"sex and race. Less is fairer. Lines and marks: {names}. Hollow marks are the paper's.",
        body,
    )


def legend(x: float, y: float, series: Series, has_line: bool) -> list[str]:
    """A mark, with its line, and its words."""
    line = polyline([(x, y - 4), (x + 32, y - 4)], series.colour, series.dash) if has_line else ""
    words = series.label if has_line else f"{series.label} (paper)"
    return [
        line,
        mark(series.shape, (x + 16, y - 4), series.colour, hollow=not has_line),
        text((x + 40, y), words),
    ]


# -------------------------------------------------------------------------------------------------- growth


def growth(found: list[dict[str, Any]]) -> str:
    """Seconds per step and peak memory against the number of rows, both on logarithmic axes."""
    points = sorted(found, key=lambda size: int(size["rows"]))
    rows = [float(point["rows"]) for point in points]
    body = []
    panels = (
        ("seconds_per_step", "seconds per step", "#0067a5"),
        ("peak_mib", "peak memory (MiB)", "#d55e00"),
    )
    for index, (key, label, colour) in enumerate(panels):
        left, top = 62 + 500 * index, 46
        values = [float(point[key]) for point in points]
        x = Axis(rows[0] / 1.25, rows[-1] * 1.6, left, left + 420, log=True)
        span = rows[-1] / rows[0]
        # room for the guide of slope 1, and for the start of that of slope 2
        y = Axis(min(values) / 1.6, max(*values, values[0] * span) * 1.8, top + 270, top, log=True)
        body += frame(x, y, label, "training rows", ticks=(rows, y.log_ticks()), number=lambda v: f"{v:,g}")
        for slope in (1, 2):
            end = min(rows[-1], rows[0] * (y.high / values[0]) ** (1 / slope))
            place = (x.at(end), y.at(values[0] * (end / rows[0]) ** slope))
            body.append(polyline([(x.at(rows[0]), y.at(values[0])), place], "#8b8f8c", "2 4"))
            inside = end == rows[-1]
            beside = (place[0] + 7, place[1] - 4) if inside else (place[0] - 16, place[1] + 14)
            body.append(halo(beside, f"slope {slope}", anchor="start" if inside else "end", fill=SOFT))
        at = [(x.at(row), y.at(value)) for row, value in zip(rows, values, strict=True)]
        body.append(polyline(at, colour))
        body += [mark("circle", point, colour) for point in at]
        body += [
            halo((place[0] + 7, place[1] + 17), digits(value))
            for place, value in zip(at, values, strict=True)
        ]
    slopes = [round(slope_between(rows, [float(point[key]) for point in points]), 2) for key, _, _ in panels]
    body.append(
        text(
            (62, 376),
            f"Fitted slopes: {slopes[0]:g} for the time of a step, {slopes[1]:g} for the memory. "
            "Dotted: growth in proportion (1) and with the square (2).",
        )
    )
    described = "; ".join(
        f"{int(point['rows']):,} rows: {point['seconds_per_step']:g} s, {point['peak_mib']:,g} MiB"
        for point in points
    )
    return picture(
        1000,
        392,
        "Time of a step and memory against the number of rows",
        f"Two logarithmic panels with guide lines of slope 1 and 2. {described}.",
        body,
    )


def digits(value: float) -> str:
    """Three significant digits, all of them above a thousand."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def slope_between(rows: Sequence[float], values: Sequence[float]) -> float:
    """Slope of the least-squares line through the logarithms: the exponent of the growth."""
    x, y = [math.log(row) for row in rows], [math.log(value) for value in values]
    centre = sum(x) / len(x)
    spread = sum((a - centre) ** 2 for a in x)
    return sum((a - centre) * b for a, b in zip(x, y, strict=True)) / spread if spread else math.nan


# ---------------------------------------------------------------------------------------- pieces of pictures


@dataclass(frozen=True)
class Axis:
    """A range of values laid over a range of pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float, room: float = 0.06) -> Axis:
        """A linear axis with some room on both sides, but none below a least value of 0."""
        low, high = min(values), max(values)
        margin = (high - low or 1.0) * room
        return cls(low if low == 0 else low - margin, high + margin, start, end)

    def at(self, value: float) -> float:
        """Pixel of a value."""
        scale = math.log if self.log else float
        share = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Round values inside the axis, at most one more than that many."""
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(step * k, 12) for k in range(first, last + 1)]

    def log_ticks(self) -> list[float]:
        """Values 1, 2 and 5 times powers of ten inside the axis."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found = [round(factor * 10.0**power, 12) for power in powers for factor in (1, 2, 5)]
        return [value for value in found if self.low <= value <= self.high]


def frame(
    x: Axis,
    y: Axis,
    title: str,
    below: str,
    *,
    ticks: tuple[Sequence[float], Sequence[float]],
    number: Callable[[float], str] = lambda value: f"{value:g}",
) -> list[str]:
    """Grid, numbers and names of a panel."""
    body = [text((x.start, y.end - 14), title, size=15, weight=600)]
    for value in ticks[0]:
        body.append(rule((x.at(value), y.start), (x.at(value), y.end)))
        body.append(text((x.at(value), y.start + 17), number(value), size=12, anchor="middle", fill=SOFT))
    for value in ticks[1]:
        body.append(rule((x.start, y.at(value)), (x.end, y.at(value))))
        body.append(text((x.start - 7, y.at(value) + 4), number(value), size=12, anchor="end", fill=SOFT))
    body.append(rule((x.start, y.start), (x.end, y.start), SOFT))
    body.append(text(((x.start + x.end) / 2, y.start + 36), below, size=13, anchor="middle", fill=SOFT))
    return body


def picture(width: int, height: int, title: str, description: str, body: Sequence[str]) -> str:
    """The file: its own light ground, so that it reads on dark pages too."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            'aria-labelledby="t d" font-family="system-ui, sans-serif">',
            f'<title id="t">{escape(title)}</title>',
            f'<desc id="d">{escape(description)}</desc>',
            f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
            *(piece for piece in body if piece),
            "</svg>\n",
        ]
    )


def text(
    place: Point, words: str, *, size: float = 13, anchor: str = "start", fill: str = INK, weight: int = 400
) -> str:
    """Words on one line."""
    heavy = f' font-weight="{weight}"' if weight != 400 else ""
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return (
        f'<text x="{short(place[0])}" y="{short(place[1])}" font-size="{size:g}"{where}{heavy} fill="{fill}">'
        f"{escape(words, quote=False)}</text>"
    )


def halo(place: Point, words: str, *, anchor: str = "start", fill: str = INK) -> str:
    """Small words that stay legible over lines."""
    plain = text(place, words, size=12, anchor=anchor, fill=fill)
    return plain.replace(
        "<text ", f'<text paint-order="stroke" stroke="{PAPER}" stroke-width="4" stroke-linejoin="round" ', 1
    )


def polyline(points: Sequence[Point], colour: str, dash: str = "", width: float = 2) -> str:
    """A line through the points; nothing for fewer than two."""
    if len(points) < 2:
        return ""
    path = " ".join(f"{short(a)},{short(b)}" for a, b in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def rule(first: Point, last: Point, colour: str = GRID) -> str:
    """A thin straight line."""
    return (
        f'<path d="M{short(first[0])} {short(first[1])}L{short(last[0])} {short(last[1])}" '
        f'stroke="{colour}" stroke-width="1"/>'
    )


def mark(shape: str, place: Point, colour: str, *, hollow: bool = False, size: float = 4.5) -> str:
    """A mark of some shape about a place: filled, or larger and hollow."""
    x, y = place
    r = size * 1.6 if hollow else size
    ink = f'fill="none" stroke="{colour}" stroke-width="2"' if hollow else f'fill="{colour}"'
    if shape == "circle":
        return f'<circle cx="{short(x)}" cy="{short(y)}" r="{short(r)}" {ink}/>'
    if shape == "cross":
        path = f"M{short(x - r)} {short(y - r)}L{short(x + r)} {short(y + r)}"
        path += f"M{short(x - r)} {short(y + r)}L{short(x + r)} {short(y - r)}"
        return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    corners = {
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "triangle": [(0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        "diamond": [(0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)],
    }[shape]
    path = "L".join(f"{short(x + r * a)} {short(y + r * b)}" for a, b in corners)
    return f'<path d="M{path}z" {ink}/>'


def short(value: float) -> str:
    """A coordinate with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


if __name__ == "__main__":
    main(sys.argv[1:])
