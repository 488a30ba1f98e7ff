"""AUCs of features above the shares of people who are asked for them, which may be divided into
parts.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from evenhand.fairlib.plots.intervals import WIDEST, auc_panel
from evenhand.fairlib.plots.theme import CHARACTER, Rows, colour, data, finish, is_narrow, records

# Opacity of the first of several parts.
PALEST = 0.3


def asked_features(rows: Rows, *, predicted: str, width: int = 680) -> Any:
    """AUCs of each feature above the share of people who are asked for it.

    A feature with `parts` has its bar split into them, from left to right and pale to dark, and a
    line across at the share of all people.

    Rows have ``name``; ``share`` with ``low`` and ``high`` (absent or None for a set of features,
    which has AUCs only); ``classifier_auc`` of the outcome and ``adversary_auc`` of the group
    `predicted`, or None; optionally ``parts``, a list of (name, share). Where no AUC is known there
    is only the lower panel.
    """
    found = [{"parts": [], "share": None, "low": None, **record} for record in records(rows)]
    order = [record["name"] for record in found]
    step = min((width - 60) / max(len(found), 1), WIDEST)
    angle = (
        0
        if all(CHARACTER * len(name) < step for name in order)
        else -90
        if is_narrow(width)
        else -45
    )
    font = 12 if step > 14 else 9
    names = alt.Axis(
        title=None, labelAngle=angle, labelLimit=120, labelOverlap=False, labelFontSize=font
    )
    size = {"width": step * len(found)}
    aucs = auc_panel(found, order, f"predicts {predicted}").properties(height=130, **size)
    shares = _share_panel(found, order, names, 0.7 * step).properties(height=150, **size)
    known = any(
        record[key] is not None for record in found for key in ("classifier_auc", "adversary_auc")
    )
    return finish(alt.vconcat(*([aucs] if known else []), shares, spacing=14), width)


def _share_panel(
    found: list[dict[str, Any]], order: list[str], names: alt.Axis, wide: float
) -> Any:
    asked = [record for record in found if record["share"] is not None]
    bars = []
    for record in asked:
        parts = record["parts"] or [("", record["share"])]
        for i, (part, share) in enumerate(parts):
            bar = {"name": record["name"], "share": share, "count": len(parts)}
            bar["place"] = (i + 0.5) / len(parts)
            bar["dark"] = 1.0 if len(parts) == 1 else PALEST + (1 - PALEST) * i / (len(parts) - 1)
            bar["part"] = part if CHARACTER * len(part) < wide / len(parts) else ""
            bars.append(bar)
    x = alt.X("name:N", sort=order, scale=alt.Scale(domain=order), axis=names)
    y = alt.Y(
        "share:Q",
        title="share who are asked",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%"),
    )
    place = alt.XOffset("place:Q", scale=alt.Scale(domain=[0, 1]))
    layers: list[Any] = []
    for count in sorted({bar["count"] for bar in bars}):
        base = alt.Chart(data([bar for bar in bars if bar["count"] == count])).encode(
            x=x, xOffset=place, y=y
        )
        drawn = base.mark_bar(
            fill=colour("c0"), stroke=colour("c0"), strokeWidth=0.5, width=wide / count - 1
        )
        layers.append(drawn.encode(fillOpacity=alt.FillOpacity("dark:Q", scale=None)))
        layers.append(base.mark_text(dy=-7, fontSize=11, color=colour("ink")).encode(text="part:N"))
    whole = alt.Chart(data([record for record in asked if not record["parts"]]))
    rule = whole.mark_rule(color=colour("ink"), strokeWidth=1.5).transform_filter(
        "datum.low != null"
    )
    split = alt.Chart(data([record for record in asked if record["parts"]]))
    across = split.mark_tick(color=colour("ink"), thickness=2, width=wide + 4)
    return alt.layer(*layers, rule.encode(x=x, y="low:Q", y2="high:Q"), across.encode(x=x, y=y))
