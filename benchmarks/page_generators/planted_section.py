"""The part of docs/choose-a-method.md on planted worlds: what decides is whether the metric finds
the proxy features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# How far below the best baseline's true AUC a method may lie and still lose nothing.
TOLERANCE = 0.003
METHODS = ("project", "budro", "sensei")
LEARNED = "-learned"

HEAD = """\
## What decides: whether the metric finds the proxy features

In planted worlds the true label of everybody is known, and every person can be regenerated under another group. The
recorded labels are biased against a group. The table shows the gain in true AUC over the best baseline of the world
(unmitigated, without the sensitive columns, without all columns that predict an attribute, reweighed, thresholds by
group) and, after the slash, the share of decisions that stay when the person is regenerated; everything at a selected
share of one half. The *default* metric is `sensitive-subspace`, the *learned* one `learned`
([fair metrics](fair-metric.md)).
"""


def section(results: Mapping[str, Any], rows: int = 2500) -> str:
    """Text from the summary of ``benchmarks.studies.planted_worlds``.

    Columns that were not measured in every world are left out, as are worlds on which nothing was
    tuned: the research page has these.
    """
    worlds = {}
    for name, world in results["worlds"][str(rows)].items():
        if not world.get("unseen"):
            worlds[name] = world
    columns = []
    for method in METHODS:
        for suffix, title in (("", "default"), (LEARNED, "learned")):
            kind = method + suffix
            if all(kind in world["methods"] for world in worlds.values()):
                columns.append((kind, f"`{method}`, {title}"))
    titles = ["world", "best baseline", *(title for _, title in columns)]
    lines = [HEAD, f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for world, found in worlds.items():
        best = found["methods"][found["best_control"]]
        cells = [world, f"{best['true_auc']:.3f} / {best['consistency']:.3f}"]
        cells += [_cell(found["methods"][kind]) for kind, _ in columns]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for kind, title in columns:
        count = _worlds_without_loss(worlds, kind)
        lines.append(
            f"- {title} metric: at most {TOLERANCE} of true AUC below the best baseline in {count} of "
            f"{len(worlds)} worlds."
        )
    seeds = min(world["seeds"] for world in worlds.values())
    lines.append(
        f"\nMeans of up to {seeds} seeds at {rows:,} training rows "
        "([all methods, worlds on which nothing was tuned, and what was "
        "tried](research/fair-metric.md#the-learned-metric)). So choose "
        "the metric first. Where no column predicts the attribute (*no-proxy*), leaving the sensitive "
        "column out is enough."
    )
    return "\n".join(lines) + "\n"


def _cell(method: Mapping[str, Any]) -> str:
    gain = f"{method['gain']:+.3f}".replace("-", "−")
    return f"{gain} / {method['consistency']:.3f}"


def _worlds_without_loss(worlds: Mapping[str, Any], method: str) -> int:
    gains = [world["methods"][method]["gain"] for world in worlds.values()]
    return sum(gain >= -TOLERANCE for gain in gains)
