"""Beside the baseline: the differences of all metrics with their paired intervals."""

from __future__ import annotations

from evenhand.fairlib.catalogue import direction, title, without_intersections
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Chart, Documents, Heading, Section
from evenhand.tasks.pages.sections.metrics import FINDINGS, by_scale, finding
from evenhand.tasks.pages.texts import ends, gate_results, interval_name

PAGES = {"evaluation": 30}
NEEDS = ("comparison", "metrics")


def build(documents: Documents) -> Section | None:
    """A chart a scale, of metrics that are better in the same direction."""
    differences = documents["comparison"]["differences"]
    interval = interval_name(documents["metrics"]["settings"])
    limits = {
        result["metric"]: result["limit"]
        for result in gate_results(documents)
        if result["kind"] == "no_worse_than_baseline"
    }
    blocks: list[Block] = [
        "Model less baseline on the same rows. A filled mark is a difference whose paired interval does not "
        "contain 0; a tick is the difference that a gate allows."
    ]
    for _, text, names in by_scale(without_intersections(differences, documents["metrics"]["counts"])):
        rows, said, way = [], [], direction(names[0])
        for name in names:
            found, limit = differences[name], limits.get(name)
            kind = finding(name, found)
            row = {"label": title(name), **ends(found)}
            row["finding"] = "difference" if kind not in ("unclear", "lacking") else FINDINGS["unclear"]
            row["limit"] = limit if limit is None or way == "lower" else -limit
            rows.append(row)
            said.append(f"{title(name)}: {formats.signed(found['value'])}, {FINDINGS[kind]}")
        data = {"rows": rows, "better": way, "interval": interval}
        shown = f"{text}: model less baseline"
        blocks += [Heading(text), Chart("intervals.differences", data, shown, f"{'; '.join(said)}.")]
    return Section("differences", "Beside the baseline", blocks) if len(blocks) > 1 else None
