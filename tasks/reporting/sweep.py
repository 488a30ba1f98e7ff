"""A sweep as one HTML page: what was traded for what, in words, plots and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from tasks.reporting import formats, sweep_words, words
from tasks.reporting.page import environment
from tasks.reporting.proxy_words import PROXY_METRICS
from tasks.reporting.sweep_plots import Estimate, Mark, profile_plot, tradeoff_plot

__all__ = ["render_sweep"]

ARROWS = {"higher": "higher is better \u2192", "lower": "\u2190 lower is better"}
OVERALL = ("accuracy", "balanced_accuracy", "auc", "theil_index", *PROXY_METRICS)
# Metrics of which more is better and that are no shares.
UNBOUNDED = ("smallest_growth",)


def render_sweep(
    document: Mapping[str, Any],
    *,
    created: str,
    made: Sequence[tuple[str, str]],
    files: Sequence[tuple[str, str]],
) -> str:
    """Write the report of a sweep.

    Parameters
    ----------
    document : mapping
        Content of ``tradeoff.json``.
    created : str
        ISO time.
    made : sequence of (str, str)
        How it was made: names and values.
    files : sequence of (str, str)
        Names and relative addresses of the files beside the report.

    Returns
    -------
    str
        A whole HTML document.
    """
    failed = sum(value["failed"] for value in document["values"])
    good = not failed and (document["best"] or not document["goal"])
    status = "All runs finished"
    if failed:
        status = f"{failed} of {len(document['points'])} runs failed"
    elif not good:
        status = "No value is good enough"
    return (
        environment()
        .get_template("sweep.html.j2")
        .render(
            title=f"{document['job']} over {formats.join(document['keys'])}",
            d=document,
            created=created,
            kind="passed" if good else "refused",
            symbol="\u2713" if good else "\u2715",
            status=status,
            headline=sweep_words.headline(document),
            interval=sweep_words.interval_name(document),
            plain=[name for name in document["metrics"] if "&" not in name],
            panels=_panels(document),
            profiles=_profiles(document),
            tables=_tables(document),
            named_rows=any(len(value["label"]) > 20 for value in document["values"]),
            runs=_runs(document),
            made=made,
            files=files,
        )
    )


def _better(document: Mapping[str, Any], name: str) -> str:
    return f"{document['metrics'][name]} is better"


def _estimate(document: Mapping[str, Any], value: Mapping[str, Any], name: str) -> Estimate | None:
    """A mean to plot; its interval is cut where no metric can be: below 0, and a share above 1."""
    found = value["metrics"][name]
    if found["mean"] is None or found["low"] is None:
        return None if found["mean"] is None else Estimate(found["mean"])
    share = document["metrics"][name] == "higher" and name not in UNBOUNDED
    top = 1.0 if share else math.inf
    return Estimate(found["mean"], max(found["low"], 0.0), min(found["high"], top))


def _panels(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Performance against each fairness metric; intersections of attributes stand in the tables only."""
    performance, best = document["performance"], _best(document)
    panels = []
    for number, (name, front) in enumerate(document["fronts"].items()):
        marks = []
        for index, value in enumerate(document["values"]):
            x, y = _estimate(document, value, name), _estimate(document, value, performance)
            if x is not None and y is not None:
                marks.append(Mark(value["mark"], x, y, index in front, index == best))
        if not marks or "&" in name:
            continue
        phrase = words.metric_phrase(name)
        on_front = formats.join([document["values"][index]["label"] for index in front])
        plot = tradeoff_plot(
            marks,
            uid=f"trade-{number}",
            title=f"{words.metric_phrase(performance)} against {phrase}",
            description=f"{len(marks)} values as dots with intervals; on the Pareto front: {on_front}.",
            x_axis=ARROWS[document["metrics"][name]],
            y_axis=f"{words.metric_phrase(performance)} ({_better(document, performance)})",
            limits=(document["limits"].get(name, ()), document["limits"].get(performance, ())),
        )
        panels.append({"name": name, "phrase": phrase, "plot": Markup(plot), "front": on_front})
    return panels


def _profiles(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every metric against the swept key, where that is one number."""
    key, *others = document["keys"]
    swept = [value["settings"][key] for value in document["values"]]
    if others or len(swept) < 2 or not all(type(item) in (int, float) for item in swept):
        return []
    order = sorted(range(len(swept)), key=lambda index: swept[index])
    values = [document["values"][index] for index in order]
    best = _best(document)
    panels = []
    for number, name in enumerate(document["metrics"]):
        if "&" in name:
            continue
        plot = profile_plot(
            [value["label"] for value in values],
            [_estimate(document, value, name) for value in values],
            uid=f"profile-{number}",
            title=f"{words.metric_phrase(name)} by {key}",
            description=f"The metric with its interval at {len(values)} values of {key}, in rising order.",
            axis=key,
            best=None if best is None else order.index(best),
            limits=document["limits"].get(name, ()),
        )
        phrase = f"{words.metric_phrase(name)} ({_better(document, name)})"
        panels.append({"name": name, "phrase": phrase, "plot": Markup(plot)})
    return panels


def _best(document: Mapping[str, Any]) -> int | None:
    return document["best"]["value"] if document["best"] else None


def _tables(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All metrics by what they are about, so that each table is narrow enough to read."""
    groups: dict[str, list[str]] = {}
    for name in document["metrics"]:
        stem, _, about = name.partition(".")
        if name in OVERALL:
            caption = "Overall"
        elif stem == "consistency":
            caption = words.METRICS["consistency"][0]
        else:
            caption = f"By {words.attribute(about)}" if stem != "certificate" else "Certificate"
        groups.setdefault(caption, []).append(name)
    return [
        {
            "caption": caption,
            "columns": [(name, _head(name, caption), _better(document, name)) for name in names],
        }
        for caption, names in groups.items()
    ]


def _head(name: str, caption: str) -> str:
    """A metric's column head: the caption need not be said again."""
    word = words.metric(name)
    return word.label if caption.startswith("By ") else words.metric_phrase(name)


def _runs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    verdicts = {name: text for name, (_, text) in words.GATE_STATUS.items()}
    return [
        {
            "label": document["values"][point["value"]]["label"],
            "seed": point["seed"],
            "metrics": point["metrics"],
            "gates": verdicts.get(point["verdict"], "") if point["status"] == "done" else "Failed",
            "error": point["error"],
            "seconds": sum(point["seconds"].values()),
            "cached": f"{len(point['cached'])} of {len(point['seconds'])}",
        }
        for point in document["points"]
    ]
