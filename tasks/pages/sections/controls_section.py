"""The model and its controls on the same rows, with paired intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import direction, title
from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.evaluating.control_names import SIMPLE_MITIGATIONS
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.best_control import (
    best_control,
    gain_sentence,
    left_out_columns,
)
from evenhand.tasks.pages.page_model import (
    Block,
    Cell,
    Chart,
    Documents,
    Json,
    Section,
    Table,
)
from evenhand.tasks.pages.sections.metrics_section import (
    FINDINGS,
    difference_chart,
    finding,
)
from evenhand.tasks.pages.texts import (
    ends,
    estimate_cell,
    interval_name,
    known,
    lack,
    metric_cell,
    summary_of,
)

PAGES = {"run": 5}
NEEDS = ("controls", "metrics")

NAMES = {
    "blind": "the same learner without mitigation and without the sensitive columns",
    "plain": "the same learner without mitigation",
    "reweigh": "the same learner on rows reweighed by group and label",
    "leave_out": "the same learner without the sensitive columns and without proxy features",
    "majority": "the majority-class baseline",
}
COLUMNS = {
    "plain": "Against plain: no mitigation",
    "blind": "Against blind: no mitigation, no sensitive columns",
    "reweigh": "Against reweigh: reweighed rows",
    "leave_out": "Against leave_out: also no proxy features",
    "majority": "Majority class",
}
# Controls with a simple mitigation, which have a table of their own.
SIMPLE = ("reweigh", "leave_out")
MARKS = {"better": ("\u2713 ", "passed"), "worse": ("\u2715 ", "refused")}
RELATIONS = {
    "better": "better than",
    "worse": "worse than",
    "same": "the same as",
    "unclear": "not significantly different from",
}
# Metrics that the answer names, by their first part, in this order.
ANSWERED = (
    "accuracy",
    "balanced_accuracy",
    "log_loss",
    "consistency",
    "token_gap",
    "gap_max",
    "demographic_parity_difference",
    "certificate",
)


def build(documents: Documents) -> Section:
    """The answer in words, a chart of the gains over the blind control, and all numbers."""
    content = documents["controls"]
    metrics = documents["metrics"]
    controls = content["controls"]
    interval = interval_name(metrics["settings"])
    method = documents["run"].get("job", {}).get("method", "")
    names = answered(metrics["metrics"])
    blocks: list[Block] = [*answers(controls), majority_sentence(controls, metrics)]
    compared = compared_control(controls)
    if compared is not None:
        blocks.append(_gains(controls[compared]["differences"], names, compared, interval))
    heads = control_columns(controls)
    simple = {name: heads.pop(name) for name in SIMPLE if name in heads}
    caption = "The model, and its differences from each control"
    blocks.append(_table(controls, metrics["metrics"], names, heads, caption))
    if simple:
        caption = "The model, and its differences from the controls with a simple mitigation"
        blocks.append(_table(controls, metrics["metrics"], names, simple, caption))
    blocks.append(
        f"The model is {summary_of(method)}. Blind is {NAMES['blind']}; plain is "
        f"{NAMES['plain']}. All are trained on the same rows, calibrated alike, decide by the "
        "same rule and are measured on the same rows, so the differences have paired "
        f"{interval}s. Each was trained once: another seed gives other differences."
    )
    settings = settings_sentence(controls.get("plain", {}).get("settings"), method)
    if settings:
        blocks.append(settings)
    if _has_simple_mitigation(controls):
        blocks.append(_simple_mitigations(controls))
    for name, reason in content.get("missing", {}).items():
        blocks.append(f"There is no control {name}: {reason}.")
    return Section("controls", "The model and its controls", blocks)


def settings_sentence(settings: Json | None, method: str) -> str:
    """Say in which settings the controls differ from a job of their own learner; empty if in
    none.
    """
    if not settings:
        return ""
    learner = METHODS[method].plain
    described = []
    for name, setting in settings.items():
        described.append(f"{name} {_setting(setting['value'])} ({_setting(setting['default'])})")
    return (
        f"The controls have the settings of {method}, so that only the mitigation differs. In "
        f"brackets are those that a job of {learner} has by default: {formats.join(described)}. So "
        f"plain has other numbers here than a job of {learner}, or than plain in the job of a "
        "method with other settings."
    )


def _setting(value: Any) -> str:
    """A parameter in words."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _has_simple_mitigation(controls: Mapping[str, Json]) -> bool:
    """Whether a run trained a control with a simple mitigation; older runs did not."""
    return any(name in controls for name in SIMPLE_MITIGATIONS)


