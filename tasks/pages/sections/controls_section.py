"""What the method bought: its model beside controls on the same rows, with paired intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import direction, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Block, Documents, Json, Section, Table
from evenhand.tasks.pages.sections.metrics_section import difference_cell, difference_chart, finding
from evenhand.tasks.pages.texts import (
    ends,
    estimate_cell,
    interval_name,
    known,
    metric_cell,
    summary_of,
)

PAGES = {"run": 5}
NEEDS = ("controls", "metrics")

NAMES = {
    "blind": "the same learner without mitigation and without the sensitive columns",
    "plain": "the same learner without mitigation",
    "majority": "the commonest answer for everybody",
}
COLUMNS = {"blind": "Blind", "plain": "Plain", "majority": "Commonest answer"}
# Metrics that the answer names, by their first part, in this order.
ANSWERED = (
    "accuracy", "balanced_accuracy", "log_loss", "consistency", "token_gap", "gap_max",
    "demographic_parity_difference", "certificate",
)  # fmt: skip


def build(documents: Documents) -> Section:
    """The answer in words, a chart beside the blind control, and all numbers."""
    content = documents["controls"]
    metrics = documents["metrics"]
    controls = content["controls"]
    interval = interval_name(metrics["settings"])
    method = documents["run"].get("job", {}).get("method", "")
    blocks: list[Block] = [*answers(controls), _majority(controls, metrics)]
    names = answered(metrics["metrics"])
    compared = next((name for name in ("blind", "plain") if not _is_method(controls, name)), None)
    if compared is not None:
        # in one chart: the side on which the model is better is to the right
        apart = controls[compared]["differences"]
        shown = [
            n for n in names if direction(n) is not None and apart.get(n, {}).get("low") is not None
        ]
        heading = f"How much better than {compared} the model is"
        caption = "Gains to the right: of measures where less is better the sign is changed."
        blocks.append(difference_chart(heading, apart, shown, interval, "higher", caption=caption))
    blocks.append(_table(controls, metrics["metrics"], names))
    blocks.append(
        f"The model is {summary_of(method)}. Blind is {NAMES['blind']}; plain is "
        f"{NAMES['plain']}. All are trained on the same rows, calibrated alike, decide by the "
        "same rule and are measured on the same rows, so the differences have paired "
        f"{interval}s. Each was trained once: another seed gives other differences."
    )
    return Section("controls", "What did the method buy?", blocks)


def answered(metrics: Mapping[str, Any]) -> list[str]:
    """Names of the metrics that the answer is about, in order, those of crossed attributes left
    out.
    """
    found = [name for name in metrics if name.partition(".")[0] in ANSWERED and "&" not in name]
    return sorted(found, key=lambda name: ANSWERED.index(name.partition(".")[0]))


def answers(controls: Mapping[str, Json]) -> list[str]:
    """Say beside the blind and the plain control what is better, what is worse, and what cannot be
    told.
    """
    if _is_method(controls, "plain") and _is_method(controls, "blind"):
        return [
            "The method has no mitigation, and no sensitive column is a model input: the model "
            "is its own control."
        ]
    own = {
        "blind": "No sensitive column is a model input: the model is its own blind control.",
        "plain": "The method has no mitigation: the model is its own plain control.",
    }
    both = controls["blind"]["same_as"] == "plain"
    sentences = []
    for name in ("blind",) if both else ("blind", "plain"):
        if _is_method(controls, name):
            sentences.append(own[name])
        else:
            also = " and plain" if both else ""
            sentences.append(f"Beside {name}{also}: {verdict(controls[name]['differences'])}.")
    if both:
        sentences.append("No sensitive column is a model input, so plain is blind too.")
    return [" ".join(sentences)]


def verdict(differences: Mapping[str, Json], listed: Sequence[str] | None = None) -> str:
    """Say in which metrics, those of the answer or those `listed`, a model differs by more than
    chance.
    """
    known = answered(differences) if listed is None else listed
    names = [name for name in known if direction(name) is not None]
    found: dict[str, list[str]] = {}
    for name in names:
        text = (
            f"{title(name)[0].lower()}{title(name)[1:]} "
            f"({formats.signed(differences[name]['value'])})"
        )
        found.setdefault(finding(name, differences[name]), []).append(text)
    if all(differences[name]["low"] is None for name in names):
        return "there are no intervals, so no difference can be told from chance"
    said = [f"**{k}** in {formats.shortlist(found[k])}" for k in ("better", "worse") if k in found]
    if not said:
        return "**no difference can be told**"
    return f"{', and '.join(said)}; in the other measures no difference can be told"


def _is_method(controls: Mapping[str, Json], name: str) -> bool:
    return controls[name]["same_as"] == "method"


def _majority(controls: Mapping[str, Json], metrics: Json) -> str:
    own = metrics["metrics"]["accuracy"]["value"]
    common = controls["majority"]["metrics"]["accuracy"]
    if own is None or common is None:
        return ""
    told = controls["majority"]["differences"]["accuracy"]
    chance = told["low"] is not None and told["low"] <= 0.0 <= told["high"]
    said = "which cannot be told from" if chance else "against"
    text = (
        f"The model is right about {formats.percent(own)} of people, {said} "
        f"{formats.percent(common)} for the commonest answer for everybody."
    )
    if own < common:
        text += " A threshold that treats both labels alike trades accuracy for balanced accuracy."
    return text


def _table(
    controls: Mapping[str, Json], metrics: Mapping[str, Json], names: Sequence[str]
) -> Table:
    shown = [name for name in COLUMNS if not _is_method(controls, name)]
    titles = dict(COLUMNS)
    if controls["blind"]["same_as"] == "plain":
        shown.remove("blind")
        titles["plain"] = "Plain, blind too"
    rows = []
    for name in names:
        row: list[Any] = [metric_cell(name), estimate_cell(ends(metrics[name]))]
        for control in shown:
            row.append(known(controls[control]["metrics"].get(name), why="not measured"))
            if control != "majority":
                row.append(difference_cell(name, controls[control]["differences"].get(name)))
        rows.append(row)
    columns = ["Metric", "This model"]
    for control in shown:
        columns += [titles[control], *(["Difference"] if control != "majority" else [])]
    return Table("The model and its controls", columns, rows)
