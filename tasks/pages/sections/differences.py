"""Beside the baseline: the differences of all metrics with their paired intervals."""

from __future__ import annotations

from evenhand.fairlib.catalogue import title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Chart, Documents, Heading, Section
from evenhand.tasks.pages.sections.metrics import FINDINGS, by_scale, finding
from evenhand.tasks.pages.texts import direction, interval_name, plotted

PAGES = {"evaluation": 30}
NEEDS = ("comparison", "metrics")


def build(documents: Documents) -> Section | None:
    """A chart a scale, of metrics that are better in the same direction."""
    differences = documents["comparison"]["differences"]
    interval = interval_name(documents["metrics"]["settings"])
    limits = {
        result["metric"]: result["limit"]
        for result in (documents.get("decision") or {"results": []})["results"]
        if result["kind"] == "no_worse_than_baseline"
    }
    blocks: list[Block] = [
        "Model less baseline on the same rows. A filled mark is a difference whose paired interval does not "
        "contain 0; a tick is the difference that a gate allows."
    ]
    for _, text, names in by_scale(plotted(differences, documents["metrics"]["counts"])):
        rows, said, way = [], [], direction(names[0])
        for name in names:
            found = differences[name]
            kind = finding(name, found)
            clear = kind in ("better", "worse", "other", "same")
            limit = limits.get(name)
            rows.append(
                {
                    "label": title(name),
                    **{end: found[end] for end in ("value", "low", "high")},
                    "finding": "difference" if clear else "no difference can be told",
                    "limit": limit if limit is None or way == "lower" else -limit,
                }
            )
            said.append(f"{title(name)}: {formats.signed(found['value'])}, {FINDINGS[kind]}")
        better = way if way in ("higher", "lower") else None
        data = {"rows": rows, "better": better, "interval": interval}
        described = f"{'; '.join(said)}. The table above has every number."
        blocks += [
            Heading(text),
            Chart("intervals.differences", data, f"{text}: model less baseline", described),
        ]
    return Section("differences", "Beside the baseline", blocks) if len(blocks) > 1 else None