def _simple_mitigations(controls: Mapping[str, Json]) -> str:
    """What the controls with a simple mitigation are, and which control is the best."""
    sentences = []
    if "reweigh" in controls:
        sentences.append(f"Reweigh is {NAMES['reweigh']}.")
    if "leave_out" in controls:
        sentences.append(f"Leave_out is {NAMES['leave_out']}.")
        columns = left_out_columns(controls)
        if columns:
            sentences.append(
                f"These are {columns}: each predicts a group with a cross-validated AUC of at "
                f"least {controls['leave_out']['threshold']:.3g} on the training rows, where the "
                "threshold was chosen."
            )
        else:
            sentences.append("No proxy feature was left out, so it is the same as blind.")
    sentences.append(
        "The metrics that decide are accuracy, balanced accuracy, consistency, token gaps, and the "
        "gaps between groups in selection rates and in error rates. The best control has the "
        "largest mean of the first two less the mean of the others, of consistency 1 less it."
    )
    return " ".join(sentences)


def _gains(differences: Json, names: Sequence[str], compared: str, interval: str) -> Chart:
    """All differences in one chart: the side on which the model is better is to the right."""
    drawn = []
    for name in names:
        if direction(name) is not None and differences.get(name, {}).get("low") is not None:
            drawn.append(name)
    heading = f"How much better than {compared} the model is"
    caption = "Gains to the right: of measures where less is better the sign is changed."
    return difference_chart(heading, differences, drawn, interval, "higher", caption=caption)


def answered(metrics: Mapping[str, Any]) -> list[str]:
    """Names of the metrics that the answer is about, in order, those of crossed attributes left
    out.
    """
    names = [name for name in metrics if name.partition(".")[0] in ANSWERED and "&" not in name]
    return sorted(names, key=lambda name: ANSWERED.index(name.partition(".")[0]))


def answers(controls: Mapping[str, Json]) -> list[str]:
    """Say, compared with the blind and the plain control, what is better, what is worse, and what
    does not differ significantly; and compared with the best control, if there are controls with a
    simple mitigation.
    """
    sentences = []
    best = compared_best(controls)
    if best is not None:
        sentences.append(_best_answer(controls, best))
    return [" ".join([*sentences, *_baseline_answers(controls, best)])]


def has_simple_mitigation(controls: Mapping[str, Json]) -> bool:
    """Whether a run has controls with a simple mitigation; those without mitigation have none."""
    return any(name in controls for name in SIMPLE)


def compared_best(controls: Mapping[str, Json]) -> str | None:
    """The best control, where there are controls with a simple mitigation."""
    if not _has_simple_mitigation(controls):
        return None
    return best_control(controls)


def compared_control(controls: Mapping[str, Json]) -> str | None:
    """The control that the chart compares with: the best, or blind, or plain."""
    best = compared_best(controls)
    if best is not None:
        return best
    return next((name for name in ("blind", "plain") if not _is_method(controls, name)), None)


def _best_answer(controls: Mapping[str, Json], best: str) -> str:
    """Say what the model gains over the best control, or that it gains nothing."""
    described = f"{best} ({NAMES[best]})"
    if best == "leave_out":
        described = f"leave_out (without {left_out_columns(controls)})"
    sentence = gain_sentence(controls, described)
    if not sentence:
        differences = verdict(controls[best]["differences"])
        sentence = f"Compared with the best control, {described}: {differences}."
    if "reweigh" in controls and _is_method(controls, "reweigh"):
        sentence += " The method reweighs the rows itself: it is its own control reweigh."
    return sentence


