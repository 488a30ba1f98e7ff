"""Training: losses over the steps, of methods that keep a history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Chart, Documents, Section, Table

PAGES = {"run": 60}
NEEDS = ("history",)

SERIES = ("adversarial_loss", "classification_loss", "adversary_loss", "loss")
# Points that a table can hold, and lines that a chart can.
MOST_POINTS = 60
MOST_CURVES = 6


def build(documents: Documents) -> Section | None:
    """The history's losses, thinned to points that the table can hold."""
    history = documents["history"]
    series = {
        name: history[name] for name in SERIES if any(_finite(v) is not None for v in history.get(name, []))
    }
    if not series:
        return None
    length = len(next(iter(series.values())))
    # networks record means at some steps, boosting every step
    steps = [int(step) for step in history.get("step", range(1, length + 1))]
    return curves_section("Training", steps, series)


def curves_section(title: str, steps: Sequence[int], series: Mapping[str, Sequence[Any]]) -> Section:
    """Curves over steps, in one chart where no curve would be flattened."""
    kept = formats.evenly(range(len(steps)), MOST_POINTS)
    shown = [steps[k] for k in kept]
    thinned = {name.replace("_", " "): [_finite(values[k]) for k in kept] for name, values in series.items()}
    blocks: list[Block] = []
    for names in [list(thinned)] if _alike(thinned) else [[name] for name in thinned]:
        rows = [
            {"step": step, "series": name, "value": value}
            for name in names
            for step, value in zip(shown, thinned[name], strict=True)
        ]
        known = {name: [v for v in thinned[name] if v is not None] for name in names}
        said = [
            f"{n} goes from {formats.number(v[0])} to {formats.number(v[-1])}" for n, v in known.items() if v
        ]
        text = f"{formats.join(names)} by step"
        blocks.append(Chart("curves.training_curves", {"rows": rows}, text, f"{'; '.join(said)}."))
    caption = "Training by step"
    if len(steps) > len(shown):
        caption += f": {len(shown)} of {formats.count(len(steps))} recorded steps, evenly spaced, as plotted"
    table = [[formats.count(step), *row] for step, *row in zip(shown, *thinned.values(), strict=True)]
    return Section("training", title, [*blocks, Table(caption, ["Step", *thinned], table, folded=True)])


def _finite(value: float | None) -> float | None:
    """A loss may overflow; the curve then has a gap."""
    return value if value is not None and math.isfinite(value) else None


def _alike(curves: Mapping[str, Sequence[float | None]]) -> bool:
    """Whether one chart flattens none of the curves: each spans a tenth of all."""
    spans = []
    for values in curves.values():
        known = [v for v in values if v is not None]
        spans.append((min(known), max(known)) if known else (0.0, 0.0))
    low, high = min(s[0] for s in spans), max(s[1] for s in spans)
    return len(curves) <= MOST_CURVES and all(b - a >= 0.1 * (high - low) for a, b in spans)
