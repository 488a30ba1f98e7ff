"""Probabilities and decisions: calibration overall and by group, and how decisions follow from
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenhand.fairlib.catalogue import spoken, title
from evenhand.fairlib.methods.decided import OTHER_GROUPS, columns_of_rule
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import Block, Chart, Documents, Heading, Json, Section, Table

PAGES = {"run": 35, "evaluation": 35}
NEEDS = ("reliability", "metrics", "run")

CALIBRATIONS = {
    "none": "no calibration was better than the model's own probabilities",
    "sigmoid": "a sigmoid of the log-odds",
    "beta": "a beta calibration",
    "isotonic": "an isotonic regression",
}


def build(documents: Documents) -> list[Section]:
    """Reliability, and the decision rule where the job has one."""
    sections = [_reliability(documents)]
    rule = documents.get("rule")
    if rule:
        sections.append(_decisions(rule))
    return sections


def _reliability(documents: Documents) -> Section:
    content = documents["reliability"]
    metrics = documents["metrics"]["metrics"]
    lead = (
        "Of the people with a probability near 30%, 30% should be positive. Each point is a tenth "
        "of the people."
    )
    error = metrics.get("ece", {}).get("value")
    if error is not None:
        lead += (
            f" On average they differ by {formats.number(error)} (expected calibration error, less "
            "the part that chance alone would give)."
        )
    blocks: list[Block] = [lead]
    calibration = _calibration(documents)
    if calibration:
        blocks.append(calibration)
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


def _calibration(documents: Documents) -> str:
    """Say how the probabilities were calibrated; empty where a judged model does not say it."""
    rule = documents.get("rule")
    if not rule:
        if documents["run"].get("judged"):
            return ""
        return "The job does not calibrate them (`calibration: none`)."
    text = "The probabilities are the model's own, not calibrated."
    if rule["calibration"] != "none" or rule["losses"]:
        method = CALIBRATIONS[rule["calibration"]]
        ranked = sorted(rule["losses"].items(), key=lambda item: item[1])
        losses = [f"{name} {formats.number(loss)}" for name, loss in ranked]
        if losses:
            method += f" (cross-validated log loss: {formats.join(losses)})"
        text = f"The probabilities are calibrated on {_held_out(rule)}: {method}."
        if ranked and ranked[0][0] != rule["calibration"]:
            text += (
                f" {formats.sentence(CALIBRATIONS[ranked[0][0]])} was passed over: it gives so "
                "many people the same probability that no threshold keeps the wanted share."
            )
    if rule["shift"] != 0:
        shift = formats.number(abs(rule["shift"]))
        text += (
            f" The class weights of the training were corrected for first, by {shift} in log-odds."
        )
    return text


def _held_out(rule: Json) -> str:
    return f"{formats.count(rule['rows'])} training rows that the model was not trained on"


def _chart(about: str, groups: Mapping[str, Sequence[Json]]) -> list[Block]:
    filled = {name: bins for name, bins in groups.items() if bins}
    if not filled:
        return ["There are too few people for a chart."]
    sizes = {name: sum(part["n"] for part in bins) for name, bins in filled.items()}
    drawn = texts.largest(list(filled), 6, lambda name: sizes[name])
    points = []
    described = []
    for name in drawn:
        points += [{"series": name, **part} for part in filled[name]]
        widest = max(filled[name], key=lambda part: abs(part["mean"] - part["share"]))
        described.append(
            f"{name}: furthest apart where the mean probability is "
            f"{formats.percent(widest['mean'])} and {formats.percent(widest['share'])} are positive"
        )
    rows = []
    for name, bins in filled.items():
        for part in bins:
            share = texts.estimate_cell({**part, "value": part["share"]}, formats.percent)
            rows.append([name, formats.percent(part["mean"]), share, part["n"]])
    caption = f"Probability and share of positives, {about}"
    columns = ["People", "Mean probability", "Positive", "Number"]
    table = Table(caption, columns, rows, folded=True)
    note = texts.left_out(drawn, list(filled), "The largest groups")
    data = {"rows": points}
    return [Chart("curves.reliability", data, caption, f"{'; '.join(described)}.", note, table)]


def _decisions(rule: Json) -> Section:
    chosen = rule["rule"]
    curve = rule["curve"]
    names = {
        "selected": "predicted positive",
        "accuracy": title("accuracy").lower(),
        "balanced_accuracy": title("balanced_accuracy").lower(),
    }
    points = []
    for name, series in names.items():
        for point in curve:
            points.append({"threshold": point["threshold"], "series": series, "value": point[name]})
    rows = []
    for point in formats.evenly(curve, 21):
        rows.append([formats.percent(point[name]) for name in ("threshold", *names)])
    head = ["Threshold", *map(formats.sentence, names.values())]
    table = Table("Decisions by threshold", head, rows, folded=True)
    best = max(curve, key=lambda point: point["balanced_accuracy"])
    described = (
        f"Balanced accuracy is largest, {formats.percent(best['balanced_accuracy'])}, at a "
        f"threshold of {formats.percent(best['threshold'])}."
    )
    data = {"rows": points, "marked": chosen.get("threshold")}
    caption = "What another threshold would give"
    chart = Chart("curves.decision_curve", data, caption, described, table=table)
    return Section("decisions", "How it decides", [_decision_text(rule), chart])


def _decision_text(rule: Json) -> str:
    """Say how a prediction follows from a probability."""
    chosen = rule["rule"]
    rows = _held_out(rule)
    if chosen["kind"] == "groups":
        columns = columns_of_rule(chosen)
        shared = ""
        if chosen.get("crossed") and OTHER_GROUPS in chosen["thresholds"]["rates"]:
            kind = "crossed groups" if len(columns) > 1 else "groups"
            shared = (
                f" Some {kind}, small ones among them, share one set of thresholds: the "
                "tolerance says nothing of differences between them."
            )
        return (
            f"Decisions have thresholds by group ({chosen['wanted']}), chosen on {rows}. A user "
            f"of this model needs to know {' and '.join(map(spoken, columns))}.{shared}"
        )
    if chosen["threshold"] is None:
        return "The method itself decides, not a threshold on the probability."
    return (
        "A person is predicted positive from a probability of "
        f"**{formats.percent(chosen['threshold'])}** on, chosen for {chosen['wanted']} on "
        f"{rows}; {formats.percent(rule['base_rate'])} of them are positive."
    )