def _baseline_answers(controls: Mapping[str, Json], best: str | None) -> list[str]:
    """Sentences on the blind and the plain control, but not on the one that is the best."""
    if _is_method(controls, "plain") and _is_method(controls, "blind"):
        return [
            "The method has no mitigation, and no sensitive column is a model input: the model "
            "is its own control."
        ]
    if controls["blind"]["same_as"] == "plain":
        blind_too = "No sensitive column is a model input, so plain is blind too."
        if best == "plain":
            return [blind_too]
        sentence = "No sensitive column is a model input: the model is its own blind control."
        if not _is_method(controls, "blind"):
            sentence = (
                f"Compared with blind and plain: {verdict(controls['blind']['differences'])}."
            )
        return [f"{sentence} {blind_too}"]
    same_as_method = {
        "blind": "No sensitive column is a model input: the model is its own blind control.",
        "plain": "The method has no mitigation: the model is its own plain control.",
    }
    sentences = []
    for name in ("blind", "plain"):
        if _is_method(controls, name):
            sentences.append(same_as_method[name])
        elif name != best:
            sentences.append(f"Compared with {name}: {verdict(controls[name]['differences'])}.")
    return sentences


def verdict(differences: Mapping[str, Json], listed: Sequence[str] | None = None) -> str:
    """Say in which metrics, those of the answer or those `listed`, a model differs by more than
    chance.
    """
    candidates = answered(differences) if listed is None else listed
    names = [name for name in candidates if direction(name) is not None]
    if all(differences[name]["low"] is None for name in names):
        return "there are no intervals, so no difference is known to be significant"
    by_finding: dict[str, list[str]] = {}
    for name in names:
        label = f"{title(name)[0].lower()}{title(name)[1:]}"
        text = f"{label} ({formats.change(differences[name]['value'])})"
        by_finding.setdefault(finding(name, differences[name]), []).append(text)
    parts = []
    for kind in ("better", "worse"):
        if kind in by_finding:
            parts.append(f"**{kind}** in {formats.shortlist(by_finding[kind])}")
    if not parts:
        return f"**{FINDINGS['unclear']}**"
    return f"{', and '.join(parts)}; in the other measures {FINDINGS['unclear']}"


def _is_method(controls: Mapping[str, Json], name: str) -> bool:
    return controls[name]["same_as"] == "method"


def majority_sentence(controls: Mapping[str, Json], metrics: Json) -> str:
    """Compare the accuracy with that of the majority-class baseline; empty without either."""
    accuracy = metrics["metrics"]["accuracy"]["value"]
    of_majority = controls["majority"]["metrics"]["accuracy"]
    if accuracy is None or of_majority is None:
        return ""
    difference = controls["majority"]["differences"]["accuracy"]
    compared = "against"
    if difference["low"] is not None and difference["low"] <= 0.0 <= difference["high"]:
        compared = "not significantly different from"
    text = (
        f"The model is right about {formats.percent(accuracy)} of people, {compared} "
        f"{formats.percent(of_majority)} for the majority-class baseline."
    )
    if accuracy < of_majority:
        text += " Of all decision rules, `max_accuracy` makes the fewest errors."
    return text


def _table(
    controls: Mapping[str, Json],
    metrics: Mapping[str, Any],
    names: Sequence[str],
    columns: Mapping[str, str],
    caption: str,
) -> Table:
    """All numbers of the answer: the model's, each control's, and the model's differences."""
    rows = []
    for name in names:
        row: list[Any] = [metric_cell(name), estimate_cell(ends(metrics[name]))]
        for control in columns:
            if control == "majority":
                row.append(known(controls[control]["metrics"].get(name), why="not measured"))
            else:
                row.append(compared_cell(name, controls[control]))
        rows.append(row)
    return Table(caption, ["Metric", "This model", *columns.values()], rows)


def control_columns(controls: Mapping[str, Json]) -> dict[str, str]:
    """Heads of the columns of the controls that differ from the model and from one another, by
    their keys.
    """
    columns = {}
    for name, text in COLUMNS.items():
        if name in controls and controls[name]["same_as"] is None:
            columns[name] = text
    return columns


def compared_cell(name: str, control: Json) -> Cell:
    """The model's difference from a control, with what follows from it, and the control's value."""
    value = control["metrics"].get(name)
    if value is None:
        return lack("not measured")
    difference = control["differences"].get(name)
    if difference is None or difference["value"] is None:
        return lack("not compared", formats.number(value))
    if difference["low"] is None:
        return Cell(formats.change(difference["value"]), (f"from {formats.number(value)}",))
    kind = finding(name, difference)
    interval = formats.interval(difference["low"], difference["high"], formats.change)
    symbol, colour = MARKS.get(kind, ("", ""))
    relation = RELATIONS.get(kind, "differs from")
    follows = f"{symbol}{relation} {formats.number(value)}"
    return Cell(formats.change(difference["value"]), (interval, follows), kind=colour)
