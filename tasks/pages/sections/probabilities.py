"""Probabilities and decisions: calibration overall and by group, and how decisions follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Heading, Json, Section, Table

PAGES = {"run": 35}
NEEDS = ("reliability", "metrics")

CALIBRATIONS = {
    "none": "no calibration was better than the model's own probabilities",
    "sigmoid": "a sigmoid of the log-odds",
    "beta": "a beta calibration",
    "isotonic": "an isotonic regression",
}


def build(documents: Documents) -> list[Section]:
    """Reliability, and the decision rule where the job has one."""
    found = [_reliability(documents)]
    return [*found, _decisions(documents["rule"])] if documents.get("rule") else found


def _reliability(documents: Documents) -> Section:
    content, metrics = documents["reliability"], documents["metrics"]["metrics"]
    error, rule = metrics.get("ece", {}).get("value"), documents.get("rule")
    known = (
        ""
        if error is None
        else (
            f" On average they differ by {formats.number(error)} (expected calibration error, less the part "
            "that chance alone would give)."
        )
    )
    blocks: list[Block] = [
        "Of the people with a probability near 30%, 30% should be positive. Each point is a tenth of the "
        f"people.{known}"
    ]
    if rule:
        shift = (
            ""
            if rule["shift"] == 0
            else (
                " The class weights of the training were corrected for first, by "
                f"{formats.number(abs(rule['shift']))} in log-odds."
            )
        )
        rows = f"{formats.count(rule['rows'])} training rows that the model was not trained on"
        kept = rule["calibration"] == "none" and not rule["losses"]
        blocks.append(
            f"The probabilities are the model's own, not calibrated.{shift}"
            if kept
            else f"The probabilities are calibrated on {rows}: {_chosen(rule)}.{shift}"
        )
    else:
        blocks.append("The job does not calibrate them (`calibration: none`).")
    blocks += _chart("everybody", {"everybody": content["overall"]})
    for attribute, groups in content["groups"].items():
        blocks.append(Heading(f"By {spoken(attribute)}"))
        gap = metrics.get(f"calibration_gap.{attribute}", {})
        if gap.get("value") is not None:
            blocks.append(
                "Mean probability less share of positives differs between the groups by up to "
                f"{formats.points(gap['value'])} ({formats.interval(gap['low'], gap['high'])})."
            )
        blocks += _chart(f"groups by {spoken(attribute)}", groups)
    return Section("reliability", "Are the probabilities right?", blocks)


def _chosen(rule: Json) -> str:
    said = CALIBRATIONS[rule["calibration"]]
    others = [
        f"{name} {formats.number(loss)}"
        for name, loss in sorted(rule["losses"].items(), key=lambda one: one[1])
    ]
    return f"{said} (cross-validated log loss: {formats.join(others)})" if others else said


def _chart(about: str, groups: Mapping[str, Sequence[Json]]) -> list[Block]:
    kept = {name: bins for name, bins in groups.items() if bins}
    if not kept:
        return ["There are too few people for a chart."]
    shown = texts.largest(list(kept), 6, lambda name: sum(one["n"] for one in kept[name]))
    rows = [{"series": name, **one} for name in shown for one in kept[name]]
    said = []
    for name in shown:
        widest = max(kept[name], key=lambda one: abs(one["mean"] - one["share"]))
        said.append(
            f"{name}: furthest apart where the mean probability is {formats.percent(widest['mean'])} and "
            f"{formats.percent(widest['share'])} are positive"
        )
    caption = f"Probability and share of positives, {about}"
    table_rows: list[list[Any]] = [
        [
            name,
            formats.percent(one["mean"]),
            Cell(
                formats.percent(one["share"]), (formats.interval(one["low"], one["high"], formats.percent),)
            ),
            one["n"],
        ]
        for name in kept
        for one in kept[name]
    ]
    columns = ["People", "Mean probability", "Positive", "Number"]
    table = Table(caption, columns, table_rows, folded=True)
    left = texts.left_out(shown, list(kept), "The largest groups")
    return [Chart("curves.reliability", {"rows": rows}, caption, f"{'; '.join(said)}.", left, table)]


def _decisions(rule: Json) -> Section:
    chosen = rule["rule"]
    if chosen["kind"] == "groups":
        text = (
            f"Decisions have thresholds by group ({chosen['wanted']}), chosen on "
            f"{formats.count(rule['rows'])} training rows that the model was not trained on. Whoever decides "
            f"with this model needs to know {spoken(chosen['attribute'])}."
        )
    elif chosen["threshold"] is None:
        text = "The method itself decides, not a threshold on the probability."
    else:
        text = (
            "A person is predicted positive from a probability of "
            f"**{formats.percent(chosen['threshold'])}** on, chosen for {chosen['wanted']} on "
            f"{formats.count(rule['rows'])} training rows that the model was not trained on; "
            f"{formats.percent(rule['base_rate'])} of them are positive."
        )
    marked = chosen.get("threshold")
    names = {
        "selected": "predicted positive",
        "accuracy": "accuracy",
        "balanced_accuracy": "balanced accuracy",
    }
    rows = [
        {"threshold": point["threshold"], "series": text_of, "value": point[name]}
        for name, text_of in names.items()
        for point in rule["curve"]
    ]
    best = max(rule["curve"], key=lambda point: point["balanced_accuracy"])
    described = (
        f"Balanced accuracy is largest, {formats.percent(best['balanced_accuracy'])}, at a threshold of "
    )
    table = Table(
        "Decisions by threshold",
        ["Threshold", *(formats.sentence(name) for name in names.values())],
        [
            [formats.percent(point["threshold"]), *(formats.percent(point[name]) for name in names)]
            for point in formats.evenly(rule["curve"], 21)
        ],
        folded=True,
    )
    chart = Chart(
        "curves.decision_curve",
        {"rows": rows, "marked": marked},
        "What another threshold would give",
        f"{described}{formats.percent(best['threshold'])}.",
        table=table,
    )
    return Section("decisions", "How it decides", [text, chart])
