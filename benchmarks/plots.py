"""Pictures of BuDRO's results: ``python -m benchmarks.plots [RESULTS.json]``.

The trade-off goes to ``docs/budro-trade-off.svg`` and the growth with the number of rows to
``docs/budro-growth.svg``; a part that the results lack leaves its picture as it is.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import DOCS, RESULTS, picture
from benchmarks.panels import series_panels
from evenhand.flows.job_file import load_job


@dataclass(frozen=True)
class Series:
    """A method along one swept parameter; without a parameter, only its printed point is drawn."""

    job: str
    over: str
    label: str


SERIES = (
    Series("adult-budro", "perturbation_budget", "BuDRO, over budgets"),
    Series("adult-budro", "scale_pos_weight", "BuDRO, over class weights"),
    Series("adult-gbdt", "scale_pos_weight", "plain boosting"),
    Series("adult-project", "scale_pos_weight", "projection"),
    Series("adult-reweigh", "scale_pos_weight", "reweighing"),
    Series("adult-nn", "", "neural network"),
)
# name, title of its panel, and its value from the metrics: less is fairer in all of them
FAIRNESS: tuple[tuple[str, str, Callable[[dict[str, float]], float]], ...] = (
    ("gap by sex", "group gap by sex (RMS)", lambda m: m["gap_rms.sex"]),
    ("gap by race", "group gap by race (RMS)", lambda m: m["gap_rms.race"]),
    (
        "husband or wife",
        "share whose prediction depends on husband or wife",
        lambda m: 1.0 - m["consistency.spouse"],
    ),
    (
        "sex and race",
        "share whose prediction depends on sex and race",
        lambda m: 1.0 - m["consistency.gender_race"],
    ),
)


def main(arguments: Sequence[str] = ()) -> None:
    """Draw the pictures of the measured parts."""
    path = Path(arguments[0]) if arguments else RESULTS / "budro.json"
    write(json.loads(path.read_text()), DOCS)


def write(results: dict[str, Any], folder: Path) -> list[Path]:
    """Draw the pictures of the measured parts, and return the files that were written."""
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
    """Points of one line, in the order of the swept parameter."""
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


def fairness_rows(series: str, metrics: dict[str, float], **others: Any) -> list[dict[str, Any]]:
    """A point in each of the panels of fairness against balanced accuracy."""
    return [
        {"panel": panel, "series": series, "x": metrics["balanced_accuracy"], "y": value(metrics), **others}
        for _, panel, value in FAIRNESS
    ]


def trade_off_rows(curve: list[dict[str, Any]], printed: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """Measured points with the ends of the budgets labelled, and the paper's as hollow marks."""
    rows = []
    for series in SERIES:
        points = series_points(curve, series.job, series.over)
        for point in points:
            ends = series is SERIES[0] and point["at"] in (points[0]["at"], points[-1]["at"])
            label = f"ε = {point['at']:g}" if ends else ""
            rows += fairness_rows(series.label, point["metrics"], label=label)
    for job, metrics in printed.items():
        style = next(series for series in SERIES if series.job == job)
        rows += fairness_rows(style.label, metrics, draw="hollow")
    return rows


def trade_off(curve: list[dict[str, Any]], printed: dict[str, dict[str, float]]) -> str:
    """Every fairness metric against balanced accuracy, a line for each method and swept parameter."""
    rows = trade_off_rows(curve, printed)
    chart = series_panels(
        rows, x_title="balanced accuracy (hollow: printed in the paper)", zero="y", width=980
    )
    names = ", ".join(dict.fromkeys(row["series"] for row in rows))
    return picture(
        chart,
        "Accuracy against fairness on Adult",
        "Four panels over balanced accuracy: the group gap by sex, the group gap by race, the share of "
        "people whose prediction depends on being called husband or wife, and the share whose prediction "
        "depends on sex and race. Less is fairer; better is right and low. Lines and marks: "
        f"{names}. Hollow marks are the paper's.",
    )


def growth_rows(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Seconds per step and peak memory by the number of rows, with guides of slope 1 and 2."""
    points = sorted(found, key=lambda size: int(size["rows"]))
    first, last = float(points[0]["rows"]), float(points[-1]["rows"])
    rows = []
    for key, panel in (("seconds_per_step", "seconds per step"), ("peak_mib", "peak memory (MiB)")):
        for point in points:
            text = f"{point[key]:,.0f}" if point[key] >= 1000 else f"{point[key]:.3g}"
            rows.append(
                {"panel": panel, "series": "measured", "x": point["rows"], "y": point[key], "label": text}
            )
        start = points[0][key]
        highest = max(*(point[key] for point in points), start * last / first)
        for slope in (1, 2):
            end = min(last, first * (highest / start) ** (1 / slope))
            guide = {"panel": panel, "series": f"slope {slope}", "draw": "line"}
            rows.append({**guide, "x": first, "y": start})
            rows.append({**guide, "x": end, "y": start * (end / first) ** slope})
    return rows


def growth(found: list[dict[str, Any]]) -> str:
    """Seconds per step and peak memory against the number of rows, on logarithmic axes."""
    points = sorted(found, key=lambda size: int(size["rows"]))
    rows = [float(point["rows"]) for point in points]
    time, memory = (
        slope_between(rows, [float(point[key]) for point in points])
        for key in ("seconds_per_step", "peak_mib")
    )
    described = "; ".join(
        f"{int(point['rows']):,} rows: {point['seconds_per_step']:g} s, {point['peak_mib']:,g} MiB"
        for point in points
    )
    return picture(
        series_panels(growth_rows(found), x_title="training rows", log=True, width=980),
        "Time of a step and memory against the number of rows",
        f"Two logarithmic panels with guide lines of slope 1 and 2; the fitted slopes are {time:.3g} for the "
        f"time of a step and {memory:.3g} for the memory. {described}.",
    )


def slope_between(rows: Sequence[float], values: Sequence[float]) -> float:
    """Slope of the least-squares line through the logarithms: the exponent of the growth."""
    slope, _ = statistics.linear_regression([math.log(row) for row in rows], [math.log(v) for v in values])
    return slope


if __name__ == "__main__":
    main(sys.argv[1:])
