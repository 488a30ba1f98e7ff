"""The picture of BuDRO's growth with the number of rows, ``docs/budro-growth.svg``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import picture
from benchmarks.panels import series_panels


def write(results: dict[str, Any], folder: Path) -> list[Path]:
    """Draw the picture if it was measured, and return the files that were written."""
    if "growth" not in results:
        return []
    path = folder / "budro-growth.svg"
    path.write_text(growth(results["growth"]["result"]))
    return [path]


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
