"""Probabilities and decisions: calibration overall and by group, and how decisions follow from
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenhand.fairlib.catalogue import spoken, title
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
    rule = documents.get("rule")
    return [_reliability(documents), *([_decisions(rule)] if rule else [])]


def _reliability(documents: Documents) -> Section:
    content = documents["reliability"]
    metrics = documents["metrics"]["metrics"]
    error = metrics.get("ece", {}).get("value")
    rule = documents.get("rule")
    lead = "Of the people with a probability near 30%, 30% should be positive. "
    lead += "Each point is a tenth of the people."
    if error is not None:
        lead += (
            f" On average they differ by {formats.number(error)} (expected calibration error, "
            "less the part that chance alone would give)."
        )
    judged = documents["run"].get("judged")
    made = "" if judged else "The job does not calibrate them (`calibration: none`)."
    if rule:
        made = "The probabilities are the model's own, not calibrated."
        if rule["calibration"] != "none" or rule["losses"]:
            ranked = sorted(rule["losses"].items(), key=lambda one: one[1])
            losses = formats.join([f"{name} {formats.number(loss)}" for name, loss in ranked])
            how = CALIBRATIONS[rule["calibration"]]
            how += f" (cross-validated log loss: {losses})" if losses else ""
            made = f"The probabilities are calibrated on {_held_out(rule)}: {how}."
        if rule["shift"] != 0:
            shift = formats.number(abs(rule["shift"]))
            made += (
                f" The class weights of the training were corrected for first, by {shift} in "
                "log-odds."
            )
    blocks: list[Block] = [lead, *([made] if made else [])]
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


def _held_out(rule: Json) -> str:
    return f"{formats.count(rule['rows'])} training rows that the model was not trained on"


def _chart(about: str, groups: Mapping[str, Sequence[Json]]) -> list[Block]:
    kept = {name: bins for name, bins in groups.items() if bins}
    if not kept:
        return ["There are too few people for a chart."]
    shown = texts.largest(list(kept), 6, lambda name: sum(one["n"] for one in kept[name]))
    rows = [{"series": name, **one} for name in shown for one in kept[name]]
    said = []
    table_rows = []
    for name in shown:
        widest = max(kept[name], key=lambda one: abs(one["mean"] - one["share"]))
        said.append(
            f"{name}: furthest apart where the mean probability is "
            f"{formats.percent(widest['mean'])} and "
            f"{formats.percent(widest['share'])} are positive"
        )
    caption = f"Probability and share of positives, {about}"
    for name, one in ((name, one) for name, bins in kept.items() for one in bins):
        share = texts.estimate_cell({**one, "value": one["share"]}, formats.percent)
        table_rows.append([name, formats.percent(one["mean"]), share, one["n"]])
    columns = ["People", "Mean probability", "Positive", "Number"]
    table = Table(caption, columns, table_rows, folded=True)
    left = texts.left_out(shown, list(kept), "The largest groups")
    return [
        Chart("curves.reliability", {"rows": rows}, caption, f"{'; '.join(said)}.", left, table)
    ]


def _decisions(rule: Json) -> Section:
    chosen = rule["rule"]
    rows = _held_out(rule)
    if chosen["kind"] == "groups":
        text = (
            f"Decisions have thresholds by group ({chosen['wanted']}), chosen on {rows}. Whoever "
            f"decides with this model needs to know {spoken(chosen['attribute'])}."
        )
    elif chosen["threshold"] is None:
        text = "The method itself decides, not a threshold on the probability."
    else:
        text = (
            "A person is predicted positive from a probability of "
            f"**{formats.percent(chosen['threshold'])}** on, chosen for {chosen['wanted']} on "
            f"{rows}; {formats.percent(rule['base_rate'])} of them are positive."
        )
    names = {name: title(name).lower() for name in ("accuracy", "balanced_accuracy")}
    names = {"selected": "predicted positive", **names}
    points = []
    for name, series in names.items():
        values = [(point["threshold"], point[name]) for point in rule["curve"]]
        points += [{"threshold": at, "series": series, "value": value} for at, value in values]
    evenly = formats.evenly(rule["curve"], 21)
    shown = [[formats.percent(point[name]) for name in ("threshold", *names)] for point in evenly]
    head = ["Threshold", *map(formats.sentence, names.values())]
    table = Table("Decisions by threshold", head, shown, folded=True)
    best = max(rule["curve"], key=lambda point: point["balanced_accuracy"])
    most = formats.percent(best["balanced_accuracy"])
    at = formats.percent(best["threshold"])
    described = f"Balanced accuracy is largest, {most}, at a threshold of {at}."
    data = {"rows": points, "marked": chosen.get("threshold")}
    chart = Chart(
        "curves.decision_curve", data, "What another threshold would give", described, table=table
    )
    return Section("decisions", "How it decides", [text, chart])
