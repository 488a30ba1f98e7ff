"""The trade-offs in a sweep's report: which values are drawn against which metrics, and on which axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evenhand.tasks.reporting import formats, words
from evenhand.tasks.reporting.sweep_plots import Estimate, Mark, tradeoff_plot

__all__ = ["best_value", "better", "estimate", "is_of_proxies", "panels"]

Json = Mapping[str, Any]
ARROWS = {"higher": "higher is better \u2192", "lower": "\u2190 lower is better"}
# Metrics of which more is better and that are no shares, and differences of shares.
UNBOUNDED = ("smallest_growth",)
DIFFERENCES = ("disclosivity", "disclosivity_of_probability", "disclosivity.train")
# What a proxy leaves, and what it tells: held out, and on the training rows.
LEFT, TOLD, SEEN = "imbalance", "disclosivity", ".train"
# Few seeds make their intervals so wide that the dots would all lie in a corner.
PROXY_WIDENING = 1.0


def is_of_proxies(document: Json) -> bool:
    """Whether all that was swept are proxies."""
    return bool(document["performance"] == LEFT)


def best_value(document: Json) -> int | None:
    """Index of the value that is best under the limits."""
    return document["best"]["value"] if document["best"] else None


def better(document: Json, name: str) -> str:
    """Say which way a metric is better."""
    way = document["metrics"][name]
    return f"{way} is better" if way else "to compare with"


def estimate(document: Json, value: Json, name: str) -> Estimate | None:
    """Give a mean to plot; its interval is cut where no metric can be: below 0, and of shares above 1."""
    found = value["metrics"].get(name)
    if found is None or found["mean"] is None:
        return None
    if found["low"] is None:
        return Estimate(found["mean"])
    share = document["metrics"][name] == "higher" and name not in UNBOUNDED
    top = 1.0 if share or name in DIFFERENCES else math.inf
    return Estimate(found["mean"], max(found["low"], 0.0), min(found["high"], top))


def panels(document: Json) -> list[dict[str, Any]]:
    """
    Draw performance against each fairness metric; intersections of attributes stand in the tables only.

    Proxies have what they leave against what they tell, held out and on the training rows, on equal axes.

    Returns
    -------
    list of dict
        `name`, `phrase`, `plot`, the labels on the `front`, and whether lines join the values of `methods`.
    """
    marks = {name: _marks(document, name) for name in document["fronts"] if "&" not in name}
    marks = {name: found for name, found in marks.items() if found}
    axes: dict[str, Any] = {}
    if is_of_proxies(document):
        axes = {"reach": _reach(document, marks), "widening": PROXY_WIDENING}
    return [_panel(document, name, found, number, axes) for number, (name, found) in enumerate(marks.items())]


def _panel(
    document: Json, name: str, marks: Sequence[Mark], number: int, axes: Mapping[str, Any]
) -> dict[str, Any]:
    other = _other(document, name)
    phrase, against = words.metric_phrase(name), words.metric_phrase(other)
    on_front = formats.join([document["values"][index]["label"] for index in document["fronts"][name]])
    plot = tradeoff_plot(
        marks,
        uid=f"trade-{number}",
        title=f"{against} against {phrase}",
        description=f"{len(marks)} values as dots with intervals; on the Pareto front: {on_front}.",
        x_axis=ARROWS[document["metrics"][name]],
        y_axis=f"{against} ({better(document, other)})",
        limits=_limits(document, name),
        **axes,
    )
    methods = any(mark.series for mark in marks)
    return {"name": name, "phrase": phrase, "plot": Markup(plot), "front": on_front, "methods": methods}


def _other(document: Json, name: str) -> str:
    """Metric that a front trades for this one."""
    if is_of_proxies(document) and name == TOLD + SEEN:
        return LEFT + SEEN
    return str(document["performance"])


def _limits(document: Json, name: str) -> tuple[Sequence[float], Sequence[float]]:
    return document["limits"].get(name, ()), document["limits"].get(_other(document, name), ())


def _reach(
    document: Json, marks: Mapping[str, Sequence[Mark]]
) -> tuple[Sequence[Estimate], Sequence[Estimate]]:
    """All that any of the pictures must hold."""
    found = [mark for each in marks.values() for mark in each]
    limits = [_limits(document, name) for name in marks]
    return (
        [*(mark.x for mark in found), *(Estimate(limit) for across, _ in limits for limit in across)],
        [*(mark.y for mark in found), *(Estimate(limit) for _, upward in limits for limit in upward)],
    )


def _marks(document: Json, name: str) -> list[Mark]:
    """Values with both numbers; those of proxies in one series a method, where that has several."""
    front, best = document["fronts"][name], best_value(document)
    named = [_method_and_rest(value) for value in document["values"]]
    methods = [method for method, _ in named]
    by_method = is_of_proxies(document) and any(methods.count(name) > 1 for name in methods if name)
    marks = []
    for index, value in enumerate(document["values"]):
        x = estimate(document, value, name)
        y = estimate(document, value, _other(document, name))
        if x is not None and y is not None:
            method, rest = named[index] if by_method else ("", value["mark"])
            marks.append(Mark(rest, x, y, index in front, index == best, method))
    return marks


def _method_and_rest(value: Json) -> tuple[str, str]:
    """A value's method, where that is swept, and a label of what else it sets, or else of the method."""
    method, rest = "", []
    for key, text in formats.flatten(value["settings"]):
        if key in ("method", "method.name"):
            method = text
        else:
            rest.append(text)
    return method, ", ".join(rest) or method
