"""The best of a run's controls on the metrics that decide, and what the model gains over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from evenhand.fairlib.catalogue import better, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Json
from evenhand.tasks.pages.sections.metrics_section import finding

TRAINED = ("blind", "plain", "reweigh", "leave_out")
# The metrics that decide, by their first part.
PERFORMANCE = ("accuracy", "balanced_accuracy")
DISPARITY = ("consistency", "token_gap", "demographic_parity_difference", "gap_max")
CERTIFICATES = ("certificate.drf", "certificate.flips")
# Numbers of controls that are printed one by one.
MOST_COLUMNS = 4


def distinct_controls(controls: Mapping[str, Json]) -> list[str]:
    """Trained controls that are neither the model nor another control."""
    names = []
    for name in TRAINED:
        if name in controls and controls[name]["same_as"] is None:
            names.append(name)
    return names


def best_control(controls: Mapping[str, Json]) -> str | None:
    """The control with the largest mean performance less its mean disparity.

    Both are means of the metrics that decide and that all controls have; the disparity of a
    consistency is 1 less it. None without a trained control or such a metric.
    """
    names = distinct_controls(controls)
    if not names:
        return None
    metrics = deciding_metrics(controls, names)
    if not metrics:
        return None
    # of equal ones the first
    return max(names, key=lambda name: _standing(controls[name]["metrics"], metrics))


def deciding_metrics(controls: Mapping[str, Json], names: Sequence[str]) -> list[str]:
    """Metrics that decide and that all these controls have, those of crossed attributes left
    out.
    """
    metrics = []
    for metric in controls[names[0]]["metrics"]:
        if metric.partition(".")[0] not in (*PERFORMANCE, *DISPARITY) or "&" in metric:
            continue
        values = [controls[name]["metrics"].get(metric) for name in names]
        if None not in values:
            metrics.append(metric)
    return metrics


def _standing(values: Mapping[str, float], metrics: Sequence[str]) -> float:
    performance = [0.0]
    disparity = [0.0]
    measured = {metric: values[metric] for metric in metrics}
    if any(metric in PERFORMANCE for metric in metrics):
        performance = [value for metric, value in measured.items() if metric in PERFORMANCE]
    if any(metric not in PERFORMANCE for metric in metrics):
        disparity = []
        for metric, value in measured.items():
            if metric.startswith("consistency."):
                disparity.append(1.0 - value)
            elif metric not in PERFORMANCE:
                disparity.append(value)
    return fmean(performance) - fmean(disparity)


def gains(differences: Mapping[str, Json], metrics: Sequence[str]) -> list[str]:
    """Metrics that decide in which the model is significantly better."""
    return [
        metric
        for metric in metrics
        if metric in differences and finding(metric, differences[metric]) == "better"
    ]


def without_gain(controls: Mapping[str, Json]) -> list[str]:
    """Controls over which the model gains nothing in the metrics that decide, the best first.

    Empty where the differences have no intervals.
    """
    best = best_control(controls)
    if best is None:
        return []
    names = distinct_controls(controls)
    metrics = deciding_metrics(controls, names)
    names.sort(key=lambda name: name != best)
    beaten_by_none = []
    for name in names:
        differences = controls[name]["differences"]
        has_intervals = any(
            differences.get(metric, {}).get("low") is not None for metric in metrics
        )
        if has_intervals and not gains(differences, metrics):
            beaten_by_none.append(name)
    return beaten_by_none


def gain_sentence(controls: Mapping[str, Json], described: str) -> str:
    """Say that the model gains nothing over the best control, which is `described`; empty if it
    gains something.
    """
    names = without_gain(controls)
    best = best_control(controls)
    if best is None or best not in names:
        return ""
    metrics = deciding_metrics(controls, distinct_controls(controls))
    differences = controls[best]["differences"]
    worse = []
    for metric in _worse_metrics(controls[best], metrics):
        worse.append(f"{_within(title(metric))} ({formats.change(differences[metric]['value'])})")
    text = (
        f"The model **gains nothing** over the best control, {described}: no metric that decides "
        "is significantly better"
    )
    if worse:
        text += f", and it is **worse** in {formats.shortlist(worse)}"
    text += _certificates(controls[best])
    sentences = [_other_control(name, controls, metrics) for name in names[1:]]
    if sentences:
        # with their figures they are too long for a list
        is_long = any("," in other for other in sentences)
        listed = "; nor over ".join(sentences) if is_long else formats.join(sentences)
        text += f". Nor does it over {listed}"
    return f"{text}."


def _worse_metrics(control: Json, metrics: Sequence[str]) -> list[str]:
    """Metrics in which the model is significantly worse than a control."""
    worse = []
    for metric in metrics:
        difference = control["differences"].get(metric)
        if difference is not None and finding(metric, difference) == "worse":
            worse.append(metric)
    return worse


def _other_control(name: str, controls: Mapping[str, Json], metrics: Sequence[str]) -> str:
    """Name a control, and say in what it is better than the model, such as ``leave_out (without
    club), which is better in demographic parity difference by gender (0.037, the model 0.134)``.
    """
    described = name
    columns = left_out_columns(controls)
    if name == "leave_out" and columns:
        described = f"leave_out (without {columns})"
    control = controls[name]
    better_parts = []
    for metric in _worse_metrics(control, metrics):
        value = control["metrics"][metric]
        of_model = value + control["differences"][metric]["value"]
        values = f"{formats.number(value)}, the model {formats.number(of_model)}"
        better_parts.append(f"{_within(title(metric))} ({values})")
    if not better_parts:
        return described
    return f"{described}, which is better in {formats.shortlist(better_parts)}"


def _within(name: str) -> str:
    """A title within a sentence."""
    return f"{name[0].lower()}{name[1:]}"


def _certificates(control: Json) -> str:
    """Certificates that are better than a control's, which have no paired interval."""
    parts = []
    for metric in CERTIFICATES:
        difference = control["differences"].get(metric)
        value = control["metrics"].get(metric)
        if difference is None or value is None or difference["value"] is None:
            continue
        gain = difference["value"]
        if better(metric) == "lower":
            gain = -gain
        if gain > 0:
            label = _within(title(metric))
            changed = formats.number(value + difference["value"])
            parts.append(f"{label} is {changed} instead of {formats.number(value)}")
    if not parts:
        return ""
    return f"; without an interval, {formats.join(parts)}"


def left_out_columns(controls: Mapping[str, Json]) -> str:
    """Name the columns that `leave_out` does without, in addition to the sensitive ones."""
    columns = controls.get("leave_out", {}).get("columns") or []
    return formats.shortlist([f"`{name}`" for name in columns], MOST_COLUMNS)
