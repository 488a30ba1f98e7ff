"""Term by term: how much the answers about sentences move when one term replaces another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import (
    Block,
    Cell,
    Chart,
    Documents,
    Heading,
    Json,
    Section,
    Table,
)
from evenhand.tasks.pages.texts import ends, interval_name, lack, left_out

PAGES = {"run": 38, "evaluation": 38}
NEEDS = ("metrics", "tokens")

# A chart with more terms cannot be read; the table has every term.
MOST_TERMS = 25
AUCS = {
    "subgroup_auc": "AUC with it",
    "bpsn_auc": "AUC of its negatives",
    "bnsp_auc": "AUC of its positives",
}


def build(documents: Documents) -> Section:
    """For each list of terms a chart of the largest moves, and a table of all."""
    metrics = documents["metrics"]
    lead = (
        "Each test sentence with a term is answered again with every other term of the list in "
        "its place. The gap of a term is the mean absolute change of the probability when it "
        "replaces another term"
    )
    if "classes" in metrics["settings"]:
        lead += ": half the sum of the changes of all labels' probabilities."
    else:
        lead += (
            "; the shift is the mean change with its sign. The AUCs are of the test sentences as "
            "they are: those with the term, its negative ones against positive ones without it, "
            "and its positive ones against negative ones without it."
        )
    blocks: list[Block] = [lead]
    for name, content in documents["tokens"].items():
        blocks += _of(name, content, metrics)
    return Section("tokens", "Term by term", blocks)


def _of(name: str, content: Json, metrics: Json) -> list[Block]:
    blocks: list[Block] = [Heading(f"Terms of {spoken(name)}")]
    measured = [term for term in content["terms"] if term["gap"] is not None]
    same = metrics["metrics"][f"consistency.{name}"]["value"]
    sentences = formats.plural(content["sentences"], "sentence")
    if not measured or same is None:
        blocks.append(f"Only {sentences} of {content['column']} have a term: too few to measure.")
        return blocks
    blocks.append(
        f"{sentences} of {content['column']} have a term; {formats.percent(same)} of them get the "
        "same decision with every term."
    )
    ranked = sorted(measured, key=lambda term: -term["gap"])
    blocks.append(_chart(ranked))
    signed = "classes" not in metrics["settings"]
    rows: list[list[Any]] = [_row(term, signed=signed) for term in ranked]
    head = ["Term", "Gap", "Sentences"]
    if signed:
        head = ["Term", "Gap", "Shift", "Sentences", *AUCS.values()]
    title = (
        f"Change of probability by term, with {interval_name(metrics['settings'])}s over sentences"
    )
    return [*blocks, Table(title, head, rows), *_shown(content.get("shown", []))]


def _chart(ranked: Sequence[Json]) -> Chart:
    """The terms with the largest gaps."""
    drawn = ranked[:MOST_TERMS]
    bars = [{"label": term["term"], **ends({**term, "value": term["gap"]})} for term in drawn]
    data = {"rows": bars, "x_title": "mean absolute change of probability"}
    first = ranked[0]
    last = ranked[-1]
    described = (
        f"The term {first['term']} moves the probability most, by {formats.number(first['gap'])}; "
        f"{last['term']} least, by {formats.number(last['gap'])}."
    )
    caption = left_out(drawn, ranked, "The terms with the largest gaps")
    return Chart("intervals.ranked_bars", data, "Change of probability by term", described, caption)


def _shown(sentences: Sequence[Json]) -> list[Block]:
    """The sentences that move most, where the job allows to show them."""
    if not sentences:
        return []
    titles = {"before": "Probability before", "after": "after", "change": "Change of probabilities"}
    heads = {key: head for key, head in titles.items() if key in sentences[0]}
    rows = []
    for item in sentences:
        numbers = [formats.number(item[key]) for key in heads]
        rows.append([item["sentence"], item["copy"], *numbers])
    columns = ["Sentence", "Copy", *heads.values()]
    return [Table("Sentences whose probability changes most", columns, rows)]


def _row(term: Json, *, signed: bool) -> list[Any]:
    interval = ""
    if term["low"] is not None:
        interval = formats.interval(term["low"], term["high"])
    gap = Cell(formats.number(term["gap"]), (interval,))
    sentences = formats.count(term["sentences"])
    if not signed:
        return [term["term"], gap, sentences]
    row = [term["term"], gap, f"{term['shift']:+.3f}", sentences]
    for kind in AUCS:
        row.append(formats.number(term[kind]) if kind in term else lack("too few"))
    return row
